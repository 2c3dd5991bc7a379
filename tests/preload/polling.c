/* polling.c - waiting for descriptors that are listed in memory that is not there. */
#include "check.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <time.h>

enum { MANY = 500 };

static int ends[2];

static void polled(void)
{
    struct pollfd *list = malloc(MANY * sizeof *list + 8 * KIB);
    for (int how = 0; how < 2; how++) {
        for (int i = 0; i < MANY; i++)
            list[i] = (struct pollfd){ends[i % 2], i % 2 ? POLLOUT : POLLIN, 0};
        struct timespec *time = malloc(8 * KIB);
        *time = (struct timespec){1, 0};
        PUSH_OUT(list, MANY * sizeof *list);
        CHECK_IS(MANY, how ? ppoll(list, MANY, time, NULL) : poll(list, MANY, 1000));
        for (int i = 0; i < MANY; i++)
            CHECK(list[i].revents == (i % 2 ? POLLOUT : POLLIN));
        free(time);
    }
    free(list);
}

static void selected(void)
{
    fd_set *in = malloc(8 * KIB), *out = malloc(8 * KIB);
    struct timeval *time = malloc(8 * KIB);
    for (int how = 0; how < 2; how++) {
        FD_ZERO(in);
        FD_ZERO(out);
        FD_SET(ends[0], in);
        FD_SET(ends[1], out);
        *time = (struct timeval){1, 0};
        PUSH_OUT(in, PAGE);
        int most = (ends[0] > ends[1] ? ends[0] : ends[1]) + 1;
        struct timespec one = {1, 0};
        CHECK_IS(2, how ? pselect(most, in, out, NULL, &one, NULL) : select(most, in, out, NULL, time));
        CHECK(FD_ISSET(ends[0], in) && FD_ISSET(ends[1], out));
    }
    free(in);
    free(out);
    free(time);
}

static void event_polled(void)
{
    int set = epoll_create1(0);
    struct epoll_event *event = malloc(8 * KIB), *events = malloc(MANY * sizeof *events);
    memset(events, 0, MANY * sizeof *events);
    *event = (struct epoll_event){.events = EPOLLIN, .data.u64 = 77};
    PUSH_OUT(event, PAGE);
    CHECK(set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, ends[0], event) == 0);
    PUSH_OUT(events, PAGE);
    CHECK_IS(1, epoll_wait(set, events, MANY, 1000));
    CHECK(events[0].data.u64 == 77);
    PUSH_OUT(events, PAGE);
    sigset_t *mask = malloc(8 * KIB);
    sigfillset(mask);
    push_out();
    CHECK_IS(1, epoll_pwait(set, events, MANY, 1000, mask));
    CHECK(events[0].data.u64 == 77);
    close(set);
    free(mask);
    free(event);
    free(events);
}

static void counted(void)
{
    int fd = eventfd(5, 0);
    uint64_t *value = malloc(8 * KIB);
    *value = 0;
    PUSH_OUT(value, PAGE);
    CHECK(fd >= 0 && eventfd_read(fd, value) == 0 && *value == 5);
    PUSH_OUT(value, PAGE);
    CHECK(write(fd, value, 8) == 8);
    PUSH_OUT(value, PAGE);
    CHECK(read(fd, value, 8) == 8 && *value == 5);
    close(fd);
    free(value);
}

static void slept(void)
{
    struct timespec *time = malloc(8 * KIB), *left = malloc(8 * KIB);
    *time = (struct timespec){0, 1000};
    memset(left, 0, 8 * KIB);
    PUSH_OUT(time, PAGE);
    CHECK(nanosleep(time, left) == 0);
    PUSH_OUT(time, PAGE);
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, time, left) == 0);
    PUSH_OUT(left, PAGE);
    CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, left) == 0 && left->tv_nsec > 0);
    PUSH_OUT(left, PAGE);
    CHECK(clock_gettime(CLOCK_MONOTONIC, left) == 0 && left->tv_sec > 0);
    free(time);
    free(left);
}

int main(void)
{
    begin();
    if (pipe(ends) != 0 || write(ends[1], "x", 1) != 1)
        return 1;
    RUN(polled);
    RUN(selected);
    RUN(event_polled);
    RUN(counted);
    RUN(slept);
    return tests_failed();
}

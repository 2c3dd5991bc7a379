/* storm_sleepers.h - threads that sleep in the kernel, each in another call, with what the call uses in a block */
#ifndef STORM_SLEEPERS_H
#define STORM_SLEEPERS_H

#include "storm_blocks.h"

#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

enum { MESSAGE = 3000, SLEEPER_BYTES = 40 * 4096 };

/* What lies in the block, each in pages of its own. */
struct bed {
    _Alignas(4096) sem_t semaphore;
    _Alignas(4096) pthread_mutex_t mutex;
    pthread_cond_t condition;
    int posted;
    _Alignas(4096) struct epoll_event events[8];
    _Alignas(4096) struct pollfd wanted;
    _Alignas(4096) fd_set set;
    _Alignas(4096) struct timespec time[2];
    _Alignas(4096) sigset_t signals;
    _Alignas(4096) siginfo_t info;
    _Alignas(4096) struct iovec parts[2];
    struct msghdr header;
    _Alignas(4096) int ready;
    char before[3000];
    char message[MESSAGE]; /* over the end of a page */
};
_Static_assert(sizeof(struct bed) <= SLEEPER_BYTES, "a bed fits");

struct sleeper {
    struct worker worker; /* for its number in messages */
    unsigned kind;
    int ends[2];
    int epoll;
    struct bed *bed;
    pthread_mutex_t lock; /* of who wakes it */
    uint32_t sent, came;
    atomic_bool is_refused; /* it sleeps no more */
};

/* Waits until bytes can be read, or not at all. Less than 0 and errno if interrupted. */
static int wait_for_bytes(struct sleeper *s)
{
    struct bed *bed = s->bed;
    int status = 0;
    switch (s->kind) {
    case 4:
        return epoll_wait(s->epoll, bed->events, 8, -1);
    case 5:
        bed->wanted = (struct pollfd){s->ends[0], POLLIN, 0};
        return poll(&bed->wanted, 1, -1);
    case 6:
        bed->wanted = (struct pollfd){s->ends[0], POLLIN, 0};
        bed->time[0] = (struct timespec){30, 0};
        sigemptyset(&bed->signals);
        return ppoll(&bed->wanted, 1, &bed->time[0], &bed->signals);
    case 7:
        FD_ZERO(&bed->set);
        FD_SET(s->ends[0], &bed->set);
        return select(s->ends[0] + 1, &bed->set, NULL, NULL, NULL);
    case 8:
        return sem_wait(&bed->semaphore);
    case 9:
        pthread_mutex_lock(&bed->mutex);
        while (bed->posted == 0)
            pthread_cond_wait(&bed->condition, &bed->mutex);
        bed->posted--;
        return pthread_mutex_unlock(&bed->mutex);
    case 10:
        for (int laps = 0; laps < 10000; laps++) {
            bed->time[0] = (struct timespec){0, 15000000};
            if (nanosleep(&bed->time[0], &bed->time[1]) != 0 && errno != EINTR)
                return -1;
            if ((status = ioctl(s->ends[0], FIONREAD, &bed->ready)) != 0 || bed->ready > 0)
                return status;
        }
        return 0;
    case 11:
        sigemptyset(&bed->signals);
        sigaddset(&bed->signals, SIGRTMIN + 3);
        status = sigwaitinfo(&bed->signals, &bed->info);
        MUST(status < 0 || (status == SIGRTMIN + 3 && bed->info.si_signo == status));
        return status;
    default:
        return 0;
    }
}

static ssize_t receive(struct sleeper *s, char *to, size_t bytes)
{
    struct bed *bed = s->bed;
    switch (s->kind) {
    case 1:
        bed->parts[0] = (struct iovec){to, bytes / 2}, bed->parts[1] = (struct iovec){to + bytes / 2, bytes - bytes / 2};
        return readv(s->ends[0], bed->parts, 2);
    case 2:
        return recv(s->ends[0], to, bytes, MSG_WAITALL);
    case 3:
        bed->parts[0] = (struct iovec){to, bytes};
        bed->header = (struct msghdr){.msg_iov = bed->parts, .msg_iovlen = 1};
        return recvmsg(s->ends[0], &bed->header, 0);
    default:
        return read(s->ends[0], to, bytes);
    }
}

static uint32_t sleeps_no_more(struct sleeper *s)
{
    s->is_refused = true;
    return 0;
}

/* Receives a message, and tells the key of its bytes; 0 is the end. */
static uint32_t next_message(struct sleeper *s)
{
    struct block b = {.memory = s->bed->message, .bytes = MESSAGE};
    while (wait_for_bytes(s) < 0)
        if (errno != EINTR && !refused("to wait"))
            return sleeps_no_more(s);
    for (size_t done = 0; done < MESSAGE;) {
        ssize_t got = receive(s, b.memory + done, MESSAGE - done);
        MUST(got != 0);
        if (got > 0)
            done += (size_t)got;
        else if (errno != EINTR && !refused("to receive a message"))
            return sleeps_no_more(s);
    }
    uint64_t first;
    memcpy(&first, b.memory, 8);
    b.key = (uint32_t)(first >> 32);
    with_block(&b, 0, MESSAGE, "a message");
    return b.key;
}

static void *sleep_in_kernel(void *argument)
{
    struct sleeper *s = argument;
    self = &s->worker;
    if (s->kind == 11) {
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, SIGRTMIN + 3);
        MUST(pthread_sigmask(SIG_BLOCK, &one, NULL) == 0);
    }
    while (next_message(s) != 0) {
        s->came++, self->step++;
        struct block before = {.memory = s->bed->before, .bytes = sizeof s->bed->before, .key = 1};
        verify(&before, "beside a message");
    }
    return NULL;
}

/* Sends it a message. */
static void wake(struct sleeper *s, uint32_t key)
{
    char bytes[MESSAGE];
    struct block b = {.memory = bytes, .bytes = MESSAGE, .key = key};
    with_block(&b, 0, MESSAGE, NULL);
    MUST(pthread_mutex_lock(&s->lock) == 0);
    if (s->kind == 8) {
        MUST(sem_post(&s->bed->semaphore) == 0);
    } else if (s->kind == 9) {
        MUST(pthread_mutex_lock(&s->bed->mutex) == 0);
        s->bed->posted++;
        MUST(pthread_cond_signal(&s->bed->condition) == 0 && pthread_mutex_unlock(&s->bed->mutex) == 0);
    } else if (s->kind == 11) {
        pthread_kill(s->worker.thread, SIGRTMIN + 3);
    }
    for (size_t done = 0; done < MESSAGE && !s->is_refused;) {
        ssize_t sent = write(s->ends[1], bytes + done, MESSAGE - done);
        MUST(sent > 0 || errno == EINTR);
        done += sent > 0 ? (size_t)sent : 0;
    }
    s->sent++;
    MUST(pthread_mutex_unlock(&s->lock) == 0);
}

/* Puts a thread to sleep; false if there is no room for it. */
static bool put_to_sleep(struct sleeper *s, unsigned number, unsigned kind)
{
    s->worker.number = 20 + number, s->kind = kind;
    pthread_mutex_init(&s->lock, NULL);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, s->ends) != 0 || (s->epoll = epoll_create1(0)) < 0)
        return refused("a pair of sockets");
    void *memory = mmap(NULL, SLEEPER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return refused("a bed");
    s->bed = memory;
    struct block before = {.memory = s->bed->before, .bytes = sizeof s->bed->before, .key = 1};
    with_block(&before, 0, before.bytes, NULL);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = s->ends[0]};
    MUST(epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->ends[0], &event) == 0 && sem_init(&s->bed->semaphore, 0, 0) == 0);
    MUST(pthread_mutex_init(&s->bed->mutex, NULL) == 0 && pthread_cond_init(&s->bed->condition, NULL) == 0);
    return pthread_create(&s->worker.thread, NULL, sleep_in_kernel, s) == 0 || refused("a thread");
}

static void end_sleep(struct sleeper *s)
{
    wake(s, 0);
    MUST(pthread_join(s->worker.thread, NULL) == 0);
    if (s->came + 1 != s->sent && !may_be_refused && !may_lose_flash)
        wrong("sleeper of kind %u has %u messages of %u", s->kind, s->came, s->sent);
    MUST(munmap(s->bed, SLEEPER_BYTES) == 0 || may_lose_flash);
    close(s->ends[0]), close(s->ends[1]), close(s->epoll);
}

#endif

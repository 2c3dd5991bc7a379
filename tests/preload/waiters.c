/* Calls by instructions of the program's own in which threads wait while its memory becomes a heap's: nobody was told of their buffers. */
#include "check.h"
#include "raw.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#ifdef __x86_64__

enum { BYTES = 300 * 1000 };
enum { WAITERS = 6 };

/* What a thread hands to the kernel, each on a page of its own. */
struct waiter {
    pthread_t thread;
    int ends[2];
    char *buffer;       /* bytes, events or a status */
    struct msghdr *message;
    struct iovec *list;
    long answer;
    volatile pid_t id;
};
static struct waiter waiters[WAITERS];

static long wait_as(int n, struct waiter *self)
{
    switch (n) {
    case 0: return RAW3(SYS_read, self->ends[0], self->buffer + PAGE, BYTES - PAGE);
    case 1: return RAW3(SYS_readv, self->ends[0], self->list, 2);
    case 2: return RAW3(SYS_recvmsg, self->ends[0], self->message, 0);
    case 3: return raw(SYS_recvfrom, self->ends[0], (long)self->buffer, BYTES, 0, 0, 0);
    case 4: {
        int epoll = epoll_create1(0);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = self->ends[0]};
        epoll_ctl(epoll, EPOLL_CTL_ADD, self->ends[0], &event);
        long answer = RAW4(SYS_epoll_wait, epoll, self->buffer, 8, -1);
        close(epoll);
        return answer;
    }
    default: return RAW3(SYS_poll, self->buffer, 1, -1);
    }
}

static void *waits(void *argument)
{
    struct waiter *self = argument;
    self->id = (pid_t)syscall(SYS_gettid);
    self->answer = wait_as((int)(self - waiters), self);
    return NULL;
}

/* Whether the thread is in the kernel, asleep. */
static bool is_asleep(const struct waiter *waiter)
{
    char name[64], text[256];
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", (int)waiter->id);
    int fd = open(name, O_RDONLY);
    ssize_t count = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[count > 0 ? count : 0] = '\0';
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' && end[2] == 'S';
}

static void begin_to_wait(void)
{
    for (int n = 0; n < WAITERS; n++) {
        struct waiter *self = &waiters[n];
        self->buffer = malloc(BYTES);
        self->message = malloc(BYTES);
        self->list = malloc(BYTES);
        bool ready = socketpair(AF_UNIX, SOCK_STREAM, 0, self->ends) == 0 && self->buffer && self->message && self->list;
        if (ready) {
            memset(self->buffer, 0, BYTES);
            self->list[0] = (struct iovec){self->buffer, 1000};
            self->list[1] = (struct iovec){self->buffer + 1000, BYTES - 1000};
            *self->message = (struct msghdr){.msg_iov = self->list, .msg_iovlen = 2, .msg_flags = -1};
            *(struct pollfd *)self->buffer =
                n == 5 ? (struct pollfd){.fd = self->ends[0], .events = POLLIN} : (struct pollfd){0};
            ready = pthread_create(&self->thread, NULL, waits, self) == 0;
        }
        if (!ready) {
            puts("FAIL begin_to_wait");
            exit(1);
        }
        for (int laps = 0; laps < 1000 && (self->id == 0 || !is_asleep(self)); laps++)
            usleep(1000);
    }
}

static void calls_that_wait(void)
{
    char *out = filled(BYTES, 30);
    push_out();
    for (int n = 0; n < WAITERS; n++) {
        struct waiter *self = &waiters[n];
        CHECK_IS(5000, write(self->ends[1], out, 5000));
        CHECK_IS(0, pthread_join(self->thread, NULL));
        CHECK_IS(n < 4 ? 5000 : 1, self->answer);
    }
    CHECK(is_filled(waiters[0].buffer + PAGE, 5000, 30));
    CHECK(is_filled(waiters[1].buffer, 5000, 30));
    CHECK(is_filled(waiters[2].buffer, 5000, 30));
    CHECK_IS(0, waiters[2].message->msg_flags);
    CHECK(is_filled(waiters[3].buffer, 5000, 30));
    CHECK_IS(waiters[4].ends[0], ((struct epoll_event *)waiters[4].buffer)->data.fd);
    CHECK_IS(POLLIN, ((struct pollfd *)waiters[5].buffer)->revents);
    free(out);
}

int main(void)
{
    begin_to_wait();
    begin();
    RUN(calls_that_wait);
    return tests_failed();
}

#else

int main(void)
{
    puts("ok: such calls are caught on x86-64 alone");
    return 0;
}

#endif

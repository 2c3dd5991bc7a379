/* takeover.c - memory that becomes a heap's while threads sleep in the kernel
 *
 * The kernel holds the address of a buffer for as long as a call lasts. Each thread here waits in another call, with its buffer
 * in a large block; the main thread then allocates until the memory no longer fits, uses all of it, and wakes them.
 */
#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

enum { BLOCKS = 48, MESSAGE = 4096, ROUNDS = 3 };

struct sleeper {
    const char *name;
    /* Waits for a message from ends[0], and tells how many bytes came to buffer; less than 0 on an error. */
    long (*wait)(struct sleeper *self);
    int ends[2];
    int epoll;
    char *block;
    char *buffer;
    long came;
    int error;
    pthread_t thread;
};

static long by_read(struct sleeper *s)
{
    return read(s->ends[0], s->buffer, MESSAGE);
}

static long by_readv(struct sleeper *s)
{
    struct iovec parts[] = {{s->buffer, 100}, {s->buffer + 100, MESSAGE - 100}};
    return readv(s->ends[0], parts, 2);
}

static long by_recv(struct sleeper *s)
{
    return recv(s->ends[0], s->buffer, MESSAGE, MSG_WAITALL);
}

static long by_recvmsg(struct sleeper *s)
{
    /* The list of parts and the header are in the block too. */
    struct iovec *parts = (struct iovec *)(s->block + 2 * PAGE);
    struct msghdr *header = (struct msghdr *)(s->block + 3 * PAGE);
    *parts = (struct iovec){s->buffer, MESSAGE};
    *header = (struct msghdr){.msg_iov = parts, .msg_iovlen = 1};
    return recvmsg(s->ends[0], header, 0);
}

static long by_epoll(struct sleeper *s)
{
    struct epoll_event *events = (struct epoll_event *)(s->block + 5 * PAGE);
    int ready = epoll_wait(s->epoll, events, 16, -1);
    if (ready != 1 || events[0].data.fd != s->ends[0])
        return -1;
    return read(s->ends[0], s->buffer, MESSAGE);
}

static long by_poll(struct sleeper *s)
{
    struct pollfd *wanted = (struct pollfd *)(s->block + 7 * PAGE);
    *wanted = (struct pollfd){s->ends[0], POLLIN, 0};
    if (poll(wanted, 1, -1) != 1 || wanted->revents != POLLIN)
        return -1;
    return read(s->ends[0], s->buffer, MESSAGE);
}

static long by_select(struct sleeper *s)
{
    fd_set *wanted = (fd_set *)(s->block + 9 * PAGE);
    FD_ZERO(wanted);
    FD_SET(s->ends[0], wanted);
    if (select(s->ends[0] + 1, wanted, NULL, NULL, NULL) != 1 || !FD_ISSET(s->ends[0], wanted))
        return -1;
    return read(s->ends[0], s->buffer, MESSAGE);
}

/* A lock in the block: the kernel sleeps at its address. */
static long by_condition(struct sleeper *s)
{
    sem_t *semaphore = (sem_t *)(s->block + 11 * PAGE);
    if (sem_wait(semaphore) != 0)
        return -1;
    return read(s->ends[0], s->buffer, MESSAGE);
}

static struct sleeper sleepers[] = {
    {.name = "read", .wait = by_read},     {.name = "readv", .wait = by_readv},
    {.name = "recv", .wait = by_recv},     {.name = "recvmsg", .wait = by_recvmsg},
    {.name = "epoll", .wait = by_epoll},   {.name = "poll", .wait = by_poll},
    {.name = "select", .wait = by_select}, {.name = "semaphore", .wait = by_condition},
};
enum { SLEEPERS = sizeof sleepers / sizeof *sleepers };

static void *sleep_in_kernel(void *argument)
{
    struct sleeper *s = argument;
    errno = 0;
    s->came = s->wait(s);
    s->error = errno;
    return NULL;
}

static void wake(struct sleeper *s, uint64_t seed)
{
    char message[MESSAGE];
    fill(message, sizeof message, seed);
    if (s->wait == by_condition)
        sem_post((sem_t *)(s->block + 11 * PAGE));
    if (write(s->ends[1], message, sizeof message) != sizeof message)
        end_test("%s: cannot be woken", s->name);
}

static void calls_under_way_come_back_right(void)
{
    for (size_t n = 0; n < SLEEPERS; n++) {
        struct sleeper *s = &sleepers[n];
        CHECK_IS(0, socketpair(AF_UNIX, SOCK_STREAM, 0, s->ends));
        s->block = malloc(MIB / 4);
        CHECK(s->block != NULL);
        /* The buffer lies over the end of a page, of which nothing was touched yet. */
        s->buffer = s->block + 20 * PAGE + 3000;
        s->epoll = epoll_create1(0);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = s->ends[0]};
        CHECK_IS(0, epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->ends[0], &event));
        CHECK_IS(0, sem_init((sem_t *)(s->block + 11 * PAGE), 0, 0));
        CHECK_IS(0, pthread_create(&s->thread, NULL, sleep_in_kernel, s));
    }
    usleep(200000);
    char *blocks[BLOCKS];
    for (uint64_t n = 0; n < BLOCKS; n++) {
        blocks[n] = malloc(MIB);
        CHECK(blocks[n] != NULL);
        fill(blocks[n], MIB, n);
    }
    for (int round = 0; round < ROUNDS; round++)
        for (uint64_t n = 0; n < BLOCKS; n++)
            CHECK(is_filled(blocks[n], MIB, n));
    for (size_t n = 0; n < SLEEPERS; n++)
        wake(&sleepers[n], 1000 + n);
    for (size_t n = 0; n < SLEEPERS; n++)
        pthread_join(sleepers[n].thread, NULL);
    for (size_t n = 0; n < SLEEPERS; n++) {
        struct sleeper *s = &sleepers[n];
        if (s->came != MESSAGE || !is_filled(s->buffer, MESSAGE, 1000 + n))
            end_test("%s came back wrong: %ld, %s", s->name, s->came, strerror(s->error));
    }
    for (uint64_t n = 0; n < BLOCKS; n++) {
        CHECK(is_filled(blocks[n], MIB, n));
        free(blocks[n]);
    }
}

/* What a thread does with its buffers when the memory is a heap's: all pins have ended. */
static void their_buffers_can_be_used_again(void)
{
    for (size_t n = 0; n < SLEEPERS; n++) {
        struct sleeper *s = &sleepers[n];
        memset(s->block, (int)n, MIB / 4);
        s->wait = by_recv;
        wake(s, 7);
        CHECK_IS(MESSAGE, recv(s->ends[0], s->buffer, MESSAGE, MSG_WAITALL));
        CHECK(is_filled(s->buffer, MESSAGE, 7));
        CHECK_IS(n, s->block[0]);
        free(s->block);
        close(s->ends[0]);
        close(s->ends[1]);
        close(s->epoll);
    }
}

int main(void)
{
    RUN(calls_under_way_come_back_right);
    RUN(their_buffers_can_be_used_again);
    return tests_failed();
}

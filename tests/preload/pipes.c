/* pipes.c - pipes and sockets: nothing lost, nothing cut, and blocking writes take everything. */
#include "check.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { LONG = 5 << 20 };

struct reader {
    int fd;
    size_t got;
    char *memory;
};

/* Reads until the end into one buffer. */
static void *read_all(void *argument)
{
    struct reader *reader = argument;
    ssize_t part;
    while ((part = read(reader->fd, reader->memory + reader->got, LONG + MIB - reader->got)) > 0)
        reader->got += (size_t)part;
    return NULL;
}

enum how { WRITE, WRITEV, SEND, SENDTO, SENDMSG };

/* One blocking call moves everything, as the kernel does. */
static void all_at_once(int in, int out, enum how how)
{
    char *memory = filled(LONG, 1);
    struct reader reader = {in, 0, filled(LONG + MIB, 2)};
    pthread_t thread;
    PUSH_OUT(memory, LONG);
    CHECK(pthread_create(&thread, NULL, read_all, &reader) == 0);
    struct iovec list[2] = {{memory, 10}, {memory + 10, LONG - 10}};
    struct msghdr message = {.msg_iov = list, .msg_iovlen = 2};
    ssize_t done = how == WRITE    ? write(out, memory, LONG)
                   : how == WRITEV ? writev(out, list, 2)
                   : how == SEND   ? send(out, memory, LONG, 0)
                   : how == SENDTO ? sendto(out, memory, LONG, 0, NULL, 0)
                                   : sendmsg(out, &message, 0);
    close(out);
    pthread_join(thread, NULL);
    close(in);
    CHECK_IS(LONG, done);
    CHECK_IS(LONG, reader.got);
    CHECK(memcmp(memory, reader.memory, LONG) == 0);
    free(memory);
    free(reader.memory);
}

static void long_writes_to_a_pipe(void)
{
    for (enum how how = WRITE; how <= WRITEV; how++) {
        int ends[2];
        CHECK(pipe(ends) == 0);
        all_at_once(ends[0], ends[1], how);
    }
}

static void long_writes_to_a_socket(void)
{
    for (enum how how = WRITE; how <= SENDMSG; how++) {
        int ends[2];
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
        all_at_once(ends[0], ends[1], how);
    }
}

static void *send_all(void *argument)
{
    struct reader *writer = argument;
    for (size_t at = 0; at < LONG; at += 1000) {
        if (write(writer->fd, writer->memory + at, LONG - at < 1000 ? LONG - at : 1000) < 0)
            return NULL;
    }
    return NULL;
}

/* MSG_WAITALL waits for everything. */
static void waits_for_all(void)
{
    for (int with_list = 0; with_list < 2; with_list++) {
        int ends[2];
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
        struct reader writer = {ends[1], 0, filled(LONG, 3)};
        char *in = filled(LONG, 4);
        pthread_t thread;
        PUSH_OUT(in, LONG);
        CHECK(pthread_create(&thread, NULL, send_all, &writer) == 0);
        struct iovec list[2] = {{in, 3 * MIB}, {in + 3 * MIB, LONG - 3 * MIB}};
        struct msghdr message = {.msg_iov = list, .msg_iovlen = 2};
        CHECK_IS(LONG, with_list ? recvmsg(ends[0], &message, MSG_WAITALL) : recv(ends[0], in, LONG, MSG_WAITALL));
        pthread_join(thread, NULL);
        CHECK(memcmp(in, writer.memory, LONG) == 0);
        close(ends[0]);
        close(ends[1]);
        free(in);
        free(writer.memory);
    }
}

/* Writes that do not block say how much was taken, and what was taken arrives. */
static void without_blocking(void)
{
    int ends[2];
    CHECK(pipe2(ends, O_NONBLOCK) == 0);
    char *memory = filled(LONG, 5), *in = filled(LONG, 6);
    size_t sent = 0, got = 0;
    CHECK(read(ends[0], in, LONG) == -1 && errno == EAGAIN);
    while (got < LONG) {
        push_out();
        ssize_t part = sent < LONG ? write(ends[1], memory + sent, LONG - sent) : 0;
        CHECK(part > 0 || sent == LONG || errno == EAGAIN);
        sent += part > 0 ? (size_t)part : 0;
        CHECK(sent == LONG || write(ends[1], memory + sent, LONG - sent) == -1);
        while ((part = read(ends[0], in + got, LONG - got)) > 0)
            got += (size_t)part;
    }
    CHECK_IS(LONG, sent);
    CHECK(memcmp(memory, in, LONG) == 0);
    close(ends[0]);
    close(ends[1]);
    free(memory);
    free(in);
}

/* Datagrams keep their limits; too long ones are refused as a whole. */
static void datagrams(int kind)
{
    enum { COUNT = 8, BYTES = 30000 };
    int ends[2];
    CHECK(socketpair(AF_UNIX, kind, 0, ends) == 0);
    char *memory = filled(COUNT * BYTES, 7), *in = filled(3 * MIB, 8);
    for (int round = 0; round < 3; round++) {
        PUSH_OUT(memory, COUNT * BYTES);
        for (int i = 0; i < 4; i++) {
            struct iovec list[2] = {{memory + i * BYTES, 10000}, {memory + i * BYTES + 10000, BYTES - 10000}};
            CHECK_IS(BYTES, i % 2 ? writev(ends[1], list, 2) : send(ends[1], memory + i * BYTES, BYTES, 0));
        }
        PUSH_OUT(in, 3 * MIB);
        for (int i = 0; i < 4; i++) {
            struct iovec list[2] = {{in, 7}, {in + 7, 3 * MIB - 7}};
            struct msghdr message = {.msg_iov = list, .msg_iovlen = 2};
            CHECK_IS(BYTES, i == 0   ? recvmsg(ends[0], &message, 0)
                            : i == 1 ? recv(ends[0], in, 3 * MIB, 0)
                            : i == 2 ? readv(ends[0], list, 2)
                                     : read(ends[0], in, 3 * MIB));
            CHECK(memcmp(in, memory + i * BYTES, BYTES) == 0);
        }
    }
    struct iovec list[3] = {{in, MIB}, {in + MIB, MIB}, {in + 2 * MIB, MIB}};
    struct msghdr message = {.msg_iov = list, .msg_iovlen = 3};
    CHECK(send(ends[1], in, 3 * MIB, 0) == -1 && errno == EMSGSIZE);
    CHECK(write(ends[1], in, 3 * MIB) == -1 && errno == EMSGSIZE);
    CHECK(writev(ends[1], list, 3) == -1 && errno == EMSGSIZE);
    CHECK(sendmsg(ends[1], &message, 0) == -1 && errno == EMSGSIZE);
    CHECK(recv(ends[0], in, MIB, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    /* What does not fit is cut off, and said so. */
    CHECK(send(ends[1], memory, BYTES, 0) == BYTES);
    CHECK_IS(BYTES, recv(ends[0], in, 10, MSG_TRUNC));
    close(ends[0]);
    close(ends[1]);
    free(memory);
    free(in);
}

static void datagrams_of_a_socket(void)
{
    datagrams(SOCK_DGRAM);
}

static void sequenced_packets(void)
{
    datagrams(SOCK_SEQPACKET);
}

static void bytes_to_read(void)
{
    int ends[2], *count = filled(PAGE, 9) ? malloc(8 * KIB) : NULL;
    CHECK(pipe(ends) == 0 && write(ends[1], "12345", 5) == 5);
    *count = 0;
    PUSH_OUT(count, PAGE);
    CHECK(ioctl(ends[0], FIONREAD, count) == 0);
    CHECK_IS(5, *count);
    close(ends[0]);
    close(ends[1]);
    free(count);
}

static void the_ends_may_be_told_to_managed_memory(void)
{
    int *ends = malloc(8 * KIB);
    memset(ends, 0, 8 * KIB);
    PUSH_OUT(ends, 8);
    CHECK(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
    close(ends[0]);
    close(ends[1]);
    PUSH_OUT(ends, 8);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && write(ends[1], "x", 1) == 1);
    close(ends[0]);
    close(ends[1]);
    free(ends);
}

int main(void)
{
    begin();
    RUN(long_writes_to_a_pipe);
    RUN(long_writes_to_a_socket);
    RUN(waits_for_all);
    RUN(without_blocking);
    RUN(datagrams_of_a_socket);
    RUN(sequenced_packets);
    RUN(bytes_to_read);
    RUN(the_ends_may_be_told_to_managed_memory);
    return tests_failed();
}

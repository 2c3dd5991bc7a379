/* storm_calls.h - system calls whose buffers are in blocks: from one block to another through a descriptor */
#ifndef STORM_CALLS_H
#define STORM_CALLS_H

#include "storm_blocks.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { SENT_MAX = 32768 }; /* fits into a pipe and a socket */

/* Whether the call is to be made again: a signal came. What a lost flash makes of a call ends it. */
static bool try_again(const char *what)
{
    return errno == EINTR || refused(what);
}

static ssize_t send_part(struct worker *w, int fd, char *from, size_t bytes)
{
    size_t half = bytes / 2;
    struct iovec parts[] = {{from, half}, {from + half, bytes - half}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    switch (roll(w, 4)) {
    case 0:
        return writev(fd, parts, 2);
    case 1: {
        ssize_t sent = sendmsg(fd, &message, 0);
        return sent < 0 && errno == ENOTSOCK ? write(fd, from, bytes) : sent;
    }
    default:
        return write(fd, from, bytes);
    }
}

static ssize_t receive_part(struct worker *w, int fd, char *to, size_t bytes)
{
    size_t half = bytes / 2;
    struct iovec parts[] = {{to, half}, {to + half, bytes - half}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t got;
    switch (roll(w, 5)) {
    case 0:
        return readv(fd, parts, 2);
    case 1:
        got = recvmsg(fd, &message, 0);
        break;
    case 2:
        got = recv(fd, to, bytes, MSG_WAITALL);
        break;
    default:
        return read(fd, to, bytes);
    }
    return got < 0 && errno == ENOTSOCK ? read(fd, to, bytes) : got;
}

static bool send_all(struct worker *w, int fd, char *from, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t sent = send_part(w, fd, from + done, bytes - done);
        if (sent > 0)
            done += (size_t)sent;
        else if (sent == 0 || !try_again("to send"))
            return false;
    }
    return true;
}

static bool receive_all(struct worker *w, int fd, char *to, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = receive_part(w, fd, to + done, bytes - done);
        MUST(got != 0);
        if (got > 0)
            done += (size_t)got;
        else if (!try_again("to receive"))
            return false;
    }
    return true;
}

static bool in_file(struct worker *w, int fd, char *from, char *to, size_t bytes)
{
    size_t half = bytes / 2, written = 0, got = 0;
    struct iovec out[] = {{from + half, bytes - half}}, in[] = {{to, half}, {to + half, bytes - half}};
    off_t at = (off_t)roll(w, 10000);
    while (written < half) {
        ssize_t part = pwrite(fd, from + written, half - written, at + (off_t)written);
        written += part > 0 ? (size_t)part : 0;
        if (part <= 0 && !try_again("pwrite"))
            return false;
    }
    /* Calls on files come back with all, or are refused: a signal does not stop them. */
    ssize_t rest = pwritev(fd, out, 1, at + (off_t)half);
    if (rest != (ssize_t)(bytes - half))
        return rest < 0 ? refused("pwritev") : (wrong("pwritev: %zd of %zu", rest, bytes - half), false);
    if (roll(w, 2)) {
        ssize_t all = preadv(fd, in, 2, at);
        return all == (ssize_t)bytes || (all < 0 ? refused("preadv") : (wrong("preadv: %zd of %zu", all, bytes), false));
    }
    while (got < bytes) {
        ssize_t part = pread(fd, to + got, bytes - got, at + (off_t)got);
        MUST(part != 0);
        got += part > 0 ? (size_t)part : 0;
        if (part < 0 && !try_again("pread"))
            return false;
    }
    return true;
}

static int new_file(struct worker *w)
{
    struct block *b = make(w, 8 * KIB);
    if (b == NULL)
        return -1;
    snprintf(b->memory, PAGE, "%s/stormXXXXXX", test_dir());
    int fd = mkstemp(b->memory);
    if (fd >= 0)
        MUST(unlink(b->memory) == 0);
    else
        refused("mkstemp");
    with_block(b, 0, b->bytes, NULL);
    return fd;
}

/* The descriptors are in a block too, which has its own bytes again afterwards. */
static bool new_ends(struct worker *w, bool is_pipe, int ends[2])
{
    struct block *b = some_block(w);
    int *place = b != NULL && b->bytes >= 16 ? (int *)(((uintptr_t)b->memory + 3) & ~(uintptr_t)3) : ends;
    int status = is_pipe ? pipe2(place, O_CLOEXEC) : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, place);
    if (status == 0 && place != ends)
        memcpy(ends, place, 2 * sizeof *ends);
    if (status != 0)
        refused("a pair of descriptors");
    if (place != ends)
        with_block(b, 0, b->bytes < 64 ? b->bytes : 64, NULL);
    return status == 0;
}

/* Moves bytes from a block to another, or within one, through the kernel. */
static void transfer(struct worker *w)
{
    struct block *a = some_block(w), *b = some_block(w);
    if (a == NULL || a == b)
        return;
    size_t from = roll(w, a->bytes), to = roll(w, b->bytes), bytes = 1 + roll(w, 8 * SENT_MAX);
    bytes = bytes < a->bytes - from ? bytes : a->bytes - from;
    bytes = bytes < b->bytes - to ? bytes : b->bytes - to;
    uint64_t way = roll(w, 3);
    int ends[2] = {-1, -1};
    bool is_done;
    if (way == 0) {
        /* It makes a block, which may move those of the worker in its list. */
        char *source = a->memory, *target = b->memory;
        if (w->blocks_count == BLOCKS_MAX || (ends[0] = new_file(w)) < 0)
            return;
        is_done = in_file(w, ends[0], source + from, target + to, bytes);
    } else {
        bytes = bytes < SENT_MAX ? bytes : SENT_MAX;
        if (!new_ends(w, way == 1, ends))
            return;
        is_done = send_all(w, ends[1], a->memory + from, bytes) && receive_all(w, ends[0], b->memory + to, bytes);
        close(ends[1]);
    }
    close(ends[0]);
    with_block(a, from, from + bytes, "what was sent");
    for (size_t at = 0; is_done && at < bytes; at++)
        if (a->memory[from + at] != b->memory[to + at])
            wrong("by way %d: byte %zu of %zu came wrong, from %p to %p: sent %02x, came %02x", (int)way, at, bytes,
                  (void *)(a->memory + from), (void *)(b->memory + to), (unsigned char)a->memory[from + at],
                  (unsigned char)b->memory[to + at]);
    with_block(b, to, to + bytes, NULL);
    with_block(b, 0, b->bytes, "beside what came");
}

#endif

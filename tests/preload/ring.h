/* ring.h - the least of an io_uring, without a library. */
#ifndef RING_H
#define RING_H

#include "check.h"

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static inline void *ring_part(int ring, size_t bytes, off_t what)
{
    void *part = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, what);
    CHECK(part != MAP_FAILED);
    return part;
}

/* One read through a ring; the answer is the kernel's. */
static inline long read_by_ring(int ring, const struct io_uring_params *params, int fd, void *to, size_t bytes)
{
    size_t submissions = params->sq_off.array + params->sq_entries * sizeof(unsigned);
    size_t completions = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
    char *sq = ring_part(ring, submissions, IORING_OFF_SQ_RING), *cq = ring_part(ring, completions, IORING_OFF_CQ_RING);
    struct io_uring_sqe *entry = ring_part(ring, params->sq_entries * sizeof *entry, IORING_OFF_SQES);
    memset(entry, 0, sizeof *entry);
    *entry = (struct io_uring_sqe){.opcode = IORING_OP_READ, .fd = fd, .addr = (uintptr_t)to, .len = (unsigned)bytes};
    unsigned *tail = (unsigned *)(sq + params->sq_off.tail), *head = (unsigned *)(cq + params->cq_off.head);
    ((unsigned *)(sq + params->sq_off.array))[*tail % params->sq_entries] = 0;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    CHECK_IS(1, syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0));
    long answer = ((struct io_uring_cqe *)(cq + params->cq_off.cqes))[*head % params->cq_entries].res;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    munmap(sq, submissions);
    munmap(cq, completions);
    munmap(entry, params->sq_entries * sizeof *entry);
    return answer;
}

#endif

/* Calls that hand memory over for later: the kernel, or a thread of the C library, uses it when the call is over. What cannot be served is refused, so
 * that programs do without, as they do where the kernel or a container refuses it.
 */
#include "check.h"
#include "ring.h"

#include <aio.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { BYTES = 200 * 1000 };

static int new_file(const char *contents, size_t bytes)
{
    int fd = open(file_name("later"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    CHECK_IS(bytes, write(fd, contents, bytes));
    return fd;
}

/* ---- io_uring ---------------------------------------------------------------- */

static void rings_are_right_or_refused(void)
{
    char *out = filled(BYTES, 2), *in = filled(BYTES, 3);
    int fd = new_file(out, BYTES);
    struct io_uring_params *params = calloc(1, 8 * KIB);
    PUSH_OUT(params, 8 * KIB);
    long ring = syscall(SYS_io_uring_setup, 4, params);
    if (ring < 0) {
        CHECK(errno == ENOSYS || errno == EPERM);
    } else {
        PUSH_OUT(in, BYTES);
        CHECK_IS(BYTES, read_by_ring((int)ring, params, fd, in, BYTES));
        CHECK(is_filled(in, BYTES, 2));
        close((int)ring);
    }
    close(fd);
    free(params);
    free(out);
    free(in);
}

/* ---- The kernel's aio ---------------------------------------------------------- */

static void contexts_are_right_or_refused(void)
{
    char *out = filled(BYTES, 4), *in = filled(BYTES, 5);
    int fd = new_file(out, BYTES);
    aio_context_t context = 0;
    if (syscall(SYS_io_setup, 4, &context) != 0) {
        CHECK(errno == ENOSYS || errno == EPERM);
    } else {
        struct iocb block = {.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = (unsigned)fd, .aio_buf = (uintptr_t)in, .aio_nbytes = BYTES};
        struct iocb *list[] = {&block};
        struct io_event event;
        PUSH_OUT(in, BYTES);
        CHECK_IS(1, syscall(SYS_io_submit, context, 1, list));
        CHECK_IS(1, syscall(SYS_io_getevents, context, 1, 1, &event, NULL));
        CHECK_IS(BYTES, event.res);
        CHECK(is_filled(in, BYTES, 4));
        syscall(SYS_io_destroy, context);
    }
    close(fd);
    free(out);
    free(in);
}

/* ---- The C library's aio ---------------------------------------------------------- */

static struct aiocb *control(int fd, void *buffer, size_t bytes, int what)
{
    struct aiocb *block = (struct aiocb *)string("");
    *block = (struct aiocb){.aio_fildes = fd, .aio_buf = buffer, .aio_nbytes = bytes, .aio_lio_opcode = what};
    return block;
}

static ssize_t awaited(struct aiocb *block)
{
    const struct aiocb *list[] = {block};
    while (aio_error(block) == EINPROGRESS)
        aio_suspend(list, 1, NULL);
    return aio_return(block);
}

static void reads_and_writes_of_the_c_library(void)
{
    char *out = filled(BYTES, 6), *in = filled(BYTES, 7);
    int fd = new_file("", 0);
    struct aiocb *to = control(fd, out, BYTES, LIO_WRITE), *from = control(fd, in, BYTES, LIO_READ);
    PUSH_OUT(out, BYTES);
    PUSH_OUT(to, PAGE);
    CHECK_IS(0, aio_write(to));
    push_out();
    CHECK_IS(BYTES, awaited(to));
    PUSH_OUT(in, BYTES);
    PUSH_OUT(from, PAGE);
    CHECK_IS(0, aio_read(from));
    push_out();
    CHECK_IS(BYTES, awaited(from));
    CHECK(is_filled(in, BYTES, 6));
    CHECK_IS(0, aio_fsync(O_SYNC, to));
    push_out();
    CHECK_IS(0, awaited(to));
    /* What was used can leave again. */
    PUSH_OUT(in, BYTES);
    PUSH_OUT(out, BYTES);
    close(fd);
    free(out);
    free(in);
    free(to);
    free(from);
}

static void lists_of_the_c_library(void)
{
    char *out = filled(BYTES, 8), *in = filled(BYTES, 9);
    int fd = new_file(out, BYTES);
    struct aiocb **list = (struct aiocb **)string("");
    list[0] = control(fd, in, BYTES / 2, LIO_READ);
    list[1] = control(fd, in + BYTES / 2, BYTES / 2, LIO_READ);
    list[1]->aio_offset = BYTES / 2;
    list[2] = NULL;
    struct aiocb *first = list[0], *second = list[1];
    for (int mode = 0; mode < 2; mode++) {
        memset(in, 0, BYTES);
        PUSH_OUT(in, BYTES);
        PUSH_OUT(list, PAGE);
        PUSH_OUT(first, PAGE);
        PUSH_OUT(second, PAGE);
        CHECK_IS(0, lio_listio(mode ? LIO_WAIT : LIO_NOWAIT, list, 3, NULL));
        push_out();
        CHECK_IS(BYTES / 2, awaited(first));
        CHECK_IS(BYTES / 2, awaited(second));
        CHECK(is_filled(in, BYTES, 8));
    }
    PUSH_OUT(in, BYTES);
    close(fd);
    free(out);
    free(in);
    free(first);
    free(second);
    free(list);
}

/* More than may stay in place at a time: many at once, and one. */
static void more_than_may_stay_in_place(void)
{
    enum { MANY = 12, ONE = 1 << 20, HUGE = 20 << 20 };
    char *out = filled(HUGE, 14), *in = filled(HUGE, 15);
    int fd = new_file("", 0);
    struct aiocb *blocks[MANY];
    for (int n = 0; n < MANY; n++) {
        blocks[n] = control(fd, out + n * ONE, ONE, LIO_WRITE);
        blocks[n]->aio_offset = n * ONE;
        CHECK_IS(0, aio_write(blocks[n]));
    }
    for (int n = 0; n < MANY; n++) {
        CHECK_IS(ONE, awaited(blocks[n]));
        CHECK_IS(ONE, blocks[n]->aio_nbytes);
        blocks[n]->aio_buf = in + n * ONE;
        blocks[n]->aio_lio_opcode = LIO_READ;
    }
    CHECK_IS(0, lio_listio(LIO_WAIT, blocks, MANY, NULL));
    for (int n = 0; n < MANY; n++)
        CHECK_IS(ONE, awaited(blocks[n]));
    CHECK(memcmp(out, in, MANY * ONE) == 0);
    struct aiocb *one = control(fd, out, HUGE, LIO_WRITE);
    CHECK_IS(0, aio_write(one));
    CHECK_IS(HUGE, awaited(one));
    one->aio_buf = in;
    CHECK_IS(0, aio_read(one));
    CHECK_IS(HUGE, awaited(one));
    CHECK(is_filled(in, HUGE, 14));
    PUSH_OUT(in, BYTES);
    for (int n = 0; n < MANY; n++)
        free(blocks[n]);
    free(one);
    close(fd);
    free(out);
    free(in);
}

static void refusals_hold_nothing(void)
{
    char *in = filled(BYTES, 10);
    struct aiocb *block = control(-1, in, BYTES, LIO_READ);
    if (aio_read(block) == 0) {
        while (aio_error(block) == EINPROGRESS)
            usleep(100);
        CHECK_IS(EBADF, aio_error(block));
        CHECK_IS(-1, aio_return(block));
    } else {
        CHECK_IS(EBADF, errno);
    }
    PUSH_OUT(in, BYTES);
    free(in);
    free(block);
}

/* ---- Memory of processes -------------------------------------------------------------- */

static void memory_of_this_process(void)
{
    char *from = filled(BYTES, 11), *to = filled(BYTES, 12);
    struct iovec *lists = (struct iovec *)string("");
    lists[0] = (struct iovec){to, BYTES};
    lists[1] = (struct iovec){from, BYTES};
    for (int writes = 0; writes < 2; writes++) {
        PUSH_OUT(from, BYTES);
        PUSH_OUT(to, BYTES);
        PUSH_OUT(lists, PAGE);
        if (writes)
            CHECK_IS(BYTES, process_vm_writev(getpid(), &lists[1], 1, &lists[0], 1, 0));
        else
            CHECK_IS(BYTES, process_vm_readv(getpid(), &lists[0], 1, &lists[1], 1, 0));
        CHECK(is_filled(to, BYTES, 11));
        fill(to, BYTES, 13);
    }
    free(from);
    free(to);
    free(lists);
}

int main(void)
{
    begin();
    RUN(rings_are_right_or_refused);
    RUN(contexts_are_right_or_refused);
    RUN(reads_and_writes_of_the_c_library);
    RUN(lists_of_the_c_library);
    RUN(more_than_may_stay_in_place);
    RUN(refusals_hold_nothing);
    RUN(memory_of_this_process);
    return tests_failed();
}

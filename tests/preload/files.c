/* files.c - transfers between regular files and memory that is not there: all bytes, in one call. */
#include "check.h"

#include <fcntl.h>
#include <sys/uio.h>

static int fd;

static void empty_file(void)
{
    CHECK(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
}

/* Writes and reads `bytes` at an odd address. */
static void through_file(size_t bytes)
{
    char *out = filled(bytes + 64, 2), *in = filled(bytes + 64, 3);
    empty_file();
    PUSH_OUT(out, bytes);
    CHECK_IS(bytes, write(fd, out + 3, bytes));
    PUSH_OUT(out, bytes);
    CHECK_IS(bytes, pwrite(fd, out + 3, bytes, 77));
    PUSH_OUT(out, bytes);
    CHECK_IS(bytes, pwrite64(fd, out + 3, bytes, 0));
    CHECK_IS(bytes, lseek(fd, 0, SEEK_CUR));
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    PUSH_OUT(in, bytes);
    CHECK_IS(bytes, read(fd, in + 5, bytes));
    CHECK(memcmp(out + 3, in + 5, bytes) == 0);
    memset(in, 0, bytes);
    PUSH_OUT(in, bytes);
    CHECK_IS(bytes, pread(fd, in + 1, bytes, 0));
    CHECK(memcmp(out + 3, in + 1, bytes) == 0);
    CHECK_IS(77, pread(fd, in + 1, bytes, (off_t)bytes)); /* to the end of the file */
    CHECK_IS(0, pread(fd, in + 1, bytes, (off_t)bytes + 77));
    free(out);
    free(in);
}

static void short_transfers(void)
{
    through_file(100);
    through_file(5000);
}

static void transfers_of_3_mib(void)
{
    through_file(3 * MIB);
}

static void transfers_of_20_mib(void)
{
    through_file(20 * MIB);
}

/* Writes and reads with a list of buffers of all sizes. */
static void vectored(size_t largest)
{
    enum { COUNT = 7 };
    struct iovec *list = malloc(8 * KIB), *copy = malloc(8 * KIB);
    size_t sizes[COUNT] = {1, 0, 4096, largest, 10, largest / 2, 9999}, all = 0;
    static char fixed[10];
    for (int i = 0; i < COUNT; i++) {
        list[i] = (struct iovec){i == 4 ? fixed : filled(sizes[i], (uint64_t)i + 10), sizes[i]};
        copy[i] = (struct iovec){i == 4 ? fixed : filled(sizes[i], 1), sizes[i]};
        all += sizes[i];
    }
    fill(fixed, sizeof fixed, 14);
    empty_file();
    PUSH_OUT(list, PAGE);
    CHECK_IS(all, writev(fd, list, COUNT));
    PUSH_OUT(list[3].iov_base, largest);
    CHECK_IS(all, pwritev(fd, list, COUNT, 0));
    PUSH_OUT(list[3].iov_base, largest);
    CHECK_IS(all, pwritev2(fd, list, COUNT, 0, 0));
    CHECK_IS(all, lseek(fd, 0, SEEK_END));
    for (int how = 0; how < 3; how++) {
        for (int i = 0; i < COUNT; i++)
            memset(copy[i].iov_base, 0, sizes[i]);
        CHECK(lseek(fd, 0, SEEK_SET) == 0);
        PUSH_OUT(copy[3].iov_base, largest);
        CHECK_IS(all, how == 0   ? readv(fd, copy, COUNT)
                      : how == 1 ? preadv(fd, copy, COUNT, 0)
                                 : preadv2(fd, copy, COUNT, -1, 0));
        for (int i = 0; i < COUNT; i++)
            CHECK(is_filled(copy[i].iov_base, sizes[i], (uint64_t)i + 10));
    }
    for (int i = 0; i < COUNT; i++) {
        if (i != 4) {
            free(list[i].iov_base);
            free(copy[i].iov_base);
        }
    }
    free(list);
    free(copy);
}

static void lists_of_short_buffers(void)
{
    vectored(12345);
}

static void lists_of_3_mib(void)
{
    vectored(3 * MIB);
}

static void lists_of_20_mib(void)
{
    vectored(20 * MIB);
}

/* 1024 buffers, which is the most, and one too many. */
static void the_longest_list(void)
{
    struct iovec *list = malloc(1025 * sizeof *list);
    char *memory = filled(1025 * 5000, 7), *copy = filled(1025 * 5000, 8);
    for (int i = 0; i < 1025; i++)
        list[i] = (struct iovec){memory + i * 5000, 5000};
    empty_file();
    PUSH_OUT(memory, MIB);
    CHECK_IS(1024 * 5000, writev(fd, list, 1024));
    CHECK(writev(fd, list, 1025) == -1 && errno == EINVAL);
    PUSH_OUT(copy, MIB);
    CHECK_IS(1024 * 5000, pread(fd, copy, 1024 * 5000, 0));
    CHECK(memcmp(copy, memory, 1024 * 5000) == 0);
    free(list);
    free(memory);
    free(copy);
}

static void errors_are_the_kernels(void)
{
    char *memory = filled(3 * MIB, 4);
    CHECK(write(-1, memory, 3 * MIB) == -1 && errno == EBADF);
    CHECK(read(-1, memory, 10) == -1 && errno == EBADF);
    CHECK(pread(fd, memory, 3 * MIB, -5) == -1 && errno == EINVAL);
    CHECK_IS(0, write(fd, memory, 0));
    free(memory);
}

static void appended(void)
{
    char *memory = filled(3 * MIB, 5), *copy = filled(3 * MIB, 6);
    empty_file();
    int end = open(file_name("files"), O_WRONLY | O_APPEND);
    CHECK(end >= 0 && write(end, "head", 4) == 4);
    PUSH_OUT(memory, 3 * MIB);
    CHECK_IS(3 * MIB, write(end, memory, 3 * MIB));
    close(end);
    CHECK_IS(3 * MIB, pread(fd, copy, 3 * MIB, 4));
    CHECK(memcmp(memory, copy, 3 * MIB) == 0);
    free(memory);
    free(copy);
}

static void directly(void)
{
    char *memory = NULL, *copy = NULL;
    CHECK(posix_memalign((void **)&memory, PAGE, 2 * MIB) == 0);
    CHECK(posix_memalign((void **)&copy, PAGE, 2 * MIB) == 0);
    fill(memory, 2 * MIB, 9);
    int direct = open(file_name("direct"), O_RDWR | O_CREAT | O_TRUNC | O_DIRECT, 0600);
    if (direct >= 0) {
        PUSH_OUT(memory, 2 * MIB);
        CHECK_IS(2 * MIB, pwrite(direct, memory, 2 * MIB, 0));
        PUSH_OUT(copy, 2 * MIB);
        CHECK_IS(2 * MIB, pread(direct, copy, 2 * MIB, 0));
        CHECK(is_filled(copy, 2 * MIB, 9));
        close(direct);
    }
    free(memory);
    free(copy);
}

int main(void)
{
    begin();
    fd = open(file_name("files"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    RUN(short_transfers);
    RUN(transfers_of_3_mib);
    RUN(transfers_of_20_mib);
    RUN(lists_of_short_buffers);
    RUN(lists_of_3_mib);
    RUN(lists_of_20_mib);
    RUN(the_longest_list);
    RUN(errors_are_the_kernels);
    RUN(appended);
    RUN(directly);
    return tests_failed();
}

/* fortify.c - the variants that check sizes: this file is compiled with -D_FORTIFY_SOURCE=2. */
#include "check.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

/* The size of the block, unknown to the compiler until it runs. */
static volatile size_t block_bytes = 64 * KIB;

static char *block(void)
{
    char *memory = malloc(64 * KIB);
    CHECK(memory);
    memset(memory, 0, 64 * KIB);
    PUSH_OUT(memory, 64 * KIB);
    return memory;
}

static void reads(void)
{
    char *memory = block();
    int fd = open(file_name("fortify"), O_RDWR | O_CREAT | O_TRUNC, 0600), ends[2];
    CHECK(fd >= 0 && write(fd, ballast, 64 * KIB) == (ssize_t)(64 * KIB));
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    CHECK_IS(block_bytes - 1, read(fd, memory, block_bytes - 1));
    CHECK(memcmp(memory, ballast, block_bytes - 1) == 0);
    CHECK_IS(block_bytes / 2, pread(fd, memory, block_bytes / 2, 100));
    CHECK(memcmp(memory, ballast + 100, block_bytes / 2) == 0);
    free(memory);
    memory = block();
    FILE *file = fdopen(fd, "r");
    CHECK(file && fseek(file, 0, SEEK_SET) == 0);
    CHECK_IS(block_bytes - 9, fread(memory, 1, block_bytes - 9, file));
    CHECK(memcmp(memory, ballast, block_bytes - 9) == 0);
    fclose(file);
    free(memory);
    memory = block();
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && send(ends[1], ballast, 1000, 0) == 1000);
    CHECK_IS(500, recv(ends[0], memory, block_bytes / 131, 0));
    free(memory);
    memory = block();
    CHECK_IS(500, recvfrom(ends[0], memory, block_bytes - 1, 0, NULL, NULL));
    CHECK(memcmp(memory, ballast + 500, 500) == 0);
    close(ends[0]);
    close(ends[1]);
    free(memory);
}

static void names(void)
{
    char *memory = block();
    CHECK(getcwd(memory, block_bytes - 1) == memory && memory[0] == '/');
    free(memory);
    memory = block();
    CHECK(readlink("/proc/self/exe", memory, block_bytes - 1) > 5 && memory[0] == '/');
    free(memory);
    memory = string(file_name("fortify"));
    PUSH_OUT(memory, PAGE);
    volatile int flags = O_RDONLY;
    int fd = open(memory, flags);
    CHECK(fd >= 0);
    close(fd);
    PUSH_OUT(memory, PAGE);
    fd = openat(AT_FDCWD, memory, flags);
    CHECK(fd >= 0);
    close(fd);
    free(memory);
}

static void polls(void)
{
    int ends[2];
    CHECK(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
    volatile nfds_t count = 100;
    struct pollfd *list = malloc(64 * KIB);
    for (nfds_t i = 0; i < count; i++)
        list[i] = (struct pollfd){ends[0], POLLIN, 0};
    PUSH_OUT(list, PAGE);
    CHECK_IS(100, poll(list, count, 1000));
    struct timespec time = {1, 0};
    PUSH_OUT(list, PAGE);
    CHECK_IS(100, ppoll(list, count, &time, NULL));
    close(ends[0]);
    close(ends[1]);
    free(list);
}

int main(void)
{
    begin();
    RUN(reads);
    RUN(names);
    RUN(polls);
    return tests_failed();
}

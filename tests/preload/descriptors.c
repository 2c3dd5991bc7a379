/* descriptors.c - programs that close all descriptors keep their memory. */
#include "check.h"

#include <fcntl.h>
#include <sys/wait.h>

static char *data; /* 32 MiB, twice the RAM */

static int is_whole(void)
{
    return is_filled(data, 32 * MIB, 5);
}

static void close_one_by_one(void)
{
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    CHECK(is_whole());
}

static void close_all(void)
{
    CHECK(close_range(3, ~0u, 0) == 0);
    CHECK(is_whole());
    closefrom(3);
    CHECK(is_whole());
}

static void take_all_numbers(void)
{
    int zeros = open("/dev/zero", O_RDWR);
    CHECK(zeros >= 3);
    for (int fd = 3; fd < 200; fd++)
        CHECK_IS(fd, dup2(zeros, fd));
    fill(data, 32 * MIB, 5);
    CHECK(is_whole());
    close_range(3, ~0u, 0);
}

static void in_a_child(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        closefrom(3);
        setsid();
        _exit(!is_whole());
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_IS(0, status);
    CHECK(is_whole());
}

int main(void)
{
    begin();
    data = malloc(32 * MIB);
    fill(data, 32 * MIB, 5);
    RUN(close_one_by_one);
    RUN(close_all);
    RUN(take_all_numbers);
    RUN(in_a_child);
    return tests_failed();
}

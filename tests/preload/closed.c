/* closed.c - a program that has closed standard input, output and error exceeds its RAM: their numbers stay free */
#include "check.h"

#include <fcntl.h>

enum { BLOCKS = 48 };

static char *blocks[BLOCKS];

static void exceed(void)
{
    for (uint64_t n = 0; n < BLOCKS; n++) {
        CHECK((blocks[n] = malloc(MIB)) != NULL);
        fill(blocks[n], MIB, n);
    }
}

static void standard_numbers_stay_free(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        CHECK_IS(-1, fcntl(fd, F_GETFD));
        CHECK_IS(-1, write(fd, "text", 4));
    }
    CHECK_IS(0, open("/dev/null", O_RDWR));
    CHECK_IS(1, dup(0));
}

static void memory_is_right(void)
{
    for (uint64_t n = 0; n < BLOCKS; n++)
        CHECK(is_filled(blocks[n], MIB, n));
}

int main(void)
{
    stdout = fdopen(dup(1), "w");
    for (int fd = 0; fd <= 2; fd++)
        close(fd);
    RUN(exceed);
    RUN(standard_numbers_stay_free);
    RUN(memory_is_right);
    return tests_failed();
}

/* refused.c - a program for refusals.sh: wrong bytes are status 3, memory that is refused is status 4
 *
 * It exceeds its RAM, uses memory in order and at random, makes system calls, forks and frees.
 */
#include "check.h"

#include <fcntl.h>
#include <sys/wait.h>

enum { BLOCKS = 40, STEPS = 1500, WRONG = 3, REFUSED = 4 };

static char *blocks[BLOCKS];

static void verify(uint64_t n)
{
    if (!is_filled(blocks[n], MIB, n))
        _exit(WRONG);
}

static void at_random(uint64_t *dice)
{
    uint64_t n = next_random(dice) % BLOCKS;
    size_t at = next_random(dice) % (MIB / PAGE) * PAGE;
    /* The first words of a block say what is at a place. */
    uint64_t seed = n, word = 0, found;
    for (size_t done = 0; done <= at; done += 8)
        word = next_random(&seed);
    memcpy(&found, blocks[n] + at, 8);
    if (found != word)
        _exit(WRONG);
    memcpy(blocks[n] + at, &word, 8);
}

static void by_calls(uint64_t n)
{
    int ends[2];
    static char copy[16 * KIB];
    if (pipe(ends) != 0)
        return;
    /* A call may fail, not lie. */
    ssize_t written = write(ends[1], blocks[n] + 300, sizeof copy);
    if (written > 0 && read(ends[0], copy, (size_t)written) == written && memcmp(copy, blocks[n] + 300, (size_t)written) != 0)
        _exit(WRONG);
    close(ends[0]);
    close(ends[1]);
}

static void in_a_child(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        for (uint64_t n = 0; n < BLOCKS; n += 13)
            verify(n);
        _exit(0);
    }
    if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == WRONG)
        _exit(WRONG);
}

int main(void)
{
    uint64_t dice = 1;
    for (uint64_t n = 0; n < BLOCKS; n++) {
        if (!(blocks[n] = malloc(MIB)))
            _exit(REFUSED);
        fill(blocks[n], MIB, n);
    }
    for (uint64_t n = 0; n < BLOCKS; n++)
        verify(n);
    for (int step = 0; step < STEPS; step++)
        at_random(&dice);
    for (uint64_t n = 0; n < BLOCKS; n += 7)
        by_calls(n);
    in_a_child();
    for (uint64_t n = 0; n < BLOCKS; n += 2) {
        free(blocks[n]);
        if (!(blocks[n] = calloc(1, MIB)))
            _exit(REFUSED);
        if (!is_zero(blocks[n], MIB))
            _exit(WRONG);
        fill(blocks[n], MIB, n);
    }
    for (uint64_t n = 0; n < BLOCKS; n++)
        verify(n);
    return 0;
}

/* steady.c - memory that is used while something happens to the machine
 *
 *   steady MIB SECONDS FILE
 *
 * Fills MIB blocks of 1 MiB, makes FILE, and reads and writes them in random order for SECONDS, and until FILE is gone. Then every block must have the bytes
 * that were written last. Status 0 after "right"; 4 where memory was refused; 1 where bytes are wrong.
 */
#include "check.h"

#include <fcntl.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    size_t count = argc > 3 ? strtoul(argv[1], NULL, 10) : 0;
    double end = now() + (argc > 3 ? atof(argv[2]) : 0);
    char **blocks = calloc(count, sizeof *blocks);
    uint64_t *seeds = calloc(count, sizeof *seeds), random = 1, rounds = 0;
    for (size_t n = 0; n < count; n++) {
        blocks[n] = malloc(MIB);
        if (!blocks[n]) {
            puts("memory was refused");
            return 4;
        }
        fill(blocks[n], MIB, seeds[n] = n);
    }
    close(open(argv[3], O_CREAT | O_WRONLY, 0600));
    while (now() < end || access(argv[3], F_OK) == 0) {
        size_t n = next_random(&random) % count;
        if (!is_filled(blocks[n], MIB, seeds[n])) {
            printf("block %zu is wrong in round %llu\n", n, (unsigned long long)rounds);
            return 1;
        }
        if (next_random(&random) % 2)
            fill(blocks[n], MIB, seeds[n] = next_random(&random));
        rounds++;
    }
    for (size_t n = 0; n < count; n++) {
        if (!is_filled(blocks[n], MIB, seeds[n])) {
            printf("block %zu is wrong in the end\n", n);
            return 1;
        }
    }
    puts("right");
    return 0;
}

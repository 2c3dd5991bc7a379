/* swapped.c - blocks of 1 MiB that are filled, and read back several times
 *
 *   swapped BLOCKS
 *
 * Run where the kernel swaps a part of them before the heap takes over.
 */
#include "check.h"

static size_t blocks_count;

static void every_block_is_as_it_was_filled(void)
{
    char **blocks = calloc(blocks_count, sizeof *blocks);
    for (size_t n = 0; n < blocks_count; n++) {
        CHECK((blocks[n] = malloc(MIB)) != NULL);
        fill(blocks[n], MIB, n);
    }
    for (int round = 0; round < 2; round++)
        for (size_t n = 0; n < blocks_count; n++)
            if (!is_filled(blocks[n], MIB, n))
                end_test("block %zu is not as it was filled", n);
    /* What was in swap and is freed comes back empty. */
    for (size_t n = 0; n < blocks_count; n++)
        free(blocks[n]);
    for (size_t n = 0; n < blocks_count; n++) {
        CHECK((blocks[n] = calloc(1, MIB)) != NULL);
        if (!is_zero(blocks[n], MIB))
            end_test("block %zu is new and not empty", n);
        fill(blocks[n], MIB, n + 1000);
    }
    for (size_t n = 0; n < blocks_count; n++) {
        CHECK(is_filled(blocks[n], MIB, n + 1000));
        free(blocks[n]);
    }
    free(blocks);
}

int main(int argc, char **argv)
{
    blocks_count = argc > 1 ? strtoul(argv[1], NULL, 10) : 10;
    RUN(every_block_is_as_it_was_filled);
    return tests_failed();
}

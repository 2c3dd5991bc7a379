// Small blocks, more than the RAM that they have.
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 500000, BYTES = 120, ROOM = 48 };

int main(void)
{
    char **blocks = malloc(BLOCKS * sizeof *blocks);
    if (blocks == NULL) {
        return 1;
    }
    for (int n = 0; n < BLOCKS; n++) {
        blocks[n] = malloc(BYTES + n % ROOM);
        if (blocks[n] == NULL) {
            return 1;
        }
        snprintf(blocks[n], BYTES, "%d", n);
    }
    unsigned long sum = 0;
    for (int n = 0; n < BLOCKS; n++) {
        sum += strtoul(blocks[n], NULL, 10) * (n % 7 + 1);
        free(blocks[n]);
    }
    free(blocks);
    printf("%lu\n", sum);
    return 0;
}

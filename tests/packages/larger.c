/* A program on plain malloc with 256 MiB, of which each word is written, changed and compared. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    const size_t count = (256u << 20) / sizeof(uint64_t);
    uint64_t *words = malloc(count * sizeof *words);
    if (!words)
        return 1;
    for (size_t i = 0; i < count; i++)
        words[i] = i * 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < count; i += 4096)
        words[i] ^= 7;
    for (size_t i = 0; i < count; i++) {
        if (words[i] != (i * 0x9e3779b97f4a7c15u ^ (i % 4096 ? 0 : 7))) {
            printf("word %zu is wrong\n", i);
            return 1;
        }
    }
    free(words);
    puts("256 MiB as they were written");
    return 0;
}

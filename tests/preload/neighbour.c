/* neighbour.c - somebody else in the same memory cgroup, who takes memory and gives it back
 *
 *   neighbour MIB FILE USAGE LIMIT
 *
 * Fills MIB as there is room for it: by the file USAGE, the group uses some MiB less than LIMIT bytes. Gives it back when it has all, and begins again
 * until FILE is gone. Prints how often. Status 3 if there is no room for a minute.
 */
#include "check.h"

static long usage(const char *path)
{
    char text[32] = "";
    FILE *file = fopen(path, "r");
    if (file) {
        if (!fgets(text, sizeof text, file))
            text[0] = 0;
        fclose(file);
    }
    return atol(text);
}

int main(int count, char **arguments)
{
    if (count < 5)
        return 2;
    size_t bytes = strtoul(arguments[1], NULL, 10) * MIB;
    long limit = atol(arguments[4]);
    int rounds = 0;
    for (; access(arguments[2], F_OK) == 0; rounds++) {
        char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return 1;
        for (size_t at = 0; at < bytes; at += MIB) {
            for (int tries = 0; usage(arguments[3]) > limit - (long)(6 * MIB); tries++) {
                if (tries == 60000)
                    return 3;
                usleep(1000);
            }
            memset(memory + at, rounds + 1, MIB);
        }
        usleep(100000);
        munmap(memory, bytes);
        usleep(100000);
    }
    printf("%d rounds\n", rounds);
    return 0;
}

/* outside.c - a program that uses RAM beside large blocks before it exceeds its budget and later: pages of its own data, and small blocks of the C library.
 *
 *   outside MIB LIMIT_KIB
 *
 * Fills MIB blocks of 1 MiB and reads them again and again. Status 1 where its anonymous memory and page tables were more than LIMIT_KIB as it
 * filled them, or stayed so.
 */
#include "check.h"

enum { OWN = 6 << 20, LATER = 10 << 20, SMALL = 40 * 1000 };

static char own[OWN], later[LATER];

static long field_kib(const char *status, const char *name)
{
    const char *line = strstr(status, name);
    return line ? atol(line + strlen(name)) : 0;
}

static long used_kib(void)
{
    char status[8192];
    FILE *file = fopen("/proc/self/status", "r");
    size_t count = file ? fread(status, 1, sizeof status - 1, file) : 0;
    if (file)
        fclose(file);
    status[count] = '\0';
    return field_kib(status, "RssAnon:") + field_kib(status, "VmPTE:");
}

int main(int argc, char **argv)
{
    size_t count = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
    long limit = argc > 2 ? atol(argv[2]) : 0, most = 0;
    static char *small[SMALL], *blocks[4096];
    memset(own, 7, sizeof own);
    for (size_t n = 0; n < SMALL; n++)
        memset(small[n] = malloc(64), 5, 64);
    /* RAM that is taken later is given up a little later: one of the laps that follow must be within the limit. */
    for (size_t lap = 0; lap < 12 && (lap < 3 || most > limit); lap++) {
        most = 0;
        for (size_t n = 0; n < count; n++) {
            if (lap == 0)
                fill(blocks[n] = malloc(MIB), MIB, n);
            else if (!is_filled(blocks[n], MIB, n))
                return printf("block %zu is wrong\n", n), 3;
            if (lap == 1)
                memset(later + LATER / count * n, 9, LATER / count);
            if (n % 8 == 0 && used_kib() > most)
                most = used_kib();
        }
        if (lap == 0 && most > limit)
            break;
    }
    printf("%ld KiB of %ld\n", most, limit);
    return most > limit || !is_filled(blocks[0], MIB, 0) || small[SMALL - 1][63] + own[OWN - 1] + later[LATER / 2] != 21;
}

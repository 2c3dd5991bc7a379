/* scans.c - faults in places that are known: most in scan_hot, few in scan_rarely. For profile.sh.
 *
 * scans [THREADS] [END]: END is exit, abort, kill or _exit.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 6 << 10, LAPS_HOT = 5 };

static volatile char *memory;

__attribute__((noinline)) static long scan_hot(void)
{
    long sum = 0;
    for (int lap = 0; lap < LAPS_HOT; lap++) {
        for (long page = 0; page < PAGES; page++)
            sum += memory[page * 7919 % PAGES * PAGE]; /* the hot line */
    }
    return sum;
}

__attribute__((noinline)) static long scan_rarely(void)
{
    long sum = 0;
    for (long page = 0; page < PAGES; page++)
        sum += memory[page * 7907 % PAGES * PAGE];
    return sum;
}

__attribute__((noinline)) static void *scan(void *unused)
{
    long sum = scan_hot() + scan_rarely();
    return unused ? unused : sum == 42 ? &memory : NULL;
}

int main(int count, char **arguments)
{
    int threads = count > 1 ? atoi(arguments[1]) : 1;
    const char *end = count > 2 ? arguments[2] : "exit";
    pthread_t ids[64];

    memory = malloc((size_t)PAGES * PAGE);
    if (!memory || threads < 1 || threads > 64)
        return 1;
    memset((char *)memory, 1, (size_t)PAGES * PAGE);
    for (int i = 1; i < threads; i++)
        pthread_create(&ids[i], NULL, scan, NULL);
    scan(NULL);
    for (int i = 1; i < threads; i++)
        pthread_join(ids[i], NULL);
    puts("scanned");
    fflush(stdout);
    if (!strcmp(end, "abort"))
        abort();
    if (!strcmp(end, "kill"))
        raise(SIGKILL);
    if (!strcmp(end, "_exit"))
        _exit(3);
    return 0;
}

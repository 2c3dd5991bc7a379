/* usage.c - see usage.h. */
#include "usage.h"

#include "progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The number behind a name at the start of a line of a /proc file; 0 if it is
 * not there. */
static uint64_t proc_number(const char *path, const char *name)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    char line[256];
    unsigned long long number = 0;
    size_t length = strlen(name);
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, name, length) == 0 && sscanf(line + length, "%llu", &number) == 1)
            break;
    }
    fclose(file);
    return number;
}

/* Its seventh number is the sectors of 512 bytes that were written. */
static uint64_t disk_written_bytes(void)
{
    const char *path = getenv("DISK_STAT");
    FILE *file = path ? fopen(path, "r") : NULL;
    unsigned long long sectors = 0;
    if (file && fscanf(file, "%*u %*u %*u %*u %*u %*u %llu", &sectors) != 1)
        sectors = 0;
    if (file)
        fclose(file);
    return sectors * 512;
}

struct usage usage_of_process(void)
{
    struct rusage rusage;
    getrusage(RUSAGE_SELF, &rusage);
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    return (struct usage){
        .at = seconds_now(),
        .resident_peak_bytes = proc_number("/proc/self/status", "VmHWM:") * 1024,
        .disk_fetches = (uint64_t)rusage.ru_majflt,
        .read_bytes = proc_number("/proc/vmstat", "pswpin ") * page_bytes,
        .written_bytes = proc_number("/proc/vmstat", "pswpout ") * page_bytes,
        .disk_written_bytes = disk_written_bytes(),
    };
}

void usage_set_heap(struct usage *usage, uint64_t budget_bytes, uint64_t used_bytes, uint64_t disk_fetches,
                    uint64_t read_bytes, uint64_t written_bytes)
{
    usage->budget_bytes = budget_bytes;
    usage->used_bytes = used_bytes;
    usage->disk_fetches = disk_fetches;
    usage->read_bytes = read_bytes;
    usage->written_bytes = written_bytes;
}

/* disk.c - see disk.h. */
#include "disk.h"

#include "usage.h"

#include <stdio.h>

struct disk_traffic disk_traffic_now(void)
{
    struct disk_traffic traffic = {.written_bytes = usage_of_process().written_bytes};
    FILE *file = fopen("/proc/self/io", "r");
    if (!file)
        return traffic;
    char line[64];
    unsigned long long bytes;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "read_bytes: %llu", &bytes) == 1)
            traffic.read_bytes += bytes;
        else if (sscanf(line, "write_bytes: %llu", &bytes) == 1)
            traffic.written_bytes += bytes;
    }
    fclose(file);
    return traffic;
}

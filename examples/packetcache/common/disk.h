/* disk.h - what this process has read from and written to disks so far. */
#ifndef DISK_H
#define DISK_H

#include <stdint.h>

struct disk_traffic {
    uint64_t read_bytes;
    uint64_t written_bytes;
};

/* From the kernel: the process's own reads and writes, faults included. What
 * the kernel writes to swap it counts for the whole machine only; that is added. */
struct disk_traffic disk_traffic_now(void);

#endif

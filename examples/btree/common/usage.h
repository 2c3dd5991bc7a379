/* usage.h - what a run has cost so far. */
#ifndef USAGE_H
#define USAGE_H

#include <stdint.h>

struct usage {
    double at;                    /* seconds_now() */
    uint64_t resident_peak_bytes; /* of the whole process, from VmHWM */
    uint64_t budget_bytes;        /* 0: none was set */
    uint64_t used_bytes;          /* of the budget */
    uint64_t disk_fetches;        /* times a touch had to wait for the disk */
    uint64_t read_bytes;          /* from and to the disk, for want of RAM */
    uint64_t written_bytes;
    uint64_t disk_written_bytes;  /* by whole DISK_STAT, whoever wrote; 0: not known */
};

/* What the kernel knows: major faults of this process; swap traffic, which it
 * counts for the whole machine only; and what reached the disk whose file of
 * counts, as /sys/block/sda/stat, is named by DISK_STAT in the environment. */
struct usage usage_of_process(void);

/* Replaces the kernel's figures by those of a heap that moves data itself. */
void usage_set_heap(struct usage *usage, uint64_t budget_bytes, uint64_t used_bytes, uint64_t disk_fetches,
                    uint64_t read_bytes, uint64_t written_bytes);

#endif

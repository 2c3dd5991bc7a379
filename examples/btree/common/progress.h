/* progress.h - a progress bar on stderr. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *title;
    uint64_t total;
    double started;
    double drawn; /* when it was drawn last */
    bool visible;
};

/* Seconds on a clock that only goes forward. */
double seconds_now(void);

/* visible false: nothing is ever drawn. */
struct progress progress_start(const char *title, uint64_t total, bool visible);

/* Cheap enough to call often: draws at most ten times a second. */
void progress_show(struct progress *progress, uint64_t done);

/* The same for work that ends after that many seconds, however much is done. */
void progress_show_time(struct progress *progress, uint64_t done, double seconds);

/* Removes the bar. */
void progress_end(struct progress *progress);

#endif

/* progress.c - see progress.h. */
#include "progress.h"

#include <stdio.h>
#include <time.h>

enum { BAR_WIDTH = 32 };

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

struct progress progress_start(const char *title, uint64_t total, bool visible)
{
    double now = seconds_now();
    return (struct progress){.title = title, .total = total, .started = now, .drawn = now, .visible = visible};
}

/* part: 0 to 1 of the way. left: seconds to the end. */
static void draw(const struct progress *progress, double part, double rate, double left)
{
    int filled = (int)(part * BAR_WIDTH);
    char bar[BAR_WIDTH + 1];
    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < filled ? '#' : '.';
    bar[BAR_WIDTH] = '\0';
    fprintf(stderr, "\r%-8s [%s] %3.0f %%  %9.0f/s  %4.0f s left ", progress->title, bar, part * 100, rate, left);
    fflush(stderr);
}

/* Whether it is time to draw. */
static bool is_due(struct progress *progress, double now)
{
    if (!progress->visible || now - progress->drawn < 0.1)
        return false;
    progress->drawn = now;
    return true;
}

void progress_show(struct progress *progress, uint64_t done)
{
    double now = seconds_now();
    if (!is_due(progress, now))
        return;
    double part = progress->total ? (double)done / (double)progress->total : 1;
    double rate = (double)done / (now - progress->started);
    draw(progress, part, rate, rate > 0 ? (double)(progress->total - done) / rate : 0);
}

void progress_show_time(struct progress *progress, uint64_t done, double seconds)
{
    double now = seconds_now(), passed = now - progress->started;
    if (is_due(progress, now) && passed < seconds)
        draw(progress, passed / seconds, (double)done / passed, seconds - passed);
}

void progress_end(struct progress *progress)
{
    if (progress->visible)
        fprintf(stderr, "\r%79s\r", "");
}

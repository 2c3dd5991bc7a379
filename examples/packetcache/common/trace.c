/* trace.c - see trace.h. */
#include "trace.h"

#include <string.h>

enum {
    BLOCK_BYTES = 4096, /* unit of popularity */
    SMALL_MIN = 40,
    SMALL_MAX = 300,
    REGION_MIN = 200
};

static const uint64_t STEP = 0x9E3779B97F4A7C15u;

/* ---- Random numbers ---------------------------------------------------- */

static uint64_t next_random(struct trace *trace)
{
    trace->state += STEP;
    return mix64(trace->state);
}

/* From low to high, both included. */
static uint64_t next_between(struct trace *trace, uint64_t low, uint64_t high)
{
    return low + next_random(trace) % (high - low + 1);
}

/* True with this probability. */
static bool next_chance(struct trace *trace, double probability)
{
    return (double)(next_random(trace) >> 11) * 0x1p-53 < probability;
}

/* ---- Content ----------------------------------------------------------- */

/* Writes the bytes that were, or will be, fresh from position on. They follow
 * from their position, so the past needs no memory. */
static void write_content(const struct trace *trace, uint64_t position, unsigned char *out, size_t bytes)
{
    while (bytes > 0) {
        uint64_t word = mix64(trace->content_key + position / 8 * STEP);
        size_t skip = position % 8;
        size_t part = bytes < 8 - skip ? bytes : 8 - skip;
        memcpy(out, (const unsigned char *)&word + skip, part);
        out += part;
        position += part;
        bytes -= part;
    }
}

/* A position in the past with that many bytes behind it. False if the past is
 * shorter than that. */
static bool draw_past(struct trace *trace, size_t bytes, uint64_t *position)
{
    if (trace->fresh <= bytes)
        return false;
    uint64_t reach = trace->popular.records * BLOCK_BYTES;
    uint64_t block = sampler_next(&trace->popular);
    uint64_t at = trace->fresh / reach * reach + block * BLOCK_BYTES + next_between(trace, 0, BLOCK_BYTES - 1);
    /* What the present round has not reached, the round before has. The first
     * one has nothing before it. */
    if (at + bytes > trace->fresh)
        at = at >= reach ? at - reach : at % (trace->fresh - bytes);
    *position = at;
    return true;
}

static size_t draw_payload_bytes(struct trace *trace)
{
    if (next_chance(trace, trace->settings.small))
        return next_between(trace, SMALL_MIN, SMALL_MAX - 1);
    return next_between(trace, (SMALL_MAX + trace->settings.payload_max) / 2, trace->settings.payload_max);
}

/* ---- Interface --------------------------------------------------------- */

void trace_init(struct trace *trace, const struct trace_settings *settings)
{
    *trace = (struct trace){.settings = *settings, .state = mix64(settings->seed + 1)};
    trace->content_key = next_random(trace);
    uint64_t blocks = settings->reach_bytes / BLOCK_BYTES;
    sampler_init(&trace->popular, blocks ? blocks : 1, settings->zipf, settings->seed);
}

size_t trace_next(struct trace *trace, unsigned char *payload)
{
    size_t bytes = draw_payload_bytes(trace);
    for (size_t at = 0; at < bytes;) {
        size_t region = next_between(trace, REGION_MIN, trace->settings.payload_max);
        size_t part = region < bytes - at ? region : bytes - at;
        uint64_t position;
        if (!next_chance(trace, trace->settings.overlap) || !draw_past(trace, part, &position)) {
            position = trace->fresh;
            trace->fresh += part;
        }
        write_content(trace, position, payload + at, part);
        at += part;
    }
    return bytes;
}

double trace_mean_bytes(const struct trace_settings *settings)
{
    double small = (SMALL_MIN + SMALL_MAX - 1) / 2.0;
    double large = (double)((SMALL_MAX + settings->payload_max) / 2 + settings->payload_max) / 2;
    return settings->small * small + (1 - settings->small) * large;
}

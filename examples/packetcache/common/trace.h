/* trace.h - packets of a generated link: the same ones for the same settings.
 *
 * A payload is put together from regions. A region is either fresh, bytes that
 * were never sent, or it repeats bytes of the past, popular ones more often
 * than others.
 */
#ifndef TRACE_H
#define TRACE_H

#include "workload.h"

#include <stddef.h>
#include <stdint.h>

struct trace_settings {
    uint64_t seed;
    uint64_t reach_bytes; /* repeats come from the fresh bytes of this past */
    double overlap;       /* share of repeated bytes, 0 to 1 */
    double zipf;          /* exponent of the popularity; 0: all the same */
    double small;         /* share of packets below 300 bytes, 0 to 1 */
    uint64_t payload_max; /* bytes of the largest payload, 300 to 1500 */
};

struct trace {
    struct trace_settings settings;
    struct sampler popular; /* draws blocks of the past */
    uint64_t state;         /* of the random numbers */
    uint64_t fresh;         /* bytes that were fresh so far */
    uint64_t content_key;   /* byte n of all fresh bytes follows from it and n */
};

void trace_init(struct trace *trace, const struct trace_settings *settings);

/* Writes the next payload, at most payload_max bytes, and returns its length. */
size_t trace_next(struct trace *trace, unsigned char *payload);

/* Mean length of a payload. */
double trace_mean_bytes(const struct trace_settings *settings);

#endif

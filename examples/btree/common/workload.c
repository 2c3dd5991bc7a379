/* workload.c - see workload.h. */
#include "workload.h"

#include <math.h>
#include <string.h>

enum { KEY_SHIFT = 20 };

uint64_t mix64(uint64_t x)
{
    x ^= x >> 32;
    x *= 0x9FB21C651E98DF25u;
    x ^= x >> 29;
    x *= 0xD6E8FEB86659FD93u;
    x ^= x >> 32;
    return x;
}

uint64_t record_key(uint64_t record)
{
    uint64_t even_gap = mix64(record) & ((1u << KEY_SHIFT) - 2);
    return record << KEY_SHIFT | even_gap;
}

/* The word-th 8 bytes of the value of key. */
static uint64_t value_word(uint64_t key, size_t word)
{
    return mix64(key + (word + 1) * 0x9E3779B97F4A7C15u);
}

void record_value(uint64_t key, unsigned char *value, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 8) {
        uint64_t word = value_word(key, at / 8);
        memcpy(value + at, &word, bytes - at < 8 ? bytes - at : 8);
    }
}

bool record_value_is(uint64_t key, const unsigned char *value, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 8) {
        uint64_t word = value_word(key, at / 8);
        if (memcmp(value + at, &word, bytes - at < 8 ? bytes - at : 8) != 0)
            return false;
    }
    return true;
}

uint64_t scattered(uint64_t i, uint64_t records)
{
    /* A prime step visits every number once, unless it divides the count. */
    const uint64_t step = records % 2654435761u ? 2654435761u : 2147483647u;
    return i * step % records;
}

/* ---- Zipf's law -------------------------------------------------------- */

/* Rejection-inversion (Hoermann and Derflinger, 1996): constant time and no
 * table, whatever the number of records. h is the density, h_integral its
 * integral. Both are written so that exponent 1 is no special case. */

/* (e^x - 1) / x, with its limit at 0. */
static double expm1_over(double x)
{
    return fabs(x) > 1e-8 ? expm1(x) / x : 1 + x / 2;
}

/* log(1 + x) / x, with its limit at 0. */
static double log1p_over(double x)
{
    return fabs(x) > 1e-8 ? log1p(x) / x : 1 - x / 2;
}

static double h(const struct sampler *s, double x)
{
    return exp(-s->exponent * log(x));
}

static double h_integral(const struct sampler *s, double x)
{
    double log_x = log(x);
    return expm1_over((1 - s->exponent) * log_x) * log_x;
}

static double h_integral_inverse(const struct sampler *s, double y)
{
    double t = y * (1 - s->exponent);
    return exp(log1p_over(t < -1 ? -1 : t) * y);
}

/* Uniform in (0, 1]. */
static double next_unit(struct sampler *s)
{
    s->state += 0x9E3779B97F4A7C15u;
    return (double)((mix64(s->state) >> 11) + 1) * 0x1p-53;
}

static uint64_t next_rank(struct sampler *s)
{
    for (;;) {
        double y = s->h_last + next_unit(s) * (s->h_first - s->h_last);
        double x = h_integral_inverse(s, y);
        double k = floor(x + 0.5);
        k = k < 1 ? 1 : k > (double)s->records ? (double)s->records : k;
        if (k - x <= s->shortcut || y >= h_integral(s, k + 0.5) - h(s, k))
            return (uint64_t)k - 1;
    }
}

void sampler_init(struct sampler *s, uint64_t records, double exponent, uint64_t seed)
{
    *s = (struct sampler){.state = mix64(seed + 1), .records = records, .exponent = exponent};
    s->h_first = h_integral(s, 1.5) - 1;
    s->h_last = h_integral(s, (double)records + 0.5);
    s->shortcut = 2 - h_integral_inverse(s, h_integral(s, 2.5) - h(s, 2));
}

uint64_t sampler_next(struct sampler *s)
{
    if (s->exponent == 0)
        return (uint64_t)((1 - next_unit(s)) * (double)s->records);
    return scattered(next_rank(s), s->records);
}

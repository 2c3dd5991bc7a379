/* anchors.c - see anchors.h. */
#include "anchors.h"

#include "workload.h"

/* The fingerprint of b0 b1 ... b31 is the sum of (b[i] + 1) * FACTOR^(31 - i),
 * modulo 2^64. One byte further costs two multiplications. The upper bits
 * depend on all of the bytes, so they choose. */
static const uint64_t FACTOR = 0xD1342543DE82EF95u;

_Static_assert(ANCHOR_PERIOD == 1 << 8, "eight bits choose one fingerprint in 256");

static uint64_t factor_power(unsigned exponent)
{
    uint64_t power = 1;
    while (exponent--)
        power *= FACTOR;
    return power;
}

static uint64_t fingerprint_of(const unsigned char *bytes)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < ANCHOR_BYTES; i++)
        sum = sum * FACTOR + bytes[i] + 1;
    return sum;
}

size_t anchors_find(const unsigned char *payload, size_t bytes, struct anchor *anchors)
{
    if (bytes < ANCHOR_BYTES)
        return 0;
    const uint64_t leaving = factor_power(ANCHOR_BYTES);
    uint64_t sum = fingerprint_of(payload);
    size_t found = 0, next = 0;
    for (size_t at = 0;; at++) {
        /* Uniform bytes could make every place an anchor: keep them apart. */
        if (sum >> 56 == 0 && at >= next) {
            anchors[found++] = (struct anchor){.fingerprint = mix64(sum), .at = (uint32_t)at};
            next = at + ANCHOR_BYTES;
        }
        if (at + ANCHOR_BYTES == bytes)
            return found;
        sum = sum * FACTOR + payload[at + ANCHOR_BYTES] + 1 - (payload[at] + 1) * leaving;
    }
}

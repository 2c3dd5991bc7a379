/* test_parts.c - tests of the parts below the packet cache, and what all tests share. */
#include "anchor_index.h"
#include "anchors.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

int failures;

void report(const char *name, const char *problem)
{
    printf("%s packetcache %s%s%s\n", problem ? "FAIL" : "ok", name, problem ? ": " : "", problem ? problem : "");
    failures += problem != NULL;
}

/* ---- Packets ----------------------------------------------------------- */

static const struct trace_settings usual = {
    .seed = 7, .reach_bytes = 1 << 20, .overlap = 0.5, .zipf = 0.7, .small = 0.3, .payload_max = 1460};

struct trace usual_trace(void)
{
    struct trace trace;
    trace_init(&trace, &usual);
    return trace;
}

void write_bytes(uint64_t number, unsigned char *payload, size_t bytes)
{
    record_value(number << 32 | 99, payload, bytes);
}

/* ---- Tests ------------------------------------------------------------- */

static const char *test_anchors_move_with_the_bytes(void)
{
    enum { SHIFT = 77, SHARED = 1200 };
    unsigned char one[SHARED], other[SHARED + SHIFT];
    unsigned total = 0;
    for (uint64_t number = 0; number < 500; number++) {
        write_bytes(number, one, SHARED);
        write_bytes(number + 1000, other, SHIFT);
        memcpy(other + SHIFT, one, SHARED);
        struct anchor in_one[ANCHORS_MAX], in_other[ANCHORS_MAX];
        size_t count = anchors_find(one, SHARED, in_one), other_count = anchors_find(other, SHARED + SHIFT, in_other);
        size_t skipped = 0;
        while (skipped < other_count && in_other[skipped].at < SHIFT + ANCHOR_BYTES)
            skipped++;
        /* Close to the seam, an anchor can displace another. */
        for (size_t i = 0; i < count; i++) {
            bool same = false;
            for (size_t j = 0; j < other_count; j++)
                same |= in_other[j].at == in_one[i].at + SHIFT && in_other[j].fingerprint == in_one[i].fingerprint;
            REQUIRE(same || in_one[i].at < 2 * ANCHOR_BYTES);
        }
        total += (unsigned)count;
    }
    double period = 500.0 * SHARED / total;
    REQUIRE(period > ANCHOR_PERIOD && period < 1.3 * ANCHOR_PERIOD);
    return NULL;
}

static const char *test_anchors_at_the_edges(void)
{
    unsigned char payload[PAYLOAD_BYTES_MAX];
    struct anchor anchors[ANCHORS_MAX];
    for (unsigned byte = 0; byte < 256; byte++) {
        memset(payload, (int)byte, sizeof payload);
        size_t count = anchors_find(payload, sizeof payload, anchors);
        REQUIRE(count <= ANCHORS_MAX);
        for (size_t i = 1; i < count; i++)
            REQUIRE(anchors[i].at >= anchors[i - 1].at + ANCHOR_BYTES);
    }
    for (size_t bytes = 0; bytes < ANCHOR_BYTES; bytes++)
        REQUIRE(anchors_find(payload, bytes, anchors) == 0);
    unsigned found = 0;
    for (uint64_t number = 0; number < 25600; number++) {
        write_bytes(number, payload, ANCHOR_BYTES);
        found += anchors_find(payload, ANCHOR_BYTES, anchors) == 1;
    }
    REQUIRE(found > 60 && found < 150);
    return NULL;
}

static const char *test_index_forgets_the_oldest(void)
{
    anchor_index *index = anchor_index_create(0);
    REQUIRE(index);
    struct place place;
    REQUIRE(!anchor_index_find(index, mix64(1), &place));
    /* Three times as many anchors as entries, while the numbers wrap around. */
    uint32_t first = UINT32_MAX - 11;
    for (uint32_t i = 0; i < 24; i++)
        anchor_index_put(index, mix64(i), (struct place){.packet = first + i, .at = 2047 - i});
    for (uint32_t i = 0; i < 24; i++) {
        REQUIRE(anchor_index_find(index, mix64(i), &place) == (i >= 16));
        REQUIRE(i < 16 || (place.packet == first + i && place.at == 2047 - i));
    }
    anchor_index_put(index, mix64(20), (struct place){.packet = 100, .at = 5});
    REQUIRE(anchor_index_find(index, mix64(20), &place) && place.packet == 100 && place.at == 5);
    REQUIRE(anchor_index_find(index, mix64(16), &place));
    anchor_index_destroy(index);
    anchor_index_destroy(NULL);
    return NULL;
}

static const char *test_trace_repeats_itself(void)
{
    enum { TRACE_PACKETS = 12000 };
    struct trace trace = usual_trace(), again = usual_trace();
    double total = 0;
    for (unsigned i = 0; i < TRACE_PACKETS; i++) {
        unsigned char payload[PAYLOAD_BYTES_MAX], same[PAYLOAD_BYTES_MAX];
        size_t bytes = trace_next(&trace, payload);
        REQUIRE(bytes > 0 && bytes <= usual.payload_max);
        REQUIRE(trace_next(&again, same) == bytes && memcmp(payload, same, bytes) == 0);
        total += (double)bytes;
    }
    double mean = total / TRACE_PACKETS / trace_mean_bytes(&usual);
    REQUIRE(mean > 0.97 && mean < 1.03);
    return NULL;
}

void test_parts(void)
{
    report("anchors move with the bytes", test_anchors_move_with_the_bytes());
    report("anchors at the edges", test_anchors_at_the_edges());
    report("index forgets the oldest", test_index_forgets_the_oldest());
    report("trace repeats itself", test_trace_repeats_itself());
}

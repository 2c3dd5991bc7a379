/* test.c - the packet cache against a plain model; test_parts.c has what it is made of.
 *
 * Build it with plain/packet_cache.c, where it also makes allocations fail (link
 * with -Wl,--wrap=malloc,--wrap=calloc -DFAILING_MALLOC), or with
 * aquifer/packet_cache.c. Prints one line for each test and exits with 1 if one
 * failed.
 */
#include "packet_cache.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

enum { CAPACITY = 2 << 20, PACKETS = 12000 };

#ifdef FAILING_MALLOC
/* Allocations that still succeed; then they fail. */
static long allocations_left = -1;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

static bool may_allocate(void)
{
    if (allocations_left == 0)
        return false;
    allocations_left -= allocations_left > 0;
    return true;
}

void *__wrap_malloc(size_t bytes)
{
    return may_allocate() ? __real_malloc(bytes) : NULL;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return may_allocate() ? __real_calloc(count, bytes) : NULL;
}
#endif

/* ---- Model ------------------------------------------------------------- */

/* Every packet that was ever added, by its number. */
static unsigned char model[PACKETS + 1][PAYLOAD_BYTES_MAX];
static size_t model_bytes[PACKETS + 1];
static uint64_t model_count;

static struct match matches[ANCHORS_MAX];

static packet_cache *fresh_cache(size_t capacity)
{
    model_count = 0;
    return packet_cache_create(capacity);
}

static size_t find(const packet_cache *cache, const unsigned char *payload, size_t bytes)
{
    struct anchor anchors[ANCHORS_MAX];
    return packet_cache_find(cache, payload, bytes, anchors, anchors_find(payload, bytes, anchors), matches);
}

static bool add(packet_cache *cache, const unsigned char *payload, size_t bytes)
{
    struct anchor anchors[ANCHORS_MAX];
    if (!packet_cache_add(cache, payload, bytes, anchors, anchors_find(payload, bytes, anchors)))
        return false;
    model_count++;
    memcpy(model[model_count], payload, bytes);
    model_bytes[model_count] = bytes;
    return true;
}

/* Whether the cache holds packet number as the model does, or neither does. */
static bool agrees(const packet_cache *cache, uint64_t number)
{
    size_t bytes;
    const unsigned char *payload = packet_cache_payload(cache, number, &bytes);
    if (number == 0 || number > model_count || number <= packet_cache_evictions(cache))
        return !payload;
    return payload && bytes == model_bytes[number] && memcmp(payload, model[number], bytes) == 0;
}

/* Whether a match is true to the model, and could not be one byte longer. */
static bool is_longest(const struct match *match, const unsigned char *payload, size_t bytes, size_t free_from)
{
    const unsigned char *cached = model[match->packet];
    size_t end = match->at + match->bytes, cached_end = match->from + match->bytes;
    return match->bytes >= ANCHOR_BYTES && match->at >= free_from && end <= bytes &&
           cached_end <= model_bytes[match->packet] &&
           memcmp(payload + match->at, cached + match->from, match->bytes) == 0 &&
           (match->at == free_from || match->from == 0 || payload[match->at - 1] != cached[match->from - 1]) &&
           (end == bytes || cached_end == model_bytes[match->packet] || payload[end] != cached[cached_end]);
}

static bool all_longest(const unsigned char *payload, size_t bytes, size_t count)
{
    size_t free_from = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_longest(&matches[i], payload, bytes, free_from))
            return false;
        free_from = matches[i].at + matches[i].bytes;
    }
    return true;
}

/* ---- Tests ------------------------------------------------------------- */

static const char *test_empty(void)
{
    packet_cache *cache = fresh_cache(CAPACITY);
    REQUIRE(cache);
    unsigned char payload[PAYLOAD_BYTES_MAX];
    write_bytes(1, payload, sizeof payload);
    REQUIRE(find(cache, payload, sizeof payload) == 0);
    REQUIRE(agrees(cache, 0) && agrees(cache, 1) && agrees(cache, UINT64_MAX));
    REQUIRE(packet_cache_count(cache) == 0 && packet_cache_bytes(cache) == 0);
    REQUIRE(packet_cache_index_bytes(cache) < CAPACITY / 15);
    REQUIRE(!packet_cache_check(cache));
    packet_cache_destroy(cache);
    packet_cache_destroy(NULL);
    return NULL;
}

static const char *test_finds_whole_and_part(void)
{
    packet_cache *cache = fresh_cache(CAPACITY);
    unsigned char first[1400], second[1400];
    write_bytes(1, first, sizeof first);
    REQUIRE(add(cache, first, sizeof first));
    REQUIRE(find(cache, first, sizeof first) == 1);
    REQUIRE(matches[0].packet == 1 && matches[0].at == 0 && matches[0].from == 0 && matches[0].bytes == 1400);
    /* 1200 bytes of it, elsewhere, with strange bytes on both sides. */
    write_bytes(2, second, sizeof second);
    memcpy(second + 50, first + 150, 1200);
    second[49] = (unsigned char)(first[149] ^ 1);
    second[1250] = (unsigned char)(first[1350] ^ 1);
    REQUIRE(find(cache, second, sizeof second) == 1);
    REQUIRE(matches[0].at == 50 && matches[0].from == 150 && matches[0].bytes == 1200);
    /* The newest of several is found. */
    REQUIRE(add(cache, first, sizeof first));
    REQUIRE(find(cache, first, sizeof first) == 1 && matches[0].packet == 2);
    packet_cache_destroy(cache);
    return NULL;
}

static const char *test_index_does_not_lie(void)
{
    /* An anchor that is the same, in front of bytes that are not: the fingerprint is forged. */
    packet_cache *cache = fresh_cache(CAPACITY);
    unsigned char payload[200];
    struct anchor forged = {.fingerprint = 12345, .at = 180}, anchor = {.fingerprint = 12345, .at = 100};
    write_bytes(1, payload, sizeof payload);
    REQUIRE(packet_cache_add(cache, payload, sizeof payload, &forged, 1));
    REQUIRE(packet_cache_find(cache, payload, sizeof payload, &anchor, 1, matches) == 0);
    forged.at = 20;
    REQUIRE(packet_cache_add(cache, payload, sizeof payload, &forged, 1));
    REQUIRE(packet_cache_find(cache, payload, sizeof payload, &anchor, 1, matches) == 0);
    packet_cache_destroy(cache);
    return NULL;
}

/* Many packets, in a cache that has to forget most of them. */
static const char *test_against_model(void)
{
    packet_cache *cache = fresh_cache(CAPACITY);
    struct trace trace = usual_trace();
    uint64_t repeated = 0, total = 0;
    for (unsigned i = 0; i < PACKETS; i++) {
        unsigned char payload[PAYLOAD_BYTES_MAX];
        size_t bytes = trace_next(&trace, payload);
        size_t count = find(cache, payload, bytes);
        REQUIRE(all_longest(payload, bytes, count));
        for (size_t m = 0; m < count; m++)
            repeated += matches[m].bytes;
        total += bytes;
        REQUIRE(add(cache, payload, bytes));
        REQUIRE(packet_cache_bytes(cache) <= CAPACITY);
        REQUIRE(packet_cache_count(cache) + packet_cache_evictions(cache) == model_count);
        REQUIRE(agrees(cache, model_count) && agrees(cache, mix64(i) % model_count));
        if (i % 1000 == 0)
            REQUIRE(!packet_cache_check(cache));
    }
    REQUIRE(packet_cache_bytes(cache) > CAPACITY - PAYLOAD_BYTES_MAX);
    for (uint64_t number = 0; number <= model_count + 1; number++)
        REQUIRE(agrees(cache, number));
    REQUIRE(!packet_cache_check(cache));
    double share = (double)repeated / (double)total;
    REQUIRE(share > 0.3 && share < 0.55);
    packet_cache_destroy(cache);
    return NULL;
}

static const char *test_smallest_cache_and_packets(void)
{
    packet_cache *cache = fresh_cache(PAYLOAD_BYTES_MAX);
    unsigned char payload[PAYLOAD_BYTES_MAX];
    for (uint64_t i = 0; i < 5000; i++) {
        size_t bytes = i % 7 == 0 ? PAYLOAD_BYTES_MAX : 1 + i % 50;
        write_bytes(i, payload, bytes);
        REQUIRE(add(cache, payload, bytes));
        REQUIRE(agrees(cache, model_count) && !packet_cache_check(cache));
        REQUIRE(packet_cache_bytes(cache) <= PAYLOAD_BYTES_MAX);
    }
    packet_cache_destroy(cache);
    return NULL;
}

#ifdef FAILING_MALLOC
/* An allocation fails now and then: the packet is not added, the cache stays
 * sound and takes the packet when there is memory again. */
static const char *test_no_memory(void)
{
    for (long allowed = 0; allowed < 4; allowed++) {
        allocations_left = allowed;
        packet_cache *none = packet_cache_create(CAPACITY);
        allocations_left = -1;
        REQUIRE(!none);
    }
    packet_cache *cache = fresh_cache(CAPACITY);
    struct trace trace = usual_trace();
    for (unsigned i = 0; i < PACKETS / 2; i++) {
        unsigned char payload[PAYLOAD_BYTES_MAX];
        size_t bytes = trace_next(&trace, payload);
        allocations_left = 0;
        bool added = add(cache, payload, bytes);
        allocations_left = -1;
        REQUIRE(!added && !packet_cache_payload(cache, model_count + 1, &(size_t){0}));
        REQUIRE(i % 100 || !packet_cache_check(cache));
        REQUIRE(add(cache, payload, bytes) && agrees(cache, model_count));
    }
    packet_cache_destroy(cache);
    return NULL;
}
#endif

static const char *test_check_finds_damage(void)
{
    packet_cache *cache = fresh_cache(CAPACITY);
    unsigned char payload[100] = {0};
    REQUIRE(add(cache, payload, sizeof payload) && add(cache, payload, sizeof payload));
    /* The first word of a cache is its ring; the second of a packet is its length. */
    size_t *bytes = *(size_t **)(void *)cache + 2 + 1;
    REQUIRE(*bytes == 100);
    *bytes = 101;
    REQUIRE(packet_cache_check(cache));
    *bytes = 100;
    REQUIRE(!packet_cache_check(cache));
    packet_cache_destroy(cache);
    return NULL;
}

int main(void)
{
    test_parts();
    report("empty", test_empty());
    report("finds whole and part", test_finds_whole_and_part());
    report("index does not lie", test_index_does_not_lie());
    report("many packets against the model", test_against_model());
    report("smallest cache and packets", test_smallest_cache_and_packets());
#ifdef FAILING_MALLOC
    report("no memory", test_no_memory());
#endif
    report("check finds damage", test_check_finds_damage());
    return failures != 0;
}

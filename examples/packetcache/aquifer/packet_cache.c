/* packet_cache.c - the cache of packet_cache.h. */
#include "packet_cache.h"

#include "anchor_index.h"

#include <aquifer.h>
#include <stdlib.h>
#include <string.h>

enum { RING_PERIOD = 512 }; /* bytes of capacity for each place in the ring */

struct packet {
    unsigned char *payload;
    size_t bytes; /* here, so that eviction need not touch the payload */
};

struct packet_cache {
    struct packet *ring; /* packet n is in place n % ring_length */
    size_t ring_length;
    anchor_index *index;
    uint64_t oldest; /* the cached packets are those from oldest up to, */
    uint64_t next;   /* but not including, next */
    size_t capacity_bytes;
    size_t bytes;
};

packet_cache *packet_cache_create(size_t capacity_bytes)
{
    packet_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    cache->ring_length = capacity_bytes / RING_PERIOD + 1;
    cache->ring = calloc(cache->ring_length, sizeof *cache->ring);
    cache->index = anchor_index_create(capacity_bytes / ANCHOR_PERIOD);
    cache->oldest = cache->next = 1;
    cache->capacity_bytes = capacity_bytes;
    if (!cache->ring || !cache->index) {
        packet_cache_destroy(cache);
        return NULL;
    }
    return cache;
}

static struct packet *packet_of(const packet_cache *cache, uint64_t number)
{
    return &cache->ring[number % cache->ring_length];
}

/* ---- Change ------------------------------------------------------------ */

static void evict_oldest(packet_cache *cache)
{
    struct packet *packet = packet_of(cache, cache->oldest++);
    aq_free(packet->payload);
    cache->bytes -= packet->bytes;
}

void packet_cache_destroy(packet_cache *cache)
{
    if (!cache)
        return;
    while (cache->oldest < cache->next)
        evict_oldest(cache);
    anchor_index_destroy(cache->index);
    free(cache->ring);
    free(cache);
}

static bool has_room(const packet_cache *cache, size_t bytes)
{
    return cache->bytes + bytes <= cache->capacity_bytes && packet_cache_count(cache) < cache->ring_length;
}

bool packet_cache_add(packet_cache *cache, const unsigned char *payload, size_t bytes, const struct anchor *anchors,
                      size_t anchor_count)
{
    while (!has_room(cache, bytes))
        evict_oldest(cache);
    unsigned char *copy = aq_malloc(bytes);
    if (!copy)
        return false;
    memcpy(copy, payload, bytes);
    uint64_t number = cache->next++;
    *packet_of(cache, number) = (struct packet){.payload = copy, .bytes = bytes};
    cache->bytes += bytes;
    for (size_t i = 0; i < anchor_count; i++) {
        struct place place = {.packet = (uint32_t)number, .at = anchors[i].at};
        anchor_index_put(cache->index, anchors[i].fingerprint, place);
    }
    return true;
}

/* ---- Search ------------------------------------------------------------ */

const unsigned char *packet_cache_payload(const packet_cache *cache, uint64_t packet, size_t *bytes)
{
    if (packet < cache->oldest || packet >= cache->next)
        return NULL;
    *bytes = packet_of(cache, packet)->bytes;
    return packet_of(cache, packet)->payload;
}

/* Makes the match at an anchor as long as the bytes agree to both sides, but
 * not to the left of free_from. False if not even the anchor's own bytes agree. */
static bool match_extend(struct match *match, const unsigned char *payload, size_t bytes, size_t free_from,
                         const unsigned char *cached, size_t cached_bytes)
{
    if (match->from + ANCHOR_BYTES > cached_bytes ||
        memcmp(payload + match->at, cached + match->from, ANCHOR_BYTES) != 0)
        return false;
    size_t left = match->at, cached_left = match->from;
    while (left > free_from && cached_left > 0 && payload[left - 1] == cached[cached_left - 1])
        left--, cached_left--;
    size_t right = match->at + ANCHOR_BYTES, cached_right = match->from + ANCHOR_BYTES;
    while (right < bytes && cached_right < cached_bytes && payload[right] == cached[cached_right])
        right++, cached_right++;
    match->at = (uint32_t)left;
    match->from = (uint32_t)cached_left;
    match->bytes = (uint32_t)(right - left);
    return true;
}

/* Where the bytes of an anchor were seen last, if they are still cached. */
static bool anchor_locate(const packet_cache *cache, const struct anchor *anchor, struct match *match, void **payload)
{
    struct place place;
    if (!anchor_index_find(cache->index, anchor->fingerprint, &place))
        return false;
    /* The index has the lower half of the number; cached numbers are close. */
    uint64_t number = cache->next - (uint32_t)(cache->next - place.packet);
    if (number < cache->oldest || number >= cache->next)
        return false;
    *match = (struct match){.packet = number, .from = place.at, .at = anchor->at};
    *payload = packet_of(cache, number)->payload;
    return true;
}

size_t packet_cache_find(const packet_cache *cache, const unsigned char *payload, size_t bytes,
                         const struct anchor *anchors, size_t anchor_count, struct match *matches)
{
    /* All of them are known before the first is read. */
    struct match candidates[ANCHORS_MAX];
    void *payloads[ANCHORS_MAX] = {0};
    size_t count = 0;
    for (size_t i = 0; i < anchor_count; i++)
        count += anchor_locate(cache, &anchors[i], &candidates[count], &payloads[count]);
    aq_prefetch(payloads, count);

    size_t found = 0, free_from = 0;
    for (size_t i = 0; i < count; i++) {
        struct match *match = &candidates[i];
        size_t cached_bytes = packet_of(cache, match->packet)->bytes;
        if (match->at < free_from || !match_extend(match, payload, bytes, free_from, payloads[i], cached_bytes))
            continue;
        free_from = match->at + match->bytes;
        matches[found++] = *match;
    }
    return found;
}

/* ---- Report ------------------------------------------------------------ */

size_t packet_cache_count(const packet_cache *cache)
{
    return cache->next - cache->oldest;
}

size_t packet_cache_bytes(const packet_cache *cache)
{
    return cache->bytes;
}

uint64_t packet_cache_evictions(const packet_cache *cache)
{
    return cache->oldest - 1;
}

size_t packet_cache_index_bytes(const packet_cache *cache)
{
    return cache->ring_length * sizeof *cache->ring + anchor_index_bytes(cache->index);
}

const char *packet_cache_check(const packet_cache *cache)
{
    if (cache->oldest > cache->next || packet_cache_count(cache) > cache->ring_length)
        return "the cache holds more packets than its ring has places";
    size_t bytes = 0;
    for (uint64_t number = cache->oldest; number < cache->next; number++) {
        const struct packet *packet = packet_of(cache, number);
        if (!packet->payload || packet->bytes == 0 || packet->bytes > PAYLOAD_BYTES_MAX)
            return "a packet has no payload, or one that is too long";
        bytes += packet->bytes;
    }
    if (bytes != cache->bytes)
        return "the sum of the payloads does not match the packets";
    if (bytes > cache->capacity_bytes)
        return "the payloads exceed the capacity";
    return NULL;
}

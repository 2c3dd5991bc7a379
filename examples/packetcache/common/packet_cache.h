/* packet_cache.h - the payloads that went over a link last, and what a new one
 * has in common with them.
 *
 * Both ends of a link keep such a cache with the same contents. Where a new
 * payload repeats bytes of a cached one, a short reference goes over the link
 * instead of the bytes.
 *
 * Each payload is one allocation. When the capacity is reached, the oldest ones
 * go (FIFO), so that both ends forget the same. Packets are numbered from 1 in
 * the order in which they were added.
 *
 * The index in RAM takes a sixteenth of the capacity. A cache is not safe for use
 * by several threads at once.
 */
#ifndef PACKET_CACHE_H
#define PACKET_CACHE_H

#include "anchors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct packet_cache packet_cache;

/* A new payload holds, at offset at, the same bytes as a cached packet at
 * offset from. */
struct match {
    uint64_t packet;
    uint32_t from;
    uint32_t at;
    uint32_t bytes; /* at least ANCHOR_BYTES */
};

/* An empty cache for capacity_bytes of payloads, at least
 * PAYLOAD_BYTES_MAX, or NULL if there is no memory. When payloads are smaller
 * than 512 bytes on average, it keeps capacity_bytes / 512 of them. */
packet_cache *packet_cache_create(size_t capacity_bytes);

/* Frees the cache and its payloads. NULL is allowed. */
void packet_cache_destroy(packet_cache *cache);

/* Stores what the payload with these anchors has in common with cached ones,
 * compared byte for byte, in ascending order and without overlap. Returns the
 * number of matches: at most ANCHORS_MAX. */
size_t packet_cache_find(const packet_cache *cache, const unsigned char *payload, size_t bytes,
                         const struct anchor *anchors, size_t anchor_count, struct match *matches);

/* Copies a payload of 1 to PAYLOAD_BYTES_MAX bytes into the cache, in place of
 * the oldest ones if need be. False if there is no memory; then it is not
 * added. */
bool packet_cache_add(packet_cache *cache, const unsigned char *payload, size_t bytes, const struct anchor *anchors,
                      size_t anchor_count);

/* The payload of a packet, or NULL if it is not cached. Valid until the next
 * packet is added. */
const unsigned char *packet_cache_payload(const packet_cache *cache, uint64_t packet, size_t *bytes);

/* Cached packets, and the sum of their payloads. */
size_t packet_cache_count(const packet_cache *cache);
size_t packet_cache_bytes(const packet_cache *cache);

/* Packets that had to go. */
uint64_t packet_cache_evictions(const packet_cache *cache);

/* Bytes in RAM beside the payloads. */
size_t packet_cache_index_bytes(const packet_cache *cache);

/* NULL if the cache is sound, otherwise what is wrong with it. */
const char *packet_cache_check(const packet_cache *cache);

#endif

/* anchor_index.h - where an anchor was seen last.
 *
 * Buckets of eight entries, 8 bytes each, all in RAM. An entry keeps a part of
 * the fingerprint only, so what is found has to be compared with the bytes
 * themselves. A full bucket forgets the entry of the oldest packet.
 */
#ifndef ANCHOR_INDEX_H
#define ANCHOR_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct anchor_index anchor_index;

struct place {
    uint32_t packet; /* the lower half of its number */
    uint32_t at;     /* in its payload; less than 2048 */
};

/* An empty index with room for about that many anchors, or NULL if there is
 * no memory. */
anchor_index *anchor_index_create(size_t anchors);
void anchor_index_destroy(anchor_index *index);

/* Where an anchor with this fingerprint was seen last. False if the index
 * knows none. */
bool anchor_index_find(const anchor_index *index, uint64_t fingerprint, struct place *place);

/* Packets come in the order of their numbers. */
void anchor_index_put(anchor_index *index, uint64_t fingerprint, struct place place);

/* Bytes asked of the allocator. */
size_t anchor_index_bytes(const anchor_index *index);

#endif

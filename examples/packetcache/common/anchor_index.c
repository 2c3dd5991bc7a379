/* anchor_index.c - see anchor_index.h. */
#include "anchor_index.h"

#include <stdlib.h>

enum { BUCKET_ENTRIES = 8, AT_BITS = 11 };

struct entry {
    uint32_t packet;
    uint32_t tag_and_at; /* at in the lower AT_BITS */
};

struct bucket {
    struct entry entries[BUCKET_ENTRIES];
};

_Static_assert(sizeof(struct bucket) == 64, "a bucket fills one line of the processor's cache");

struct anchor_index {
    struct bucket *buckets;
    size_t count;
};

anchor_index *anchor_index_create(size_t anchors)
{
    anchor_index *index = malloc(sizeof *index);
    if (!index)
        return NULL;
    index->count = anchors / BUCKET_ENTRIES + 1;
    index->buckets = calloc(index->count, sizeof *index->buckets);
    if (!index->buckets) {
        free(index);
        return NULL;
    }
    return index;
}

void anchor_index_destroy(anchor_index *index)
{
    if (!index)
        return;
    free(index->buckets);
    free(index);
}

static struct bucket *bucket_of(const anchor_index *index, uint64_t fingerprint)
{
    return &index->buckets[(fingerprint >> 32) % index->count];
}

static uint32_t tag_of(uint64_t fingerprint)
{
    return (uint32_t)fingerprint >> AT_BITS;
}

bool anchor_index_find(const anchor_index *index, uint64_t fingerprint, struct place *place)
{
    const struct bucket *bucket = bucket_of(index, fingerprint);
    for (unsigned i = 0; i < BUCKET_ENTRIES; i++) {
        const struct entry *entry = &bucket->entries[i];
        if (entry->tag_and_at >> AT_BITS == tag_of(fingerprint)) {
            *place = (struct place){entry->packet, entry->tag_and_at & ((1u << AT_BITS) - 1)};
            return true;
        }
    }
    return false;
}

void anchor_index_put(anchor_index *index, uint64_t fingerprint, struct place place)
{
    struct bucket *bucket = bucket_of(index, fingerprint);
    struct entry *chosen = &bucket->entries[0];
    for (unsigned i = 0; i < BUCKET_ENTRIES; i++) {
        struct entry *entry = &bucket->entries[i];
        if (entry->tag_and_at >> AT_BITS == tag_of(fingerprint)) {
            chosen = entry;
            break;
        }
        /* The difference is the age, also when the numbers have wrapped around. */
        if (place.packet - entry->packet > place.packet - chosen->packet)
            chosen = entry;
    }
    *chosen = (struct entry){place.packet, tag_of(fingerprint) << AT_BITS | place.at};
}

size_t anchor_index_bytes(const anchor_index *index)
{
    return sizeof *index + index->count * sizeof *index->buckets;
}

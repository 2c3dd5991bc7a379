/* hash_cache.c - the cache of hash_cache.h. */
#include "hash_cache.h"

#include "workload.h"

#include <aquifer.h>
#include <stdlib.h>
#include <string.h>

enum { SET_ENTRIES = 8 };

/* An object is a URL with its zero byte, and the response behind it. */
struct entry {
    char *object; /* NULL: free */
    uint32_t tag; /* a part of the URL's hash, so that few objects are read in vain */
    uint32_t bytes;
};

/* The entry that was asked for last stands first; free ones stand at the end. */
struct set {
    struct entry entries[SET_ENTRIES];
};

_Static_assert(sizeof(struct set) == 128, "a set fills two lines of the processor's cache");

struct hash_cache {
    struct set *sets;
    size_t set_count;
    struct hash_cache_counts counts;
};

hash_cache *hash_cache_create(size_t objects_max)
{
    hash_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    cache->set_count = objects_max / SET_ENTRIES + (objects_max < SET_ENTRIES);
    cache->sets = calloc(cache->set_count, sizeof *cache->sets);
    cache->counts.index_bytes = cache->set_count * sizeof *cache->sets;
    if (!cache->sets) {
        free(cache);
        return NULL;
    }
    return cache;
}

/* ---- Sets -------------------------------------------------------------- */

/* FNV-1a, mixed once more because its upper bits are weak on short texts. */
static uint64_t url_hash(const char *url)
{
    uint64_t hash = 0xCBF29CE484222325u;
    for (; *url; url++)
        hash = (hash ^ (unsigned char)*url) * 0x100000001B3u;
    return mix64(hash);
}

static struct set *set_of(const hash_cache *cache, uint64_t hash)
{
    return &cache->sets[(hash >> 32) % cache->set_count];
}

static bool is_for(const struct entry *entry, uint64_t hash, const char *url)
{
    return entry->object && entry->tag == (uint32_t)hash && strcmp(entry->object, url) == 0;
}

/* The number of the entry for a URL; SET_ENTRIES if there is none. */
static unsigned set_find(const struct set *set, uint64_t hash, const char *url)
{
    unsigned i = 0;
    while (i < SET_ENTRIES && !is_for(&set->entries[i], hash, url))
        i++;
    return i;
}

/* Puts an entry first; those that stood before number i move back by one, over entry i. */
static void set_push_front(struct set *set, unsigned i, struct entry entry)
{
    memmove(&set->entries[1], &set->entries[0], i * sizeof set->entries[0]);
    set->entries[0] = entry;
}

/* Closes the gap of entry i. */
static void set_remove(struct set *set, unsigned i)
{
    memmove(&set->entries[i], &set->entries[i + 1], (SET_ENTRIES - 1 - i) * sizeof set->entries[0]);
    set->entries[SET_ENTRIES - 1] = (struct entry){0};
}

/* ---- Objects ----------------------------------------------------------- */

/* An entry with an object of its own; without one if there is no memory. */
static struct entry entry_create(hash_cache *cache, uint64_t hash, const char *url, const unsigned char *response,
                                 size_t bytes)
{
    size_t url_bytes = strlen(url) + 1;
    struct entry entry = {.tag = (uint32_t)hash, .bytes = (uint32_t)(url_bytes + bytes)};
    entry.object = aq_malloc(url_bytes + bytes);
    if (!entry.object)
        return entry;
    memcpy(entry.object, url, url_bytes);
    memcpy(entry.object + url_bytes, response, bytes);
    cache->counts.objects++;
    cache->counts.object_bytes += entry.bytes;
    return entry;
}

/* The object itself is not touched: it may not be in RAM. */
static void entry_destroy(hash_cache *cache, struct entry entry)
{
    cache->counts.objects--;
    cache->counts.object_bytes -= entry.bytes;
    aq_free(entry.object);
}

void hash_cache_destroy(hash_cache *cache)
{
    if (!cache)
        return;
    for (size_t s = 0; s < cache->set_count; s++) {
        for (unsigned i = 0; i < SET_ENTRIES && cache->sets[s].entries[i].object; i++)
            entry_destroy(cache, cache->sets[s].entries[i]);
    }
    free(cache->sets);
    free(cache);
}

/* ---- Interface --------------------------------------------------------- */

const unsigned char *hash_cache_get(hash_cache *cache, const char *url, size_t *bytes)
{
    uint64_t hash = url_hash(url);
    struct set *set = set_of(cache, hash);
    unsigned i = set_find(set, hash, url);
    if (i == SET_ENTRIES)
        return NULL;
    struct entry entry = set->entries[i];
    set_push_front(set, i, entry);
    size_t url_bytes = strlen(url) + 1;
    *bytes = entry.bytes - url_bytes;
    return (const unsigned char *)entry.object + url_bytes;
}

bool hash_cache_put(hash_cache *cache, const char *url, const unsigned char *response, size_t bytes)
{
    uint64_t hash = url_hash(url);
    struct set *set = set_of(cache, hash);
    struct entry entry = entry_create(cache, hash, url, response, bytes);
    if (!entry.object)
        return false;
    unsigned i = set_find(set, hash, url);
    if (i == SET_ENTRIES) {
        i = SET_ENTRIES - 1;
        cache->counts.evictions += set->entries[i].object != NULL;
    }
    if (set->entries[i].object)
        entry_destroy(cache, set->entries[i]);
    set_push_front(set, i, entry);
    return true;
}

bool hash_cache_delete(hash_cache *cache, const char *url)
{
    uint64_t hash = url_hash(url);
    struct set *set = set_of(cache, hash);
    unsigned i = set_find(set, hash, url);
    if (i == SET_ENTRIES)
        return false;
    entry_destroy(cache, set->entries[i]);
    set_remove(set, i);
    return true;
}

/* ---- Report ------------------------------------------------------------ */

struct hash_cache_counts hash_cache_count(const hash_cache *cache)
{
    return cache->counts;
}

static const char *audit_set(const hash_cache *cache, const struct set *set, struct hash_cache_counts *seen)
{
    for (unsigned i = 0; i < SET_ENTRIES; i++) {
        const struct entry *entry = &set->entries[i];
        if (!entry->object)
            continue;
        seen->objects++;
        seen->object_bytes += entry->bytes;
        if (i > 0 && !set->entries[i - 1].object)
            return "a free entry stands before one in use";
        if (!memchr(entry->object, '\0', entry->bytes))
            return "the URL of an object does not end";
        uint64_t hash = url_hash(entry->object);
        if (set_of(cache, hash) != set || entry->tag != (uint32_t)hash)
            return "an object is not where its URL belongs";
        if (set_find(set, hash, entry->object) != i)
            return "two objects have the same URL";
    }
    return NULL;
}

const char *hash_cache_check(const hash_cache *cache)
{
    struct hash_cache_counts seen = {0};
    for (size_t s = 0; s < cache->set_count; s++) {
        const char *wrong = audit_set(cache, &cache->sets[s], &seen);
        if (wrong)
            return wrong;
    }
    if (seen.objects != cache->counts.objects || seen.object_bytes != cache->counts.object_bytes)
        return "the sets hold more or fewer objects than were counted";
    return NULL;
}

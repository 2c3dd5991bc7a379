/* hash_cache.h - responses of web servers, kept by URL.
 *
 * The index is in RAM and small, as in HashCache (NSDI 2009): the hash of a URL
 * chooses a set of eight entries, and only these are searched. A set that is
 * full gives up the entry that was not asked for the longest, so no list over
 * the whole cache is needed. An entry takes 16 bytes; the URL itself stands in
 * front of the response.
 *
 * Each URL with its response is one allocation. A cache is not safe for use by
 * several threads at once.
 */
#ifndef HASH_CACHE_H
#define HASH_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hash_cache hash_cache;

/* An empty cache for objects_max responses, or NULL if there is no memory. */
hash_cache *hash_cache_create(size_t objects_max);

/* Frees the cache and its responses. NULL is allowed. */
void hash_cache_destroy(hash_cache *cache);

/* The response for a URL, or NULL. Valid until the next put or delete. It is
 * now the last of its set to go. */
const unsigned char *hash_cache_get(hash_cache *cache, const char *url, size_t *bytes);

/* Keeps a copy of the response, in place of an older one for the same URL. URL
 * and response together have less than 4 GiB. False if there is no memory; the
 * cache then holds what it held before. */
bool hash_cache_put(hash_cache *cache, const char *url, const unsigned char *response, size_t bytes);

/* False if there was no response for the URL. */
bool hash_cache_delete(hash_cache *cache, const char *url);

struct hash_cache_counts {
    size_t objects;
    size_t object_bytes; /* URLs and responses */
    size_t index_bytes;  /* in RAM beside these */
    uint64_t evictions;  /* responses that had to go */
};

struct hash_cache_counts hash_cache_count(const hash_cache *cache);

/* NULL if the cache is sound, otherwise what is wrong with it. */
const char *hash_cache_check(const hash_cache *cache);

#endif

/* test.c - the web cache against plain models.
 *
 * Build it with plain/hash_cache.c, where it also makes allocations fail (link
 * with -Wl,--wrap=malloc,--wrap=calloc -DFAILING_MALLOC), or with
 * aquifer/hash_cache.c. Prints one line for each test and exits with 1 if one
 * failed.
 */
#include "hash_cache.h"
#include "origin.h"
#include "workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OBJECTS = 2000, URLS = 6000, SET = 8 };

static int failures;

static void report(const char *name, const char *problem)
{
    printf("%s hashcache %s%s%s\n", problem ? "FAIL" : "ok", name, problem ? ": " : "", problem ? problem : "");
    failures += problem != NULL;
}

#define REQUIRE(condition) \
    do { \
        if (!(condition)) \
            return "not so: " #condition; \
    } while (0)

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

/* A response of the test is that of URL number * 1000 + version: model[number]
 * is the version that was put last, 0 if none or deleted. */
static uint32_t model[URLS];

static hash_cache *fresh_cache(size_t objects)
{
    memset(model, 0, sizeof model);
    return hash_cache_create(objects);
}

static bool put(hash_cache *cache, uint64_t number, uint32_t version)
{
    char url[URL_BYTES_MAX];
    unsigned char response[RESPONSE_BYTES_MAX];
    origin_url(number, url);
    size_t bytes = origin_response(number * 1000 + version, response);
    if (!hash_cache_put(cache, url, response, bytes))
        return false;
    model[number] = version;
    return true;
}

static bool delete(hash_cache *cache, uint64_t number)
{
    char url[URL_BYTES_MAX];
    origin_url(number, url);
    model[number] = 0;
    return hash_cache_delete(cache, url);
}

enum answer { ABSENT, RIGHT, WRONG };

static enum answer get(hash_cache *cache, uint64_t number)
{
    char url[URL_BYTES_MAX];
    origin_url(number, url);
    size_t bytes;
    const unsigned char *response = hash_cache_get(cache, url, &bytes);
    if (!response)
        return ABSENT;
    return model[number] && origin_response_is(number * 1000 + model[number], response, bytes) ? RIGHT : WRONG;
}

/* ---- Tests ------------------------------------------------------------- */

static const char *test_empty(void)
{
    hash_cache *cache = fresh_cache(OBJECTS);
    REQUIRE(cache);
    REQUIRE(get(cache, 1) == ABSENT && !delete(cache, 1));
    struct hash_cache_counts counts = hash_cache_count(cache);
    REQUIRE(counts.objects == 0 && counts.object_bytes == 0 && counts.evictions == 0);
    REQUIRE(counts.index_bytes == OBJECTS * 16);
    REQUIRE(!hash_cache_check(cache));
    hash_cache_destroy(cache);
    hash_cache_destroy(NULL);
    return NULL;
}

static const char *test_unusual_objects(void)
{
    hash_cache *cache = fresh_cache(OBJECTS);
    size_t bytes;
    REQUIRE(hash_cache_put(cache, "", (const unsigned char *)"x", 1));
    REQUIRE(hash_cache_put(cache, "http://a/", (const unsigned char *)"", 0));
    REQUIRE(hash_cache_put(cache, "http://a/b", (const unsigned char *)"\0\0", 2));
    REQUIRE(*hash_cache_get(cache, "", &bytes) == 'x' && bytes == 1);
    REQUIRE(hash_cache_get(cache, "http://a/", &bytes) && bytes == 0);
    REQUIRE(hash_cache_get(cache, "http://a/b", &bytes) && bytes == 2);
    REQUIRE(!hash_cache_get(cache, "http://a", &bytes));
    REQUIRE(!hash_cache_check(cache));
    hash_cache_destroy(cache);
    return NULL;
}

/* The model of one set: numbers, the one that was asked for last stands first. */
static uint64_t list[SET];
static size_t list_count;

/* False if the number was not in the list. */
static bool list_remove(uint64_t number)
{
    for (size_t i = 0; i < list_count; i++) {
        if (list[i] == number) {
            memmove(&list[i], &list[i + 1], (--list_count - i) * sizeof list[0]);
            return true;
        }
    }
    return false;
}

/* True if the last one had to go. */
static bool list_push_front(uint64_t number)
{
    bool full = list_count == SET;
    list_count -= full;
    memmove(&list[1], &list[0], list_count++ * sizeof list[0]);
    list[0] = number;
    return full;
}

static const char *test_a_set_is_lru(void)
{
    hash_cache *cache = fresh_cache(SET);
    uint64_t evicted = 0;
    for (uint64_t i = 0; i < 50000; i++) {
        uint64_t number = 1 + mix64(i) % 14;
        bool there = list_remove(number);
        if (mix64(i) >> 62 == 0) {
            REQUIRE(delete(cache, number) == there);
        } else {
            REQUIRE(get(cache, number) == (there ? RIGHT : ABSENT));
            if (!there || i % 3 == 0)
                REQUIRE(put(cache, number, 1 + (uint32_t)(i % 999)));
            evicted += list_push_front(number);
        }
        REQUIRE(hash_cache_count(cache).objects == list_count && hash_cache_count(cache).evictions == evicted);
        REQUIRE(i % 100 || !hash_cache_check(cache));
    }
    hash_cache_destroy(cache);
    return NULL;
}

/* Requests, replacements and deletions in random order: what the cache has is
 * right, and what it has not was evicted or deleted. */
static const char *test_random_operations(void)
{
    hash_cache *cache = fresh_cache(OBJECTS);
    struct sampler sampler;
    sampler_init(&sampler, URLS, 0.8, 5);
    uint64_t added = 0, deleted = 0;
    for (uint64_t i = 0; i < 150000; i++) {
        uint64_t number = sampler_next(&sampler), dice = mix64(i) % 100;
        enum answer answer = get(cache, number);
        REQUIRE(answer != WRONG);
        if (dice < 10) {
            REQUIRE(delete(cache, number) == (answer == RIGHT));
            deleted += answer == RIGHT;
            REQUIRE(get(cache, number) == ABSENT);
        } else if (answer == ABSENT || dice < 20) {
            REQUIRE(put(cache, number, 1 + (uint32_t)(i % 999)));
            added += answer == ABSENT;
            REQUIRE(get(cache, number) == RIGHT);
        }
        struct hash_cache_counts counts = hash_cache_count(cache);
        REQUIRE(counts.objects <= OBJECTS && counts.objects + counts.evictions + deleted == added);
        REQUIRE(i % 20000 || !hash_cache_check(cache));
    }
    REQUIRE(hash_cache_count(cache).objects > OBJECTS * 9 / 10);
    for (uint64_t number = 0; number < URLS; number++)
        delete(cache, number);
    REQUIRE(hash_cache_count(cache).objects == 0 && hash_cache_count(cache).object_bytes == 0);
    REQUIRE(!hash_cache_check(cache));
    hash_cache_destroy(cache);
    return NULL;
}

#ifdef FAILING_MALLOC
/* Every put fails once: the cache holds what it held, and takes the response
 * when there is memory again. */
static const char *test_no_memory(void)
{
    for (long allowed = 0; allowed < 2; allowed++) {
        allocations_left = allowed;
        hash_cache *none = hash_cache_create(OBJECTS);
        allocations_left = -1;
        REQUIRE(!none);
    }
    hash_cache *cache = fresh_cache(OBJECTS);
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t number = mix64(i) % URLS;
        enum answer before = get(cache, number);
        struct hash_cache_counts counts = hash_cache_count(cache);
        allocations_left = 0;
        bool kept = put(cache, number, 1 + (uint32_t)(i % 999));
        allocations_left = -1;
        REQUIRE(!kept && get(cache, number) == before);
        struct hash_cache_counts after = hash_cache_count(cache);
        REQUIRE(memcmp(&counts, &after, sizeof counts) == 0);
        REQUIRE(i % 1000 || !hash_cache_check(cache));
        REQUIRE(put(cache, number, 1 + (uint32_t)(i % 999)) && get(cache, number) == RIGHT);
    }
    hash_cache_destroy(cache);
    return NULL;
}
#endif

static const char *test_check_finds_damage(void)
{
    hash_cache *cache = fresh_cache(SET);
    for (uint64_t number = 1; number < 4; number++)
        REQUIRE(put(cache, number, 1));
    REQUIRE(!hash_cache_check(cache));
    /* The first word of a cache are its sets, the first word of an entry its object. */
    char **first = *(char ***)(void *)cache;
    (*first)[3] ^= 1;
    REQUIRE(hash_cache_check(cache));
    (*first)[3] ^= 1;
    REQUIRE(!hash_cache_check(cache));
    hash_cache_destroy(cache);
    return NULL;
}

static const char *test_origin(void)
{
    double total = 0;
    unsigned small = 0;
    for (uint64_t number = 0; number < URLS; number++) {
        unsigned char response[RESPONSE_BYTES_MAX];
        size_t bytes = origin_response(number, response);
        REQUIRE(bytes >= RESPONSE_BYTES_MIN && bytes <= RESPONSE_BYTES_MAX);
        REQUIRE(origin_response_is(number, response, bytes) && !origin_response_is(number, response, bytes - 1));
        response[bytes - 1] ^= 1;
        REQUIRE(!origin_response_is(number, response, bytes));
        total += (double)bytes;
        small += bytes < 905; /* the middle of 100 and 8192 on a scale of doublings */
    }
    REQUIRE(total / URLS > 0.95 * RESPONSE_BYTES_MEAN && total / URLS < 1.05 * RESPONSE_BYTES_MEAN);
    REQUIRE(small > URLS * 0.47 && small < URLS * 0.53);
    char url[URL_BYTES_MAX];
    origin_url(UINT64_MAX, url);
    REQUIRE(strlen(url) > 40 && strcmp(url + strlen(url) - 5, ".html") == 0);
    return NULL;
}

int main(void)
{
    report("empty", test_empty());
    report("unusual objects", test_unusual_objects());
    report("a set is LRU", test_a_set_is_lru());
    report("random operations", test_random_operations());
#ifdef FAILING_MALLOC
    report("no memory", test_no_memory());
#endif
    report("check finds damage", test_check_finds_damage());
    report("origin", test_origin());
    return failures != 0;
}

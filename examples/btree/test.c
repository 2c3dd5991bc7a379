/* test.c - the B+tree against a plain model.
 *
 * Build it with plain/btree.c, where it also makes allocations fail (link with
 * -Wl,--wrap=malloc -DFAILING_MALLOC), or with aquifer/btree.c. Prints one line
 * for each test and exits with 1 if one failed.
 */
#include "btree.h"
#include "workload.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_BYTES = 100, MODEL_KEYS = 40000 };

static int failures;

static void report(const char *name, const char *problem)
{
    printf("%s btree %s%s%s\n", problem ? "FAIL" : "ok", name, problem ? ": " : "", problem ? problem : "");
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
void *__wrap_malloc(size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    if (allocations_left == 0)
        return NULL;
    if (allocations_left > 0)
        allocations_left--;
    return __real_malloc(bytes);
}
#endif

/* ---- Model ------------------------------------------------------------- */

/* Keys are small numbers here, so that collisions and neighbours are common:
 * model[key] is 0 if absent, else the version of its value. */
static uint32_t model[MODEL_KEYS];
static size_t model_count;

static void versioned_value(uint64_t key, uint32_t version, unsigned char *value)
{
    record_value(key << 32 | version, value, VALUE_BYTES);
}

static bool holds(const unsigned char *value, uint64_t key, uint32_t version)
{
    return record_value_is(key << 32 | version, value, VALUE_BYTES);
}

static bool agrees(const btree *tree, uint64_t key)
{
    const unsigned char *value = btree_find(tree, key);
    return model[key] ? value && holds(value, key, model[key]) : !value;
}

struct walk {
    uint64_t next;
    bool same;
};

static bool compare_with_model(uint64_t key, const void *value, void *context)
{
    struct walk *walk = context;
    while (walk->next < key)
        walk->same = walk->same && model[walk->next++] == 0;
    walk->same = walk->same && model[key] && holds(value, key, model[key]);
    walk->next = key + 1;
    return walk->same;
}

/* Whether a scan of [first, last] sees exactly what the model holds. */
static bool scan_agrees(const btree *tree, uint64_t first, uint64_t last)
{
    struct walk walk = {.next = first, .same = true};
    size_t expected = 0;
    for (uint64_t key = first; key <= last; key++)
        expected += model[key] != 0;
    return btree_scan(tree, first, last, compare_with_model, &walk) == expected && walk.same;
}

static btree *fresh_tree(void)
{
    memset(model, 0, sizeof model);
    model_count = 0;
    return btree_create(VALUE_BYTES);
}

static bool put(btree *tree, uint64_t key, uint32_t version)
{
    unsigned char value[VALUE_BYTES];
    versioned_value(key, version, value);
    enum btree_result expected = model[key] ? BTREE_REPLACED : BTREE_ADDED;
    if (btree_insert(tree, key, value) != expected)
        return false;
    model_count += !model[key];
    model[key] = version;
    return btree_count(tree) == model_count;
}

static bool take(btree *tree, uint64_t key)
{
    bool was_there = model[key] != 0;
    model_count -= was_there;
    model[key] = 0;
    return btree_delete(tree, key) == was_there && btree_count(tree) == model_count;
}

/* ---- Tests ------------------------------------------------------------- */

static const char *test_empty(void)
{
    btree *tree = fresh_tree();
    REQUIRE(tree);
    REQUIRE(btree_count(tree) == 0 && btree_height(tree) == 1);
    REQUIRE(!btree_find(tree, 0) && !btree_find(tree, UINT64_MAX));
    REQUIRE(!btree_delete(tree, 7));
    REQUIRE(scan_agrees(tree, 0, MODEL_KEYS - 1));
    REQUIRE(!btree_check(tree));
    btree_destroy(tree);
    btree_destroy(NULL);
    return NULL;
}

static const char *test_extreme_keys(void)
{
    static const uint64_t keys[] = {UINT64_MAX, 0, 1, UINT64_MAX - 1, (uint64_t)1 << 63};
    btree *tree = fresh_tree();
    for (unsigned i = 0; i < 5; i++) {
        unsigned char value[VALUE_BYTES];
        record_value(keys[i], value, VALUE_BYTES);
        REQUIRE(btree_insert(tree, keys[i], value) == BTREE_ADDED);
    }
    for (unsigned i = 0; i < 5; i++)
        REQUIRE(btree_find(tree, keys[i]) && record_value_is(keys[i], btree_find(tree, keys[i]), VALUE_BYTES));
    REQUIRE(!btree_check(tree));
    btree_destroy(tree);
    return NULL;
}

/* Loads every key in an order, then deletes every key in another. */
static const char *load_and_drain(uint64_t (*load_order)(uint64_t), uint64_t (*drain_order)(uint64_t))
{
    btree *tree = fresh_tree();
    for (uint64_t i = 0; i < MODEL_KEYS; i++)
        REQUIRE(put(tree, load_order(i), 1));
    REQUIRE(!btree_check(tree));
    REQUIRE(scan_agrees(tree, 0, MODEL_KEYS - 1));
    for (uint64_t key = 0; key < MODEL_KEYS; key++)
        REQUIRE(agrees(tree, key));
    for (uint64_t i = 0; i < MODEL_KEYS; i++)
        REQUIRE(take(tree, drain_order(i)));
    REQUIRE(!btree_check(tree));
    REQUIRE(scan_agrees(tree, 0, MODEL_KEYS - 1));
    for (uint64_t i = 0; i < MODEL_KEYS; i++)
        REQUIRE(put(tree, drain_order(i), 2));
    REQUIRE(!btree_check(tree));
    REQUIRE(scan_agrees(tree, 0, MODEL_KEYS - 1));
    btree_destroy(tree);
    return NULL;
}

static uint64_t upward(uint64_t i)
{
    return i;
}

static uint64_t downward(uint64_t i)
{
    return MODEL_KEYS - 1 - i;
}

static uint64_t shuffled(uint64_t i)
{
    return scattered(i, MODEL_KEYS);
}

static const char *test_ascending(void)
{
    return load_and_drain(upward, shuffled);
}

static const char *test_descending(void)
{
    return load_and_drain(downward, upward);
}

static const char *test_shuffled(void)
{
    return load_and_drain(shuffled, downward);
}

static const char *test_dense_after_ordered_load(void)
{
    btree *tree = fresh_tree();
    for (uint64_t key = 0; key < MODEL_KEYS; key++)
        REQUIRE(put(tree, key, 1));
    size_t index_bytes = btree_bytes(tree) - MODEL_KEYS * (size_t)VALUE_BYTES;
    REQUIRE(index_bytes < MODEL_KEYS * (size_t)17);
    btree_destroy(tree);
    return NULL;
}

/* Inserts, replacements, deletions, lookups and scans in random order. */
static const char *test_random_operations(void)
{
    btree *tree = fresh_tree();
    struct sampler dice;
    sampler_init(&dice, 1u << 30, 0, 42);
    for (uint32_t i = 1; i <= 1500000; i++) {
        /* The share of inserts swings, so that the tree grows and shrinks. */
        unsigned inserts = i / 100000 % 2 ? 25 : 60;
        unsigned kind = (unsigned)(sampler_next(&dice) % 100);
        uint64_t key = sampler_next(&dice) % MODEL_KEYS;
        if (kind < inserts)
            REQUIRE(put(tree, key, i));
        else if (kind < 90)
            REQUIRE(take(tree, key));
        else if (kind < 99)
            REQUIRE(agrees(tree, key));
        else
            REQUIRE(scan_agrees(tree, key, key + (MODEL_KEYS - 1 - key < 50 ? MODEL_KEYS - 1 - key : 50)));
        if (i % 50000 == 0)
            REQUIRE(!btree_check(tree));
    }
    REQUIRE(scan_agrees(tree, 0, MODEL_KEYS - 1));
    btree_destroy(tree);
    return NULL;
}

static bool stop_at_third(uint64_t key, const void *value, void *context)
{
    (void)key, (void)value;
    return ++*(int *)context < 3;
}

static const char *test_scan_stops(void)
{
    btree *tree = fresh_tree();
    for (uint64_t key = 0; key < 1000; key++)
        REQUIRE(put(tree, key, 1));
    int seen = 0;
    REQUIRE(btree_scan(tree, 0, UINT64_MAX, stop_at_third, &seen) == 3 && seen == 3);
    REQUIRE(btree_scan(tree, 10, 9, stop_at_third, &seen) == 0);
    REQUIRE(btree_scan(tree, 5000, UINT64_MAX, stop_at_third, &seen) == 0);
    btree_destroy(tree);
    return NULL;
}

#ifdef FAILING_MALLOC
/* Lets the n-th allocation fail, for every n: the tree stays sound, holds what
 * it held, and takes the record when there is memory again. */
static const char *test_no_memory(void)
{
    btree *tree = fresh_tree();
    unsigned refused = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t key = shuffled(i);
        unsigned char value[VALUE_BYTES];
        versioned_value(key, 1, value);
        enum btree_result result = BTREE_NO_MEMORY;
        for (long allowed = 0; result == BTREE_NO_MEMORY; allowed++) {
            allocations_left = allowed;
            result = btree_insert(tree, key, value);
            allocations_left = -1;
            refused += result == BTREE_NO_MEMORY;
            REQUIRE(result != BTREE_NO_MEMORY || !btree_find(tree, key));
            REQUIRE(allowed == 0 || !btree_check(tree));
            if (allowed > 8)
                return "an insert still fails with nine allocations";
            if (allowed > 1)
                REQUIRE(btree_count(tree) == i + (result == BTREE_ADDED));
        }
        model[key] = 1;
    }
    REQUIRE(refused > 20000);
    REQUIRE(scan_agrees(tree, 0, MODEL_KEYS - 1));
    btree_destroy(tree);
    allocations_left = 0;
    btree *none = btree_create(VALUE_BYTES);
    allocations_left = -1;
    REQUIRE(!none);
    return NULL;
}
#endif

static const char *test_check_finds_damage(void)
{
    btree *tree = fresh_tree();
    for (uint64_t key = 0; key < 1000; key++)
        REQUIRE(put(tree, key, 1));
    /* The first word of a tree is its root; the keys of a node begin 16 bytes in. */
    unsigned char *root = *(unsigned char **)(void *)tree;
    uint64_t *first_key = (uint64_t *)(void *)(root + 16) + 1, kept = *first_key;
    *first_key = UINT64_MAX;
    REQUIRE(btree_check(tree));
    *first_key = kept;
    REQUIRE(!btree_check(tree));
    btree_destroy(tree);
    return NULL;
}

static const char *test_zipf_has_the_right_shares(void)
{
    enum { RECORDS = 1000, DRAWS = 1000000 };
    static const double exponents[] = {0.5, 0.99, 1.0, 1.5};
    for (unsigned e = 0; e < 4; e++) {
        static unsigned drawn[RECORDS];
        memset(drawn, 0, sizeof drawn);
        struct sampler sampler;
        sampler_init(&sampler, RECORDS, exponents[e], 3);
        for (unsigned i = 0; i < DRAWS; i++)
            drawn[sampler_next(&sampler)]++;
        /* The two most likely records have shares in the ratio 2^exponent. */
        double first = drawn[scattered(0, RECORDS)], second = drawn[scattered(1, RECORDS)];
        double expected[] = {1.41421, 1.98618, 2.0, 2.82843};
        REQUIRE(first / second > expected[e] * 0.95 && first / second < expected[e] * 1.05);
    }
    return NULL;
}

static const char *test_scattered_is_a_permutation(void)
{
    static const uint64_t counts[] = {1, 2, 3, 1000, 40000, 65537};
    static bool seen[65537];
    for (unsigned c = 0; c < 6; c++) {
        memset(seen, 0, sizeof seen);
        for (uint64_t i = 0; i < counts[c]; i++) {
            uint64_t at = scattered(i, counts[c]);
            REQUIRE(at < counts[c] && !seen[at]);
            seen[at] = true;
        }
    }
    return NULL;
}

int main(void)
{
    report("empty", test_empty());
    report("extreme keys", test_extreme_keys());
    report("ascending load", test_ascending());
    report("descending load", test_descending());
    report("shuffled load", test_shuffled());
    report("ordered load is dense", test_dense_after_ordered_load());
    report("random operations", test_random_operations());
    report("scan stops", test_scan_stops());
#ifdef FAILING_MALLOC
    report("no memory", test_no_memory());
#endif
    report("check finds damage", test_check_finds_damage());
    report("zipf shares", test_zipf_has_the_right_shares());
    report("scattered is a permutation", test_scattered_is_a_permutation());
    return failures != 0;
}

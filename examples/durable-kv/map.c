/* map.c - see map.h.
 *
 *     root:    table | buckets | entries
 *     table:   for each bucket the first node of its chain
 *     node:    next | hash | key_bytes | value_bytes | key | value
 *
 * References stand in the heap as numbers, so these structures are the same bytes
 * in the file and in memory. */
#include "map.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS_FIRST = 8, BUCKETS_MAX = 1 << 20 };

struct root {
    aq_durable_ref table;
    uint64_t buckets; /* a power of two */
    uint64_t entries;
};

struct node {
    aq_durable_ref next;
    uint64_t hash, key_bytes, value_bytes;
};

_Static_assert(sizeof(struct root) == 24 && sizeof(struct node) == 32, "no padding goes into the file");
_Static_assert(offsetof(struct node, next) == 0, "the link of a node is its first field");

/* Where the reference of a node stands, and the node. */
struct place {
    aq_durable_ref holder; /* the table, or the node before it */
    uint64_t offset;
    aq_durable_ref node; /* AQ_DURABLE_NULL: the chain ends here */
    struct node header;
};

static uint64_t hash_of(struct text key)
{
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < key.length; i++)
        hash = (hash ^ (unsigned char)key.bytes[i]) * 0x100000001B3u;
    return hash ^ hash >> 32;
}

static int load_root(aq_tx *tx, aq_durable_ref *object, struct root *root)
{
    int error = aq_tx_root(tx, object);
    return error ? error : aq_tx_load(tx, *object, 0, root, sizeof *root);
}

int map_create(aq_tx *tx)
{
    aq_durable_ref object;
    struct root root = {.buckets = BUCKETS_FIRST};
    int error = aq_tx_root(tx, &object);
    if (error || object != AQ_DURABLE_NULL)
        return error;
    /* An error of one of these is an error of all that follow. */
    aq_tx_alloc(tx, root.buckets * sizeof(aq_durable_ref), &root.table);
    aq_tx_alloc(tx, sizeof root, &object);
    aq_tx_store(tx, object, 0, &root, sizeof root);
    return aq_tx_set_root(tx, object);
}

/* ---- Find -------------------------------------------------------------- */

static int key_is(aq_tx *tx, const struct place *place, struct text key, bool *is)
{
    char part[512];
    *is = place->header.key_bytes == key.length;
    for (size_t done = 0; *is && done < key.length; done += sizeof part) {
        size_t bytes = key.length - done < sizeof part ? key.length - done : sizeof part;
        int error = aq_tx_load(tx, place->node, sizeof place->header + done, part, bytes);
        if (error)
            return error;
        *is = memcmp(part, key.bytes + done, bytes) == 0;
    }
    return AQ_OK;
}

/* Follows the reference at the place to its node. */
static int load_place(aq_tx *tx, struct place *place)
{
    int error = aq_tx_load_u64(tx, place->holder, place->offset, &place->node);
    if (error || place->node == AQ_DURABLE_NULL)
        return error;
    return aq_tx_load(tx, place->node, 0, &place->header, sizeof place->header);
}

static struct place bucket_of(const struct root *root, uint64_t hash)
{
    return (struct place){.holder = root->table, .offset = (hash & (root->buckets - 1)) * sizeof(aq_durable_ref)};
}

static struct place behind(const struct place *place)
{
    return (struct place){.holder = place->node, .offset = offsetof(struct node, next)};
}

/* The place of the key's node, or the end of the chain where it would be. */
static int find(aq_tx *tx, const struct root *root, struct text key, struct place *place)
{
    uint64_t hash = hash_of(key);
    *place = bucket_of(root, hash);
    for (;;) {
        bool is = false;
        int error = load_place(tx, place);
        if (!error && place->node != AQ_DURABLE_NULL && place->header.hash == hash)
            error = key_is(tx, place, key, &is);
        if (error || is || place->node == AQ_DURABLE_NULL)
            return error;
        *place = behind(place);
    }
}

/* A copy of bytes of a node, for free(), with a zero byte behind them. */
static int copy(aq_tx *tx, aq_durable_ref node, uint64_t offset, size_t length, struct text *text)
{
    char *bytes = malloc(length + 1);
    if (!bytes)
        return AQ_ENOMEM;
    int error = aq_tx_load(tx, node, offset, bytes, length);
    if (error) {
        free(bytes);
        return error;
    }
    bytes[length] = '\0';
    *text = (struct text){bytes, length};
    return AQ_OK;
}

int map_get(aq_tx *tx, struct text key, struct text *value)
{
    aq_durable_ref object;
    struct root root;
    struct place place;
    *value = (struct text){NULL, 0};
    int error = load_root(tx, &object, &root);
    if (!error)
        error = find(tx, &root, key, &place);
    if (error || place.node == AQ_DURABLE_NULL)
        return error;
    return copy(tx, place.node, sizeof place.header + key.length, place.header.value_bytes, value);
}

int map_visit(aq_tx *tx, void (*visit)(struct text key, struct text value, void *argument), void *argument)
{
    aq_durable_ref object;
    struct root root;
    int error = load_root(tx, &object, &root);
    for (uint64_t bucket = 0; !error && bucket < root.buckets; bucket++) {
        struct place place = bucket_of(&root, bucket);
        while (!(error = load_place(tx, &place)) && place.node != AQ_DURABLE_NULL) {
            struct text both;
            error = copy(tx, place.node, sizeof place.header, place.header.key_bytes + place.header.value_bytes, &both);
            if (error)
                return error;
            struct text key = {both.bytes, place.header.key_bytes};
            visit(key, (struct text){both.bytes + key.length, both.length - key.length}, argument);
            free((char *)both.bytes);
            place = behind(&place);
        }
    }
    return error;
}

/* ---- Change ------------------------------------------------------------ */

/* Puts the nodes of a chain at the beginnings of their chains in a larger table. */
static int move_chain(aq_tx *tx, aq_durable_ref node, const struct root *larger)
{
    int error = AQ_OK;
    while (!error && node != AQ_DURABLE_NULL) {
        struct node header;
        aq_durable_ref first;
        error = aq_tx_load(tx, node, 0, &header, sizeof header);
        if (error)
            return error;
        struct place bucket = bucket_of(larger, header.hash);
        error = aq_tx_load_u64(tx, bucket.holder, bucket.offset, &first);
        if (error)
            return error;
        aq_tx_store_u64(tx, node, offsetof(struct node, next), first);
        error = aq_tx_store_u64(tx, bucket.holder, bucket.offset, node);
        node = header.next;
    }
    return error;
}

/* Twice the buckets, in the same transaction as the entry that is one too many. */
static int grow(aq_tx *tx, struct root *root)
{
    struct root larger = {.buckets = root->buckets * 2, .entries = root->entries};
    int error = aq_tx_alloc(tx, larger.buckets * sizeof(aq_durable_ref), &larger.table);
    for (uint64_t bucket = 0; !error && bucket < root->buckets; bucket++) {
        aq_durable_ref first;
        error = aq_tx_load_u64(tx, root->table, bucket * sizeof first, &first);
        if (!error)
            error = move_chain(tx, first, &larger);
    }
    if (!error)
        error = aq_tx_free(tx, root->table);
    *root = larger;
    return error;
}

/* Puts a new node in the place of the one there, or at the end of the chain. */
static int put_node(aq_tx *tx, const struct place *place, struct text key, struct text value)
{
    struct node node = {.hash = hash_of(key), .key_bytes = key.length, .value_bytes = value.length};
    if (place->node != AQ_DURABLE_NULL)
        node.next = place->header.next;
    aq_durable_ref object = AQ_DURABLE_NULL;
    aq_tx_alloc(tx, sizeof node + key.length + value.length, &object);
    aq_tx_store(tx, object, 0, &node, sizeof node);
    aq_tx_store(tx, object, sizeof node, key.bytes, key.length);
    aq_tx_store(tx, object, sizeof node + key.length, value.bytes, value.length);
    aq_tx_store_u64(tx, place->holder, place->offset, object);
    return aq_tx_free(tx, place->node);
}

int map_set(aq_tx *tx, struct text key, struct text value)
{
    aq_durable_ref object;
    struct root root;
    struct place place;
    int error = load_root(tx, &object, &root);
    if (!error)
        error = find(tx, &root, key, &place);
    if (error)
        return error;
    if (place.node != AQ_DURABLE_NULL && place.header.value_bytes == value.length)
        return aq_tx_store(tx, place.node, sizeof place.header + key.length, value.bytes, value.length);
    error = put_node(tx, &place, key, value);
    if (error || place.node != AQ_DURABLE_NULL)
        return error;
    root.entries++;
    if (root.entries > root.buckets && root.buckets < BUCKETS_MAX)
        error = grow(tx, &root);
    return error ? error : aq_tx_store(tx, object, 0, &root, sizeof root);
}

int map_delete(aq_tx *tx, struct text key, bool *found)
{
    aq_durable_ref object;
    struct root root;
    struct place place;
    *found = false;
    int error = load_root(tx, &object, &root);
    if (!error)
        error = find(tx, &root, key, &place);
    if (error || place.node == AQ_DURABLE_NULL)
        return error;
    *found = true;
    root.entries--;
    aq_tx_store_u64(tx, place.holder, place.offset, place.header.next);
    aq_tx_free(tx, place.node);
    return aq_tx_store(tx, object, 0, &root, sizeof root);
}

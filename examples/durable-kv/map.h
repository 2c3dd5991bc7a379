/* map.h - a hash map in a durable heap: keys and values of any bytes.
 *
 * All functions work in a transaction of the caller and return an aq_error. After
 * one, abort the transaction; nothing has happened then. The map is the heap's
 * root object. */
#ifndef MAP_H
#define MAP_H

#include <aquifer.h>
#include <stdbool.h>

/* Bytes that belong to the caller. */
struct text {
    const char *bytes;
    size_t length;
};

/* Makes an empty map, unless there is one. */
int map_create(aq_tx *tx);

/* *value is a copy of the value, for free(), followed by a zero byte that does not
 * count; or its bytes are NULL: there is no such key. */
int map_get(aq_tx *tx, struct text key, struct text *value);

/* Key and value together have at most 16 MiB less 32 bytes. */
int map_set(aq_tx *tx, struct text key, struct text value);

/* *found: whether there was such a key. */
int map_delete(aq_tx *tx, struct text key, bool *found);

/* Calls visit with each key and value, in no particular order. */
int map_visit(aq_tx *tx, void (*visit)(struct text key, struct text value, void *argument), void *argument);

#endif

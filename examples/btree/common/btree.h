/* btree.h - an ordered index from 64-bit keys to values of one fixed size.
 *
 * A B+tree: every node is one allocation of 4096 bytes, every value is an
 * allocation of its own that a leaf points to. Leaves are chained in key
 * order, so a range scan reads them one after the other.
 *
 * Deletion is lazy: it frees the value and closes the gap in the leaf, but
 * nodes are never merged. Later inserts fill them again.
 *
 * Any number of threads may call btree_find and btree_scan at once, as long
 * as none changes the tree meanwhile.
 */
#ifndef BTREE_H
#define BTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum btree_result {
    BTREE_ADDED,
    BTREE_REPLACED,
    BTREE_NO_MEMORY /* the tree holds what it held before */
};

typedef struct btree btree;

/* An empty tree, or NULL if there is no memory. */
btree *btree_create(size_t value_bytes);

/* Frees the tree, its nodes and its values. NULL is allowed. */
void btree_destroy(btree *tree);

/* Copies value_bytes bytes from value. A key that is already present gets the
 * new value in place of the old one. */
enum btree_result btree_insert(btree *tree, uint64_t key, const void *value);

/* The value of key, or NULL. Valid until the key is deleted. */
const void *btree_find(const btree *tree, uint64_t key);

/* False if the key was not present. */
bool btree_delete(btree *tree, uint64_t key);

/* Called for one record after another; false ends the scan. */
typedef bool btree_visitor(uint64_t key, const void *value, void *context);

/* Visits the records with first <= key <= last in ascending order and returns
 * how many it visited. */
size_t btree_scan(const btree *tree, uint64_t first, uint64_t last, btree_visitor *visit, void *context);

size_t btree_count(const btree *tree);

/* Levels from the root to the leaves, both counted. */
unsigned btree_height(const btree *tree);

/* Bytes asked of the allocator: nodes and values. */
size_t btree_bytes(const btree *tree);

/* NULL if the tree is sound, otherwise what is wrong with it. */
const char *btree_check(const btree *tree);

#endif

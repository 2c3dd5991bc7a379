/* tree.h - a B+tree of pages in memory that is a mapped file.
 *
 * After any store of these functions the tree is whole: it holds what it held
 * before, or what it holds after. So it does not matter at which moment the file
 * goes to flash. One thread at a time. */
#ifndef TREE_H
#define TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PAGE_BYTES = 4096, KEY_MAX = 255, VALUE_MAX = 1000 };

/* Bytes that belong to somebody else. */
struct text {
    const unsigned char *bytes;
    size_t length;
};

struct tree {
    unsigned char *base;
    uint64_t pages, free_pages, hint;
    bool *is_used; /* for each page; made again when the tree is opened */
};

/* The tree in memory of bytes; an empty one where all is zeros. False: it holds
 * something else, or there is no memory for the list of free pages. */
bool tree_open(struct tree *tree, void *memory, size_t bytes);
void tree_close(struct tree *tree);

/* A key has 1 to KEY_MAX bytes, a value at most VALUE_MAX; the bytes of value are
 * NULL to delete the key. False, and nothing has happened: the file is full. */
bool tree_put(struct tree *tree, struct text key, struct text value);

/* Copies the value of a key, at most VALUE_MAX bytes; its length, or -1. */
int tree_get(const struct tree *tree, struct text key, unsigned char *value);

/* Calls visit for keys from `from` on, in their order, until it returns false. */
void tree_scan(const struct tree *tree, struct text from,
               bool (*visit)(struct text key, struct text value, void *context), void *context);

#endif

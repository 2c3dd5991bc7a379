/* btree.c - the B+tree of btree.h. */
#include "btree.h"

#include <stdlib.h>
#include <string.h>

enum { NODE_SLOTS = 255 };

/* One shape for both kinds of node, so that search, shift and split are
 * written once. In a leaf, link i is the value of key i. In an inner node it
 * is the child for keys from key i up to, but not including, key i + 1; the
 * first child also takes everything below. */
struct node {
    uint32_t count;
    uint32_t is_leaf;
    struct node *next; /* the leaf to the right */
    uint64_t keys[NODE_SLOTS];
    void *links[NODE_SLOTS];
};

_Static_assert(sizeof(struct node) == 4096, "a node fills one page");

struct btree {
    struct node *root;
    size_t value_bytes;
    size_t count;
    size_t bytes;
    unsigned height;
};

/* ---- Memory ------------------------------------------------------------ */

static void *allocate(btree *tree, size_t bytes)
{
    void *object = malloc(bytes);
    if (object)
        tree->bytes += bytes;
    return object;
}

static void release(btree *tree, void *object, size_t bytes)
{
    tree->bytes -= bytes;
    free(object);
}

static struct node *node_create(btree *tree, bool is_leaf)
{
    struct node *node = allocate(tree, sizeof *node);
    if (node) {
        node->count = 0;
        node->is_leaf = is_leaf;
        node->next = NULL;
    }
    return node;
}

static void node_destroy(btree *tree, struct node *node)
{
    for (uint32_t i = 0; i < node->count; i++) {
        if (node->is_leaf)
            release(tree, node->links[i], tree->value_bytes);
        else
            node_destroy(tree, node->links[i]);
    }
    release(tree, node, sizeof *node);
}

btree *btree_create(size_t value_bytes)
{
    btree *tree = calloc(1, sizeof *tree);
    if (!tree)
        return NULL;
    tree->value_bytes = value_bytes;
    tree->height = 1;
    tree->root = node_create(tree, true);
    if (!tree->root) {
        free(tree);
        return NULL;
    }
    return tree;
}

void btree_destroy(btree *tree)
{
    if (!tree)
        return;
    node_destroy(tree, tree->root);
    free(tree);
}

/* ---- Search ------------------------------------------------------------ */

/* How many keys of the node are less than key. */
static uint32_t node_rank(const struct node *node, uint64_t key)
{
    uint32_t low = 0, high = node->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (node->keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool node_has(const struct node *node, uint32_t slot, uint64_t key)
{
    return slot < node->count && node->keys[slot] == key;
}

/* The slot of the child that is responsible for key. */
static uint32_t child_slot(const struct node *inner, uint64_t key)
{
    uint32_t rank = node_rank(inner, key);
    return node_has(inner, rank, key) || rank == 0 ? rank : rank - 1;
}

static struct node *leaf_of(const btree *tree, uint64_t key)
{
    struct node *node = tree->root;
    while (!node->is_leaf)
        node = node->links[child_slot(node, key)];
    return node;
}

const void *btree_find(const btree *tree, uint64_t key)
{
    const struct node *leaf = leaf_of(tree, key);
    uint32_t slot = node_rank(leaf, key);
    return node_has(leaf, slot, key) ? leaf->links[slot] : NULL;
}

size_t btree_scan(const btree *tree, uint64_t first, uint64_t last, btree_visitor *visit, void *context)
{
    const struct node *leaf = leaf_of(tree, first);
    uint32_t slot = node_rank(leaf, first);
    size_t visited = 0;
    for (; leaf; leaf = leaf->next, slot = 0) {
        for (; slot < leaf->count; slot++) {
            if (leaf->keys[slot] > last)
                return visited;
            visited++;
            if (!visit(leaf->keys[slot], leaf->links[slot], context))
                return visited;
        }
    }
    return visited;
}

/* ---- Change ------------------------------------------------------------ */

static void node_insert_at(struct node *node, uint32_t slot, uint64_t key, void *link)
{
    uint32_t behind = node->count - slot;
    memmove(&node->keys[slot + 1], &node->keys[slot], behind * sizeof node->keys[0]);
    memmove(&node->links[slot + 1], &node->links[slot], behind * sizeof node->links[0]);
    node->keys[slot] = key;
    node->links[slot] = link;
    node->count++;
}

static void node_remove_at(struct node *node, uint32_t slot)
{
    uint32_t behind = node->count - slot - 1;
    memmove(&node->keys[slot], &node->keys[slot + 1], behind * sizeof node->keys[0]);
    memmove(&node->links[slot], &node->links[slot + 1], behind * sizeof node->links[0]);
    node->count--;
}

/* Where to split a full node that key is on its way to: in the middle, except
 * that a key behind all others moves only the last slot to the new node, so
 * that a load in key order leaves full nodes behind. */
static uint32_t split_slot(const struct node *node, uint64_t key, bool is_last)
{
    bool appends = is_last && key > node->keys[NODE_SLOTS - 1];
    return appends ? NODE_SLOTS - 1 : NODE_SLOTS / 2;
}

/* Splits the full child in that slot of a parent that is not full. */
static bool split_child(btree *tree, struct node *parent, uint32_t slot, uint64_t key, bool is_last)
{
    struct node *left = parent->links[slot];
    struct node *right = node_create(tree, left->is_leaf);
    if (!right)
        return false;
    uint32_t keep = split_slot(left, key, is_last);
    right->count = left->count - keep;
    memcpy(right->keys, &left->keys[keep], right->count * sizeof right->keys[0]);
    memcpy(right->links, &left->links[keep], right->count * sizeof right->links[0]);
    right->next = left->next;
    left->count = keep;
    if (left->is_leaf)
        left->next = right;
    if (slot == 0)
        parent->keys[0] = left->keys[0]; /* smaller keys may have come since */
    node_insert_at(parent, slot + 1, right->keys[0], right);
    return true;
}

/* Puts a new root above the old one, which becomes its only child. */
static bool grow_root(btree *tree)
{
    struct node *root = node_create(tree, false);
    if (!root)
        return false;
    node_insert_at(root, 0, tree->root->keys[0], tree->root);
    tree->root = root;
    tree->height++;
    return true;
}

/* The leaf for key, with room for one more record. Full nodes are split on
 * the way down, so no split ever reaches back up, and running out of memory
 * half-way leaves a sound tree. NULL if there is no memory. */
static struct node *leaf_with_room(btree *tree, uint64_t key)
{
    if (tree->root->count == NODE_SLOTS && !grow_root(tree))
        return NULL;
    struct node *node = tree->root;
    bool is_last = true;
    while (!node->is_leaf) {
        uint32_t slot = child_slot(node, key);
        const struct node *child = node->links[slot];
        if (child->count == NODE_SLOTS) {
            if (!split_child(tree, node, slot, key, is_last && slot == node->count - 1))
                return NULL;
            slot = child_slot(node, key);
        }
        is_last = is_last && slot == node->count - 1;
        node = node->links[slot];
    }
    return node;
}

enum btree_result btree_insert(btree *tree, uint64_t key, const void *value)
{
    struct node *leaf = leaf_of(tree, key);
    uint32_t slot = node_rank(leaf, key);
    if (node_has(leaf, slot, key)) {
        memcpy(leaf->links[slot], value, tree->value_bytes);
        return BTREE_REPLACED;
    }
    void *copy = allocate(tree, tree->value_bytes);
    if (!copy)
        return BTREE_NO_MEMORY;
    memcpy(copy, value, tree->value_bytes);
    if (leaf->count == NODE_SLOTS) {
        leaf = leaf_with_room(tree, key);
        if (!leaf) {
            release(tree, copy, tree->value_bytes);
            return BTREE_NO_MEMORY;
        }
        slot = node_rank(leaf, key);
    }
    node_insert_at(leaf, slot, key, copy);
    tree->count++;
    return BTREE_ADDED;
}

bool btree_delete(btree *tree, uint64_t key)
{
    struct node *leaf = leaf_of(tree, key);
    uint32_t slot = node_rank(leaf, key);
    if (!node_has(leaf, slot, key))
        return false;
    release(tree, leaf->links[slot], tree->value_bytes);
    node_remove_at(leaf, slot);
    tree->count--;
    return true;
}

/* ---- Report ------------------------------------------------------------ */

size_t btree_count(const btree *tree)
{
    return tree->count;
}

unsigned btree_height(const btree *tree)
{
    return tree->height;
}

size_t btree_bytes(const btree *tree)
{
    return tree->bytes;
}

struct audit {
    const btree *tree;
    const struct node *last_leaf; /* the leaf visited before this one */
    size_t records;
    size_t nodes;
};

/* Checks the subtree at depth whose keys must lie in [low, high]. */
static const char *audit_node(struct audit *audit, const struct node *node, unsigned depth, uint64_t low,
                              uint64_t high)
{
    audit->nodes++;
    if (node->count > NODE_SLOTS)
        return "a node holds more keys than it has slots";
    if (node->is_leaf != (depth == audit->tree->height))
        return "a leaf is not on the lowest level";
    for (uint32_t i = 0; i < node->count; i++) {
        if (node->keys[i] < low || node->keys[i] > high)
            return "a key is outside the range of its node";
        if (i > 0 && node->keys[i] <= node->keys[i - 1])
            return "the keys of a node do not ascend";
    }
    if (node->is_leaf) {
        if (audit->last_leaf && audit->last_leaf->next != node)
            return "the chain of leaves misses a leaf";
        audit->last_leaf = node;
        audit->records += node->count;
        return NULL;
    }
    if (node->count == 0)
        return "an inner node has no child";
    for (uint32_t i = 0; i < node->count; i++) {
        uint64_t child_low = i == 0 ? low : node->keys[i];
        uint64_t child_high = i + 1 < node->count ? node->keys[i + 1] - 1 : high;
        const char *wrong = audit_node(audit, node->links[i], depth + 1, child_low, child_high);
        if (wrong)
            return wrong;
    }
    return NULL;
}

const char *btree_check(const btree *tree)
{
    struct audit audit = {.tree = tree};
    const char *wrong = audit_node(&audit, tree->root, 1, 0, UINT64_MAX);
    if (wrong)
        return wrong;
    if (audit.last_leaf->next)
        return "the chain of leaves does not end";
    if (audit.records != tree->count)
        return "the leaves hold more or fewer records than were inserted";
    if (audit.nodes * sizeof(struct node) + audit.records * tree->value_bytes != tree->bytes)
        return "allocated bytes do not match nodes and values";
    return NULL;
}

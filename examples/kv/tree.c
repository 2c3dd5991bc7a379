/* tree.c - see tree.h.
 *
 *     page 0:  number of the root, or 0 | magic
 *     others:  bytes in use, level + 1 | records: lengths of key and value, key, value
 *
 * A leaf (level 0) is a little log: a put appends a record, which counts once the
 * first word of the page says so; of records with the same key the last one does.
 * The records of the pages above are sorted; their values are numbers of pages,
 * and they never change. A leaf that is full is written anew, sorted, to one or two
 * free pages, and so are all pages above it; then one store of the root's number
 * makes them the tree. What they replace is free from then on. */
#include "tree.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = PAGE_BYTES - 8, ITEMS_MAX = ROOM / 5 + 2, LEVELS_MAX = 16, DELETED = 0xFFFF };

static const unsigned char magic[8] = "aqkvtree";

struct page {
    _Atomic uint64_t state; /* page 0: the root; else bytes in use, and (level + 1) << 32 */
    unsigned char records[ROOM];
};

_Static_assert(sizeof(struct page) == PAGE_BYTES, "pages lie side by side");

struct lengths {
    uint16_t key, value;
};

struct item {
    struct text key, value; /* the bytes of value are NULL: deleted */
};

/* Items in the order of their keys. */
struct items {
    struct item list[ITEMS_MAX];
    size_t count, bytes;
};

static struct page *page_at(const struct tree *tree, uint64_t number)
{
    return (struct page *)(tree->base + number * PAGE_BYTES);
}

static size_t used_of(const struct page *page)
{
    return (uint32_t)page->state;
}

static int level_of(const struct page *page)
{
    return (int)(page->state >> 32) - 1;
}

static size_t size_of(const struct item *item)
{
    return sizeof(struct lengths) + item->key.length + item->value.length;
}

static int compare(struct text a, struct text b)
{
    int order = memcmp(a.bytes, b.bytes, a.length < b.length ? a.length : b.length);
    return order ? order : (a.length > b.length) - (a.length < b.length);
}

/* ---- Records ----------------------------------------------------------- */

/* The record at *at, which moves behind it; false at the end. */
static bool next(const struct page *page, size_t *at, struct item *item)
{
    if (*at >= used_of(page))
        return false;
    struct lengths lengths;
    const unsigned char *record = page->records + *at;
    memcpy(&lengths, record, sizeof lengths);
    item->key = (struct text){record + sizeof lengths, lengths.key};
    item->value = (struct text){item->key.bytes + lengths.key, lengths.value};
    if (lengths.value == DELETED)
        item->value = (struct text){NULL, 0};
    *at += size_of(item);
    return true;
}

/* Writes a record where nobody looks yet. */
static void put_record(struct page *page, size_t at, const struct item *item)
{
    struct lengths lengths = {(uint16_t)item->key.length, item->value.bytes ? (uint16_t)item->value.length : DELETED};
    unsigned char *record = page->records + at;
    memcpy(record, &lengths, sizeof lengths);
    memcpy(record + sizeof lengths, item->key.bytes, lengths.key);
    if (item->value.length > 0)
        memcpy(record + sizeof lengths + lengths.key, item->value.bytes, item->value.length);
}

static void insert(struct items *items, size_t at, struct item item)
{
    memmove(items->list + at + 1, items->list + at, (items->count - at) * sizeof item);
    items->list[at] = item;
    items->count++;
    items->bytes += size_of(&item);
}

static void take_out(struct items *items, size_t at)
{
    items->count--;
    items->bytes -= size_of(&items->list[at]);
    memmove(items->list + at, items->list + at + 1, (items->count - at) * sizeof items->list[0]);
}

/* Does to sorted items what a record of a leaf says. */
static void apply(struct items *items, struct item item)
{
    size_t low = 0, high = items->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare(items->list[middle].key, item.key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < items->count && compare(items->list[low].key, item.key) == 0)
        take_out(items, low);
    if (item.value.bytes)
        insert(items, low, item);
}

/* What a leaf holds, or a page above in its order. */
static void collect(const struct page *page, struct items *items)
{
    struct item item;
    bool is_leaf = level_of(page) == 0;
    items->count = items->bytes = 0;
    for (size_t at = 0; next(page, &at, &item);) {
        if (is_leaf)
            apply(items, item);
        else
            insert(items, items->count, item);
    }
}

static uint64_t number_in(struct item item)
{
    uint64_t number;
    memcpy(&number, item.value.bytes, sizeof number);
    return number;
}

/* The child under which a key is, or would be: the last one that does not begin behind it. */
static uint64_t child_for(const struct page *page, struct text key, size_t *index)
{
    struct item item, found;
    size_t at = 0;
    next(page, &at, &found);
    for (*index = 0; next(page, &at, &item) && compare(item.key, key) <= 0; ++*index)
        found = item;
    return number_in(found);
}

/* ---- Pages ------------------------------------------------------------- */

static uint64_t take_page(struct tree *tree)
{
    while (tree->is_used[tree->hint])
        tree->hint = (tree->hint + 1) % tree->pages;
    tree->is_used[tree->hint] = true;
    tree->free_pages--;
    return tree->hint;
}

static void give_page(struct tree *tree, uint64_t number)
{
    tree->is_used[number] = false;
    tree->free_pages++;
}

/* Writes items to one or two new pages; what stands for them a level above. */
static void write_items(struct tree *tree, int level, const struct items *items, uint64_t *numbers, struct items *above)
{
    size_t done = 0, parts = items->bytes > ROOM / 4 * 3 ? 2 : items->count > 0;
    above->count = above->bytes = 0;
    for (size_t part = 0; part < parts; part++) {
        size_t bytes = 0, first = done;
        numbers[part] = take_page(tree);
        struct page *page = page_at(tree, numbers[part]);
        while (done < items->count && (part + 1 == parts || bytes < items->bytes / 2)) {
            put_record(page, bytes, &items->list[done]);
            bytes += size_of(&items->list[done++]);
        }
        page->state = (uint64_t)(level + 1) << 32 | bytes;
        struct text number = {(const unsigned char *)&numbers[part], sizeof numbers[part]};
        insert(above, above->count, (struct item){items->list[first].key, number});
    }
}

/* Marks the pages of a tree; those of leaves are not touched. */
static void mark(struct tree *tree, uint64_t number)
{
    const struct page *page = page_at(tree, number);
    struct item item;
    tree->is_used[number] = true;
    tree->free_pages--;
    for (size_t at = 0; level_of(page) > 0 && next(page, &at, &item);) {
        if (level_of(page) > 1) {
            mark(tree, number_in(item));
        } else {
            tree->is_used[number_in(item)] = true;
            tree->free_pages--;
        }
    }
}

bool tree_open(struct tree *tree, void *memory, size_t bytes)
{
    *tree = (struct tree){.base = memory, .pages = bytes / PAGE_BYTES, .hint = 1};
    struct page *head = page_at(tree, 0);
    if (head->state == 0) {
        memcpy(head->records, magic, sizeof magic);
        page_at(tree, 1)->state = (uint64_t)1 << 32;
        head->state = 1;
    }
    tree->is_used = calloc(tree->pages, sizeof *tree->is_used);
    if (!tree->is_used || memcmp(head->records, magic, sizeof magic) != 0)
        return false;
    tree->is_used[0] = true;
    tree->free_pages = tree->pages - 1;
    mark(tree, head->state);
    return true;
}

void tree_close(struct tree *tree)
{
    free(tree->is_used);
}

/* ---- Put, get, scan ---------------------------------------------------- */

/* Writes a leaf that is full anew with one more record, and all pages above it. */
static bool rebuild(struct tree *tree, struct item item, const uint64_t *path, const size_t *index, int depth)
{
    struct items items, above, upper;
    uint64_t numbers[2][2], root;
    if (tree->free_pages < 2 * (uint64_t)(depth + 2))
        return false;
    collect(page_at(tree, path[depth]), &items);
    apply(&items, item);
    write_items(tree, 0, &items, numbers[depth % 2], &above);
    for (int at = depth - 1; at >= 0; at--) {
        collect(page_at(tree, path[at]), &items);
        struct text key = items.list[index[at]].key;
        take_out(&items, index[at]);
        for (size_t i = 0; i < above.count; i++)
            insert(&items, index[at] + i, (struct item){i ? above.list[i].key : key, above.list[i].value});
        write_items(tree, depth - at, &items, numbers[at % 2], &upper);
        above = upper;
    }
    if (above.count == 2) {
        items = above;
        write_items(tree, depth + 1, &items, numbers[1], &above);
    }
    if (above.count == 1) {
        root = number_in(above.list[0]);
    } else {
        root = take_page(tree);
        page_at(tree, root)->state = (uint64_t)1 << 32;
    }
    page_at(tree, 0)->state = root;
    for (int at = 0; at <= depth; at++)
        give_page(tree, path[at]);
    return true;
}

bool tree_put(struct tree *tree, struct text key, struct text value)
{
    uint64_t path[LEVELS_MAX];
    size_t index[LEVELS_MAX];
    int depth = 0;
    struct item item = {key, value};
    path[0] = page_at(tree, 0)->state;
    for (; level_of(page_at(tree, path[depth])) > 0; depth++)
        path[depth + 1] = child_for(page_at(tree, path[depth]), key, &index[depth]);
    struct page *leaf = page_at(tree, path[depth]);
    size_t used = used_of(leaf);
    if (used + size_of(&item) > ROOM)
        return rebuild(tree, item, path, index, depth);
    put_record(leaf, used, &item);
    leaf->state += size_of(&item);
    return true;
}

int tree_get(const struct tree *tree, struct text key, unsigned char *value)
{
    const struct page *page = page_at(tree, page_at(tree, 0)->state);
    struct item item;
    size_t index;
    int length = -1;
    while (level_of(page) > 0)
        page = page_at(tree, child_for(page, key, &index));
    for (size_t at = 0; next(page, &at, &item);) {
        if (compare(item.key, key) != 0)
            continue;
        length = item.value.bytes ? (int)item.value.length : -1;
        if (length > 0)
            memcpy(value, item.value.bytes, item.value.length);
    }
    return length;
}

static bool scan_page(const struct tree *tree, const struct page *page, struct text from,
                      bool (*visit)(struct text, struct text, void *), void *context)
{
    struct items items;
    size_t first = 0;
    collect(page, &items);
    if (level_of(page) > 0)
        child_for(page, from, &first);
    for (size_t i = first; i < items.count; i++) {
        struct item item = items.list[i];
        if (level_of(page) > 0) {
            if (!scan_page(tree, page_at(tree, number_in(item)), from, visit, context))
                return false;
        } else if (compare(item.key, from) >= 0 && !visit(item.key, item.value, context)) {
            return false;
        }
    }
    return true;
}

void tree_scan(const struct tree *tree, struct text from, bool (*visit)(struct text, struct text, void *), void *context)
{
    scan_page(tree, page_at(tree, page_at(tree, 0)->state), from, visit, context);
}

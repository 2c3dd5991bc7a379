/* storm_blocks.h - blocks whose bytes follow from a key, and what a program may do with them
 *
 * A word of a block says which block it is of and where it belongs, so that wrong bytes tell where they come from.
 */
#ifndef STORM_BLOCKS_H
#define STORM_BLOCKS_H

#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum { BLOCKS_MAX = 320, THREADS_MAX = 8, CHILDREN_MAX = 3 };

/* A thread of the storm, or who does its work meanwhile. */
struct worker {
    unsigned number;
    int step;
    uint64_t dice;
    uint32_t keys;
    pthread_t thread;
    size_t blocks_count;
    struct block {
        char *memory;
        size_t bytes;
        size_t origin; /* the place of its first byte in the sequence of the key */
        uint32_t key;
        bool is_mapped;
        /* A part that was written later, or with key 0 is as new: zeros. */
        uint32_t patch_key;
        size_t patch_from, patch_to;
    } blocks[BLOCKS_MAX];
    /* Forked processes that wait to be told to verify what they have. */
    struct child {
        pid_t pid;
        int go;
    } children[CHILDREN_MAX];
};

static uint64_t storm_seed;
static bool may_be_refused; /* memory, descriptors and threads may be */
static bool may_lose_flash; /* a call may fail because its buffer cannot be read */
static bool is_child;
static atomic_size_t held, goal; /* bytes in blocks, and how many there are to be */
static _Thread_local struct worker *self;

/* ---- What went wrong ----------------------------------------------------- */

static _Noreturn __attribute__((format(printf, 1, 2))) void wrong(const char *format, ...)
{
    char text[600];
    int error = errno;
    int length = snprintf(text, sizeof text, "storm: seed %llu thread %u step %d%s: ", (unsigned long long)storm_seed,
                          self ? self->number : 99, self ? self->step : -1, is_child ? " child" : "");
    va_list arguments;
    va_start(arguments, format);
    length += vsnprintf(text + length, sizeof text - (size_t)length, format, arguments);
    va_end(arguments);
    length += snprintf(text + length, sizeof text - (size_t)length, " (errno %d)\n", error);
    if (write(2, text, (size_t)length) < 0 || getenv("STORM_STOP") != NULL)
        sleep(600);
    _exit(1);
}

#define MUST(condition) \
    do { \
        if (!(condition)) \
            wrong("line %d: not so: %s", __LINE__, #condition); \
    } while (0)

/* A call was refused: false, if that may be. */
static bool refused(const char *what)
{
    bool allowed = may_be_refused && (errno == ENOMEM || errno == EMFILE || errno == ENFILE || errno == EAGAIN || errno == ENOBUFS);
    if (!allowed && !(may_lose_flash && (errno == EIO || errno == EFAULT || errno == ENOMEM)))
        wrong("%s was refused", what);
    return false;
}

static uint64_t roll(struct worker *w, uint64_t below)
{
    return next_random(&w->dice) % below;
}

/* ---- Contents ------------------------------------------------------------- */

static uint64_t word_of(uint32_t key, size_t index)
{
    uint32_t low = (uint32_t)index * 0x9E3779B1u ^ key * 0x85EBCA6Bu;
    return (uint64_t)key << 32 | low;
}

/* Where a word that was found belongs. */
static size_t index_of(uint64_t word)
{
    uint32_t key = (uint32_t)(word >> 32), inverse = 1;
    for (int i = 0; i < 5; i++)
        inverse *= 2 - 0x9E3779B1u * inverse;
    return ((uint32_t)word ^ key * 0x85EBCA6Bu) * inverse;
}

static void tell_difference(const char *doing, const struct block *b, uint32_t key, size_t at, uint64_t wanted)
{
    uint64_t found = 0, again = 0;
    size_t word = at & ~(size_t)7, length = b->bytes - word < 8 ? b->bytes - word : 8, page = 0;
    memcpy(&found, b->memory + word, length);
    char *start = (char *)((uintptr_t)(b->memory + at) & ~(PAGE - 1));
    char *from = start < b->memory ? b->memory : start;
    char *to = start + PAGE > b->memory + b->bytes ? b->memory + b->bytes : start + PAGE;
    page = is_zero(from, (size_t)(to - from));
    usleep(50000);
    memcpy(&again, b->memory + word, length);
    wrong("%s: offset %zu of %zu (%s %p, key %x, origin %zu): wanted %016llx, found %016llx (key %x, byte %zu), then %016llx; "
          "page is %s", doing, at, b->bytes, b->is_mapped ? "mapping" : "block", (void *)b->memory, key, b->origin,
          (unsigned long long)wanted, (unsigned long long)found, (unsigned)(found >> 32), index_of(found) * 8,
          (unsigned long long)again, page ? "all zeros" : "not all zeros");
}

/* Compares bytes of a block, or sets them, as a key says. */
static void with_key(struct block *b, uint32_t key, size_t from, size_t to, const char *doing)
{
    for (size_t at = from; at < to;) {
        size_t place = at + b->origin, skip = place % 8, n = 8 - skip < to - at ? 8 - skip : to - at;
        uint64_t word = key == 0 ? 0 : word_of(key, place / 8);
        if (doing == NULL)
            memcpy(b->memory + at, (char *)&word + skip, n);
        else if (memcmp(b->memory + at, (char *)&word + skip, n) != 0)
            tell_difference(doing, b, key, at, word);
        at += n;
    }
}

/* Its bytes from one offset to another are right, or with `doing` NULL are made so. */
static void with_block(struct block *b, size_t from, size_t to, const char *doing)
{
    size_t first = from > b->patch_from ? from : b->patch_from, last = to < b->patch_to ? to : b->patch_to;
    if (first >= last) {
        with_key(b, b->key, from, to, doing);
        return;
    }
    with_key(b, b->key, from, first, doing);
    with_key(b, b->patch_key, first, last, doing);
    with_key(b, b->key, last, to, doing);
}

static void verify(struct block *b, const char *doing)
{
    with_block(b, 0, b->bytes, doing);
}

/* All of it, or a part that the dice choose. */
static void verify_some(struct worker *w, struct block *b, const char *doing)
{
    size_t from = roll(w, 3) == 0 ? 0 : roll(w, b->bytes), most = b->bytes - from;
    with_block(b, from, from + (roll(w, 2) ? most : 1 + roll(w, most)), doing);
}

static uint32_t new_key(struct worker *w)
{
    return (uint32_t)(w->number + 1) << 24 | ++w->keys;
}

/* The part has another key from now on; with key 0 it reads as zeros already. */
static void patch(struct block *b, size_t from, size_t to, uint32_t key)
{
    size_t before_from = b->patch_from, before_to = b->patch_to;
    bool was_patched = before_from < before_to;
    b->patch_from = from, b->patch_to = to, b->patch_key = key;
    /* The old patch ends: what lies outside of the new one gets the bytes of the block. */
    if (was_patched && before_from < from)
        with_key(b, b->key, before_from, before_to < from ? before_to : from, NULL);
    if (was_patched && before_to > to)
        with_key(b, b->key, before_from > to ? before_from : to, before_to, NULL);
    if (key != 0)
        with_key(b, key, from, to, NULL);
    else
        with_key(b, 0, from, to, "new memory");
}

static void cut_patch(struct block *b)
{
    b->patch_to = b->patch_to < b->bytes ? b->patch_to : b->bytes;
    if (b->patch_from >= b->patch_to)
        b->patch_from = b->patch_to = 0;
}

/* ---- Blocks ---------------------------------------------------------------- */

static struct block *some_block(struct worker *w)
{
    return w->blocks_count == 0 ? NULL : &w->blocks[roll(w, w->blocks_count)];
}

/* It is not the worker's any more. */
static void forget(struct worker *w, struct block *b)
{
    held -= b->bytes;
    *b = w->blocks[--w->blocks_count];
}

static void drop(struct worker *w, struct block *b)
{
    verify_some(w, b, "before it is freed");
    if (!b->is_mapped)
        free(b->memory);
    else if (munmap(b->memory, b->bytes) != 0)
        refused("munmap");
    forget(w, b);
}

enum { OPEN = PROT_READ | PROT_WRITE, NEW = MAP_PRIVATE | MAP_ANONYMOUS };

/* Asks for what is reserved, in one of the two ways; whether it was given. */
static bool ask_for(struct worker *w, char *memory, size_t bytes)
{
    if (roll(w, 2))
        return mprotect(memory, bytes, OPEN) == 0;
    return mmap(memory, bytes, OPEN, NEW | MAP_FIXED, -1, 0) != MAP_FAILED;
}

/* Reserves addresses and asks for the memory in two pieces; NULL if it was refused. */
static char *reserved(struct worker *w, size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_NONE, NEW | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    size_t first = roll(w, bytes / PAGE) * PAGE;
    if ((first > 0 && !ask_for(w, memory, first)) || !ask_for(w, memory + first, bytes - first)) {
        int error = errno;
        munmap(memory, bytes);
        errno = error;
        return NULL;
    }
    return memory;
}

/* New memory of that size in one of the ways, of which the last ones give zeros. NULL if it was refused. */
static char *new_memory(struct worker *w, size_t *bytes, bool *is_mapped, bool *is_zeroed)
{
    void *memory = NULL;
    uint64_t way = roll(w, 10);
    *is_mapped = way >= 7, *is_zeroed = way >= 5;
    if (*is_mapped) {
        *bytes = (*bytes + PAGE - 1) & ~(PAGE - 1);
        if (way == 7)
            return reserved(w, *bytes);
        memory = mmap(NULL, *bytes, OPEN, NEW, -1, 0);
        return memory == MAP_FAILED ? NULL : memory;
    }
    if (way >= 5)
        return calloc(1, *bytes);
    if (way >= 2)
        return malloc(*bytes);
    size_t alignment = (size_t)16 << roll(w, 10);
    if (way == 0)
        *bytes = (*bytes + alignment - 1) & ~(alignment - 1);
    errno = ENOMEM;
    memory = way == 0 ? aligned_alloc(alignment, *bytes) : posix_memalign(&memory, alignment, *bytes) == 0 ? memory : NULL;
    MUST((uintptr_t)memory % alignment == 0);
    return memory;
}

/* A new block, filled or as new. NULL if it was refused. */
static struct block *make(struct worker *w, size_t bytes)
{
    bool is_zeroed, is_mapped;
    if (w->blocks_count == BLOCKS_MAX)
        drop(w, some_block(w));
    char *memory = new_memory(w, &bytes, &is_mapped, &is_zeroed);
    if (memory == NULL) {
        refused("memory");
        return NULL;
    }
    held += bytes;
    struct block *b = &w->blocks[w->blocks_count++];
    *b = (struct block){.memory = memory, .bytes = bytes, .key = new_key(w), .is_mapped = is_mapped};
    if (is_zeroed)
        patch(b, 0, bytes, 0);
    if (!is_zeroed || roll(w, 4) != 0) {
        b->patch_from = b->patch_to = 0;
        with_block(b, 0, bytes, NULL);
    }
    return b;
}

static size_t some_size(struct worker *w)
{
    size_t around = (size_t)1 << (5 + roll(w, 16));
    return around + roll(w, around);
}

/* Makes it longer or shorter, where it is or elsewhere. */
static void resize(struct worker *w, struct block *b, size_t bytes)
{
    size_t before = b->bytes;
    if (b->is_mapped)
        bytes = (bytes + PAGE - 1) & ~(PAGE - 1);
    int flags = roll(w, 4) ? MREMAP_MAYMOVE : 0;
    void *moved = b->is_mapped ? mremap(b->memory, before, bytes, flags) : realloc(b->memory, bytes);
    if (moved == MAP_FAILED || moved == NULL) {
        /* The kernel does not move what it has in several pieces; small mappings are the kernel's. */
        bool is_pieces = b->is_mapped && errno == EFAULT;
        if (!(b->is_mapped && flags == 0 && errno == ENOMEM) && !is_pieces)
            refused("a change of size");
        verify(b, "what could not get another size");
        return;
    }
    b->memory = moved, b->bytes = bytes;
    held += bytes - before;
    cut_patch(b);
    if (bytes <= before) {
        verify_some(w, b, "after it became shorter");
        return;
    }
    with_block(b, 0, before, "after it became longer");
    if (b->is_mapped)
        patch(b, before, bytes, 0);
    else
        with_block(b, before, bytes, NULL);
}

/* Whole pages in a block that the dice choose; false if there are none. */
static bool some_pages(struct worker *w, struct block *b, size_t *from, size_t *to)
{
    uintptr_t start = (uintptr_t)b->memory, first = (start + PAGE - 1) & ~(PAGE - 1), end = (start + b->bytes) & ~(PAGE - 1);
    if (first >= end)
        return false;
    size_t pages = (end - first) / PAGE, skip = roll(w, pages), count = 1 + roll(w, pages - skip);
    *from = first + skip * PAGE - start;
    *to = *from + count * PAGE;
    return true;
}

/* Gives pages back, which are zeros then. */
static void give_up(struct worker *w, struct block *b)
{
    size_t from, to;
    if (!some_pages(w, b, &from, &to))
        return;
    if (b->is_mapped && roll(w, 2) == 0) {
        char *start = b->memory + from;
        bool is_closed = roll(w, 2) && mmap(start, to - from, PROT_NONE, NEW | MAP_FIXED, -1, 0) != MAP_FAILED;
        if (is_closed && w->blocks_count < BLOCKS_MAX && held < goal && roll(w, 2))
            make(w, some_size(w));
        if (!ask_for(w, start, to - from)) {
            refused("what was reserved");
            forget(w, b);
            return;
        }
        if (!is_closed && !is_zero(start, to - from) && madvise(start, to - from, MADV_DONTNEED) != 0)
            wrong("MADV_DONTNEED was refused");
    } else if (madvise(b->memory + from, to - from, MADV_DONTNEED) != 0) {
        refused("MADV_DONTNEED");
        forget(w, b);
        return;
    }
    patch(b, from, to, 0);
    with_block(b, 0, b->bytes, "beside pages that were given up");
}

/* Unmaps a piece at the start or at the end. */
static void unmap_part(struct worker *w, struct block *b)
{
    size_t pages = b->bytes / PAGE;
    if (!b->is_mapped || pages < 2)
        return;
    size_t piece = (1 + roll(w, pages - 1)) * PAGE;
    bool is_start = roll(w, 2);
    if (munmap(is_start ? b->memory : b->memory + b->bytes - piece, piece) != 0) {
        refused("munmap of a part");
        forget(w, b);
        return;
    }
    held -= piece;
    b->bytes -= piece;
    if (is_start) {
        b->memory += piece, b->origin += piece;
        b->patch_from = b->patch_from > piece ? b->patch_from - piece : 0;
        b->patch_to = b->patch_to > piece ? b->patch_to - piece : 0;
    }
    cut_patch(b);
    verify_some(w, b, "what was not unmapped");
}

/* Forbids to write some pages, or to use them, and allows it again. */
static void protect(struct worker *w, struct block *b)
{
    size_t from, to;
    if (!some_pages(w, b, &from, &to))
        return;
    int protection = roll(w, 2) ? PROT_READ : PROT_NONE;
    if (protection == PROT_READ && to - from > 8 * PAGE)
        to = from + 8 * PAGE;
    if (mprotect(b->memory + from, to - from, protection) != 0) {
        refused("mprotect");
        return;
    }
    if (protection == PROT_READ)
        verify_some(w, b, "what may only be read");
    if (w->blocks_count < BLOCKS_MAX && held < goal && roll(w, 2))
        make(w, some_size(w));
    MUST(mprotect(b->memory + from, to - from, PROT_READ | PROT_WRITE) == 0);
    verify(b, "what was protected");
}

static void rewrite(struct worker *w, struct block *b)
{
    verify_some(w, b, "before it is written");
    if (roll(w, 3) == 0) {
        b->key = new_key(w);
        b->patch_from = b->patch_to = 0;
        with_block(b, 0, b->bytes, NULL);
        return;
    }
    size_t from = roll(w, b->bytes);
    patch(b, from, from + 1 + roll(w, b->bytes - from), new_key(w));
}

#endif

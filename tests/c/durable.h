/* durable.h - what the tests of durable heaps share. */
#ifndef DURABLE_H
#define DURABLE_H

#include "check.h"

#include <unistd.h>

static char path[512]; /* of the heap that a test uses */

/* Options of a small heap that survives the process, wherever its file is. */
static inline aq_durable_options small_durable(void)
{
    aq_durable_options options;
    aq_durable_options_init(&options, sizeof options);
    options.capacity_bytes = 64 * MIB;
    options.chunk_bytes = 64 << 10;
    options.backing = AQ_BACKING_MEMORY;
    return options;
}

static inline aq_durable *reopen(void)
{
    aq_durable_options options = small_durable();
    aq_durable *heap = NULL;
    CHECK_CODE(AQ_OK, aq_durable_open(path, &options, &heap));
    CHECK(heap);
    return heap;
}

/* A new heap in a file of this name. */
static inline aq_durable *open_new(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    unlink(path);
    return reopen();
}

static inline void close_and_remove(aq_durable *heap)
{
    CHECK_CODE(AQ_OK, aq_durable_close(heap));
    CHECK(unlink(path) == 0);
}

static inline aq_tx *begin(aq_durable *heap)
{
    aq_tx *tx = NULL;
    CHECK_CODE(AQ_OK, aq_tx_begin(heap, &tx));
    CHECK(tx);
    return tx;
}

/* An object of bytes, committed. */
static inline aq_durable_ref allocate(aq_durable *heap, size_t bytes)
{
    aq_durable_ref object = AQ_DURABLE_NULL;
    aq_tx *tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_alloc(tx, bytes, &object));
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    CHECK(object != AQ_DURABLE_NULL && object % 4 == 0);
    return object;
}

/* The committed number at the beginning of an object. */
static inline uint64_t number_in(aq_durable *heap, aq_durable_ref object)
{
    uint64_t number;
    aq_tx *tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_load_u64(tx, object, 0, &number));
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    return number;
}

/* As the example in aquifer.h. */
static inline int increment(aq_durable *heap, aq_durable_ref counter)
{
    int error;
    do {
        aq_tx *tx;
        uint64_t n;
        if ((error = aq_tx_begin(heap, &tx)) != AQ_OK)
            return error;
        error = aq_tx_load_u64(tx, counter, 0, &n);
        if (error == AQ_OK)
            error = aq_tx_store_u64(tx, counter, 0, n + 1);
        if (error == AQ_OK)
            error = aq_tx_commit(tx);
        else
            aq_tx_abort(tx);
    } while (error == AQ_ECONFLICT);
    return error;
}

#endif

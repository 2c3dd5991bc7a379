/* durable_objects.c - where objects of durable heaps end, and which there are. */
#include "durable.h"

/* ---- No access reaches another object ----------------------------------- */

static void stores_beyond_an_end_are_refused(void)
{
    static const size_t neighbours[] = {8, 24, 100, 4096, 4100, 10000, 300000};
    aq_durable *heap = open_new("beyond");
    for (size_t i = 0; i < sizeof neighbours / sizeof neighbours[0]; i++) {
        const size_t bytes_each = neighbours[i];
        aq_durable_ref first = AQ_DURABLE_NULL, second = AQ_DURABLE_NULL;
        char old[4] = "old", bytes[8] = "new", found[4];
        aq_tx *tx = begin(heap);
        CHECK_CODE(AQ_OK, aq_tx_alloc(tx, bytes_each, &first));
        CHECK_CODE(AQ_OK, aq_tx_alloc(tx, bytes_each, &second));
        CHECK_CODE(AQ_OK, aq_tx_store(tx, second, 0, old, sizeof old));
        CHECK_CODE(AQ_OK, aq_tx_commit(tx));
        uint64_t between = second - first, end = (bytes_each + 3) / 4 * 4;
        CHECK(second > first && between < 1 << 24);

        tx = begin(heap);
        CHECK_CODE(AQ_ENOTALLOCATED, aq_tx_store(tx, first, between, bytes, 4));
        CHECK_CODE(AQ_ENOTALLOCATED, aq_tx_commit(tx));
        tx = begin(heap);
        CHECK_CODE(AQ_ENOTALLOCATED, aq_tx_store(tx, first, end - 4, bytes, 8));
        CHECK_MESSAGE("end");
        CHECK_CODE(AQ_OK, aq_tx_abort(tx));
        tx = begin(heap);
        CHECK_CODE(AQ_ENOTALLOCATED, aq_tx_store(tx, first, end, bytes, 1));
        CHECK_CODE(AQ_OK, aq_tx_abort(tx));
        tx = begin(heap);
        CHECK_CODE(AQ_ENOTALLOCATED, aq_tx_load(tx, first, end - 1, bytes, 2));
        CHECK_CODE(AQ_OK, aq_tx_abort(tx));
        tx = begin(heap);
        CHECK_CODE(AQ_ENOTALLOCATED, aq_tx_load(tx, first, between, bytes, 4));
        CHECK_CODE(AQ_OK, aq_tx_abort(tx));
        tx = begin(heap);
        CHECK_CODE(AQ_OK, aq_tx_store(tx, first, end - 4, bytes, 4));
        CHECK_CODE(AQ_OK, aq_tx_load(tx, second, 0, found, sizeof found));
        CHECK(strcmp(found, "old") == 0);
        CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    }
    close_and_remove(heap);
}

static void a_reference_into_an_object_is_refused(void)
{
    aq_durable *heap = open_new("inside");
    aq_durable_ref object = allocate(heap, 100);
    uint64_t n = 0;
    for (int i = 0; i < 2; i++) {
        aq_tx *tx = begin(heap);
        CHECK_CODE(AQ_ENOTALLOCATED, i ? aq_tx_store_u64(tx, object + 8, 0, 1) : aq_tx_load_u64(tx, object + 8, 0, &n));
        CHECK_MESSAGE("no object begins");
        CHECK_CODE(AQ_OK, aq_tx_abort(tx));
    }
    close_and_remove(heap);
}

static void stores_to_a_freed_object_are_refused_at_once(void)
{
    aq_durable *heap = open_new("freed");
    aq_durable_ref object = allocate(heap, 8), other = allocate(heap, 8);
    aq_tx *tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_free(tx, object));
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_store_u64(tx, other, 0, 1));
    CHECK_CODE(AQ_ENOTALLOCATED, aq_tx_store_u64(tx, object, 0, 1));
    CHECK_CODE(AQ_ENOTALLOCATED, aq_tx_commit(tx));
    CHECK(number_in(heap, other) == 0);
    close_and_remove(heap);
}

/* ---- Sizes, and which there are ------------------------------------------ */

static const size_t sizes[] = {0, 1, 4, 5, 100, 4095, 4096, 4097, 8192, 10000, 300000, AQ_DURABLE_OBJECT_BYTES_MAX - 5,
                               AQ_DURABLE_OBJECT_BYTES_MAX};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void check_sizes(aq_tx *tx, const aq_durable_ref *objects)
{
    for (int i = 0; i < SIZES; i++) {
        uint64_t bytes = 4711;
        CHECK_CODE(AQ_OK, aq_tx_size(tx, objects[i], &bytes));
        CHECK(bytes == (sizes[i] ? (sizes[i] + 3) / 4 * 4 : 4));
    }
}

static void sizes_are_told(void)
{
    aq_durable_ref objects[SIZES], object = AQ_DURABLE_NULL, after = AQ_DURABLE_NULL;
    aq_durable *heap = open_new("sizes");
    uint64_t bytes;
    aq_tx *tx = begin(heap);
    for (int i = 0; i < SIZES; i++) {
        CHECK_CODE(AQ_OK, aq_tx_alloc(tx, sizes[i], &objects[i]));
        if (sizes[i] > 50)
            CHECK_CODE(AQ_OK, aq_tx_store(tx, objects[i], 21, "some", 5));
    }
    check_sizes(tx, objects);
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    tx = begin(heap);
    check_sizes(tx, objects);
    CHECK_CODE(AQ_OK, aq_tx_store(tx, objects[4], 0, "new", 4));
    check_sizes(tx, objects);
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    CHECK_CODE(AQ_OK, aq_durable_close(heap));
    heap = reopen();
    tx = begin(heap);
    check_sizes(tx, objects);
    int found = 0;
    while (aq_tx_next(tx, after, &object) == AQ_OK && object != AQ_DURABLE_NULL) {
        CHECK(object > after);
        after = object;
        found++;
    }
    CHECK(found == SIZES);
    CHECK_CODE(AQ_OK, aq_tx_free(tx, objects[3]));
    CHECK_CODE(AQ_ENOTALLOCATED, aq_tx_size(tx, objects[3], &bytes));
    CHECK_CODE(AQ_OK, aq_tx_abort(tx));
    close_and_remove(heap);
}

static void own_objects_are_found_and_freed_ones_not(void)
{
    aq_durable *heap = open_new("next");
    aq_durable_ref object = 4711, objects[3];
    aq_tx *tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_next(tx, AQ_DURABLE_NULL, &object));
    CHECK(object == AQ_DURABLE_NULL);
    CHECK_CODE(AQ_OK, aq_tx_abort(tx));
    for (int i = 0; i < 3; i++)
        objects[i] = allocate(heap, 100);
    tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_free(tx, objects[1]));
    CHECK_CODE(AQ_OK, aq_tx_next(tx, objects[0], &object));
    CHECK(object == objects[2]);
    CHECK_CODE(AQ_OK, aq_tx_alloc(tx, 5000, &objects[1]));
    CHECK_CODE(AQ_OK, aq_tx_next(tx, objects[2], &object));
    CHECK(object == objects[1]);
    CHECK_CODE(AQ_OK, aq_tx_next(tx, object, &object));
    CHECK(object == AQ_DURABLE_NULL);
    CHECK_CODE(AQ_OK, aq_tx_next(tx, UINT64_MAX, &object));
    CHECK(object == AQ_DURABLE_NULL);
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    close_and_remove(heap);
}

int main(void)
{
    RUN(sizes_are_told);
    RUN(own_objects_are_found_and_freed_ones_not);
    RUN(stores_beyond_an_end_are_refused);
    RUN(a_reference_into_an_object_is_refused);
    RUN(stores_to_a_freed_object_are_refused_at_once);
    return tests_failed();
}

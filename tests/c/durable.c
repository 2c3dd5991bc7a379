/* durable.c - transactions of durable heaps, with good and bad arguments. */
#include "durable.h"

#include <pthread.h>

/* ---- What is committed stays ------------------------------------------- */

static void transfers_keep_the_sum(void)
{
    enum { ACCOUNTS = 50, ROUNDS = 3000, START = 1000 };
    aq_durable *heap = open_new("transfers");
    aq_durable_ref accounts = allocate(heap, ACCOUNTS * 8);
    aq_tx *tx = begin(heap);
    for (uint64_t i = 0; i < ACCOUNTS; i++)
        CHECK_CODE(AQ_OK, aq_tx_store_u64(tx, accounts, i * 8, START));
    CHECK_CODE(AQ_OK, aq_tx_set_root(tx, accounts));
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    uint64_t dice = 1;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t from = next_random(&dice) % ACCOUNTS * 8, to = next_random(&dice) % ACCOUNTS * 8, a, b;
        tx = begin(heap);
        CHECK_CODE(AQ_OK, aq_tx_load_u64(tx, accounts, from, &a));
        CHECK_CODE(AQ_OK, aq_tx_store_u64(tx, accounts, from, a - a / 3));
        CHECK_CODE(AQ_OK, aq_tx_load_u64(tx, accounts, to, &b));
        CHECK_CODE(AQ_OK, aq_tx_store_u64(tx, accounts, to, b + a / 3));
        CHECK_CODE(AQ_OK, i % 7 == 0 ? aq_tx_abort(tx) : aq_tx_commit(tx));
        if (i % 500 == 0) {
            CHECK_CODE(AQ_OK, aq_durable_close(heap));
            heap = reopen();
        }
    }
    uint64_t balances[ACCOUNTS], sum = 0, unequal = 0;
    tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_load(tx, accounts, 0, balances, sizeof balances));
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    for (int i = 0; i < ACCOUNTS; i++) {
        sum += balances[i];
        unequal += balances[i] != START;
    }
    CHECK(sum == (uint64_t)ACCOUNTS * START && unequal > ACCOUNTS / 2);
    close_and_remove(heap);
}

static void objects_are_there_again(enum aq_backing backing)
{
    static const size_t sizes[] = {1, 7, 8, 100, 4096, 4097, 300000, AQ_DURABLE_OBJECT_BYTES_MAX};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    aq_durable_ref objects[SIZES], root = 1;
    aq_durable_options options = small_durable();
    options.backing = backing;
    snprintf(path, sizeof path, "%s/objects", test_dir());
    aq_durable *heap;
    CHECK_CODE(AQ_OK, aq_durable_open(path, &options, &heap));
    char *bytes = malloc(AQ_DURABLE_OBJECT_BYTES_MAX);
    CHECK(bytes);
    aq_tx *tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_root(tx, &root));
    CHECK(root == AQ_DURABLE_NULL);
    for (int i = 0; i < SIZES; i++) {
        fill(bytes, sizes[i], (uint64_t)i);
        CHECK_CODE(AQ_OK, aq_tx_alloc(tx, sizes[i], &objects[i]));
        CHECK_CODE(AQ_OK, aq_tx_store(tx, objects[i], 0, bytes, sizes[i]));
    }
    CHECK_CODE(AQ_OK, aq_tx_set_root(tx, objects[0]));
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    for (int round = 0; round < 3; round++) {
        CHECK_CODE(AQ_OK, aq_durable_close(heap));
        CHECK_CODE(AQ_OK, aq_durable_open(path, NULL, &heap));
        tx = begin(heap);
        CHECK_CODE(AQ_OK, aq_tx_root(tx, &root));
        CHECK(root == objects[0]);
        for (int i = 0; i < SIZES; i++) {
            CHECK_CODE(AQ_OK, aq_tx_load(tx, objects[i], 0, bytes, sizes[i]));
            CHECK(is_filled(bytes, sizes[i], (uint64_t)i));
        }
        CHECK_CODE(AQ_OK, aq_tx_abort(tx));
    }
    free(bytes);
    close_and_remove(heap);
}

static void objects_are_there_again_in_memory(void)
{
    objects_are_there_again(AQ_BACKING_MEMORY);
}

static void objects_are_there_again_on_flash(void)
{
    objects_are_there_again(AQ_BACKING_FLASH);
}

static void new_objects_are_zeros_and_freed_ones_gone(void)
{
    char bytes[1000];
    aq_durable *heap = open_new("zeros");
    for (int round = 0; round < 3; round++) {
        aq_durable_ref object = allocate(heap, sizeof bytes);
        aq_tx *tx = begin(heap);
        CHECK_CODE(AQ_OK, aq_tx_load(tx, object, 0, bytes, sizeof bytes));
        CHECK(is_zero(bytes, sizeof bytes));
        memset(bytes, 0xA5, sizeof bytes);
        CHECK_CODE(AQ_OK, aq_tx_store(tx, object, 0, bytes, sizeof bytes));
        CHECK_CODE(AQ_OK, aq_tx_commit(tx));
        tx = begin(heap);
        CHECK_CODE(AQ_OK, aq_tx_free(tx, object));
        CHECK_CODE(AQ_OK, aq_tx_commit(tx));
        tx = begin(heap);
        CHECK_CODE(AQ_ENOTALLOCATED, aq_tx_load(tx, object, 0, bytes, sizeof bytes));
        CHECK_CODE(AQ_OK, aq_tx_abort(tx));
    }
    close_and_remove(heap);
}

/* ---- One of several threads -------------------------------------------- */

enum { THREADS = 2, INCREMENTS = 10000 };

struct counter {
    aq_durable *heap;
    aq_durable_ref object;
};

static void *increment_often(void *argument)
{
    const struct counter *counter = argument;
    for (int i = 0; i < INCREMENTS; i++) {
        int error = increment(counter->heap, counter->object);
        if (error != AQ_OK)
            return (void *)(intptr_t)error;
    }
    return NULL;
}

static void threads_count_exactly(void)
{
    aq_durable *heap = open_new("counter");
    struct counter counter = {heap, allocate(heap, 8)};
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, increment_often, &counter) == 0);
    for (int t = 0; t < THREADS; t++) {
        void *error;
        CHECK(pthread_join(threads[t], &error) == 0 && !error);
    }
    CHECK(number_in(heap, counter.object) == (uint64_t)THREADS * INCREMENTS);
    CHECK_CODE(AQ_OK, aq_durable_close(heap));
    heap = reopen();
    CHECK(number_in(heap, counter.object) == (uint64_t)THREADS * INCREMENTS);
    close_and_remove(heap);
}

static void *increment_once(void *argument)
{
    const struct counter *counter = argument;
    return (void *)(intptr_t)increment(counter->heap, counter->object);
}

/* Runs work(argument) in another thread; what it returned. */
static intptr_t in_thread(void *(*work)(void *), void *argument)
{
    pthread_t thread;
    void *result = NULL;
    CHECK(pthread_create(&thread, NULL, work, argument) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    return (intptr_t)result;
}

static void a_conflict_is_told_and_nothing_has_happened(void)
{
    aq_durable *heap = open_new("conflict");
    struct counter counter = {heap, allocate(heap, 8)};
    aq_durable_ref other = allocate(heap, 8);
    uint64_t n;
    aq_tx *tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_load_u64(tx, counter.object, 0, &n));
    CHECK_CODE(AQ_OK, aq_tx_store_u64(tx, other, 0, 77));
    CHECK(in_thread(increment_once, &counter) == AQ_OK);
    CHECK_CODE(AQ_ECONFLICT, aq_tx_commit(tx));
    CHECK_MESSAGE("again");
    CHECK(number_in(heap, other) == 0 && number_in(heap, counter.object) == 1);

    /* A conflict that a load has found is not forgotten by the commit. */
    tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_load_u64(tx, counter.object, 0, &n));
    CHECK(in_thread(increment_once, &counter) == AQ_OK);
    CHECK_CODE(AQ_ECONFLICT, aq_tx_load_u64(tx, counter.object, 0, &n));
    CHECK(n == 1);
    CHECK_CODE(AQ_ECONFLICT, aq_tx_store_u64(tx, other, 0, 78));
    CHECK_CODE(AQ_ECONFLICT, aq_tx_begin(heap, &tx));
    CHECK_CODE(AQ_ECONFLICT, aq_tx_commit(tx));
    CHECK(number_in(heap, other) == 0);
    close_and_remove(heap);
}

static void *use_of_another_thread(void *argument)
{
    aq_tx *tx = argument;
    uint64_t n;
    bool refused = aq_tx_load_u64(tx, (aq_durable_ref)1 << 24, 0, &n) == AQ_EINVAL && aq_tx_commit(tx) == AQ_EINVAL &&
                   aq_tx_abort(tx) == AQ_EINVAL;
    return refused ? argument : NULL;
}

static void a_transaction_belongs_to_its_thread(void)
{
    aq_durable *heap = open_new("owner");
    aq_durable_ref object = allocate(heap, 8);
    aq_tx *tx = begin(heap);
    CHECK(in_thread(use_of_another_thread, tx) == (intptr_t)tx);
    CHECK_CODE(AQ_OK, aq_tx_store_u64(tx, object, 0, 5));
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    CHECK_CODE(AQ_EINVAL, aq_tx_commit(tx));
    CHECK_CODE(AQ_EINVAL, aq_tx_abort(tx));
    CHECK_CODE(AQ_EINVAL, aq_tx_store_u64(tx, object, 0, 6));
    CHECK_MESSAGE("ended");
    CHECK(number_in(heap, object) == 5);
    close_and_remove(heap);
}

static void *leave_a_transaction(void *argument)
{
    const struct counter *counter = argument;
    aq_tx *tx;
    bool begun = aq_tx_begin(counter->heap, &tx) == AQ_OK && aq_tx_store_u64(tx, counter->object, 0, 99) == AQ_OK;
    return begun ? argument : NULL;
}

static void a_thread_that_ends_aborts(void)
{
    aq_durable *heap = open_new("left");
    struct counter counter = {heap, allocate(heap, 8)};
    CHECK(in_thread(leave_a_transaction, &counter) == (intptr_t)&counter);
    CHECK(number_in(heap, counter.object) == 0);
    close_and_remove(heap);
}

/* ---- Nested ------------------------------------------------------------ */

static void nested_commits_are_one(void)
{
    aq_durable *heap = open_new("nested");
    aq_durable_ref object = allocate(heap, 8);
    aq_tx *outer = begin(heap), *inner = begin(heap), *innermost = begin(heap);
    CHECK(inner == outer && innermost == outer);
    CHECK_CODE(AQ_OK, aq_tx_store_u64(innermost, object, 0, 3));
    CHECK_CODE(AQ_OK, aq_tx_commit(innermost));
    CHECK_CODE(AQ_OK, aq_tx_commit(inner));
    CHECK_CODE(AQ_EBUSY, aq_durable_close(heap));

    /* One on another heap is another one. */
    char first_path[sizeof path];
    strcpy(first_path, path);
    aq_durable *other_heap = open_new("nested-other");
    aq_tx *other = begin(other_heap);
    CHECK(other != outer);
    CHECK_CODE(AQ_OK, aq_tx_abort(other));
    close_and_remove(other_heap);
    strcpy(path, first_path);

    CHECK_CODE(AQ_OK, aq_tx_commit(outer));
    CHECK(number_in(heap, object) == 3);
    close_and_remove(heap);
}

static void an_inner_abort_dooms_the_whole(void)
{
    aq_durable *heap = open_new("doomed");
    aq_durable_ref object = allocate(heap, 8), fresh = 4711;
    uint64_t n = 4711;
    aq_tx *outer = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_store_u64(outer, object, 0, 3));
    aq_tx *inner = begin(heap), *innermost = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_abort(innermost));
    CHECK_CODE(AQ_EABORTED, aq_tx_store_u64(inner, object, 0, 4));
    CHECK_CODE(AQ_EABORTED, aq_tx_load_u64(inner, object, 0, &n));
    CHECK_CODE(AQ_EABORTED, aq_tx_alloc(inner, 8, &fresh));
    CHECK_CODE(AQ_EABORTED, aq_tx_root(inner, &fresh));
    CHECK(n == 4711 && fresh == 4711);
    CHECK_CODE(AQ_EABORTED, aq_tx_begin(heap, &inner));
    CHECK_CODE(AQ_EABORTED, aq_tx_commit(inner));
    CHECK_CODE(AQ_EABORTED, aq_tx_commit(outer));
    CHECK(*aq_error_message());
    CHECK(number_in(heap, object) == 0);

    outer = begin(heap);
    inner = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_abort(inner));
    CHECK_CODE(AQ_OK, aq_tx_abort(outer));
    CHECK_CODE(AQ_EINVAL, aq_tx_abort(outer));
    close_and_remove(heap);
}

/* ---- Mistakes ---------------------------------------------------------- */

static void nothing_where_something_should_be(void)
{
    aq_durable *heap = open_new("null"), *none = NULL;
    aq_durable_stats stats = {.struct_bytes = sizeof stats};
    aq_durable_ref object = allocate(heap, 8);
    uint64_t n;
    aq_tx *tx = NULL;
    CHECK_CODE(AQ_EINVAL, aq_durable_open(NULL, NULL, &none));
    CHECK_CODE(AQ_EINVAL, aq_durable_open("", NULL, &none));
    CHECK_CODE(AQ_EINVAL, aq_durable_open(path, NULL, NULL));
    CHECK_CODE(AQ_EINVAL, aq_durable_close(NULL));
    CHECK_CODE(AQ_EINVAL, aq_durable_stats_get(NULL, &stats));
    CHECK_CODE(AQ_EINVAL, aq_durable_stats_get(heap, NULL));
    CHECK_CODE(AQ_EINVAL, aq_tx_begin(NULL, &tx));
    CHECK_CODE(AQ_EINVAL, aq_tx_begin(heap, NULL));
    CHECK_CODE(AQ_EINVAL, aq_tx_commit(NULL));
    CHECK_CODE(AQ_EINVAL, aq_tx_abort(NULL));
    CHECK_CODE(AQ_EINVAL, aq_tx_alloc(NULL, 8, &object));
    CHECK_CODE(AQ_EINVAL, aq_tx_free(NULL, object));
    CHECK_CODE(AQ_EINVAL, aq_tx_load(NULL, object, 0, &n, 8));
    CHECK_CODE(AQ_EINVAL, aq_tx_store(NULL, object, 0, &n, 8));
    CHECK_CODE(AQ_EINVAL, aq_tx_load_u64(NULL, object, 0, &n));
    CHECK_CODE(AQ_EINVAL, aq_tx_store_u64(NULL, object, 0, 8));
    CHECK_CODE(AQ_EINVAL, aq_tx_root(NULL, &object));
    CHECK_CODE(AQ_EINVAL, aq_tx_set_root(NULL, object));
    CHECK_MESSAGE("tx is NULL");
    CHECK(!none && !tx);
    aq_durable_options_init(NULL, 64);
    close_and_remove(heap);
}

/* The call, with tx in a transaction of its own, must fail with this number, and
 * so must the commit. */
#define CHECK_DOOMS(expected, call) \
    do { \
        aq_tx *tx = begin(heap); \
        CHECK_CODE(expected, call); \
        CHECK_CODE(expected, aq_tx_commit(tx)); \
    } while (0)

static int open_small(aq_durable_options *options)
{
    aq_durable *opened = NULL;
    options->capacity_bytes = 64 * MIB;
    options->chunk_bytes = 64 << 10;
    int code = aq_durable_open(path, options, &opened);
    return code == AQ_OK ? aq_durable_close(opened) : code;
}

static void options_have_the_size_that_the_program_knows(void)
{
    aq_durable *heap = open_new("sizes");
    CHECK_CODE(AQ_OK, aq_durable_close(heap));
    CHECK_OPTIONS_OF_OTHER_SIZES(aq_durable_options, aq_durable_options_init,
        offsetof(aq_durable_options, utilisation_percent), open_small);
    close_and_remove(reopen());
}

static void wrong_arguments_doom_the_transaction(void)
{
    aq_durable *heap = open_new("wrong");
    aq_durable_ref object = allocate(heap, 8), beyond = object + ((aq_durable_ref)1 << 30), fresh = 0;
    uint64_t n = 0;
    CHECK_DOOMS(AQ_EINVAL, aq_tx_alloc(tx, 8, NULL));
    CHECK_DOOMS(AQ_EINVAL, aq_tx_load(tx, object, 0, NULL, 8));
    CHECK_DOOMS(AQ_EINVAL, aq_tx_store(tx, object, 0, NULL, 8));
    CHECK_DOOMS(AQ_EINVAL, aq_tx_load_u64(tx, object, 0, NULL));
    CHECK_DOOMS(AQ_EINVAL, aq_tx_root(tx, NULL));
    CHECK_DOOMS(AQ_EINVAL, aq_tx_load_u64(tx, AQ_DURABLE_NULL, 0, &n));
    CHECK_DOOMS(AQ_EINVAL, aq_tx_store_u64(tx, AQ_DURABLE_NULL, 0, 1));
    CHECK_DOOMS(AQ_EINVAL, aq_tx_alloc(tx, AQ_DURABLE_OBJECT_BYTES_MAX + 1, &fresh));
    CHECK_DOOMS(AQ_EINVAL, aq_tx_alloc(tx, SIZE_MAX, &fresh));
    CHECK_DOOMS(AQ_ENOTALLOCATED, aq_tx_load_u64(tx, beyond, 0, &n));
    CHECK_DOOMS(AQ_ENOTALLOCATED, aq_tx_load_u64(tx, UINT64_MAX, 8, &n));
    CHECK_DOOMS(AQ_ENOTALLOCATED, aq_tx_load_u64(tx, object, UINT64_MAX, &n));
    CHECK_DOOMS(AQ_ENOTALLOCATED, aq_tx_load(tx, object, 0, &n, SIZE_MAX));
    CHECK_DOOMS(AQ_ENOTALLOCATED, aq_tx_store(tx, object, 1, &n, AQ_DURABLE_OBJECT_BYTES_MAX));
    CHECK_DOOMS(AQ_ENOTALLOCATED, aq_tx_free(tx, beyond));
    CHECK_DOOMS(AQ_ENOTALLOCATED, aq_tx_free(tx, object + 4));
    CHECK_DOOMS(AQ_ENOTALLOCATED, aq_tx_free(tx, 8));
    /* The heap's own bytes, where the root and the sizes of objects stand. */
    CHECK_DOOMS(AQ_ENOTALLOCATED, aq_tx_store_u64(tx, 8, 0, 1));
    CHECK_DOOMS(AQ_ENOTALLOCATED, aq_tx_load_u64(tx, 4096, 0, &n));
    CHECK_DOOMS(AQ_ENOTALLOCATED, aq_tx_set_root(tx, 8));
    CHECK(fresh == 0 && n == 0);

    CHECK_DOOMS(AQ_EINVAL, aq_tx_size(tx, object, NULL));
    CHECK_DOOMS(AQ_ENOTALLOCATED, aq_tx_size(tx, beyond, &n));
    CHECK_DOOMS(AQ_EINVAL, aq_tx_next(tx, object, NULL));

    aq_tx *tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_store_u64(tx, object, 0, 1));
    CHECK_CODE(AQ_ENOTALLOCATED, aq_tx_store_u64(tx, beyond, 0, 1));
    CHECK_CODE(AQ_ENOTALLOCATED, aq_tx_commit(tx));
    CHECK(number_in(heap, object) == 0);

    tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_load(tx, object, 0, NULL, 0));
    CHECK_CODE(AQ_OK, aq_tx_store(tx, object, 0, NULL, 0));
    CHECK_CODE(AQ_OK, aq_tx_free(tx, AQ_DURABLE_NULL));
    CHECK_CODE(AQ_OK, aq_tx_set_root(tx, AQ_DURABLE_NULL));
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    close_and_remove(heap);
}

static void close_waits_for_nobody(void)
{
    aq_durable *heap = open_new("busy");
    aq_durable_ref object = allocate(heap, 8);
    aq_tx *tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_store_u64(tx, object, 0, 1));
    CHECK_CODE(AQ_EBUSY, aq_durable_close(heap));
    CHECK_MESSAGE("under way");
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    CHECK(number_in(heap, object) == 1);
    close_and_remove(heap);
}

int main(void)
{
    RUN(transfers_keep_the_sum);
    RUN(objects_are_there_again_in_memory);
    RUN(objects_are_there_again_on_flash);
    RUN(new_objects_are_zeros_and_freed_ones_gone);
    RUN(threads_count_exactly);
    RUN(a_conflict_is_told_and_nothing_has_happened);
    RUN(a_transaction_belongs_to_its_thread);
    RUN(a_thread_that_ends_aborts);
    RUN(nested_commits_are_one);
    RUN(an_inner_abort_dooms_the_whole);
    RUN(nothing_where_something_should_be);
    RUN(options_have_the_size_that_the_program_knows);
    RUN(wrong_arguments_doom_the_transaction);
    RUN(close_waits_for_nobody);
    return tests_failed();
}

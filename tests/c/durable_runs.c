/* durable_runs.c - transactions that are run again, and those that only read. */
#include "durable.h"

#include <pthread.h>

enum { OWN_NUMBER = -7 };

/* What a body works on. */
struct work {
    aq_durable *heap;
    aq_durable_ref counter, other;
    int calls, meets, returns;
    bool is_checked;
};

/* Another thread adds 1 to the counter. */
static void *meet(void *argument)
{
    const struct work *work = argument;
    return (void *)(intptr_t)increment(work->heap, work->counter);
}

/* Adds 1, after another thread has met it so often. */
static int add_one(aq_tx *tx, void *argument)
{
    struct work *work = argument;
    uint64_t n = 0;
    work->calls++;
    int error = aq_tx_load_u64(tx, work->counter, 0, &n);
    if (error)
        return error;
    if (work->meets > 0) {
        pthread_t thread;
        void *met;
        work->meets--;
        if (pthread_create(&thread, NULL, meet, work) != 0 || pthread_join(thread, &met) != 0 || met)
            return OWN_NUMBER - 1;
    }
    error = aq_tx_load_u64(tx, work->other, 0, &n);
    if (error && work->is_checked)
        return error;
    if (work->returns)
        return work->returns;
    aq_tx_load_u64(tx, work->counter, 0, &n);
    error = aq_tx_store_u64(tx, work->counter, 0, n + 1);
    return work->is_checked ? error : error ? OWN_NUMBER : 0;
}

static struct work work_on(aq_durable *heap)
{
    struct work work = {.heap = heap, .is_checked = true};
    work.counter = allocate(heap, 8);
    work.other = allocate(heap, 5000);
    return work;
}

static void a_body_runs_again_until_it_meets_nobody(void)
{
    aq_durable *heap = open_new("again");
    for (int is_checked = 0; is_checked < 2; is_checked++) {
        struct work work = work_on(heap);
        work.is_checked = is_checked;
        work.meets = 3;
        CHECK_CODE(AQ_OK, aq_durable_run(heap, add_one, &work));
        CHECK(work.calls == 4);
        CHECK(number_in(heap, work.counter) == 4);
    }
    close_and_remove(heap);
}

static void what_a_body_returns_is_returned(void)
{
    aq_durable *heap = open_new("returns");
    struct work work = work_on(heap);
    static const int numbers[] = {OWN_NUMBER, AQ_EINVAL, AQ_ENOTALLOCATED, 4711};
    for (int i = 0; i < 4; i++) {
        work.returns = numbers[i];
        CHECK_CODE(numbers[i], aq_durable_run(heap, add_one, &work));
    }
    CHECK(work.calls == 4 && number_in(heap, work.counter) == 0);
    work.returns = 0;
    work.other = AQ_DURABLE_NULL;
    CHECK_CODE(AQ_EINVAL, aq_durable_run(heap, add_one, &work));
    work.is_checked = false;
    CHECK_CODE(OWN_NUMBER, aq_durable_run(heap, add_one, &work));
    CHECK_CODE(AQ_EINVAL, aq_durable_run(NULL, add_one, &work));
    CHECK_CODE(AQ_EINVAL, aq_durable_run(heap, NULL, &work));
    CHECK(number_in(heap, work.counter) == 0);
    close_and_remove(heap);
}

static int run_inside(aq_tx *tx, void *argument)
{
    struct work *work = argument;
    (void)tx;
    return aq_durable_run(work->heap, add_one, work);
}

static void nested_it_is_part_of_the_outer_one(void)
{
    aq_durable *heap = open_new("nested-run");
    struct work work = work_on(heap);
    aq_tx *tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_durable_run(heap, add_one, &work));
    CHECK_CODE(AQ_OK, aq_tx_abort(tx));
    CHECK(number_in(heap, work.counter) == 0);

    /* The conflict is the outer one's. */
    work.calls = 0;
    work.meets = 1;
    tx = begin(heap);
    CHECK_CODE(AQ_ECONFLICT, aq_durable_run(heap, add_one, &work));
    CHECK(work.calls == 1);
    CHECK_CODE(AQ_ECONFLICT, aq_tx_commit(tx));
    work.meets = 2;
    work.calls = 0;
    CHECK_CODE(AQ_OK, aq_durable_run(heap, run_inside, &work));
    CHECK(work.calls == 3 && number_in(heap, work.counter) == 4);

    work.returns = OWN_NUMBER;
    tx = begin(heap);
    CHECK_CODE(OWN_NUMBER, aq_durable_run(heap, add_one, &work));
    CHECK_CODE(AQ_EABORTED, aq_tx_commit(tx));
    close_and_remove(heap);
}

enum { THREADS = 3, ROUNDS = 3000 };

static void *add_often(void *argument)
{
    const struct work *shared = argument;
    struct work work = *shared;
    for (int i = 0; i < ROUNDS; i++) {
        int error = aq_durable_run(work.heap, add_one, &work);
        if (error)
            return (void *)(intptr_t)error;
    }
    return NULL;
}

static void threads_count_exactly(void)
{
    aq_durable *heap = open_new("runs");
    struct work work = work_on(heap);
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, add_often, &work) == 0);
    for (int t = 0; t < THREADS; t++) {
        void *error;
        CHECK(pthread_join(threads[t], &error) == 0 && !error);
    }
    CHECK(number_in(heap, work.counter) == (uint64_t)THREADS * ROUNDS);
    close_and_remove(heap);
}

/* ---- Only reading -------------------------------------------------------- */

static aq_tx *begin_read(aq_durable *heap)
{
    aq_tx *tx = NULL;
    CHECK_CODE(AQ_OK, aq_tx_begin_read(heap, &tx));
    return tx;
}

/* Every change is refused in a transaction of its own that begin begins. */
static void changes_are_refused(aq_durable *heap, aq_durable_ref object, aq_tx *(*begin)(aq_durable *))
{
    for (int i = 0; i < 5; i++) {
        aq_durable_ref fresh = 4711;
        uint64_t n = 0;
        aq_tx *tx = begin(heap);
        CHECK_CODE(AQ_OK, aq_tx_load_u64(tx, object, 0, &n));
        CHECK(n == 42);
        int error = i == 0   ? aq_tx_store_u64(tx, object, 0, 1)
                    : i == 1 ? aq_tx_store(tx, object, 0, &n, 3)
                    : i == 2 ? aq_tx_alloc(tx, 8, &fresh)
                    : i == 3 ? aq_tx_free(tx, object)
                             : aq_tx_set_root(tx, object);
        CHECK_CODE(AQ_EREADONLY, error);
        CHECK_MESSAGE("only reads");
        CHECK(fresh == 4711);
        CHECK_CODE(AQ_EREADONLY, aq_tx_commit(tx));
    }
    aq_tx *tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
}

static aq_durable_ref forty_two(aq_durable *heap)
{
    aq_durable_ref object = allocate(heap, 8);
    aq_tx *tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_store_u64(tx, object, 0, 42));
    CHECK_CODE(AQ_OK, aq_tx_set_root(tx, object));
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    return object;
}

static void a_reading_transaction_changes_nothing(void)
{
    aq_durable *heap = open_new("reading");
    aq_durable_ref object = forty_two(heap);
    changes_are_refused(heap, object, begin_read);
    CHECK_CODE(AQ_EINVAL, aq_tx_begin_read(heap, NULL));
    CHECK_CODE(AQ_EINVAL, aq_tx_begin_read(NULL, (aq_tx **)&path));

    /* Nested, until its level ends. */
    aq_tx *tx = begin(heap), *inner = begin_read(heap), *innermost = begin(heap);
    CHECK(inner == tx && innermost == tx);
    CHECK_CODE(AQ_OK, aq_tx_commit(innermost));
    CHECK_CODE(AQ_OK, aq_tx_commit(inner));
    CHECK_CODE(AQ_OK, aq_tx_store_u64(tx, object, 0, 43));
    inner = begin_read(heap);
    innermost = begin(heap);
    CHECK_CODE(AQ_EREADONLY, aq_tx_store_u64(innermost, object, 0, 44));
    CHECK_CODE(AQ_OK, aq_tx_abort(innermost));
    CHECK_CODE(AQ_OK, aq_tx_abort(inner));
    CHECK_CODE(AQ_EREADONLY, aq_tx_commit(tx));
    CHECK(number_in(heap, object) == 42);
    close_and_remove(heap);
}

static void a_heap_is_read_by_several(void)
{
    aq_durable *heap = open_new("several"), *other = NULL;
    aq_durable_options options = small_durable();
    options.read_only = 1;
    aq_durable_ref object = forty_two(heap);
    CHECK_CODE(AQ_EFLASH_BUSY, aq_durable_open(path, &options, &other));
    CHECK_CODE(AQ_OK, aq_durable_close(heap));
    CHECK_CODE(AQ_OK, aq_durable_open(path, &options, &heap));
    CHECK_CODE(AQ_OK, aq_durable_open(path, &options, &other));
    changes_are_refused(heap, object, begin);
    changes_are_refused(other, object, begin);
    aq_durable *third = NULL;
    options.read_only = 0;
    CHECK_CODE(AQ_EFLASH_BUSY, aq_durable_open(path, &options, &third));
    CHECK_CODE(AQ_OK, aq_durable_sync(heap));
    CHECK_CODE(AQ_OK, aq_durable_close(heap));
    CHECK(number_in(other, object) == 42);
    close_and_remove(other);
    options.read_only = 1;
    CHECK_CODE(AQ_EFLASH_MISSING, aq_durable_open(path, &options, &third));
    CHECK(!third && access(path, F_OK) != 0);
}

int main(void)
{
    RUN(a_body_runs_again_until_it_meets_nobody);
    RUN(what_a_body_returns_is_returned);
    RUN(nested_it_is_part_of_the_outer_one);
    RUN(threads_count_exactly);
    RUN(a_reading_transaction_changes_nothing);
    RUN(a_heap_is_read_by_several);
    return tests_failed();
}

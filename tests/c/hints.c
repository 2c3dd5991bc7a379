/* hints.c - aq_prefetch and aq_advise: what is brought in, and what is refused. */
#include "check.h"

static int static_variable;

static uint64_t misses(void)
{
    aq_stats stats = {.struct_bytes = sizeof stats};
    CHECK_CODE(AQ_OK, aq_stats_get(&stats));
    return stats.misses;
}

/* ---- Prefetch ---------------------------------------------------------- */

static void prefetch_brings_objects_in(void)
{
    enum { OBJECTS = 500 };
    void *objects[OBJECTS];
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = aq_malloc(200);
        CHECK(objects[i]);
        fill(objects[i], 200, (uint64_t)i);
    }
    CHECK(push_out());
    CHECK_CODE(AQ_OK, aq_prefetch(objects, OBJECTS));
    uint64_t before = misses();
    for (int i = 0; i < OBJECTS; i++)
        CHECK(is_filled(objects[i], 200, (uint64_t)i));
    CHECK(misses() - before < OBJECTS / 10);
    for (int i = 0; i < OBJECTS; i++)
        CHECK_CODE(AQ_OK, aq_free(objects[i]));
}

/* A list of what may be needed has holes; it also may name an object twice. */
static void null_is_skipped_and_twice_is_once(void)
{
    enum { OBJECTS = 300 };
    void *objects[OBJECTS], *list[3 * OBJECTS];
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = aq_malloc(300);
        CHECK(objects[i]);
        fill(objects[i], 300, (uint64_t)i);
        list[3 * i] = NULL;
        list[3 * i + 1] = list[3 * i + 2] = objects[i];
    }
    CHECK(push_out());
    CHECK_CODE(AQ_OK, aq_prefetch(list, 3 * OBJECTS));
    uint64_t before = misses();
    for (int i = 0; i < OBJECTS; i++)
        CHECK(is_filled(objects[i], 300, (uint64_t)i));
    CHECK(misses() - before < OBJECTS / 10);
    for (int i = 0; i < OBJECTS; i++)
        CHECK_CODE(AQ_OK, aq_free(objects[i]));
    CHECK_CODE(AQ_OK, aq_prefetch((void *const[]){NULL, NULL}, 2));
}

/* Foreign pointers are counted in the message; everything else is brought in. */
static void foreign_pointers_do_not_stop_the_others(void)
{
    enum { OBJECTS = 300 };
    void *objects[OBJECTS], *list[OBJECTS + 2];
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = list[i + 1] = aq_malloc(300);
        CHECK(objects[i]);
        fill(objects[i], 300, (uint64_t)i);
    }
    list[0] = &static_variable;
    list[OBJECTS + 1] = list;
    CHECK(push_out());
    CHECK_CODE(AQ_EFOREIGN, aq_prefetch(list, OBJECTS + 2));
    CHECK_MESSAGE("2 of 302");
    uint64_t before = misses();
    for (int i = 0; i < OBJECTS; i++)
        CHECK(is_filled(objects[i], 300, (uint64_t)i));
    CHECK(misses() - before < OBJECTS / 10);
    for (int i = 0; i < OBJECTS; i++)
        CHECK_CODE(AQ_OK, aq_free(objects[i]));
}

static void bad_prefetches_are_refused(void)
{
    void *object = aq_malloc(10), *freed = aq_malloc(10);
    CHECK(object && freed);
    CHECK_CODE(AQ_OK, aq_free(freed));
    CHECK_CODE(AQ_OK, aq_prefetch(&object, 0));
    CHECK_CODE(AQ_OK, aq_prefetch(NULL, 0));
    CHECK_CODE(AQ_EINVAL, aq_prefetch(NULL, 1));
    CHECK_CODE(AQ_OK, aq_prefetch(&freed, 1));
    CHECK_CODE(AQ_EFOREIGN, aq_prefetch((void *const[]){&static_variable}, 1));
    CHECK_CODE(AQ_OK, aq_prefetch(&object, 1));
    CHECK_CODE(AQ_OK, aq_free(object));
    CHECK_CODE(AQ_OK, aq_check());
}

/* ---- Advice ------------------------------------------------------------ */

static void willneed_brings_a_range_in(void)
{
    enum { BYTES = 1 << 20 };
    char *object = aq_malloc(BYTES);
    CHECK(object);
    fill(object, BYTES, 3);
    CHECK(push_out());
    CHECK_CODE(AQ_OK, aq_advise(object, BYTES, AQ_WILLNEED));
    uint64_t before = misses();
    CHECK(is_filled(object, BYTES, 3));
    CHECK(misses() - before < BYTES / 4096 / 10);
    CHECK_CODE(AQ_OK, aq_free(object));
}

static void no_hint_changes_a_byte(void)
{
    enum { BYTES = 3 << 20 };
    char *large = aq_malloc(BYTES), *small = aq_malloc(100);
    CHECK(large && small);
    fill(large, BYTES, 1);
    fill(small, 100, 2);
    for (int hint = AQ_WILLNEED; hint <= AQ_COLD; hint++) {
        CHECK_CODE(AQ_OK, aq_advise(large, BYTES, hint));
        CHECK_CODE(AQ_OK, aq_advise(large + 5000, 1, hint));
        CHECK_CODE(AQ_OK, aq_advise(small, 100, hint));
        CHECK_CODE(AQ_OK, aq_advise(small, 0, hint));
        CHECK(is_filled(large, BYTES, 1) && is_filled(small, 100, 2));
    }
    CHECK_CODE(AQ_OK, aq_advise(large, BYTES, AQ_COLD));
    CHECK(push_out());
    CHECK(is_filled(large, BYTES, 1) && is_filled(small, 100, 2));
    CHECK_CODE(AQ_OK, aq_free(large));
    CHECK_CODE(AQ_OK, aq_free(small));
    CHECK_CODE(AQ_OK, aq_check());
}

static void bad_advice_is_refused(void)
{
    char *object = aq_malloc(100);
    CHECK(object);
    CHECK_CODE(AQ_EINVAL, aq_advise(object, 100, -1));
    CHECK_CODE(AQ_EINVAL, aq_advise(object, 100, AQ_COLD + 1));
    for (int hint = AQ_WILLNEED; hint <= AQ_COLD; hint++) {
        CHECK_CODE(AQ_EFOREIGN, aq_advise(NULL, 100, hint));
        CHECK_CODE(AQ_EFOREIGN, aq_advise(&static_variable, sizeof static_variable, hint));
        CHECK_CODE(AQ_EFOREIGN, aq_advise(object, SIZE_MAX, hint));
    }
    CHECK_CODE(AQ_EINVAL, aq_heap_advise(NULL, object, 100, AQ_COLD));
    CHECK_CODE(AQ_OK, aq_free(object));
}

int main(void)
{
    open_default_heap("hints.c");
    RUN(prefetch_brings_objects_in);
    RUN(null_is_skipped_and_twice_is_once);
    RUN(foreign_pointers_do_not_stop_the_others);
    RUN(bad_prefetches_are_refused);
    RUN(willneed_brings_a_range_in);
    RUN(no_hint_changes_a_byte);
    RUN(bad_advice_is_refused);
    return tests_failed();
}

/* api.c - every function of the header with good and bad arguments. */
#include "check.h"

static int static_variable;

/* ---- Text and options -------------------------------------------------- */

static void version_is_that_of_the_header(void)
{
    char expected[32];
    snprintf(expected, sizeof expected, "%d.%d.%d", AQ_VERSION_MAJOR, AQ_VERSION_MINOR, AQ_VERSION_PATCH);
    CHECK(strcmp(aq_version(), expected) == 0);
}

static void every_error_has_its_sentence(void)
{
    for (int a = AQ_OK; a <= AQ_EINVARIANT; a++) {
        CHECK(aq_strerror(a) && *aq_strerror(a));
        for (int b = AQ_OK; b < a; b++)
            CHECK(strcmp(aq_strerror(a), aq_strerror(b)) != 0);
    }
    CHECK(aq_strerror(-1) && aq_strerror(4711));
}

static void options_start_with_their_size(void)
{
    aq_options options;
    memset(&options, 0xA5, sizeof options);
    aq_options_init(&options);
    CHECK(options.struct_bytes == sizeof options);
    CHECK(options.faults == AQ_FAULTS_SIGNAL && options.policy <= AQ_POLICY_SIEVE);
    CHECK(options.flash_path == NULL && options.socket_path == NULL);
    aq_options_init(NULL);
}

static void the_default_heap_opens_once(void)
{
    aq_options options = small_options();
    CHECK_CODE(AQ_EOPEN, aq_init(&options));
    CHECK_CODE(AQ_EOPEN, aq_init(NULL));
    CHECK(*aq_error_message());
}

/* ---- Allocation -------------------------------------------------------- */

static void objects_of_every_size_hold_their_bytes(void)
{
    static const size_t sizes[] = {1, 2, 7, 8, 100, 128, 1000, 4095, 4096, 4097, 8192, 100000, 1 << 20, 5000001};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    void *objects[COUNT];
    for (int i = 0; i < COUNT; i++) {
        objects[i] = aq_malloc(sizes[i]);
        CHECK(objects[i]);
        CHECK((uintptr_t)objects[i] % 4096 == 0);
        CHECK(aq_usable_size(objects[i]) >= sizes[i]);
        fill(objects[i], sizes[i], sizes[i]);
    }
    CHECK(push_out());
    for (int i = 0; i < COUNT; i++)
        CHECK(is_filled(objects[i], sizes[i], sizes[i]));
    for (int i = 0; i < COUNT; i++)
        CHECK_CODE(AQ_OK, aq_free(objects[i]));
}

static void every_usable_byte_can_be_used(void)
{
    void *object = aq_malloc(777);
    CHECK(object);
    size_t usable = aq_usable_size(object);
    fill(object, usable, 1);
    CHECK(push_out());
    CHECK(is_filled(object, usable, 1));
    CHECK_CODE(AQ_OK, aq_free(object));
}

static void size_zero_is_one_byte(void)
{
    char *a = aq_malloc(0), *b = aq_malloc(0);
    CHECK(a && b && a != b);
    CHECK(aq_usable_size(a) >= 1);
    *a = 1;
    CHECK_CODE(AQ_OK, aq_free(a));
    CHECK_CODE(AQ_OK, aq_free(b));
}

static void absurd_sizes_give_null(void)
{
    static const size_t sizes[] = {AQ_OBJECT_BYTES_MAX + 1, SIZE_MAX / 2, SIZE_MAX - 4095, SIZE_MAX};
    for (int i = 0; i < 4; i++) {
        CHECK(!aq_malloc(sizes[i]));
        CHECK(*aq_error_message());
        CHECK(!aq_calloc(1, sizes[i]));
        CHECK(!aq_calloc(sizes[i], 1));
    }
}

static void calloc_is_zero_and_checks_overflow(void)
{
    char *object = aq_calloc(123, 45);
    CHECK(object && is_zero(object, 123 * 45));
    CHECK_CODE(AQ_OK, aq_free(object));
    CHECK(!aq_calloc(SIZE_MAX / 2 + 2, 2));
    CHECK(!aq_calloc((size_t)1 << 33, (size_t)1 << 33));
    CHECK(*aq_error_message());
    void *empty = aq_calloc(0, 100);
    CHECK(empty);
    CHECK_CODE(AQ_OK, aq_free(empty));
}

static void calloc_is_zero_in_recycled_memory(void)
{
    enum { OBJECTS = 64 };
    void *objects[OBJECTS];
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = aq_malloc(200);
        CHECK(objects[i]);
        memset(objects[i], 0xFF, 200);
    }
    CHECK(push_out());
    for (int i = 0; i < OBJECTS; i++)
        CHECK_CODE(AQ_OK, aq_free(objects[i]));
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = aq_calloc(1, 200);
        CHECK(objects[i] && is_zero(objects[i], 200));
    }
    for (int i = 0; i < OBJECTS; i++)
        CHECK_CODE(AQ_OK, aq_free(objects[i]));
}

static void calloc_costs_nothing_until_written(void)
{
    aq_stats before = {.struct_bytes = sizeof before}, after = {.struct_bytes = sizeof after};
    CHECK_CODE(AQ_OK, aq_stats_get(&before));
    char *object = aq_calloc(128, MIB);
    CHECK(object);
    for (size_t at = 0; at < 128 * MIB; at += MIB - 1)
        CHECK(object[at] == 0);
    CHECK_CODE(AQ_OK, aq_stats_get(&after));
    CHECK(after.objects_written_bytes - before.objects_written_bytes < 4 * MIB);
    CHECK(after.ram_used_bytes <= after.ram_budget_bytes);
    object[100 * MIB] = 1;
    CHECK(object[100 * MIB] == 1 && object[100 * MIB + 1] == 0);
    CHECK_CODE(AQ_OK, aq_free(object));
}

static void realloc_keeps_the_content(void)
{
    static const size_t sizes[] = {10, 100, 4096, 4097, 50000, 1 << 20, 5000, 4096, 300, 10};
    char *object = aq_realloc(NULL, 10);
    CHECK(object);
    fill(object, 10, 9);
    for (int i = 1; i < 10; i++) {
        size_t kept = sizes[i - 1] < sizes[i] ? sizes[i - 1] : sizes[i];
        object = aq_realloc(object, sizes[i]);
        CHECK(object && is_filled(object, kept, 9));
        CHECK(aq_usable_size(object) >= sizes[i]);
        fill(object, sizes[i], 9);
        if (i % 3 == 0)
            CHECK(push_out());
    }
    CHECK_CODE(AQ_OK, aq_free(object));
}

static void failed_realloc_leaves_the_object(void)
{
    char *object = aq_malloc(500);
    CHECK(object);
    fill(object, 500, 3);
    CHECK(!aq_realloc(object, SIZE_MAX));
    CHECK(!aq_realloc(object, AQ_OBJECT_BYTES_MAX + 1));
    CHECK(is_filled(object, 500, 3));
    CHECK_CODE(AQ_OK, aq_free(object));
    CHECK(!aq_realloc(&static_variable, 10));
    char *libc = malloc(100);
    strcpy(libc, "libc");
    CHECK(!aq_realloc(libc, 200));
    CHECK(strcmp(libc, "libc") == 0);
    free(libc);
}

/* ---- Free -------------------------------------------------------------- */

static void free_of_null_is_fine(void)
{
    CHECK_CODE(AQ_OK, aq_free(NULL));
}

static void foreign_pointers_are_left_alone(void)
{
    int on_the_stack;
    char *libc = malloc(100);
    strcpy(libc, "libc");
    CHECK_CODE(AQ_EFOREIGN, aq_free(libc));
    CHECK_CODE(AQ_EFOREIGN, aq_free(&on_the_stack));
    CHECK_CODE(AQ_EFOREIGN, aq_free(&static_variable));
    CHECK_CODE(AQ_EFOREIGN, aq_free((void *)(uintptr_t)4096));
    CHECK(*aq_error_message());
    CHECK(strcmp(libc, "libc") == 0);
    CHECK(aq_usable_size(libc) == 0 && aq_usable_size(&on_the_stack) == 0 && aq_usable_size(NULL) == 0);
    free(libc);
}

static void pointers_into_objects_cannot_be_freed(void)
{
    char *small = aq_malloc(100), *large = aq_malloc(100000);
    CHECK(small && large);
    fill(small, 100, 1);
    fill(large, 100000, 2);
    CHECK_REFUSED(aq_free(small + 1));
    CHECK_REFUSED(aq_free(small + 64));
    CHECK_REFUSED(aq_free(large + 4096));
    CHECK_REFUSED(aq_free(large + 99999));
    CHECK(is_filled(small, 100, 1) && is_filled(large, 100000, 2));
    CHECK_CODE(AQ_OK, aq_free(small));
    CHECK_CODE(AQ_OK, aq_free(large));
}

static void double_free_is_found(void)
{
    static const size_t sizes[] = {1, 100, 4096, 4097, 1 << 20};
    for (int i = 0; i < 5; i++) {
        void *object = aq_malloc(sizes[i]);
        CHECK(object);
        fill(object, sizes[i], 1);
        CHECK_CODE(AQ_OK, aq_free(object));
        CHECK_CODE(AQ_EDOUBLE_FREE, aq_free(object));
        CHECK(!aq_realloc(object, 10));
    }
    CHECK_CODE(AQ_OK, aq_check());
}

/* ---- Arrays ------------------------------------------------------------ */

static void array_elements_have_pages_of_their_own(void)
{
    enum { COUNT = 5000, SIZE = 128 };
    size_t stride = 0;
    char *base = aq_array(COUNT, SIZE, &stride);
    CHECK(base && stride >= 4096 && stride % 4096 == 0);
    for (size_t i = 0; i < COUNT; i += 7)
        CHECK(is_zero(base + i * stride, SIZE));
    for (size_t i = 0; i < COUNT; i++)
        fill(base + i * stride, SIZE, i);
    CHECK(push_out());
    for (size_t i = 0; i < COUNT; i++)
        CHECK(is_filled(base + i * stride, SIZE, i));
    CHECK_REFUSED(aq_free(base + stride));
    CHECK(is_filled(base + stride, SIZE, 1));
    CHECK_CODE(AQ_OK, aq_free(base));
    CHECK_CODE(AQ_EDOUBLE_FREE, aq_free(base));
}

static void absurd_arrays_give_null(void)
{
    size_t stride = 4711;
    CHECK(!aq_array(0, 128, &stride));
    CHECK(!aq_array(10, 0, &stride));
    CHECK(!aq_array(10, 4097, &stride));
    CHECK(!aq_array(SIZE_MAX, 1, &stride));
    CHECK(!aq_array(SIZE_MAX / 128 + 2, 128, &stride));
    CHECK(!aq_array((size_t)1 << 60, 4096, &stride));
    CHECK(*aq_error_message());
    CHECK(stride == 4711);
}

/* ---- Prefetch and pins ------------------------------------------------- */

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
    aq_stats before = {.struct_bytes = sizeof before}, after = {.struct_bytes = sizeof after};
    CHECK_CODE(AQ_OK, aq_stats_get(&before));
    for (int i = 0; i < OBJECTS; i++)
        CHECK(is_filled(objects[i], 200, (uint64_t)i));
    CHECK_CODE(AQ_OK, aq_stats_get(&after));
    CHECK(after.misses - before.misses < OBJECTS / 10);
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
    CHECK_REFUSED(aq_prefetch((void *const[]){object, &static_variable}, 2));
    CHECK_REFUSED(aq_prefetch((void *const[]){NULL}, 1));
    CHECK_CODE(AQ_OK, aq_prefetch(&object, 1));
    CHECK_CODE(AQ_OK, aq_free(object));
}

static void pins_nest(void)
{
    char *object = aq_malloc(20000);
    CHECK(object);
    fill(object, 20000, 5);
    CHECK_CODE(AQ_OK, aq_pin(object, 20000));
    CHECK_CODE(AQ_OK, aq_pin(object + 5000, 10));
    CHECK_CODE(AQ_EPINNED, aq_free(object));
    CHECK_CODE(AQ_OK, aq_unpin(object + 5000, 10));
    CHECK_CODE(AQ_EPINNED, aq_free(object));
    CHECK(push_out());
    CHECK(is_filled(object, 20000, 5));
    CHECK_CODE(AQ_OK, aq_unpin(object, 20000));
    CHECK_REFUSED(aq_unpin(object, 20000));
    CHECK_CODE(AQ_OK, aq_free(object));
}

static void bad_pins_are_refused(void)
{
    char *object = aq_malloc(100);
    CHECK(object);
    CHECK_REFUSED(aq_pin(NULL, 10));
    CHECK_REFUSED(aq_pin(&static_variable, sizeof static_variable));
    CHECK_REFUSED(aq_pin(object, SIZE_MAX));
    CHECK_REFUSED(aq_unpin(NULL, 10));
    CHECK_REFUSED(aq_unpin(object, 100));
    CHECK_REFUSED(aq_unpin(object, SIZE_MAX));
    CHECK_CODE(AQ_OK, aq_free(object));
    CHECK_CODE(AQ_OK, aq_check());
}

static void too_many_pins_are_refused(void)
{
    enum { OBJECTS = 64 };
    char *objects[OBJECTS];
    int pinned = 0, code = AQ_OK;
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = aq_malloc(MIB);
        CHECK(objects[i]);
    }
    while (pinned < OBJECTS && (code = aq_pin(objects[pinned], MIB)) == AQ_OK)
        pinned++;
    CHECK_CODE(AQ_EPINNED, code);
    CHECK(pinned < 16);
    /* What is not pinned still works. */
    fill(objects[OBJECTS - 1], MIB, 8);
    CHECK(is_filled(objects[OBJECTS - 1], MIB, 8));
    for (int i = 0; i < pinned; i++)
        CHECK_CODE(AQ_OK, aq_unpin(objects[i], MIB));
    CHECK_CODE(AQ_OK, aq_pin(objects[0], 4096));
    CHECK_CODE(AQ_OK, aq_unpin(objects[0], 4096));
    for (int i = 0; i < OBJECTS; i++)
        CHECK_CODE(AQ_OK, aq_free(objects[i]));
}

/* ---- Statistics -------------------------------------------------------- */

static void stats_count_objects(void)
{
    aq_stats before = {.struct_bytes = sizeof before}, during = {.struct_bytes = sizeof during};
    aq_stats after = {.struct_bytes = sizeof after};
    CHECK_CODE(AQ_OK, aq_stats_get(&before));
    void *a = aq_malloc(100), *b = aq_malloc(10000);
    CHECK(a && b);
    CHECK_CODE(AQ_OK, aq_stats_get(&during));
    CHECK(during.objects == before.objects + 2);
    CHECK(during.object_bytes >= before.object_bytes + 10100);
    CHECK(during.ram_budget_bytes == 16 * MIB);
    CHECK(during.ram_used_bytes <= during.ram_budget_bytes);
    CHECK(during.metadata_bytes <= during.ram_used_bytes);
    CHECK_CODE(AQ_OK, aq_free(a));
    CHECK_CODE(AQ_OK, aq_free(b));
    CHECK_CODE(AQ_OK, aq_stats_get(&after));
    CHECK(after.objects == before.objects && after.object_bytes == before.object_bytes);
}

/* A program that was built with an older, shorter struct. */
static void stats_respect_the_callers_size(void)
{
    aq_stats stats;
    memset(&stats, 0x5A, sizeof stats);
    stats.struct_bytes = offsetof(aq_stats, cache_bytes);
    CHECK_CODE(AQ_OK, aq_stats_get(&stats));
    CHECK(stats.ram_budget_bytes == 16 * MIB);
    CHECK(stats.cache_bytes == 0x5A5A5A5A5A5A5A5Au && stats.io_errors == 0x5A5A5A5A5A5A5A5Au);
    CHECK_CODE(AQ_EINVAL, aq_stats_get(NULL));
    stats.struct_bytes = 0;
    CHECK_CODE(AQ_EINVAL, aq_stats_get(&stats));
}

/* ---- Explicit heaps ---------------------------------------------------- */

static void explicit_heaps_are_separate(void)
{
    aq_options options = small_options();
    aq_heap *a = NULL, *b = NULL;
    CHECK_CODE(AQ_OK, aq_heap_open(&options, &a));
    options.policy = AQ_POLICY_LRU;
    CHECK_CODE(AQ_OK, aq_heap_open(&options, &b));
    CHECK(a && b && a != b);
    char *in_a = aq_heap_malloc(a, 300), *in_b = aq_heap_calloc(b, 3, 100), *in_default = aq_malloc(300);
    CHECK(in_a && in_b && in_default);
    fill(in_a, 300, 1);
    fill(in_b, 300, 2);
    CHECK_CODE(AQ_EFOREIGN, aq_heap_free(a, in_b));
    CHECK_CODE(AQ_EFOREIGN, aq_heap_free(b, in_a));
    CHECK_CODE(AQ_EFOREIGN, aq_heap_free(a, in_default));
    CHECK_CODE(AQ_EFOREIGN, aq_free(in_a));
    CHECK(aq_heap_usable_size(a, in_a) >= 300 && aq_heap_usable_size(b, in_a) == 0);
    CHECK(is_filled(in_a, 300, 1) && is_filled(in_b, 300, 2));

    in_a = aq_heap_realloc(a, in_a, 9000);
    CHECK(in_a && is_filled(in_a, 300, 1));
    CHECK_CODE(AQ_OK, aq_heap_prefetch(a, (void *const[]){in_a}, 1));
    CHECK_CODE(AQ_OK, aq_heap_pin(a, in_a, 9000));
    CHECK_CODE(AQ_OK, aq_heap_unpin(a, in_a, 9000));
    size_t stride = 0;
    char *array = aq_heap_array(b, 100, 50, &stride);
    CHECK(array && stride >= 4096);
    array[99 * stride] = 1;
    aq_stats stats = {.struct_bytes = sizeof stats};
    CHECK_CODE(AQ_OK, aq_heap_stats_get(a, &stats));
    CHECK(stats.objects == 1);
    CHECK_CODE(AQ_OK, aq_heap_check(a));
    CHECK_CODE(AQ_OK, aq_heap_check(b));
    CHECK_CODE(AQ_OK, aq_heap_free(b, array));
    CHECK_CODE(AQ_OK, aq_heap_close(a));
    CHECK(is_filled(in_b, 300, 2));
    CHECK_CODE(AQ_OK, aq_heap_free(b, in_b));
    CHECK_CODE(AQ_OK, aq_heap_close(b));
    CHECK_CODE(AQ_OK, aq_free(in_default));
}

static void every_policy_opens(void)
{
    for (int policy = AQ_POLICY_CLOCK; policy <= AQ_POLICY_SIEVE; policy++) {
        aq_options options = small_options();
        aq_heap *heap = NULL;
        options.policy = policy;
        CHECK_CODE(AQ_OK, aq_heap_open(&options, &heap));
        void *object = aq_heap_malloc(heap, 100);
        CHECK(object);
        fill(object, 100, 1);
        CHECK(is_filled(object, 100, 1));
        CHECK_CODE(AQ_OK, aq_heap_close(heap));
    }
}

static void a_heap_without_a_heap_is_refused(void)
{
    size_t stride;
    void *object = aq_malloc(10);
    aq_stats stats = {.struct_bytes = sizeof stats};
    CHECK(object);
    CHECK_CODE(AQ_EINVAL, aq_heap_close(NULL));
    CHECK(!aq_heap_malloc(NULL, 10) && !aq_heap_calloc(NULL, 1, 10));
    CHECK(!aq_heap_realloc(NULL, NULL, 10) && !aq_heap_array(NULL, 10, 10, &stride));
    CHECK_CODE(AQ_EINVAL, aq_heap_free(NULL, object));
    CHECK(aq_heap_usable_size(NULL, object) == 0);
    CHECK_CODE(AQ_EINVAL, aq_heap_prefetch(NULL, &object, 1));
    CHECK_CODE(AQ_EINVAL, aq_heap_pin(NULL, object, 10));
    CHECK_CODE(AQ_EINVAL, aq_heap_unpin(NULL, object, 10));
    CHECK_CODE(AQ_EINVAL, aq_heap_stats_get(NULL, &stats));
    CHECK_CODE(AQ_EINVAL, aq_heap_check(NULL));
    CHECK_CODE(AQ_OK, aq_free(object));
}

static void nonsense_options_are_refused(void)
{
    aq_heap *const untouched = (aq_heap *)&static_variable;
    aq_heap *heap = untouched;
    aq_options options = small_options();
    CHECK_CODE(AQ_EINVAL, aq_heap_open(&options, NULL));
    options.struct_bytes = 0;
    CHECK_CODE(AQ_EINVAL, aq_heap_open(&options, &heap));
    options = small_options();
    options.faults = 99;
    CHECK_CODE(AQ_EINVAL, aq_heap_open(&options, &heap));
    options = small_options();
    options.policy = -1;
    CHECK_CODE(AQ_EINVAL, aq_heap_open(&options, &heap));
    CHECK(*aq_error_message());
    CHECK(heap == untouched);
}

/* ---- The end ----------------------------------------------------------- */

static void the_default_heap_closes_and_opens_again(void)
{
    void *object = aq_malloc(100);
    CHECK(object);
    CHECK_CODE(AQ_OK, aq_check());
    CHECK_CODE(AQ_OK, aq_shutdown());
    CHECK_CODE(AQ_ECLOSED, aq_shutdown());
    CHECK_REFUSED(aq_free(object));
    aq_options options = small_options();
    CHECK_CODE(AQ_OK, aq_init(&options));
    object = aq_malloc(100);
    CHECK(object);
    fill(object, 100, 1);
    CHECK(is_filled(object, 100, 1));
    CHECK_CODE(AQ_OK, aq_shutdown());
}

int main(void)
{
    RUN(version_is_that_of_the_header);
    RUN(every_error_has_its_sentence);
    RUN(options_start_with_their_size);
    open_default_heap("api.c");
    RUN(the_default_heap_opens_once);
    RUN(objects_of_every_size_hold_their_bytes);
    RUN(every_usable_byte_can_be_used);
    RUN(size_zero_is_one_byte);
    RUN(absurd_sizes_give_null);
    RUN(calloc_is_zero_and_checks_overflow);
    RUN(calloc_is_zero_in_recycled_memory);
    RUN(calloc_costs_nothing_until_written);
    RUN(realloc_keeps_the_content);
    RUN(failed_realloc_leaves_the_object);
    RUN(free_of_null_is_fine);
    RUN(foreign_pointers_are_left_alone);
    RUN(pointers_into_objects_cannot_be_freed);
    RUN(double_free_is_found);
    RUN(array_elements_have_pages_of_their_own);
    RUN(absurd_arrays_give_null);
    RUN(prefetch_brings_objects_in);
    RUN(bad_prefetches_are_refused);
    RUN(pins_nest);
    RUN(bad_pins_are_refused);
    RUN(too_many_pins_are_refused);
    RUN(stats_count_objects);
    RUN(stats_respect_the_callers_size);
    RUN(explicit_heaps_are_separate);
    RUN(every_policy_opens);
    RUN(a_heap_without_a_heap_is_refused);
    RUN(nonsense_options_are_refused);
    RUN(the_default_heap_closes_and_opens_again);
    return tests_failed();
}

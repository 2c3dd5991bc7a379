/* objects.c - allocation, reallocation, free and arrays, with good and bad arguments. */
#include "check.h"

static int static_variable;

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

/* A program's mistake, which may cost it those bytes and nothing else. */
static void writes_to_freed_objects_do_not_harm_later_ones(void)
{
    enum { FREED = 4 * 512, LATER = 6 * 512, BYTES = 600, LATER_BYTES = 1024 };
    static char *freed[FREED], *later[LATER];
    for (int i = 0; i < FREED; i++) {
        freed[i] = aq_malloc(BYTES);
        CHECK(freed[i]);
        fill(freed[i], BYTES, (uint64_t)i);
    }
    /* As long as objects beside it are in use, the memory of a freed one can be reached. */
    for (int i = 1; i < FREED; i += 2)
        CHECK_CODE(AQ_OK, aq_free(freed[i]));
    for (int i = 1; i < FREED; i += 2)
        memset(freed[i], 7, BYTES);
    CHECK(push_out());
    for (int i = 0; i < FREED; i += 2)
        CHECK_CODE(AQ_OK, aq_free(freed[i]));
    for (int i = 0; i < LATER; i++) {
        later[i] = aq_calloc(1, LATER_BYTES);
        CHECK(later[i] && is_zero(later[i], LATER_BYTES));
        fill(later[i], LATER_BYTES, (uint64_t)i);
    }
    for (int i = 0; i < LATER; i++) {
        CHECK(is_filled(later[i], LATER_BYTES, (uint64_t)i));
        CHECK_CODE(AQ_OK, aq_free(later[i]));
    }
    CHECK_CODE(AQ_OK, aq_check());
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

int main(void)
{
    open_default_heap("objects.c");
    RUN(objects_of_every_size_hold_their_bytes);
    RUN(every_usable_byte_can_be_used);
    RUN(size_zero_is_one_byte);
    RUN(absurd_sizes_give_null);
    RUN(calloc_is_zero_and_checks_overflow);
    RUN(calloc_is_zero_in_recycled_memory);
    RUN(writes_to_freed_objects_do_not_harm_later_ones);
    RUN(calloc_costs_nothing_until_written);
    RUN(realloc_keeps_the_content);
    RUN(failed_realloc_leaves_the_object);
    RUN(free_of_null_is_fine);
    RUN(foreign_pointers_are_left_alone);
    RUN(pointers_into_objects_cannot_be_freed);
    RUN(double_free_is_found);
    RUN(array_elements_have_pages_of_their_own);
    RUN(absurd_arrays_give_null);
    return tests_failed();
}

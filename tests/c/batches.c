/* batches.c - aq_read_batch, aq_write_batch and aq_batch_start, with good and bad arguments. */
#include "check.h"
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int static_variable;

enum { OBJECTS = 3000, BYTES = 300 };
static char *objects[OBJECTS];
static char memory[OBJECTS][BYTES];
static aq_item items[OBJECTS];

/* Objects in RAM and out of it, and an item for each of them. */
static void make_objects(void)
{
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = aq_malloc(BYTES);
        CHECK(objects[i]);
        fill(objects[i], BYTES, (uint64_t)i);
        items[i] = (aq_item){.object = objects[i], .memory = memory[i], .bytes = BYTES};
    }
    memset(memory, 0, sizeof memory);
    CHECK(push_out());
}

static void free_objects(void)
{
    for (int i = 0; i < OBJECTS; i++)
        CHECK_CODE(AQ_OK, aq_free(objects[i]));
    CHECK_CODE(AQ_OK, aq_check());
}

/* Memory written by another thread is looked at after its number was. */
static int result_of(const int *result)
{
    return __atomic_load_n(result, __ATOMIC_ACQUIRE);
}

static void reads_and_writes_many_objects(void)
{
    make_objects();
    CHECK_CODE(AQ_OK, aq_read_batch(items, OBJECTS));
    for (int i = 0; i < OBJECTS; i++) {
        CHECK(is_filled(memory[i], BYTES, (uint64_t)i));
        fill(memory[i], BYTES, (uint64_t)i + 7);
    }
    CHECK(push_out());
    CHECK_CODE(AQ_OK, aq_write_batch(items, OBJECTS));
    CHECK(push_out());
    for (int i = 0; i < OBJECTS; i++)
        CHECK(is_filled(objects[i], BYTES, (uint64_t)i + 7));
    free_objects();
}

static void items_may_be_parts_of_objects(void)
{
    enum { LARGE = 300000 };
    static char copy[LARGE];
    char *large = aq_malloc(LARGE), *block = aq_page_malloc(100), *small = aq_malloc(100);
    CHECK(large && block && small);
    fill(large, LARGE, 1);
    fill(block, 100, 2);
    memset(small, 'a', 100);
    CHECK(push_out());
    char middle[10], of_block[100];
    aq_item parts[] = {
        {large, copy, LARGE}, {block, of_block, 100}, {small + 90, middle, 10}, {small, NULL, 0},
    };
    CHECK_CODE(AQ_OK, aq_read_batch(parts, 4));
    CHECK(is_filled(copy, LARGE, 1) && is_filled(of_block, 100, 2) && memcmp(middle, "aaaaaaaaaa", 10) == 0);
    aq_item pieces[] = {{large + 4000, middle, 10}, {small + 1, middle, 1}};
    memset(middle, 'b', 10);
    CHECK_CODE(AQ_OK, aq_write_batch(pieces, 2));
    CHECK(memcmp(large, copy, 4000) == 0 && memcmp(large + 4000, middle, 10) == 0);
    CHECK(memcmp(large + 4010, copy + 4010, LARGE - 4010) == 0);
    CHECK(small[0] == 'a' && small[1] == 'b' && small[2] == 'a');
    CHECK_CODE(AQ_OK, aq_free(large));
    CHECK_CODE(AQ_OK, aq_free(block));
    CHECK_CODE(AQ_OK, aq_free(small));
}

static void duplicates_are_done_in_order(void)
{
    char *object = aq_malloc(100), first[100], second[100];
    CHECK(object);
    fill(first, 100, 1);
    fill(second, 100, 2);
    CHECK_CODE(AQ_OK, aq_write_batch((aq_item[]){{object, first, 100}, {object, second, 100}}, 2));
    CHECK(is_filled(object, 100, 2));
    CHECK_CODE(AQ_OK, aq_write_batch((aq_item[]){{object, second, 100}, {object, first, 50}}, 2));
    CHECK(is_filled(object, 48, 1) && memcmp(object + 50, second + 50, 50) == 0);
    memset(first, 0, 100);
    memset(second, 0, 100);
    CHECK_CODE(AQ_OK, aq_read_batch((aq_item[]){{object, first, 100}, {object, second, 100}}, 2));
    CHECK(memcmp(first, object, 100) == 0 && memcmp(second, object, 100) == 0);
    CHECK_CODE(AQ_OK, aq_free(object));
}

static void bad_batches_are_refused(void)
{
    char *object = aq_malloc(100), bytes[8192];
    CHECK(object);
    fill(object, 100, 1);
    CHECK_CODE(AQ_OK, aq_read_batch(NULL, 0));
    CHECK_CODE(AQ_OK, aq_write_batch(NULL, 0));
    CHECK_CODE(AQ_EINVAL, aq_read_batch(NULL, 1));
    CHECK_CODE(AQ_EINVAL, aq_write_batch(NULL, 1));
    aq_item bad[] = {{object, bytes, 100}, {NULL, bytes, 1}};
    CHECK_CODE(AQ_EFOREIGN, aq_read_batch(bad, 2));
    bad[1] = (aq_item){&static_variable, bytes, sizeof static_variable};
    CHECK_CODE(AQ_EFOREIGN, aq_write_batch(bad, 2));
    bad[1] = (aq_item){object, bytes, 5000};
    CHECK_CODE(AQ_EINVAL, aq_read_batch(bad, 2));
    bad[1] = (aq_item){object, NULL, 10};
    CHECK_CODE(AQ_EINVAL, aq_read_batch(bad, 2));
    CHECK_MESSAGE("memory");
    CHECK_CODE(AQ_EINVAL, aq_write_batch(bad, 2));
    CHECK(is_filled(object, 100, 1));
    CHECK_CODE(AQ_EINVAL, aq_heap_read_batch(NULL, bad, 1));
    CHECK_CODE(AQ_EINVAL, aq_heap_write_batch(NULL, bad, 1));
    CHECK_CODE(AQ_OK, aq_free(object));
}

/* ---- In the background ------------------------------------------------- */

static void background_batches_end_with_an_event(void)
{
    enum { PARTS = 6 };
    int results[PARTS], event = eventfd(0, 0);
    CHECK(event >= 0);
    make_objects();
    for (int part = 0; part < PARTS; part++)
        CHECK_CODE(AQ_OK, aq_batch_start(items + part * (OBJECTS / PARTS), OBJECTS / PARTS, 0, event, &results[part]));
    for (uint64_t ended = 0, count; ended < PARTS; ended += count)
        CHECK(read(event, &count, sizeof count) == sizeof count && count > 0);
    for (int part = 0; part < PARTS; part++)
        CHECK(result_of(&results[part]) == AQ_OK);
    for (int i = 0; i < OBJECTS; i++) {
        CHECK(is_filled(memory[i], BYTES, (uint64_t)i));
        fill(memory[i], BYTES, (uint64_t)i + 5);
    }
    uint64_t count;
    CHECK_CODE(AQ_OK, aq_batch_start(items, OBJECTS, 1, event, &results[0]));
    CHECK(read(event, &count, sizeof count) == sizeof count && count == 1 && result_of(&results[0]) == AQ_OK);
    for (int i = 0; i < OBJECTS; i++)
        CHECK(is_filled(objects[i], BYTES, (uint64_t)i + 5));
    close(event);
    free_objects();
}

static void without_an_eventfd_the_result_says_it(void)
{
    int result = 4711;
    make_objects();
    CHECK_CODE(AQ_OK, aq_batch_start(items, OBJECTS, 0, -1, &result));
    while (result_of(&result) == -1)
        usleep(1000);
    CHECK(result_of(&result) == AQ_OK && is_filled(memory[OBJECTS - 1], BYTES, OBJECTS - 1));
    result = 4711;
    CHECK_CODE(AQ_OK, aq_batch_start(NULL, 0, 0, -1, &result));
    while (result_of(&result) == -1)
        usleep(1000);
    CHECK(result_of(&result) == AQ_OK);
    free_objects();
}

static void bad_background_batches_are_refused(void)
{
    char *object = aq_malloc(100), bytes[100];
    int result = 4711, event = eventfd(0, 0);
    uint64_t count;
    CHECK(object && event >= 0);
    aq_item item = {object, bytes, 100}, foreign = {&static_variable, bytes, 4};
    CHECK_CODE(AQ_EINVAL, aq_batch_start(&item, 1, 0, event, NULL));
    CHECK_CODE(AQ_EINVAL, aq_batch_start(NULL, 1, 0, event, &result));
    CHECK_CODE(AQ_EINVAL, aq_heap_batch_start(NULL, &item, 1, 0, event, &result));
    CHECK(result == 4711);
    /* What is wrong with an item is found while the batch runs. */
    CHECK_CODE(AQ_OK, aq_batch_start(&foreign, 1, 0, event, &result));
    CHECK(read(event, &count, sizeof count) == sizeof count && count == 1);
    CHECK(result_of(&result) == AQ_EFOREIGN);
    close(event);
    CHECK_CODE(AQ_OK, aq_free(object));
}

static void explicit_heaps_have_batches_too(void)
{
    aq_options options = small_options();
    aq_heap *heap = NULL;
    int result, event = eventfd(0, 0);
    uint64_t count;
    char bytes[100];
    CHECK(event >= 0);
    CHECK_CODE(AQ_OK, aq_heap_open(&options, &heap));
    aq_item item = {aq_heap_malloc(heap, 100), bytes, 100};
    CHECK(item.object);
    fill(bytes, 100, 3);
    CHECK_CODE(AQ_OK, aq_heap_write_batch(heap, &item, 1));
    memset(bytes, 0, 100);
    CHECK_CODE(AQ_EFOREIGN, aq_read_batch(&item, 1));
    CHECK_CODE(AQ_OK, aq_heap_read_batch(heap, &item, 1));
    CHECK(is_filled(bytes, 100, 3));
    memset(bytes, 0, 100);
    CHECK_CODE(AQ_OK, aq_heap_batch_start(heap, &item, 1, 0, event, &result));
    CHECK(read(event, &count, sizeof count) == sizeof count && result_of(&result) == AQ_OK);
    CHECK(is_filled(bytes, 100, 3));
    close(event);
    CHECK_CODE(AQ_OK, aq_heap_close(heap));
}

int main(void)
{
    open_default_heap("batches.c");
    RUN(reads_and_writes_many_objects);
    RUN(items_may_be_parts_of_objects);
    RUN(duplicates_are_done_in_order);
    RUN(bad_batches_are_refused);
    RUN(background_batches_end_with_an_event);
    RUN(without_an_eventfd_the_result_says_it);
    RUN(bad_background_batches_are_refused);
    RUN(explicit_heaps_have_batches_too);
    return tests_failed();
}

/* classes.c - aq_set_class: whose objects share a leaf, and for which thread it holds. */
#include "check.h"
#include <pthread.h>

enum { OBJECTS = 700, BYTES = 200, PLACES = 512 };

/* The unit of PLACES pages that an object lies in. */
static uintptr_t leaf_of(const void *object)
{
    return (uintptr_t)object / (PLACES * 4096);
}

static void classes_are_set_and_refused(void)
{
    CHECK(aq_class() == 0);
    CHECK_CODE(AQ_OK, aq_set_class(7));
    CHECK(aq_class() == 7);
    CHECK_CODE(AQ_OK, aq_set_class(AQ_CLASS_MAX));
    CHECK_CODE(AQ_EINVAL, aq_set_class(AQ_CLASS_MAX + 1));
    CHECK_MESSAGE("256");
    CHECK_CODE(AQ_EINVAL, aq_set_class((unsigned)-1));
    CHECK(aq_class() == AQ_CLASS_MAX);
    CHECK_CODE(AQ_OK, aq_set_class(0));
    CHECK(aq_class() == 0);
}

static void objects_of_two_classes_share_no_leaf(void)
{
    void *objects[2][OBJECTS];
    for (int i = 0; i < OBJECTS; i++) {
        for (unsigned class = 0; class < 2; class++) {
            CHECK_CODE(AQ_OK, aq_set_class(class));
            objects[class][i] = i % 2 ? aq_malloc(BYTES) : aq_calloc(1, BYTES);
            CHECK(objects[class][i]);
            fill(objects[class][i], BYTES, (uint64_t)i);
        }
    }
    CHECK_CODE(AQ_OK, aq_set_class(0));
    for (int i = 0; i < OBJECTS; i++) {
        for (int j = 0; j < OBJECTS; j++)
            CHECK(leaf_of(objects[0][i]) != leaf_of(objects[1][j]));
    }
    CHECK(push_out());
    for (int i = 0; i < OBJECTS; i++) {
        CHECK(is_filled(objects[0][i], BYTES, (uint64_t)i) && is_filled(objects[1][i], BYTES, (uint64_t)i));
        CHECK_CODE(AQ_OK, aq_free(objects[0][i]));
        CHECK_CODE(AQ_OK, aq_free(objects[1][i]));
    }
    CHECK_CODE(AQ_OK, aq_check());
}

static void realloc_keeps_the_class(void)
{
    CHECK_CODE(AQ_OK, aq_set_class(5));
    void *neighbour = aq_malloc(3000), *object = aq_realloc(NULL, 10);
    CHECK(neighbour && object);
    fill(object, 10, 1);
    CHECK_CODE(AQ_OK, aq_set_class(6));
    void *other = aq_malloc(3000);
    object = aq_realloc(object, 3000);
    CHECK(other && object && is_filled(object, 8, 1));
    CHECK(leaf_of(object) == leaf_of(neighbour) && leaf_of(object) != leaf_of(other));
    CHECK_CODE(AQ_OK, aq_set_class(0));
    CHECK_CODE(AQ_OK, aq_free(neighbour));
    CHECK_CODE(AQ_OK, aq_free(object));
    CHECK_CODE(AQ_OK, aq_free(other));
}

static void *allocate_elsewhere(void *heap)
{
    return aq_class() == 0 ? aq_heap_malloc(heap, BYTES) : NULL;
}

/* The class is the thread's, in every heap. */
static void the_class_is_that_of_the_thread(void)
{
    aq_options options = small_options();
    aq_heap *heap = NULL;
    pthread_t thread;
    void *theirs;
    CHECK_CODE(AQ_OK, aq_heap_open(&options, &heap));
    CHECK_CODE(AQ_OK, aq_set_class(3));
    void *ours = aq_heap_malloc(heap, BYTES);
    CHECK(pthread_create(&thread, NULL, allocate_elsewhere, heap) == 0);
    CHECK(pthread_join(thread, &theirs) == 0);
    void *more = aq_heap_malloc(heap, BYTES);
    CHECK(aq_class() == 3);
    CHECK_CODE(AQ_OK, aq_set_class(0));
    CHECK(ours && theirs && more && leaf_of(ours) == leaf_of(more) && leaf_of(ours) != leaf_of(theirs));
    CHECK_CODE(AQ_OK, aq_heap_close(heap));
}

static void freed_places_are_reused_in_their_class(void)
{
    CHECK_CODE(AQ_OK, aq_set_class(1));
    void *kept = aq_malloc(BYTES), *freed = aq_malloc(BYTES);
    CHECK(kept && freed);
    CHECK_CODE(AQ_OK, aq_free(freed));
    CHECK_CODE(AQ_OK, aq_set_class(2));
    void *other = aq_malloc(BYTES);
    CHECK(other && leaf_of(other) != leaf_of(kept));
    CHECK_CODE(AQ_OK, aq_set_class(1));
    /* At the latest when the leaf has no other place. */
    void *more[PLACES], *again = NULL;
    int count = 0;
    while (again != freed && count < PLACES) {
        again = more[count++] = aq_malloc(BYTES);
        CHECK(again && leaf_of(again) == leaf_of(kept));
    }
    CHECK(again == freed);
    CHECK_CODE(AQ_OK, aq_set_class(0));
    CHECK_CODE(AQ_OK, aq_free(kept));
    CHECK_CODE(AQ_OK, aq_free(other));
    while (count > 0)
        CHECK_CODE(AQ_OK, aq_free(more[--count]));
    CHECK_CODE(AQ_OK, aq_check());
}

int main(void)
{
    RUN(classes_are_set_and_refused);
    open_default_heap("classes.c");
    RUN(objects_of_two_classes_share_no_leaf);
    RUN(realloc_keeps_the_class);
    RUN(the_class_is_that_of_the_thread);
    RUN(freed_places_are_reused_in_their_class);
    return tests_failed();
}

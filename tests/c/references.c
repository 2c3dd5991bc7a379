/* references.c - aq_ref_of, aq_deref and aq_release, with good and bad arguments. */
#include "check.h"
#include <pthread.h>

static int static_variable;

static const size_t sizes[] = {1, 100, 4000, 4096, 4097, 50000};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void uses_and_addresses_are_the_same_bytes(void)
{
    for (int i = 0; i < SIZES; i++) {
        char *object = aq_malloc(sizes[i]);
        CHECK(object);
        fill(object, sizes[i], 1);
        aq_ref ref = aq_ref_of(object);
        CHECK(ref != AQ_REF_NULL);
        for (uint64_t round = 1; round < 4; round++) {
            CHECK(push_out());
            char *bytes = aq_deref(ref, AQ_READ);
            CHECK(bytes && is_filled(bytes, sizes[i], round));
            CHECK_CODE(AQ_OK, aq_release(ref));
            bytes = aq_deref(ref, AQ_WRITE);
            CHECK(bytes);
            fill(bytes, sizes[i], round + 1);
            CHECK_CODE(AQ_OK, aq_release(ref));
            CHECK(is_filled(object, sizes[i], round + 1));
            CHECK(aq_ref_of(object) == ref);
        }
        CHECK_CODE(AQ_OK, aq_free(object));
    }
    CHECK_CODE(AQ_OK, aq_check());
}

static void blocks_and_elements_have_references(void)
{
    size_t stride;
    char *block = aq_page_malloc(100), *array = aq_array(10, 100, &stride);
    CHECK(block && array);
    char *objects[] = {block, array, array + 3 * stride};
    for (int i = 0; i < 3; i++) {
        aq_ref ref = aq_ref_of(objects[i]);
        char *bytes = aq_deref(ref, AQ_WRITE);
        CHECK(bytes);
        fill(bytes, 100, (uint64_t)i);
        CHECK_CODE(AQ_OK, aq_release(ref));
    }
    CHECK(push_out());
    for (int i = 0; i < 3; i++)
        CHECK(is_filled(objects[i], 100, (uint64_t)i));
    CHECK_CODE(AQ_OK, aq_free(block));
    CHECK_CODE(AQ_OK, aq_free(array));
}

static void failures_have_numbers(void)
{
    CHECK(!aq_deref(AQ_REF_NULL, AQ_READ));
    CHECK_CODE(AQ_EINVAL, aq_error_code());
    CHECK(!aq_deref((aq_ref)1 << 60, AQ_READ));
    CHECK_CODE(AQ_EFOREIGN, aq_error_code());
    CHECK(!aq_malloc((size_t)1 << 40));
    CHECK(aq_error_code() != AQ_OK && aq_error_code() != AQ_EFOREIGN);
}

static void used_objects_cannot_be_freed(void)
{
    for (int i = 0; i < SIZES; i++) {
        char *object = aq_malloc(sizes[i]);
        CHECK(object);
        fill(object, sizes[i], 7);
        aq_ref ref = aq_ref_of(object);
        CHECK(aq_deref(ref, AQ_READ) && aq_deref(ref, AQ_WRITE) && aq_deref(ref, AQ_READ));
        for (int uses = 3; uses > 0; uses--) {
            CHECK_CODE(AQ_EPINNED, aq_free(object));
            CHECK_CODE(AQ_OK, aq_release(ref));
        }
        CHECK_CODE(AQ_EINVAL, aq_release(ref));
        CHECK(is_filled(object, sizes[i], 7));
        CHECK_CODE(AQ_OK, aq_free(object));
        CHECK(!aq_deref(ref, AQ_READ));
        CHECK_REFUSED(aq_release(ref));
    }
    CHECK_CODE(AQ_OK, aq_check());
}

static void nonsense_is_refused(void)
{
    char *object = aq_malloc(100);
    CHECK(object);
    aq_ref ref = aq_ref_of(object);
    CHECK(aq_ref_of(NULL) == AQ_REF_NULL && *aq_error_message());
    CHECK(aq_ref_of(&static_variable) == AQ_REF_NULL);
    CHECK(!aq_deref(AQ_REF_NULL, AQ_READ));
    CHECK_MESSAGE("AQ_REF_NULL");
    CHECK_CODE(AQ_EINVAL, aq_release(AQ_REF_NULL));
    CHECK(!aq_deref(UINT64_MAX, AQ_READ) && !aq_deref((aq_ref)1 << 60, AQ_WRITE));
    CHECK_CODE(AQ_EFOREIGN, aq_release((aq_ref)1 << 60));
    CHECK(!aq_deref(ref, 2) && !aq_deref(ref, -1));
    CHECK_CODE(AQ_EINVAL, aq_release(ref));
    CHECK(aq_heap_ref_of(NULL, object) == AQ_REF_NULL && !aq_heap_deref(NULL, ref, AQ_READ));
    CHECK_CODE(AQ_EINVAL, aq_heap_release(NULL, ref));
    CHECK_CODE(AQ_OK, aq_free(object));
}

enum { SHARED = 200, ROUNDS = 2000, THREADS = 4 };
static aq_ref shared[SHARED];
static pthread_mutex_t turns[SHARED];

/* Adds 1 to objects under their locks; returns how often an object could not be used. */
static void *add(void *seed)
{
    uint64_t dice = (uintptr_t)seed, refused = 0;
    for (int i = 0; i < ROUNDS; i++) {
        size_t n = next_random(&dice) % SHARED;
        pthread_mutex_lock(&turns[n]);
        uint64_t *count = aq_deref(shared[n], AQ_WRITE);
        if (count) {
            ++*count;
            refused += aq_release(shared[n]) != AQ_OK;
        } else {
            refused++;
        }
        pthread_mutex_unlock(&turns[n]);
    }
    return (void *)(uintptr_t)refused;
}

static void threads_use_the_same_objects(void)
{
    uint64_t *objects[SHARED], sum = 0;
    for (int i = 0; i < SHARED; i++) {
        objects[i] = aq_calloc(1, 500);
        CHECK(objects[i]);
        shared[i] = aq_ref_of(objects[i]);
        pthread_mutex_init(&turns[i], NULL);
    }
    pthread_t threads[THREADS];
    for (uintptr_t t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, add, (void *)(t + 1)) == 0);
    CHECK(push_out());
    for (int t = 0; t < THREADS; t++) {
        void *refused;
        CHECK(pthread_join(threads[t], &refused) == 0 && !refused);
    }
    for (int i = 0; i < SHARED; i++) {
        sum += *objects[i];
        CHECK_CODE(AQ_OK, aq_free(objects[i]));
    }
    CHECK(sum == (uint64_t)THREADS * ROUNDS);
    CHECK_CODE(AQ_OK, aq_check());
}

static void explicit_heaps_have_references_too(void)
{
    aq_options options = small_options();
    aq_heap *heap = NULL;
    CHECK_CODE(AQ_OK, aq_heap_open(&options, &heap));
    char *object = aq_heap_malloc(heap, 100);
    CHECK(object);
    CHECK(aq_ref_of(object) == AQ_REF_NULL);
    aq_ref ref = aq_heap_ref_of(heap, object);
    char *bytes = aq_heap_deref(heap, ref, AQ_WRITE);
    CHECK(bytes);
    fill(bytes, 100, 5);
    CHECK_CODE(AQ_EPINNED, aq_heap_free(heap, object));
    CHECK_CODE(AQ_OK, aq_heap_release(heap, ref));
    CHECK(is_filled(object, 100, 5));
    CHECK_CODE(AQ_OK, aq_heap_close(heap));
}

int main(void)
{
    open_default_heap("references.c");
    RUN(uses_and_addresses_are_the_same_bytes);
    RUN(blocks_and_elements_have_references);
    RUN(failures_have_numbers);
    RUN(used_objects_cannot_be_freed);
    RUN(nonsense_is_refused);
    RUN(threads_use_the_same_objects);
    RUN(explicit_heaps_have_references_too);
    return tests_failed();
}

/* threads.c - eight threads on objects of their own, on the same objects, and all
 * at once on one object that is not in RAM. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 8 };

static _Atomic unsigned wrong; /* what threads found */

static void run_threads(void *(*work)(void *))
{
    pthread_t threads[THREADS];
    wrong = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(wrong == 0);
}

/* ---- Objects of their own ---------------------------------------------- */

enum { OWN_OBJECTS = 8000, OWN_BYTES = 600, OWN_OPERATIONS = 20000 };

static void *use_own_objects(void *argument)
{
    uint64_t dice = (uintptr_t)argument + 1;
    void **objects = malloc(OWN_OBJECTS * sizeof *objects);
    uint64_t *versions = calloc(OWN_OBJECTS, sizeof *versions);
    for (int i = 0; i < OWN_OBJECTS; i++) {
        objects[i] = aq_malloc(OWN_BYTES);
        if (!objects[i]) {
            wrong++;
            return NULL;
        }
        versions[i] = next_random(&dice);
        fill(objects[i], OWN_BYTES, versions[i]);
    }
    for (int n = 0; n < OWN_OPERATIONS; n++) {
        uint64_t i = next_random(&dice) % OWN_OBJECTS;
        wrong += !is_filled(objects[i], OWN_BYTES, versions[i]);
        if (next_random(&dice) % 2) {
            versions[i] = next_random(&dice);
            fill(objects[i], OWN_BYTES, versions[i]);
        }
        if (n % 16 == 0) {
            wrong += aq_free(objects[i]) != AQ_OK;
            objects[i] = aq_malloc(OWN_BYTES);
            if (!objects[i]) {
                wrong++;
                return NULL;
            }
            fill(objects[i], OWN_BYTES, versions[i]);
        }
    }
    for (int i = 0; i < OWN_OBJECTS; i++) {
        wrong += !is_filled(objects[i], OWN_BYTES, versions[i]);
        wrong += aq_free(objects[i]) != AQ_OK;
    }
    free(objects);
    free(versions);
    return NULL;
}

static void threads_with_objects_of_their_own(void)
{
    run_threads(use_own_objects);
    CHECK_CODE(AQ_OK, aq_check());
}

/* ---- The same objects -------------------------------------------------- */

enum { SHARED_OBJECTS = 40000, SHARED_BYTES = 1024, SHARED_ADDS = 50000 };

/* Each shared object begins with a counter that all threads add to and ends with
 * bytes that nobody changes. A lost update shows in the sum. */
struct shared {
    _Atomic uint64_t counter;
    unsigned char constant[SHARED_BYTES - sizeof(uint64_t)];
};

static struct shared **shared;

static void *add_to_shared(void *argument)
{
    uint64_t dice = 100 + (uintptr_t)argument;
    for (int n = 0; n < SHARED_ADDS; n++) {
        uint64_t i = next_random(&dice) % SHARED_OBJECTS;
        atomic_fetch_add(&shared[i]->counter, 1);
        if (n % 8 == 0)
            wrong += !is_filled(shared[i]->constant, sizeof shared[i]->constant, i);
    }
    return NULL;
}

static void threads_on_the_same_objects(void)
{
    shared = malloc(SHARED_OBJECTS * sizeof *shared);
    for (uint64_t i = 0; i < SHARED_OBJECTS; i++) {
        shared[i] = aq_malloc(sizeof(struct shared));
        CHECK(shared[i]);
        atomic_init(&shared[i]->counter, 0);
        fill(shared[i]->constant, sizeof shared[i]->constant, i);
    }
    run_threads(add_to_shared);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < SHARED_OBJECTS; i++) {
        sum += atomic_load(&shared[i]->counter);
        CHECK(is_filled(shared[i]->constant, sizeof shared[i]->constant, i));
        CHECK_CODE(AQ_OK, aq_free(shared[i]));
    }
    CHECK(sum == (uint64_t)THREADS * SHARED_ADDS);
    free(shared);
    CHECK_CODE(AQ_OK, aq_check());
}

/* ---- One object -------------------------------------------------------- */

enum { RUSH_OBJECTS = 3000, RUSH_BYTES = 12000, RUSHES = 3000 };

static char *rush_objects[RUSH_OBJECTS];
static pthread_barrier_t start_line;

/* All threads fault the same absent object at once: half read, half add. */
static void *rush_to_one(void *argument)
{
    uintptr_t self = (uintptr_t)argument;
    for (uint64_t n = 0; n < RUSHES; n++) {
        uint64_t i = mix(n) % RUSH_OBJECTS;
        pthread_barrier_wait(&start_line);
        if (self % 2)
            atomic_fetch_add((_Atomic uint64_t *)(void *)rush_objects[i], 1);
        wrong += !is_filled(rush_objects[i] + 8, RUSH_BYTES - 8, i);
    }
    return NULL;
}

static void threads_rush_to_one_absent_object(void)
{
    for (uint64_t i = 0; i < RUSH_OBJECTS; i++) {
        rush_objects[i] = aq_calloc(1, RUSH_BYTES);
        CHECK(rush_objects[i]);
        fill(rush_objects[i] + 8, RUSH_BYTES - 8, i);
    }
    CHECK(push_out());
    CHECK(pthread_barrier_init(&start_line, NULL, THREADS) == 0);
    run_threads(rush_to_one);
    pthread_barrier_destroy(&start_line);
    uint64_t sum = 0;
    for (int i = 0; i < RUSH_OBJECTS; i++) {
        sum += *(uint64_t *)(void *)rush_objects[i];
        CHECK_CODE(AQ_OK, aq_free(rush_objects[i]));
    }
    CHECK(sum == (uint64_t)RUSHES * THREADS / 2);
}

/* ---- Handed over ------------------------------------------------------- */

enum { HANDED = 20000, HANDED_BYTES = 1500 };

static void *_Atomic handed[HANDED];

/* Even threads allocate, odd threads verify and free what the others made. */
static void *hand_over(void *argument)
{
    uintptr_t self = (uintptr_t)argument, pair = self / 2;
    for (uint64_t i = pair; i < HANDED; i += THREADS / 2) {
        if (self % 2 == 0) {
            void *object = aq_malloc(HANDED_BYTES);
            if (object)
                fill(object, HANDED_BYTES, i);
            wrong += !object;
            handed[i] = object ? object : (void *)handed;
            continue;
        }
        void *object;
        while (!(object = handed[i]))
            sched_yield();
        if (object != (void *)handed) {
            wrong += !is_filled(object, HANDED_BYTES, i);
            wrong += aq_free(object) != AQ_OK;
        }
    }
    return NULL;
}

static void objects_are_freed_by_other_threads(void)
{
    aq_stats stats = {.struct_bytes = sizeof stats};
    run_threads(hand_over);
    CHECK_CODE(AQ_OK, aq_stats_get(&stats));
    CHECK(stats.objects == 0);
    CHECK_CODE(AQ_OK, aq_check());
}

/* ---- Messages ---------------------------------------------------------- */

static void *fail_in_a_thread(void *argument)
{
    (void)argument;
    aq_free(&start_line);
    wrong += *aq_error_message() == '\0';
    return NULL;
}

static void messages_belong_to_their_thread(void)
{
    CHECK(!aq_malloc(SIZE_MAX));
    char mine[512];
    snprintf(mine, sizeof mine, "%s", aq_error_message());
    run_threads(fail_in_a_thread);
    CHECK(strcmp(mine, aq_error_message()) == 0);
}

int main(void)
{
    open_default_heap("threads.c");
    RUN(threads_with_objects_of_their_own);
    RUN(threads_on_the_same_objects);
    RUN(threads_rush_to_one_absent_object);
    RUN(objects_are_freed_by_other_threads);
    RUN(messages_belong_to_their_thread);
    return tests_failed();
}

/* requests.c - see requests.h. */
#include "requests.h"

#include "progress.h"
#include "sessions.h"
#include "workload.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A thread's sessions are numbered from 0 to count - 1, in the order in which
 * they are made. */
struct worker {
    pthread_t thread;
    sessions *table;
    uint8_t *changes; /* of each session, modulo 256 */
    uint64_t count, hot;
    uint64_t first_key; /* no two threads have the same keys */
    uint64_t random;
    struct outcome outcome;
    _Atomic uint64_t done; /* in this phase, for the bar */
};

static struct worker workers[REQUEST_THREADS_MAX];
static unsigned worker_count;
static struct mix mix;
static bool bars_visible;
static atomic_bool stop;

/* ---- Sessions ---------------------------------------------------------- */

/* What the state of a session follows from. */
static uint64_t state_key(const struct worker *worker, uint64_t number, uint64_t changes)
{
    return mix64(mix64(worker->first_key + number) + changes);
}

static void fill_state(const struct worker *worker, session *found, uint64_t number, uint64_t changes)
{
    record_value(state_key(worker, number, changes), found->state, STATE_BYTES);
}

/* Whether the session has been changed as often as is known outside of the
 * table, and its state is the one that belongs to that. */
static bool is_right(const struct worker *worker, const session *found, uint64_t number, uint64_t changes)
{
    return (uint8_t)changes == worker->changes[number] &&
           record_value_is(state_key(worker, number, changes), found->state, STATE_BYTES);
}

/* ---- What threads do --------------------------------------------------- */

static void *load(void *argument)
{
    struct worker *worker = argument;
    for (uint64_t i = 0; i < worker->count && !atomic_load_explicit(&stop, memory_order_relaxed); i++) {
        session *opened = sessions_open(worker->table, i);
        if (!opened) {
            atomic_store(&stop, true);
            break;
        }
        fill_state(worker, opened, i, 0);
        worker->outcome.requests++;
        atomic_store_explicit(&worker->done, i + 1, memory_order_relaxed);
    }
    return NULL;
}

static uint64_t next_random(struct worker *worker)
{
    worker->random += 0x9E3779B97F4A7C15u;
    return mix64(worker->random);
}

static bool happens(struct worker *worker, double part)
{
    return (double)(next_random(worker) >> 11) * 0x1p-53 < part;
}

static uint64_t next_session(struct worker *worker)
{
    bool is_hot = worker->hot > 0 && happens(worker, mix.hot_requests);
    return scattered(next_random(worker) % (is_hot ? worker->hot : worker->count), worker->count);
}

static void serve_one(struct worker *worker)
{
    uint64_t number = next_session(worker);
    session *found = sessions_get(worker->table, number);
    bool is_update = happens(worker, mix.updates);
    worker->outcome.requests++;
    if (!found) {
        worker->outcome.wrong++;
    } else if (is_update) {
        uint64_t changes = ++found->changes;
        worker->outcome.updates++;
        worker->outcome.wrong += !is_right(worker, found, number, changes - 1);
        fill_state(worker, found, number, changes);
        worker->changes[number]++;
    } else {
        worker->outcome.wrong += !is_right(worker, found, number, found->changes);
    }
}

static void *serve(void *argument)
{
    struct worker *worker = argument;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        serve_one(worker);
        atomic_store_explicit(&worker->done, worker->outcome.requests, memory_order_relaxed);
    }
    return NULL;
}

static void *check(void *argument)
{
    struct worker *worker = argument;
    for (uint64_t i = 0; i < worker->count; i++) {
        const session *found = sessions_get(worker->table, i);
        worker->outcome.requests++;
        worker->outcome.wrong += !found || !is_right(worker, found, i, found->changes);
        atomic_store_explicit(&worker->done, i + 1, memory_order_relaxed);
    }
    return NULL;
}

/* ---- Phases ------------------------------------------------------------ */

static uint64_t done_by_all(void)
{
    uint64_t done = 0;
    for (unsigned i = 0; i < worker_count; i++)
        done += atomic_load_explicit(&workers[i].done, memory_order_relaxed);
    return done;
}

static void start(void *(*phase)(void *))
{
    atomic_store(&stop, false);
    for (unsigned i = 0; i < worker_count; i++) {
        workers[i].outcome = (struct outcome){0};
        atomic_store(&workers[i].done, 0);
        if (pthread_create(&workers[i].thread, NULL, phase, &workers[i]) != 0) {
            fputs("sessions: cannot start a thread\n", stderr);
            exit(EXIT_FAILURE);
        }
    }
}

static struct outcome end(void)
{
    struct outcome sum = {0};
    for (unsigned i = 0; i < worker_count; i++) {
        pthread_join(workers[i].thread, NULL);
        sum.requests += workers[i].outcome.requests;
        sum.updates += workers[i].outcome.updates;
        sum.wrong += workers[i].outcome.wrong;
    }
    return sum;
}

/* A phase that takes each session once. */
static struct outcome run_through(const char *title, void *(*phase)(void *))
{
    struct progress progress = progress_start(title, mix.count, bars_visible);
    start(phase);
    while (bars_visible && done_by_all() < mix.count && !atomic_load(&stop)) {
        usleep(20000);
        progress_show(&progress, done_by_all());
    }
    struct outcome sum = end();
    progress_end(&progress);
    return sum;
}

bool requests_load(void)
{
    return run_through("load", load).requests == mix.count;
}

struct outcome requests_check(void)
{
    return run_through("check", check);
}

struct outcome requests_serve(const char *title, double seconds)
{
    struct progress progress = progress_start(title, 0, bars_visible);
    start(serve);
    while (seconds_now() - progress.started < seconds) {
        usleep(10000);
        progress_show_time(&progress, done_by_all(), seconds);
    }
    atomic_store(&stop, true);
    struct outcome sum = end();
    progress_end(&progress);
    return sum;
}

/* ---- Begin and end ----------------------------------------------------- */

bool requests_open(const struct mix *asked, unsigned threads, bool visible)
{
    mix = *asked;
    worker_count = threads;
    bars_visible = visible;
    for (unsigned i = 0; i < threads; i++) {
        struct worker *worker = &workers[i];
        worker->count = mix.count / threads + (i < mix.count % threads);
        worker->hot = (uint64_t)((double)worker->count * mix.hot);
        worker->first_key = (uint64_t)i << 32;
        worker->random = mix64(mix.seed * REQUEST_THREADS_MAX + i);
        worker->table = sessions_create(worker->count);
        worker->changes = calloc(worker->count, sizeof *worker->changes);
        if (!worker->table || !worker->changes)
            return false;
    }
    return true;
}

void requests_close(void)
{
    for (unsigned i = 0; i < worker_count; i++) {
        sessions_destroy(workers[i].table);
        free(workers[i].changes);
        workers[i] = (struct worker){0};
    }
}

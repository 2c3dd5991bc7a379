/* test.c - the table of sessions against a model, and requests that must notice
 * what is wrong.
 *
 * Build it with plain/sessions.c, where it also makes allocations fail (with
 * -DFAILING_MALLOC and malloc and calloc wrapped), or with aquifer/sessions.c;
 * always with sessions_get wrapped (-Wl,--wrap=...). Prints one line for each
 * test and exits with 1 if one failed.
 */
#include "requests.h"
#include "sessions.h"
#include "workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODEL_SESSIONS = 5000 };

static int failures;

static void report(const char *name, const char *problem)
{
    printf("%s sessions %s%s%s\n", problem ? "FAIL" : "ok", name, problem ? ": " : "", problem ? problem : "");
    failures += problem != NULL;
}

#define REQUIRE(condition) \
    do { \
        if (!(condition)) \
            return "not so: " #condition; \
    } while (0)

/* ---- What stands between the requests and the table --------------------- */

session *__real_sessions_get(const sessions *table, size_t number);
session *__wrap_sessions_get(const sessions *table, size_t number);

/* Sees each session that a request finds, before the request does. */
static void (*watch)(session *found, size_t number);

session *__wrap_sessions_get(const sessions *table, size_t number)
{
    session *found = __real_sessions_get(table, number);
    if (watch && found)
        watch(found, number);
    return found;
}

#ifdef FAILING_MALLOC
/* Allocations that still succeed; then they fail. Negative: all succeed. */
static long allocations_left = -1;

static bool may_allocate(void)
{
    if (allocations_left > 0)
        allocations_left--;
    else if (allocations_left == 0)
        return false;
    return true;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return may_allocate() ? __real_malloc(bytes) : NULL;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return may_allocate() ? __real_calloc(count, bytes) : NULL;
}
#endif

/* ---- The table ----------------------------------------------------------- */

/* model[i] is 0 if session i is absent, else what its state begins with. */
static uint32_t model[MODEL_SESSIONS];

static bool agrees(const sessions *table)
{
    for (size_t i = 0; i < MODEL_SESSIONS; i++) {
        const session *found = sessions_get(table, i);
        if ((found != NULL) != (model[i] != 0))
            return false;
        if (found && (found->changes != 0 || memcmp(found->state, &model[i], sizeof model[i]) != 0))
            return false;
    }
    return true;
}

/* Random sessions come and go. */
static const char *test_come_and_go(void)
{
    sessions *table = sessions_create(MODEL_SESSIONS);
    REQUIRE(table && agrees(table));
    struct sampler dice;
    sampler_init(&dice, MODEL_SESSIONS, 0, 7);
    for (uint32_t i = 1; i <= 60000; i++) {
        size_t number = sampler_next(&dice);
        if (model[number]) {
            sessions_close(table, number);
            model[number] = 0;
        } else {
            sessions_close(table, number);
            session *opened = sessions_open(table, number);
            REQUIRE(opened);
            memcpy(opened->state, &i, sizeof i);
            model[number] = i;
        }
        if (i % 10000 == 0)
            REQUIRE(agrees(table));
    }
    sessions_destroy(table);
    sessions_destroy(NULL);
    return NULL;
}

#ifdef FAILING_MALLOC
static const char *test_no_memory(void)
{
    allocations_left = 0;
    sessions *none = sessions_create(10);
    allocations_left = -1;
    REQUIRE(!none);
    sessions *table = sessions_create(10);
    REQUIRE(table && sessions_open(table, 1));
    allocations_left = 0;
    const session *opened = sessions_open(table, 2);
    allocations_left = -1;
    REQUIRE(!opened && sessions_get(table, 1) && !sessions_get(table, 2));
    sessions_destroy(table);

    struct mix mix = {.count = 100, .updates = 1};
    allocations_left = 1;
    bool ready = requests_open(&mix, 1, false);
    allocations_left = -1;
    REQUIRE(!ready);
    requests_close();
    REQUIRE(requests_open(&mix, 1, false));
    allocations_left = 50;
    bool loaded = requests_load();
    allocations_left = -1;
    REQUIRE(!loaded);
    requests_close();
    return NULL;
}
#endif

/* ---- Requests ------------------------------------------------------------ */

/* Serves until that many requests of the kind have been served. */
static struct outcome serve_at_least(uint64_t requests, uint64_t updates)
{
    struct outcome sum = {0};
    for (unsigned i = 0; i < 10000 && (sum.requests < requests || sum.updates < updates); i++) {
        struct outcome some = requests_serve("test", 0.02);
        sum.requests += some.requests;
        sum.updates += some.updates;
        sum.wrong += some.wrong;
    }
    return sum;
}

static const char *test_requests_find_what_was_changed(void)
{
    struct mix mix = {.count = 1001, .seed = 5, .hot = 0.05, .hot_requests = 0.9, .updates = 0.5};
    REQUIRE(requests_open(&mix, 3, false) && requests_load());
    struct outcome served = serve_at_least(30000, 1);
    REQUIRE(served.requests >= 30000 && served.wrong == 0);
    REQUIRE(served.updates > served.requests * 0.45 && served.updates < served.requests * 0.55);
    struct outcome all = requests_check();
    REQUIRE(all.requests == mix.count && all.wrong == 0 && all.updates == 0);
    requests_close();
    return NULL;
}

static unsigned long seen;

/* Flips a bit of the last byte of the hundredth session. */
static void damage(session *found, size_t number)
{
    (void)number;
    if (++seen == 100)
        found->state[STATE_BYTES - 1] ^= 1;
}

static const char *test_a_wrong_byte_is_noticed(void)
{
    struct mix mix = {.count = 500, .updates = 0};
    REQUIRE(requests_open(&mix, 1, false) && requests_load());
    seen = 0;
    watch = damage;
    struct outcome all = requests_check();
    watch = NULL;
    REQUIRE(seen == 500 && all.wrong == 1);
    REQUIRE(requests_check().wrong == 1);
    requests_close();
    return NULL;
}

static session before;

/* Remembers session 0 as it is at first, and puts it back each time. */
static void forget_changes(session *found, size_t number)
{
    if (number == 0 && seen++ == 0)
        before = *found;
    else if (number == 0)
        *found = before;
}

static const char *test_a_lost_change_is_noticed(void)
{
    struct mix mix = {.count = 2, .seed = 3, .updates = 1};
    REQUIRE(requests_open(&mix, 1, false) && requests_load());
    seen = 0;
    watch = forget_changes;
    struct outcome served = serve_at_least(100, 2);
    watch = NULL;
    REQUIRE(served.updates >= 2 && served.wrong > 0);
    requests_close();
    return NULL;
}

enum { COUNTED = 2000 };
static uint64_t asked_for[COUNTED];

static void count(session *found, size_t number)
{
    (void)found;
    asked_for[number]++;
}

static const char *test_hot_sessions_have_cold_neighbours(void)
{
    struct mix mix = {.count = COUNTED, .seed = 9, .hot = 0.02, .hot_requests = 0.9};
    REQUIRE(requests_open(&mix, 1, false) && requests_load());
    watch = count;
    struct outcome served = serve_at_least(40000, 0);
    watch = NULL;
    uint64_t of_hot = 0, hot = 0, neighbours = 0;
    for (unsigned i = 0; i < COUNTED; i++) {
        if (asked_for[i] < served.requests / 200)
            continue;
        hot++;
        of_hot += asked_for[i];
        neighbours += i > 0 && asked_for[i - 1] >= served.requests / 200;
    }
    REQUIRE(hot == 40 && neighbours < 4);
    REQUIRE(of_hot > served.requests * 0.88 && of_hot < served.requests * 0.92);
    requests_close();
    return NULL;
}

int main(void)
{
    report("come and go", test_come_and_go());
#ifdef FAILING_MALLOC
    report("no memory", test_no_memory());
#endif
    report("requests find what was changed", test_requests_find_what_was_changed());
    report("a wrong byte is noticed", test_a_wrong_byte_is_noticed());
    report("a lost change is noticed", test_a_lost_change_is_noticed());
    report("hot sessions have cold neighbours", test_hot_sessions_have_cold_neighbours());
    return failures != 0;
}

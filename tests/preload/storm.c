/* storm.c - a random program that follows from a seed, whose memory becomes a heap's at a random moment of it
 *
 *   storm SEED
 *
 * Threads do whatever a program may do with memory, others sleep in the kernel, and processes are forked; at a moment that the
 * seed chooses, and in a context that it chooses, blocks exceed the budget. The order in which threads come is not the seed's.
 * All bytes follow from keys and are verified. Exits with 1 and a line that says what is wrong.
 *
 *   STORM_BUDGET    MiB of RAM that are exceeded (16)
 *   STORM_REFUSALS  what may be missing: memory, flash, descriptors, addresses, writes; the last three the program takes away itself
 *   STORM_PLUGIN    the library, made with -DPLUGIN, that exceeds the budget while it is loaded
 *   STORM_STOP      stay for a while for a debugger when something is wrong
 */
#ifdef PLUGIN

extern void storm_is_loaded(void);

__attribute__((constructor)) static void on_load(void)
{
    storm_is_loaded();
}

#else

#include "storm_children.h"
#include "storm_sleepers.h"

#include <dlfcn.h>
#include <sys/time.h>

enum { KINDS = 12, STEPS = 700 };
/* Where the budget is exceeded. */
enum { ANYWHERE, AT_ONCE, TOGETHER, CALLOC, MAPPING, HANDLER, DESTRUCTOR, PLUGIN_LOADED, CHILD, AT_FORK, CONTEXTS };

static struct worker workers[THREADS_MAX];
static struct sleeper sleepers[KINDS];
static unsigned threads_count, sleepers_count, context, exceeding_thread;
static int steps, exceeding_step;
static size_t budget, low, high;
static pthread_barrier_t *barrier;
static pthread_key_t key;
static _Thread_local volatile uint64_t *handler_words;
static _Thread_local uint64_t handler_counts[8];
static _Thread_local bool is_to_exceed;
static atomic_int handled;
static int restart;
static FILE *nowhere;

/* ---- Signals --------------------------------------------------------------- */

/* Reads what never changes, and writes pages of its thread. */
static void on_signal(int number)
{
    int error = errno;
    (void)number;
    unsigned turn = (unsigned)++handled;
    verify_frozen(turn);
    if (handler_words != NULL) {
        unsigned n = turn % 8;
        MUST(handler_words[n * 512] == handler_counts[n]);
        handler_words[n * 512] = ++handler_counts[n];
    }
    errno = error;
}

static void exceed(struct worker *w);

static void on_exceed(int number)
{
    int error = errno;
    (void)number;
    exceed(self);
    errno = error;
}

static void handle_signals(struct worker *w)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = restart}, exceeding = {.sa_handler = on_exceed};
    sigfillset(&action.sa_mask);
    MUST(sigaction(SIGALRM, &action, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    MUST(sigaction(SIGUSR2, &exceeding, NULL) == 0);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    sigset_t waited;
    sigemptyset(&waited);
    sigaddset(&waited, SIGRTMIN + 3);
    MUST(pthread_sigmask(SIG_BLOCK, &waited, NULL) == 0);
    if (roll(w, 2)) {
        suseconds_t interval = 2000 + (suseconds_t)roll(w, 20000);
        struct itimerval timer = {{0, interval}, {0, interval}};
        MUST(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    }
}

/* ---- The moment ------------------------------------------------------------- */

/* One block that is larger than what is left. */
static void exceed_at_once(struct worker *w)
{
    size_t bytes = budget - budget / 4 + roll(w, budget / 4);
    struct block *b = &w->blocks[w->blocks_count];
    if (w->blocks_count == BLOCKS_MAX)
        return;
    *b = (struct block){.bytes = bytes & ~(PAGE - 1), .key = new_key(w), .is_mapped = context == MAPPING};
    if (context == MAPPING) {
        /* From a small one, where it is or elsewhere. */
        void *small = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        MUST(small != MAP_FAILED || refused("mmap"));
        b->memory = small == MAP_FAILED ? NULL : mremap(small, 16 * PAGE, b->bytes, MREMAP_MAYMOVE);
        if (b->memory == MAP_FAILED)
            munmap(small, 16 * PAGE);
    } else {
        b->memory = context == CALLOC ? calloc(1, b->bytes) : realloc(malloc(10 * PAGE), b->bytes);
    }
    if (b->memory == NULL || b->memory == MAP_FAILED) {
        refused("much memory");
        return;
    }
    w->blocks_count++;
    held += b->bytes;
    if (context == AT_ONCE)
        with_block(b, 0, b->bytes, NULL);
    else
        patch(b, 0, b->bytes, 0);
}

static void exceed(struct worker *w)
{
    goal = high;
    for (int n = 0; n < 200 && held < budget + budget / 8; n++) {
        struct block *b = make(w, 64 * KIB + roll(w, 512 * KIB));
        if (b == NULL)
            break;
        verify(b, "made while the memory is exceeded");
    }
}

static void at_end_of_thread(void *w)
{
    exceed(w);
}

static void *end_at_once(void *w)
{
    self = w;
    MUST(pthread_setspecific(key, w) == 0);
    return NULL;
}

static void before_fork(void)
{
    if (is_to_exceed)
        exceed(self);
    is_to_exceed = false;
}

extern void storm_is_loaded(void);

void storm_is_loaded(void)
{
    exceed(self);
}

static void take_away(const char *what);

static void exceed_in_context(struct worker *w)
{
    pthread_t thread;
    take_away(getenv("STORM_REFUSALS"));
    switch (context) {
    case AT_ONCE:
    case CALLOC:
    case MAPPING:
        exceed_at_once(w);
        break;
    case TOGETHER:
        exceed(w);
        break;
    case HANDLER:
        raise(SIGUSR2);
        break;
    case DESTRUCTOR:
        if (pthread_create(&thread, NULL, end_at_once, w) == 0)
            pthread_join(thread, NULL);
        break;
    case PLUGIN_LOADED:
        if (getenv("STORM_PLUGIN") != NULL)
            MUST(dlopen(getenv("STORM_PLUGIN"), RTLD_NOW) != NULL || may_be_refused);
        break;
    case CHILD:
        fork_for_a_while(w, high - low);
        break;
    case AT_FORK:
        is_to_exceed = true;
        fork_for_a_while(w, MIB);
        break;
    }
    goal = high;
}

/* Files become no longer from some moment of the takeover on: what is written to flash is lost, and the heap is told. */
static void *forbid_writes(void *argument)
{
    struct rlimit limit = {MIB, MIB};
    usleep((useconds_t)(storm_seed / 5 % 200) * 1000);
    MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    return argument;
}

/* Makes something scarce from this moment on. */
static void take_away(const char *what)
{
    static atomic_flag is_done = ATOMIC_FLAG_INIT;
    struct rlimit limit;
    if (atomic_flag_test_and_set(&is_done))
        return;
    if (what != NULL && strcmp(what, "descriptors") == 0) {
        int next = dup(0);
        MUST(next >= 0 && close(next) == 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
        limit.rlim_cur = (rlim_t)next + storm_seed % 7;
        MUST(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    } else if (what != NULL && strcmp(what, "addresses") == 0) {
        char text[64] = "";
        int fd = open("/proc/self/statm", O_RDONLY);
        MUST(fd >= 0 && read(fd, text, sizeof text - 1) > 0 && close(fd) == 0 && getrlimit(RLIMIT_AS, &limit) == 0);
        limit.rlim_cur = strtoul(text, NULL, 10) * PAGE + storm_seed % 40 * MIB;
        MUST(setrlimit(RLIMIT_AS, &limit) == 0);
    } else if (what != NULL && strcmp(what, "writes") == 0) {
        pthread_t thread;
        MUST(pthread_create(&thread, NULL, forbid_writes, NULL) == 0 && pthread_detach(thread) == 0);
    }
}

/* ---- Threads ----------------------------------------------------------------- */

static _Thread_local char local[96 * 1024];

static void *live_for_a_while(void *argument)
{
    struct worker *w = argument;
    self = w;
    /* To use memory is no point at which a thread may be cancelled. */
    bool is_cancelled = roll(w, 3) == 0;
    if (is_cancelled)
        MUST(pthread_cancel(pthread_self()) == 0);
    memset(local, 1, sizeof local);
    struct block *b = make(w, some_size(w));
    if (b != NULL)
        verify(b, "of a thread that ends");
    if (w->blocks_count > 0)
        rewrite(w, some_block(w));
    if (is_cancelled)
        pthread_testcancel();
    return is_cancelled ? NULL : w;
}

/* A thread that works in the name of this one, which waits for its end. */
static void start_thread(struct worker *w)
{
    pthread_t thread;
    void *result;
    int error = pthread_create(&thread, NULL, live_for_a_while, w);
    errno = error;
    if (error != 0)
        refused("a thread");
    else
        MUST(pthread_join(thread, &result) == 0 && (result == w || result == PTHREAD_CANCELED));
}

/* Reads a block with the lock of a stream, or takes that lock with the one of all streams. */
static void print(struct worker *w)
{
    struct block *b = some_block(w);
    if (b == NULL)
        return;
    size_t from = roll(w, b->bytes), bytes = b->bytes - from < 100 ? b->bytes - from : 100;
    MUST(fprintf(nowhere, "%.*s", (int)bytes, b->memory + from) >= 0 || may_lose_flash);
    if (roll(w, 3) == 0)
        MUST(fflush(NULL) == 0);
}

static void use_block(struct worker *w)
{
    static void (*const uses[])(struct worker *, struct block *) = {give_up, unmap_part, protect, rewrite, rewrite, rewrite};
    struct block *b = some_block(w);
    if (b == NULL)
        return;
    uint64_t use = roll(w, 9);
    if (use < 6)
        uses[use](w, b);
    else if (use < 8)
        resize(w, b, roll(w, 2) ? 1 + roll(w, b->bytes) : b->bytes + 1 + roll(w, b->bytes));
    else
        verify(b, "as it is");
}

/* What is rarer than to use blocks. */
static void use_others(struct worker *w)
{
    uint64_t use = roll(w, 100);
    if (use < 40)
        transfer(w);
    else if (use < 60)
        use_shared(w);
    else if (use < 78 && sleepers_count > 0)
        wake(&sleepers[roll(w, sleepers_count)], new_key(w));
    else if (use < 82)
        print(w);
    else if (use < 84)
        pthread_kill(workers[roll(w, threads_count)].thread, SIGUSR1);
    else if (use < 88)
        start_thread(w);
    else if (use < 91)
        fork_for_a_while(w, roll(w, 8) ? roll(w, 2 * MIB) : high);
    else if (use < 94)
        fork_and_leave(w);
    else if (use < 98)
        recall(w, (int)roll(w, CHILDREN_MAX));
    else
        start_program(w);
}

static void step(struct worker *w)
{
    uint64_t use = roll(w, 100);
    bool is_much = held > goal;
    if (use < (is_much ? 10 : 45) && held < goal + 4 * MIB)
        make(w, some_size(w));
    else if (use < 55)
        use_block(w);
    else if (use < (is_much ? 90 : 70) && w->blocks_count > 0)
        drop(w, some_block(w));
    else
        use_others(w);
}

static void *work(void *argument)
{
    struct worker *w = self = argument;
    char *words = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    handler_words = words == MAP_FAILED ? NULL : (uint64_t *)words;
    pthread_barrier_wait(barrier);
    for (w->step = 0; w->step < steps; w->step++) {
        bool is_moment = w->step == exceeding_step;
        if (is_moment && context == TOGETHER)
            pthread_barrier_wait(barrier);
        if (is_moment && (context == TOGETHER || w->number == exceeding_thread))
            exceed_in_context(w);
        step(w);
    }
    recall_all(w);
    verify_all(w, "at the end");
    while (w->blocks_count > 0)
        drop(w, &w->blocks[w->blocks_count - 1]);
    /* Nobody ends before the others: signals are sent to all. */
    pthread_barrier_wait(barrier);
    return NULL;
}

/* ---- The plan ------------------------------------------------------------------ */

static void plan(struct worker *w)
{
    static const unsigned counts[] = {1, 2, 3, 4, 6, 8};
    const char *text = getenv("STORM_BUDGET"), *refusals = getenv("STORM_REFUSALS");
    budget = (text != NULL ? strtoul(text, NULL, 10) : 16) * MIB;
    may_be_refused = refusals != NULL;
    may_lose_flash = refusals != NULL && (strcmp(refusals, "flash") == 0 || strcmp(refusals, "writes") == 0);
    threads_count = counts[roll(w, 6)];
    sleepers_count = (unsigned)roll(w, KINDS + 1);
    steps = STEPS / (int)threads_count;
    context = (unsigned)roll(w, CONTEXTS);
    exceeding_thread = (unsigned)roll(w, threads_count);
    exceeding_step = (int)((uint64_t)steps * (5 + roll(w, 70)) / 100);
    low = budget / 100 * (20 + roll(w, 40));
    high = budget / 100 * (120 + roll(w, 170));
    restart = roll(w, 2) ? SA_RESTART : 0;
    goal = low;
}

static void begin_storm(struct worker *w)
{
    frozen = (struct block){.bytes = FROZEN_BYTES, .key = new_key(w), .memory = malloc(FROZEN_BYTES)};
    barrier = malloc(4 * KIB + 200);
    nowhere = fopen("/dev/null", "w");
    MUST(nowhere != NULL && frozen.memory != NULL && barrier != NULL && pthread_barrier_init(barrier, NULL, threads_count) == 0);
    with_block(&frozen, 0, frozen.bytes, NULL);
    make_shared(w);
    MUST(pthread_key_create(&key, at_end_of_thread) == 0 && pthread_atfork(before_fork, NULL, NULL) == 0);
    handle_signals(w);
    unsigned first = (unsigned)roll(w, KINDS);
    for (unsigned n = 0; n < sleepers_count; n++)
        if (!put_to_sleep(&sleepers[n], n, (first + n) % KINDS))
            wrong("no room for sleepers");
    for (unsigned n = 0; n < threads_count; n++) {
        workers[n].number = n, workers[n].dice = next_random(&w->dice);
        MUST(pthread_create(&workers[n].thread, NULL, work, &workers[n]) == 0);
    }
}

static void end_storm(void)
{
    for (unsigned n = 0; n < threads_count; n++)
        MUST(pthread_join(workers[n].thread, NULL) == 0);
    for (unsigned n = 0; n < sleepers_count; n++)
        end_sleep(&sleepers[n]);
    struct itimerval none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &none, NULL);
    end_shared();
    verify(&frozen, "at the end");
    free(frozen.memory);
}

int main(int argc, char **argv)
{
    static struct worker first = {.number = 30};
    storm_seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    first.dice = storm_seed;
    self = &first;
    plan(&first);
    begin_storm(&first);
    end_storm();
    printf("storm: seed %llu is right: %u threads, %u sleepers, context %u, %zu MiB\n", (unsigned long long)storm_seed,
           threads_count, sleepers_count, context, high / MIB);
    return 0;
}

#endif

/* signals.c - faults beside the program's own signal handlers. */
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

/* ---- The program's own SIGBUS handler ---------------------------------- */

static sigjmp_buf after_sigbus;
static volatile sig_atomic_t sigbus_count;
static void *volatile sigbus_address;

/* Installed before the heap is opened. */
static void on_sigbus(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    sigbus_count++;
    sigbus_address = info->si_addr;
    siglongjmp(after_sigbus, 1);
}

static void install_sigbus_handler(void)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    action.sa_sigaction = on_sigbus;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

/* A mapping of a file that has no bytes there: touching it is a SIGBUS that is
 * none of the heap's business. */
static char *mapping_without_file(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s/signals.XXXXXX", test_dir());
    int file = mkstemp(path);
    CHECK(file >= 0);
    unlink(path);
    char *mapping = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    CHECK(mapping != MAP_FAILED);
    return mapping;
}

static void faults_of_the_heap_do_not_reach_the_program(void)
{
    void *object = aq_malloc(3000);
    CHECK(object);
    fill(object, 3000, 1);
    CHECK(push_out());
    CHECK(is_filled(object, 3000, 1));
    CHECK(sigbus_count == 0);
    CHECK_CODE(AQ_OK, aq_free(object));
}

static void foreign_faults_reach_the_earlier_handler(void)
{
    volatile char *mapping = mapping_without_file();
    for (volatile int i = 1; i <= 3; i++) {
        if (sigsetjmp(after_sigbus, 1) == 0) {
            mapping[100] = 1;
            end_test("FAIL the touch of an empty mapping came back");
        }
        CHECK(sigbus_count == i);
        CHECK(sigbus_address == (void *)(uintptr_t)(mapping + 100));
    }
    munmap((void *)(uintptr_t)mapping, 4096);
    /* The heap works on, also for faults. */
    void *object = aq_malloc(3000);
    CHECK(object);
    fill(object, 3000, 2);
    CHECK(push_out());
    CHECK(is_filled(object, 3000, 2));
    CHECK(sigbus_count == 3);
    CHECK_CODE(AQ_OK, aq_free(object));
}

/* ---- A handler that touches objects ------------------------------------ */

enum { HANDLER_OBJECTS = 30000, HANDLER_BYTES = 1000, TICKS = 400 };

struct ticker {
    uint64_t ticks; /* the handler's own count of visits to this object */
    unsigned char constant[HANDLER_BYTES - sizeof(uint64_t)];
};

static struct ticker *tickers[HANDLER_OBJECTS];
static uint32_t visits[HANDLER_OBJECTS]; /* what the object should say */
static volatile sig_atomic_t ticks, tick_faults;

static void on_tick(int number)
{
    (void)number;
    static uint64_t dice = 77;
    uint64_t i = next_random(&dice) % HANDLER_OBJECTS;
    tick_faults += tickers[i]->ticks != visits[i];
    tick_faults += !is_filled(tickers[i]->constant, sizeof tickers[i]->constant, i);
    tickers[i]->ticks = ++visits[i];
    ticks++;
}

static void start_timer(long interval_us)
{
    struct itimerval timer = {.it_interval.tv_usec = interval_us, .it_value.tv_usec = interval_us};
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* Allocates, writes, frees and faults in every way, until the handler has run
 * often enough in the middle of it. */
static bool allocate_while_ticking(void)
{
    enum { OWN = 512 };
    static void *own[OWN];
    static size_t sizes[OWN];
    uint64_t dice = 5;
    bool right = true;
    for (uint64_t n = 0; ticks < TICKS || n < 50000; n++) {
        uint64_t at = next_random(&dice) % OWN;
        if (own[at]) {
            right = right && is_filled(own[at], sizes[at], at);
            right = right && aq_free(own[at]) == AQ_OK;
        }
        sizes[at] = 1 + next_random(&dice) % 9000;
        own[at] = n % 3 ? aq_malloc(sizes[at]) : aq_calloc(1, sizes[at]);
        if (!own[at])
            return false;
        fill(own[at], sizes[at], at);
    }
    for (uint64_t at = 0; at < OWN; at++) {
        if (own[at]) {
            right = right && is_filled(own[at], sizes[at], at);
            aq_free(own[at]);
        }
    }
    return right;
}

static void handlers_may_touch_objects(void)
{
    for (uint64_t i = 0; i < HANDLER_OBJECTS; i++) {
        tickers[i] = aq_malloc(sizeof(struct ticker));
        CHECK(tickers[i]);
        tickers[i]->ticks = 0;
        fill(tickers[i]->constant, sizeof tickers[i]->constant, i);
    }
    struct sigaction action = {.sa_flags = SA_RESTART};
    action.sa_handler = on_tick;
    sigemptyset(&action.sa_mask);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    start_timer(500);
    bool right = allocate_while_ticking();
    start_timer(0);
    signal(SIGALRM, SIG_IGN);
    CHECK(right);
    CHECK(ticks >= TICKS && tick_faults == 0);
    for (uint64_t i = 0; i < HANDLER_OBJECTS; i++) {
        CHECK(tickers[i]->ticks == visits[i]);
        CHECK_CODE(AQ_OK, aq_free(tickers[i]));
    }
    CHECK_CODE(AQ_OK, aq_check());
}

/* ---- Handlers and masks ------------------------------------------------ */

static void *volatile probed;
static volatile sig_atomic_t probe_right;

static void on_usr1(int number)
{
    (void)number;
    probe_right = is_filled(probed, 5000, 4);
}

/* A handler that blocks everything else it may block, on its own stack. */
static void a_handler_on_an_alternate_stack_may_fault(void)
{
    probed = aq_malloc(5000);
    CHECK(probed);
    fill(probed, 5000, 4);
    CHECK(push_out());
    stack_t stack = {.ss_sp = malloc(256 << 10), .ss_size = 256 << 10};
    CHECK(stack.ss_sp && sigaltstack(&stack, NULL) == 0);
    struct sigaction action = {.sa_flags = SA_ONSTACK};
    action.sa_handler = on_usr1;
    sigfillset(&action.sa_mask);
    sigdelset(&action.sa_mask, SIGBUS);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    raise(SIGUSR1);
    CHECK(probe_right);
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, NULL);
    free(stack.ss_sp);
    CHECK_CODE(AQ_OK, aq_free(probed));
}

static void *fault_with_signals_blocked(void *argument)
{
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    return is_filled(argument, 7000, 6) ? argument : NULL;
}

static void other_signals_may_be_blocked(void)
{
    void *object = aq_malloc(7000), *result = NULL;
    pthread_t thread;
    CHECK(object);
    fill(object, 7000, 6);
    CHECK(push_out());
    CHECK(pthread_create(&thread, NULL, fault_with_signals_blocked, object) == 0);
    pthread_join(thread, &result);
    CHECK(result == object);
    CHECK_CODE(AQ_OK, aq_free(object));
}

int main(void)
{
    install_sigbus_handler();
    open_default_heap("signals.c");
    RUN(faults_of_the_heap_do_not_reach_the_program);
    RUN(foreign_faults_reach_the_earlier_handler);
    RUN(handlers_may_touch_objects);
    RUN(a_handler_on_an_alternate_stack_may_fault);
    RUN(other_signals_may_be_blocked);
    return tests_failed();
}

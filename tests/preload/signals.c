/* signals.c - handlers that touch managed memory, on all kinds of stacks, while 16 threads fault. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <unistd.h>

enum { THREADS = 16 };

static atomic_int handled, wrong;
static atomic_bool stop;
static char *table; /* 24 MiB, filled page by page with the page's number */

enum { TABLE_PAGES = 6000 };

static void touch_table(uint64_t *dice)
{
    size_t page = next_random(dice) % TABLE_PAGES;
    uint64_t number;
    memcpy(&number, table + page * PAGE + 8, 8);
    wrong += number != page;
    memcpy(table + page * PAGE + 2048, &number, 8);
}

static void on_alarm(int number)
{
    static _Thread_local uint64_t dice = 1;
    int saved = errno;
    errno = number;
    touch_table(&dice);
    wrong += errno != number;
    handled++;
    errno = saved;
}

static void *keep_faulting(void *argument)
{
    uint64_t dice = (uintptr_t)argument;
    /* Half of the threads have stacks for handlers, in managed memory. */
    char *own = malloc(64 * KIB);
    stack_t stack = {.ss_sp = own, .ss_size = 64 * KIB};
    if ((uintptr_t)argument % 2)
        wrong += sigaltstack(&stack, NULL) != 0;
    for (int i = 0; !stop; i++) {
        touch_table(&dice);
        if (i % 8 == 0) {
            char *block = malloc(20000);
            wrong += block == NULL;
            if (block)
                block[10000] = 1;
            free(block);
        }
    }
    stack.ss_flags = SS_DISABLE;
    wrong += sigaltstack(&stack, NULL) != 0;
    free(own);
    return NULL;
}

static void alarm_every_ms(bool on)
{
    struct itimerval timer = {{0, on ? 1000 : 0}, {0, on ? 1000 : 0}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static void alarms(void)
{
    pthread_t threads[THREADS];
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigfillset(&action.sa_mask);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    alarm_every_ms(true);
    stop = false;
    for (uintptr_t t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, keep_faulting, (void *)(t + 1)) == 0);
    for (int i = 0; i < 3000 && handled < 1000; i++) {
        struct timespec ms = {0, 1000000};
        nanosleep(&ms, NULL);
        pthread_kill(threads[i % THREADS], SIGALRM);
    }
    stop = true;
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    alarm_every_ms(false);
    CHECK(handled >= 1000);
    CHECK_IS(0, wrong);
}

static char *volatile touched;
static volatile uintptr_t handler_stack;
static volatile sig_atomic_t sum;

static void on_user(int number)
{
    char local[100];
    memset(local, number, sizeof local);
    handler_stack = (uintptr_t)local;
    for (size_t i = 0; i < 64 * PAGE; i += PAGE)
        sum += touched[i];
}

/* A stack of the least size that programs use, and what the kernel says about it. */
static void small_stacks_for_handlers(void)
{
    static char small[8192];
    char *managed = malloc(64 * KIB);
    touched = filled(64 * PAGE, 5);
    for (int i = 0; i < 3; i++) {
        char *memory = i == 0 ? small : managed;
        size_t bytes = i == 0 ? sizeof small : 64 * KIB;
        stack_t stack = {.ss_sp = memory, .ss_size = bytes}, before;
        CHECK(sigaltstack(&stack, NULL) == 0);
        CHECK(sigaltstack(NULL, &before) == 0);
        CHECK(before.ss_sp == memory && before.ss_size == bytes && before.ss_flags == 0);
        struct sigaction action = {.sa_handler = on_user, .sa_flags = SA_ONSTACK};
        CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
        PUSH_OUT(touched, 64 * PAGE);
        push_out();
        CHECK(raise(SIGUSR1) == 0);
        CHECK(handler_stack < (uintptr_t)&stack - 100000 || handler_stack > (uintptr_t)&stack + 100000);
    }
    stack_t off = {.ss_flags = SS_DISABLE}, before;
    CHECK(sigaltstack(&off, &before) == 0 && before.ss_sp == managed);
    CHECK(sigaltstack(NULL, &before) == 0 && before.ss_flags == SS_DISABLE);
    stack_t tiny = {.ss_sp = managed, .ss_size = 100};
    CHECK(sigaltstack(&tiny, NULL) == -1 && errno == ENOMEM);
    free(managed);
    free(touched);
}

static void *touch_much(void *memory)
{
    touched = memory;
    on_user(1);
    return NULL;
}

static void threads_with_the_smallest_stacks(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    char *memory = filled(64 * PAGE, 6);
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstacksize(&attributes, 16384) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, 100) == EINVAL);
    PUSH_OUT(memory, 64 * PAGE);
    CHECK(pthread_create(&thread, &attributes, touch_much, memory) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    free(memory);
}

static void on_info(int number, siginfo_t *info, void *context)
{
    (void)context;
    wrong += info->si_value.sival_int != 1234 || number != SIGUSR2;
    handled += touched[0];
}

static void queued(void)
{
    struct sigaction action = {.sa_sigaction = on_info, .sa_flags = SA_SIGINFO}, before;
    touched = malloc(64 * KIB);
    memset(touched, 1, 64 * KIB);
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    CHECK(sigaction(SIGUSR2, NULL, &before) == 0 && before.sa_sigaction == on_info);
    handled = wrong = 0;
    PUSH_OUT(touched, PAGE);
    CHECK(sigqueue(getpid(), SIGUSR2, (union sigval){.sival_int = 1234}) == 0);
    CHECK(handled == 1 && wrong == 0);
    free(touched);
}

int main(void)
{
    begin();
    table = malloc(TABLE_PAGES * PAGE);
    for (size_t page = 0; page < TABLE_PAGES; page++)
        memcpy(table + page * PAGE + 8, &page, 8);
    RUN(alarms);
    RUN(small_stacks_for_handlers);
    RUN(threads_with_the_smallest_stacks);
    RUN(queued);
    return tests_failed();
}

/* protection.c - mprotect, before and after the heap has taken over. */
#include "check.h"
#include "touches.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

static char *map(size_t pages)
{
    char *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

/* Memory with pages that were made inaccessible before it became managed, and after. */
struct early {
    char *memory, *guard, *text;
};

static struct early early;

static void before_the_heap(void)
{
    early.memory = map(64);
    fill(early.memory, 64 * PAGE, 1);
    CHECK(mprotect(early.memory + 10 * PAGE, 4 * PAGE, PROT_NONE) == 0);
    CHECK(mprotect(early.memory + 20 * PAGE, 4 * PAGE, PROT_READ) == 0);
    early.guard = map(64); /* never touched */
    CHECK(mprotect(early.guard, PAGE, PROT_NONE) == 0);
    CHECK_IS(SIGSEGV, signal_of(early.memory + 10 * PAGE, false));
}

static void after_it(void)
{
    CHECK_IS(SIGSEGV, signal_of(early.memory + 13 * PAGE, false));
    CHECK_IS(SIGSEGV, signal_of(early.memory + 20 * PAGE, true));
    CHECK_IS(0, signal_of(early.memory + 20 * PAGE, false));
    CHECK_IS(SIGSEGV, signal_of(early.guard + 5, true));
    CHECK_IS(0, signal_of(early.guard + PAGE, true));
    push_out();
    CHECK_IS(SIGSEGV, signal_of(early.memory + 13 * PAGE, false));
    CHECK(mprotect(early.memory, 64 * PAGE, PROT_READ | PROT_WRITE) == 0);
    CHECK(is_filled(early.memory, 64 * PAGE, 1));
    CHECK(mprotect(early.guard, PAGE, PROT_READ | PROT_WRITE) == 0);
    CHECK(is_zero(early.guard, PAGE));
    CHECK(munmap(early.memory, 64 * PAGE) == 0 && munmap(early.guard, 64 * PAGE) == 0);
}

static void made_inaccessible_and_accessible(void)
{
    char *memory = map(200);
    fill(memory, 200 * PAGE, 2);
    push_out();
    for (int round = 0; round < 3; round++) {
        char *part = memory + 50 * PAGE;
        CHECK(mprotect(part, 20 * PAGE, PROT_NONE) == 0);
        CHECK_IS(SIGSEGV, signal_of(part, false));
        CHECK_IS(SIGSEGV, signal_of(part + 20 * PAGE - 1, true));
        CHECK_IS(0, signal_of(part - 1, false));
        CHECK_IS(0, signal_of(part + 20 * PAGE, false));
        push_out();
        CHECK_IS(SIGSEGV, signal_of(part + 5 * PAGE, false));
        CHECK(mprotect(part + 5 * PAGE, 5 * PAGE, PROT_READ) == 0);
        CHECK_IS(0, signal_of(part + 5 * PAGE, false));
        CHECK_IS(SIGSEGV, signal_of(part + 5 * PAGE, true));
        CHECK_IS(SIGSEGV, signal_of(part + 10 * PAGE, false));
        CHECK(mprotect(memory, 200 * PAGE, PROT_READ | PROT_WRITE) == 0);
        CHECK(is_filled(memory, 200 * PAGE, 2));
        push_out();
        CHECK(is_filled(memory, 200 * PAGE, 2));
    }
    CHECK(mprotect(memory + 1, PAGE, PROT_NONE) == -1 && errno == EINVAL);
    CHECK(munmap(memory, 200 * PAGE) == 0);
}

/* Protected pages can be given back in all ways, and are ordinary when they are used again. */
static void freed_while_protected(void)
{
    for (int round = 0; round < 6; round++) {
        char *memory = NULL;
        CHECK(posix_memalign((void **)&memory, PAGE, 100 * PAGE) == 0);
        fill(memory, 100 * PAGE, 3);
        push_out();
        CHECK(mprotect(memory + 10 * PAGE, 10 * PAGE, round % 2 ? PROT_NONE : PROT_READ) == 0);
        CHECK(madvise(memory + 15 * PAGE, PAGE, MADV_DONTNEED) == 0);
        CHECK_IS(SIGSEGV, signal_of(memory + 15 * PAGE, true));
        free(memory);
        memory = map(100);
        CHECK(is_zero(memory, 100 * PAGE));
        fill(memory, 100 * PAGE, 4);
        push_out();
        CHECK(is_filled(memory, 100 * PAGE, 4));
        CHECK(mprotect(memory, 10 * PAGE, PROT_NONE) == 0);
        CHECK(munmap(memory, 100 * PAGE) == 0);
    }
}

/* As allocators do that take memory back from themselves. What they make inaccessible takes no memory, and is empty when
 * they use it again. */
static void mapped_anew_without_access(void)
{
    char *memory = map(300);
    fill(memory, 300 * PAGE, 5);
    push_out();
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    char *guard = memory + 250 * PAGE, *part = memory + 100 * PAGE;
    CHECK(mmap(guard, 10 * PAGE, PROT_NONE, flags, -1, 0) == guard);
    CHECK(mmap(part, 100 * PAGE, PROT_NONE, flags, -1, 0) == part);
    CHECK_IS(SIGSEGV, signal_of(guard, false));
    CHECK_IS(SIGSEGV, signal_of(guard + 9 * PAGE, true));
    CHECK_IS(0, signal_of(guard - 1, true));
    /* Walks up to them in order, so that pages are brought in ahead. */
    CHECK(is_filled(memory, 100 * PAGE, 5));
    push_out();
    push_out();
    CHECK_IS(SIGSEGV, signal_of(guard + 5 * PAGE, true));
    CHECK(mprotect(part, 100 * PAGE, PROT_READ | PROT_WRITE) == 0);
    CHECK(mprotect(guard, 10 * PAGE, PROT_READ | PROT_WRITE) == 0);
    CHECK(is_zero(part, 100 * PAGE) && is_zero(guard, 10 * PAGE));
    fill(part, 100 * PAGE, 6);
    push_out();
    CHECK(is_filled(part, 100 * PAGE, 6) && is_filled(memory, 100 * PAGE, 5));
    CHECK(munmap(memory, 300 * PAGE) == 0);
}

/* A collector's write barrier: a page that may only be read faults when it is written, at any time. */
static struct {
    char *page;
    atomic_int faults, missed;
    atomic_bool is_over;
    pthread_t thread;
} barrier;

static void on_barrier(int number)
{
    (void)number;
    barrier.faults++;
    mprotect(barrier.page, PAGE, PROT_READ | PROT_WRITE);
}

static void *write_behind_barrier(void *argument)
{
    while (!barrier.is_over) {
        int before = barrier.faults;
        if (mprotect(barrier.page, PAGE, PROT_READ) != 0)
            barrier.missed = 1 << 20;
        for (volatile int wait = 0; wait < 20000; wait++)
            ;
        *(volatile char *)barrier.page = 1;
        barrier.missed += barrier.faults == before;
    }
    return argument;
}

static void start_barrier(void)
{
    struct sigaction action = {.sa_handler = on_barrier};
    sigaction(SIGSEGV, &action, NULL);
    barrier.page = map(64) + 8 * PAGE;
    fill(barrier.page, PAGE, 9);
    CHECK_IS(0, pthread_create(&barrier.thread, NULL, write_behind_barrier, NULL));
}

static void barrier_missed_nothing(void)
{
    barrier.is_over = true;
    pthread_join(barrier.thread, NULL);
    CHECK_IS(0, barrier.missed);
    CHECK(barrier.faults > 0);
    signal(SIGSEGV, SIG_DFL);
}

int main(void)
{
    RUN(before_the_heap);
    RUN(start_barrier);
    begin();
    RUN(barrier_missed_nothing);
    RUN(after_it);
    RUN(made_inaccessible_and_accessible);
    RUN(freed_while_protected);
    RUN(mapped_anew_without_access);
    return tests_failed();
}

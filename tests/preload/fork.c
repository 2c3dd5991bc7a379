/* fork.c - processes that are forked before and after the heap takes over. */
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

static char *early; /* 1 MiB from before the heap */

/* How a child ends that does something. */
static int end_of(int (*act)(void))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(act());
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int read_and_write_early(void)
{
    if (!is_filled(early, MIB, 1))
        return 1;
    fill(early, MIB, 2);
    return is_filled(early, MIB, 2) ? 0 : 2;
}

/* Has more data than RAM by itself. */
static int exceed_ram(void)
{
    enum { BLOCKS = 48 };
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        if (!(blocks[i] = malloc(MIB)))
            return 1;
        fill(blocks[i], MIB, (uint64_t)i);
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (!is_filled(blocks[i], MIB, (uint64_t)i))
            return 2;
        free(blocks[i]);
    }
    return is_filled(early, MIB, 1) ? 0 : 3;
}

static void before_the_heap(void)
{
    CHECK_IS(0, end_of(read_and_write_early));
    CHECK(is_filled(early, MIB, 1));
    CHECK_IS(0, end_of(exceed_ram));
    CHECK(is_filled(early, MIB, 1));
}

/* A child that goes on while its parent's heap takes over, and takes over itself then. */
static int go[2];
static pid_t beside;

static void start_beside(void)
{
    CHECK(pipe(go) == 0);
    fflush(stdout);
    beside = fork();
    if (beside == 0) {
        char byte;
        close(go[1]);
        _exit(read(go[0], &byte, 1) == 1 ? exceed_ram() : 9);
    }
    CHECK(beside > 0);
}

static void both_take_over(void)
{
    int status = 0;
    CHECK(write(go[1], "x", 1) == 1 && waitpid(beside, &status, 0) == beside);
    CHECK_IS(0, status);
    CHECK(is_filled(early, MIB, 1) && is_filled(ballast, 4 * MIB, 1));
}

/* ---- After -------------------------------------------------------------- */

static int use_own_memory(void)
{
    char local[10000], text[100];
    memset(local, 5, sizeof local);
    char *small = malloc(1000), *large = malloc(20 * MIB);
    if (!small || !large)
        return 1;
    fill(large, 20 * MIB, 3);
    snprintf(text, sizeof text, "%p", (void *)large);
    char *more = realloc(large, 30 * MIB), *mapped;
    if (!more || !is_filled(more, 20 * MIB, 3))
        return 2;
    mapped = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED || !is_zero(mapped, MIB) || munmap(mapped, MIB) != 0)
        return 3;
    free(more);
    free(small);
    free(early); /* the parent's: left alone */
    FILE *file = fopen("/proc/self/status", "r");
    if (!file || !fgets(local, sizeof local, file) || fclose(file) != 0)
        return 4;
    sigset_t all;
    sigfillset(&all);
    return sigprocmask(SIG_SETMASK, &all, NULL);
}

static int leave_by_exit(void)
{
    exit(7);
}

static int touch_parents(void)
{
    return is_filled(ballast, 4 * MIB, 1) ? 0 : 1;
}

static int fork_again(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(use_own_memory());
    int status = -1;
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

static int start_a_program(void)
{
    execl("/bin/sh", "sh", "-c", "exit 5", (char *)NULL);
    return 1;
}

static void after_the_heap(void)
{
    for (int i = 0; i < 3; i++) {
        CHECK_IS(0, end_of(use_own_memory));
        CHECK_IS(7, end_of(leave_by_exit));
        CHECK_IS(0, end_of(fork_again));
        CHECK_IS(5, end_of(start_a_program));
        CHECK_IS(0, end_of(touch_parents));
        CHECK(is_filled(early, MIB, 1) && is_filled(ballast, 4 * MIB, 1));
    }
}

static atomic_bool stop;
static atomic_int wrong;

static void *allocate_and_touch(void *argument)
{
    uint64_t dice = (uintptr_t)argument;
    while (!stop) {
        size_t bytes = 1 + next_random(&dice) % 100000;
        char *block = malloc(bytes);
        if (block) {
            fill(block, bytes, bytes);
            wrong += !is_filled(block, bytes, bytes);
        } else {
            wrong++;
        }
        free(block);
        uint64_t page = next_random(&dice) % 1000;
        wrong += ((volatile char *)ballast)[page * PAGE] != ((volatile char *)ballast)[page * PAGE];
    }
    return NULL;
}

/* What a child of a process with threads may do. */
static int allocate_in_child(void)
{
    for (int i = 0; i < 20; i++) {
        char *block = malloc(50000);
        if (!block)
            return 1;
        memset(block, i, 50000);
        free(block);
    }
    return 0;
}

static void amid_other_threads(void)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    for (uintptr_t t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, allocate_and_touch, (void *)(t + 1)) == 0);
    int bad = 0;
    for (int i = 0; i < 60; i++)
        bad += end_of(allocate_in_child) != 0;
    stop = true;
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    CHECK_IS(0, bad);
    CHECK_IS(0, wrong);
}

/* A child finds all locks free, and the list of protected parts whole, whatever other threads did when it was forked. */
static atomic_bool has_forked;

static void *protect_in_turns(void *block)
{
    while (!has_forked) {
        mprotect(block, PAGE, PROT_READ);
        mprotect(block, PAGE, PROT_READ | PROT_WRITE);
    }
    return NULL;
}

static int unmap_and_allocate(void)
{
    char *block = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return block == MAP_FAILED || munmap(block, MIB) != 0 || calloc(1, MIB) == NULL;
}

static void while_others_protect(void)
{
    char *block = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(block != MAP_FAILED);
    pthread_t thread;
    has_forked = false;
    CHECK_IS(0, pthread_create(&thread, NULL, protect_in_turns, block));
    for (int round = 0; round < 200; round++)
        CHECK_IS(0, end_of(unmap_and_allocate));
    has_forked = true;
    pthread_join(thread, NULL);
    munmap(block, MIB);
}

/* A handler that touches memory may come while its thread holds a lock of the C library's malloc, for which a fork waits. */
static char *touched;
static atomic_bool is_over, is_wrong;

static void touch_at_random(int number)
{
    static _Thread_local uint64_t dice = 1;
    (void)number;
    for (int n = 0; n < 4; n++) {
        size_t page = next_random(&dice) % (32 * MIB / PAGE);
        if (touched[page * PAGE] != (char)(page * 7))
            is_wrong = true;
    }
}

static void *allocate_small_blocks(void *argument)
{
    void *blocks[64] = {0};
    for (unsigned round = 0; !is_over; round++) {
        unsigned n = round * 7 % 64;
        free(blocks[n]);
        blocks[n] = calloc(1, 1100 + round % 1900);
    }
    for (unsigned n = 0; n < 64; n++)
        free(blocks[n]);
    return argument;
}

static int nothing(void)
{
    return 0;
}

static void while_handlers_come_in_malloc(void)
{
    pthread_t threads[2];
    struct sigaction action = {.sa_handler = touch_at_random, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    touched = malloc(32 * MIB);
    for (size_t page = 0; page < 32 * MIB / PAGE; page++)
        memset(touched + page * PAGE, (int)(page * 7), PAGE);
    for (int n = 0; n < 2; n++)
        CHECK_IS(0, pthread_create(&threads[n], NULL, allocate_small_blocks, touched));
    for (int round = 0; round < 60; round++) {
        for (int n = 0; n < 2; n++)
            pthread_kill(threads[n], SIGUSR1);
        CHECK_IS(0, end_of(nothing));
    }
    is_over = true;
    for (int n = 0; n < 2; n++)
        pthread_join(threads[n], NULL);
    CHECK(!is_wrong);
    free(touched);
}

int main(void)
{
    early = malloc(MIB);
    fill(early, MIB, 1);
    RUN(before_the_heap);
    RUN(while_others_protect);
    RUN(start_beside);
    begin();
    RUN(both_take_over);
    RUN(after_the_heap);
    RUN(while_others_protect);
    RUN(amid_other_threads);
    RUN(while_handlers_come_in_malloc);
    return tests_failed();
}

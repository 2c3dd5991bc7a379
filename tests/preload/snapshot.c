/* snapshot.c - forked children have all memory as it was, whatever their parent does meanwhile. */
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { BLOCKS = 48, CHILDREN = 3, THREADS = 4 };

static char *blocks[BLOCKS]; /* 1 MiB each, three times the RAM */
static uint64_t version[BLOCKS];

static uint64_t seed_of(int block)
{
    return version[block] * 1000 + (uint64_t)block;
}

static void rewrite(int block)
{
    version[block]++;
    fill(blocks[block], MIB, seed_of(block));
}

static int all_are_right(void)
{
    for (int i = 0; i < BLOCKS; i++)
        if (!is_filled(blocks[i], MIB, seed_of(i)))
            return 0;
    return 1;
}

static void fill_all(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(MIB);
        CHECK(blocks[i] != NULL);
        rewrite(i);
    }
    CHECK(all_are_right());
}

static int end_of(pid_t child)
{
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int end_of_doing(int (*act)(void))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(act());
    return end_of(child);
}

static int read_all(void)
{
    return all_are_right() && all_are_right() ? 0 : 1;
}

static int write_all(void)
{
    for (int i = 0; i < BLOCKS; i++)
        rewrite(i);
    return all_are_right() ? 0 : 1;
}

static int empty_and_free(void)
{
    /* Aligned, because a block of malloc may not be. */
    uintptr_t start = ((uintptr_t)blocks[1] + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    if (madvise((void *)start, MIB - PAGE, MADV_DONTNEED) != 0 || !is_zero((char *)start, MIB - PAGE))
        return 1;
    memset((void *)start, 7, MIB - PAGE);
    if (*(char *)start != 7)
        return 2;
    free(blocks[2]);
    char *longer = realloc(blocks[3], 3 * MIB);
    return longer && is_filled(longer, MIB, seed_of(3)) && is_filled(blocks[4], MIB, seed_of(4)) ? 0 : 3;
}

/* Through the kernel: a file written from the parent's memory, and read back over it. */
static int through_a_file(void)
{
    FILE *file = tmpfile();
    int fd = file ? fileno(file) : -1;
    for (int i = 0; i < BLOCKS; i += 5)
        if (write(fd, blocks[i], MIB) != MIB)
            return 1;
    if (lseek(fd, 0, SEEK_SET) != 0)
        return 2;
    for (int i = 0; i < BLOCKS; i += 5)
        if (read(fd, blocks[BLOCKS - 1 - i], MIB) != MIB || !is_filled(blocks[BLOCKS - 1 - i], MIB, seed_of(i)))
            return 3;
    return 0;
}

static int fork_again(void)
{
    rewrite(7);
    pid_t child = fork();
    if (child == 0) {
        if (!all_are_right())
            _exit(1);
        rewrite(8);
        _exit(end_of_doing(read_all));
    }
    rewrite(9);
    int end = end_of(child);
    return end ? end : read_all();
}

static void *read_some(void *argument)
{
    uint64_t dice = (uintptr_t)argument;
    for (int i = 0; i < 20; i++) {
        int block = (int)(next_random(&dice) % BLOCKS);
        if (!is_filled(blocks[block], MIB, seed_of(block)))
            return argument;
    }
    return NULL;
}

static int with_threads(void)
{
    pthread_t threads[THREADS];
    void *wrong = NULL;
    for (uintptr_t t = 0; t < THREADS; t++)
        if (pthread_create(&threads[t], NULL, read_some, (void *)(t + 1)) != 0)
            return 1;
    for (int t = 0; t < THREADS; t++) {
        void *result;
        pthread_join(threads[t], &result);
        wrong = result ? result : wrong;
    }
    return wrong != NULL;
}

static void one_at_a_time(void)
{
    int (*acts[])(void) = {read_all, write_all, empty_and_free, through_a_file, fork_again, with_threads};
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        CHECK_IS(0, end_of_doing(acts[i]));
        CHECK(all_are_right());
    }
}

/* The parent rewrites everything while several children look. */
static void while_the_parent_writes(void)
{
    fflush(stdout);
    for (int round = 0; round < 5; round++) {
        pid_t children[CHILDREN];
        for (int c = 0; c < CHILDREN; c++) {
            children[c] = fork();
            if (children[c] == 0)
                _exit(read_all());
            for (int i = c; i < BLOCKS; i += CHILDREN)
                rewrite(i);
        }
        for (int c = 0; c < CHILDREN; c++)
            CHECK_IS(0, end_of(children[c]));
        CHECK(all_are_right());
    }
}

/* More memory is needed while a child waits than the flash has beside the child's: the parent comes first. */
static void until_the_flash_is_used_up(void)
{
    enum { MORE = 250 };
    static char *more[MORE];
    int go[2];
    char byte;
    CHECK(pipe(go) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(go[1]);
        (void)!read(go[0], &byte, 1);
        (void)!freopen("/dev/null", "w", stderr);
        _exit(read_all());
    }
    for (int i = 0; i < BLOCKS; i++)
        rewrite(i);
    for (int i = 0; i < MORE; i++) {
        CHECK((more[i] = malloc(MIB)) != NULL);
        fill(more[i], MIB, (uint64_t)i);
    }
    for (int i = 0; i < MORE; i++) {
        CHECK(is_filled(more[i], MIB, (uint64_t)i));
        free(more[i]);
    }
    close(go[1]);
    int end = end_of(child);
    CHECK(end == (on_managed_memory() ? 1000 + SIGBUS : 0));
    close(go[0]);
    CHECK(all_are_right());
    CHECK_IS(0, end_of_doing(read_all));
}

static atomic_bool stop;
static atomic_int wrong;

/* Each thread has blocks of its own, in which it counts. */
static void *count_in_blocks(void *argument)
{
    int mine = (int)(uintptr_t)argument;
    uint64_t dice = (uint64_t)mine + 1;
    while (!stop) {
        int block = mine + THREADS * (int)(next_random(&dice) % (BLOCKS / THREADS));
        uint64_t *numbers = (uint64_t *)blocks[block];
        size_t at = next_random(&dice) % (MIB / 16) * 2;
        /* Equal at any instant, except between these two. */
        __atomic_store_n(&numbers[at], numbers[at] + 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&numbers[at + 1], numbers[at], __ATOMIC_SEQ_CST);
        usleep(1000); /* or the flash would be used up while a child looks */
    }
    return NULL;
}

static int pairs_agree(void)
{
    int apart = 0;
    for (int i = 0; i < BLOCKS; i++)
        for (size_t at = 0; at < MIB / 8; at += 2) {
            uint64_t *numbers = (uint64_t *)blocks[i];
            uint64_t first = numbers[at], second = numbers[at + 1];
            if (first - second > 1)
                return 1;
            apart += first != second;
        }
    /* At most one per thread was between its two stores. */
    return apart <= THREADS ? 0 : 2;
}

static void amid_threads_that_write(void)
{
    for (int i = 0; i < BLOCKS; i++)
        memset(blocks[i], 0, MIB);
    pthread_t threads[THREADS];
    for (uintptr_t t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, count_in_blocks, (void *)t) == 0);
    for (int i = 0; i < 6; i++)
        CHECK_IS(0, end_of_doing(pairs_agree));
    stop = true;
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    CHECK_IS(0, pairs_agree());
    CHECK_IS(0, wrong);
}

int main(void)
{
    begin();
    RUN(fill_all);
    RUN(one_at_a_time);
    RUN(while_the_parent_writes);
    RUN(until_the_flash_is_used_up);
    RUN(amid_threads_that_write);
    return tests_failed();
}

/* stress.c - 100 rounds of everything at once: 16 threads, signals, forks. What is done follows from a seed. */
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { THREADS = 16, ROUNDS = 100, STEPS = 12, SHARED = 256 };

extern char **environ;

static atomic_int wrong, handled;
static pthread_mutex_t *lock; /* in managed memory */
static char *shared[SHARED];  /* of 16 KiB each, under the lock */

#define EXPECT(condition) \
    do { \
        if (!(condition) && wrong++ == 0) \
            fprintf(stderr, "line %d: not so: %s (errno %d)\n", __LINE__, #condition, errno); \
    } while (0)

static void on_signal(int number)
{
    static _Thread_local uint64_t dice = 3;
    int saved = errno;
    (void)number;
    size_t page = next_random(&dice) % (BALLAST_MIB * MIB / PAGE);
    handled += ((volatile char *)ballast)[page * PAGE] == ((volatile char *)ballast)[page * PAGE];
    errno = saved;
}

static void use_blocks(uint64_t *dice)
{
    size_t bytes = 1 + next_random(dice) % (1 << (8 + next_random(dice) % 12));
    char *block = malloc(bytes);
    EXPECT(block);
    fill(block, bytes, bytes);
    size_t more = 1 + next_random(dice) % (2 * bytes);
    block = realloc(block, more);
    EXPECT(block && is_filled(block, more < bytes ? more : bytes, bytes));
    free(block);
    block = calloc(1, bytes);
    EXPECT(block && is_zero(block, bytes));
    free(block);
}

static void use_mappings(uint64_t *dice)
{
    size_t pages = 2 + next_random(dice) % 100, cut = next_random(dice) % pages;
    char *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(memory != MAP_FAILED);
    fill(memory, pages * PAGE, 5);
    EXPECT(mprotect(memory, PAGE, PROT_READ) == 0 && mprotect(memory, PAGE, PROT_READ | PROT_WRITE) == 0);
    if (cut)
        EXPECT(madvise(memory + cut * PAGE, PAGE, MADV_DONTNEED) == 0 && is_zero(memory + cut * PAGE, PAGE));
    EXPECT(is_filled(memory, (cut ? cut : pages) * PAGE, 5));
    EXPECT(munmap(memory + cut * PAGE, (pages - cut) * PAGE) == 0);
    if (cut)
        EXPECT(munmap(memory, cut * PAGE) == 0);
}

static void use_files(uint64_t *dice)
{
    size_t bytes = 1 + next_random(dice) % 300000;
    char path[600], *out = malloc(bytes + 8 * KIB), *in = malloc(bytes + 8 * KIB);
    snprintf(path, sizeof path, "%s/stressXXXXXX", test_dir());
    int fd = mkstemp(path);
    EXPECT(fd >= 0 && unlink(path) == 0);
    fill(out, bytes, bytes);
    struct iovec list[2] = {{in, bytes / 2}, {in + bytes / 2, bytes - bytes / 2}};
    EXPECT(write(fd, out, bytes) == (ssize_t)bytes && preadv(fd, list, 2, 0) == (ssize_t)bytes);
    EXPECT(is_filled(in, bytes, bytes));
    close(fd);
    free(out);
    free(in);
}

static void use_sockets(uint64_t *dice)
{
    int ends[2];
    size_t bytes = 1 + next_random(dice) % 50000, got = 0;
    char *out = malloc(bytes + 8 * KIB), *in = malloc(bytes + 8 * KIB);
    fill(out, bytes, 9);
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && send(ends[1], out, bytes, 0) == (ssize_t)bytes);
    while (got < bytes) {
        ssize_t part = recv(ends[0], in + got, bytes - got, 0);
        EXPECT(part > 0 || errno == EINTR);
        got += part > 0 ? (size_t)part : 0;
    }
    EXPECT(is_filled(in, bytes, 9));
    close(ends[0]);
    close(ends[1]);
    free(out);
    free(in);
}

static void use_shared(uint64_t *dice)
{
    EXPECT(pthread_mutex_lock(lock) == 0);
    char *block = shared[next_random(dice) % SHARED];
    uint64_t seed;
    memcpy(&seed, block, 8);
    EXPECT(is_filled(block + 8, 16 * KIB - 8, seed));
    seed = next_random(dice);
    memcpy(block, &seed, 8);
    fill(block + 8, 16 * KIB - 8, seed);
    EXPECT(pthread_mutex_unlock(lock) == 0);
}

static void use_processes(uint64_t *dice)
{
    int status = -1;
    pid_t child;
    if (next_random(dice) % 2) {
        child = fork();
        if (child == 0) {
            char *block = malloc(100000);
            if (!block)
                _exit(1);
            memset(block, 1, 100000);
            free(block);
            _exit(0);
        }
    } else {
        char *arguments[] = {string("true"), NULL};
        EXPECT(posix_spawnp(&child, "true", NULL, NULL, arguments, environ) == 0);
        free(arguments[0]);
    }
    while (waitpid(child, &status, 0) == -1)
        EXPECT(errno == EINTR);
    EXPECT(status == 0);
}

static void *run(void *argument)
{
    uint64_t dice = (uintptr_t)argument * 1000003;
    void (*const uses[])(uint64_t *) = {use_blocks, use_mappings, use_files, use_sockets, use_shared};
    for (int step = 0; step < STEPS; step++) {
        uint64_t use = next_random(&dice) % 64;
        if (use == 63)
            use_processes(&dice);
        else
            uses[use % 5](&dice);
        if (use == 7)
            pthread_kill(pthread_self(), SIGUSR1);
    }
    return NULL;
}

static void rounds(void)
{
    uint64_t dice = 1;
    for (int round = 0; round < ROUNDS && !wrong; round++) {
        pthread_t threads[THREADS];
        for (int t = 0; t < THREADS; t++)
            CHECK(pthread_create(&threads[t], NULL, run, (void *)(uintptr_t)next_random(&dice)) == 0);
        pthread_kill(threads[next_random(&dice) % THREADS], SIGUSR1);
        if (round % 10 == 0)
            use_processes(&dice);
        for (int t = 0; t < THREADS; t++)
            pthread_join(threads[t], NULL);
    }
    CHECK_IS(0, wrong);
    CHECK(handled > 0);
}

int main(void)
{
    begin();
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    lock = malloc(8 * KIB);
    pthread_mutex_init(lock, NULL);
    for (int i = 0; i < SHARED; i++) {
        uint64_t seed = (uint64_t)i;
        shared[i] = malloc(16 * KIB);
        memcpy(shared[i], &seed, 8);
        fill(shared[i] + 8, 16 * KIB - 8, seed);
    }
    struct itimerval timer = {{0, 3000}, {0, 3000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    RUN(rounds);
    return tests_failed();
}

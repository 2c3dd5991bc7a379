/* locks.c - locks in managed memory, for which 16 threads contend while another one pushes them out. */
#include "check.h"

#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 16, ROUNDS = 3000 };

/* Each on a page of its own. */
struct locks {
    _Alignas(4096) pthread_mutex_t mutex;
    _Alignas(4096) pthread_cond_t cond;
    _Alignas(4096) pthread_rwlock_t rwlock;
    _Alignas(4096) sem_t sem;
    _Alignas(4096) pthread_barrier_t barrier;
    _Alignas(4096) mtx_t mtx;
    _Alignas(4096) cnd_t cnd;
    _Alignas(4096) pthread_once_t once;
    _Alignas(4096) long count;
    _Alignas(4096) long turn;
};

static struct locks *locks;
static atomic_bool stop;
static atomic_int wrong;

static void *keep_pushing_out(void *unused)
{
    (void)unused;
    while (!stop)
        push_out();
    return NULL;
}

static void contend(void *(*work)(void *))
{
    pthread_t threads[THREADS], pusher;
    stop = false;
    CHECK(pthread_create(&pusher, NULL, keep_pushing_out, NULL) == 0);
    for (uintptr_t t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, work, (void *)t) == 0);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    stop = true;
    pthread_join(pusher, NULL);
    CHECK_IS(0, wrong);
}

static void *count_under_mutex(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 60;
        wrong += (i % 3 ? pthread_mutex_lock(&locks->mutex) : pthread_mutex_timedlock(&locks->mutex, &until)) != 0;
        long count = locks->count;
        if (i % 64 == 0)
            thrd_yield();
        locks->count = count + 1;
        wrong += pthread_mutex_unlock(&locks->mutex) != 0;
    }
    return NULL;
}

static void mutexes(void)
{
    locks->count = 0;
    contend(count_under_mutex);
    CHECK_IS(THREADS * ROUNDS, locks->count);
}

static void *count_under_mtx(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        wrong += mtx_lock(&locks->mtx) != thrd_success;
        long count = locks->count;
        if (i % 64 == 0)
            thrd_yield();
        locks->count = count + 1;
        wrong += mtx_unlock(&locks->mtx) != thrd_success;
    }
    return NULL;
}

static void mutexes_of_c11(void)
{
    locks->count = 0;
    contend(count_under_mtx);
    CHECK_IS(THREADS * ROUNDS, locks->count);
}

/* Threads take turns, and wait for theirs. */
static void *take_turns(void *argument)
{
    for (int i = 0; i < ROUNDS / 30; i++) {
        pthread_mutex_lock(&locks->mutex);
        while (locks->turn % THREADS != (long)(uintptr_t)argument) {
            struct timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_sec += 60;
            wrong += (i % 2 ? pthread_cond_wait(&locks->cond, &locks->mutex)
                            : pthread_cond_timedwait(&locks->cond, &locks->mutex, &until)) != 0;
        }
        locks->turn++;
        pthread_cond_broadcast(&locks->cond);
        pthread_mutex_unlock(&locks->mutex);
    }
    return NULL;
}

static void conditions(void)
{
    locks->turn = 0;
    contend(take_turns);
    CHECK_IS(THREADS * (ROUNDS / 30), locks->turn);
}

static void *take_turns_of_c11(void *argument)
{
    for (int i = 0; i < ROUNDS / 30; i++) {
        mtx_lock(&locks->mtx);
        while (locks->turn % THREADS != (long)(uintptr_t)argument)
            wrong += cnd_wait(&locks->cnd, &locks->mtx) != thrd_success;
        locks->turn++;
        cnd_broadcast(&locks->cnd);
        mtx_unlock(&locks->mtx);
    }
    return NULL;
}

static void conditions_of_c11(void)
{
    locks->turn = 0;
    contend(take_turns_of_c11);
    CHECK_IS(THREADS * (ROUNDS / 30), locks->turn);
}

static void *read_and_write(void *argument)
{
    for (int i = 0; i < ROUNDS; i++) {
        if ((i + (int)(uintptr_t)argument) % 4) {
            wrong += pthread_rwlock_rdlock(&locks->rwlock) != 0;
            wrong += locks->count != locks->turn;
        } else {
            wrong += pthread_rwlock_wrlock(&locks->rwlock) != 0;
            locks->count++;
            if (i % 64 == 0)
                thrd_yield();
            locks->turn++;
        }
        wrong += pthread_rwlock_unlock(&locks->rwlock) != 0;
    }
    return NULL;
}

static void readers_and_writers(void)
{
    locks->count = locks->turn = 0;
    contend(read_and_write);
    CHECK_IS(THREADS * ROUNDS / 4, locks->count);
}

static void *wait_and_post(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        while (sem_wait(&locks->sem) != 0)
            wrong += errno != EINTR;
        long count = locks->count;
        if (i % 64 == 0)
            thrd_yield();
        locks->count = count + 1;
        wrong += sem_post(&locks->sem) != 0;
    }
    return NULL;
}

static void semaphores(void)
{
    locks->count = 0;
    contend(wait_and_post);
    CHECK_IS(THREADS * ROUNDS, locks->count);
    struct timespec *until = malloc(8 * KIB);
    CHECK(sem_wait(&locks->sem) == 0);
    clock_gettime(CLOCK_REALTIME, until);
    until->tv_nsec = until->tv_nsec / 2;
    PUSH_OUT(until, PAGE);
    CHECK(sem_timedwait(&locks->sem, until) == -1 && errno == ETIMEDOUT);
    CHECK(sem_post(&locks->sem) == 0);
    free(until);
}

static void *meet(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS / 30; i++) {
        int outcome = pthread_barrier_wait(&locks->barrier);
        wrong += outcome != 0 && outcome != PTHREAD_BARRIER_SERIAL_THREAD;
        if (outcome == PTHREAD_BARRIER_SERIAL_THREAD)
            locks->count++;
    }
    return NULL;
}

static void barriers(void)
{
    locks->count = 0;
    contend(meet);
    CHECK_IS(ROUNDS / 30, locks->count);
}

static atomic_int onces;

static void run_once(void)
{
    push_out();
    onces++;
}

static void *once(void *unused)
{
    (void)unused;
    pthread_once(&locks->once, run_once);
    return NULL;
}

static void once_only(void)
{
    contend(once);
    CHECK_IS(1, onces);
}

static void *leave_locked(void *lock)
{
    pthread_mutex_lock(lock);
    return NULL;
}

/* What locks say other than that they are taken. */
static void answers(void)
{
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_t *lock = malloc(8 * KIB);
    CHECK(pthread_mutex_init(lock, &kind) == 0);
    CHECK(pthread_mutex_lock(lock) == 0);
    CHECK_IS(EDEADLK, pthread_mutex_lock(lock));
    CHECK(pthread_mutex_unlock(lock) == 0);
    CHECK_IS(EPERM, pthread_mutex_unlock(lock));
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    CHECK(pthread_mutex_init(lock, &kind) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_mutex_lock(lock) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_mutex_unlock(lock) == 0);
    CHECK_IS(EPERM, pthread_mutex_unlock(lock));
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_NORMAL);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    CHECK(pthread_mutex_init(lock, &kind) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, leave_locked, lock) == 0 && pthread_join(thread, NULL) == 0);
    CHECK_IS(EOWNERDEAD, pthread_mutex_lock(lock));
    CHECK(pthread_mutex_consistent(lock) == 0 && pthread_mutex_unlock(lock) == 0);
    free(lock);
}

/* By its number: of the arguments only those that the operation has count, the others are addresses by accident. */
static void by_number(void)
{
    char *memory = filled(2 * PAGE, 3);
    int *word = malloc(8 * KIB);
    *word = 5;
    PUSH_OUT(memory, 2 * PAGE);
    CHECK(syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, memory, memory + PAGE) == 0);
    CHECK(is_absent(memory, 2 * PAGE));
    PUSH_OUT(word, PAGE);
    CHECK(syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 6, NULL, memory) == -1 && errno == EAGAIN);
    CHECK(is_absent(memory, 2 * PAGE));
    struct timespec *soon = malloc(8 * KIB);
    *soon = (struct timespec){0, 1000};
    PUSH_OUT(soon, PAGE);
    CHECK(syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 5, soon) == -1 && errno == ETIMEDOUT);
    PUSH_OUT(memory, 2 * PAGE);
    CHECK(syscall(SYS_futex, word, FUTEX_REQUEUE_PRIVATE, 1, 1L, memory) == 0);
    CHECK(is_filled(memory, 2 * PAGE, 3));
    errno = 0;
    free(memory);
    free(word);
    free(soon);
}

int main(void)
{
    begin();
    locks = aligned_alloc(PAGE, sizeof *locks);
    pthread_mutex_init(&locks->mutex, NULL);
    pthread_cond_init(&locks->cond, NULL);
    pthread_rwlock_init(&locks->rwlock, NULL);
    sem_init(&locks->sem, 0, 1);
    pthread_barrier_init(&locks->barrier, NULL, THREADS);
    mtx_init(&locks->mtx, mtx_plain);
    cnd_init(&locks->cnd);
    locks->once = PTHREAD_ONCE_INIT;
    RUN(mutexes);
    RUN(mutexes_of_c11);
    RUN(conditions);
    RUN(conditions_of_c11);
    RUN(readers_and_writers);
    RUN(semaphores);
    RUN(barriers);
    RUN(once_only);
    RUN(answers);
    RUN(by_number);
    return tests_failed();
}

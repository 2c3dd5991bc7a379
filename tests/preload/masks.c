/* masks.c - signal masks with everything in them, while memory is absent. */
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <time.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static char *memory; /* of 64 pages */
static volatile sig_atomic_t handled;

/* Whether memory that is not there can be used. */
static bool is_usable(void)
{
    push_out();
    return is_filled(memory, 64 * PAGE, 7);
}

static void on_signal(int number)
{
    (void)number;
    handled += is_filled(memory, 64 * PAGE, 7);
}

static void everything_blocked(void)
{
    sigset_t *all = malloc(8 * KIB), *before = malloc(8 * KIB);
    sigfillset(all);
    memset(before, 0, 8 * KIB);
    PUSH_OUT(before, PAGE);
    CHECK(sigprocmask(SIG_BLOCK, all, before) == 0 && is_usable());
    CHECK(sigismember(before, SIGBUS) == 0);
    PUSH_OUT(before, PAGE);
    CHECK(sigprocmask(SIG_SETMASK, NULL, before) == 0);
    CHECK(sigismember(before, SIGBUS) == 1 && sigismember(before, SIGINT) == 1);
    CHECK(pthread_sigmask(SIG_UNBLOCK, all, before) == 0 && sigismember(before, SIGBUS) == 1 && is_usable());
    CHECK(pthread_sigmask(SIG_SETMASK, all, NULL) == 0 && is_usable());
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGBUS);
    CHECK(sigprocmask(SIG_UNBLOCK, &one, NULL) == 0 && sigprocmask(0, NULL, before) == 0);
    CHECK(sigismember(before, SIGBUS) == 0 && sigismember(before, SIGINT) == 1);
    sigemptyset(all);
    CHECK(sigprocmask(SIG_SETMASK, all, NULL) == 0 && is_usable());
    CHECK(sigprocmask(99, all, NULL) == -1 && errno == EINVAL);
    free(all);
    free(before);
}

/* The handler runs under the mask that is waited with. */
static void waits(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t *but_one = malloc(8 * KIB), one;
    sigfillset(&action.sa_mask);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &one, NULL) == 0);
    sigfillset(but_one);
    sigdelset(but_one, SIGUSR1);
    handled = 0;
    PUSH_OUT(memory, 64 * PAGE);
    CHECK(raise(SIGUSR1) == 0 && sigsuspend(but_one) == -1 && errno == EINTR && handled == 1);
    PUSH_OUT(memory, 64 * PAGE);
    CHECK(raise(SIGUSR1) == 0 && pselect(0, NULL, NULL, NULL, NULL, but_one) == -1 && errno == EINTR && handled == 2);
    siginfo_t *info = malloc(8 * KIB);
    int *number = malloc(8 * KIB);
    sigset_t *waited = malloc(8 * KIB);
    sigfillset(waited);
    memset(info, 0, 8 * KIB);
    memset(number, 0, 8 * KIB);
    PUSH_OUT(number, PAGE);
    CHECK(raise(SIGUSR1) == 0 && sigwait(waited, number) == 0 && *number == SIGUSR1);
    PUSH_OUT(info, PAGE);
    CHECK(raise(SIGUSR1) == 0 && sigwaitinfo(waited, info) == SIGUSR1 && info->si_signo == SIGUSR1);
    struct timespec *time = malloc(8 * KIB);
    *time = (struct timespec){0, 1000};
    PUSH_OUT(info, PAGE);
    CHECK(sigtimedwait(waited, info, time) == -1 && errno == EAGAIN);
    CHECK(raise(SIGUSR1) == 0);
    PUSH_OUT(waited, PAGE);
    CHECK(sigpending(waited) == 0 && sigismember(waited, SIGUSR1) == 1);
    CHECK(sigprocmask(SIG_UNBLOCK, &one, NULL) == 0 && handled == 3);
    free(but_one);
    free(info);
    free(number);
    free(waited);
    free(time);
}

static void *keep_using(void *result)
{
    sigset_t before;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    *(bool *)result = is_usable() && sigismember(&before, SIGUSR2) == 1;
    return NULL;
}

static void inherited_by_threads(void)
{
    sigset_t all, before;
    bool *result = malloc(8 * KIB);
    pthread_t *thread = malloc(8 * KIB);
    sigfillset(&all);
    *result = false;
    memset(thread, 0, 8 * KIB);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    PUSH_OUT(thread, PAGE);
    CHECK(pthread_create(thread, NULL, keep_using, result) == 0 && pthread_join(*thread, NULL) == 0);
    CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    CHECK(*result);
    free(result);
    free(thread);
}

static void by_older_functions(void)
{
    int before = sigblock(-1);
    CHECK(before != -1 && is_usable());
    CHECK(is_usable() && sigsetmask(-1) != -1 && is_usable());
    sigsetmask(0);
    CHECK(sighold(SIGBUS) == 0 && is_usable() && sigrelse(SIGBUS) == 0);
    CHECK(sighold(SIGUSR2) == 0 && sigset(SIGUSR2, on_signal) != SIG_ERR && is_usable());
    CHECK(sigset(SIGBUS, SIG_HOLD) != SIG_ERR && is_usable() && sigset(SIGBUS, SIG_DFL) != SIG_ERR);
    CHECK(is_usable());
    errno = 0;
}

static void from_descriptors(void)
{
    sigset_t *set = malloc(8 * KIB), before;
    struct signalfd_siginfo *info = malloc(8 * KIB);
    sigemptyset(set);
    sigaddset(set, SIGUSR2);
    CHECK(sigprocmask(SIG_BLOCK, set, &before) == 0);
    memset(info, 0, 8 * KIB);
    PUSH_OUT(set, PAGE);
    int fd = signalfd(-1, set, 0);
    CHECK(fd >= 0 && raise(SIGUSR2) == 0);
    PUSH_OUT(info, PAGE);
    CHECK(read(fd, info, sizeof *info) == sizeof *info && info->ssi_signo == SIGUSR2);
    CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
    close(fd);
    free(set);
    free(info);
}

int main(void)
{
    begin();
    memory = malloc(64 * PAGE);
    fill(memory, 64 * PAGE, 7);
    RUN(everything_blocked);
    RUN(waits);
    RUN(inherited_by_threads);
    RUN(by_older_functions);
    RUN(from_descriptors);
    return tests_failed();
}

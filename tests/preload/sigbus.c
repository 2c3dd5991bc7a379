/* sigbus.c - a program's own SIGBUS. */
#include "check.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

static sigjmp_buf caught;
static volatile sig_atomic_t handled;
static void *volatile fault_address;

static void on_bus(int number, siginfo_t *info, void *context)
{
    (void)context;
    handled = number;
    fault_address = info->si_addr;
    siglongjmp(caught, 1);
}

/* A page of a file that has been cut off. */
static char *cut_off(void)
{
    int fd = open(file_name("cut"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 8192) == 0);
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(page != MAP_FAILED && ftruncate(fd, 0) == 0);
    close(fd);
    return page;
}

static void of_cut_files(void)
{
    char *page = cut_off();
    CHECK(sigsetjmp(caught, 1) || (*(volatile char *)(page + 5) = 1, false));
    CHECK(handled == SIGBUS && fault_address == page + 5);
    munmap(page, 8192);
}

static void on_plain(int number)
{
    handled = number;
}

static void asked_for(void)
{
    struct sigaction action = {.sa_handler = on_plain, .sa_flags = SA_RESTART | SA_NODEFER}, before;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaddset(&action.sa_mask, SIGBUS);
    CHECK(sigaction(SIGBUS, &action, &before) == 0 && before.sa_sigaction == on_bus);
    CHECK(before.sa_flags & SA_SIGINFO);
    memset(&before, 0, sizeof before);
    CHECK(sigaction(SIGBUS, NULL, &before) == 0 && before.sa_handler == on_plain);
    CHECK_IS(action.sa_flags, before.sa_flags & (SA_RESTART | SA_NODEFER | SA_SIGINFO | SA_ONSTACK));
    CHECK(sigismember(&before.sa_mask, SIGUSR1) == 1 && sigismember(&before.sa_mask, SIGBUS) == 1);
    CHECK(sigismember(&before.sa_mask, SIGUSR2) == 0);
    handled = 0;
    CHECK(raise(SIGBUS) == 0 && handled == SIGBUS);
    CHECK(signal(SIGBUS, SIG_IGN) == on_plain);
    CHECK(raise(SIGBUS) == 0);
    CHECK(signal(SIGBUS, SIG_DFL) == SIG_IGN);
    /* The same of another signal. */
    sigfillset(&action.sa_mask);
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0 && sigaction(SIGUSR2, NULL, &before) == 0);
    CHECK(before.sa_handler == on_plain && sigismember(&before.sa_mask, SIGBUS) == 1);
    CHECK(sigaction(999, &action, NULL) == -1 && errno == EINVAL);
    CHECK(sigaction(SIGKILL, &action, NULL) == -1 && errno == EINVAL);
    push_out();
    CHECK(is_filled(ballast, 4 * MIB, 1));
}

/* How a child ends that does something. */
static int end_of(void (*act)(void))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        act();
        _exit(99);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 1000 + WEXITSTATUS(status);
}

static void raise_it(void)
{
    raise(SIGBUS);
}

static char *cut;

static void touch_it(void)
{
    *(volatile char *)cut = 1;
}

static void kills_by_default(void)
{
    cut = cut_off();
    CHECK_IS(SIGBUS, end_of(raise_it));
    CHECK_IS(SIGBUS, end_of(touch_it));
    signal(SIGBUS, SIG_IGN);
    CHECK_IS(1099, end_of(raise_it));
    CHECK_IS(SIGBUS, end_of(touch_it));
    signal(SIGBUS, SIG_DFL);
}

/* The first handler is from before the heap took over. */
int main(void)
{
    struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &action, NULL);
    begin();
    RUN(of_cut_files);
    RUN(asked_for);
    RUN(kills_by_default);
    return tests_failed();
}

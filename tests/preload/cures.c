/* cures.c - what the rows of cures.sh run.
 *
 *   cures CASE [MIB]
 *
 * Prints "right" and ends with 0 where it has all that it asked for, with the right bytes; "refused" and 4 where it has not.
 */
#include "check.h"
#include "raw.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

static size_t mib = 48;

/* As much memory as was said, and what is in it. */
static bool fills(void)
{
    char **blocks = calloc(mib, sizeof *blocks);
    for (size_t n = 0; n < mib; n++) {
        if (!(blocks[n] = malloc(MIB)))
            return false;
        fill(blocks[n], MIB, n);
    }
    for (size_t n = 0; n < mib; n++) {
        if (!is_filled(blocks[n], MIB, n))
            exit(1);
    }
    return true;
}

/* Parent and child both need more than their RAM, at a time. */
static bool forks(void)
{
    int ready[2], done[2], status = 0;
    char byte = 0;
    if (pipe(ready) != 0 || pipe(done) != 0)
        return false;
    pid_t child = fork();
    if (child == 0) {
        close(done[1]);
        bool is_right = fills();
        close(ready[0]);
        close(ready[1]);
        _exit(read(done[0], &byte, 1) == 0 && is_right ? 0 : 4);
    }
    close(ready[1]);
    bool is_right = read(ready[0], &byte, 1) == 0 && fills();
    close(done[1]);
    return waitpid(child, &status, 0) == child && status == 0 && is_right;
}

static char *mapped(size_t bytes, int flags)
{
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

static ucontext_t here, there;
static bool has_run;

static void runs_elsewhere(void)
{
    has_run = fills();
}

static bool coroutine(void)
{
    getcontext(&there);
    there.uc_stack.ss_size = MIB;
    there.uc_stack.ss_sp = mapped(MIB, 0);
    there.uc_link = &here;
    makecontext(&there, runs_elsewhere, 0);
    swapcontext(&here, &there);
    return has_run;
}

static bool has_stack(int flags)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    return pthread_attr_setstack(&attributes, mapped(MIB, flags), MIB) == 0 && fills();
}

static bool stack(void)
{
    return has_stack(0);
}

static bool stack_mapped(void)
{
    return has_stack(MAP_STACK);
}

/* 12 MiB without access, before or after there is more than fits in RAM. */
static bool protects(bool is_late)
{
    char *kept = mapped(12 * MIB, 0);
    fill(kept, 12 * MIB, 7);
    if (is_late && !fills())
        return false;
    if (mprotect(kept, 12 * MIB, PROT_NONE) != 0)
        return false;
    if (!is_late && !fills())
        return false;
    mprotect(kept, 12 * MIB, PROT_READ);
    return is_filled(kept, 12 * MIB, 7);
}

static bool protected_late(void)
{
    return protects(true);
}

static bool protected_early(void)
{
    return protects(false);
}

static bool ring(void)
{
    char params[120] = {0};
    return syscall(SYS_io_uring_setup, 4, params) >= 0 && fills();
}

static bool aio(void)
{
    unsigned long context = 0;
    return syscall(SYS_io_setup, 4, &context) == 0 && fills();
}

static bool own_ring(void)
{
#ifdef __x86_64__
    char params[120] = {0};
    return RAW3(SYS_io_uring_setup, 4, params, 0) >= 0 && fills();
#else
    return false;
#endif
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        bool (*run)(void);
    } cases[] = {
        {"fill", fills},
        {"fork", forks},
        {"coroutine", coroutine},
        {"stack", stack},
        {"stack-mapped", stack_mapped},
        {"protected-late", protected_late},
        {"protected-early", protected_early},
        {"ring", ring},
        {"aio", aio},
        {"own-ring", own_ring},
    };
    mib = argc > 2 ? strtoul(argv[2], NULL, 10) : mib;
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        if (argc > 1 && strcmp(argv[1], cases[n].name) == 0) {
            bool is_right = cases[n].run();
            puts(is_right ? "right" : "refused");
            return is_right ? 0 : 4;
        }
    }
    return 2;
}

/* What cannot work on managed memory. Each case says what came of it in one word: "works", or the name of an error; natively all work.
 *
 *   cannot CASE
 */
#include "check.h"
#include "raw.h"
#include "ring.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>

enum { BYTES = 300 * 1000 };

static int say(const char *word)
{
    puts(word);
    return 0;
}

static int say_error(int number)
{
    return say(number == 0 ? "works" : strerrorname_np(number));
}

static int say_outcome(bool works)
{
    return say_error(works ? 0 : errno);
}

/* Memory that has left RAM, if it is managed. */
static char *absent(size_t bytes)
{
    char *memory = malloc(bytes);
    memset(memory, 5, bytes);
    for (int laps = 0; laps < 20 && !(is_absent(memory, bytes) && on_managed_memory()); laps++)
        push_out();
    return memory;
}

static int ring(void)
{
    struct io_uring_params params = {0};
    return say_outcome(syscall(SYS_io_uring_setup, 4, &params) >= 0);
}

/* By an instruction of its own, while the program has little memory. */
static int own_ring(void)
{
    enum { MORE = 40 * MIB };
    struct io_uring_params params = {0};
    long ring = RAW3(SYS_io_uring_setup, 4, &params, 0);
    char *memory = ring < 0 ? NULL : malloc(MORE);
    if (memory == NULL)
        return say_error(ring < 0 ? (int)-ring : errno);
    memset(memory, 5, MORE);
    int fd = open("/proc/self/exe", O_RDONLY);
    long answer = 0;
    for (size_t at = 0; at < MORE && answer >= 0; at += 4 * MIB)
        answer = read_by_ring((int)ring, &params, fd, memory + at, PAGE);
    return say_error(answer < 0 ? (int)-answer : 0);
}

static int aio(void)
{
    unsigned long context = 0;
    return say_outcome(syscall(SYS_io_setup, 4, &context) == 0);
}

/* Read by a child, as a debugger would. */
static int peer(void)
{
    char *memory = absent(BYTES);
    pid_t parent = getpid();
    fflush(stdout);
    if (fork() == 0) {
        static char to[BYTES];
        struct iovec source = {memory, BYTES}, target = {to, BYTES};
        bool works = process_vm_readv(parent, &target, 1, &source, 1, 0) == BYTES;
        int number = works ? 0 : errno ? errno : EFAULT;
        _exit(number);
    }
    int status;
    wait(&status);
    return say_error(WEXITSTATUS(status));
}

static ucontext_t here, there;

static void runs_elsewhere(void)
{
}

static int coroutine(void)
{
    char *stack = absent(256 * KIB);
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = 256 * KIB;
    there.uc_link = &here;
    makecontext(&there, runs_elsewhere, 0);
    for (int laps = 0; laps < 20 && on_managed_memory() && is_present(stack + 256 * KIB - PAGE); laps++)
        push_out();
    swapcontext(&here, &there);
    return say("works");
}

static int stack(void)
{
    pthread_attr_t attributes;
    char *memory = aligned_alloc(PAGE, 256 * KIB);
    pthread_attr_init(&attributes);
    return say_error(pthread_attr_setstack(&attributes, memory, 256 * KIB));
}

static int protected(void)
{
    for (int n = 0; n < 12; n++) {
        char *memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(memory, 5, MIB);
        if (mprotect(memory, MIB, PROT_READ) != 0)
            return say_error(errno);
    }
    return say("works");
}

static char *mapped(size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 5, bytes);
    return memory;
}

static int remap(void)
{
    char *from = mapped(BYTES), *to = mapped(BYTES);
    return say_outcome(mremap(from, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
}

static int wipe(void)
{
    return say_outcome(madvise(mapped(BYTES), 64 * PAGE, MADV_WIPEONFORK) == 0);
}

static int lock(void)
{
    return say_outcome(mlock(mapped(4 * PAGE), 4 * PAGE) == 0);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } cases[] = {
        {"ring", ring}, {"aio", aio},   {"peer", peer},   {"coroutine", coroutine}, {"stack", stack}, {"protected", protected},
        {"remap", remap}, {"wipe", wipe}, {"lock", lock},
    };
    if (argc < 2 || strcmp(argv[1], "start") == 0)
        return say("works");
    if (strcmp(argv[1], "own-ring") == 0)
        return own_ring();
    begin();
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        if (strcmp(argv[1], cases[n].name) == 0)
            return cases[n].run();
    }
    return 2;
}

/* refuse.c - a library to load in front of libaquifer_preload.so: the kernel refuses one of its calls
 *
 *   REFUSE=N         the N-th call fails
 *   REFUSE=N+        the N-th and all that follow
 *   REFUSE_COUNT=F   a file for how many calls there were
 *
 * Only calls of libaquifer_preload.so count, and of these only such as may fail: memory, descriptors, userfaultfd, io_uring, pipes.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static uintptr_t first, last;
static long refused_at = -1;
static bool refuses_rest;
static atomic_long calls;

static long direct(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static long outcome(long result)
{
    if (result >= 0 || result < -4095)
        return result;
    errno = (int)-result;
    return -1;
}

/* Whether this call, made by the code at `caller`, is refused. */
static bool is_refused(const void *caller)
{
    uintptr_t at = (uintptr_t)caller;
    if (at < first || at >= last)
        return false;
    long number = atomic_fetch_add(&calls, 1) + 1;
    return refused_at > 0 && (number == refused_at || (refuses_rest && number > refused_at));
}

static long refusal(int error)
{
    errno = error;
    return -1;
}

static int error_of(long number)
{
    switch (number) {
    case SYS_madvise:
    case SYS_process_madvise:
    case SYS_mmap:
    case SYS_mremap:
    case SYS_io_uring_setup:
    case SYS_io_uring_enter:
    case SYS_io_uring_register:
    case SYS_pread64:
        return ENOMEM;
    case SYS_userfaultfd:
    case SYS_openat:
    case SYS_pidfd_open:
    case SYS_memfd_create:
        return EMFILE;
    default:
        return 0;
    }
}

long syscall(long number, ...)
{
    va_list list;
    va_start(list, number);
    long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long);
    long d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
    va_end(list);
    int error = error_of(number);
    if (error && is_refused(__builtin_return_address(0)))
        return refusal(error);
    return outcome(direct(number, a, b, c, d, e, f));
}

int ioctl(int fd, unsigned long request, ...)
{
    va_list list;
    va_start(list, request);
    long argument = va_arg(list, long);
    va_end(list);
    if (is_refused(__builtin_return_address(0)))
        return (int)refusal(ENOMEM);
    return (int)outcome(direct(SYS_ioctl, fd, (long)request, argument, 0, 0, 0));
}

ssize_t vmsplice(int fd, const struct iovec *parts, size_t count, unsigned flags)
{
    if (is_refused(__builtin_return_address(0)))
        return refusal(ENOMEM);
    return outcome(direct(SYS_vmsplice, fd, (long)parts, (long)count, flags, 0, 0));
}

int pipe2(int ends[2], int flags)
{
    if (is_refused(__builtin_return_address(0)))
        return (int)refusal(EMFILE);
    return (int)outcome(direct(SYS_pipe2, (long)ends, flags, 0, 0, 0, 0));
}

static int find(struct dl_phdr_info *module, size_t bytes, void *nothing)
{
    (void)bytes, (void)nothing;
    if (!strstr(module->dlpi_name, "libaquifer_preload"))
        return 0;
    for (int n = 0; n < module->dlpi_phnum; n++) {
        const ElfW(Phdr) *part = &module->dlpi_phdr[n];
        if (part->p_type == PT_LOAD && part->p_flags & PF_X) {
            first = module->dlpi_addr + part->p_vaddr;
            last = first + part->p_memsz;
        }
    }
    return 1;
}

__attribute__((constructor)) static void begin(void)
{
    const char *asked = getenv("REFUSE");
    dl_iterate_phdr(find, NULL);
    if (asked) {
        refused_at = atol(asked);
        refuses_rest = strchr(asked, '+') != NULL;
    }
    /* Processes that the program starts are not tested. */
    unsetenv("LD_PRELOAD");
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("REFUSE_COUNT");
    if (!path)
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    char text[32], *at = text + sizeof text;
    long number = calls;
    do
        *--at = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    if (fd < 0 || write(fd, at, (size_t)(text + sizeof text - at)) < 0)
        return;
    close(fd);
}

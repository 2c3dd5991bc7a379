/* System calls by instructions of the program's own, with buffers in memory that has left RAM: Rust's rustix and OpenMP's locks make such.
 *
 *   raw_calls           the calls that are caught
 *   raw_calls thread    with `--faults thread`, which serves calls of all kinds
 */
#include "check.h"
#include "raw.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#ifdef __x86_64__

enum { BYTES = 300 * 1000 };

static int new_file(void)
{
    int fd = open(file_name("raw"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    return fd;
}

static void writes_and_reads(void)
{
    int fd = new_file();
    char *out = filled(BYTES, 2), *in = filled(BYTES, 3);
    PUSH_OUT(out, BYTES);
    CHECK_IS(BYTES, RAW3(SYS_write, fd, out, BYTES));
    PUSH_OUT(in, BYTES);
    CHECK_IS(BYTES, RAW4(SYS_pread64, fd, in, BYTES, 0));
    CHECK(is_filled(in, BYTES, 2));
    PUSH_OUT(out, BYTES);
    CHECK_IS(BYTES, RAW4(SYS_pwrite64, fd, out, BYTES, 4096));
    PUSH_OUT(in, BYTES);
    CHECK_IS(0, RAW3(SYS_lseek, fd, 0, SEEK_SET));
    CHECK_IS(BYTES, RAW3(SYS_read, fd, in, BYTES));
    CHECK(memcmp(in + 4096, out, BYTES - 4096) == 0);
    close(fd);
    free(out);
    free(in);
}

static void vectors(void)
{
    int fd = new_file();
    char *out = filled(BYTES, 4), *in = filled(BYTES, 5);
    struct iovec *list = (struct iovec *)string("");
    list[0] = (struct iovec){out, 1000};
    list[1] = (struct iovec){out + 1000, BYTES - 1000};
    PUSH_OUT(out, BYTES);
    PUSH_OUT(list, sizeof *list * 2);
    CHECK_IS(BYTES, RAW3(SYS_writev, fd, list, 2));
    list[0].iov_base = in;
    list[1].iov_base = in + 1000;
    PUSH_OUT(in, BYTES);
    CHECK_IS(BYTES, RAW4(SYS_preadv, fd, list, 2, 0));
    CHECK(is_filled(in, BYTES, 4));
    close(fd);
    free(out);
    free(in);
    free(list);
}

/* By the C library's function for calls by their numbers. */
static void by_number(void)
{
    int fd = new_file();
    char *out = filled(BYTES, 18), *in = filled(BYTES, 19), *name = string(file_name("raw"));
    PUSH_OUT(out, BYTES);
    CHECK_IS(BYTES, syscall(SYS_write, fd, out, (size_t)BYTES));
    PUSH_OUT(in, BYTES);
    CHECK_IS(BYTES, syscall(SYS_pread64, fd, in, (size_t)BYTES, 0L));
    CHECK(is_filled(in, BYTES, 18));
    PUSH_OUT(name, PAGE);
    CHECK_IS(0, syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, name, O_RDONLY, 0)));
    errno = 0;
    CHECK_IS(-1, syscall(SYS_read, -1, in, 10L));
    CHECK_IS(EBADF, errno);
    close(fd);
    free(out);
    free(in);
    free(name);
}

static void errors_are_the_kernels(void)
{
    char *in = filled(BYTES, 6);
    PUSH_OUT(in, BYTES);
    CHECK_IS(-EBADF, RAW3(SYS_read, -1, in, 10));
    CHECK_IS(-ENOENT, RAW3(SYS_open, string("/nowhere/at/all"), O_RDONLY, 0));
    CHECK_IS(-EFAULT, RAW3(SYS_clock_gettime, CLOCK_MONOTONIC, 8, 0));
    errno = 7;
    CHECK_IS(-EBADF, RAW3(SYS_write, -1, in, 10));
    CHECK_IS(7, errno);
    free(in);
}

static void names_and_answers(void)
{
    close(new_file());
    char *name = string(file_name("raw"));
    struct stat *stat = (struct stat *)filled(sizeof *stat, 7);
    struct timespec *time = (struct timespec *)filled(sizeof *time, 8);
    char *noise = filled(64, 9);
    PUSH_OUT(name, PAGE);
    PUSH_OUT(stat, PAGE);
    CHECK_IS(0, RAW4(SYS_newfstatat, AT_FDCWD, name, stat, 0));
    CHECK_IS(0, stat->st_size);
    PUSH_OUT(name, PAGE);
    long fd = RAW4(SYS_openat, AT_FDCWD, name, O_RDWR, 0);
    CHECK(fd >= 0);
    PUSH_OUT(stat, PAGE);
    CHECK_IS(0, RAW3(SYS_fstat, fd, stat, 0));
    CHECK_IS(0, RAW3(SYS_close, fd, 0, 0));
    PUSH_OUT(time, PAGE);
    CHECK_IS(0, RAW3(SYS_clock_gettime, CLOCK_REALTIME, time, 0));
    CHECK(time->tv_sec > 1000000000);
    PUSH_OUT(noise, PAGE);
    CHECK_IS(64, RAW3(SYS_getrandom, noise, 64, 0));
    CHECK(!is_filled(noise, 64, 9));
    free(name);
    free(stat);
    free(time);
    free(noise);
}

static void sockets(void)
{
    int ends[2];
    CHECK_IS(0, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    char *out = filled(5000, 10), *in = filled(5000, 11);
    PUSH_OUT(out, 5000);
    CHECK_IS(5000, raw(SYS_sendto, ends[0], (long)out, 5000, 0, 0, 0));
    PUSH_OUT(in, 5000);
    CHECK_IS(5000, raw(SYS_recvfrom, ends[1], (long)in, 5000, 0, 0, 0));
    CHECK(is_filled(in, 5000, 10));
    struct msghdr *message = (struct msghdr *)string("");
    struct iovec *list = (struct iovec *)string("");
    *list = (struct iovec){out, 5000};
    *message = (struct msghdr){.msg_iov = list, .msg_iovlen = 1};
    PUSH_OUT(out, 5000);
    PUSH_OUT(list, PAGE);
    PUSH_OUT(message, PAGE);
    CHECK_IS(5000, RAW3(SYS_sendmsg, ends[0], message, 0));
    list->iov_base = in;
    memset(in, 0, 5000);
    PUSH_OUT(in, 5000);
    CHECK_IS(5000, RAW3(SYS_recvmsg, ends[1], message, 0));
    CHECK(is_filled(in, 5000, 10));
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLOUT}, *events = (struct epoll_event *)filled(8 * sizeof event, 12);
    CHECK_IS(0, epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event));
    PUSH_OUT(events, PAGE);
    CHECK_IS(1, RAW4(SYS_epoll_wait, epoll, events, 8, 1000));
    CHECK_IS(EPOLLOUT, events[0].events);
    close(epoll);
    close(ends[0]);
    close(ends[1]);
}

/* ---- Waiting ------------------------------------------------------------- */

static uint32_t *word;

static void *wakes(void *unused)
{
    (void)unused;
    usleep(50 * 1000);
    __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
    while (RAW3(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1) == 0)
        usleep(1000);
    return NULL;
}

static void words_to_wait_for(void)
{
    pthread_t thread;
    word = (uint32_t *)filled(PAGE, 13);
    *word = 0;
    PUSH_OUT(word, PAGE);
    CHECK_IS(0, pthread_create(&thread, NULL, wakes, NULL));
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == 0) {
        long answer = RAW4(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, 0);
        CHECK(answer == 0 || answer == -EAGAIN);
        if (answer == -EAGAIN)
            break;
    }
    /* Whoever wakes goes on until somebody was woken. */
    struct timespec soon = {1, 0};
    RAW4(SYS_futex, word, FUTEX_WAIT_PRIVATE, 1, &soon);
    CHECK_IS(0, pthread_join(thread, NULL));
}

static volatile sig_atomic_t came;

static void on_signal(int signal)
{
    (void)signal;
    came = came + 1;
}

static void *interrupts(void *main_thread)
{
    usleep(50 * 1000);
    pthread_kill(*(pthread_t *)main_thread, SIGUSR1);
    return NULL;
}

/* A call that waits is interrupted by signals as always, also where the program returns from its handlers by an instruction of its own. */
static void signals_come_in(void)
{
    int ends[2];
    pthread_t self = pthread_self(), thread;
    struct sigaction action = {.sa_handler = on_signal};
    CHECK_IS(0, pipe(ends));
    CHECK_IS(0, sigaction(SIGUSR1, &action, NULL));
    char *in = filled(BYTES, 14);
    PUSH_OUT(in, BYTES);
    CHECK_IS(0, pthread_create(&thread, NULL, interrupts, &self));
    CHECK_IS(-EINTR, RAW3(SYS_read, ends[0], in, 100));
    CHECK_IS(1, came);
    CHECK_IS(0, pthread_join(thread, NULL));
    close(ends[0]);
    close(ends[1]);
    free(in);
}

/* What the program asks about SIGSYS is what it has set, and masks do not keep calls from being caught. */
static void sigsys_is_the_programs(void)
{
    struct sigaction action = {.sa_handler = on_signal}, before;
    sigset_t all, mask;
    char *out = filled(BYTES, 15);
    int fd = new_file();
    CHECK_IS(0, sigaction(SIGSYS, &action, &before));
    CHECK(before.sa_handler == SIG_DFL);
    CHECK_IS(0, sigaction(SIGSYS, NULL, &before));
    CHECK(before.sa_handler == on_signal);
    came = 0;
    CHECK_IS(0, raise(SIGSYS));
    CHECK_IS(1, came);
    sigfillset(&all);
    CHECK_IS(0, sigprocmask(SIG_SETMASK, &all, &mask));
    PUSH_OUT(out, BYTES);
    CHECK_IS(BYTES, RAW3(SYS_write, fd, out, BYTES));
    CHECK_IS(0, sigprocmask(SIG_SETMASK, &mask, &all));
    CHECK_IS(1, sigismember(&all, SIGSYS));
    CHECK_IS(0, sigismember(&mask, SIGSYS));
    action.sa_handler = SIG_DFL;
    CHECK_IS(0, sigaction(SIGSYS, &action, NULL));
    close(fd);
    free(out);
}

/* ---- Processes and threads -------------------------------------------------- */

static void children(void)
{
    char *out = filled(BYTES, 16);
    int fd = new_file(), status;
    PUSH_OUT(out, BYTES);
    pid_t pid = fork();
    if (pid == 0) {
        /* It waits for a page first. */
        volatile char byte = ballast[5 * MIB];
        (void)byte;
        _exit(RAW3(SYS_write, fd, out, BYTES) == BYTES ? 0 : 1);
    }
    CHECK(pid > 0);
    CHECK_IS(pid, waitpid(pid, &status, 0));
    CHECK_IS(0, status);
    /* A child by an instruction of the program's own. */
    pid = (pid_t)raw(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
    if (pid == 0)
        raw(SYS_exit_group, 3, 0, 0, 0, 0, 0);
    CHECK(pid > 0);
    CHECK_IS(pid, waitpid(pid, &status, 0));
    CHECK_IS(3, WEXITSTATUS(status));
    close(fd);
    free(out);
}

struct job {
    int fd;
    char *out;
    long answer;
};

static void *writes(void *argument)
{
    struct job *job = argument;
    job->answer = RAW3(SYS_write, job->fd, job->out, BYTES);
    return NULL;
}

/* A thread whose first deed on managed memory is such a call. */
static void new_threads(void)
{
    pthread_t thread;
    struct job job = {new_file(), filled(BYTES, 17), 0};
    PUSH_OUT(job.out, BYTES);
    CHECK_IS(0, pthread_create(&thread, NULL, writes, &job));
    CHECK_IS(0, pthread_join(thread, NULL));
    CHECK_IS(BYTES, job.answer);
    close(job.fd);
    free(job.out);
}

/* A thread from before the takeover, whose first deed on managed memory is that of a child which shares its memory until it ends. */
static int starts[2];
static struct job early;
static char *name_of_file;

static void *has_a_child(void *unused)
{
    char byte;
    int status;
    (void)unused;
    if (read(starts[0], &byte, 1) != 1)
        return NULL;
    pid_t pid = vfork();
    if (pid == 0)
        _exit(access(name_of_file, F_OK));
    waitpid(pid, &status, 0);
    byte = *(volatile char *)(ballast + 7 * MIB);
    writes(&early);
    return NULL;
}

static pthread_t early_thread;

static void children_that_share_memory(void)
{
    early = (struct job){new_file(), filled(BYTES, 22), 0};
    name_of_file = string(file_name("raw"));
    PUSH_OUT(early.out, BYTES);
    CHECK_IS(1, write(starts[1], "", 1));
    CHECK_IS(0, pthread_join(early_thread, NULL));
    CHECK_IS(BYTES, early.answer);
    close(early.fd);
    free(early.out);
    free(name_of_file);
}

/* A call that is not caught, and for which the kernel waits for pages. */
static void memory_of_processes(void)
{
    char *from = filled(BYTES, 20), *to = filled(BYTES, 21);
    struct iovec source = {from, BYTES}, target = {to, BYTES};
    PUSH_OUT(from, BYTES);
    PUSH_OUT(to, BYTES);
    CHECK_IS(BYTES, raw(SYS_process_vm_readv, getpid(), (long)&target, 1, (long)&source, 1, 0));
    CHECK(is_filled(to, BYTES, 20));
    free(from);
    free(to);
}

int main(int argc, char **argv)
{
    bool by_thread = argc > 1 && strcmp(argv[1], "thread") == 0;
    if (pipe(starts) != 0 || pthread_create(&early_thread, NULL, has_a_child, NULL) != 0)
        return 1;
    begin();
    if (by_thread)
        RUN(memory_of_processes);
    RUN(writes_and_reads);
    RUN(vectors);
    RUN(by_number);
    RUN(errors_are_the_kernels);
    RUN(names_and_answers);
    RUN(sockets);
    RUN(words_to_wait_for);
    RUN(signals_come_in);
    RUN(sigsys_is_the_programs);
    if (!by_thread)
        RUN(children);
    RUN(new_threads);
    RUN(children_that_share_memory);
    return tests_failed();
}

#else

int main(void)
{
    puts("ok: such calls are caught on x86-64 alone");
    return 0;
}

#endif

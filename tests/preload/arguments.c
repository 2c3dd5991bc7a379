/* arguments.c - structures that the kernel reads or fills, in memory that is not there. */
#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>

static void *room; /* 64 KiB, pushed out by each use of OUT */

#define OUT(type) ((type *)(out_of_ram(), room))

static void out_of_ram(void)
{
    memset(room, 0, 64 * KIB);
    PUSH_OUT(room, 64 * KIB);
}

static void of_files(void)
{
    int fd = open(file_name("file"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, "hello", 5) == 5);
    struct stat *status = OUT(struct stat);
    CHECK(fstat(fd, status) == 0 && status->st_size == 5);
    status = OUT(struct stat);
    CHECK(stat(file_name("file"), status) == 0 && status->st_size == 5);
    status = OUT(struct stat);
    CHECK(lstat(file_name("file"), status) == 0 && status->st_size == 5);
    status = OUT(struct stat);
    CHECK(fstatat(AT_FDCWD, file_name("file"), status, 0) == 0 && status->st_size == 5);
    struct statx *more = OUT(struct statx);
    CHECK(statx(AT_FDCWD, file_name("file"), 0, STATX_SIZE, more) == 0 && more->stx_size == 5);
    struct statfs *system = OUT(struct statfs);
    CHECK(fstatfs(fd, system) == 0 && system->f_bsize > 0);
    system = OUT(struct statfs);
    CHECK(statfs("/", system) == 0 && system->f_bsize > 0);
    struct statvfs *other = OUT(struct statvfs);
    CHECK(statvfs("/", other) == 0 && other->f_bsize > 0);
    struct timespec *times = OUT(struct timespec);
    times[0].tv_sec = times[1].tv_sec = 1000;
    PUSH_OUT(room, PAGE);
    CHECK(futimens(fd, times) == 0 && fstat(fd, OUT(struct stat)) == 0 && ((struct stat *)room)->st_mtime == 1000);
    close(fd);
}

static void locks_of_files(void)
{
    int fd = open(file_name("file"), O_RDWR | O_CREAT, 0600);
    struct flock *lock = OUT(struct flock);
    *lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
    PUSH_OUT(room, PAGE);
    CHECK(fcntl(fd, F_SETLK, lock) == 0);
    fflush(stdout);
    pid_t parent = getpid(), child = fork();
    if (child == 0) { /* on its own stack */
        struct flock asked = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
        _exit(fcntl(fd, F_GETLK, &asked) == 0 && asked.l_type == F_WRLCK && asked.l_pid == parent ? 7 : 1);
    }
    int *status = OUT(int);
    CHECK(waitpid(child, status, 0) == child && WEXITSTATUS(*status) == 7);
    lock = OUT(struct flock);
    *lock = (struct flock){.l_type = F_RDLCK, .l_whence = SEEK_SET};
    PUSH_OUT(room, PAGE);
    CHECK(fcntl(fd, F_GETLK, lock) == 0 && lock->l_type == F_UNLCK);
    CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0 && (fcntl(fd, F_GETFL) & O_NONBLOCK));
    close(fd);
}

static void names(void)
{
    char expected[PATH_MAX];
    CHECK(getcwd(expected, sizeof expected));
    char *name = OUT(char);
    CHECK(getcwd(name, 64 * KIB) == name && strcmp(name, expected) == 0);
    CHECK(getcwd(name, 1) == NULL && errno == ERANGE);
    unlink(file_name("link"));
    CHECK(symlink("to somewhere", file_name("link")) == 0);
    name = OUT(char);
    CHECK(readlink(file_name("link"), name, 64 * KIB) == 12 && memcmp(name, "to somewhere", 12) == 0);
    name = OUT(char);
    CHECK(readlinkat(AT_FDCWD, file_name("link"), name, 5) == 5 && memcmp(name, "to so", 6) == 0);
    name = OUT(char);
    CHECK(realpath(test_dir(), name) == name && name[0] == '/');
    struct utsname *system = OUT(struct utsname);
    CHECK(uname(system) == 0 && strcmp(system->sysname, "Linux") == 0);
    name = OUT(char);
    CHECK(gethostname(name, 1000) == 0 && strlen(name) > 0);
}

static void directories(void)
{
    int fd = open("/proc/self", O_RDONLY | O_DIRECTORY);
    char *entries = OUT(char);
    CHECK(fd >= 0);
    CHECK(getdents64(fd, entries, 64 * KIB) > 500);
    close(fd);
    DIR *directory = opendir("/proc/self");
    int count = 0;
    CHECK(directory);
    while (readdir(directory))
        count++;
    CHECK(count > 20);
    closedir(directory);
    struct dirent **list = NULL;
    char *name = string("/proc/self");
    PUSH_OUT(name, PAGE);
    count = scandir(name, &list, NULL, alphasort);
    CHECK(count > 20);
    for (int i = 0; i < count; i++)
        free(list[i]);
    free(list);
    free(name);
}

static void random_bytes(void)
{
    size_t bytes = 5 * MIB;
    char *memory = calloc(1, bytes);
    PUSH_OUT(memory, bytes);
    CHECK_IS(bytes, getrandom(memory, bytes, 0));
    for (size_t at = 0; at + 64 <= bytes; at += PAGE)
        CHECK(!is_zero(memory + at, 64));
    memset(memory, 0, PAGE);
    PUSH_OUT(memory, PAGE);
    CHECK(getentropy(memory, 256) == 0 && !is_zero(memory, 256));
    CHECK(getentropy(memory, 257) == -1);
    free(memory);
}

static void of_processes(void)
{
    struct rusage *usage = OUT(struct rusage);
    CHECK(getrusage(RUSAGE_SELF, usage) == 0 && usage->ru_maxrss > 0);
    struct rlimit *limit = OUT(struct rlimit);
    CHECK(getrlimit(RLIMIT_NOFILE, limit) == 0 && limit->rlim_cur > 0);
    PUSH_OUT(room, PAGE);
    CHECK(setrlimit(RLIMIT_NOFILE, limit) == 0);
    limit = OUT(struct rlimit);
    CHECK(prlimit(0, RLIMIT_NOFILE, NULL, limit) == 0 && limit->rlim_cur > 0);
    struct sysinfo *info = OUT(struct sysinfo);
    CHECK(sysinfo(info) == 0 && info->totalram > 0);
    cpu_set_t *set = OUT(cpu_set_t);
    CHECK(sched_getaffinity(0, sizeof *set, set) == 0 && CPU_COUNT(set) > 0);
    PUSH_OUT(room, PAGE);
    CHECK(sched_setaffinity(0, sizeof *set, set) == 0);
    struct itimerval *timer = OUT(struct itimerval);
    CHECK(setitimer(ITIMER_VIRTUAL, timer, NULL) == 0);
    timer = OUT(struct itimerval);
    CHECK(getitimer(ITIMER_VIRTUAL, timer) == 0);
    struct tms *ticks = OUT(struct tms);
    CHECK(times(ticks) > 0);
    gid_t *groups = OUT(gid_t);
    CHECK(getgroups(1000, groups) >= 0);
    uid_t *users = OUT(uid_t);
    CHECK(getresuid(users, users + 1, users + 2) == 0 && users[0] == getuid());
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    siginfo_t *ended = OUT(siginfo_t);
    CHECK(waitid(P_PID, (id_t)child, ended, WEXITED | WNOWAIT) == 0 && ended->si_status == 3);
    int *status = OUT(int);
    CHECK(wait(status) == child && WEXITSTATUS(*status) == 3);
}

static void window_sizes(void)
{
    int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    if (fd < 0)
        return;
    struct winsize *size = OUT(struct winsize);
    *size = (struct winsize){.ws_row = 11, .ws_col = 22};
    PUSH_OUT(room, PAGE);
    CHECK(ioctl(fd, TIOCSWINSZ, size) == 0);
    size = OUT(struct winsize);
    CHECK(ioctl(fd, TIOCGWINSZ, size) == 0 && size->ws_row == 11 && size->ws_col == 22);
    close(fd);
}

int main(void)
{
    begin();
    room = malloc(64 * KIB);
    RUN(of_files);
    RUN(locks_of_files);
    RUN(names);
    RUN(directories);
    RUN(random_bytes);
    RUN(of_processes);
    RUN(window_sizes);
    return tests_failed();
}

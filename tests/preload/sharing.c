/* sharing.c - system calls with small blocks, which share their pages with others and lie across their borders. All of them are managed. */
#include "check.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>

enum { ROUNDS = 6, PLACES = 24 };

extern char **environ;

/* A block between others of its size, of which some lie across the border of two pages. */
static void *between(size_t bytes, int place)
{
    void *blocks[PLACES];
    for (int i = 0; i < PLACES; i++)
        CHECK((blocks[i] = malloc(bytes)) != NULL);
    void *chosen = blocks[place % PLACES];
    for (int i = 0; i < PLACES; i++) {
        memset(blocks[i], 0, bytes);
        if (blocks[i] != chosen && i % 2)
            free(blocks[i]);
    }
    push_out();
    return chosen;
}

#define NEW(type) ((type *)between(sizeof(type), round * 7))

static char *text(const char *string, int round)
{
    char *copy = between(strlen(string) + 1, round * 5);
    strcpy(copy, string);
    push_out();
    return copy;
}

static void files(int round)
{
    char *name = text(file_name("sharing"), round), *other = text(file_name("sharing.other"), round);
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    struct iovec *vector = between(3 * sizeof *vector, round);
    char *parts[3];
    for (int i = 0; i < 3; i++) {
        parts[i] = between(40, round + i);
        fill(parts[i], 40, (uint64_t)i);
        vector[i] = (struct iovec){parts[i], 40};
    }
    push_out();
    CHECK_IS(120, writev(fd, vector, 3));
    for (int i = 0; i < 3; i++)
        memset(parts[i], 0, 40);
    push_out();
    CHECK_IS(120, preadv(fd, vector, 3, 0));
    for (int i = 0; i < 3; i++)
        CHECK(is_filled(parts[i], 40, (uint64_t)i));
    struct stat *stat_ = NEW(struct stat);
    CHECK(fstat(fd, stat_) == 0 && stat_->st_size == 120);
    push_out();
    CHECK(stat(name, stat_) == 0 && stat_->st_size == 120);
    struct timespec *times = between(2 * sizeof *times, round);
    times[0] = times[1] = (struct timespec){1000 + round, 5};
    push_out();
    CHECK(futimens(fd, times) == 0);
    CHECK(rename(name, other) == 0 && lstat(other, stat_) == 0 && stat_->st_mtime == 1000 + round);
    CHECK(close(fd) == 0);
    FILE *stream = fopen(other, "r+");
    CHECK(stream && setvbuf(stream, between(1000, round), _IOFBF, 1000) == 0);
    CHECK(fread(parts[0], 40, 1, stream) == 1 && is_filled(parts[0], 40, 0));
    push_out();
    CHECK(fseek(stream, 0, SEEK_END) == 0 && fputs(text("end", round), stream) >= 0);
    push_out();
    CHECK(fclose(stream) == 0 && stat(other, stat_) == 0 && stat_->st_size == 123);
    CHECK(unlink(other) == 0);
}

static void sockets(int round)
{
    int *pair = between(2 * sizeof *pair, round);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    int queue = epoll_create1(0);
    struct epoll_event *event = NEW(struct epoll_event), *events = between(4 * sizeof *events, round);
    event->events = EPOLLIN;
    event->data.fd = pair[1];
    push_out();
    CHECK(queue >= 0 && epoll_ctl(queue, EPOLL_CTL_ADD, pair[1], event) == 0);
    CHECK(write(pair[0], text("word", round), 5) == 5);
    push_out();
    CHECK(epoll_wait(queue, events, 4, 1000) == 1 && events[0].data.fd == pair[1]);
    struct pollfd *polled = NEW(struct pollfd);
    *polled = (struct pollfd){pair[1], POLLIN, 0};
    push_out();
    CHECK(poll(polled, 1, 1000) == 1 && polled->revents == POLLIN);
    fd_set *set = NEW(fd_set);
    struct timeval *wait = NEW(struct timeval);
    FD_ZERO(set);
    FD_SET(pair[1], set);
    wait->tv_sec = 1;
    push_out();
    CHECK(select(pair[1] + 1, set, NULL, NULL, wait) == 1 && FD_ISSET(pair[1], set));
    struct msghdr *message = NEW(struct msghdr);
    struct iovec *vector = NEW(struct iovec);
    char *word = between(24, round);
    *vector = (struct iovec){word, 24};
    *message = (struct msghdr){.msg_iov = vector, .msg_iovlen = 1};
    push_out();
    CHECK(recvmsg(pair[1], message, 0) == 5 && strcmp(word, "word") == 0);
    struct sockaddr_un *address = NEW(struct sockaddr_un);
    socklen_t *len = NEW(socklen_t);
    *len = sizeof *address;
    push_out();
    CHECK(getsockname(pair[0], (struct sockaddr *)address, len) == 0 && address->sun_family == AF_UNIX);
    int *kind = NEW(int);
    *len = sizeof *kind;
    push_out();
    CHECK(getsockopt(pair[0], SOL_SOCKET, SO_TYPE, kind, len) == 0 && *kind == SOCK_STREAM);
    CHECK(close(pair[0]) == 0 && close(pair[1]) == 0 && close(queue) == 0);
}

static volatile sig_atomic_t came;

static void on_signal(int signal)
{
    came = signal;
}

static void signals_and_clocks(int round)
{
    struct sigaction *action = NEW(struct sigaction), *before = NEW(struct sigaction);
    action->sa_handler = on_signal;
    push_out();
    CHECK(sigaction(SIGUSR1, action, before) == 0);
    sigset_t *set = NEW(sigset_t), *old = NEW(sigset_t);
    sigaddset(set, SIGUSR1);
    push_out();
    CHECK(sigprocmask(SIG_BLOCK, set, old) == 0 && raise(SIGUSR1) == 0 && came == 0);
    struct timespec *time_ = NEW(struct timespec);
    siginfo_t *info = NEW(siginfo_t);
    CHECK(sigtimedwait(set, info, time_) == SIGUSR1 && info->si_signo == SIGUSR1);
    push_out();
    CHECK(sigprocmask(SIG_SETMASK, old, NULL) == 0 && raise(SIGUSR1) == 0 && came == SIGUSR1);
    came = 0;
    push_out();
    CHECK(sigaction(SIGUSR1, before, NULL) == 0);
    CHECK(clock_gettime(CLOCK_REALTIME, time_) == 0 && time_->tv_sec > 0);
    *time_ = (struct timespec){0, 1000};
    push_out();
    CHECK(nanosleep(time_, time_) == 0);
    struct utsname *name = NEW(struct utsname);
    struct rusage *usage = NEW(struct rusage);
    struct rlimit *limit = NEW(struct rlimit);
    CHECK(uname(name) == 0 && strcmp(name->sysname, "Linux") == 0);
    CHECK(getrusage(RUSAGE_SELF, usage) == 0 && usage->ru_maxrss > 0);
    CHECK(getrlimit(RLIMIT_NOFILE, limit) == 0 && limit->rlim_max > 0);
}

struct shared {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    sem_t semaphore;
    pthread_key_t key;
    int turn;
};

static void *take_turns(void *argument)
{
    struct shared *shared = argument;
    CHECK(pthread_setspecific(shared->key, malloc(20)) == 0);
    for (int i = 0; i < 10; i++) {
        pthread_mutex_lock(&shared->mutex);
        while (shared->turn % 2 == 0)
            pthread_cond_wait(&shared->changed, &shared->mutex);
        shared->turn++;
        pthread_cond_signal(&shared->changed);
        pthread_mutex_unlock(&shared->mutex);
        sem_post(&shared->semaphore);
    }
    return NULL;
}

static void locks(int round)
{
    struct shared *shared = NEW(struct shared);
    pthread_attr_t *attributes = NEW(pthread_attr_t);
    pthread_t *thread = NEW(pthread_t);
    pthread_mutex_init(&shared->mutex, NULL);
    pthread_cond_init(&shared->changed, NULL);
    CHECK(sem_init(&shared->semaphore, 0, 0) == 0 && pthread_key_create(&shared->key, free) == 0);
    CHECK(pthread_attr_init(attributes) == 0 && pthread_attr_setstacksize(attributes, 256 * KIB) == 0);
    push_out();
    CHECK(pthread_create(thread, attributes, take_turns, shared) == 0);
    for (int i = 0; i < 10; i++) {
        push_out();
        pthread_mutex_lock(&shared->mutex);
        while (shared->turn % 2 == 1)
            pthread_cond_wait(&shared->changed, &shared->mutex);
        shared->turn++;
        pthread_cond_signal(&shared->changed);
        pthread_mutex_unlock(&shared->mutex);
    }
    for (int i = 0; i < 10; i++)
        CHECK(sem_wait(&shared->semaphore) == 0);
    CHECK(pthread_join(*thread, NULL) == 0 && shared->turn == 20 && pthread_key_delete(shared->key) == 0);
}

/* How a child ends that becomes a shell: 7 if it has all its arguments, of which some come in no register. */
static void one_by_one(int round)
{
    char *shell = text("/bin/sh", round), *command = text("exit $(($# + 0$WORD))", round), *name = text("sh", round);
    char *word = text("word", round), *environment[] = {text("WORD=1", round), NULL};
    for (int how = 0; how < 3; how++) {
        fflush(stdout);
        push_out();
        pid_t child = fork();
        if (child == 0) {
            unsetenv("WORD");
            if (how == 0)
                execl(shell, name, "-c", command, word, word, word, word, word, word, word, word, (char *)NULL);
            else if (how == 1)
                execlp(name, name, "-c", command, word, word, word, word, word, word, word, word, (char *)NULL);
            else
                execle(shell, name, "-c", command, word, word, word, word, word, word, word, (char *)NULL, environment);
            _exit(99);
        }
        int status = 0;
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK_IS(7, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
    errno = 0;
    CHECK(execl(text("/no/such/program", round), name, word, word, word, word, word, word, word, (char *)NULL) == -1);
    CHECK_IS(ENOENT, errno);
}

static void programs(int round)
{
    char **arguments = between(4 * sizeof *arguments, round);
    arguments[0] = text("sh", round);
    arguments[1] = text("-c", round);
    arguments[2] = text("test \"$SHARING\" = of-small-blocks && cat", round);
    putenv(text("SHARING=of-small-blocks", round));
    posix_spawn_file_actions_t *actions = NEW(posix_spawn_file_actions_t);
    posix_spawnattr_t *attributes = NEW(posix_spawnattr_t);
    char *empty = text("/dev/null", round);
    CHECK(posix_spawn_file_actions_init(actions) == 0 && posix_spawnattr_init(attributes) == 0);
    CHECK(posix_spawn_file_actions_addopen(actions, 0, empty, O_RDONLY, 0) == 0);
    pid_t *child = NEW(pid_t);
    int *status = NEW(int);
    push_out();
    CHECK(posix_spawn(child, text("/bin/sh", round), actions, attributes, arguments, environ) == 0);
    push_out();
    CHECK(waitpid(*child, status, 0) == *child && *status == 0);
    char *command = text("test \"$SHARING\" = of-small-blocks", round);
    CHECK_IS(0, system(command));
    fflush(stdout);
    if ((*child = fork()) == 0) {
        arguments[2] = command;
        execv("/bin/sh", arguments);
        _exit(99);
    }
    push_out();
    CHECK(*child > 0 && waitpid(*child, status, 0) == *child && *status == 0);
    one_by_one(round);
    char *directory = between(300, round);
    CHECK(getcwd(directory, 300) != NULL && directory[0] == '/');
}

#define EACH_ROUND(test) \
    static void test##_in_small_blocks(void) \
    { \
        for (int round = 0; round < ROUNDS; round++) \
            test(round); \
    }

EACH_ROUND(files)
EACH_ROUND(sockets)
EACH_ROUND(signals_and_clocks)
EACH_ROUND(locks)
EACH_ROUND(programs)

int main(void)
{
    begin();
    RUN(files_in_small_blocks);
    RUN(sockets_in_small_blocks);
    RUN(signals_and_clocks_in_small_blocks);
    RUN(locks_in_small_blocks);
    RUN(programs_in_small_blocks);
    return tests_failed();
}

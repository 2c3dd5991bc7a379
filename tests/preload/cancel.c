/* cancel.c - threads that are cancelled while they wait in a call. */
#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>

static int ends[2];
static FILE *lines; /* of what arrives */
static sem_t *empty;
static pthread_mutex_t *lock;
static pthread_cond_t *cond;
static atomic_int cleaned;

static void clean(void *unused)
{
    (void)unused;
    cleaned++;
}

static void unlock(void *unused)
{
    (void)unused;
    cleaned++;
    pthread_mutex_unlock(lock);
}

enum how { READ, READ_TO_STACK, STREAM, RECVMSG, POLL, SEM, COND, SUSPEND, SLEEP, HOWS };

static void *wait_for_ever(void *argument)
{
    char on_stack[100], *memory = malloc(64 * KIB);
    struct pollfd list = {ends[0], POLLIN, 0};
    struct iovec buffer = {memory, 64 * KIB};
    struct msghdr message = {.msg_iov = &buffer, .msg_iovlen = 1};
    struct timespec long_time = {1000, 0};
    sigset_t none;
    sigemptyset(&none);
    pthread_cleanup_push(clean, NULL);
    switch ((enum how)(uintptr_t)argument) {
    case READ: (void)!read(ends[0], memory, 64 * KIB); break;
    case READ_TO_STACK: (void)!read(ends[0], on_stack, sizeof on_stack); break;
    case STREAM: (void)!fgetc(lines); break;
    case RECVMSG: recvmsg(ends[0], &message, 0); break;
    case POLL: poll(&list, 1, -1); break;
    case SEM: sem_wait(empty); break;
    case COND:
        pthread_mutex_lock(lock);
        pthread_cleanup_push(unlock, NULL);
        for (;;)
            pthread_cond_wait(cond, lock);
        pthread_cleanup_pop(1);
        break;
    case SUSPEND: sigsuspend(&none); break;
    default: nanosleep(&long_time, NULL);
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void each(void)
{
    for (uintptr_t how = READ; how < HOWS; how++) {
        pthread_t thread;
        void *result = NULL;
        cleaned = 0;
        CHECK(pthread_create(&thread, NULL, wait_for_ever, (void *)how) == 0);
        struct timespec time = {0, 20000000};
        nanosleep(&time, NULL);
        push_out();
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
        CHECK(result == PTHREAD_CANCELED);
        CHECK_IS(how == COND ? 2 : 1, cleaned);
    }
}

/* What natively is no point of cancellation is none on managed memory either. */
static void *use_memory_while_cancelled(void *argument)
{
    char **blocks = argument;
    while (!cleaned)
        sched_yield();
    pthread_cleanup_push(clean, NULL);
    for (int n = 0; n < 8; n++) {
        if (!is_filled(blocks[n], MIB, (uint64_t)n))
            _exit(1);
        blocks[n][7] = 1;
        mprotect(blocks[n], PAGE, PROT_READ);
        mprotect(blocks[n], PAGE, PROT_READ | PROT_WRITE);
        free(blocks[n]);
        blocks[n] = calloc(1, MIB);
    }
    cleaned = 10;
    for (;;)
        pthread_testcancel();
    pthread_cleanup_pop(0);
    return NULL;
}

static void while_memory_is_used(void)
{
    char *blocks[8];
    pthread_t thread;
    void *result;
    for (uint64_t n = 0; n < 8; n++)
        blocks[n] = filled(MIB, n);
    push_out();
    cleaned = 0;
    CHECK_IS(0, pthread_create(&thread, NULL, use_memory_while_cancelled, blocks));
    CHECK_IS(0, pthread_cancel(thread));
    cleaned = 1;
    CHECK_IS(0, pthread_join(thread, &result));
    CHECK(result == PTHREAD_CANCELED);
    CHECK_IS(11, cleaned);
    for (int n = 0; n < 8; n++) {
        CHECK(is_zero(blocks[n], MIB));
        free(blocks[n]);
    }
}

int main(void)
{
    begin();
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return 1;
    lines = fdopen(dup(ends[0]), "r");
    if (!lines || setvbuf(lines, malloc(64 * KIB), _IOFBF, 64 * KIB) != 0)
        return 1;
    empty = malloc(8 * KIB);
    lock = malloc(8 * KIB);
    cond = malloc(8 * KIB);
    sem_init(empty, 0, 0);
    pthread_mutex_init(lock, NULL);
    pthread_cond_init(cond, NULL);
    RUN(each);
    RUN(while_memory_is_used);
    return tests_failed();
}

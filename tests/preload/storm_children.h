/* storm_children.h - processes that the storm forks and starts, and the blocks that all threads share */
#ifndef STORM_CHILDREN_H
#define STORM_CHILDREN_H

#include "storm_calls.h"

#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { SHARED = 12, FROZEN_BYTES = 1 << 20 };

extern char **environ;

/* Never written after the start, so that handlers and all processes may look at it. */
static struct block frozen;
/* Each under its lock, which lies in a block too. */
static struct block shared[SHARED];
static pthread_mutex_t *shared_locks[SHARED];

static void verify_frozen(uint64_t dice)
{
    size_t from = next_random(&dice) % (frozen.bytes - 256);
    with_block(&frozen, from, from + 256, "what never changes");
}

static void use_shared(struct worker *w)
{
    unsigned n = (unsigned)roll(w, SHARED);
    struct block *b = &shared[n];
    MUST(pthread_mutex_lock(shared_locks[n]) == 0);
    verify_some(w, b, "a shared block");
    b->key = new_key(w);
    with_block(b, 0, b->bytes, NULL);
    MUST(pthread_mutex_unlock(shared_locks[n]) == 0);
}

static void make_shared(struct worker *w)
{
    for (int n = 0; n < SHARED; n++) {
        shared[n] = (struct block){.bytes = 1 + roll(w, 100 * KIB), .key = new_key(w)};
        shared[n].memory = malloc(shared[n].bytes);
        shared_locks[n] = malloc(4 * KIB + roll(w, 2 * PAGE));
        MUST(shared[n].memory != NULL && shared_locks[n] != NULL);
        MUST(pthread_mutex_init(shared_locks[n], NULL) == 0);
        with_block(&shared[n], 0, shared[n].bytes, NULL);
    }
}

static void end_shared(void)
{
    for (int n = 0; n < SHARED; n++) {
        verify(&shared[n], "a shared block at the end");
        free(shared[n].memory);
        free(shared_locks[n]);
    }
}

/* ---- Forked processes ------------------------------------------------------ */

/* How a child ended: as it should, or as it may where something is missing. */
static void expect_end(pid_t pid, int status, bool is_program)
{
    if (is_program && (may_be_refused || may_lose_flash))
        return;
    bool is_killed = WIFSIGNALED(status) && (WTERMSIG(status) == SIGBUS || WTERMSIG(status) == SIGSEGV);
    if (status != 0 && !(is_killed && (may_be_refused || may_lose_flash)))
        wrong("child %d ended with status %x", (int)pid, (unsigned)status);
}

/* Waits for a child, with what the call tells in a block. */
static void await(struct worker *w, pid_t pid, bool is_program)
{
    struct block *b = some_block(w);
    bool has_room = b != NULL && b->bytes >= 4 * sizeof(struct rusage);
    struct {
        int status;
        struct rusage usage;
    } own, *told = has_room ? (void *)(((uintptr_t)b->memory + 15) & ~(uintptr_t)15) : (void *)&own;
    pid_t ended;
    while ((ended = wait4(pid, &told->status, 0, &told->usage)) < 0 && errno == EINTR)
        ;
    if (ended < 0 && may_lose_flash && errno == EFAULT) {
        told = (void *)&own;
        while ((ended = wait4(pid, &told->status, 0, NULL)) < 0 && errno == EINTR)
            ;
        /* The child is known to have ended if the first call found it. */
        own.status = ended < 0 ? 0 : own.status;
        ended = pid;
    }
    MUST(ended == pid);
    int status = told->status;
    if (told != (void *)&own)
        with_block(b, 0, sizeof own + 16, NULL);
    expect_end(pid, status, is_program);
}

static void verify_all(struct worker *w, const char *doing)
{
    for (size_t n = 0; n < w->blocks_count; n++)
        verify(&w->blocks[n], doing);
}

static void verify_sample(struct worker *w, const char *doing)
{
    for (int n = 0; n < 6 && w->blocks_count > 0; n++)
        verify_some(w, some_block(w), doing);
    struct block *b = &shared[roll(w, SHARED)];
    verify_some(w, b, doing);
    verify_frozen(roll(w, 1 << 30));
}

/* What a child does with memory of its own, and with its copy of the parent's. */
static void use_memory_in_child(struct worker *w, size_t bytes)
{
    size_t before = w->blocks_count;
    for (size_t used = 0; used < bytes;) {
        struct block *b = make(w, bytes > 4 * MIB ? 256 * KIB + roll(w, MIB) : some_size(w));
        if (b == NULL)
            break;
        used += b->bytes;
    }
    for (int n = 0; n < 4 && before > 0; n++)
        rewrite(w, &w->blocks[roll(w, before)]);
    transfer(w);
    for (size_t n = 0; n < 8 && w->blocks_count > 0; n++)
        verify(some_block(w), "in a child that has written");
    while (w->blocks_count > before)
        drop(w, &w->blocks[w->blocks_count - 1]);
}

/* In the child from here on; the other threads are not there. */
static void enter_child(pid_t parent)
{
    is_child = true;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
}

static pid_t fork_worker(void)
{
    pid_t parent = getpid();
    /* What the others share is whole at the moment of the fork. */
    for (int n = 0; n < SHARED; n++)
        MUST(pthread_mutex_lock(shared_locks[n]) == 0);
    pid_t pid = fork();
    int error = errno;
    if (pid == 0)
        enter_child(parent);
    for (int n = 0; n < SHARED; n++)
        MUST(pthread_mutex_unlock(shared_locks[n]) == 0);
    errno = error;
    if (pid < 0)
        refused("fork");
    return pid;
}

/* A child that verifies, uses memory and ends, perhaps after a child of its own. */
static void fork_for_a_while(struct worker *w, size_t bytes)
{
    uint64_t way = roll(w, 4);
    pid_t pid = fork_worker();
    if (pid == 0) {
        verify_sample(w, "in a child");
        use_memory_in_child(w, bytes);
        if (way == 0) {
            pid_t grandchild = fork_worker();
            if (grandchild == 0) {
                verify_all(w, "in a grandchild");
                use_memory_in_child(w, bytes / 2);
                _exit(0);
            }
            if (grandchild > 0)
                await(w, grandchild, false);
        }
        _exit(0);
    }
    if (pid > 0)
        await(w, pid, false);
}

/* A child that lives on while its parent writes, and verifies afterwards what it had when it was forked. */
static void fork_and_leave(struct worker *w)
{
    int n = 0, ends[2];
    while (n < CHILDREN_MAX && w->children[n].pid != 0)
        n++;
    if (n == CHILDREN_MAX || !new_ends(w, true, ends))
        return;
    struct block *b = some_block(w);
    char told, *buffer = b != NULL ? b->memory + b->bytes - 1 : &told;
    pid_t pid = fork_worker();
    if (pid == 0) {
        verify_sample(w, "in a child that stays");
        while (read(ends[0], buffer, 1) < 0)
            MUST(errno == EINTR || may_lose_flash);
        if (b != NULL)
            with_block(b, b->bytes - 1, b->bytes, NULL);
        verify_all(w, "in a child that has stayed");
        _exit(0);
    }
    close(ends[0]);
    if (pid > 0)
        w->children[n] = (struct child){pid, ends[1]};
    else
        close(ends[1]);
}

/* Tells a child that has stayed to verify, and waits for its end. */
static void recall(struct worker *w, int n)
{
    struct child child = w->children[n];
    if (child.pid == 0)
        return;
    w->children[n] = (struct child){0, 0};
    /* A byte, as other children may have this end of the pipe too. A child that was killed needs none. */
    MUST(write(child.go, "", 1) == 1 || (errno == EPIPE && (may_be_refused || may_lose_flash)));
    close(child.go);
    await(w, child.pid, false);
}

static void recall_all(struct worker *w)
{
    for (int n = 0; n < CHILDREN_MAX; n++)
        recall(w, n);
}

/* Starts a program whose name and arguments are in a block. */
static void start_program(struct worker *w)
{
    struct block *b = make(w, 12 * KIB);
    if (b == NULL)
        return;
    char *path = b->memory, **arguments = (char **)(((uintptr_t)b->memory + 4096 + 15) & ~(uintptr_t)15);
    strcpy(path, "/bin/true");
    arguments[0] = path, arguments[1] = NULL;
    pid_t pid;
    int error;
    if (roll(w, 2)) {
        error = posix_spawn(&pid, path, NULL, NULL, arguments, environ);
    } else {
        pid = fork_worker();
        if (pid == 0) {
            execv(path, arguments);
            _exit(3);
        }
        error = pid < 0 ? errno : 0;
    }
    with_block(b, 0, b->bytes, NULL);
    errno = error;
    if (error == 0)
        await(w, pid, true);
    else
        refused("a program");
}

#endif

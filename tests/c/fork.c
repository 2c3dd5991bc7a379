/* fork.c - a child never reads wrong bytes; the parent goes on as if nothing had
 * happened. */
#include "check.h"

#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OBJECTS = 20000, BYTES = 2000 };

/* How a child ended that looked at something. */
enum { CHILD_READ_RIGHT = 10, CHILD_READ_WRONG = 11, CHILD_CALL_WORKED = 12, CHILD_CALL_REFUSED = 13 };

extern char **environ;

static char *objects[OBJECTS];

static void make_objects(void)
{
    for (uint64_t i = 0; i < OBJECTS; i++) {
        objects[i] = aq_malloc(BYTES);
        CHECK(objects[i]);
        fill(objects[i], BYTES, i);
    }
}

static void verify_objects(void)
{
    for (uint64_t i = 0; i < OBJECTS; i++)
        CHECK(is_filled(objects[i], BYTES, i));
}

/* Runs look(argument) in a child; its exit status, or 128 + the signal. */
static int in_child(int (*look)(uint64_t), uint64_t argument)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        /* A child that dies of a signal is expected; no core of it is wanted. */
        freopen("/dev/null", "w", stderr);
        _exit(look(argument));
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int read_object(uint64_t i)
{
    return is_filled(objects[i], BYTES, i) ? CHILD_READ_RIGHT : CHILD_READ_WRONG;
}

static int write_object(uint64_t i)
{
    fill(objects[i], BYTES, i + 1000000);
    return is_filled(objects[i], BYTES, i + 1000000) ? CHILD_READ_RIGHT : CHILD_READ_WRONG;
}

static int allocate(uint64_t bytes)
{
    return aq_malloc(bytes) ? CHILD_CALL_WORKED : CHILD_CALL_REFUSED;
}

static int release(uint64_t i)
{
    return aq_free(objects[i]) == AQ_EFORKED ? CHILD_CALL_REFUSED : CHILD_CALL_WORKED;
}

static int ask_for_statistics(uint64_t unused)
{
    (void)unused;
    aq_stats stats = {.struct_bytes = sizeof stats};
    return aq_stats_get(&stats) == AQ_EFORKED ? CHILD_CALL_REFUSED : CHILD_CALL_WORKED;
}

static int leave_by_exit(uint64_t unused)
{
    (void)unused;
    exit(CHILD_CALL_REFUSED);
}

/* ---- Tests ------------------------------------------------------------- */

static void a_child_never_reads_wrong_bytes(void)
{
    /* The last ones written are in RAM, the first ones on flash. */
    for (uint64_t n = 0; n < 20; n++) {
        uint64_t i = n % 2 ? OBJECTS - 1 - n : mix(n) % OBJECTS;
        int end = in_child(read_object, i);
        if (end != CHILD_READ_RIGHT && end < 128)
            end_test("FAIL the child that read object %d ended with %d", (int)i, end);
    }
    verify_objects();
}

static void a_childs_writes_do_not_reach_the_parent(void)
{
    for (uint64_t n = 0; n < 20; n++) {
        uint64_t i = n % 2 ? OBJECTS - 1 - n : mix(n) % OBJECTS;
        CHECK(in_child(write_object, i) != CHILD_READ_WRONG);
        CHECK(is_filled(objects[i], BYTES, i));
    }
    verify_objects();
}

static void calls_of_a_child_are_refused(void)
{
    CHECK(in_child(allocate, 100) == CHILD_CALL_REFUSED);
    CHECK(in_child(release, 5) == CHILD_CALL_REFUSED);
    CHECK(in_child(ask_for_statistics, 0) == CHILD_CALL_REFUSED);
    CHECK(is_filled(objects[5], BYTES, 5));
}

static void a_child_may_leave_by_exit(void)
{
    CHECK(in_child(leave_by_exit, 0) == CHILD_CALL_REFUSED);
    verify_objects();
}

static void other_programs_can_be_started(void)
{
    pid_t child = 0;
    int status = -1;
    char *const arguments[] = {"true", NULL};
    CHECK(posix_spawnp(&child, "true", NULL, NULL, arguments, environ) == 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(system("true") == 0);
    FILE *pipe = popen("echo hello", "r");
    char line[16] = "";
    CHECK(pipe && fgets(line, sizeof line, pipe) && pclose(pipe) == 0);
    CHECK(strcmp(line, "hello\n") == 0);
}

static atomic_bool stop;
static _Atomic unsigned wrong;

static void *keep_faulting(void *argument)
{
    uint64_t dice = (uintptr_t)argument;
    while (!stop) {
        uint64_t i = next_random(&dice) % OBJECTS;
        wrong += !is_filled(objects[i], BYTES, i);
        void *object = aq_malloc(100);
        wrong += !object || aq_free(object) != AQ_OK;
    }
    return NULL;
}

/* Forks while other threads fault and allocate; nobody may hang or be harmed. */
static void forks_amid_faults_of_other_threads(void)
{
    enum { THREADS = 4, FORKS = 100 };
    pthread_t threads[THREADS];
    stop = false;
    for (uintptr_t t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, keep_faulting, (void *)(t + 1)) == 0);
    int bad_ends = 0;
    for (uint64_t n = 0; n < FORKS; n++) {
        int end = in_child(n % 2 ? read_object : allocate, mix(n) % OBJECTS);
        bad_ends += end == CHILD_READ_WRONG || end == CHILD_CALL_WORKED;
    }
    stop = true;
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    CHECK(bad_ends == 0 && wrong == 0);
    verify_objects();
    CHECK_CODE(AQ_OK, aq_check());
}

int main(void)
{
    open_default_heap("fork.c");
    RUN(make_objects);
    RUN(a_child_never_reads_wrong_bytes);
    RUN(a_childs_writes_do_not_reach_the_parent);
    RUN(calls_of_a_child_are_refused);
    RUN(a_child_may_leave_by_exit);
    RUN(other_programs_can_be_started);
    RUN(forks_amid_faults_of_other_threads);
    return tests_failed();
}

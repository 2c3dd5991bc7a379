/* spawn.c - starting programs with arguments and environment in memory that is not there. */
#include "check.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

enum { COUNT = 20 };

static char **arguments, **environment;

/* A program that prints its arguments and some of its environment. */
static const char script[] = "echo \"${#0} $#\"; for i in \"$@\"; do echo \"${#i}\"; done; echo \"$FIRST ${#SECOND}\"";

static void make_lists(void)
{
    arguments = malloc(8 * KIB);
    environment = malloc(8 * KIB);
    arguments[0] = string("sh");
    arguments[1] = string("-c");
    arguments[2] = string(script);
    for (int i = 3; i < COUNT; i++) {
        arguments[i] = malloc(16 * KIB);
        memset(arguments[i], 'a' + i, 16 * KIB);
        arguments[i][1000 * (i % 10) + 10] = '\0';
    }
    arguments[COUNT] = NULL;
    environment[0] = string("FIRST=one");
    environment[1] = malloc(40000);
    memset(environment[1], 's', 40000);
    memcpy(environment[1], "SECOND=", 7);
    environment[1][39999] = '\0';
    environment[2] = string("PATH=/bin:/usr/bin");
    environment[3] = NULL;
}

static void push_lists_out(void)
{
    PUSH_OUT(arguments, PAGE);
    PUSH_OUT(arguments[COUNT - 1], 8 * KIB);
    PUSH_OUT(environment[1], 32 * KIB);
}

/* What the program must have printed to a pipe. */
static void check_output(int fd)
{
    char expected[2000], *at = expected + sprintf(expected, "3010 16\n"), got[2000];
    for (int i = 4; i < COUNT; i++)
        at += sprintf(at, "%d\n", 1000 * (i % 10) + 10);
    at += sprintf(at, "one 39992\n");
    size_t bytes = 0;
    ssize_t part;
    while ((part = read(fd, got + bytes, sizeof got - 1 - bytes)) > 0)
        bytes += (size_t)part;
    got[bytes] = '\0';
    CHECK(strcmp(got, expected) == 0);
}

static void check_end(pid_t child)
{
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_IS(0, status);
}

static void spawned(void)
{
    for (int how = 0; how < 2; how++) {
        int ends[2];
        CHECK(pipe2(ends, O_CLOEXEC) == 0);
        posix_spawn_file_actions_t *actions = malloc(8 * KIB);
        posix_spawnattr_t *attributes = malloc(8 * KIB);
        pid_t *child = malloc(8 * KIB);
        char *path = string(how ? "sh" : "/bin/sh");
        sigset_t all;
        sigfillset(&all);
        memset(child, 0, 8 * KIB);
        CHECK(posix_spawn_file_actions_init(actions) == 0 && posix_spawnattr_init(attributes) == 0);
        CHECK(posix_spawn_file_actions_adddup2(actions, ends[1], 1) == 0);
        CHECK(posix_spawnattr_setsigmask(attributes, &all) == 0);
        CHECK(posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK) == 0);
        push_lists_out();
        PUSH_OUT(actions, PAGE);
        PUSH_OUT(path, PAGE);
        CHECK_IS(0, (how ? posix_spawnp : posix_spawn)(child, path, actions, attributes, arguments, environment));
        close(ends[1]);
        check_output(ends[0]);
        check_end(*child);
        close(ends[0]);
        posix_spawn_file_actions_destroy(actions);
        posix_spawnattr_destroy(attributes);
        free(actions);
        free(attributes);
        free(child);
        free(path);
    }
    pid_t child;
    CHECK(posix_spawn(&child, "/nonexistent", NULL, NULL, arguments, environment) == ENOENT);
}

static void with_vfork(void)
{
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    push_lists_out();
    fflush(stdout);
    pid_t child = vfork();
    if (child == 0) {
        dup2(ends[1], 1);
        execve("/bin/sh", arguments, environment);
        _exit(1);
    }
    close(ends[1]);
    check_output(ends[0]);
    check_end(child);
    close(ends[0]);
}

static void by_the_shell(void)
{
    char *command = string("test \"$THIRD\" = three && test ${#FOURTH} -eq 9000 && exit 3");
    char *third = string("THIRD=three"), *fourth = malloc(16 * KIB);
    memset(fourth, 'f', 16 * KIB);
    memcpy(fourth, "FOURTH=", 7);
    fourth[9007] = '\0';
    CHECK(putenv(third) == 0 && putenv(fourth) == 0);
    PUSH_OUT(fourth, 8 * KIB);
    int status = system(command);
    CHECK(WIFEXITED(status));
    CHECK_IS(3, WEXITSTATUS(status));
    strcpy(command, "echo $THIRD ${#FOURTH}");
    char *line = string("");
    PUSH_OUT(command, PAGE);
    PUSH_OUT(fourth, 8 * KIB);
    FILE *pipe = popen(command, "r");
    CHECK(pipe && fgets(line, 1000, pipe) && strcmp(line, "three 9000\n") == 0 && pclose(pipe) == 0);
    strcpy(command, "cat >/dev/null");
    pipe = popen(command, "w");
    CHECK(pipe);
    push_out();
    CHECK(fwrite(ballast, 1, 3 * MIB, pipe) == 3 * MIB && pclose(pipe) == 0);
    CHECK(unsetenv("THIRD") == 0 && unsetenv("FOURTH") == 0);
    free(command);
    free(line);
}

/* The last: this process becomes another program. */
static void replaced(void)
{
    push_lists_out();
    char *path = string("/bin/sh");
    strcpy(arguments[2], "echo replaced; test \"$FIRST\" = one && test ${#SECOND} -eq 39992");
    PUSH_OUT(path, PAGE);
    push_lists_out();
    fflush(stdout);
    execve(path, arguments, environment);
    CHECK(false);
}

int main(void)
{
    begin();
    RUN(make_lists);
    RUN(spawned);
    RUN(with_vfork);
    RUN(by_the_shell);
    if (tests_failed())
        return 1;
    RUN(replaced);
    return tests_failed();
}

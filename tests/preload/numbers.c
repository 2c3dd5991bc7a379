/* numbers.c - descriptors have the numbers that a program expects: the lowest that is free, or the one that it asks for */
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

enum { BYTES = 48 << 20, ASKED = 200 };

static char *memory;

/* Pages come and go all the while, and whoever makes room for them looks how much RAM there is. */
static void *touch(void *stop)
{
    uint64_t state = 1;
    while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED)) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        memory[(state >> 20) % BYTES]++;
    }
    return NULL;
}

static void the_lowest_is_given(void)
{
    int stop = 0, others = 0;
    pthread_t thread;
    CHECK_IS(0, pthread_create(&thread, NULL, touch, &stop));
    for (int i = 0; i < 400000; i++) {
        close(0);
        int fd = open("/dev/null", O_RDWR);
        if (fd != 0) {
            others++;
            dup2(fd, 0);
            close(fd);
        }
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    CHECK_IS(0, others);
}

static int refused(void)
{
    int count = 0;
    for (int fd = 3; fd < ASKED; fd++)
        count += dup2(0, fd) != fd;
    return count;
}

static void any_can_be_asked_for(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(refused());
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_IS(0, status);
    CHECK_IS(0, refused());
}

int main(void)
{
    begin();
    CHECK((memory = malloc(BYTES)) != NULL);
    memset(memory, 1, BYTES);
    RUN(the_lowest_is_given);
    RUN(any_can_be_asked_for);
    memset(memory, 1, BYTES);
    CHECK(memory[BYTES - 1] == 1);
    return tests_failed();
}

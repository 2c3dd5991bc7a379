/* A fork that waits long for a lock of the C library, whose holder writes to a full pipe. Meanwhile threads wait for the fork, that
 * is, for memory, and some go on, as they could be who has the lock. Children have all of their memory whatever those were at. */
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { BLOCKS = 48, WRITERS = 6, FORKS = 3, PAGES = 256 };

static unsigned char *blocks[BLOCKS];
static atomic_bool is_over;
static int ends[2];

/* Writes pages in the first half of each block, in no order. */
static void *write_pages(void *seed)
{
    uint64_t state = (uintptr_t)seed + 1;
    while (!is_over) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        blocks[(state >> 33) % BLOCKS][(state >> 45) % (PAGES / 2) * PAGE]++;
    }
    return NULL;
}

static void *flush(void *unused)
{
    fflush(NULL);
    return unused;
}

/* Empties the pipe a while later. */
static void *drain(void *unused)
{
    static char bytes[1 << 16];
    usleep(900 * 1000);
    while (read(ends[0], bytes, sizeof bytes) == sizeof bytes)
        continue;
    return unused;
}

static void fork_late(FILE *stream)
{
    static char text[4096];
    pthread_t flusher, drainer;
    int status;
    memset(text, 'x', sizeof text);
    /* The pipe is full, and the stream has more for it. */
    CHECK(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    while (write(ends[1], text, sizeof text) > 0)
        continue;
    CHECK(fcntl(ends[1], F_SETFL, 0) == 0);
    CHECK(fwrite(text, 1, 100, stream) == 100);
    CHECK(pthread_create(&flusher, NULL, flush, NULL) == 0);
    usleep(100 * 1000);
    CHECK(pthread_create(&drainer, NULL, drain, NULL) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (int n = 0; n < BLOCKS; n++)
            for (int page = PAGES / 2; page < PAGES; page++)
                if (blocks[n][page * PAGE] != (unsigned char)(n + page))
                    _exit(1);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_IS(0, status);
    CHECK(pthread_join(flusher, NULL) == 0);
    CHECK(write(ends[1], text, 1) == 1);
    CHECK(pthread_join(drainer, NULL) == 0);
}

static void forks_that_wait_for_a_stream(void)
{
    pthread_t writers[WRITERS];
    for (int n = 0; n < BLOCKS; n++) {
        blocks[n] = malloc(MIB);
        CHECK(blocks[n] != NULL);
        for (int page = 0; page < PAGES; page++)
            memset(blocks[n] + page * PAGE, n + page, PAGE);
    }
    CHECK(pipe(ends) == 0);
    FILE *stream = fdopen(ends[1], "w");
    CHECK(stream != NULL);
    for (int n = 0; n < WRITERS; n++)
        CHECK(pthread_create(&writers[n], NULL, write_pages, (void *)(intptr_t)n) == 0);
    for (int n = 0; n < FORKS; n++)
        fork_late(stream);
    is_over = true;
    for (int n = 0; n < WRITERS; n++)
        CHECK(pthread_join(writers[n], NULL) == 0);
}

int main(void)
{
    begin();
    RUN(forks_that_wait_for_a_stream);
    return tests_failed();
}

/* reserve.c - memory that is reserved first (PROT_NONE) and asked for piece by piece, as collectors and virtual machines do. */
#include "check.h"
#include "touches.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { FLAGS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, OPEN = PROT_READ | PROT_WRITE };

/* More than there is flash. */
#define RESERVE (2048 * MIB)
#define PART (4 * MIB)

static char *reserve(size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_NONE, FLAGS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static void map_over(char *at, size_t bytes, int protection)
{
    CHECK(mmap(at, bytes, protection, FLAGS | MAP_FIXED, -1, 0) == at);
}

/* What the kernel was told of memory does not hold for who has it next. */
static void told_of_before_the_heap(void)
{
    size_t bytes = 2 * PART;
    for (int advice = 0; advice < 2; advice++) {
        char *memory = mmap(NULL, bytes, OPEN, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(memory != MAP_FAILED);
        madvise(memory, bytes, advice ? MADV_WIPEONFORK : MADV_DONTFORK);
        CHECK(munmap(memory, bytes) == 0);
        memory = mmap(NULL, bytes, OPEN, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(memory != MAP_FAILED);
        memset(memory, 1, PART);
        pid_t child = fork();
        if (child == 0)
            _exit(signal_of(memory, false) != 0 || memory[PART - 1] != 1);
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK_IS(0, status);
        CHECK(munmap(memory, bytes) == 0);
    }
}

static char *early, *closed;

static void reserved_before_the_heap(void)
{
    early = reserve(RESERVE);
    CHECK_IS(SIGSEGV, signal_of(early, false));
    CHECK(mprotect(early + PART, PART, OPEN) == 0);
    map_over(early + 3 * PART, PART, OPEN);
    CHECK(is_zero(early + PART, PART) && is_zero(early + 3 * PART, PART));
    fill(early + PART, PART, 1);
    fill(early + 3 * PART, PART, 2);
    CHECK_IS(SIGSEGV, signal_of(early + 2 * PART, true));
    CHECK_IS(SIGSEGV, signal_of(early + 4 * PART, true));
    /* More than stays in RAM. */
    closed = mmap(NULL, 2 * PART, OPEN, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(closed != MAP_FAILED);
    fill(closed, 2 * PART, 3);
    CHECK(mprotect(closed, 2 * PART, PROT_NONE) == 0);
}

static void used_with_it(void)
{
    PUSH_OUT(early + PART, PART);
    CHECK(is_filled(early + PART, PART, 1) && is_filled(early + 3 * PART, PART, 2));
    CHECK_IS(SIGSEGV, signal_of(early + PART - 1, false));
    CHECK_IS(SIGSEGV, signal_of(early + 2 * PART, true));
    CHECK_IS(SIGSEGV, signal_of(early + RESERVE - 1, true));
    CHECK(mprotect(early + PART, 2 * PART, OPEN) == 0);
    CHECK(is_filled(early + PART, PART, 1) && is_zero(early + 2 * PART, PART));
    CHECK(munmap(early, RESERVE) == 0);
    CHECK_IS(SIGSEGV, signal_of(closed, true));
    CHECK(mprotect(closed, 2 * PART, OPEN) == 0 && is_filled(closed, 2 * PART, 3));
    CHECK(munmap(closed, 2 * PART) == 0);
}

static void asked_for_piece_by_piece(void)
{
    char *memory = reserve(RESERVE);
    for (int n = 0; n < 8; n++) {
        if (n % 2)
            CHECK(mprotect(memory + 2 * n * PART, PART, OPEN) == 0);
        else
            map_over(memory + 2 * n * PART, PART, OPEN);
        fill(memory + 2 * n * PART, PART, n);
        CHECK_IS(SIGSEGV, signal_of(memory + (2 * n + 1) * PART, n % 2));
    }
    for (int n = 0; n < 8; n++) {
        CHECK(is_filled(memory + 2 * n * PART, PART, n));
        CHECK_IS(SIGSEGV, signal_of(memory + (2 * n + 1) * PART, n % 2));
    }
    PUSH_OUT(memory, PART);
    CHECK(munmap(memory, RESERVE) == 0);
}

/* What is given back is empty when it is asked for again. */
static void given_back_and_asked_for_again(void)
{
    char *memory = reserve(RESERVE);
    for (int round = 0; round < 4; round++) {
        CHECK(mprotect(memory, 8 * PART, OPEN) == 0);
        CHECK(is_zero(memory, 8 * PART));
        fill(memory, 8 * PART, round);
        if (round % 2)
            push_out();
        map_over(memory + PART, 6 * PART, PROT_NONE);
        CHECK_IS(SIGSEGV, signal_of(memory + PART, false));
        CHECK_IS(SIGSEGV, signal_of(memory + 7 * PART - 1, true));
        CHECK(is_filled(memory, PART, round));
        map_over(memory, 8 * PART, PROT_NONE);
    }
    CHECK(munmap(memory, RESERVE) == 0);
}

/* Pages that nobody may touch keep what is in them, however many they are. */
static void closed_with_their_bytes(void)
{
    size_t bytes = 8 * PART;
    char *memory = mmap(NULL, bytes, OPEN, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    fill(memory, bytes, 7);
    for (int round = 0; round < 3; round++) {
        CHECK(mprotect(memory, bytes, PROT_NONE) == 0);
        CHECK_IS(SIGSEGV, signal_of(memory + round * PART, false));
        push_out();
        CHECK_IS(SIGSEGV, signal_of(memory + round * PART, true));
        CHECK(mprotect(memory, bytes, OPEN) == 0);
        CHECK(is_filled(memory, bytes, 7));
    }
    CHECK(mprotect(memory, bytes, PROT_NONE) == 0);
    CHECK(madvise(memory, PART, MADV_DONTNEED) == 0);
    CHECK_IS(SIGSEGV, signal_of(memory, false));
    CHECK(mprotect(memory, PART, OPEN) == 0 && is_zero(memory, PART));
    CHECK(munmap(memory, bytes) == 0);
}

/* As V8 does: more than is wanted, of which the ends are given back. */
static void many_aligned_pieces(void)
{
    enum { PIECES = 300, KEPT = 40, BYTES = 256 * 1024 };
    char *pieces[KEPT] = {0};
    for (int n = 0; n < PIECES; n++) {
        char **place = &pieces[n % KEPT];
        if (*place) {
            CHECK(is_filled(*place, BYTES / 2, n % KEPT));
            CHECK(munmap(*place, BYTES) == 0);
        }
        char *memory = reserve(2 * BYTES - PAGE);
        char *start = (char *)(((uintptr_t)memory + BYTES - 1) / BYTES * BYTES);
        if (start > memory)
            CHECK(munmap(memory, start - memory) == 0);
        size_t behind = memory + 2 * BYTES - PAGE - (start + BYTES);
        if (behind > 0)
            CHECK(munmap(start + BYTES, behind) == 0);
        CHECK(mprotect(start, BYTES / 2, OPEN) == 0 && is_zero(start, BYTES / 2));
        CHECK_IS(SIGSEGV, signal_of(start + BYTES / 2, true));
        fill(start, BYTES / 2, n % KEPT);
        *place = start;
    }
    for (int n = 0; n < KEPT; n++)
        CHECK(is_filled(pieces[n], BYTES / 2, n) && munmap(pieces[n], BYTES) == 0);
}

/* Each may use what it has asked for, whoever else asks for it at the same time. */
enum { ASKING = 4, ROUNDS = 300 };

static struct {
    char *memory;
    pthread_barrier_t all;
    atomic_int refused;
} shared;

static void *ask(void *argument)
{
    size_t number = (size_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&shared.all);
        shared.refused += mprotect(shared.memory, 64 * PAGE, OPEN) != 0;
        for (size_t n = 0; n < 64; n++)
            shared.memory[n * PAGE + number] = (char)round;
        pthread_barrier_wait(&shared.all);
        if (number == 0)
            shared.refused += mmap(shared.memory, 64 * PAGE, PROT_NONE, FLAGS | MAP_FIXED, -1, 0) != shared.memory;
    }
    return NULL;
}

static void asked_for_by_several(void)
{
    shared.memory = reserve(RESERVE);
    CHECK(pthread_barrier_init(&shared.all, NULL, ASKING) == 0);
    pthread_t threads[ASKING];
    for (size_t n = 0; n < ASKING; n++)
        CHECK(pthread_create(&threads[n], NULL, ask, (void *)n) == 0);
    for (int n = 0; n < ASKING; n++)
        CHECK(pthread_join(threads[n], NULL) == 0);
    CHECK_IS(0, shared.refused);
    CHECK(munmap(shared.memory, RESERVE) == 0);
}

#if defined(__x86_64__)
static const unsigned char code[] = {0x8d, 0x47, 0x01, 0xc3}; /* lea eax, [rdi + 1]; ret */
#elif defined(__aarch64__)
static const unsigned char code[] = {0x00, 0x04, 0x00, 0x11, 0xc0, 0x03, 0x5f, 0xd6};
#endif

static int run(char *at, int argument)
{
    int (*function)(int);
    memcpy(&function, &at, sizeof function);
    return function(argument);
}

/* As compilers at run time do. */
static void filled_with_code(void)
{
    char *memory = reserve(RESERVE);
    map_over(memory, 100 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
    char *at = memory + 50 * PAGE, *later = memory + 200 * PAGE;
    memcpy(at, code, sizeof code);
    __builtin___clear_cache(at, at + sizeof code);
    CHECK_IS(8, run(at, 7));
    CHECK(mprotect(later, 10 * PAGE, OPEN) == 0);
    memcpy(later, code, sizeof code);
    CHECK(mprotect(later, 10 * PAGE, PROT_READ | PROT_EXEC) == 0);
    __builtin___clear_cache(later, later + sizeof code);
    push_out();
    push_out();
    CHECK_IS(42, run(at, 41));
    CHECK_IS(43, run(later, 42));
    CHECK_IS(SIGSEGV, signal_of(later, true));
    CHECK_IS(0, signal_of(at + PAGE, true));
    CHECK(munmap(memory, RESERVE) == 0);
}

static void handed_to_the_kernel(void)
{
    char *memory = reserve(RESERVE);
    int fd = open(file_name("reserve"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, ballast, 10 * PAGE) == 10 * (ssize_t)PAGE);
    CHECK(write(fd, memory, PAGE) == -1 && errno == EFAULT);
    CHECK(pread(fd, memory, PAGE, 0) == -1 && errno == EFAULT);
    CHECK(mprotect(memory, 10 * PAGE, OPEN) == 0);
    CHECK(pread(fd, memory, 10 * PAGE, 0) == 10 * (ssize_t)PAGE);
    CHECK(memcmp(memory, ballast, 10 * PAGE) == 0);
    CHECK(mprotect(memory, 10 * PAGE, PROT_NONE) == 0);
    CHECK(pread(fd, memory, PAGE, 0) == -1 && errno == EFAULT);
    close(fd);
    CHECK(munmap(memory, RESERVE) == 0);
}

static void in_a_child(void)
{
    char *memory = reserve(RESERVE);
    CHECK(mprotect(memory, PART, OPEN) == 0);
    fill(memory, PART, 5);
    push_out();
    pid_t child = fork();
    if (child == 0) {
        bool is_right = is_filled(memory, PART, 5) && signal_of(memory + PART, false) == SIGSEGV
            && mprotect(memory + PART, PART, OPEN) == 0 && is_zero(memory + PART, PART);
        memset(memory + PART, 1, PART);
        is_right = is_right && mmap(memory, PART, PROT_NONE, FLAGS | MAP_FIXED, -1, 0) == memory
            && signal_of(memory, false) == SIGSEGV && memory[PART] == 1;
        _exit(!is_right);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_IS(0, status);
    CHECK_IS(SIGSEGV, signal_of(memory + PART, false));
    CHECK(is_filled(memory, PART, 5));
    CHECK(munmap(memory, RESERVE) == 0);
}

int main(void)
{
    RUN(told_of_before_the_heap);
    RUN(reserved_before_the_heap);
    begin();
    RUN(used_with_it);
    RUN(asked_for_piece_by_piece);
    RUN(given_back_and_asked_for_again);
    RUN(closed_with_their_bytes);
    RUN(many_aligned_pieces);
    RUN(asked_for_by_several);
    RUN(filled_with_code);
    RUN(handed_to_the_kernel);
    RUN(in_a_child);
    return tests_failed();
}

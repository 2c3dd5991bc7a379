/* check.h - what the tests of `aquifer run` share.
 *
 * A test is a function without arguments that uses CHECK; main() calls begin(),
 * lists them with RUN and returns tests_failed(). Each prints one line. The same
 * program runs natively and on managed memory, and must print the same.
 */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define PAGE ((size_t)4096)

static int failed_tests;
static jmp_buf test_end;
static char test_verdict[512]; /* empty: the test passed */

/* Ends the running test. Only for the thread that runs it. */
static inline void end_test(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(test_verdict, sizeof test_verdict, format, arguments);
    va_end(arguments);
    longjmp(test_end, 1);
}

#define CHECK(condition) \
    do { \
        if (!(condition)) \
            end_test("line %d: not so: %s (errno %d)", __LINE__, #condition, errno); \
    } while (0)

/* Both must be the same number. */
#define CHECK_IS(expected, value) \
    do { \
        long long expected_ = (long long)(expected), value_ = (long long)(value); \
        if (expected_ != value_) \
            end_test("line %d: %s is %lld, not %lld (errno %d)", __LINE__, #value, value_, expected_, errno); \
    } while (0)

static inline void run_test(const char *name, void (*test)(void))
{
    test_verdict[0] = '\0';
    errno = 0;
    if (setjmp(test_end) == 0)
        test();
    bool passed = test_verdict[0] == '\0';
    printf("%s %s%s%s\n", passed ? "ok" : "FAIL", name, passed ? "" : ": ", test_verdict);
    failed_tests += !passed;
    fflush(stdout);
}

#define RUN(test) run_test(#test, test)

static inline int tests_failed(void)
{
    return failed_tests != 0;
}

/* ---- Contents that can be verified ------------------------------------- */

static inline uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 32) * 0x9FB21C651E98DF25u;
    x = (x ^ x >> 29) * 0xD6E8FEB86659FD93u;
    return x ^ x >> 32;
}

/* Fills memory with bytes that follow from seed. */
static inline void fill(void *memory, size_t bytes, uint64_t seed)
{
    for (size_t done = 0; done < bytes; done += 8) {
        uint64_t word = next_random(&seed);
        memcpy((char *)memory + done, &word, bytes - done < 8 ? bytes - done : 8);
    }
}

/* Whether it still holds them. */
static inline bool is_filled(const void *memory, size_t bytes, uint64_t seed)
{
    for (size_t done = 0; done < bytes; done += 8) {
        uint64_t word = next_random(&seed);
        if (memcmp((const char *)memory + done, &word, bytes - done < 8 ? bytes - done : 8) != 0)
            return false;
    }
    return true;
}

static inline bool is_zero(const void *memory, size_t bytes)
{
    const unsigned char *at = memory;
    for (size_t i = 0; i < bytes; i++) {
        if (at[i])
            return false;
    }
    return true;
}

/* ---- Pressure ----------------------------------------------------------- */

enum { BALLAST_MIB = 64, AIR_MIB = 24 };

static char *ballast;     /* filled: makes the heap take over */
static volatile char *air; /* never written, so that to touch it costs no input or output */

/* Whether `aquifer run` runs this program. */
static inline bool on_managed_memory(void)
{
    return getenv("AQUIFER_RUN_PID") != NULL;
}

/* Touches so much memory that nothing else stays in 16 MiB of RAM. */
static inline void push_out(void)
{
    for (size_t at = 0; at < AIR_MIB * MIB; at += PAGE)
        (void)air[at];
}

static inline bool is_present(const void *address)
{
    unsigned char present = 0;
    mincore((void *)((uintptr_t)address & ~(PAGE - 1)), PAGE, &present);
    return present & 1;
}

/* Whether the memory is pushed out; natively everything counts as that. */
static inline bool is_absent(const void *memory, size_t bytes)
{
    if (!on_managed_memory())
        return true;
    for (size_t at = 0; at < bytes; at += PAGE) {
        if (is_present((const char *)memory + at))
            return false;
    }
    return true;
}

/* Pushes this memory out for certain. */
#define PUSH_OUT(memory, bytes) \
    do { \
        for (int laps_ = 0; laps_ == 0 || (laps_ < 20 && !is_absent(memory, bytes)); laps_++) \
            push_out(); \
        CHECK(is_absent(memory, bytes)); \
    } while (0)

/* Makes the heap take over. */
static inline void begin(void)
{
    ballast = malloc(BALLAST_MIB * MIB);
    /* What is mapped along behind the end of a walk is air, too. */
    air = calloc(AIR_MIB * MIB + 64 * PAGE, 1);
    if (!ballast || !air) {
        puts("FAIL begin: no memory");
        exit(1);
    }
    fill(ballast, BALLAST_MIB * MIB, 1);
    push_out();
}

/* At least `bytes` of memory that is filled. */
static inline char *filled(size_t bytes, uint64_t seed)
{
    char *memory = malloc(bytes < 8 * KIB ? 8 * KIB : bytes);
    CHECK(memory);
    fill(memory, bytes, seed);
    return memory;
}

/* A string of its own, with room for more. */
static inline char *string(const char *text)
{
    char *memory = malloc(8 * KIB);
    CHECK(memory);
    strcpy(memory, text);
    return memory;
}

/* ---- Files -------------------------------------------------------------- */

static inline const char *test_dir(void)
{
    const char *dir = getenv("AQUIFER_TEST_DIR");
    return dir ? dir : "/var/tmp";
}

/* A name in the directory of the tests. */
static inline const char *file_name(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    return path;
}

#endif

/* check.h - what the C tests share.
 *
 * A test is a function without arguments that uses CHECK; main() lists them with
 * RUN and returns tests_failed(). Each prints one line: "ok FILE NAME",
 * "FAIL FILE NAME: why" or "SKIP FILE NAME: reason".
 *
 * Tests keep their flash files in $AQUIFER_TEST_DIR (default /var/tmp).
 */
#ifndef CHECK_H
#define CHECK_H

#include <aquifer.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

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
            end_test("FAIL line %d: not so: %s", __LINE__, #condition); \
    } while (0)

/* The call must return this aq_error. */
#define CHECK_CODE(expected, call) \
    do { \
        int code_ = (call); \
        if (code_ != (expected)) \
            end_test("FAIL line %d: %s gave %d, not %d (%s)", __LINE__, #call, code_, (expected), aq_error_message()); \
    } while (0)

/* The call must return some error. */
#define CHECK_REFUSED(call) \
    do { \
        if ((call) == AQ_OK) \
            end_test("FAIL line %d: accepted: %s", __LINE__, #call); \
    } while (0)

/* The message of the last failure must contain this text. */
#define CHECK_MESSAGE(text) \
    do { \
        if (!strstr(aq_error_message(), (text))) \
            end_test("FAIL line %d: the message lacks '%s': %s", __LINE__, (text), aq_error_message()); \
    } while (0)

/* Ends the test because it cannot be made here. */
#define SKIP(...) end_test("SKIP " __VA_ARGS__)

static inline void run_test(const char *file, const char *name, void (*test)(void))
{
    test_verdict[0] = '\0';
    if (setjmp(test_end) == 0)
        test();
    const char *label = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    if (test_verdict[0] == '\0') {
        printf("ok %s %s\n", label, name);
    } else {
        printf("%.4s %s %s: %s\n", test_verdict, label, name, test_verdict + 5);
        failed_tests += test_verdict[0] == 'F';
    }
    fflush(stdout);
}

#define RUN(test) run_test(__FILE__, #test, test)

static inline int tests_failed(void)
{
    return failed_tests != 0;
}

/* ---- Heaps ------------------------------------------------------------- */

static inline const char *test_dir(void)
{
    const char *dir = getenv("AQUIFER_TEST_DIR");
    return dir ? dir : "/var/tmp";
}

/* A program that was compiled with fewer fields, of `kept` bytes, keeps what is behind its
 * structure, and opens what it wants; one with more fields may not set them. */
#define CHECK_OPTIONS_OF_OTHER_SIZES(type, init, kept, open) \
    do { \
        struct { type options; unsigned char behind[16]; } room; \
        const unsigned char *bytes = (const unsigned char *)&room; \
        memset(&room, 0xA5, sizeof room); \
        init(&room.options, kept); \
        CHECK(room.options.struct_bytes == (kept)); \
        for (size_t at = sizeof(size_t); at < sizeof room; at++) \
            CHECK(bytes[at] == (at < (kept) ? 0 : 0xA5)); \
        CHECK_CODE(AQ_OK, open(&room.options)); \
        for (size_t at = (kept); at < sizeof room; at++) \
            CHECK(bytes[at] == 0xA5); \
        init(&room.options, sizeof room); \
        CHECK_CODE(AQ_OK, open(&room.options)); \
        room.behind[sizeof room.behind - 1] = 1; \
        CHECK_CODE(AQ_EINVAL, open(&room.options)); \
        CHECK_MESSAGE("does not know"); \
        room.options.struct_bytes = (size_t)-8; \
        CHECK_CODE(AQ_EINVAL, open(&room.options)); \
        CHECK_MESSAGE(#init); \
    } while (0)

/* Options of a small heap: 16 MiB of RAM, 256 MiB of flash. */
static inline aq_options small_options(void)
{
    aq_options options;
    aq_options_init(&options, sizeof options);
    options.ram_bytes = 16 * MIB;
    options.flash_path = test_dir();
    options.flash_bytes = 256 * MIB;
    return options;
}

/* Whether an error means that this machine cannot run the library at all. */
static inline bool is_machine_error(int code)
{
    return code == AQ_EKERNEL || code == AQ_EUFFD_FORBIDDEN;
}

/* Opens the default heap; on machines that cannot, says so and ends the program
 * with success. */
static inline void open_default_heap(const char *file)
{
    aq_options options = small_options();
    int code = aq_init(&options);
    if (code == AQ_OK)
        return;
    bool skip = is_machine_error(code);
    printf("%s %s: aq_init gave %d: %s\n", skip ? "SKIP" : "FAIL", file, code, aq_error_message());
    exit(skip ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* ---- Contents that can be verified ------------------------------------- */

static inline uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0x9FB21C651E98DF25u;
    x ^= x >> 29;
    x *= 0xD6E8FEB86659FD93u;
    x ^= x >> 32;
    return x;
}

/* The next number of a sequence that its state determines. */
static inline uint64_t next_random(uint64_t *state)
{
    *state += 0x9E3779B97F4A7C15u;
    return mix(*state);
}

/* Fills an object with bytes that follow from seed. */
static inline void fill(void *object, size_t bytes, uint64_t seed)
{
    unsigned char *at = object;
    for (size_t done = 0; done < bytes; done += 8) {
        uint64_t word = next_random(&seed);
        memcpy(at + done, &word, bytes - done < 8 ? bytes - done : 8);
    }
}

/* Whether it still holds them. */
static inline bool is_filled(const void *object, size_t bytes, uint64_t seed)
{
    const unsigned char *at = object;
    for (size_t done = 0; done < bytes; done += 8) {
        uint64_t word = next_random(&seed);
        if (memcmp(at + done, &word, bytes - done < 8 ? bytes - done : 8) != 0)
            return false;
    }
    return true;
}

static inline bool is_zero(const void *object, size_t bytes)
{
    const unsigned char *at = object;
    for (size_t i = 0; i < bytes; i++) {
        if (at[i])
            return false;
    }
    return true;
}

/* Writes enough other objects to drive everything else out of 16 MiB of RAM,
 * then frees them. False if there was no memory. */
static inline bool push_out(void)
{
    enum { OBJECTS = 24, BYTES = 1 << 20 };
    void *objects[OBJECTS];
    bool complete = true;
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = aq_malloc(BYTES);
        if (objects[i])
            fill(objects[i], BYTES, (uint64_t)i);
        else
            complete = false;
    }
    for (int i = 0; i < OBJECTS; i++) {
        complete = complete && is_filled(objects[i], BYTES, (uint64_t)i);
        aq_free(objects[i]);
    }
    return complete;
}

#endif

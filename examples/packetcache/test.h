/* test.h - what the files of the test share. */
#ifndef TEST_H
#define TEST_H

#include "trace.h"

/* Tests that failed so far. */
extern int failures;

/* Prints the line of a test; problem is NULL if it passed. */
void report(const char *name, const char *problem);

#define REQUIRE(condition) \
    do { \
        if (!(condition)) \
            return "not so: " #condition; \
    } while (0)

/* A trace whose repeats reach back 1 MiB. */
struct trace usual_trace(void);

/* Fills payload with bytes that no other number gives. */
void write_bytes(uint64_t number, unsigned char *payload, size_t bytes);

/* Tests anchors, index and trace. */
void test_parts(void);

#endif

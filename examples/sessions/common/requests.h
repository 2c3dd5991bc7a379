/* requests.h - threads that load sessions and serve requests for them.
 *
 * Every thread has a table of its own, with every so-many-th session, so that
 * none waits for another. What a session's state must be follows from its id
 * and from how often it was changed, which is known outside of the tables: a
 * lost change is as wrong as a damaged byte.
 */
#ifndef REQUESTS_H
#define REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

enum { REQUEST_THREADS_MAX = 256 };

/* Parts are 0 to 1. */
struct mix {
    uint64_t count; /* of all sessions */
    uint64_t seed;
    double hot;          /* part of the sessions, scattered over the order in which they were made */
    double hot_requests; /* part of the requests that go to these; the others go to all alike */
    double updates;      /* part of the requests that change the session */
};

struct outcome {
    uint64_t requests;
    uint64_t updates;
    uint64_t wrong; /* sessions that were missing, or not as they must be */
};

/* Prepares empty tables, once in a process. False if there is no memory.
 * visible: bars are drawn. */
bool requests_open(const struct mix *mix, unsigned threads, bool visible);

/* Makes all sessions. False if there is no memory. */
bool requests_load(void);

/* Serves requests for that many seconds. */
struct outcome requests_serve(const char *title, double seconds);

/* Looks at every session once. */
struct outcome requests_check(void);

/* Frees everything that the tables hold. */
void requests_close(void);

#endif

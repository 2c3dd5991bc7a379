/* sessions.h - the sessions of a server, by their number.
 *
 * An array of pointers, and one allocation for each session. A session stays
 * where it was made; nothing brings the busy ones together.
 *
 * One thread at a time may use a table.
 */
#ifndef SESSIONS_H
#define SESSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STATE_BYTES = 240 };

typedef struct session {
    uint64_t changes;                 /* how often the state was changed */
    unsigned char state[STATE_BYTES]; /* belongs to the user of the table */
} session;

typedef struct sessions sessions;

/* A table for sessions 0 to capacity - 1, all absent, or NULL if there is no
 * memory. */
sessions *sessions_create(size_t capacity);

/* Frees the table and its sessions. NULL is allowed. */
void sessions_destroy(sessions *table);

/* Makes session number, which must be absent, without changes and with an
 * undefined state. NULL if there is no memory. */
session *sessions_open(sessions *table, size_t number);

/* The session, or NULL if it is absent. */
session *sessions_get(const sessions *table, size_t number);

/* Frees the session; nothing happens if it is absent. */
void sessions_close(sessions *table, size_t number);

#endif

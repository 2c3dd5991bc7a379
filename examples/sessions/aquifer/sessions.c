/* sessions.c - the table of sessions.h. */
#include "sessions.h"
#include <aquifer.h>

#include <stdlib.h>

struct sessions {
    size_t capacity;
    session *slots[];
};

sessions *sessions_create(size_t capacity)
{
    sessions *table = calloc(1, sizeof *table + capacity * sizeof table->slots[0]);
    if (table)
        table->capacity = capacity;
    return table;
}

void sessions_destroy(sessions *table)
{
    if (!table)
        return;
    for (size_t number = 0; number < table->capacity; number++)
        sessions_close(table, number);
    free(table);
}

session *sessions_open(sessions *table, size_t number)
{
    session *opened = aq_malloc(sizeof *opened);
    if (opened)
        opened->changes = 0;
    table->slots[number] = opened;
    return opened;
}

session *sessions_get(const sessions *table, size_t number)
{
    return table->slots[number];
}

void sessions_close(sessions *table, size_t number)
{
    aq_free(table->slots[number]);
    table->slots[number] = NULL;
}

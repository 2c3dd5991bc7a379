/* touches.h - which signal an access raises. */
#ifndef TOUCHES_H
#define TOUCHES_H

#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

static sigjmp_buf caught;

static inline void on_fault(int number)
{
    siglongjmp(caught, number);
}

/* The signal that an access raises; 0 if it may be. */
static inline int signal_of(volatile char *at, bool is_write)
{
    struct sigaction action = {.sa_handler = on_fault}, before;
    sigaction(SIGSEGV, &action, &before);
    int number = sigsetjmp(caught, 1);
    if (number == 0) {
        if (is_write)
            *at = 'w';
        else
            (void)*at;
    }
    sigaction(SIGSEGV, &before, NULL);
    return number;
}

#endif

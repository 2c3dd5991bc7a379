/* ending.c - a program that ends while its memory is in use. */
#include "check.h"

#include <pthread.h>

static char *memory;

static void say(const char *what)
{
    push_out();
    printf("%s %s\n", what, is_filled(memory, 10 * MIB, 5) ? "ok" : "wrong");
}

static void at_exit(void)
{
    say("atexit");
}

__attribute__((destructor)) static void at_end(void)
{
    say("destructor");
}

static void at_thread_exit(void *value)
{
    say(value);
}

static void *end_with_value(void *key)
{
    pthread_setspecific(*(pthread_key_t *)key, "thread");
    return NULL;
}

static void *run_for_ever(void *argument)
{
    for (uint64_t dice = (uintptr_t)argument;;) {
        size_t bytes = 1 + next_random(&dice) % 50000;
        char *block = malloc(bytes);
        if (block)
            fill(block, bytes, 1);
        free(block);
        (void)*(volatile char *)(ballast + next_random(&dice) % (BALLAST_MIB * MIB));
    }
    return NULL;
}

int main(void)
{
    begin();
    memory = malloc(10 * MIB);
    fill(memory, 10 * MIB, 5);
    atexit(at_exit);
    pthread_key_t key;
    pthread_t thread;
    pthread_key_create(&key, at_thread_exit);
    pthread_create(&thread, NULL, end_with_value, &key);
    pthread_join(thread, NULL);
    for (uintptr_t t = 0; t < 8; t++)
        pthread_create(&thread, NULL, run_for_ever, (void *)t);
    usleep(50000);
    return 0; /* while they run */
}

/* contexts.c - memory that becomes a heap's wherever a program may allocate
 *
 *   contexts CONTEXT
 *
 * In each context somebody holds a lock: the loader's, a stream's, that of a malloc. With -DPLUGIN this is the library whose
 * constructor allocates.
 */
#include "check.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { BLOCKS = 48 };

/* More than fits in 16 MiB, twice, verified. */
static bool exceed(void)
{
    for (int round = 0; round < 2; round++) {
        char *blocks[BLOCKS];
        for (uint64_t n = 0; n < BLOCKS; n++) {
            if ((blocks[n] = malloc(MIB)) == NULL)
                return false;
            fill(blocks[n], MIB, n);
        }
        for (uint64_t n = 0; n < BLOCKS; n++)
            if (!is_filled(blocks[n], MIB, n))
                return false;
        for (uint64_t n = 0; n < BLOCKS; n++)
            free(blocks[n]);
    }
    return true;
}

#ifdef PLUGIN

bool plugin_is_right;

__attribute__((constructor)) static void on_load(void)
{
    plugin_is_right = exceed();
}

#else

static bool is_right;
/* Each thread has it, those of the library too. */
static _Thread_local volatile char wide[2 << 20];
static pthread_key_t key;

static void note(void)
{
    is_right = exceed();
}

static void *return_at_once(void *argument)
{
    wide[1] = 1;
    return argument;
}

/* Threads, streams and the loader still work. */
static bool works(void)
{
    pthread_t thread;
    void *result = NULL;
    if (pthread_create(&thread, NULL, return_at_once, &key) != 0 || pthread_join(thread, &result) != 0)
        return false;
    FILE *file = tmpfile();
    bool written = file != NULL && fprintf(file, "%d", 7) == 1 && fclose(file) == 0;
    return result == &key && written && dlsym(RTLD_DEFAULT, "malloc") != NULL;
}

static int end(void)
{
    bool both = is_right && works();
    printf("%s\n", both ? "right" : "WRONG");
    fflush(stdout);
    return !both;
}

static void destroy(void *value)
{
    (void)value;
    note();
}

static void *with_key(void *argument)
{
    pthread_setspecific(key, argument);
    return NULL;
}

extern int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object, void *library);

static void *with_local(void *argument)
{
    __cxa_thread_atexit_impl(destroy, argument, &is_right);
    return NULL;
}

static void in_thread(void *(*run)(void *))
{
    pthread_t thread;
    pthread_create(&thread, NULL, run, &key);
    pthread_join(thread, NULL);
}

static void *with_note(void *argument)
{
    note();
    return argument;
}

/* A thread with the smallest stack that there is, beside its variables. */
static void in_small_stack(void)
{
    pthread_t thread;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, sizeof wide + PTHREAD_STACK_MIN);
    pthread_create(&thread, &small, with_note, NULL);
    pthread_join(thread, NULL);
}

static void on_signal(int signal)
{
    (void)signal;
    note();
}

static void in_signal(void)
{
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
}

static int wait_for(pid_t child)
{
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void in_fork(void)
{
    pthread_atfork(note, NULL, NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(end());
    is_right = is_right && wait_for(child) == 0;
}

static void in_child(void)
{
    pthread_atfork(NULL, NULL, note);
    pid_t child = fork();
    if (child == 0)
        _exit(end());
    is_right = wait_for(child) == 0;
}

static ssize_t on_write(void *cookie, const char *text, size_t bytes)
{
    (void)cookie, (void)text;
    note();
    return (ssize_t)bytes;
}

static void in_stream(void)
{
    cookie_io_functions_t functions = {.write = on_write};
    FILE *file = fopencookie(NULL, "w", functions);
    fprintf(file, "text");
    fclose(file);
}

static void at_exit(void)
{
    note();
    _exit(end());
}

static void in_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, note);
}

static void in_dlopen(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/contexts.so", getenv("PLUGIN_DIR"));
    void *library = dlopen(path, RTLD_NOW);
    bool *right = library == NULL ? NULL : dlsym(library, "plugin_is_right");
    is_right = right != NULL && *right;
}

int main(int argc, char **argv)
{
    const char *context = argc > 1 ? argv[1] : "main";
    if (strcmp(context, "main") == 0) {
        note();
    } else if (strcmp(context, "key") == 0) {
        pthread_key_create(&key, destroy);
        in_thread(with_key);
    } else if (strcmp(context, "local") == 0) {
        in_thread(with_local);
    } else if (strcmp(context, "small") == 0) {
        in_small_stack();
    } else if (strcmp(context, "signal") == 0) {
        in_signal();
    } else if (strcmp(context, "fork") == 0) {
        in_fork();
    } else if (strcmp(context, "child") == 0) {
        in_child();
    } else if (strcmp(context, "stream") == 0) {
        in_stream();
    } else if (strcmp(context, "exit") == 0) {
        atexit(at_exit);
        return 0;
    } else if (strcmp(context, "once") == 0) {
        in_once();
    } else if (strcmp(context, "dlopen") == 0) {
        in_dlopen();
    } else {
        return 2;
    }
    return end();
}

#endif

/* plugin.c - a library that allocates when it is loaded and frees when it is unloaded. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static char *memory;
static _Thread_local char *of_thread;

__attribute__((constructor)) static void load(void)
{
    memory = malloc(3 << 20);
    memset(memory, 7, 3 << 20);
}

__attribute__((destructor)) static void unload(void)
{
    for (int i = 0; i < 3 << 20; i += 4096)
        if (memory[i] != 7)
            abort();
    free(memory);
}

int plugin_byte(int at)
{
    if (!of_thread)
        of_thread = calloc(1, 100000);
    return memory[at] + of_thread[at % 100000];
}

void plugin_done(void)
{
    free(of_thread);
    of_thread = NULL;
}

/* What this library finds, of its own too. */
void *plugin_finds(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

/* What stands behind this library. */
void *plugin_next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

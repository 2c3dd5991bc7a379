/* loading.c - libraries that are loaded and unloaded. The plugin lies beside the program. */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>

static char *plugin; /* its path */

static void *use(void *library)
{
    int (*byte)(int) = (int (*)(int))dlsym(library, "plugin_byte");
    void (*done)(void) = (void (*)(void))dlsym(library, "plugin_done");
    if (!byte || !done)
        return NULL;
    long sum = 0;
    for (int i = 0; i < 3 << 20; i += 4096)
        sum += byte(i);
    done();
    return (void *)sum;
}

static void loaded_and_unloaded(void)
{
    for (int round = 0; round < 5; round++) {
        PUSH_OUT(plugin, PAGE);
        void *library = dlopen(plugin, RTLD_NOW);
        CHECK(library);
        push_out();
        pthread_t threads[4];
        for (int t = 0; t < 4; t++)
            CHECK(pthread_create(&threads[t], NULL, use, library) == 0);
        for (int t = 0; t < 4; t++) {
            void *sum;
            pthread_join(threads[t], &sum);
            CHECK_IS(7 * 768, (long)sum);
        }
        push_out();
        CHECK(dlclose(library) == 0);
    }
    CHECK(!dlopen("/nonexistent.so", RTLD_NOW) && dlerror());
}

int main(int count, char **arguments)
{
    (void)count;
    begin();
    plugin = string(arguments[0]);
    strcpy(strrchr(plugin, '/') + 1, "plugin.so");
    RUN(loaded_and_unloaded);
    return tests_failed();
}

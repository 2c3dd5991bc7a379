/* lookup.c - functions of the C library that a program looks up by name. The plugin lies beside the program. */
#include "check.h"

#include <dlfcn.h>
#include <fcntl.h>

static void *c_library;

/* What other languages call functions of C by. */
static void *function(const char *name)
{
    dlerror();
    void *found = dlsym(c_library, name);
    CHECK(found);
    CHECK(!dlerror());
    return found;
}

static void reads_and_writes(void)
{
    ssize_t (*do_read)(int, void *, size_t) = (ssize_t(*)(int, void *, size_t))function("read");
    ssize_t (*do_write)(int, const void *, size_t) = (ssize_t(*)(int, const void *, size_t))function("write");
    int (*do_open)(const char *, int, ...) = (int (*)(const char *, int, ...))function("open");
    int (*do_close)(int) = (int (*)(int))function("close");
    char *data = filled(64 * KIB, 5), *path = string(file_name("looked_up"));
    PUSH_OUT(path, PAGE);
    int file = do_open(path, O_CREAT | O_RDWR, 0600);
    CHECK(file >= 0);
    PUSH_OUT(data, 64 * KIB);
    CHECK_IS(64 * KIB, do_write(file, data, 64 * KIB));
    memset(data, 0, 64 * KIB);
    PUSH_OUT(data, 64 * KIB);
    CHECK_IS(0, lseek(file, 0, SEEK_SET));
    CHECK_IS(64 * KIB, do_read(file, data, 64 * KIB));
    CHECK(is_filled(data, 64 * KIB, 5));
    CHECK_IS(0, do_close(file));
    unlink(path);
    free(data);
    free(path);
}

/* Protected so and given back, memory is given out again as new. */
static void protected_memory(void)
{
    int (*protect)(void *, size_t, int) = (int (*)(void *, size_t, int))function("mprotect");
    int (*unmap)(void *, size_t) = (int (*)(void *, size_t))function("munmap");
    for (int round = 0; round < 20; round++) {
        char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(page != MAP_FAILED);
        memset(page, round, PAGE);
        CHECK_IS(0, protect(page, 20, PROT_READ));
        PUSH_OUT(ballast, PAGE);
        CHECK_IS(round, page[PAGE - 1]);
        CHECK_IS(0, unmap(page, PAGE));
    }
}

static void blocks(void)
{
    void *(*allocate)(size_t) = (void *(*)(size_t))function("malloc");
    void *(*resize)(void *, size_t) = (void *(*)(void *, size_t))function("realloc");
    void (*give_back)(void *) = (void (*)(void *))function("free");
    char *here = malloc(3 * MIB), *there = allocate(3 * MIB);
    fill(here, 3 * MIB, 6);
    fill(there, 3 * MIB, 7);
    here = resize(here, 5 * MIB);
    there = realloc(there, 5 * MIB);
    CHECK(is_filled(here, 3 * MIB, 6) && is_filled(there, 3 * MIB, 7));
    give_back(here);
    free(there);
    give_back(strdup("text of the C library's own"));
}

/* What is behind depends on who asks. */
static void in_order(void)
{
    char *path = string(file_name(""));
    ssize_t length = readlink("/proc/self/exe", path, 4 * KIB);
    CHECK(length > 0);
    path[length] = 0;
    strcpy(strrchr(path, '/') + 1, "plugin.so");
    void *plugin = dlopen(path, RTLD_NOW);
    CHECK(plugin);
    void *(*next)(const char *) = (void *(*)(const char *))dlsym(plugin, "plugin_next");
    CHECK(next);
    void *(*finds)(const char *) = (void *(*)(const char *))dlsym(plugin, "plugin_finds");
    CHECK(finds);
    CHECK(finds("plugin_byte") == dlsym(plugin, "plugin_byte"));
    CHECK(finds("read") == (void *)read && !finds("plugin_nothing"));
    CHECK(next("malloc") == function("malloc") || on_managed_memory());
    CHECK(!next("plugin_next"));
    CHECK(dlsym(RTLD_DEFAULT, "read") == (void *)read);
    CHECK(dlsym(RTLD_NEXT, "read") == (void *)read);
    CHECK(dlsym(plugin, "plugin_byte") && !dlerror());
    CHECK(dlsym(plugin, "read") == (void *)read && !dlerror());
    CHECK(!dlsym(plugin, "plugin_nothing") && dlerror());
    CHECK(dlclose(plugin) == 0);
    free(path);
}

int main(void)
{
    begin();
    c_library = dlopen("libc.so.6", RTLD_NOW);
    RUN(reads_and_writes);
    RUN(protected_memory);
    RUN(blocks);
    RUN(in_order);
    return tests_failed();
}

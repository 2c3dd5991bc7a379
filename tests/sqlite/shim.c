/* Linked into SQLite's own test programs, which have SQLite inside: makes the VFS on volumes the default one whenever SQLite is initialised, if
** AQUIFER_SQLITE_LIBRARY names it. Without that the programs run on the file system, for comparison. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "sqlite3.h"

int aquifer_extra_init(const char *unused) {
    const char *library = getenv("AQUIFER_SQLITE_LIBRARY");
    (void)unused;
    if (library == NULL) return SQLITE_OK;
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    int (*init)(sqlite3 *, char **, const void *) = NULL;
    if (handle != NULL) *(void **)&init = dlsym(handle, "sqlite3_aquifersqlite_init");
    if (init == NULL) {
        fprintf(stderr, "shim: %s\n", dlerror());
        return SQLITE_ERROR;
    }
    int code = init(NULL, NULL, NULL);
    if (code != SQLITE_OK && code != SQLITE_OK_LOAD_PERMANENTLY) return code;
    return sqlite3_vfs_register(sqlite3_vfs_find("aquifer"), 1);
}

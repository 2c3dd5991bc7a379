/* A Tcl command for SQLite's test suite: files of the volume, for what tests otherwise do to files of the file system.
**
**   vfile exists|size|delete NAME      vfile copy FROM TO      vfile read NAME OFFSET BYTES      vfile write NAME OFFSET DATA
**   vfile truncate NAME BYTES
*/
#include <stdlib.h>
#include <string.h>
#include <tcl.h>

#include "sqlite3.h"

#define FLAGS (SQLITE_OPEN_READWRITE | SQLITE_OPEN_MAIN_JOURNAL)

static int fail(Tcl_Interp *interp, const char *what, const char *name) {
    Tcl_SetObjResult(interp, Tcl_ObjPrintf("%s \"%s\": not possible in the volume", what, name));
    return TCL_ERROR;
}

static int full(sqlite3_vfs *vfs, Tcl_Obj *name, char *path, int bytes) {
    return vfs->xFullPathname(vfs, Tcl_GetString(name), bytes, path);
}

/* Opens a file; NULL if that is not possible. The caller closes and frees it. */
static sqlite3_file *opened(sqlite3_vfs *vfs, const char *path, int flags) {
    sqlite3_file *file = calloc(1, (size_t)vfs->szOsFile);
    if (file != NULL && vfs->xOpen(vfs, path, file, flags, NULL) == SQLITE_OK) return file;
    free(file);
    return NULL;
}

static void closed(sqlite3_file *file) {
    file->pMethods->xClose(file);
    free(file);
}

static int copied(sqlite3_vfs *vfs, const char *from, const char *to) {
    unsigned char block[65536];
    sqlite3_int64 bytes = 0, at;
    sqlite3_file *source = opened(vfs, from, FLAGS);
    sqlite3_file *target = source == NULL ? NULL : opened(vfs, to, FLAGS | SQLITE_OPEN_CREATE);
    int code = target == NULL ? SQLITE_CANTOPEN : source->pMethods->xFileSize(source, &bytes);
    if (code == SQLITE_OK) code = target->pMethods->xTruncate(target, 0);
    for (at = 0; code == SQLITE_OK && at < bytes; at += (int)sizeof block) {
        int part = bytes - at < (int)sizeof block ? (int)(bytes - at) : (int)sizeof block;
        code = source->pMethods->xRead(source, block, part, at);
        if (code == SQLITE_OK) code = target->pMethods->xWrite(target, block, part, at);
    }
    if (target != NULL) closed(target);
    if (source != NULL) closed(source);
    return code;
}

static int command(ClientData unused, Tcl_Interp *interp, int count, Tcl_Obj *const words[]) {
    sqlite3_vfs *vfs = sqlite3_vfs_find("aquifer");
    char path[2048], other[2048];
    sqlite3_int64 size = 0;
    int is_there = 0, offset = 0, bytes = 0;
    (void)unused;
    if (count < 3) return fail(interp, "vfile", "");
    const char *verb = Tcl_GetString(words[1]), *name = Tcl_GetString(words[2]);
    if (full(vfs, words[2], path, sizeof path) != SQLITE_OK) return fail(interp, verb, name);
    if (strcmp(verb, "exists") == 0) {
        vfs->xAccess(vfs, path, SQLITE_ACCESS_READWRITE, &is_there);
        Tcl_SetObjResult(interp, Tcl_NewBooleanObj(is_there));
        return TCL_OK;
    }
    if (strcmp(verb, "delete") == 0) {
        return vfs->xDelete(vfs, path, 0) == SQLITE_OK ? TCL_OK : fail(interp, verb, name);
    }
    if (strcmp(verb, "copy") == 0 && count == 4) {
        if (full(vfs, words[3], other, sizeof other) != SQLITE_OK) return fail(interp, verb, name);
        return copied(vfs, path, other) == SQLITE_OK ? TCL_OK : fail(interp, verb, name);
    }
    if (count > 3 && Tcl_GetIntFromObj(interp, words[3], &offset) != TCL_OK) return TCL_ERROR;
    int is_write = strcmp(verb, "write") == 0;
    sqlite3_file *file = opened(vfs, path, FLAGS | (is_write ? SQLITE_OPEN_CREATE : 0));
    if (file == NULL) return fail(interp, verb, name);
    int code = file->pMethods->xFileSize(file, &size);
    if (strcmp(verb, "size") == 0) {
        Tcl_SetObjResult(interp, Tcl_NewWideIntObj(size));
    } else if (strcmp(verb, "truncate") == 0 && count == 4) {
        code = file->pMethods->xTruncate(file, offset);
    } else if (is_write && count == 5) {
        unsigned char *data = Tcl_GetByteArrayFromObj(words[4], &bytes);
        code = file->pMethods->xWrite(file, data, bytes, offset);
        Tcl_SetObjResult(interp, Tcl_NewIntObj(bytes));
    } else if (count == 5 && Tcl_GetIntFromObj(interp, words[4], &bytes) == TCL_OK) {
        Tcl_Obj *found = Tcl_NewObj();
        if (offset + bytes > size) bytes = size > offset ? (int)(size - offset) : 0;
        code = file->pMethods->xRead(file, Tcl_SetByteArrayLength(found, bytes), bytes, offset);
        Tcl_SetObjResult(interp, found);
    } else {
        code = SQLITE_ERROR;
    }
    closed(file);
    return code == SQLITE_OK ? TCL_OK : fail(interp, verb, name);
}

int Files_Init(Tcl_Interp *interp) {
    /* Stays open, and the volume with it: it would be closed and opened again whenever a test has no connection. */
    opened(sqlite3_vfs_find("aquifer"), "/keeper", FLAGS | SQLITE_OPEN_CREATE);
    Tcl_CreateObjCommand(interp, "vfile", command, NULL, NULL);
    return TCL_OK;
}

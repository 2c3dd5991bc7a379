/* volume.h - what the tests of volumes share. */
#ifndef VOLUME_H
#define VOLUME_H

#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

enum { READ_WRITE = AQ_OPEN_READ | AQ_OPEN_WRITE, NEW = READ_WRITE | AQ_OPEN_CREATE | AQ_OPEN_EXCLUSIVE };

static char path[512]; /* of the volume that a test uses */

static inline aq_volume *reopen(void)
{
    aq_volume_options options;
    aq_volume_options_init(&options, sizeof options);
    options.ram_bytes = 4 * MIB;
    aq_volume *volume = NULL;
    CHECK_CODE(AQ_OK, aq_volume_open(path, &options, &volume));
    CHECK(volume);
    return volume;
}

/* An empty volume in a file of this name. */
static inline aq_volume *open_new(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    unlink(path);
    CHECK_CODE(AQ_OK, aq_volume_create(path, 96 * MIB, 0));
    return reopen();
}

static inline void close_and_remove(aq_volume *volume)
{
    CHECK_CODE(AQ_OK, aq_volume_check(volume));
    CHECK_CODE(AQ_OK, aq_volume_close(volume));
    CHECK(unlink(path) == 0);
}

static inline aq_file *open_file(aq_volume *volume, const char *name, int flags)
{
    aq_file *file = NULL;
    CHECK_CODE(AQ_OK, aq_file_open(volume, name, flags, 0644, &file));
    CHECK(file);
    return file;
}

static inline void write_all(aq_file *file, uint64_t offset, const void *bytes, size_t len)
{
    size_t done = 0;
    CHECK_CODE(AQ_OK, aq_file_write(file, offset, bytes, len, &done));
    CHECK(done == len);
}

static inline size_t read_some(aq_file *file, uint64_t offset, void *bytes, size_t len)
{
    size_t done = SIZE_MAX;
    CHECK_CODE(AQ_OK, aq_file_read(file, offset, bytes, len, &done));
    CHECK(done <= len);
    return done;
}

static inline aq_inode inode_of(aq_file *file)
{
    aq_inode inode = {.struct_bytes = sizeof inode};
    CHECK_CODE(AQ_OK, aq_file_stat(file, &inode));
    return inode;
}

static inline aq_inode inode_at(aq_volume *volume, const char *name)
{
    aq_inode inode = {.struct_bytes = sizeof inode};
    CHECK_CODE(AQ_OK, aq_volume_stat(volume, name, 1, &inode));
    return inode;
}

/* A new file of this size, mapped to load and store; all of it. */
static inline void *map_new(aq_volume *volume, const char *name, size_t bytes)
{
    aq_file *file = open_file(volume, name, NEW);
    void *address = NULL;
    CHECK_CODE(AQ_OK, aq_file_truncate(file, bytes));
    int code = aq_file_map(file, 0, bytes, AQ_MAP_READ | AQ_MAP_WRITE, &address);
    CHECK_CODE(AQ_OK, aq_file_close(file));
    if (is_machine_error(code))
        SKIP("files cannot be mapped here: %s", aq_error_message());
    CHECK_CODE(AQ_OK, code);
    CHECK(address);
    return address;
}

/* Runs work() in a child; its exit status, or 128 + the signal. */
static inline int in_child(int (*work)(void))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        /* A child that dies of a signal is expected; no core of it is wanted. */
        if (!freopen("/dev/null", "w", stderr))
            _exit(99);
        _exit(work());
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#endif

/* paths.c - names of files in memory that is not there. */
#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>

/* The name in memory that is not there. */
static char *absent(const char *name)
{
    char *path = string(file_name(name));
    PUSH_OUT(path, PAGE);
    return path;
}

/* `call` must succeed with both names pushed out. */
#define WITH(name, call) \
    do { \
        char *path = absent(name); \
        CHECK(call); \
        free(path); \
    } while (0)

static void made_and_opened(void)
{
    int fd = -1;
    WITH("a", (fd = open(path, O_RDWR | O_CREAT, 0640)) >= 0 && close(fd) == 0);
    WITH("a", (fd = openat(AT_FDCWD, path, O_RDONLY)) >= 0 && close(fd) == 0);
    WITH("a", (fd = open64(path, O_RDONLY)) >= 0 && close(fd) == 0);
    WITH("b", (fd = creat(path, 0600)) >= 0 && close(fd) == 0);
    FILE *file = NULL;
    WITH("b", (file = fopen(path, "r+")) != NULL);
    WITH("a", (file = freopen(path, "r", file)) != NULL);
    fclose(file);
}

static void looked_at(void)
{
    struct stat status;
    WITH("a", stat(path, &status) == 0 && (status.st_mode & 0777) == 0640);
    WITH("a", lstat(path, &status) == 0);
    WITH("a", access(path, R_OK) == 0);
    WITH("a", faccessat(AT_FDCWD, path, R_OK, 0) == 0);
}

static void changed(void)
{
    struct stat status;
    WITH("a", chmod(path, 0600) == 0 && stat(path, &status) == 0 && (status.st_mode & 0777) == 0600);
    WITH("a", truncate(path, 12345) == 0 && stat(path, &status) == 0 && status.st_size == 12345);
    WITH("a", chown(path, getuid(), getgid()) == 0);
    struct timeval times[2] = {{1000, 0}, {2000, 0}};
    WITH("a", utimes(path, times) == 0 && stat(path, &status) == 0 && status.st_mtime == 2000);
    struct timespec both[2] = {{1000, 0}, {3000, 0}};
    WITH("a", utimensat(AT_FDCWD, path, both, 0) == 0 && stat(path, &status) == 0 && status.st_mtime == 3000);
}

static void named_anew(void)
{
    char *to = string(file_name("c"));
    WITH("b", is_absent(to, PAGE) && rename(path, to) == 0 && access(to, F_OK) == 0);
    WITH("b", link(to, path) == 0 && renameat(AT_FDCWD, path, AT_FDCWD, to) == 0);
    WITH("s", symlink(to, path) == 0 && unlink(path) == 0);
    WITH("b", unlink(path) == 0);
    WITH("c", unlinkat(AT_FDCWD, path, 0) == 0);
    free(to);
}

static void of_directories(void)
{
    DIR *directory = NULL;
    char here[512];
    CHECK(getcwd(here, sizeof here));
    WITH("d", mkdir(path, 0700) == 0);
    WITH("d", (directory = opendir(path)) != NULL && closedir(directory) == 0);
    WITH("d", chdir(path) == 0 && chdir(here) == 0);
    WITH("d", rmdir(path) == 0);
    WITH("d", mkdirat(AT_FDCWD, path, 0700) == 0 && remove(path) == 0);
}

static void made_up(void)
{
    int fd = -1;
    WITH("tXXXXXX", (fd = mkstemp(path)) >= 0 && close(fd) == 0 && unlink(path) == 0);
    WITH("tXXXXXX", mkdtemp(path) == path && rmdir(path) == 0);
    WITH("fifo", mkfifo(path, 0600) == 0 && unlink(path) == 0);
}

int main(void)
{
    umask(0);
    begin();
    RUN(made_and_opened);
    RUN(looked_at);
    RUN(changed);
    RUN(named_anew);
    RUN(of_directories);
    RUN(made_up);
    return tests_failed();
}

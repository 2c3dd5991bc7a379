/* limits.c - settings that cannot work, and heaps that are full: a numbered error
 * and a sentence that names the path or the limit. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *program;
static char scratch[256]; /* a directory of our own */

static void scratch_path(char *path, size_t bytes, const char *name)
{
    snprintf(path, bytes, "%s/%s", scratch, name);
}

/* Opens and closes a heap; the error, if any. */
static int open_once(const aq_options *options)
{
    aq_heap *heap = NULL;
    int code = aq_heap_open(options, &heap);
    return code == AQ_OK ? aq_heap_close(heap) : code;
}

/* Runs this program again with two arguments; its exit status. */
static int run_self(const char *action, const char *argument)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", program, action, argument, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* What the other process does: tries a flash path, exits with the error. */
static int try_flash_path(const char *path)
{
    aq_options options = small_options();
    options.flash_path = path;
    options.flash_bytes = 64 * MIB;
    return open_once(&options);
}

/* ---- RAM --------------------------------------------------------------- */

static void budget_below_the_minimum(void)
{
    aq_options options = small_options();
    options.ram_bytes = AQ_RAM_MIN - 1;
    CHECK_CODE(AQ_EBUDGET_SMALL, open_once(&options));
    CHECK_MESSAGE("8");
    options.ram_bytes = 1;
    CHECK_CODE(AQ_EBUDGET_SMALL, open_once(&options));
}

static void the_minimum_itself_works(void)
{
    aq_options options = small_options();
    options.ram_bytes = AQ_RAM_MIN;
    aq_heap *heap = NULL;
    CHECK_CODE(AQ_OK, aq_heap_open(&options, &heap));
    enum { OBJECTS = 64, BYTES = 512 << 10 };
    void *objects[OBJECTS];
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = aq_heap_malloc(heap, BYTES);
        CHECK(objects[i]);
        fill(objects[i], BYTES, (uint64_t)i);
    }
    for (int i = 0; i < OBJECTS; i++)
        CHECK(is_filled(objects[i], BYTES, (uint64_t)i));
    aq_stats stats = {.struct_bytes = sizeof stats};
    CHECK_CODE(AQ_OK, aq_heap_stats_get(heap, &stats));
    CHECK(stats.ram_used_bytes <= AQ_RAM_MIN);
    CHECK_CODE(AQ_OK, aq_heap_close(heap));
}

static void budget_above_the_machine(void)
{
    aq_options options = small_options();
    options.ram_bytes = (uint64_t)1 << 50;
    CHECK_CODE(AQ_EBUDGET_LARGE, open_once(&options));
    CHECK(*aq_error_message());
    options.ram_bytes = UINT64_MAX;
    CHECK_CODE(AQ_EBUDGET_LARGE, open_once(&options));
}

/* ---- Flash paths ------------------------------------------------------- */

static void flash_path_is_missing(void)
{
    char path[512];
    scratch_path(path, sizeof path, "no-such-directory/flash");
    aq_options options = small_options();
    options.flash_path = path;
    CHECK_CODE(AQ_EFLASH_MISSING, open_once(&options));
    CHECK_MESSAGE("no-such-directory");
    CHECK(access(path, F_OK) != 0);
}

static void flash_is_too_small(void)
{
    aq_options options = small_options();
    options.flash_bytes = 4096;
    CHECK_CODE(AQ_EFLASH_SMALL, open_once(&options));
    CHECK(*aq_error_message());
    options.flash_bytes = 1;
    CHECK_CODE(AQ_EFLASH_SMALL, open_once(&options));
}

static void flash_size_is_absurd(void)
{
    aq_options options = small_options();
    options.flash_bytes = UINT64_MAX;
    CHECK_REFUSED(open_once(&options));
    CHECK(*aq_error_message());
}

static void flash_path_is_no_storage(void)
{
    aq_options options = small_options();
    options.flash_path = "/dev/null";
    CHECK_REFUSED(open_once(&options));
    CHECK_MESSAGE("/dev/null");
}

/* Becomes someone who owns nothing, if it was root. */
static void drop_rights(void)
{
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        _exit(120);
}

static void flash_path_may_not_be_written(void)
{
    char path[512];
    scratch_path(path, sizeof path, "read-only");
    int file = open(path, O_CREAT | O_RDWR, 0600);
    CHECK(file >= 0 && ftruncate(file, 64 << 20) == 0 && close(file) == 0);
    CHECK(chmod(path, 0444) == 0 && chmod(scratch, 0755) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        drop_rights();
        int code = try_flash_path(path);
        _exit(code == AQ_EFLASH_PERMISSION && !strstr(aq_error_message(), path) ? 121 : code);
    }
    int status = 0;
    waitpid(child, &status, 0);
    unlink(path);
    CHECK(WIFEXITED(status));
    CHECK_CODE(AQ_EFLASH_PERMISSION, WEXITSTATUS(status));
}

static void flash_path_is_in_use(void)
{
    char path[512];
    scratch_path(path, sizeof path, "flash");
    aq_options options = small_options();
    options.flash_path = path;
    options.flash_bytes = 64 * MIB;
    aq_heap *heap = NULL;
    CHECK_CODE(AQ_OK, aq_heap_open(&options, &heap));
    void *object = aq_heap_malloc(heap, 1000);
    CHECK(object);
    fill(object, 1000, 1);
    CHECK_CODE(AQ_EFLASH_BUSY, open_once(&options));
    CHECK_MESSAGE(path);
    CHECK_CODE(AQ_EFLASH_BUSY, run_self("try-flash", path));
    CHECK(is_filled(object, 1000, 1));
    CHECK_CODE(AQ_OK, aq_heap_close(heap));
    CHECK_CODE(AQ_OK, run_self("try-flash", path));
    unlink(path);
}

/* A file system of 32 MiB that only this process sees. False if not allowed. */
static bool mount_small_filesystem(const char *path)
{
    return mkdir(path, 0755) == 0 && unshare(CLONE_NEWNS) == 0 &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && mount("none", path, "tmpfs", 0, "size=32m") == 0;
}

static void file_system_is_full(void)
{
    char path[512];
    scratch_path(path, sizeof path, "small");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (!mount_small_filesystem(path))
            _exit(120);
        aq_options options = small_options();
        options.flash_path = path;
        int code = open_once(&options);
        _exit(code == AQ_EFLASH_FULL && !*aq_error_message() ? 121 : code);
    }
    int status = 0;
    waitpid(child, &status, 0);
    rmdir(path);
    CHECK(WIFEXITED(status));
    if (WEXITSTATUS(status) == 120)
        SKIP("a small file system cannot be mounted here; needs root");
    CHECK_CODE(AQ_EFLASH_FULL, WEXITSTATUS(status));
}

/* ---- Environment ------------------------------------------------------- */

/* What the other process does: allocates; on NULL prints why. */
static int allocate_and_explain(const char *expected)
{
    void *object = aq_malloc(100);
    if (object)
        return 100;
    return strstr(aq_error_message(), expected) ? 0 : 101;
}

static void environment_is_checked(void)
{
    setenv("AQUIFER_FLASH", scratch, 1);
    setenv("AQUIFER_FLASH_SIZE", "64M", 1);
    setenv("AQUIFER_RAM", "16M", 1);
    CHECK_CODE(100, run_self("allocate", ""));
    setenv("AQUIFER_RAM", "1M", 1);
    CHECK_CODE(0, run_self("allocate", "8"));
    setenv("AQUIFER_RAM", "plenty", 1);
    CHECK_CODE(0, run_self("allocate", "plenty"));
    setenv("AQUIFER_RAM", "16M", 1);
    setenv("AQUIFER_POLICY", "psychic", 1);
    CHECK_CODE(0, run_self("allocate", "psychic"));
    unsetenv("AQUIFER_POLICY");
    setenv("AQUIFER_DEVICE_PROFILE", "/nonexistent/profile", 1);
    CHECK_CODE(0, run_self("allocate", "device profile /nonexistent/profile"));
    unsetenv("AQUIFER_DEVICE_PROFILE");
    setenv("AQUIFER_FAULTS", "never", 1);
    CHECK_CODE(0, run_self("allocate", "never"));
    unsetenv("AQUIFER_FAULTS");
    setenv("AQUIFER_FLASH", "/nonexistent/flash", 1);
    CHECK_CODE(0, run_self("allocate", "/nonexistent"));
    unsetenv("AQUIFER_FLASH");
    unsetenv("AQUIFER_FLASH_SIZE");
    unsetenv("AQUIFER_RAM");
}

/* ---- A full heap ------------------------------------------------------- */

static void a_full_heap_gives_null_and_goes_on_after_frees(void)
{
    enum { BYTES = 64 << 10, OBJECTS_MAX = 4096 };
    static void *objects[OBJECTS_MAX];
    aq_options options = small_options();
    options.flash_bytes = 64 * MIB;
    aq_heap *heap = NULL;
    CHECK_CODE(AQ_OK, aq_heap_open(&options, &heap));
    for (int round = 0; round < 3; round++) {
        int count = 0;
        while (count < OBJECTS_MAX && (objects[count] = aq_heap_malloc(heap, BYTES)) != NULL) {
            fill(objects[count], BYTES, (uint64_t)(round * OBJECTS_MAX + count));
            count++;
        }
        CHECK(count < OBJECTS_MAX);
        CHECK(*aq_error_message());
        CHECK((size_t)count * BYTES >= 32 * MIB);
        CHECK(!aq_heap_malloc(heap, 40 * MIB));
        for (int i = 0; i < count; i++)
            CHECK(is_filled(objects[i], BYTES, (uint64_t)(round * OBJECTS_MAX + i)));
        for (int i = 0; i < count; i += 2)
            CHECK_CODE(AQ_OK, aq_heap_free(heap, objects[i]));
        for (int i = 0; i < count / 4; i++) {
            objects[2 * i] = aq_heap_malloc(heap, BYTES);
            CHECK(objects[2 * i]);
            fill(objects[2 * i], BYTES, (uint64_t)i);
        }
        for (int i = 0; i < count / 4; i++)
            CHECK(is_filled(objects[2 * i], BYTES, (uint64_t)i));
        for (int i = 1; i < count; i += 2) {
            CHECK(is_filled(objects[i], BYTES, (uint64_t)(round * OBJECTS_MAX + i)));
            CHECK_CODE(AQ_OK, aq_heap_free(heap, objects[i]));
        }
        for (int i = 0; i < count / 4; i++)
            CHECK_CODE(AQ_OK, aq_heap_free(heap, objects[2 * i]));
        CHECK_CODE(AQ_OK, aq_heap_check(heap));
    }
    CHECK_CODE(AQ_OK, aq_heap_close(heap));
}

int main(int argc, char **argv)
{
    program = argv[0];
    if (argc == 3)
        return strcmp(argv[1], "allocate") == 0 ? allocate_and_explain(argv[2]) : try_flash_path(argv[2]);
    snprintf(scratch, sizeof scratch, "%s/limits.XXXXXX", test_dir());
    if (!mkdtemp(scratch)) {
        printf("FAIL limits.c: no directory in %s\n", test_dir());
        return 1;
    }
    aq_options options = small_options();
    int code = open_once(&options);
    if (code != AQ_OK) {
        bool skip = is_machine_error(code);
        printf("%s limits.c: a small heap gave %d: %s\n", skip ? "SKIP" : "FAIL", code, aq_error_message());
        rmdir(scratch);
        return !skip;
    }
    RUN(budget_below_the_minimum);
    RUN(the_minimum_itself_works);
    RUN(budget_above_the_machine);
    RUN(flash_path_is_missing);
    RUN(flash_is_too_small);
    RUN(flash_size_is_absurd);
    RUN(flash_path_is_no_storage);
    RUN(flash_path_may_not_be_written);
    RUN(flash_path_is_in_use);
    RUN(file_system_is_full);
    RUN(environment_is_checked);
    RUN(a_full_heap_gives_null_and_goes_on_after_frees);
    rmdir(scratch);
    return tests_failed();
}

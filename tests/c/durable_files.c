/* durable_files.c - files of durable heaps: options, damage, full ones, forks, and what is durable when. */
#include "durable.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

/* ---- Options ----------------------------------------------------------- */

static void open_with(size_t offset, uint64_t value, size_t bytes, int expected)
{
    aq_durable_options options = small_durable();
    aq_durable *const untouched = (aq_durable *)&path, *heap = untouched;
    memcpy((char *)&options + offset, &value, bytes);
    CHECK_CODE(expected, aq_durable_open(path, &options, &heap));
    CHECK(heap == untouched);
    CHECK(access(path, F_OK) != 0);
}

#define OPEN_WITH(field, value) \
    open_with(offsetof(aq_durable_options, field), value, sizeof((aq_durable_options){0}.field), AQ_EINVAL)

static void nonsense_options_are_refused_and_no_file_is_made(void)
{
    snprintf(path, sizeof path, "%s/options", test_dir());
    unlink(path);
    OPEN_WITH(struct_bytes, 0);
    OPEN_WITH(capacity_bytes, 100000);
    OPEN_WITH(chunk_bytes, 100000);
    OPEN_WITH(chunk_bytes, 32 << 10);
    OPEN_WITH(chunk_bytes, 32 << 20);
    OPEN_WITH(utilisation_percent, 4);
    OPEN_WITH(durability, 3);
    OPEN_WITH(utilisation_percent, 96);
    OPEN_WITH(backing, 3);
    OPEN_WITH(backing, (uint64_t)-1);
    CHECK_MESSAGE("aq_backing");
}

/* ---- Files ------------------------------------------------------------- */

/* What opening path gives; a heap that opens is closed again. */
static int open_once(const char *where)
{
    aq_durable_options options = small_durable();
    aq_durable *heap = NULL;
    int error = aq_durable_open(where, &options, &heap);
    return error == AQ_OK ? aq_durable_close(heap) : error;
}

/* Whether somebody listens at where. */
static bool listens(const char *where)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", where);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    bool is_there = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return is_there;
}

static void a_heap_tells_its_numbers_at_a_socket(void)
{
    char where[100];
    snprintf(where, sizeof where, "%s/socket", test_dir());
    snprintf(path, sizeof path, "%s/told", test_dir());
    aq_durable_options options = small_durable();
    options.socket_path = where;
    aq_durable *heap = NULL;
    CHECK_CODE(AQ_OK, aq_durable_open(path, &options, &heap));
    CHECK(listens(where));
    CHECK_CODE(AQ_OK, aq_durable_close(heap));
    CHECK(access(where, F_OK) != 0);
    options.socket_path = path;
    CHECK(aq_durable_open(path, &options, &heap) != AQ_OK);
    CHECK_MESSAGE("could not be made");
    CHECK_CODE(AQ_OK, open_once(path));
    CHECK(unlink(path) == 0);
}

static void a_heap_is_open_once(void)
{
    aq_durable *heap = open_new("once");
    CHECK_CODE(AQ_EFLASH_BUSY, open_once(path));
    CHECK_MESSAGE(path);
    CHECK_CODE(AQ_OK, aq_durable_close(heap));
    CHECK_CODE(AQ_OK, open_once(path));
    CHECK(unlink(path) == 0);
}

static void paths_that_cannot_be(void)
{
    snprintf(path, sizeof path, "%s/missing/heap", test_dir());
    CHECK_CODE(AQ_EFLASH_MISSING, open_once(path));
    CHECK_MESSAGE(path);
    CHECK_CODE(AQ_EINVAL, open_once(test_dir()));
    bool is_root = geteuid() == 0;
    CHECK(!is_root || seteuid(65534) == 0);
    int error = open_once("/heap-in-the-root-directory");
    CHECK(!is_root || seteuid(0) == 0);
    CHECK_CODE(AQ_EFLASH_PERMISSION, error);
}

static void write_at(off_t offset, const char *text)
{
    int file = open(path, O_WRONLY | O_CREAT, 0600);
    CHECK(file >= 0);
    ssize_t written = pwrite(file, text, strlen(text), offset);
    close(file);
    CHECK(written == (ssize_t)strlen(text));
}

static void other_files_are_left_alone(void)
{
    char text[16] = "";
    snprintf(path, sizeof path, "%s/letter", test_dir());
    write_at(0, "Dear reader");
    CHECK_CODE(AQ_EFORMAT, open_once(path));
    CHECK_MESSAGE(path);
    int file = open(path, O_RDONLY);
    CHECK(file >= 0 && read(file, text, sizeof text) == 11);
    close(file);
    CHECK(strcmp(text, "Dear reader") == 0);
    CHECK(unlink(path) == 0);
}

static void damage_is_named(void)
{
    aq_durable *heap = open_new("damaged");
    for (int i = 0; i < 10; i++)
        allocate(heap, 100);
    CHECK_CODE(AQ_OK, aq_durable_close(heap));
    /* In the first block of the first chunk, which others are behind. */
    write_at(4096 + 32 + 16, "damage");
    CHECK_CODE(AQ_ECORRUPT, open_once(path));
    CHECK_MESSAGE("at byte 4128");
    CHECK(unlink(path) == 0);
}

static void a_full_heap_can_be_emptied(void)
{
    enum { OBJECTS = 4000, BYTES = 1000 };
    static aq_durable_ref objects[OBJECTS];
    char bytes[BYTES];
    int count = 0, error = AQ_OK;
    snprintf(path, sizeof path, "%s/full", test_dir());
    aq_durable_options options = small_durable();
    options.capacity_bytes = 2 * MIB;
    aq_durable *heap;
    CHECK_CODE(AQ_OK, aq_durable_open(path, &options, &heap));
    while (error == AQ_OK && count < OBJECTS) {
        aq_tx *tx = begin(heap);
        CHECK_CODE(AQ_OK, aq_tx_alloc(tx, BYTES, &objects[count]));
        fill(bytes, BYTES, (uint64_t)count);
        CHECK_CODE(AQ_OK, aq_tx_store(tx, objects[count], 0, bytes, BYTES));
        error = aq_tx_commit(tx);
        count += error == AQ_OK;
    }
    CHECK_CODE(AQ_ENOMEM, error);
    CHECK_MESSAGE("2097152");
    CHECK(count > 1000);
    aq_durable_stats stats = {.struct_bytes = sizeof stats};
    CHECK_CODE(AQ_OK, aq_durable_stats_get(heap, &stats));
    CHECK(stats.live_bytes >= (uint64_t)count * BYTES);
    for (int i = 0; i < count; i++) {
        aq_tx *tx = begin(heap);
        CHECK_CODE(AQ_OK, aq_tx_load(tx, objects[i], 0, bytes, BYTES));
        CHECK(is_filled(bytes, BYTES, (uint64_t)i));
        CHECK_CODE(AQ_OK, aq_tx_free(tx, objects[i]));
        CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    }
    CHECK_CODE(AQ_OK, aq_durable_stats_get(heap, &stats));
    CHECK(stats.live_bytes < 64 << 10);
    allocate(heap, BYTES);
    close_and_remove(heap);
}

/* Runs work() in a child; its exit status. */
static int in_child(int (*work)(void))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(work());
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

enum { NOT_ALLOWED = 120, WRONG = 121 };

/* Allocates until that fails; the error. */
static int fill_heap(const char *where)
{
    enum { BYTES = 30000 };
    static const char bytes[BYTES] = "full";
    aq_durable_options options = small_durable();
    aq_durable *heap;
    int error = aq_durable_open(where, &options, &heap);
    while (error == AQ_OK) {
        aq_tx *tx;
        aq_durable_ref object;
        if (aq_tx_begin(heap, &tx) != AQ_OK || aq_tx_alloc(tx, BYTES, &object) != AQ_OK ||
            aq_tx_store(tx, object, 0, bytes, BYTES) != AQ_OK)
            return WRONG;
        error = aq_tx_commit(tx);
    }
    return error;
}

static int on_a_small_file_system(void)
{
    bool mounted = mkdir(path, 0755) == 0 && unshare(CLONE_NEWNS) == 0 &&
                   mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                   mount("none", path, "tmpfs", 0, "size=4m") == 0;
    char file[600];
    snprintf(file, sizeof file, "%s/heap", path);
    return mounted ? fill_heap(file) : NOT_ALLOWED;
}

static void the_file_system_is_full(void)
{
    snprintf(path, sizeof path, "%s/small", test_dir());
    int error = in_child(on_a_small_file_system);
    rmdir(path);
    if (error == NOT_ALLOWED)
        SKIP("a small file system cannot be mounted here; needs root");
    CHECK_CODE(AQ_EFLASH_FULL, error);
}

static int with_a_limit(void)
{
    struct rlimit limit = {2 * MIB, 2 * MIB};
    signal(SIGXFSZ, SIG_IGN);
    return setrlimit(RLIMIT_FSIZE, &limit) == 0 ? fill_heap(path) : NOT_ALLOWED;
}

static void the_system_refuses(void)
{
    snprintf(path, sizeof path, "%s/limited", test_dir());
    CHECK_CODE(AQ_EIO, in_child(with_a_limit));
    CHECK_CODE(AQ_OK, open_once(path));
    CHECK(unlink(path) == 0);
}

static aq_durable *inherited;
static aq_tx *inherited_tx;

static int use_what_the_parent_has(void)
{
    aq_tx *tx = NULL;
    aq_durable_stats stats = {.struct_bytes = sizeof stats};
    bool refused = aq_tx_commit(inherited_tx) == AQ_EFORKED && aq_tx_begin(inherited, &tx) == AQ_EFORKED && !tx &&
                   aq_durable_stats_get(inherited, &stats) == AQ_EFORKED && aq_durable_close(inherited) == AQ_EFORKED;
    return refused ? AQ_OK : WRONG;
}

/* Two processes must not write to one log. */
static void a_child_is_kept_out(void)
{
    inherited = open_new("parent");
    aq_durable_ref object = allocate(inherited, 8);
    inherited_tx = begin(inherited);
    CHECK_CODE(AQ_OK, aq_tx_store_u64(inherited_tx, object, 0, 9));
    CHECK_CODE(AQ_OK, in_child(use_what_the_parent_has));
    CHECK_CODE(AQ_OK, aq_tx_commit(inherited_tx));
    CHECK_CODE(AQ_OK, aq_durable_close(inherited));
    inherited = reopen();
    CHECK(number_in(inherited, object) == 9);
    close_and_remove(inherited);
}

/* ---- Statistics -------------------------------------------------------- */

static void statistics_tell_what_happened(void)
{
    aq_durable *heap = open_new("statistics");
    aq_durable_stats before = {.struct_bytes = sizeof before}, after = {.struct_bytes = sizeof after};
    aq_durable_ref object = allocate(heap, 8);
    CHECK_CODE(AQ_OK, aq_durable_stats_get(heap, &before));
    for (int i = 0; i < 10; i++)
        CHECK_CODE(AQ_OK, increment(heap, object));
    CHECK_CODE(AQ_OK, aq_durable_stats_get(heap, &after));
    CHECK(after.fences == before.fences + 10);
    CHECK(after.written_bytes > before.written_bytes && after.live_bytes == before.live_bytes + 8);
    CHECK(after.capacity_bytes == 64 * MIB && after.file_bytes <= after.capacity_bytes);
    CHECK(after.map_bytes > 0);

    /* A program that was built with an older, shorter struct. */
    memset(&after, 0x5A, sizeof after);
    after.struct_bytes = offsetof(aq_durable_stats, live_bytes);
    CHECK_CODE(AQ_OK, aq_durable_stats_get(heap, &after));
    CHECK(after.capacity_bytes == 64 * MIB && after.live_bytes == 0x5A5A5A5A5A5A5A5Au);
    after.struct_bytes = 0;
    CHECK_CODE(AQ_EINVAL, aq_durable_stats_get(heap, &after));
    CHECK_MESSAGE("aq_durable_stats");
    close_and_remove(heap);
}

static uint64_t fences(aq_durable *heap)
{
    aq_durable_stats stats = {.struct_bytes = sizeof stats};
    CHECK_CODE(AQ_OK, aq_durable_stats_get(heap, &stats));
    return stats.fences;
}

static void commits_may_be_durable_later(void)
{
    close_and_remove(open_new("later"));
    aq_durable_options options = small_durable();
    options.durability = AQ_DURABLE_RELAXED;
    aq_durable *heap = NULL;
    CHECK_CODE(AQ_OK, aq_durable_open(path, &options, &heap));
    aq_durable_ref object = allocate(heap, 8);
    uint64_t before = fences(heap);
    for (int i = 0; i < 10; i++)
        CHECK_CODE(AQ_OK, increment(heap, object));
    CHECK(fences(heap) == before);
    CHECK_CODE(AQ_OK, aq_durable_sync(heap));
    uint64_t synced = fences(heap);
    CHECK(synced > before);
    CHECK_CODE(AQ_OK, aq_durable_sync(heap)); /* nothing to do */
    CHECK(fences(heap) == synced);
    CHECK_CODE(AQ_OK, increment(heap, object));
    CHECK_CODE(AQ_OK, aq_durable_close(heap));
    heap = reopen();
    CHECK(number_in(heap, object) == 11);
    CHECK_CODE(AQ_EINVAL, aq_durable_sync(NULL));
    close_and_remove(heap);

    options.durability = AQ_DURABLE_GROUP;
    options.group_us = 500;
    CHECK_CODE(AQ_OK, aq_durable_open(path, &options, &heap));
    object = allocate(heap, 8);
    for (int i = 0; i < 1000; i++)
        CHECK_CODE(AQ_OK, increment(heap, object));
    CHECK_CODE(AQ_OK, aq_durable_close(heap));
    heap = reopen();
    CHECK(number_in(heap, object) == 1000);
    close_and_remove(heap);
}

/* Chunks of the file that have a part of a checkpoint. */
static int parts_of_checkpoints(void)
{
    int count = 0, file = open(path, O_RDONLY);
    char magic[4];
    CHECK(file >= 0);
    for (off_t chunk = 4096; pread(file, magic, sizeof magic, chunk) == sizeof magic; chunk += 64 << 10)
        count += memcmp(magic, "CKPT", sizeof magic) == 0;
    close(file);
    return count;
}

static void a_checkpoint_is_written_at_close(void)
{
    enum { COUNTERS = 100 };
    aq_durable_ref counters[COUNTERS];
    aq_durable_options options = small_durable();
    options.checkpoint_bytes = 1 * MIB;
    aq_durable *heap = open_new("checkpoint");
    for (int i = 0; i < COUNTERS; i++)
        counters[i] = allocate(heap, 2000);
    CHECK_CODE(AQ_OK, aq_durable_close(heap));
    CHECK(parts_of_checkpoints() == 0);
    for (uint64_t round = 0; round < 3; round++) {
        CHECK_CODE(AQ_OK, aq_durable_open(path, &options, &heap));
        for (int i = 0; i < COUNTERS; i++) {
            CHECK(number_in(heap, counters[i]) == round);
            CHECK_CODE(AQ_OK, increment(heap, counters[i]));
        }
        CHECK_CODE(AQ_OK, aq_durable_close(heap));
        CHECK(parts_of_checkpoints() == 1);
    }
    heap = reopen();
    CHECK(number_in(heap, counters[COUNTERS - 1]) == 3);
    close_and_remove(heap);
}

int main(void)
{
    RUN(nonsense_options_are_refused_and_no_file_is_made);
    RUN(a_heap_tells_its_numbers_at_a_socket);
    RUN(a_heap_is_open_once);
    RUN(paths_that_cannot_be);
    RUN(other_files_are_left_alone);
    RUN(damage_is_named);
    RUN(a_full_heap_can_be_emptied);
    RUN(the_file_system_is_full);
    RUN(the_system_refuses);
    RUN(a_child_is_kept_out);
    RUN(statistics_tell_what_happened);
    RUN(commits_may_be_durable_later);
    RUN(a_checkpoint_is_written_at_close);
    return tests_failed();
}

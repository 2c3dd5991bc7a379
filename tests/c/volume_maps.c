/* volume_maps.c - files of volumes as memory: what is stored is there, also after kill -9; who may map what; forks. */
#include "volume.h"

#include <errno.h>
#include <signal.h>

enum { FILE_BYTES = 40 << 20, PAGES = FILE_BYTES / 4096 };

/* ---- Mappings ---------------------------------------------------------- */

static int map_with(aq_file *file, uint64_t offset, size_t len, int flags)
{
    void *const untouched = path, *address = untouched;
    int error = aq_file_map(file, offset, len, flags, &address);
    CHECK((error == AQ_OK) != (address == untouched));
    if (error != AQ_OK)
        return error;
    CHECK_CODE(AQ_EFOREIGN, aq_file_unmap((char *)address + 4096));
    CHECK_CODE(AQ_OK, aq_file_unmap(address));
    CHECK_CODE(AQ_EFOREIGN, aq_file_unmap(address));
    return AQ_OK;
}

static void a_file_is_mapped_for_what_it_was_opened(void)
{
    const int read = AQ_MAP_READ, write = AQ_MAP_WRITE, private = AQ_MAP_PRIVATE, share = AQ_MAP_SHARE;
    aq_volume *volume = open_new("rights");
    CHECK_CODE(AQ_OK, aq_file_unmap(map_new(volume, "/file", 8192)));
    aq_file *both = open_file(volume, "/file", READ_WRITE), *reader = open_file(volume, "/file", AQ_OPEN_READ);
    aq_file *writer = open_file(volume, "/file", AQ_OPEN_WRITE);
    CHECK_CODE(AQ_OK, map_with(both, 0, 8192, read | write));
    CHECK_CODE(AQ_OK, map_with(both, 4096, 100, write));
    CHECK_CODE(AQ_OK, map_with(reader, 0, 8192, read));
    CHECK_CODE(AQ_OK, map_with(reader, 0, 8192, read | private));
    CHECK_CODE(AQ_OK, map_with(reader, 0, 8192, write | private));
    CHECK_CODE(AQ_EPERMISSION, map_with(reader, 0, 8192, write));
    CHECK_MESSAGE("AQ_OPEN_WRITE");
    CHECK_CODE(AQ_EPERMISSION, map_with(writer, 0, 8192, write));
    CHECK_MESSAGE("AQ_OPEN_READ");
    CHECK_CODE(AQ_EPERMISSION, map_with(writer, 0, 8192, write | private));
    CHECK_CODE(AQ_EINVAL, map_with(both, 0, 8192, 0));
    CHECK_CODE(AQ_EINVAL, map_with(both, 0, 8192, private));
    CHECK_CODE(AQ_OK, map_with(both, 0, 8192, write | share));
    CHECK_CODE(AQ_EINVAL, map_with(both, 0, 8192, write | private | share));
    CHECK_CODE(AQ_EINVAL, map_with(both, 0, 8192, read | 16));
    CHECK_CODE(AQ_EINVAL, map_with(both, 100, 8192, read));
    CHECK_CODE(AQ_EINVAL, map_with(both, 0, 0, read));
    CHECK_CODE(AQ_ETOOLARGE, map_with(both, AQ_FILE_BYTES_MAX, 4096, read));
    CHECK_CODE(AQ_OK, aq_file_close(both));
    CHECK_CODE(AQ_OK, aq_file_close(reader));
    CHECK_CODE(AQ_OK, aq_file_close(writer));
    close_and_remove(volume);
}

static void a_second_mapping_shows_what_the_first_has(void)
{
    aq_volume *volume = open_new("second");
    char *first = map_new(volume, "/file", FILE_BYTES), *second;
    for (uint64_t page = 0; page < PAGES; page++)
        fill(first + page * 4096, 4096, page);
    aq_file *file = open_file(volume, "/file", READ_WRITE);
    CHECK_CODE(AQ_OK, aq_file_map(file, 0, FILE_BYTES, AQ_MAP_WRITE, (void **)&second));
    for (uint64_t page = 0; page < PAGES; page++) {
        CHECK(is_filled(second + page * 4096, 4096, page));
        second[page * 4096] = 'x';
        CHECK(first[page * 4096] == 'x');
    }
    CHECK_CODE(AQ_OK, aq_file_unmap(first));
    CHECK(second[4096] == 'x');
    CHECK_CODE(AQ_OK, aq_file_unmap(second));
    CHECK_CODE(AQ_OK, aq_file_close(file));
    close_and_remove(volume);
}

static void ten_times_the_ram(void)
{
    aq_volume *volume = open_new("large");
    char *bytes = map_new(volume, "/file", FILE_BYTES);
    for (uint64_t page = 0; page < PAGES; page++)
        fill(bytes + page * 4096, 4096, page);
    for (uint64_t page = 0; page < PAGES; page += 7)
        fill(bytes + page * 4096 + 8, 64, page + 1000000);
    CHECK_CODE(AQ_OK, aq_volume_sync(volume));
    for (uint64_t n = 0; n < PAGES; n++) {
        uint64_t page = mix(n) % PAGES;
        char *at = bytes + page * 4096;
        CHECK(page % 7 ? is_filled(at, 4096, page) : is_filled(at, 8, page) && is_filled(at + 8, 64, page + 1000000));
    }
    CHECK_CODE(AQ_OK, aq_file_unmap(bytes));
    CHECK_CODE(AQ_OK, aq_volume_close(volume));
    volume = reopen();
    aq_file *file = open_file(volume, "/file", AQ_OPEN_READ);
    CHECK(inode_of(file).size_bytes == FILE_BYTES && inode_of(file).flash_bytes == FILE_BYTES);
    void *again;
    CHECK_CODE(AQ_OK, aq_file_map(file, 4096, FILE_BYTES - 4096, AQ_MAP_READ, &again));
    for (uint64_t page = 1; page < PAGES; page++)
        CHECK(page % 7 == 0 || is_filled((char *)again + (page - 1) * 4096, 4096, page));
    CHECK_CODE(AQ_OK, aq_file_unmap(again));
    CHECK_CODE(AQ_OK, aq_file_close(file));
    close_and_remove(volume);
}

static void private_stores_are_nobody_elses(void)
{
    aq_volume *volume = open_new("private");
    char *bytes = map_new(volume, "/file", FILE_BYTES), *private;
    for (uint64_t page = 0; page < PAGES; page += 2)
        fill(bytes + page * 4096, 4096, page);
    aq_file *file = open_file(volume, "/file", AQ_OPEN_READ);
    CHECK_CODE(AQ_OK, aq_file_map(file, 0, FILE_BYTES, AQ_MAP_WRITE | AQ_MAP_PRIVATE, (void **)&private));
    CHECK_CODE(AQ_OK, aq_file_close(file));
    uint64_t taken = inode_at(volume, "/file").flash_bytes;
    for (uint64_t page = 0; page < PAGES; page++) {
        CHECK(page % 2 ? is_zero(private + page * 4096, 4096) : is_filled(private + page * 4096, 4096, page));
        private[page * 4096 + 5] = 'x';
    }
    for (uint64_t page = 0; page < PAGES; page++) {
        CHECK(private[page * 4096 + 5] == 'x');
        CHECK(page % 2 ? is_zero(bytes + page * 4096, 4096) : is_filled(bytes + page * 4096, 4096, page));
    }
    CHECK(inode_at(volume, "/file").flash_bytes == taken);
    CHECK_CODE(AQ_OK, aq_file_unmap(private));
    CHECK_CODE(AQ_OK, aq_file_unmap(bytes));
    close_and_remove(volume);
}

/* The caller's memory is itself a part of the volume, most of it not in RAM. */
static void buffers_may_be_mapped_memory(void)
{
    aq_volume *volume = open_new("buffers");
    char *a = map_new(volume, "/a", FILE_BYTES / 2), *b = map_new(volume, "/b", FILE_BYTES / 2);
    aq_file *file_a = open_file(volume, "/a", READ_WRITE), *file_b = open_file(volume, "/b", READ_WRITE);
    aq_file *file_c = open_file(volume, "/c", NEW);
    fill(a, FILE_BYTES / 2, 1);
    CHECK(read_some(file_a, 0, b, FILE_BYTES / 2) == FILE_BYTES / 2);
    CHECK(is_filled(b, FILE_BYTES / 2, 1));
    write_all(file_c, 3, b, FILE_BYTES / 2);
    memset(b, 0, FILE_BYTES / 2);
    CHECK(read_some(file_c, 3, b, FILE_BYTES / 2) == FILE_BYTES / 2);
    CHECK(is_filled(b, FILE_BYTES / 2, 1));
    /* Into and out of the very file. */
    fill(a, 8 << 20, 2);
    write_all(file_a, 8 << 20, a, 8 << 20);
    CHECK(is_filled(a + (8 << 20), 8 << 20, 2));
    CHECK(read_some(file_b, 0, b + (8 << 20), 8 << 20) == 8 << 20);
    CHECK(is_filled(b + (8 << 20), 8 << 20, 1));
    uint64_t offset;
    size_t done;
    CHECK_CODE(AQ_OK, aq_file_append(file_c, a, 1 << 20, &offset, &done));
    CHECK(done == 1 << 20 && offset == FILE_BYTES / 2 + 3);
    CHECK(read_some(file_c, offset, b, 2 << 20) == 1 << 20);
    CHECK(memcmp(a, b, 1 << 20) == 0);
    /* A path, too. */
    strcpy(a + 12345678, "/c");
    CHECK(inode_at(volume, a + 12345678).ino == inode_of(file_c).ino);
    CHECK_CODE(AQ_OK, aq_file_close(file_a));
    CHECK_CODE(AQ_OK, aq_file_close(file_b));
    CHECK_CODE(AQ_OK, aq_file_close(file_c));
    CHECK_CODE(AQ_OK, aq_file_unmap(a));
    CHECK_CODE(AQ_OK, aq_file_unmap(b));
    close_and_remove(volume);
}

/* The kernel does not fault on the program's behalf. It says so, and moves no wrong bytes. */
static void a_system_call_is_refused_what_is_not_in_ram(void)
{
    aq_volume *volume = open_new("calls");
    char *bytes = map_new(volume, "/file", 8192), copy[100];
    fill(bytes, 8192, 1);
    CHECK_CODE(AQ_OK, aq_file_unmap(bytes));
    CHECK_CODE(AQ_OK, aq_volume_close(volume));
    volume = reopen();
    aq_file *file = open_file(volume, "/file", AQ_OPEN_READ);
    CHECK_CODE(AQ_OK, aq_file_map(file, 0, 8192, AQ_MAP_READ, (void **)&bytes));
    CHECK_CODE(AQ_OK, aq_file_close(file));
    int ends[2];
    CHECK(pipe(ends) == 0);
    errno = 0;
    CHECK(write(ends[1], bytes, sizeof copy) == -1 && errno == EFAULT);
    CHECK(is_filled(bytes, 8192, 1));
    CHECK(write(ends[1], bytes, sizeof copy) == sizeof copy && read(ends[0], copy, sizeof copy) == sizeof copy);
    CHECK(memcmp(copy, bytes, sizeof copy) == 0);
    close(ends[0]);
    close(ends[1]);
    CHECK_CODE(AQ_OK, aq_file_unmap(bytes));
    close_and_remove(volume);
}

static void a_read_only_volume_is_mapped_to_read(void)
{
    aq_volume *volume = open_new("reading");
    char *bytes = map_new(volume, "/file", 1 << 20);
    fill(bytes, 1 << 20, 1);
    CHECK_CODE(AQ_OK, aq_file_unmap(bytes));
    CHECK_CODE(AQ_OK, aq_volume_close(volume));
    aq_volume_options options;
    aq_volume_options_init(&options, sizeof options);
    options.read_only = 1;
    CHECK_CODE(AQ_OK, aq_volume_open(path, &options, &volume));
    aq_file *file = open_file(volume, "/file", READ_WRITE);
    CHECK_CODE(AQ_EREADONLY, map_with(file, 0, 1 << 20, AQ_MAP_WRITE));
    CHECK_CODE(AQ_OK, aq_file_map(file, 0, 1 << 20, AQ_MAP_READ, (void **)&bytes));
    CHECK(is_filled(bytes, 1 << 20, 1));
    CHECK_CODE(AQ_OK, aq_file_unmap(bytes));
    CHECK_CODE(AQ_OK, aq_file_close(file));
    close_and_remove(volume);
}

static void a_volume_is_not_closed_under_a_mapping(void)
{
    aq_volume *volume = open_new("busy");
    char *bytes = map_new(volume, "/file", 8192);
    strcpy(bytes + 4096, "still here");
    CHECK_CODE(AQ_EBUSY, aq_volume_close(volume));
    CHECK_MESSAGE("mapped");
    /* A mapping keeps the bytes of a file without a name. */
    CHECK_CODE(AQ_OK, aq_volume_remove(volume, "/file"));
    CHECK_CODE(AQ_OK, aq_volume_sync(volume));
    CHECK(strcmp(bytes + 4096, "still here") == 0);
    CHECK_CODE(AQ_OK, aq_file_unmap(bytes));
    aq_space space = {.struct_bytes = sizeof space};
    CHECK_CODE(AQ_OK, aq_volume_space(volume, &space));
    CHECK(space.files == 1);
    close_and_remove(volume);
}

/* A page behind the end of its file; in a child. */
static int touch_behind_the_end(void)
{
    aq_volume *volume;
    aq_file *file;
    char *bytes;
    signal(SIGBUS, SIG_DFL);
    if (aq_volume_open(path, NULL, &volume) != AQ_OK ||
        aq_file_open(volume, "/file", AQ_OPEN_READ, 0, &file) != AQ_OK ||
        aq_file_map(file, 0, 16384, AQ_MAP_READ, (void **)&bytes) != AQ_OK)
        return 1;
    if (*(volatile char *)(bytes + 8191) != 'x')
        return 2;
    return *(volatile char *)(bytes + 8192) ? 3 : 4;
}

static void behind_the_end_is_nothing(void)
{
    aq_volume *volume = open_new("end");
    char *bytes = map_new(volume, "/file", 8192);
    bytes[8191] = 'x';
    CHECK_CODE(AQ_OK, aq_file_unmap(bytes));
    CHECK_CODE(AQ_OK, aq_volume_close(volume));
    CHECK(in_child(touch_behind_the_end) == 128 + SIGBUS);
    close_and_remove(reopen());
}

static int store_to_what_is_read(void)
{
    aq_volume *volume;
    aq_file *file;
    char *bytes;
    if (aq_volume_open(path, NULL, &volume) != AQ_OK || aq_file_open(volume, "/file", READ_WRITE, 0, &file) != AQ_OK ||
        aq_file_map(file, 0, 8192, AQ_MAP_READ, (void **)&bytes) != AQ_OK || *(volatile char *)bytes != 0)
        return 1;
    *(volatile char *)bytes = 1;
    return 2;
}

static void what_is_mapped_to_read_cannot_be_stored_to(void)
{
    aq_volume *volume = open_new("reading");
    CHECK_CODE(AQ_OK, aq_file_unmap(map_new(volume, "/file", 8192)));
    CHECK_CODE(AQ_OK, aq_volume_close(volume));
    CHECK(in_child(store_to_what_is_read) == 128 + SIGSEGV);
    close_and_remove(reopen());
}

/* ---- Crashes ----------------------------------------------------------- */

enum { SLOTS = 3000, SLOT_BYTES = 8192, KILLS = 12 };

static volatile uint64_t *slot(char *bytes, int i)
{
    return (volatile uint64_t *)(bytes + (size_t)i * SLOT_BYTES);
}

/* Stores 1 to all slots in their order, then 2, and so on; tells each number that was synced. */
static int count_rounds(int pipe_end)
{
    aq_volume *volume;
    aq_file *file;
    char *bytes;
    aq_volume_options options;
    aq_volume_options_init(&options, sizeof options);
    options.ram_bytes = 4 * MIB;
    if (aq_volume_open(path, &options, &volume) != AQ_OK || aq_file_open(volume, "/file", READ_WRITE, 0, &file) != AQ_OK ||
        aq_file_map(file, 0, (size_t)SLOTS * SLOT_BYTES, AQ_MAP_WRITE, (void **)&bytes) != AQ_OK)
        return 1;
    for (uint64_t round = *slot(bytes, 0) + 1;; round++) {
        for (int i = 0; i < SLOTS; i++)
            *slot(bytes, i) = round;
        if (aq_file_sync(file) != AQ_OK || write(pipe_end, &round, sizeof round) != sizeof round)
            return 2;
    }
}

/* Kills a counter in the middle of its work, after so many rounds; the last number that it told. */
static uint64_t count_and_kill(int rounds)
{
    int ends[2];
    uint64_t told = 0;
    fflush(stdout);
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        _exit(count_rounds(ends[1]));
    }
    close(ends[1]);
    CHECK(child > 0);
    for (int i = 0; i < rounds; i++)
        CHECK(read(ends[0], &told, sizeof told) == sizeof told);
    /* Some way into the next round. */
    usleep((useconds_t)rounds * 700);
    CHECK(kill(child, SIGKILL) == 0);
    while (read(ends[0], &told, sizeof told) == sizeof told)
        ;
    close(ends[0]);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return told;
}

static void what_was_synced_survives_kill_9(void)
{
    aq_volume *volume = open_new("killed");
    CHECK_CODE(AQ_OK, aq_file_unmap(map_new(volume, "/file", (size_t)SLOTS * SLOT_BYTES)));
    CHECK_CODE(AQ_OK, aq_volume_close(volume));
    for (int kill = 1; kill <= KILLS; kill++) {
        uint64_t told = count_and_kill(kill % 4 + 1);
        char *bytes;
        volume = reopen();
        aq_file *file = open_file(volume, "/file", AQ_OPEN_READ);
        CHECK_CODE(AQ_OK, aq_file_map(file, 0, (size_t)SLOTS * SLOT_BYTES, AQ_MAP_READ, (void **)&bytes));
        /* What is there is a moment: all stores up to one, and none behind it. */
        uint64_t first = *slot(bytes, 0);
        CHECK(*slot(bytes, SLOTS - 1) >= told);
        for (int i = 1; i < SLOTS; i++)
            CHECK(*slot(bytes, i) <= *slot(bytes, i - 1) && *slot(bytes, i) + 1 >= first);
        CHECK_CODE(AQ_OK, aq_file_unmap(bytes));
        CHECK_CODE(AQ_OK, aq_file_close(file));
        CHECK_CODE(AQ_OK, aq_volume_check(volume));
        CHECK_CODE(AQ_OK, aq_volume_close(volume));
    }
    close_and_remove(reopen());
}

/* ---- Forks ------------------------------------------------------------- */

static aq_volume *of_parent;
static aq_file *file_of_parent;
static char *bytes_of_parent;

static int load_what_the_parent_has(void)
{
    return *(volatile char *)(bytes_of_parent + 4096) == 'y';
}

static int store_to_what_the_parent_has(void)
{
    *(volatile char *)bytes_of_parent = 'c';
    return 0;
}

static int call_what_the_parent_has(void)
{
    void *address = NULL;
    size_t done;
    char byte;
    aq_inode inode = {.struct_bytes = sizeof inode};
    bool refused = aq_volume_sync(of_parent) == AQ_EFORKED && aq_volume_close(of_parent) == AQ_EFORKED &&
                   aq_volume_make_folder(of_parent, "/child", 0755) == AQ_EFORKED &&
                   aq_file_read(file_of_parent, 0, &byte, 1, &done) == AQ_EFORKED &&
                   aq_file_map(file_of_parent, 0, 4096, AQ_MAP_READ, &address) == AQ_EFORKED && !address &&
                   aq_file_stat(file_of_parent, &inode) == AQ_EFORKED &&
                   aq_file_unmap(bytes_of_parent) == AQ_EFORKED && aq_file_close(file_of_parent) == AQ_EFORKED;
    return refused ? 0 : 1;
}

static void a_child_does_not_have_the_memory(void)
{
    of_parent = open_new("forked");
    bytes_of_parent = map_new(of_parent, "/file", FILE_BYTES);
    file_of_parent = open_file(of_parent, "/file", READ_WRITE);
    bytes_of_parent[4096] = 'x';
    CHECK(in_child(load_what_the_parent_has) == 128 + SIGSEGV);
    CHECK(in_child(store_to_what_the_parent_has) == 128 + SIGSEGV);
    CHECK(in_child(call_what_the_parent_has) == 0);
    CHECK(bytes_of_parent[4096] == 'x' && bytes_of_parent[0] == 0);
    for (uint64_t page = 0; page < PAGES; page++)
        fill(bytes_of_parent + page * 4096, 4096, page);
    CHECK_CODE(AQ_OK, aq_volume_sync(of_parent));
    for (uint64_t page = 0; page < PAGES; page++)
        CHECK(is_filled(bytes_of_parent + page * 4096, 4096, page));
    CHECK_CODE(AQ_OK, aq_file_unmap(bytes_of_parent));
    CHECK_CODE(AQ_OK, aq_file_close(file_of_parent));
    close_and_remove(of_parent);
}

int main(void)
{
    RUN(a_file_is_mapped_for_what_it_was_opened);
    RUN(a_second_mapping_shows_what_the_first_has);
    RUN(ten_times_the_ram);
    RUN(private_stores_are_nobody_elses);
    RUN(buffers_may_be_mapped_memory);
    RUN(a_system_call_is_refused_what_is_not_in_ram);
    RUN(a_read_only_volume_is_mapped_to_read);
    RUN(a_volume_is_not_closed_under_a_mapping);
    RUN(behind_the_end_is_nothing);
    RUN(what_is_mapped_to_read_cannot_be_stored_to);
    RUN(what_was_synced_survives_kill_9);
    RUN(a_child_does_not_have_the_memory);
    return tests_failed();
}

/* volume.c - volumes, bytes and names of files in them, with good and bad arguments. */
#include "volume.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>

/* ---- Volumes ----------------------------------------------------------- */

static void options_start_with_their_size(void)
{
    aq_volume_options options;
    memset(&options, 0xA5, sizeof options);
    aq_volume_options_init(&options, sizeof options);
    CHECK(options.struct_bytes == sizeof options && options.ram_bytes == 0 && options.read_only == 0);
    aq_volume_options_init(NULL, 64);
    aq_volume *const untouched = (aq_volume *)&options, *volume = untouched;
    CHECK_CODE(AQ_OK, aq_volume_close(open_new("options")));
    options.ram_bytes = AQ_VOLUME_RAM_MIN - 1;
    CHECK_CODE(AQ_EINVAL, aq_volume_open(path, &options, &volume));
    options.ram_bytes = AQ_VOLUME_RAM_MIN;
    options.struct_bytes = 8;
    CHECK_CODE(AQ_EINVAL, aq_volume_open(path, &options, &volume));
    CHECK_MESSAGE("aq_volume_options_init");
    CHECK(volume == untouched);
    CHECK_CODE(AQ_OK, aq_volume_open(path, NULL, &volume));
    close_and_remove(volume);
}

static int open_anyway(aq_volume_options *options)
{
    aq_volume *opened = NULL;
    int code = aq_volume_open(path, options, &opened);
    return code == AQ_OK ? aq_volume_close(opened) : code;
}

static void options_have_the_size_that_the_program_knows(void)
{
    aq_volume *volume = open_new("sizes");
    CHECK_CODE(AQ_OK, aq_volume_close(volume));
    CHECK_OPTIONS_OF_OTHER_SIZES(aq_volume_options, aq_volume_options_init,
        offsetof(aq_volume_options, read_only), open_anyway);
    CHECK_CODE(AQ_OK, aq_volume_open(path, NULL, &volume));
    close_and_remove(volume);
}

static void sizes_that_cannot_be(void)
{
    snprintf(path, sizeof path, "%s/sizes", test_dir());
    CHECK_REFUSED(aq_volume_create(path, 100, 0));
    CHECK_CODE(AQ_EINVAL, aq_volume_create(path, 96 * MIB, 100000));
    CHECK_CODE(AQ_EINVAL, aq_volume_create(path, 96 * MIB, 64 * MIB));
    CHECK_MESSAGE(path);
    CHECK_CODE(AQ_OK, aq_volume_create(path, 96 * MIB, 1 * MIB));
    close_and_remove(reopen());
}

/* What opening a path gives; a volume that opens is closed again. */
static int open_once(const char *where)
{
    aq_volume *volume = NULL;
    int error = aq_volume_open(where, NULL, &volume);
    return error == AQ_OK ? aq_volume_close(volume) : error;
}

static void paths_that_cannot_be(void)
{
    aq_volume *volume = open_new("once");
    CHECK_CODE(AQ_EFLASH_BUSY, open_once(path));
    CHECK_CODE(AQ_EFLASH_BUSY, aq_volume_create(path, 96 * MIB, 0));
    CHECK_MESSAGE(path);
    close_and_remove(volume);
    CHECK_CODE(AQ_EFLASH_MISSING, open_once(path));
    CHECK_MESSAGE(path);
    CHECK_CODE(AQ_EINVAL, open_once(""));
    CHECK_CODE(AQ_EINVAL, open_once(NULL));
    CHECK_CODE(AQ_EINVAL, aq_volume_create(NULL, 96 * MIB, 0));
    CHECK_CODE(AQ_EFORMAT, open_once(test_dir()));
    int file = open(path, O_WRONLY | O_CREAT, 0600);
    CHECK(file >= 0 && write(file, "Dear reader", 11) == 11 && ftruncate(file, 1 << 20) == 0);
    close(file);
    CHECK_CODE(AQ_EFORMAT, open_once(path));
    CHECK_MESSAGE("not a volume");
    CHECK(unlink(path) == 0);
}

static void read_only_volumes_do_not_change(void)
{
    aq_volume *volume = open_new("read-only");
    aq_file *file = open_file(volume, "/file", NEW);
    write_all(file, 0, "kept", 4);
    CHECK_CODE(AQ_OK, aq_file_close(file));
    CHECK_CODE(AQ_OK, aq_volume_close(volume));
    aq_volume_options options;
    aq_volume_options_init(&options, sizeof options);
    options.read_only = 1;
    CHECK_CODE(AQ_OK, aq_volume_open(path, &options, &volume));
    CHECK_CODE(AQ_EREADONLY, aq_volume_make_folder(volume, "/folder", 0755));
    CHECK_CODE(AQ_EREADONLY, aq_volume_remove(volume, "/file"));
    file = open_file(volume, "/file", READ_WRITE);
    char bytes[8];
    size_t done;
    CHECK(read_some(file, 0, bytes, sizeof bytes) == 4 && memcmp(bytes, "kept", 4) == 0);
    CHECK_CODE(AQ_EREADONLY, aq_file_write(file, 0, "lost", 4, &done));
    CHECK_CODE(AQ_OK, aq_file_sync(file));
    CHECK_CODE(AQ_OK, aq_file_close(file));
    close_and_remove(volume);
}

static void a_volume_tells_its_numbers_at_a_socket(void)
{
    char where[100];
    snprintf(where, sizeof where, "%s/socket", test_dir());
    aq_volume *volume = open_new("told");
    CHECK_CODE(AQ_OK, aq_volume_close(volume));
    aq_volume_options options;
    aq_volume_options_init(&options, sizeof options);
    options.socket_path = where;
    CHECK_CODE(AQ_OK, aq_volume_open(path, &options, &volume));
    struct stat is;
    CHECK(stat(where, &is) == 0 && S_ISSOCK(is.st_mode) && (is.st_mode & 0777) == 0600);
    CHECK_CODE(AQ_OK, aq_volume_close(volume));
    CHECK(access(where, F_OK) != 0);
    options.socket_path = path;
    CHECK(aq_volume_open(path, &options, &volume) != AQ_OK);
    CHECK_MESSAGE("could not be made");
    close_and_remove(reopen());
}

static void space_counts_what_files_take(void)
{
    aq_volume *volume = open_new("space");
    aq_space before = {.struct_bytes = sizeof before}, after = {.struct_bytes = sizeof after};
    CHECK_CODE(AQ_OK, aq_volume_space(volume, &before));
    CHECK(before.capacity_bytes > 48 * MIB && before.capacity_bytes < 96 * MIB && before.files == 1);
    aq_file *file = open_file(volume, "/file", NEW);
    static char bytes[8 << 20];
    fill(bytes, sizeof bytes, 1);
    write_all(file, 0, bytes, sizeof bytes);
    CHECK_CODE(AQ_OK, aq_volume_sync(volume));
    CHECK_CODE(AQ_OK, aq_volume_space(volume, &after));
    CHECK(after.used_bytes >= before.used_bytes + sizeof bytes && after.files == 2);
    CHECK(after.capacity_bytes == before.capacity_bytes && after.files_max > 1000);
    after.struct_bytes = 0;
    CHECK_CODE(AQ_EINVAL, aq_volume_space(volume, &after));
    CHECK_MESSAGE("aq_space");
    /* Only as much as the caller's structure has. */
    memset(&after, 0x5A, sizeof after);
    after.struct_bytes = offsetof(aq_space, files);
    CHECK_CODE(AQ_OK, aq_volume_space(volume, &after));
    CHECK(after.capacity_bytes == before.capacity_bytes && after.files == 0x5A5A5A5A5A5A5A5Au);
    CHECK_CODE(AQ_OK, aq_file_close(file));
    close_and_remove(volume);
}

static void a_full_volume_can_be_emptied(void)
{
    static char bytes[1 << 20];
    aq_volume *volume = open_new("full");
    aq_file *file = open_file(volume, "/file", NEW);
    uint64_t size = 0;
    size_t done = sizeof bytes;
    int error = AQ_OK;
    while (error == AQ_OK && size < 96 * MIB) {
        fill(bytes, sizeof bytes, size);
        done = 0;
        error = aq_file_write(file, size, bytes, sizeof bytes, &done);
        size += done;
    }
    CHECK_CODE(AQ_ENOSPACE, error);
    CHECK(size > 48 * MIB && inode_of(file).size_bytes == size);
    CHECK_CODE(AQ_OK, aq_volume_sync(volume));
    for (uint64_t at = 0; at + sizeof bytes <= size; at += sizeof bytes) {
        CHECK(read_some(file, at, bytes, sizeof bytes) == sizeof bytes);
        CHECK(is_filled(bytes, sizeof bytes, at));
    }
    CHECK_CODE(AQ_OK, aq_file_close(file));
    CHECK_CODE(AQ_OK, aq_volume_remove(volume, "/file"));
    file = open_file(volume, "/again", NEW);
    write_all(file, 0, bytes, sizeof bytes);
    CHECK_CODE(AQ_OK, aq_file_close(file));
    close_and_remove(volume);
}

/* One page of a file is damaged on flash. */
static void damage_is_told(void)
{
    static char bytes[1 << 20], block[4096];
    aq_volume *volume = open_new("damaged");
    aq_file *file = open_file(volume, "/file", NEW);
    fill(bytes, sizeof bytes, 7);
    write_all(file, 0, bytes, sizeof bytes);
    CHECK_CODE(AQ_OK, aq_file_close(file));
    CHECK_CODE(AQ_OK, aq_volume_close(volume));
    int image = open(path, O_RDWR);
    CHECK(image >= 0);
    int damaged = 0;
    for (off_t at = 0; pread(image, block, sizeof block, at) == sizeof block; at += sizeof block) {
        if (memcmp(block, bytes + 8 * sizeof block, sizeof block) == 0)
            damaged += pwrite(image, "damage", 6, at + 100) == 6;
    }
    close(image);
    CHECK(damaged == 1);
    volume = reopen();
    CHECK_CODE(AQ_ECORRUPT, aq_volume_check(volume));
    CHECK_MESSAGE("1 things are wrong");
    file = open_file(volume, "/file", AQ_OPEN_READ);
    size_t done = 4711;
    CHECK_CODE(AQ_ECORRUPT, aq_file_read(file, 8 * sizeof block, block, sizeof block, &done));
    CHECK(done == 4711);
    CHECK(read_some(file, 0, block, sizeof block) == sizeof block && memcmp(block, bytes, sizeof block) == 0);
    CHECK_CODE(AQ_OK, aq_file_close(file));
    CHECK_CODE(AQ_OK, aq_volume_close(volume));
    CHECK(unlink(path) == 0);
}

/* ---- Bytes ------------------------------------------------------------- */

static void bytes_are_read_as_written(void)
{
    enum { BYTES = 3 << 20 };
    static char bytes[BYTES], found[BYTES];
    aq_volume *volume = open_new("bytes");
    aq_file *file = open_file(volume, "/file", NEW);
    fill(bytes, BYTES, 1);
    write_all(file, 5000, bytes, BYTES);
    aq_inode inode = inode_of(file);
    CHECK(inode.size_bytes == BYTES + 5000 && inode.kind == AQ_KIND_FILE && inode.mode == 0644 && inode.links == 1);
    CHECK(inode.uid == geteuid() && inode.gid == getegid());
    CHECK(inode.flash_bytes >= BYTES && inode.flash_bytes < BYTES + 16384);
    CHECK(inode.written_at_ns >= inode.made_at_ns && inode.made_at_ns > (int64_t)1000000000 * 1000000000);
    CHECK(read_some(file, 0, found, BYTES) == BYTES && is_zero(found, 5000));
    CHECK(memcmp(found + 5000, bytes, BYTES - 5000) == 0);
    CHECK(read_some(file, BYTES, found, BYTES) == 5000 && memcmp(found, bytes + BYTES - 5000, 5000) == 0);
    CHECK(read_some(file, (uint64_t)1 << 43, found, 1) == 0);
    CHECK_CODE(AQ_OK, aq_file_punch(file, 8192, 4096));
    CHECK(read_some(file, 8192, found, 8192) == 8192 && is_zero(found, 4096));
    CHECK(memcmp(found + 4096, bytes + 8192 + 4096 - 5000, 4096) == 0);
    CHECK(inode_of(file).flash_bytes == inode.flash_bytes - 4096);
    CHECK_CODE(AQ_OK, aq_file_truncate(file, 5001));
    CHECK_CODE(AQ_OK, aq_file_truncate(file, 6000));
    CHECK(read_some(file, 5000, found, BYTES) == 1000 && found[0] == bytes[0] && is_zero(found + 1, 999));
    CHECK_CODE(AQ_OK, aq_file_truncate(file, AQ_FILE_BYTES_MAX));
    CHECK_CODE(AQ_ETOOLARGE, aq_file_truncate(file, AQ_FILE_BYTES_MAX + 1));
    size_t done = 4711;
    CHECK_CODE(AQ_ETOOLARGE, aq_file_write(file, AQ_FILE_BYTES_MAX, bytes, 1, &done));
    CHECK_CODE(AQ_ETOOLARGE, aq_file_write(file, UINT64_MAX, bytes, 2, &done));
    CHECK(done == 4711);
    CHECK_CODE(AQ_OK, aq_file_close(file));
    close_and_remove(volume);
}

static void appends_go_behind_the_end(void)
{
    enum { BYTES = 600000 };
    static char bytes[BYTES], found[BYTES];
    aq_volume *volume = open_new("append");
    aq_file *file = open_file(volume, "/file", NEW), *log = open_file(volume, "/file", READ_WRITE | AQ_OPEN_APPEND);
    uint64_t offset = 4711;
    size_t done = 0;
    fill(bytes, BYTES, 1);
    CHECK_CODE(AQ_OK, aq_file_append(file, "abc", 3, &offset, &done));
    CHECK(offset == 0 && done == 3);
    CHECK_CODE(AQ_OK, aq_file_append(file, bytes, BYTES, &offset, &done));
    CHECK(offset == 3 && done == BYTES);
    CHECK_CODE(AQ_OK, aq_file_append(file, "", 0, NULL, &done));
    CHECK(done == 0);
    write_all(log, 0, "end", 3);
    CHECK(read_some(log, BYTES + 3, found, 10) == 3 && memcmp(found, "end", 3) == 0);
    CHECK(read_some(log, 3, found, BYTES) == BYTES && memcmp(found, bytes, BYTES) == 0);
    CHECK_CODE(AQ_OK, aq_file_close(file));
    CHECK_CODE(AQ_OK, aq_file_close(log));
    close_and_remove(volume);
}

static int open_with(aq_volume *volume, const char *name, int flags)
{
    aq_file *const untouched = (aq_file *)path, *file = untouched;
    int error = aq_file_open(volume, name, flags, 0600, &file);
    CHECK((error == AQ_OK) != (file == untouched));
    return error == AQ_OK ? aq_file_close(file) : error;
}

static void flags_say_how_a_file_is_opened(void)
{
    char bytes[8];
    size_t done = 4711;
    aq_volume *volume = open_new("flags");
    CHECK_CODE(AQ_ENOTFOUND, open_with(volume, "/file", AQ_OPEN_READ));
    CHECK_MESSAGE("/file");
    CHECK_CODE(AQ_OK, open_with(volume, "/file", AQ_OPEN_READ | AQ_OPEN_CREATE));
    CHECK(inode_at(volume, "/file").mode == 0600);
    CHECK_CODE(AQ_EEXISTS, open_with(volume, "/file", NEW));
    CHECK_CODE(AQ_OK, open_with(volume, "/file", READ_WRITE | AQ_OPEN_CREATE));
    CHECK_CODE(AQ_EINVAL, open_with(volume, "/file", 0));
    CHECK_CODE(AQ_EINVAL, open_with(volume, "/file", AQ_OPEN_CREATE));
    CHECK_CODE(AQ_EINVAL, open_with(volume, "/file", AQ_OPEN_READ | AQ_OPEN_TRUNCATE));
    CHECK_CODE(AQ_EINVAL, open_with(volume, "/file", AQ_OPEN_READ | AQ_OPEN_APPEND));
    CHECK_CODE(AQ_EINVAL, open_with(volume, "/file", AQ_OPEN_WRITE | AQ_OPEN_EXCLUSIVE));
    CHECK_CODE(AQ_EINVAL, open_with(volume, "/file", AQ_OPEN_READ | 64));
    CHECK_CODE(AQ_EISFOLDER, open_with(volume, "/", AQ_OPEN_READ));
    CHECK_CODE(AQ_EISFOLDER, open_with(volume, "/", AQ_OPEN_WRITE));
    aq_file *file = open_file(volume, "/file", AQ_OPEN_WRITE);
    write_all(file, 0, "bytes", 5);
    CHECK_CODE(AQ_EPERMISSION, aq_file_read(file, 0, bytes, sizeof bytes, &done));
    CHECK_MESSAGE("AQ_OPEN_READ");
    CHECK_CODE(AQ_OK, aq_file_close(file));
    file = open_file(volume, "/file", AQ_OPEN_READ);
    CHECK_CODE(AQ_EPERMISSION, aq_file_write(file, 0, bytes, 1, &done));
    CHECK_CODE(AQ_EPERMISSION, aq_file_append(file, bytes, 1, NULL, &done));
    CHECK_CODE(AQ_EPERMISSION, aq_file_truncate(file, 0));
    CHECK_CODE(AQ_EPERMISSION, aq_file_punch(file, 0, 1));
    CHECK_MESSAGE("AQ_OPEN_WRITE");
    CHECK(done == 4711 && read_some(file, 0, bytes, sizeof bytes) == 5);
    CHECK_CODE(AQ_OK, open_with(volume, "/file", AQ_OPEN_WRITE | AQ_OPEN_TRUNCATE));
    CHECK(read_some(file, 0, bytes, sizeof bytes) == 0);
    CHECK_CODE(AQ_OK, aq_file_close(file));
    close_and_remove(volume);
}

static void nothing_is_done_with_null(void)
{
    char bytes[8];
    size_t done;
    aq_space space = {.struct_bytes = sizeof space};
    aq_inode inode = {.struct_bytes = sizeof inode};
    aq_file *file;
    aq_volume *volume = open_new("null");
    CHECK_CODE(AQ_EINVAL, aq_volume_open(path, NULL, NULL));
    CHECK_CODE(AQ_EINVAL, aq_volume_close(NULL));
    CHECK_CODE(AQ_EINVAL, aq_volume_sync(NULL));
    CHECK_CODE(AQ_EINVAL, aq_volume_check(NULL));
    CHECK_CODE(AQ_EINVAL, aq_volume_space(NULL, &space));
    CHECK_CODE(AQ_EINVAL, aq_volume_space(volume, NULL));
    CHECK_CODE(AQ_EINVAL, aq_file_open(NULL, "/file", NEW, 0600, &file));
    CHECK_CODE(AQ_EINVAL, aq_file_open(volume, NULL, NEW, 0600, &file));
    CHECK_CODE(AQ_EINVAL, aq_file_open(volume, "/file", NEW, 0600, NULL));
    CHECK_CODE(AQ_ENOTFOUND, aq_volume_stat(volume, "/file", 1, &inode));
    file = open_file(volume, "/file", NEW);
    CHECK_CODE(AQ_EINVAL, aq_file_close(NULL));
    CHECK_CODE(AQ_EINVAL, aq_file_read(NULL, 0, bytes, 1, &done));
    CHECK_CODE(AQ_EINVAL, aq_file_read(file, 0, NULL, 1, &done));
    CHECK_CODE(AQ_EINVAL, aq_file_read(file, 0, bytes, 1, NULL));
    CHECK_CODE(AQ_OK, aq_file_read(file, 0, NULL, 0, &done));
    CHECK_CODE(AQ_EINVAL, aq_file_write(NULL, 0, bytes, 1, &done));
    CHECK_CODE(AQ_EINVAL, aq_file_write(file, 0, NULL, 1, &done));
    CHECK_CODE(AQ_EINVAL, aq_file_write(file, 0, bytes, 1, NULL));
    CHECK_CODE(AQ_OK, aq_file_write(file, 0, NULL, 0, &done));
    CHECK_CODE(AQ_EINVAL, aq_file_append(NULL, bytes, 1, NULL, &done));
    CHECK_CODE(AQ_EINVAL, aq_file_append(file, NULL, 1, NULL, &done));
    CHECK_CODE(AQ_EINVAL, aq_file_append(file, bytes, 1, NULL, NULL));
    CHECK_CODE(AQ_EINVAL, aq_file_truncate(NULL, 0));
    CHECK_CODE(AQ_EINVAL, aq_file_punch(NULL, 0, 1));
    CHECK_CODE(AQ_EINVAL, aq_file_sync(NULL));
    CHECK_CODE(AQ_EINVAL, aq_file_stat(NULL, &inode));
    CHECK_CODE(AQ_EINVAL, aq_file_stat(file, NULL));
    CHECK_CODE(AQ_EINVAL, aq_file_map(NULL, 0, 1, AQ_MAP_READ, (void **)&file));
    CHECK_CODE(AQ_EINVAL, aq_file_map(file, 0, 1, AQ_MAP_READ, NULL));
    CHECK_CODE(AQ_EINVAL, aq_file_unmap(NULL));
    CHECK_CODE(AQ_EINVAL, aq_volume_make_folder(volume, NULL, 0755));
    CHECK_CODE(AQ_EINVAL, aq_volume_make_folder(NULL, "/a", 0755));
    CHECK_CODE(AQ_EINVAL, aq_volume_remove(volume, NULL));
    CHECK_CODE(AQ_EINVAL, aq_volume_rename(volume, "/file", NULL, 0));
    CHECK_CODE(AQ_EINVAL, aq_volume_link(volume, "/file", NULL));
    CHECK_CODE(AQ_EINVAL, aq_volume_symlink(volume, NULL, "/link"));
    CHECK_CODE(AQ_EINVAL, aq_volume_read_link(volume, "/link", NULL, 100));
    CHECK_CODE(AQ_EINVAL, aq_volume_stat(volume, "/file", 1, NULL));
    CHECK_CODE(AQ_EINVAL, aq_volume_list(volume, "/", NULL, NULL));
    CHECK_MESSAGE("visit is NULL");
    CHECK(inode_of(file).size_bytes == 0);
    CHECK_CODE(AQ_OK, aq_file_close(file));
    close_and_remove(volume);
}

/* ---- Names ------------------------------------------------------------- */

struct listing {
    aq_volume *volume;
    int count, folders;
    char names[200];
};

static int note(const aq_entry *entry, void *context)
{
    struct listing *listing = context;
    char full[300];
    aq_inode inode = {.struct_bytes = sizeof inode};
    /* A listing may use the volume. */
    snprintf(full, sizeof full, "/folder/%s", entry->name);
    if (strlen(entry->name) != entry->name_bytes || aq_volume_stat(listing->volume, full, 0, &inode) != AQ_OK ||
        inode.ino != entry->ino || inode.kind != entry->kind)
        return 1;
    listing->count++;
    listing->folders += entry->kind == AQ_KIND_FOLDER;
    strncat(listing->names, entry->name, sizeof listing->names - strlen(listing->names) - 1);
    return 0;
}

static int count_three(const aq_entry *entry, void *context)
{
    (void)entry;
    return ++*(int *)context == 3;
}

static void names_in_folders(void)
{
    char target[4096], deep[5000];
    aq_volume *volume = open_new("names");
    CHECK_CODE(AQ_OK, aq_volume_make_folder(volume, "/folder", 0750));
    CHECK_CODE(AQ_EEXISTS, aq_volume_make_folder(volume, "folder", 0750));
    CHECK(inode_at(volume, "/folder").kind == AQ_KIND_FOLDER && inode_at(volume, "folder/").mode == 0750);
    aq_file *file = open_file(volume, "/folder/a", NEW);
    write_all(file, 0, "text", 4);
    CHECK_CODE(AQ_OK, aq_volume_link(volume, "/folder/a", "/folder/b"));
    CHECK_CODE(AQ_EEXISTS, aq_volume_link(volume, "/folder/a", "/folder/b"));
    CHECK(inode_of(file).links == 2 && inode_at(volume, "/folder/../folder/./b").ino == inode_of(file).ino);
    CHECK_CODE(AQ_OK, aq_volume_symlink(volume, "../folder/b", "/folder/c"));
    CHECK(inode_at(volume, "/folder/c").ino == inode_of(file).ino);
    aq_inode inode = {.struct_bytes = sizeof inode};
    CHECK_CODE(AQ_OK, aq_volume_stat(volume, "/folder/c", 0, &inode));
    CHECK(inode.kind == AQ_KIND_SYMLINK && inode.size_bytes == 11);
    CHECK_CODE(AQ_OK, aq_volume_read_link(volume, "/folder/c", target, sizeof target));
    CHECK(strcmp(target, "../folder/b") == 0);
    CHECK_CODE(AQ_EINVAL, aq_volume_read_link(volume, "/folder/c", target, 11));
    CHECK_CODE(AQ_EINVAL, aq_volume_read_link(volume, "/folder/b", target, sizeof target));
    CHECK_CODE(AQ_OK, aq_volume_make_folder(volume, "/folder/d", 0755));
    struct listing listing = {.volume = volume};
    CHECK_CODE(AQ_OK, aq_volume_list(volume, "/folder", note, &listing));
    CHECK(listing.count == 4 && listing.folders == 1 && strpbrk(listing.names, ".") == NULL);
    int count = 0;
    CHECK_CODE(AQ_OK, aq_volume_list(volume, "/folder", count_three, &count));
    CHECK(count == 3);
    CHECK_CODE(AQ_ENOTFOLDER, aq_volume_list(volume, "/folder/a", note, &listing));

    CHECK_CODE(AQ_ENOTEMPTY, aq_volume_remove(volume, "/folder"));
    CHECK_CODE(AQ_EISFOLDER, aq_volume_rename(volume, "/folder/a", "/folder/d", AQ_TAKEN_REPLACE));
    CHECK_CODE(AQ_EINVAL, aq_volume_rename(volume, "/folder", "/folder/d/e", AQ_TAKEN_REPLACE));
    CHECK_CODE(AQ_EEXISTS, aq_volume_rename(volume, "/folder/a", "/folder/c", AQ_TAKEN_FAIL));
    CHECK_CODE(AQ_EINVAL, aq_volume_rename(volume, "/folder/a", "/folder/c", 3));
    CHECK_CODE(AQ_OK, aq_volume_rename(volume, "/folder/a", "/folder/d", AQ_TAKEN_EXCHANGE));
    CHECK(inode_at(volume, "/folder/a").kind == AQ_KIND_FOLDER);
    CHECK_CODE(AQ_OK, aq_volume_rename(volume, "/folder/d", "/folder/c", AQ_TAKEN_REPLACE));
    CHECK_CODE(AQ_ENOTFOUND, aq_volume_stat(volume, "/folder/d", 1, &inode));
    CHECK_CODE(AQ_ENOTFOLDER, aq_volume_stat(volume, "/folder/c/x", 1, &inode));
    CHECK_CODE(AQ_EPERMISSION, aq_volume_link(volume, "/folder/a", "/hard"));
    CHECK_CODE(AQ_OK, aq_volume_symlink(volume, "loop", "/loop"));
    CHECK_CODE(AQ_ELINKS, aq_volume_stat(volume, "/loop", 1, &inode));
    memset(deep, 'x', sizeof deep);
    deep[256] = '\0';
    CHECK_CODE(AQ_ENAME, aq_volume_make_folder(volume, deep, 0755));
    deep[255] = '\0';
    CHECK_CODE(AQ_OK, aq_volume_make_folder(volume, deep, 0755));

    /* Bytes of an open file outlive its names. */
    CHECK_CODE(AQ_OK, aq_volume_remove(volume, "/folder/b"));
    CHECK_CODE(AQ_OK, aq_volume_remove(volume, "/folder/c"));
    CHECK_CODE(AQ_ENOTFOUND, aq_volume_remove(volume, "/folder/c"));
    CHECK(inode_of(file).links == 0 && read_some(file, 0, target, 10) == 4);
    CHECK_CODE(AQ_EBUSY, aq_volume_close(volume));
    CHECK_CODE(AQ_OK, aq_file_close(file));
    CHECK_CODE(AQ_OK, aq_volume_remove(volume, "/folder/a"));
    CHECK_CODE(AQ_OK, aq_volume_remove(volume, "/folder"));
    close_and_remove(volume);
}

/* What another user may do, in a child; the number of the first thing that is not as it should be. */
static int as_another_user(void)
{
    aq_volume *volume;
    aq_file *file;
    if (chmod(path, 0666) != 0 || setgroups(0, NULL) != 0 || setegid(65534) != 0 || seteuid(65534) != 0)
        return 90;
    if (aq_volume_open(path, NULL, &volume) != AQ_OK)
        return 1;
    if (aq_file_open(volume, "/private", AQ_OPEN_READ, 0, &file) != AQ_EPERMISSION)
        return 2;
    if (aq_file_open(volume, "/public", READ_WRITE, 0, &file) != AQ_EPERMISSION)
        return 3;
    if (aq_file_open(volume, "/public", AQ_OPEN_READ, 0, &file) != AQ_OK || aq_file_close(file) != AQ_OK)
        return 4;
    if (aq_volume_remove(volume, "/public") != AQ_EPERMISSION)
        return 5;
    if (aq_file_open(volume, "/new", NEW, 0600, &file) != AQ_EPERMISSION)
        return 6;
    if (aq_volume_make_folder(volume, "/open/folder", 0700) != AQ_OK)
        return 7;
    return aq_volume_close(volume) == AQ_OK ? 0 : 8;
}

static void modes_and_owners_count(void)
{
    if (geteuid() != 0)
        SKIP("needs root to become another user");
    aq_volume *volume = open_new("rights");
    aq_file *file;
    CHECK_CODE(AQ_OK, aq_file_open(volume, "/private", NEW, 0600, &file));
    CHECK_CODE(AQ_OK, aq_file_close(file));
    CHECK_CODE(AQ_OK, aq_file_close(open_file(volume, "/public", NEW)));
    CHECK_CODE(AQ_OK, aq_volume_make_folder(volume, "/open", 0777));
    CHECK_CODE(AQ_OK, aq_volume_close(volume));
    CHECK(chmod(test_dir(), 0755) == 0);
    int wrong = in_child(as_another_user);
    volume = reopen();
    if (wrong)
        end_test("FAIL another user: step %d is not as it should be", wrong);
    CHECK(inode_at(volume, "/open/folder").uid == 65534);
    close_and_remove(volume);
}

int main(void)
{
    RUN(options_start_with_their_size);
    RUN(options_have_the_size_that_the_program_knows);
    RUN(sizes_that_cannot_be);
    RUN(paths_that_cannot_be);
    RUN(read_only_volumes_do_not_change);
    RUN(a_volume_tells_its_numbers_at_a_socket);
    RUN(space_counts_what_files_take);
    RUN(a_full_volume_can_be_emptied);
    RUN(damage_is_told);
    RUN(bytes_are_read_as_written);
    RUN(appends_go_behind_the_end);
    RUN(flags_say_how_a_file_is_opened);
    RUN(nothing_is_done_with_null);
    RUN(names_in_folders);
    RUN(modes_and_owners_count);
    return tests_failed();
}

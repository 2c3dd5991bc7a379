/* volume_served.c - a volume that another process has: calls, shared memory, rights, and the end of the owner. */
#include "volume.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { FILE_BYTES = 8 << 20, ROUNDS = 2000, ANYBODY = 65534 };

static char socket_path[64];
static pid_t owner;

/* ---- The owner --------------------------------------------------------- */

/* Starts `aquifer volume serve`, and returns when it listens. */
static void serve(void)
{
    const char *aquifer = getenv("AQUIFER");
    int said[2];
    if (!aquifer || access(aquifer, X_OK) != 0)
        SKIP("AQUIFER does not name the command aquifer");
    CHECK(pipe(said) == 0);
    fflush(stdout);
    owner = fork();
    if (owner == 0) {
        dup2(said[1], 1);
        close(said[0]);
        execl(aquifer, aquifer, "volume", "serve", path, "--listen", socket_path, "--ram", "4M", (char *)NULL);
        _exit(127);
    }
    close(said[1]);
    char line[256];
    ssize_t bytes = read(said[0], line, sizeof line);
    close(said[0]);
    CHECK(owner > 0 && bytes > 0);
}

/* An empty volume, and its owner. */
static void serve_new(const char *name)
{
    close_and_remove(open_new(name));
    CHECK_CODE(AQ_OK, aq_volume_create(path, 96 * MIB, 0));
    serve();
}

/* Its exit status, or 128 + the signal. */
static int end_owner(int with)
{
    int status = 0;
    pid_t ended = owner;
    CHECK(kill(ended, with) == 0 && waitpid(ended, &status, 0) == ended);
    owner = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* It ends in order, and leaves the volume in order. */
static void end_and_check(void)
{
    CHECK(end_owner(SIGTERM) == 0);
    CHECK(access(socket_path, F_OK) != 0);
    close_and_remove(reopen());
}

static aq_volume *connected(void)
{
    aq_volume *volume = NULL;
    CHECK_CODE(AQ_OK, aq_volume_connect(socket_path, &volume));
    CHECK(volume);
    return volume;
}

/* ---- Calls ------------------------------------------------------------- */

static int count_names(const aq_entry *entry, void *context)
{
    (void)entry;
    ++*(int *)context;
    return 0;
}

static void calls_go_to_the_owner(void)
{
    serve_new("calls");
    aq_volume *volume = connected();
    char text[100] = "";
    uint64_t offset;
    size_t done;
    aq_file *file = open_file(volume, "/file", NEW);
    write_all(file, 5000, "written", 7);
    CHECK_CODE(AQ_OK, aq_file_append(file, "behind", 6, &offset, &done));
    CHECK(offset == 5007 && done == 6);
    CHECK(read_some(file, 5000, text, sizeof text) == 13 && strcmp(text, "writtenbehind") == 0);
    CHECK_CODE(AQ_OK, aq_file_punch(file, 5001, 6));
    CHECK(read_some(file, 5000, text, 8) == 8 && memcmp(text, "w\0\0\0\0\0\0b", 8) == 0);
    CHECK_CODE(AQ_OK, aq_file_truncate(file, 5001));
    CHECK_CODE(AQ_OK, aq_file_sync(file));
    CHECK(inode_of(file).size_bytes == 5001 && inode_of(file).ino == inode_at(volume, "file").ino);

    /* Larger than one message, and one step. */
    enum { LARGE = 3 << 20 };
    char *large = malloc(LARGE), *again = malloc(LARGE);
    fill(large, LARGE, 1);
    aq_file *log = open_file(volume, "/log", NEW | AQ_OPEN_APPEND);
    for (int i = 0; i < 2; i++)
        write_all(log, 0, large, LARGE);
    for (int i = 0; i < 2; i++)
        CHECK(read_some(log, (uint64_t)i * LARGE, again, LARGE) == LARGE && memcmp(large, again, LARGE) == 0);
    free(again);
    large = realloc(large, 5 << 20);
    CHECK_CODE(AQ_EINVAL, aq_file_append(log, large, 5 << 20, NULL, &done));
    CHECK_MESSAGE("4 MiB");
    free(large);

    CHECK_CODE(AQ_OK, aq_volume_make_folder(volume, "/folder", 0755));
    CHECK_CODE(AQ_OK, aq_volume_link(volume, "/file", "/folder/other"));
    CHECK_CODE(AQ_OK, aq_volume_symlink(volume, "folder/other", "/link"));
    CHECK_CODE(AQ_OK, aq_volume_read_link(volume, "/link", text, sizeof text));
    CHECK(strcmp(text, "folder/other") == 0);
    CHECK(inode_at(volume, "/link").links == 2);
    CHECK_CODE(AQ_OK, aq_volume_rename(volume, "/folder/other", "/log", AQ_TAKEN_EXCHANGE));
    CHECK(inode_at(volume, "/folder/other").size_bytes == 2 * LARGE);
    int names = 0;
    CHECK_CODE(AQ_OK, aq_volume_list(volume, "/", count_names, &names));
    CHECK(names == 4);
    CHECK_CODE(AQ_OK, aq_volume_remove(volume, "/link"));
    aq_space space = {.struct_bytes = sizeof space};
    CHECK_CODE(AQ_OK, aq_volume_space(volume, &space));
    CHECK(space.files == 4 && space.used_bytes > 2 * LARGE && space.capacity_bytes > space.used_bytes);

    CHECK_CODE(AQ_EBUSY, aq_volume_close(volume));
    CHECK_CODE(AQ_OK, aq_file_close(log));
    CHECK_CODE(AQ_OK, aq_file_close(file));
    CHECK_CODE(AQ_OK, aq_volume_close(volume));
    end_and_check();
}

static void errors_are_those_of_the_owner(void)
{
    serve_new("errors");
    aq_volume *volume = connected();
    aq_file *file = NULL;
    char name[300] = "/";
    size_t done;
    memset(name + 1, 'n', sizeof name - 2);
    name[sizeof name - 1] = '\0';
    CHECK_CODE(AQ_ENOTFOUND, aq_file_open(volume, "/file", READ_WRITE, 0, &file));
    CHECK_MESSAGE("/file");
    CHECK(!file);
    file = open_file(volume, "/file", AQ_OPEN_WRITE | AQ_OPEN_CREATE);
    CHECK_CODE(AQ_EPERMISSION, aq_file_read(file, 0, name, 1, &done));
    CHECK_CODE(AQ_ETOOLARGE, aq_file_truncate(file, AQ_FILE_BYTES_MAX + 1));
    CHECK_CODE(AQ_OK, aq_file_close(file));
    CHECK_CODE(AQ_EEXISTS, aq_file_open(volume, "/file", NEW, 0600, &file));
    CHECK_CODE(AQ_ENOTFOLDER, aq_volume_make_folder(volume, "/file/folder", 0755));
    CHECK_CODE(AQ_EISFOLDER, aq_file_open(volume, "/", AQ_OPEN_READ, 0, &file));
    CHECK_CODE(AQ_ENAME, aq_volume_make_folder(volume, name, 0755));
    CHECK_CODE(AQ_OK, aq_volume_make_folder(volume, "/folder", 0755));
    CHECK_CODE(AQ_OK, aq_volume_make_folder(volume, "/folder/in", 0755));
    CHECK_CODE(AQ_ENOTEMPTY, aq_volume_remove(volume, "/folder"));
    CHECK_CODE(AQ_EINVAL, aq_volume_rename(volume, "/folder", "/folder/in/it", AQ_TAKEN_FAIL));
    CHECK_CODE(AQ_EINVAL, aq_volume_read_link(volume, "/file", name, sizeof name));
    CHECK_CODE(AQ_OK, aq_volume_symlink(volume, "loop", "/loop"));
    CHECK_CODE(AQ_ELINKS, aq_file_open(volume, "/loop", AQ_OPEN_READ, 0, &file));
    CHECK_CODE(AQ_EPERMISSION, aq_volume_check(volume));
    file = open_file(volume, "/large", NEW);
    char *zeros = calloc(1, 8 * MIB);
    int code = AQ_OK;
    for (uint64_t at = 0; code == AQ_OK && at < 200 * MIB; at += done) {
        memset(zeros, (int)(at >> 20) + 1, 8 * MIB);
        code = aq_file_write(file, at, zeros, 8 * MIB, &done);
    }
    free(zeros);
    CHECK_CODE(AQ_ENOSPACE, code);
    CHECK_CODE(AQ_OK, aq_file_close(file));
    CHECK_CODE(AQ_OK, aq_volume_close(volume));
    end_and_check();
}

/* ---- Memory ------------------------------------------------------------ */

/* Two processes count in turns: each adds one to what the other has stored. */
static int take_turns(uint64_t parity)
{
    aq_volume *volume;
    aq_file *file;
    volatile uint64_t *words;
    alarm(120);
    if (aq_volume_connect(socket_path, &volume) != AQ_OK || aq_file_open(volume, "/file", READ_WRITE, 0, &file) != AQ_OK ||
        aq_file_map(file, 0, FILE_BYTES, AQ_MAP_READ | AQ_MAP_WRITE, (void **)&words) != AQ_OK ||
        aq_file_close(file) != AQ_OK)
        return 1;
    for (uint64_t round = parity; round < ROUNDS; round += 2) {
        /* Each in a page of its own, far from the last: most are not in this process yet. */
        volatile uint64_t *word = words + round * 7 % (FILE_BYTES / 4096) * 512;
        while (*words != round)
            usleep(50);
        *(word + 1) = round + 1;
        *words = round + 1;
    }
    return aq_volume_close(volume) == AQ_EBUSY && aq_file_unmap((void *)words) == AQ_OK && aq_volume_close(volume) == AQ_OK ? 0 : 2;
}

static int take_even_turns(void)
{
    return take_turns(0);
}

static void two_processes_share_a_mapped_file(void)
{
    serve_new("shared");
    aq_volume *volume = connected();
    aq_file *file = open_file(volume, "/file", NEW);
    void *address;
    CHECK_CODE(AQ_OK, aq_file_truncate(file, FILE_BYTES));
    int code = aq_file_map(file, 0, FILE_BYTES, AQ_MAP_READ, &address);
    if (is_machine_error(code))
        SKIP("files cannot be mapped here: %s", aq_error_message());
    CHECK_CODE(AQ_OK, code);
    fflush(stdout);
    pid_t odd = fork();
    if (odd == 0)
        _exit(take_turns(1));
    int even_status = in_child(take_even_turns), odd_status = 0;
    CHECK(waitpid(odd, &odd_status, 0) == odd);
    CHECK(even_status == 0 && WIFEXITED(odd_status) && WEXITSTATUS(odd_status) == 0);
    /* All see it: who maps, who reads, and who opens the volume next. */
    uint64_t found = 0;
    CHECK(*(uint64_t *)address == ROUNDS);
    CHECK(read_some(file, 0, &found, sizeof found) == sizeof found && found == ROUNDS);
    CHECK_CODE(AQ_OK, aq_file_unmap(address));
    CHECK_CODE(AQ_OK, aq_file_close(file));
    CHECK_CODE(AQ_OK, aq_volume_close(volume));
    CHECK(end_owner(SIGTERM) == 0);
    volume = reopen();
    file = open_file(volume, "/file", AQ_OPEN_READ);
    CHECK(read_some(file, 0, &found, sizeof found) == sizeof found && found == ROUNDS);
    CHECK(read_some(file, 7 * 4096 + 8, &found, sizeof found) == sizeof found && found == 2);
    CHECK_CODE(AQ_OK, aq_file_close(file));
    close_and_remove(volume);
}

/* Forces stores into memory that was mapped to read. */
static void what_is_open_to_read_is_nobodys_to_change(void)
{
    serve_new("reading");
    aq_volume *volume = connected();
    aq_file *writer = open_file(volume, "/file", NEW), *reader = open_file(volume, "/file", AQ_OPEN_READ);
    char *bytes, first = 0;
    write_all(writer, 0, "first", 5);
    CHECK_CODE(AQ_EPERMISSION, aq_file_write(reader, 0, "x", 1, &(size_t){0}));
    CHECK_CODE(AQ_EPERMISSION, aq_file_map(reader, 0, 4096, AQ_MAP_WRITE, (void **)&bytes));
    int code = aq_file_map(reader, 0, 4096, AQ_MAP_READ, (void **)&bytes);
    if (is_machine_error(code))
        SKIP("files cannot be mapped here: %s", aq_error_message());
    CHECK_CODE(AQ_OK, code);
    CHECK(memcmp(bytes, "first", 6) == 0);
    if (mprotect(bytes, 4096, PROT_READ | PROT_WRITE) == 0)
        *bytes = 'x';
    CHECK(read_some(writer, 0, &first, 1) == 1 && first == 'f');
    CHECK_CODE(AQ_OK, aq_file_unmap(bytes));
    CHECK_CODE(AQ_OK, aq_file_map(writer, 0, 4096, AQ_MAP_WRITE | AQ_MAP_PRIVATE, (void **)&bytes));
    *bytes = 'y';
    CHECK(read_some(reader, 0, &first, 1) == 1 && first == 'f' && *bytes == 'y');
    CHECK_CODE(AQ_OK, aq_file_unmap(bytes));
    CHECK_CODE(AQ_OK, aq_file_close(reader));
    CHECK_CODE(AQ_OK, aq_file_close(writer));
    CHECK_CODE(AQ_OK, aq_volume_close(volume));
    end_and_check();
}

/* As another user. */
static int use_what_is_roots(void)
{
    aq_volume *volume;
    aq_file *file;
    if (setgid(ANYBODY) != 0 || setuid(ANYBODY) != 0 || aq_volume_connect(socket_path, &volume) != AQ_OK)
        return 1;
    if (aq_file_open(volume, "/secret", AQ_OPEN_READ, 0, &file) != AQ_EPERMISSION ||
        aq_file_open(volume, "/told", READ_WRITE, 0, &file) != AQ_EPERMISSION ||
        aq_volume_remove(volume, "/told") != AQ_EPERMISSION || aq_volume_make_folder(volume, "/folder", 0755) != AQ_EPERMISSION)
        return 2;
    if (aq_file_open(volume, "/told", AQ_OPEN_READ, 0, &file) != AQ_OK || aq_file_close(file) != AQ_OK)
        return 3;
    return aq_volume_close(volume) == AQ_OK ? 0 : 4;
}

static void the_kernel_says_who_a_client_is(void)
{
    if (geteuid() != 0)
        SKIP("other users need root");
    serve_new("users");
    aq_volume *volume = connected();
    aq_file *file;
    CHECK_CODE(AQ_OK, aq_file_open(volume, "/secret", NEW, 0600, &file));
    CHECK_CODE(AQ_OK, aq_file_close(file));
    CHECK_CODE(AQ_OK, aq_file_open(volume, "/told", NEW, 0644, &file));
    CHECK_CODE(AQ_OK, aq_file_close(file));
    CHECK(in_child(use_what_is_roots) == 0);
    CHECK_CODE(AQ_OK, aq_volume_close(volume));
    end_and_check();
}

/* ---- Ends -------------------------------------------------------------- */

static char *mapped_of_the_dead;

static int touch_the_dead(void)
{
    aq_volume *volume;
    aq_file *file;
    signal(SIGBUS, SIG_DFL);
    if (aq_volume_connect(socket_path, &volume) != AQ_OK || aq_file_open(volume, "/file", READ_WRITE, 0, &file) != AQ_OK ||
        aq_file_map(file, 0, FILE_BYTES, AQ_MAP_READ | AQ_MAP_WRITE, (void **)&mapped_of_the_dead) != AQ_OK ||
        mapped_of_the_dead[4] != 'e')
        return 1;
    /* Until calls fail, and then memory. */
    kill(getppid(), SIGUSR1);
    while (aq_file_sync(file) == AQ_OK)
        usleep(1000);
    alarm(60);
    for (size_t at = 4096; ; at = (at + 4096) % FILE_BYTES)
        *(volatile char *)(mapped_of_the_dead + at) = 'x';
}

static volatile sig_atomic_t is_ready;

static void note_ready(int signal_number)
{
    (void)signal_number;
    is_ready = 1;
}

static void an_owner_that_is_killed_is_told(void)
{
    serve_new("killed");
    aq_volume *volume = connected(), *other = NULL;
    aq_file *file = open_file(volume, "/file", NEW);
    char *bytes;
    CHECK_CODE(AQ_OK, aq_file_truncate(file, FILE_BYTES));
    write_all(file, 0, "there until the end", 19);
    CHECK_CODE(AQ_OK, aq_volume_sync(volume));
    int code = aq_file_map(file, 0, FILE_BYTES, AQ_MAP_READ, (void **)&bytes);
    if (is_machine_error(code))
        SKIP("files cannot be mapped here: %s", aq_error_message());
    CHECK_CODE(AQ_OK, code);
    signal(SIGUSR1, note_ready);
    is_ready = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(freopen("/dev/null", "w", stderr) ? touch_the_dead() : 99);
    while (!is_ready && waitpid(child, NULL, WNOHANG) == 0)
        usleep(1000);
    CHECK(is_ready);
    CHECK(end_owner(SIGKILL) == 128 + SIGKILL);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);

    size_t done;
    CHECK_CODE(AQ_EGONE, aq_file_read(file, 0, &(char){0}, 1, &done));
    CHECK_CODE(AQ_EGONE, aq_volume_sync(volume));
    CHECK_CODE(AQ_EGONE, aq_volume_remove(volume, "/file"));
    CHECK_CODE(AQ_EBUSY, aq_volume_close(volume));
    CHECK_CODE(AQ_OK, aq_file_unmap(bytes));
    CHECK_CODE(AQ_OK, aq_file_close(file));
    CHECK_CODE(AQ_EGONE, aq_volume_close(volume));
    CHECK_CODE(AQ_EGONE, aq_volume_connect(socket_path, &other));
    CHECK(!other && unlink(socket_path) == 0);
    CHECK_CODE(AQ_EFLASH_MISSING, aq_volume_connect(socket_path, &other));
    CHECK_MESSAGE(socket_path);

    serve();
    volume = connected();
    char text[20] = "";
    file = open_file(volume, "/file", AQ_OPEN_READ);
    CHECK(read_some(file, 0, text, 19) == 19 && strcmp(text, "there until the end") == 0);
    CHECK_CODE(AQ_OK, aq_file_close(file));
    CHECK_CODE(AQ_OK, aq_volume_close(volume));
    end_and_check();
}

static aq_volume *volume_of_the_parent;

static int use_the_parents(void)
{
    aq_file *file;
    return aq_file_open(volume_of_the_parent, "/file", NEW, 0600, &file) == AQ_EFORKED &&
                   aq_volume_close(volume_of_the_parent) == AQ_EFORKED
               ? 0
               : 1;
}

static void a_child_does_not_speak_for_its_parent(void)
{
    serve_new("forked");
    volume_of_the_parent = connected();
    CHECK(in_child(use_the_parents) == 0);
    CHECK_CODE(AQ_OK, aq_file_close(open_file(volume_of_the_parent, "/file", NEW)));
    CHECK_CODE(AQ_OK, aq_volume_close(volume_of_the_parent));
    end_and_check();
}

/* ---- Others that listen ------------------------------------------------ */

/* The head of an answer: magic, error, handle, zeros, a, b. */
static const uint32_t other_version[8] = {0x53565141, EPROTO, 0, 0, 999}, nonsense[8] = {1, 2, 3, 4};

/* A child that gives one answer to who connects. */
static pid_t answer_once(const void *answer, size_t bytes)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, socket_path);
    unlink(socket_path);
    int listening = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    CHECK(listening >= 0 && bind(listening, (struct sockaddr *)&address, sizeof address) == 0 && listen(listening, 1) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char request[200];
        int client = accept(listening, NULL, NULL);
        _exit(recv(client, request, sizeof request, 0) > 0 && send(client, answer, bytes, 0) == (ssize_t)bytes ? 0 : 1);
    }
    close(listening);
    return child;
}

static void who_is_no_owner_of_this_version_is_refused(void)
{
    aq_volume *volume = NULL;
    int status = 1;
    pid_t child = answer_once(other_version, sizeof other_version);
    CHECK_CODE(AQ_EFORMAT, aq_volume_connect(socket_path, &volume));
    CHECK_MESSAGE("version");
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    child = answer_once(nonsense, sizeof nonsense);
    CHECK_CODE(AQ_EFORMAT, aq_volume_connect(socket_path, &volume));
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    child = answer_once("", 1);
    CHECK_CODE(AQ_EFORMAT, aq_volume_connect(socket_path, &volume));
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    unlink(socket_path);
    FILE *file = fopen(socket_path, "w");
    CHECK(file && fclose(file) == 0);
    CHECK_CODE(AQ_EGONE, aq_volume_connect(socket_path, &volume));
    CHECK(unlink(socket_path) == 0);
    char longer[300];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    CHECK_CODE(AQ_ENAME, aq_volume_connect(longer, &volume));
    CHECK_CODE(AQ_EINVAL, aq_volume_connect(NULL, &volume));
    CHECK_CODE(AQ_EINVAL, aq_volume_connect(socket_path, NULL));
    CHECK(!volume);
}

/* Ends an owner that a failed test has left. */
static void run_and_end(const char *name, void (*test)(void))
{
    run_test(__FILE__, name, test);
    if (owner > 0) {
        kill(owner, SIGKILL);
        waitpid(owner, NULL, 0);
        owner = 0;
    }
    unlink(socket_path);
}

#undef RUN
#define RUN(test) run_and_end(#test, test)

int main(void)
{
    /* Other users come here, too, and a socket's path is short. */
    char folder[] = "/tmp/aquifer-served.XXXXXX";
    if (!mkdtemp(folder) || chmod(folder, 0755) != 0)
        return 2;
    snprintf(socket_path, sizeof socket_path, "%s/socket", folder);
    RUN(calls_go_to_the_owner);
    RUN(errors_are_those_of_the_owner);
    RUN(two_processes_share_a_mapped_file);
    RUN(what_is_open_to_read_is_nobodys_to_change);
    RUN(the_kernel_says_who_a_client_is);
    RUN(an_owner_that_is_killed_is_told);
    RUN(a_child_does_not_speak_for_its_parent);
    RUN(who_is_no_owner_of_this_version_is_refused);
    rmdir(folder);
    return tests_failed();
}

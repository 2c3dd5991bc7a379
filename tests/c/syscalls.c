/* syscalls.c - the kernel reads and writes objects: pinned ones always, absent ones
 * never with wrong bytes. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

static int scratch_file(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s/syscalls.XXXXXX", test_dir());
    int file = mkstemp(path);
    CHECK(file >= 0);
    unlink(path);
    return file;
}

/* Whether the file holds these bytes at its start. */
static bool file_holds(int file, size_t bytes, uint64_t seed)
{
    char *copy = malloc(bytes);
    bool holds = pread(file, copy, bytes, 0) == (ssize_t)bytes && is_filled(copy, bytes, seed);
    free(copy);
    return holds;
}

static void pinned_objects_can_be_written_to_a_file(void)
{
    static const size_t sizes[] = {1, 100, 4096, 5000, 150000};
    int file = scratch_file();
    for (int n = 0; n < 5; n++) {
        size_t bytes = sizes[n];
        char *object = aq_malloc(bytes);
        CHECK(object);
        fill(object, bytes, bytes);
        CHECK(push_out());
        CHECK_CODE(AQ_OK, aq_pin(object, bytes));
        CHECK(pwrite(file, object, bytes, 0) == (ssize_t)bytes);
        CHECK_CODE(AQ_OK, aq_unpin(object, bytes));
        CHECK(file_holds(file, bytes, bytes));
        CHECK_CODE(AQ_OK, aq_free(object));
    }
    close(file);
}

static void pinned_objects_can_be_read_into(void)
{
    static const size_t sizes[] = {1, 100, 4096, 5000, 150000};
    int file = scratch_file();
    char *source = malloc(150000);
    for (int n = 0; n < 5; n++) {
        size_t bytes = sizes[n];
        fill(source, bytes, bytes + 1);
        CHECK(pwrite(file, source, bytes, 0) == (ssize_t)bytes);
        char *object = aq_malloc(bytes);
        CHECK(object);
        fill(object, bytes, 0);
        CHECK(push_out());
        CHECK_CODE(AQ_OK, aq_pin(object, bytes));
        CHECK(pread(file, object, bytes, 0) == (ssize_t)bytes);
        CHECK_CODE(AQ_OK, aq_unpin(object, bytes));
        /* What the kernel wrote must survive its way to flash and back. */
        CHECK(push_out());
        CHECK(is_filled(object, bytes, bytes + 1));
        CHECK_CODE(AQ_OK, aq_free(object));
    }
    free(source);
    close(file);
}

static void fresh_objects_can_be_pinned_and_read_into(void)
{
    int file = scratch_file();
    char source[3000];
    fill(source, sizeof source, 3);
    CHECK(pwrite(file, source, sizeof source, 0) == sizeof source);
    char *object = aq_calloc(1, sizeof source);
    CHECK(object);
    CHECK_CODE(AQ_OK, aq_pin(object, sizeof source));
    CHECK(pread(file, object, sizeof source, 0) == sizeof source);
    CHECK_CODE(AQ_OK, aq_unpin(object, sizeof source));
    CHECK(push_out());
    CHECK(is_filled(object, sizeof source, 3));
    CHECK_CODE(AQ_OK, aq_free(object));
    close(file);
}

static void a_part_of_an_object_can_be_pinned(void)
{
    enum { BYTES = 1 << 20, FROM = 100001, PART = 20000 };
    int file = scratch_file();
    char *object = aq_malloc(BYTES);
    CHECK(object);
    fill(object, BYTES, 4);
    CHECK(push_out());
    CHECK_CODE(AQ_OK, aq_pin(object + FROM, PART));
    CHECK(pwrite(file, object + FROM, PART, 0) == PART);
    CHECK_CODE(AQ_OK, aq_unpin(object + FROM, PART));
    char *copy = malloc(PART);
    CHECK(pread(file, copy, PART, 0) == PART);
    CHECK(memcmp(copy, object + FROM, PART) == 0);
    free(copy);
    CHECK(is_filled(object, BYTES, 4));
    CHECK_CODE(AQ_OK, aq_free(object));
    close(file);
}

static void several_pinned_objects_go_in_one_call(void)
{
    enum { PARTS = 16, BYTES = 700 };
    int file = scratch_file();
    struct iovec parts[PARTS];
    for (int i = 0; i < PARTS; i++) {
        parts[i].iov_base = aq_malloc(BYTES);
        parts[i].iov_len = BYTES;
        CHECK(parts[i].iov_base);
        fill(parts[i].iov_base, BYTES, (uint64_t)i);
    }
    CHECK(push_out());
    for (int i = 0; i < PARTS; i++)
        CHECK_CODE(AQ_OK, aq_pin(parts[i].iov_base, BYTES));
    CHECK(writev(file, parts, PARTS) == PARTS * BYTES);
    for (int i = 0; i < PARTS; i++) {
        char copy[BYTES];
        CHECK(pread(file, copy, BYTES, (off_t)i * BYTES) == BYTES && is_filled(copy, BYTES, (uint64_t)i));
        CHECK_CODE(AQ_OK, aq_unpin(parts[i].iov_base, BYTES));
        CHECK_CODE(AQ_OK, aq_free(parts[i].iov_base));
    }
    close(file);
}

/* With faults in the faulting thread, the kernel may refuse an object that is not
 * pinned. It must not get anything else than its bytes. */
static void an_absent_object_gives_efault_or_its_bytes(void)
{
    int file = scratch_file(), refused = 0;
    for (uint64_t i = 0; i < 50; i++) {
        char *object = aq_malloc(900);
        CHECK(object);
        fill(object, 900, i);
        if (i % 10 == 0)
            CHECK(push_out());
        ssize_t written = pwrite(file, object, 900, 0);
        CHECK(written == 900 || (written == -1 && errno == EFAULT));
        CHECK(written == -1 || file_holds(file, 900, i));
        refused += written == -1;
        CHECK(is_filled(object, 900, i));
        CHECK_CODE(AQ_OK, aq_free(object));
    }
    close(file);
}

/* With faults in a thread of the library, every system call works, if the kernel
 * shows this process the faults inside its system calls. */
static void the_fault_thread_serves_system_calls(void)
{
    enum { OBJECTS = 20000, BYTES = 1200 };
    static char *objects[OBJECTS];
    aq_options options = small_options();
    options.faults = AQ_FAULTS_THREAD;
    aq_heap *heap = NULL;
    int code = aq_heap_open(&options, &heap);
    if (is_machine_error(code))
        SKIP("%s", aq_error_message());
    CHECK_CODE(AQ_OK, code);
    for (uint64_t i = 0; i < OBJECTS; i++) {
        objects[i] = aq_heap_malloc(heap, BYTES);
        CHECK(objects[i]);
        fill(objects[i], BYTES, i);
    }
    int file = scratch_file();
    for (uint64_t n = 0; n < 500; n++) {
        uint64_t i = mix(n) % OBJECTS;
        ssize_t written = pwrite(file, objects[i], BYTES, 0);
        if (written == -1 && errno == EFAULT && geteuid() != 0)
            SKIP("faults inside system calls may not be served here; needs root");
        CHECK(written == BYTES);
        CHECK(file_holds(file, BYTES, i));
        CHECK(pread(file, objects[(i + 1) % OBJECTS], BYTES, 0) == BYTES);
        CHECK(is_filled(objects[(i + 1) % OBJECTS], BYTES, i));
        fill(objects[(i + 1) % OBJECTS], BYTES, (i + 1) % OBJECTS);
    }
    close(file);
    CHECK_CODE(AQ_OK, aq_heap_close(heap));
}

int main(void)
{
    open_default_heap("syscalls.c");
    RUN(pinned_objects_can_be_written_to_a_file);
    RUN(pinned_objects_can_be_read_into);
    RUN(fresh_objects_can_be_pinned_and_read_into);
    RUN(a_part_of_an_object_can_be_pinned);
    RUN(several_pinned_objects_go_in_one_call);
    RUN(an_absent_object_gives_efault_or_its_bytes);
    RUN(the_fault_thread_serves_system_calls);
    return tests_failed();
}

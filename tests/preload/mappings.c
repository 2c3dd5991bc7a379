/* mappings.c - mmap and its family. */
#include "check.h"

#include <fcntl.h>

enum { PAGES = 1024 };

#define BYTES (PAGES * PAGE)

static char *map(size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && is_zero(memory, bytes));
    fill(memory, bytes, 1);
    return memory;
}

/* Page `n` of what map() has filled. */
static bool has_page(const char *memory, size_t n)
{
    static char expected[BYTES];
    static bool is_made;
    if (!is_made)
        fill(expected, BYTES, 1);
    is_made = true;
    return memcmp(memory, expected + n * PAGE, PAGE) == 0;
}

static void unmapped_in_parts(void)
{
    char *memory = map(BYTES);
    PUSH_OUT(memory, BYTES);
    CHECK(munmap(memory + 100 * PAGE, 50 * PAGE) == 0);
    CHECK(munmap(memory, 10 * PAGE) == 0);
    CHECK(munmap(memory + 1000 * PAGE, 23 * PAGE + 100) == 0);
    for (size_t n = 10; n < 1000; n++)
        CHECK((n >= 100 && n < 150) || has_page(memory + n * PAGE, n));
    CHECK(munmap(memory + 1, PAGE) == -1 && errno == EINVAL);
    CHECK(munmap(memory + 10 * PAGE, 0) == -1 && errno == EINVAL);
    char *others[20];
    for (int i = 0; i < 20; i++) {
        others[i] = mmap(NULL, 10 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(others[i] != MAP_FAILED && is_zero(others[i], 10 * PAGE));
        memset(others[i], 0xff, 10 * PAGE);
    }
    for (size_t n = 10; n < 1000; n++)
        CHECK((n >= 100 && n < 150) || has_page(memory + n * PAGE, n));
    for (int i = 0; i < 20; i++)
        CHECK(munmap(others[i], 10 * PAGE) == 0);
    CHECK(munmap(memory + 10 * PAGE, 990 * PAGE) == 0);
}

static void remapped(void)
{
    char *memory = map(BYTES);
    PUSH_OUT(memory, BYTES);
    memory = mremap(memory, BYTES, 3 * BYTES, MREMAP_MAYMOVE);
    CHECK(memory != MAP_FAILED && is_zero(memory + BYTES, 2 * BYTES));
    for (size_t n = 0; n < PAGES; n++)
        CHECK(has_page(memory + n * PAGE, n));
    push_out();
    CHECK(mremap(memory, 3 * BYTES, BYTES, 0) == memory);
    CHECK(mremap(memory, BYTES - 1, BYTES, 0) == memory);
    CHECK(has_page(memory + (PAGES - 1) * PAGE, PAGES - 1));
    char *part = mremap(memory + 500 * PAGE, 100 * PAGE, 200 * PAGE, MREMAP_MAYMOVE);
    CHECK(part != MAP_FAILED && has_page(part, 500) && is_zero(part + 100 * PAGE, 100 * PAGE));
    CHECK(has_page(memory + 499 * PAGE, 499) && has_page(memory + 600 * PAGE, 600));
    CHECK(munmap(part, 200 * PAGE) == 0 && munmap(memory, BYTES) == 0);
    memory = map(10 * PAGE);
    memory = mremap(memory, 10 * PAGE - 100, 10 * PAGE - 50, 0);
    CHECK(memory != MAP_FAILED && has_page(memory, 0));
    CHECK(munmap(memory, 10 * PAGE) == 0);
}

static void given_up(void)
{
    char *memory = map(BYTES);
    PUSH_OUT(memory, BYTES);
    CHECK(madvise(memory + 100 * PAGE, 50 * PAGE, MADV_DONTNEED) == 0);
    CHECK(is_zero(memory + 100 * PAGE, 50 * PAGE));
    memory[120 * PAGE] = 5;
    CHECK(madvise(memory + 120 * PAGE, PAGE, MADV_DONTNEED) == 0 && memory[120 * PAGE] == 0);
    for (size_t n = 0; n < PAGES; n++)
        CHECK((n >= 100 && n < 150) || has_page(memory + n * PAGE, n));
    CHECK(madvise(memory + 1, PAGE, MADV_DONTNEED) == -1 && errno == EINVAL);
    CHECK(madvise(memory, BYTES, MADV_RANDOM) == 0 && madvise(memory, BYTES, MADV_WILLNEED) == 0);
    CHECK(madvise(memory, 0, MADV_DONTNEED) == 0);
    CHECK(munmap(memory, BYTES) == 0);
}

static void replaced_by_new_memory(void)
{
    char *memory = map(BYTES);
    PUSH_OUT(memory, BYTES);
    char *at = memory + 200 * PAGE;
    CHECK(mmap(at, 20 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
    CHECK(is_zero(at, 20 * PAGE) && has_page(at - PAGE, 199) && has_page(at + 20 * PAGE, 220));
    fill(at, 20 * PAGE, 9);
    push_out();
    CHECK(is_filled(at, 20 * PAGE, 9));
    CHECK(mmap(at, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED);
    CHECK(munmap(memory, BYTES) == 0);
}

/* A file over a part; what was unmapped is new memory again. */
static void replaced_by_a_file(void)
{
    int fd = open(file_name("mapped"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, ballast, 10 * PAGE) == 10 * (ssize_t)PAGE);
    char *memory = map(BYTES);
    PUSH_OUT(memory, BYTES);
    char *at = memory + 300 * PAGE;
    CHECK(mmap(at, 10 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == at);
    CHECK(memcmp(at, ballast, 10 * PAGE) == 0);
    at[5] = 'x';
    char byte = 0;
    CHECK(pread(fd, &byte, 1, 5) == 1 && byte == 'x');
    CHECK(msync(at, 10 * PAGE, MS_SYNC) == 0 && write(fd, at, PAGE) == (ssize_t)PAGE);
    push_out();
    for (size_t n = 0; n < PAGES; n++)
        CHECK((n >= 300 && n < 310) || has_page(memory + n * PAGE, n));
    CHECK(munmap(memory + 290 * PAGE, 30 * PAGE) == 0);
    CHECK(pread(fd, &byte, 1, 5) == 1 && byte == 'x');
    for (int i = 0; i < 50; i++) {
        char *other = map(10 * PAGE);
        fill(other, 10 * PAGE, 77);
    }
    CHECK(pread(fd, &byte, 1, 5) == 1 && byte == 'x');
    CHECK(munmap(memory, 290 * PAGE) == 0 && munmap(memory + 320 * PAGE, BYTES - 320 * PAGE) == 0);
    close(fd);
}

/* What is written to a private mapping of a file stays there, whatever leaves beside it. */
static void replaced_by_a_private_file(void)
{
    int fd = open(file_name("private"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, ballast, 10 * PAGE) == 10 * (ssize_t)PAGE);
    char *memory = map(BYTES), *at = memory + 500 * PAGE;
    CHECK(mmap(at, 10 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0) == at);
    CHECK(memcmp(at, ballast, 10 * PAGE) == 0);
    fill(at, 5 * PAGE, 8);
    for (int round = 0; round < 3; round++) {
        push_out();
        CHECK(is_filled(at, 5 * PAGE, 8) && memcmp(at + 5 * PAGE, ballast + 5 * PAGE, 5 * PAGE) == 0);
        CHECK(has_page(memory + 499 * PAGE, 499) && has_page(memory + 510 * PAGE, 510));
    }
    char page[PAGE];
    CHECK(pread(fd, page, PAGE, 0) == (ssize_t)PAGE && memcmp(page, ballast, PAGE) == 0);
    CHECK(munmap(memory, BYTES) == 0);
    close(fd);
}

/* At the place of what was given back: who asks for it by its address has it for himself. */
static void mapped_where_it_was(void)
{
    enum { SIZE = 64 * PAGE, OTHERS = 30 };
    int fd = open(file_name("again"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, ballast, SIZE) == (ssize_t)SIZE);
    for (int round = 0; round < 6; round++) {
        char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *others[OTHERS];
        CHECK(memory != MAP_FAILED && munmap(memory, SIZE) == 0);
        int flags = round % 2 ? MAP_SHARED | MAP_FIXED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        CHECK(mmap(memory, SIZE, PROT_READ | PROT_WRITE, flags, round % 2 ? fd : -1, 0) == memory);
        fill(memory, SIZE, 50 + round);
        for (int n = 0; n < OTHERS; n++) {
            others[n] = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            CHECK(others[n] != MAP_FAILED && is_zero(others[n], SIZE));
            fill(others[n], SIZE, 100 + n);
        }
        push_out();
        CHECK(is_filled(memory, SIZE, 50 + round));
        for (int n = 0; n < OTHERS; n++)
            CHECK(is_filled(others[n], SIZE, 100 + n) && munmap(others[n], SIZE) == 0);
        CHECK(is_filled(memory, SIZE, 50 + round) && munmap(memory, SIZE) == 0);
    }
    close(fd);
}

/* Address space that nobody uses costs nothing. */
static void reserved(void)
{
    size_t bytes = (size_t)1 << 36;
    char *memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    char *at = memory + bytes / 2;
    CHECK(mprotect(at, 100 * PAGE, PROT_READ | PROT_WRITE) == 0);
    fill(at, 100 * PAGE, 3);
    push_out();
    CHECK(is_filled(at, 100 * PAGE, 3));
    CHECK(munmap(memory, bytes) == 0);
    bytes = (size_t)1 << 33;
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    memory[bytes - 1] = 1;
    CHECK(munmap(memory, bytes) == 0);
}

/* Allocators wish for addresses: aligned ones, or behind what they have. Where nothing is mapped, and as far as that can be had. */
static void wished(void)
{
    size_t bytes = 8 * MIB, align = 4 * MIB;
    char *wish = (char *)((uintptr_t)5 << 40);
    for (int i = 0; i < 3; i++, wish += bytes) {
        char *memory = mmap(wish, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        CHECK(memory != MAP_FAILED && (uintptr_t)memory % align == 0 && is_zero(memory, bytes));
        fill(memory, bytes, i);
        PUSH_OUT(memory, bytes);
        CHECK(is_filled(memory, bytes, i));
        CHECK(munmap(memory, bytes) == 0);
    }
    /* Code that is generated must be near other code, and pointers of 32 bits low: such a wish is the kernel's to fulfil. */
    char *low = (char *)((uintptr_t)1 << 31);
    char *memory = mmap(low, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && (uintptr_t)memory >> 32 == 0);
    CHECK(munmap(memory, bytes) == 0);
    char *near = wish + 16 * MIB;
    memory = mmap(near, 64 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory == near && munmap(memory, 64 * KIB) == 0);
}

int main(void)
{
    begin();
    RUN(wished);
    RUN(unmapped_in_parts);
    RUN(remapped);
    RUN(given_up);
    RUN(replaced_by_new_memory);
    RUN(replaced_by_a_file);
    RUN(replaced_by_a_private_file);
    RUN(mapped_where_it_was);
    RUN(reserved);
    return tests_failed();
}

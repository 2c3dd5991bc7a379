/* blocks.c - malloc and its family. */
#include "check.h"

#include <malloc.h>

static void across_the_threshold(void)
{
    char *block = malloc(100);
    CHECK(block);
    fill(block, 100, 1);
    size_t sizes[] = {5000, 3000, 100, 200000, 199000, 50, 8 * MIB, 8 * MIB + 5, 4097, 4096, 4095, 1, 20 * MIB, 10};
    size_t kept = 100;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        push_out();
        block = realloc(block, sizes[i]);
        CHECK(block);
        kept = kept < sizes[i] ? kept : sizes[i];
        CHECK(is_filled(block, kept, i ? i * 7 : 1));
        fill(block, sizes[i], (i + 1) * 7);
        kept = sizes[i];
    }
    free(block);
}

static void zeroed_after_reuse(void)
{
    for (int round = 0; round < 20; round++) {
        size_t bytes = round % 2 ? 4096 : 3 * MIB;
        char *block = malloc(bytes);
        CHECK(block);
        memset(block, 0xff, bytes);
        if (round % 3 == 0)
            push_out();
        free(block);
        block = calloc(bytes / 16, 16);
        CHECK(block && is_zero(block, bytes));
        memset(block, 0xff, bytes);
        free(block);
    }
}

static void aligned(void)
{
    for (size_t align = 16; align <= 2 * MIB; align *= 2) {
        void *blocks[4] = {0};
        for (size_t i = 0; i < 3; i++) {
            size_t bytes = i == 0 ? 100 : i == 1 ? 5000 : 70000;
            CHECK(posix_memalign(&blocks[i], align, bytes) == 0);
            CHECK((uintptr_t)blocks[i] % align == 0);
            fill(blocks[i], bytes, align + i);
        }
        blocks[3] = aligned_alloc(align, align * 2);
        CHECK(blocks[3] && (uintptr_t)blocks[3] % align == 0);
        push_out();
        CHECK(is_filled(blocks[0], 100, align) && is_filled(blocks[1], 5000, align + 1));
        CHECK(is_filled(blocks[2], 70000, align + 2));
        blocks[1] = realloc(blocks[1], 9 * KIB);
        CHECK(blocks[1] && is_filled(blocks[1], 5000, align + 1));
        for (int i = 0; i < 4; i++)
            free(blocks[i]);
    }
    void *block = (void *)1;
    CHECK(posix_memalign(&block, 3, 100) == EINVAL && posix_memalign(&block, 24, 100000) == EINVAL);
    CHECK(posix_memalign(&block, 4, 100000) == EINVAL && block == (void *)1);
    block = valloc(10000);
    CHECK(block && (uintptr_t)block % PAGE == 0);
    free(block);
    block = memalign(65536, 10);
    CHECK(block && (uintptr_t)block % 65536 == 0);
    free(block);
}

static void usable_sizes(void)
{
    for (size_t bytes = 1; bytes < 3 * MIB; bytes = bytes * 3 + 1) {
        char *block = malloc(bytes);
        CHECK(block && malloc_usable_size(block) >= bytes);
        memset(block, 1, malloc_usable_size(block));
        free(block);
    }
    CHECK_IS(0, malloc_usable_size(NULL));
}

static void what_cannot_be(void)
{
    volatile size_t huge = SIZE_MAX, half = PTRDIFF_MAX, large = (size_t)1 << 46;
    errno = 0;
    CHECK(!malloc(huge) && errno == ENOMEM);
    errno = 0;
    CHECK(!malloc(half) && errno == ENOMEM);
    errno = 0;
    CHECK(!malloc(large) && errno == ENOMEM);
    errno = 0;
    CHECK(!calloc(huge, 2) && errno == ENOMEM);
    errno = 0;
    CHECK(!calloc(large, 4) && errno == ENOMEM);
    char *block = malloc(10000);
    CHECK(block);
    fill(block, 10000, 5);
    errno = 0;
    CHECK(!reallocarray(block, huge / 2, 4) && errno == ENOMEM);
    errno = 0;
    CHECK(!realloc(block, huge - 100) && errno == ENOMEM);
    errno = 0;
    CHECK(!realloc(block, large) && errno == ENOMEM);
    CHECK(is_filled(block, 10000, 5));
    block = reallocarray(block, 1000, 20);
    CHECK(block && is_filled(block, 10000, 5));
    free(block);
    void *placed = NULL;
    CHECK(posix_memalign(&placed, 4096, huge - 10000) == ENOMEM);
    errno = 0;
    CHECK(!aligned_alloc(4096, huge - 8191) && errno == ENOMEM);
    errno = 0;
    CHECK(!pvalloc(huge - 10) && errno == ENOMEM);
    CHECK(mmap(NULL, huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    CHECK(mmap(NULL, 0, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
}

static void of_no_bytes(void)
{
    volatile size_t none = 0;
    void *block = malloc(none);
    CHECK(block);
    free(block);
    block = calloc(none, 10);
    CHECK(block);
    free(block);
    block = malloc(50000);
    CHECK(block && !realloc(block, none));
    free(NULL);
    errno = 77;
    block = malloc(50000);
    free(block);
    CHECK_IS(77, errno);
}

/* Blocks that the C library makes for the program. */
static void of_the_c_library(void)
{
    char *text = filled(100000, 6);
    for (int i = 0; i < 99999; i++)
        text[i] = (char)('a' + i % 26);
    text[99999] = '\0';
    push_out();
    char *copy = strdup(text);
    CHECK(copy && strcmp(copy, text) == 0);
    copy = realloc(copy, 300000);
    CHECK(copy && strcmp(copy, text) == 0);
    free(copy);
    CHECK(asprintf(&copy, "<%s>", text) == 100001);
    free(copy);
    free(text);
}

static void many_of_all_sizes(void)
{
    enum { COUNT = 2000 };
    static struct {
        char *memory;
        size_t bytes;
    } blocks[COUNT];
    uint64_t dice = 7;
    for (int round = 0; round < 30000; round++) {
        size_t i = next_random(&dice) % COUNT;
        if (blocks[i].memory && round % 8 == 0)
            CHECK(is_filled(blocks[i].memory, blocks[i].bytes, i));
        free(blocks[i].memory);
        blocks[i].bytes = 1 + next_random(&dice) % (1 << next_random(&dice) % 16);
        blocks[i].memory = malloc(blocks[i].bytes);
        CHECK(blocks[i].memory);
        fill(blocks[i].memory, blocks[i].bytes, i);
    }
    for (size_t i = 0; i < COUNT; i++) {
        CHECK(!blocks[i].memory || is_filled(blocks[i].memory, blocks[i].bytes, i));
        free(blocks[i].memory);
    }
}

/* Sizes around those that share pages with others, new, used before, and as they grow and shrink. */
static void of_some_pages(void)
{
    for (size_t bytes = 4000; bytes < 14000; bytes += 37) {
        char *used[8];
        for (int i = 0; i < 8; i++) {
            CHECK((used[i] = malloc(bytes)) && (uintptr_t)used[i] % 16 == 0 && malloc_usable_size(used[i]) >= bytes);
            fill(used[i], bytes, bytes + i);
        }
        for (int i = 0; i < 8; i += 2)
            free(used[i]);
        for (int i = 0; i < 8; i += 2) {
            CHECK((used[i] = calloc(1, bytes)) && is_zero(used[i], bytes));
            CHECK((used[i] = realloc(used[i], bytes + 5000)) && is_zero(used[i], bytes));
            fill(used[i], bytes + 5000, bytes + i);
            CHECK((used[i] = realloc(used[i], bytes)));
        }
        for (int i = 0; i < 8; i++) {
            CHECK(is_filled(used[i], bytes / 8 * 8, bytes + i));
            free(used[i]);
        }
    }
}

int main(void)
{
    begin();
    RUN(of_some_pages);
    RUN(across_the_threshold);
    RUN(zeroed_after_reuse);
    RUN(aligned);
    RUN(usable_sizes);
    RUN(what_cannot_be);
    RUN(of_no_bytes);
    RUN(of_the_c_library);
    RUN(many_of_all_sizes);
    return tests_failed();
}

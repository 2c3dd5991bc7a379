/* blocks.c - aq_page_malloc and its relatives, with good and bad arguments. */
#include "check.h"

static int static_variable;

static const size_t sizes[] = {1, 15, 16, 17, 100, 1000, 4095, 4096, 4097, 10000, 65536, 1 << 20, 5000001};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void blocks_of_every_size_hold_their_bytes(void)
{
    void *blocks[SIZES];
    for (int i = 0; i < SIZES; i++) {
        blocks[i] = aq_page_malloc(sizes[i]);
        CHECK(blocks[i]);
        CHECK((uintptr_t)blocks[i] % 16 == 0);
        CHECK(aq_usable_size(blocks[i]) >= sizes[i]);
        fill(blocks[i], aq_usable_size(blocks[i]), sizes[i]);
    }
    CHECK(push_out());
    for (int i = 0; i < SIZES; i++)
        CHECK(is_filled(blocks[i], aq_usable_size(blocks[i]), sizes[i]));
    for (int i = 0; i < SIZES; i++)
        CHECK_CODE(AQ_OK, aq_free(blocks[i]));
}

static void small_blocks_share_pages(void)
{
    enum { BLOCKS = 40 };
    char *blocks[BLOCKS];
    int neighbours = 0;
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = aq_page_malloc(64);
        CHECK(blocks[i]);
        fill(blocks[i], 64, (uint64_t)i);
        neighbours += i > 0 && (uintptr_t)blocks[i] / 4096 == (uintptr_t)blocks[i - 1] / 4096;
    }
    CHECK(neighbours > BLOCKS / 2);
    for (int i = 0; i < BLOCKS; i++)
        CHECK(is_filled(blocks[i], 64, (uint64_t)i));
    for (int i = 0; i < BLOCKS; i++)
        CHECK_CODE(AQ_OK, aq_free(blocks[i]));
}

static void size_zero_is_a_block_of_its_own(void)
{
    char *a = aq_page_malloc(0), *b = aq_page_calloc(0, 8), *c = aq_page_realloc(NULL, 0);
    CHECK(a && b && c && a != b && b != c && a != c);
    CHECK_CODE(AQ_OK, aq_free(a));
    CHECK_CODE(AQ_OK, aq_free(b));
    CHECK_CODE(AQ_OK, aq_free(c));
}

static void calloc_is_zero_in_recycled_memory(void)
{
    for (int i = 0; i < SIZES; i++) {
        char *block = aq_page_malloc(sizes[i]);
        CHECK(block);
        memset(block, 0xFF, sizes[i]);
        if (i % 4 == 0)
            CHECK(push_out());
        CHECK_CODE(AQ_OK, aq_free(block));
        block = aq_page_calloc(1, sizes[i]);
        CHECK(block && is_zero(block, sizes[i]));
        CHECK_CODE(AQ_OK, aq_free(block));
    }
}

static void realloc_keeps_the_content(void)
{
    char *block = aq_page_realloc(NULL, 1), *between = NULL;
    CHECK(block);
    fill(block, 1, 9);
    for (int i = 1; i < 2 * SIZES - 1; i++) {
        size_t before = sizes[i <= SIZES ? i - 1 : 2 * SIZES - 1 - i];
        size_t now = sizes[i < SIZES ? i : 2 * SIZES - 2 - i];
        size_t kept = before < now ? before : now;
        block = aq_page_realloc(block, now);
        CHECK(block && (uintptr_t)block % 16 == 0 && is_filled(block, kept, 9));
        CHECK(aq_usable_size(block) >= now);
        fill(block, now, 9);
        /* A neighbour, so that it cannot always grow where it is. */
        if (!between)
            between = aq_page_malloc(5000);
        if (i % 5 == 0)
            CHECK(push_out());
    }
    CHECK_CODE(AQ_OK, aq_free(block));
    CHECK_CODE(AQ_OK, aq_free(between));
}

static void alignments_are_kept(void)
{
    for (size_t alignment = 1; alignment <= 2 * MIB; alignment *= 2) {
        for (int i = 0; i < SIZES; i += 3) {
            char *block = aq_page_memalign(alignment, sizes[i]);
            CHECK(block && (uintptr_t)block % alignment == 0);
            fill(block, sizes[i], alignment);
            CHECK(is_filled(block, sizes[i], alignment));
            CHECK_CODE(AQ_OK, aq_free(block));
        }
    }
}

static void nonsense_gives_null(void)
{
    static const size_t absurd[] = {SIZE_MAX / 2, SIZE_MAX - 4095, SIZE_MAX};
    for (int i = 0; i < 3; i++) {
        CHECK(!aq_page_malloc(absurd[i]));
        CHECK(*aq_error_message());
        CHECK(!aq_page_calloc(1, absurd[i]) && !aq_page_calloc(absurd[i], 2));
        CHECK(!aq_page_memalign(64, absurd[i]));
        CHECK(!aq_page_realloc(NULL, absurd[i]));
    }
    CHECK(!aq_page_calloc(SIZE_MAX / 2 + 2, 2));
    CHECK(!aq_page_memalign(0, 100) && !aq_page_memalign(24, 100) && !aq_page_memalign((size_t)1 << 40, 100));
    CHECK(!aq_page_realloc(&static_variable, 100));
    char *block = aq_page_malloc(300);
    CHECK(block);
    fill(block, 300, 1);
    CHECK(!aq_page_realloc(block, SIZE_MAX) && is_filled(block, 300, 1));
    CHECK_CODE(AQ_OK, aq_free(block));
    CHECK(!aq_heap_page_malloc(NULL, 1) && !aq_heap_page_calloc(NULL, 1, 1));
    CHECK(!aq_heap_page_realloc(NULL, NULL, 1) && !aq_heap_page_memalign(NULL, 16, 1));
}

static void wrong_frees_are_found(void)
{
    for (int i = 0; i < SIZES; i++) {
        char *block = aq_page_malloc(sizes[i]), *other = aq_page_malloc(sizes[i]);
        CHECK(block && other);
        fill(other, sizes[i], 4);
        CHECK_REFUSED(aq_free(block + 1));
        CHECK_CODE(AQ_OK, aq_free(block));
        CHECK_CODE(AQ_EDOUBLE_FREE, aq_free(block));
        CHECK(aq_usable_size(block) == 0);
        CHECK(!aq_page_realloc(block, 10));
        CHECK(is_filled(other, sizes[i], 4));
        CHECK_CODE(AQ_OK, aq_free(other));
    }
}

static void blocks_and_objects_live_in_one_heap(void)
{
    aq_options options = small_options();
    aq_heap *heap = NULL;
    options.object_bytes = 4096;
    CHECK_CODE(AQ_OK, aq_heap_open(&options, &heap));
    char *block = aq_heap_page_malloc(heap, 100), *object = aq_heap_malloc(heap, 100);
    char *zeros = aq_heap_page_calloc(heap, 10, 10), *aligned = aq_heap_page_memalign(heap, 256, 10);
    CHECK(block && object && zeros && aligned && (uintptr_t)aligned % 256 == 0 && is_zero(zeros, 100));
    fill(block, 100, 1);
    fill(object, 100, 2);
    block = aq_heap_page_realloc(heap, block, 100000);
    CHECK(block && is_filled(block, 100, 1) && is_filled(object, 100, 2));
    CHECK_CODE(AQ_EFOREIGN, aq_free(block));
    aq_stats stats = {.struct_bytes = sizeof stats};
    CHECK_CODE(AQ_OK, aq_heap_stats_get(heap, &stats));
    CHECK(stats.objects == 4);
    CHECK_CODE(AQ_OK, aq_heap_free(heap, block));
    CHECK_CODE(AQ_OK, aq_heap_free(heap, object));
    CHECK_CODE(AQ_OK, aq_heap_free(heap, zeros));
    CHECK_CODE(AQ_OK, aq_heap_free(heap, aligned));
    CHECK_CODE(AQ_OK, aq_heap_check(heap));
    CHECK_CODE(AQ_OK, aq_heap_close(heap));
}

int main(void)
{
    open_default_heap("blocks.c");
    RUN(blocks_of_every_size_hold_their_bytes);
    RUN(small_blocks_share_pages);
    RUN(size_zero_is_a_block_of_its_own);
    RUN(calloc_is_zero_in_recycled_memory);
    RUN(realloc_keeps_the_content);
    RUN(alignments_are_kept);
    RUN(nonsense_gives_null);
    RUN(wrong_frees_are_found);
    RUN(blocks_and_objects_live_in_one_heap);
    return tests_failed();
}

/* api.c - text, options, statistics and heaps, with good and bad arguments. */
#include "check.h"
#include <unistd.h>

static int static_variable;

/* ---- Text and options -------------------------------------------------- */

static void version_is_that_of_the_header(void)
{
    char expected[32];
    snprintf(expected, sizeof expected, "%d.%d.%d", AQ_VERSION_MAJOR, AQ_VERSION_MINOR, AQ_VERSION_PATCH);
    CHECK(strcmp(aq_version(), expected) == 0);
}

static void every_error_has_its_sentence(void)
{
    for (int a = AQ_OK; a <= AQ_EROOM; a++) {
        CHECK(aq_strerror(a) && *aq_strerror(a));
        for (int b = AQ_OK; b < a; b++)
            CHECK(strcmp(aq_strerror(a), aq_strerror(b)) != 0);
    }
    CHECK(aq_strerror(-1) && aq_strerror(4711));
}

static int open_small(aq_options *options)
{
    aq_heap *opened = NULL;
    options->ram_bytes = 16 * MIB;
    options->flash_path = test_dir();
    options->flash_bytes = 256 * MIB;
    int code = aq_heap_open(options, &opened);
    return code == AQ_OK ? aq_heap_close(opened) : code;
}

static void options_have_the_size_that_the_program_knows(void)
{
    CHECK_OPTIONS_OF_OTHER_SIZES(aq_options, aq_options_init, offsetof(aq_options, faults), open_small);
}

static void options_start_with_their_size(void)
{
    aq_options options;
    memset(&options, 0xA5, sizeof options);
    aq_options_init(&options, sizeof options);
    CHECK(options.struct_bytes == sizeof options);
    CHECK(options.faults == AQ_FAULTS_SIGNAL && options.policy <= AQ_POLICY_SIEVE);
    CHECK(options.flash_path == NULL && options.socket_path == NULL);
    CHECK(options.device_profile_path == NULL && options.compression == AQ_COMPRESS_NEVER);
    aq_options_init(NULL, 64);
}

static void the_default_heap_opens_once(void)
{
    aq_options options = small_options();
    CHECK_CODE(AQ_EOPEN, aq_init(&options));
    CHECK_CODE(AQ_EOPEN, aq_init(NULL));
    CHECK(*aq_error_message());
}

/* ---- Statistics -------------------------------------------------------- */

static void stats_count_objects(void)
{
    aq_stats before = {.struct_bytes = sizeof before}, during = {.struct_bytes = sizeof during};
    aq_stats after = {.struct_bytes = sizeof after};
    CHECK_CODE(AQ_OK, aq_stats_get(&before));
    void *a = aq_malloc(100), *b = aq_malloc(10000);
    CHECK(a && b);
    CHECK_CODE(AQ_OK, aq_stats_get(&during));
    CHECK(during.objects == before.objects + 2);
    CHECK(during.object_bytes >= before.object_bytes + 10100);
    CHECK(during.ram_budget_bytes == 16 * MIB);
    CHECK(during.ram_used_bytes <= during.ram_budget_bytes);
    CHECK(during.metadata_bytes <= during.ram_used_bytes);
    CHECK_CODE(AQ_OK, aq_free(a));
    CHECK_CODE(AQ_OK, aq_free(b));
    CHECK_CODE(AQ_OK, aq_stats_get(&after));
    CHECK(after.objects == before.objects && after.object_bytes == before.object_bytes);
}

/* A program that was built with an older, shorter struct. */
static void stats_respect_the_callers_size(void)
{
    aq_stats stats;
    memset(&stats, 0x5A, sizeof stats);
    stats.struct_bytes = offsetof(aq_stats, cache_bytes);
    CHECK_CODE(AQ_OK, aq_stats_get(&stats));
    CHECK(stats.ram_budget_bytes == 16 * MIB);
    CHECK(stats.cache_bytes == 0x5A5A5A5A5A5A5A5Au && stats.io_errors == 0x5A5A5A5A5A5A5A5Au);
    CHECK_CODE(AQ_EINVAL, aq_stats_get(NULL));
    stats.struct_bytes = 0;
    CHECK_CODE(AQ_EINVAL, aq_stats_get(&stats));
}

/* ---- Explicit heaps ---------------------------------------------------- */

static void explicit_heaps_are_separate(void)
{
    aq_options options = small_options();
    aq_heap *a = NULL, *b = NULL;
    CHECK_CODE(AQ_OK, aq_heap_open(&options, &a));
    options.policy = AQ_POLICY_LRU;
    CHECK_CODE(AQ_OK, aq_heap_open(&options, &b));
    CHECK(a && b && a != b);
    char *in_a = aq_heap_malloc(a, 300), *in_b = aq_heap_calloc(b, 3, 100), *in_default = aq_malloc(300);
    CHECK(in_a && in_b && in_default);
    fill(in_a, 300, 1);
    fill(in_b, 300, 2);
    CHECK_CODE(AQ_EFOREIGN, aq_heap_free(a, in_b));
    CHECK_CODE(AQ_EFOREIGN, aq_heap_free(b, in_a));
    CHECK_CODE(AQ_EFOREIGN, aq_heap_free(a, in_default));
    CHECK_CODE(AQ_EFOREIGN, aq_free(in_a));
    CHECK(aq_heap_usable_size(a, in_a) >= 300 && aq_heap_usable_size(b, in_a) == 0);
    CHECK(is_filled(in_a, 300, 1) && is_filled(in_b, 300, 2));

    in_a = aq_heap_realloc(a, in_a, 9000);
    CHECK(in_a && is_filled(in_a, 300, 1));
    CHECK_CODE(AQ_OK, aq_heap_prefetch(a, (void *const[]){in_a}, 1));
    CHECK_CODE(AQ_OK, aq_heap_pin(a, in_a, 9000));
    CHECK_CODE(AQ_OK, aq_heap_unpin(a, in_a, 9000));
    size_t stride = 0;
    char *array = aq_heap_array(b, 100, 50, &stride);
    CHECK(array && stride >= 4096);
    array[99 * stride] = 1;
    aq_stats stats = {.struct_bytes = sizeof stats};
    CHECK_CODE(AQ_OK, aq_heap_stats_get(a, &stats));
    CHECK(stats.objects == 1);
    CHECK_CODE(AQ_OK, aq_heap_check(a));
    CHECK_CODE(AQ_OK, aq_heap_check(b));
    CHECK_CODE(AQ_OK, aq_heap_free(b, array));
    CHECK_CODE(AQ_OK, aq_heap_close(a));
    CHECK(is_filled(in_b, 300, 2));
    CHECK_CODE(AQ_OK, aq_heap_free(b, in_b));
    CHECK_CODE(AQ_OK, aq_heap_close(b));
    CHECK_CODE(AQ_OK, aq_free(in_default));
}

static void every_policy_opens(void)
{
    for (int policy = AQ_POLICY_CLOCK; policy <= AQ_POLICY_SIEVE; policy++) {
        aq_options options = small_options();
        aq_heap *heap = NULL;
        options.policy = policy;
        CHECK_CODE(AQ_OK, aq_heap_open(&options, &heap));
        void *object = aq_heap_malloc(heap, 100);
        CHECK(object);
        fill(object, 100, 1);
        CHECK(is_filled(object, 100, 1));
        CHECK_CODE(AQ_OK, aq_heap_close(heap));
    }
}

static void a_heap_without_a_heap_is_refused(void)
{
    size_t stride;
    void *object = aq_malloc(10);
    aq_stats stats = {.struct_bytes = sizeof stats};
    CHECK(object);
    CHECK_CODE(AQ_EINVAL, aq_heap_close(NULL));
    CHECK(!aq_heap_malloc(NULL, 10) && !aq_heap_calloc(NULL, 1, 10));
    CHECK(!aq_heap_realloc(NULL, NULL, 10) && !aq_heap_array(NULL, 10, 10, &stride));
    CHECK_CODE(AQ_EINVAL, aq_heap_free(NULL, object));
    CHECK(aq_heap_usable_size(NULL, object) == 0);
    CHECK_CODE(AQ_EINVAL, aq_heap_prefetch(NULL, &object, 1));
    CHECK_CODE(AQ_EINVAL, aq_heap_pin(NULL, object, 10));
    CHECK_CODE(AQ_EINVAL, aq_heap_unpin(NULL, object, 10));
    CHECK_CODE(AQ_EINVAL, aq_heap_stats_get(NULL, &stats));
    CHECK_CODE(AQ_EINVAL, aq_heap_check(NULL));
    CHECK_CODE(AQ_OK, aq_free(object));
}

static void nonsense_options_are_refused(void)
{
    aq_heap *const untouched = (aq_heap *)&static_variable;
    aq_heap *heap = untouched;
    aq_options options = small_options();
    CHECK_CODE(AQ_EINVAL, aq_heap_open(&options, NULL));
    options.struct_bytes = 0;
    CHECK_CODE(AQ_EINVAL, aq_heap_open(&options, &heap));
    options = small_options();
    options.faults = 99;
    CHECK_CODE(AQ_EINVAL, aq_heap_open(&options, &heap));
    options = small_options();
    options.policy = -1;
    CHECK_CODE(AQ_EINVAL, aq_heap_open(&options, &heap));
    CHECK(*aq_error_message());
    CHECK(heap == untouched);
}

static void a_device_profile_is_read(void)
{
    char path[] = "/tmp/aquifer-profile-XXXXXX";
    int file = mkstemp(path);
    CHECK(file >= 0);
    FILE *stream = fdopen(file, "w");
    CHECK(stream);
    fputs("aquifer-device-profile = 1\nwrite_depth = 2\n", stream);
    fflush(stream);
    aq_heap *heap = NULL;
    aq_options options = small_options();
    options.device_profile_path = path;
    CHECK_CODE(AQ_OK, aq_heap_open(&options, &heap));
    CHECK_CODE(AQ_OK, aq_heap_close(heap));
    fputs("depth = deep\n", stream);
    CHECK(fclose(stream) == 0);
    CHECK_CODE(AQ_EINVAL, aq_heap_open(&options, &heap));
    CHECK(strstr(aq_error_message(), path) && strstr(aq_error_message(), "line 3"));
    unlink(path);
    CHECK_CODE(AQ_EINVAL, aq_heap_open(&options, &heap));
    CHECK(strstr(aq_error_message(), path));
}

/* ---- The end ----------------------------------------------------------- */

static void the_default_heap_closes_and_opens_again(void)
{
    void *object = aq_malloc(100);
    CHECK(object);
    CHECK_CODE(AQ_OK, aq_check());
    CHECK_CODE(AQ_OK, aq_shutdown());
    CHECK_CODE(AQ_ECLOSED, aq_shutdown());
    CHECK_REFUSED(aq_free(object));
    aq_options options = small_options();
    CHECK_CODE(AQ_OK, aq_init(&options));
    object = aq_malloc(100);
    CHECK(object);
    fill(object, 100, 1);
    CHECK(is_filled(object, 100, 1));
    CHECK_CODE(AQ_OK, aq_shutdown());
}

int main(void)
{
    RUN(version_is_that_of_the_header);
    RUN(every_error_has_its_sentence);
    RUN(options_start_with_their_size);
    RUN(options_have_the_size_that_the_program_knows);
    open_default_heap("api.c");
    RUN(the_default_heap_opens_once);
    RUN(stats_count_objects);
    RUN(stats_respect_the_callers_size);
    RUN(explicit_heaps_are_separate);
    RUN(every_policy_opens);
    RUN(a_device_profile_is_read);
    RUN(a_heap_without_a_heap_is_refused);
    RUN(nonsense_options_are_refused);
    RUN(the_default_heap_closes_and_opens_again);
    return tests_failed();
}

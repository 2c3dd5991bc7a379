/* pressure.c - eight times more data than RAM: random reads, writes, frees and
 * reallocations against a model, and the budget at every sample. With AQUIFER_LONG
 * in the environment three times as many. */
#include "check.h"

enum { RAM_BYTES = 16 << 20, DATA_BYTES = 8 * RAM_BYTES, OBJECTS_MAX = 1 << 18, OPERATIONS = 100000 };

struct slot {
    void *object;
    uint32_t bytes;
    uint32_t version; /* the content follows from this and the slot's number */
};

static struct slot slots[OBJECTS_MAX];
static size_t slot_count, data_bytes;
static uint64_t dice = 2024;
static aq_heap *heap;

static uint64_t seed_of(const struct slot *slot)
{
    return (uint64_t)(slot - slots) << 32 | slot->version;
}

/* Mostly small objects, some of a page, some of many. */
static uint32_t random_size(void)
{
    uint64_t kind = next_random(&dice) % 1000, r = next_random(&dice);
    if (kind < 800)
        return 16 + (uint32_t)(r % 240);
    if (kind < 970)
        return 256 + (uint32_t)(r % 3840);
    if (kind < 998)
        return 4097 + (uint32_t)(r % 20000);
    return 100000 + (uint32_t)(r % 400000);
}

static void refill(struct slot *slot)
{
    slot->version++;
    fill(slot->object, slot->bytes, seed_of(slot));
}

static void verify(const struct slot *slot)
{
    if (!is_filled(slot->object, slot->bytes, seed_of(slot)))
        end_test("FAIL slot %zu (%u bytes, version %u) does not hold what was written", (size_t)(slot - slots),
                 slot->bytes, slot->version);
}

static void create(struct slot *slot, uint32_t bytes)
{
    slot->object = aq_heap_malloc(heap, bytes);
    CHECK(slot->object);
    slot->bytes = bytes;
    data_bytes += bytes;
    refill(slot);
}

static void destroy(struct slot *slot)
{
    CHECK_CODE(AQ_OK, aq_heap_free(heap, slot->object));
    data_bytes -= slot->bytes;
    slot->object = NULL;
}

static void resize(struct slot *slot)
{
    uint32_t bytes = random_size(), kept = bytes < slot->bytes ? bytes : slot->bytes;
    void *moved = aq_heap_realloc(heap, slot->object, bytes);
    CHECK(moved);
    data_bytes += bytes - (size_t)slot->bytes;
    slot->object = moved;
    CHECK(is_filled(moved, kept, seed_of(slot)));
    slot->bytes = bytes;
    refill(slot);
}

static void check_budget(void)
{
    aq_stats stats = {.struct_bytes = sizeof stats};
    CHECK_CODE(AQ_OK, aq_heap_stats_get(heap, &stats));
    if (stats.ram_used_bytes > stats.ram_budget_bytes)
        end_test("FAIL %llu bytes of RAM in use, the budget is %llu", (unsigned long long)stats.ram_used_bytes,
                 (unsigned long long)stats.ram_budget_bytes);
}

static void one_operation(void)
{
    struct slot *slot = &slots[next_random(&dice) % slot_count];
    uint64_t kind = next_random(&dice) % 100;
    if (!slot->object)
        create(slot, random_size());
    else if (kind < 60)
        verify(slot);
    else if (kind < 90)
        refill(slot);
    else if (kind < 94 && data_bytes < DATA_BYTES + (4 << 20))
        resize(slot);
    else
        destroy(slot);
}

/* From a line of /proc/self/status, in bytes. */
static size_t status_bytes(const char *name)
{
    char line[256];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtoul(line + strlen(name), NULL, 10);
    }
    if (file)
        fclose(file);
    return kib * 1024;
}

static void run_with(int faults)
{
    memset(slots, 0, sizeof slots);
    slot_count = data_bytes = 0;
    size_t resident_before = status_bytes("VmRSS:") + status_bytes("VmPTE:");
    aq_options options = small_options();
    options.ram_bytes = RAM_BYTES;
    options.flash_bytes = 3 * (uint64_t)DATA_BYTES;
    options.faults = faults;
    int code = aq_heap_open(&options, &heap);
    if (is_machine_error(code))
        SKIP("%s", aq_error_message());
    CHECK_CODE(AQ_OK, code);
    while (data_bytes < DATA_BYTES && slot_count < OBJECTS_MAX)
        create(&slots[slot_count++], random_size());
    CHECK(data_bytes >= DATA_BYTES);
    int operations = getenv("AQUIFER_LONG") ? 3 * OPERATIONS : OPERATIONS;
    for (int i = 0; i < operations; i++) {
        one_operation();
        if (i % 1000 == 0)
            check_budget();
    }
    for (size_t i = 0; i < slot_count; i++) {
        if (slots[i].object)
            verify(&slots[i]);
    }
    /* 4 MiB for the library's code and stacks, which are not part of the budget. */
    size_t resident = status_bytes("VmRSS:") + status_bytes("VmPTE:") - resident_before;
    CHECK(resident <= RAM_BYTES + RAM_BYTES / 20 + 4 * MIB);
    CHECK_CODE(AQ_OK, aq_heap_check(heap));
    for (size_t i = 0; i < slot_count; i++) {
        if (slots[i].object)
            destroy(&slots[i]);
    }
    aq_stats stats = {.struct_bytes = sizeof stats};
    CHECK_CODE(AQ_OK, aq_heap_stats_get(heap, &stats));
    CHECK(stats.objects == 0 && stats.object_bytes == 0);
    CHECK(stats.misses > 0 && stats.device_written_bytes > 0);
    CHECK_CODE(AQ_OK, aq_heap_close(heap));
}

static void faults_in_the_faulting_thread(void)
{
    run_with(AQ_FAULTS_SIGNAL);
}

static void faults_in_a_thread_of_the_library(void)
{
    run_with(AQ_FAULTS_THREAD);
}

int main(void)
{
    /* Touch the model first, so that it counts as resident before. */
    memset(slots, 1, sizeof slots);
    RUN(faults_in_the_faulting_thread);
    RUN(faults_in_a_thread_of_the_library);
    return tests_failed();
}

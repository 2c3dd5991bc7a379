/* main.c - loads a B+tree, queries it, and says what that cost. */
#include "btree.h"
#include "options.h"
#include "progress.h"
#include "usage.h"
#include "workload.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    VALUE_BYTES = 100,
    RECORD_BYTES = VALUE_BYTES + 16, /* value, key and pointer in a full leaf */
    THREADS_MAX = 256
};

static struct settings {
    uint64_t data_bytes, records, queries, threads, seed;
    double zipf;
    bool uniform, shuffle, check, progress, help;
} settings = {.data_bytes = 512 << 20, .queries = 1000000, .threads = 4, .seed = 1, .zipf = 0.99};

static const struct option_row rows[] = {
    {"data", OPTION_SIZE, &settings.data_bytes, "keys and values to load, as in 2G (default 512M)"},
    {"records", OPTION_COUNT, &settings.records, "the same as a number of 100-byte records"},
    {"shuffle", OPTION_FLAG, &settings.shuffle, "load in random order instead of key order"},
    {"queries", OPTION_COUNT, &settings.queries, "random lookups, each verified (default 1e6)"},
    {"zipf", OPTION_NUMBER, &settings.zipf, "skew of the lookups, 0 to 10 (default 0.99)"},
    {"uniform", OPTION_FLAG, &settings.uniform, "every record is as likely as any other"},
    {"threads", OPTION_COUNT, &settings.threads, "threads that query (default 4)"},
    {"seed", OPTION_COUNT, &settings.seed, "of the random lookups (default 1)"},
    {"check", OPTION_FLAG, &settings.check, "check the whole tree after the queries"},
    {"progress", OPTION_FLAG, &settings.progress, "show progress even if stderr is no terminal"},
    {"help", OPTION_FLAG, &settings.help, "print this"},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static void print_help(void)
{
    puts("Loads a B+tree of 100-byte values, looks records up, and reports the cost.\n\nUsage: btree [OPTION]...\n");
    options_print(rows, ROWS);
    puts("\nExamples:\n"
         "  btree                                     512 MiB, a million skewed lookups\n"
         "  btree --data 2G --uniform --threads 8     2 GiB, lookups all over it\n"
         "  btree --records 1e6 --shuffle --check     a million inserts in random order");
}

static void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("btree: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(EXIT_FAILURE);
}

/* ---- Load -------------------------------------------------------------- */

static btree *load(void)
{
    btree *tree = btree_create(VALUE_BYTES);
    if (!tree)
        die("no memory for an empty tree");
    struct progress progress = progress_start("load", settings.records, settings.progress);
    for (uint64_t i = 0; i < settings.records; i++) {
        uint64_t key = record_key(settings.shuffle ? scattered(i, settings.records) : i);
        unsigned char value[VALUE_BYTES];
        record_value(key, value, sizeof value);
        if (btree_insert(tree, key, value) != BTREE_ADDED)
            die("no memory after %" PRIu64 " of %" PRIu64 " records", i, settings.records);
        if (i % 1024 == 0)
            progress_show(&progress, i);
    }
    progress_end(&progress);
    return tree;
}

/* ---- Queries ----------------------------------------------------------- */

struct reader {
    pthread_t thread;
    const btree *tree;
    struct sampler sampler;
    uint64_t queries;
    uint64_t wrong;
};

static _Atomic uint64_t queries_done;

static void *read_records(void *argument)
{
    struct reader *reader = argument;
    for (uint64_t i = 0; i < reader->queries; i++) {
        uint64_t key = record_key(sampler_next(&reader->sampler));
        const unsigned char *value = btree_find(reader->tree, key);
        if (!value || !record_value_is(key, value, VALUE_BYTES))
            reader->wrong++;
        atomic_fetch_add_explicit(&queries_done, 1, memory_order_relaxed);
    }
    return NULL;
}

/* Returns how many lookups did not find the right value. */
static uint64_t query(const btree *tree)
{
    static struct reader readers[THREADS_MAX];
    struct progress progress = progress_start("queries", settings.queries, settings.progress);
    for (uint64_t i = 0; i < settings.threads; i++) {
        struct reader *reader = &readers[i];
        reader->tree = tree;
        reader->queries = settings.queries / settings.threads + (i < settings.queries % settings.threads);
        sampler_init(&reader->sampler, settings.records, settings.zipf, settings.seed * THREADS_MAX + i);
        if (pthread_create(&reader->thread, NULL, read_records, reader) != 0)
            die("cannot start thread %" PRIu64, i);
    }
    while (settings.progress && atomic_load(&queries_done) < settings.queries) {
        usleep(20000);
        progress_show(&progress, atomic_load(&queries_done));
    }
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < settings.threads; i++) {
        pthread_join(readers[i].thread, NULL);
        wrong += readers[i].wrong;
    }
    progress_end(&progress);
    return wrong;
}

/* ---- Report ------------------------------------------------------------ */

static struct usage usage_now(void)
{
    struct usage usage = usage_of_process();
    return usage;
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static void print_phase(const char *name, uint64_t operations, const struct usage *from,
                        const struct usage *to)
{
    double seconds = to->at - from->at;
    printf("%-8s %10" PRIu64 " in %6.1f s %11.0f/s %10.1f %13.1f\n", name, operations, seconds,
           (double)operations / seconds, mib(to->read_bytes - from->read_bytes),
           mib(to->written_bytes - from->written_bytes));
    fflush(stdout);
}

static void print_memory(uint64_t data_bytes, unsigned height, const struct usage *usage)
{
    printf("\ndata       %.1f MiB in a tree of height %u\n", mib(data_bytes), height);
    if (usage->budget_bytes) {
        double used = (double)usage->used_bytes / (double)usage->budget_bytes;
        double ratio = (double)data_bytes / (double)usage->budget_bytes;
        printf("RAM        heap %.1f of %.1f MiB budget (%.0f %%), data is %.1f times the budget\n",
               mib(usage->used_bytes), mib(usage->budget_bytes), 100 * used, ratio);
    }
    printf("           whole process at most %.1f MiB resident\n", mib(usage->resident_peak_bytes));
}

/* A lookup touches a node on each level and the value. */
static void print_hits(unsigned height, const struct usage *from, const struct usage *to)
{
    double touched = (double)settings.queries * (height + 1);
    double fetched = (double)(to->disk_fetches - from->disk_fetches);
    printf("hit ratio  %.2f %% of the nodes and values that lookups touched\n", 100 * (1 - fetched / touched));
}

/* ---- Main -------------------------------------------------------------- */

static void read_settings(int argc, char **argv)
{
    settings.progress = isatty(STDERR_FILENO);
    if (!options_parse(rows, ROWS, argc, argv))
        exit(2);
    if (settings.help) {
        print_help();
        exit(EXIT_SUCCESS);
    }
    if (settings.records == 0)
        settings.records = settings.data_bytes / RECORD_BYTES;
    if (settings.uniform)
        settings.zipf = 0;
    if (settings.records == 0 || settings.records > UINT32_MAX)
        die("%" PRIu64 " records cannot be loaded; ask for 1 to 2^32 - 1", settings.records);
    if (settings.threads == 0 || settings.threads > THREADS_MAX)
        die("%" PRIu64 " threads are not possible; ask for 1 to %d", settings.threads, THREADS_MAX);
    if (settings.zipf > 10)
        die("a skew of %g is too large; ask for 0 to 10", settings.zipf);
}

int main(int argc, char **argv)
{
    read_settings(argc, argv);

    puts("          operations      time        rate   MiB read   MiB written");
    struct usage start = usage_now();
    btree *tree = load();
    struct usage loaded = usage_now();
    print_phase("load", settings.records, &start, &loaded);
    uint64_t wrong = query(tree);
    struct usage queried = usage_now();
    print_phase("queries", settings.queries, &loaded, &queried);

    const char *damage = settings.check ? btree_check(tree) : NULL;
    unsigned height = btree_height(tree);
    uint64_t data_bytes = btree_bytes(tree);
    struct usage checked = usage_now();
    btree_destroy(tree);
    struct usage freed = usage_now();
    print_phase("free", settings.records, &checked, &freed);

    print_memory(data_bytes, height, &queried);
    print_hits(height, &loaded, &queried);
    printf("verified   %" PRIu64 " values right, %" PRIu64 " wrong\n", settings.queries - wrong, wrong);
    if (settings.check)
        printf("tree       %s\n", damage ? damage : "sound");
    return wrong == 0 && !damage ? EXIT_SUCCESS : EXIT_FAILURE;
}

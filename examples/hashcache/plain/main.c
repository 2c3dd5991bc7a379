/* main.c - sends generated requests through a web cache, and says how many it could serve. */
#include "hash_cache.h"
#include "options.h"
#include "origin.h"
#include "progress.h"
#include "usage.h"
#include "workload.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct settings {
    uint64_t data_bytes, urls, requests, seed;
    double alpha;
    bool check, progress, help;
} settings = {.data_bytes = 512 << 20, .seed = 1, .alpha = 0.8};

static const struct option_row rows[] = {
    {"data", OPTION_SIZE, &settings.data_bytes, "responses that the cache holds (default 512M)"},
    {"urls", OPTION_COUNT, &settings.urls, "different URLs (default: four for each response it holds)"},
    {"requests", OPTION_COUNT, &settings.requests, "requests for them (default: as many as URLs)"},
    {"alpha", OPTION_NUMBER, &settings.alpha, "how popular the popular URLs are, 0 to 10 (default 0.8)"},
    {"seed", OPTION_COUNT, &settings.seed, "another one, other requests (default 1)"},
    {"check", OPTION_FLAG, &settings.check, "check the whole cache at the end"},
    {"progress", OPTION_FLAG, &settings.progress, "show progress even if stderr is no terminal"},
    {"help", OPTION_FLAG, &settings.help, "print this"},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static void print_help(void)
{
    puts("Sends requests for URLs through a cache of responses of 100 bytes to 8 KiB, and\n"
         "reports how many it could serve.\n\nUsage: hashcache [OPTION]...\n");
    options_print(rows, ROWS);
    puts("\nExamples:\n"
         "  hashcache                                 a cache of 512 MiB, a million requests\n"
         "  hashcache --data 2G --alpha 0.6           2 GiB, requests spread more evenly\n"
         "  hashcache --urls 1e6 --requests 5e6       five requests for each URL, on average");
}

static void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("hashcache: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(EXIT_FAILURE);
}

/* ---- Requests ---------------------------------------------------------- */

struct totals {
    uint64_t bytes; /* of all responses */
    uint64_t hits;
    uint64_t hit_bytes;
    uint64_t wrong;    /* hits with other bytes than the server's */
    uint64_t checksum; /* of what was asked for and what was a hit */
};

/* Serves one request. False if there is no memory to keep the response. */
static bool serve(hash_cache *cache, uint64_t number, struct totals *totals)
{
    char url[URL_BYTES_MAX];
    origin_url(number, url);
    size_t bytes;
    const unsigned char *kept = hash_cache_get(cache, url, &bytes);
    totals->checksum = mix64(totals->checksum + number * 2 + (kept != NULL));
    if (kept) {
        totals->hits++;
        totals->hit_bytes += bytes;
        totals->bytes += bytes;
        totals->wrong += !origin_response_is(number, kept, bytes);
        return true;
    }
    unsigned char response[RESPONSE_BYTES_MAX];
    bytes = origin_response(number, response);
    totals->bytes += bytes;
    return hash_cache_put(cache, url, response, bytes);
}

static struct totals serve_all(hash_cache *cache)
{
    struct sampler sampler;
    sampler_init(&sampler, settings.urls, settings.alpha, settings.seed);
    struct totals totals = {0};
    struct progress progress = progress_start("requests", settings.requests, settings.progress);
    for (uint64_t i = 0; i < settings.requests; i++) {
        if (!serve(cache, sampler_next(&sampler), &totals))
            die("no memory for response %" PRIu64 " of %" PRIu64 "; ask for less --data, or give the heap more", i,
                settings.requests);
        if (i % 1024 == 0)
            progress_show(&progress, i);
    }
    progress_end(&progress);
    return totals;
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

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100 * (double)part / (double)whole : 0;
}

static void print_phase(const struct usage *from, const struct usage *to)
{
    double seconds = to->at - from->at;
    puts("            requests      time        rate   MiB read   MiB written");
    printf("served   %11" PRIu64 " in %6.1f s %11.0f/s %10.1f %13.1f\n\n", settings.requests, seconds,
           (double)settings.requests / seconds, mib(to->read_bytes - from->read_bytes),
           mib(to->written_bytes - from->written_bytes));
}

static void print_memory(const struct hash_cache_counts *counts, const struct usage *usage)
{
    printf("RAM        %.1f MiB of index, whole process at most %.1f MiB resident\n", mib(counts->index_bytes),
           mib(usage->resident_peak_bytes));
    if (usage->budget_bytes)
        printf("           heap %.1f of %.1f MiB budget (%.0f %%), responses are %.1f times the budget\n",
               mib(usage->used_bytes), mib(usage->budget_bytes), percent(usage->used_bytes, usage->budget_bytes),
               (double)counts->object_bytes / (double)usage->budget_bytes);
}

static void print_fetches(uint64_t hits, const struct usage *from, const struct usage *to)
{
    uint64_t fetches = to->disk_fetches - from->disk_fetches;
    printf("           %" PRIu64 " times data came from the disk, %.2f for each hit\n", fetches,
           percent(fetches, hits) / 100);
}

static void print_totals(const struct totals *totals, const struct hash_cache_counts *counts)
{
    printf("cache      %.1f MiB in %zu responses, %" PRIu64 " evicted\n", mib(counts->object_bytes), counts->objects,
           counts->evictions);
    printf("hits       %.2f %% of the requests\n", percent(totals->hits, settings.requests));
    printf("bytes hit  %.2f %%, %.1f of %.1f MiB\n", percent(totals->hit_bytes, totals->bytes),
           mib(totals->hit_bytes), mib(totals->bytes));
    printf("checksum   %016" PRIx64 "\n", totals->checksum);
    printf("verified   %" PRIu64 " responses right, %" PRIu64 " wrong\n", totals->hits - totals->wrong,
           totals->wrong);
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
    if (settings.data_bytes < 1 << 20 || settings.data_bytes > (uint64_t)1 << 40)
        die("a cache of %" PRIu64 " bytes makes no sense; ask for 1M to 1T", settings.data_bytes);
    if (settings.alpha > 10)
        die("an alpha of %g is too large; ask for 0 to 10", settings.alpha);
    if (settings.urls == 0)
        settings.urls = 4 * (settings.data_bytes / RESPONSE_BYTES_MEAN);
    if (settings.urls > UINT32_MAX)
        die("%" PRIu64 " URLs are too many; ask for up to 2^32 - 1", settings.urls);
    if (settings.requests == 0)
        settings.requests = settings.urls;
}

int main(int argc, char **argv)
{
    read_settings(argc, argv);

    hash_cache *cache = hash_cache_create(settings.data_bytes / RESPONSE_BYTES_MEAN);
    if (!cache)
        die("no memory for the index of a cache of %.0f MiB; ask for less --data", mib(settings.data_bytes));
    struct usage start = usage_now();
    struct totals totals = serve_all(cache);
    struct usage end = usage_now();
    struct hash_cache_counts counts = hash_cache_count(cache);
    print_phase(&start, &end);
    print_memory(&counts, &end);
    print_fetches(totals.hits, &start, &end);
    print_totals(&totals, &counts);

    const char *damage = settings.check ? hash_cache_check(cache) : NULL;
    if (settings.check)
        printf("check      %s\n", damage ? damage : "sound");
    hash_cache_destroy(cache);
    return totals.wrong == 0 && !damage ? EXIT_SUCCESS : EXIT_FAILURE;
}

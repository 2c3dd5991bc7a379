/* main.c - sends generated packets past a packet cache, and says how many bytes that saved. */
#include "disk.h"
#include "options.h"
#include "packet_cache.h"
#include "progress.h"
#include "trace.h"
#include "usage.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    REFERENCE_BYTES = 12, /* on the link, in place of a match: packet, from, at, length */
    PAYLOAD_BYTES_LEAST = 300
};

static struct settings {
    struct trace_settings trace;
    uint64_t data_bytes, packets;
    bool check, progress, help;
} settings = {
    .trace = {.seed = 1, .overlap = 0.5, .zipf = 0.7, .small = 0.4, .payload_max = 1460},
    .data_bytes = 512 << 20,
};

static const struct option_row rows[] = {
    {"data", OPTION_SIZE, &settings.data_bytes, "payloads that the cache holds (default 512M)"},
    {"packets", OPTION_COUNT, &settings.packets, "packets to send (default: twice what the cache holds)"},
    {"overlap", OPTION_NUMBER, &settings.trace.overlap, "share of bytes that repeat, 0 to 1 (default 0.5)"},
    {"zipf", OPTION_NUMBER, &settings.trace.zipf, "how popular the popular bytes are, 0 to 10 (default 0.7)"},
    {"reach", OPTION_SIZE, &settings.trace.reach_bytes, "how far back they come from (default: the cache)"},
    {"payload", OPTION_COUNT, &settings.trace.payload_max, "bytes of the largest payload (default 1460)"},
    {"small", OPTION_NUMBER, &settings.trace.small, "share of packets below 300 bytes (default 0.4)"},
    {"seed", OPTION_COUNT, &settings.trace.seed, "another one, other packets (default 1)"},
    {"check", OPTION_FLAG, &settings.check, "check the whole cache at the end"},
    {"progress", OPTION_FLAG, &settings.progress, "show progress even if stderr is no terminal"},
    {"help", OPTION_FLAG, &settings.help, "print this"},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static void print_help(void)
{
    puts("Sends packets over a link whose ends remember the last ones, and reports how many\n"
         "bytes need not be sent again.\n\nUsage: packetcache [OPTION]...\n");
    options_print(rows, ROWS);
    puts("\nExamples:\n"
         "  packetcache                               a cache of 512 MiB, filled twice\n"
         "  packetcache --data 2G --overlap 0.8       2 GiB, most bytes were there before\n"
         "  packetcache --packets 1e5 --zipf 0        few packets, repeats from all over the cache");
}

static void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("packetcache: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(EXIT_FAILURE);
}

/* ---- Link -------------------------------------------------------------- */

struct totals {
    uint64_t bytes;    /* of all payloads */
    uint64_t repeated; /* of these, found in the cache */
    uint64_t matches;
    uint64_t wrong;    /* packets that came out different at the other end */
    uint64_t checksum; /* of all references */
};

/* What the other end does: references are replaced by bytes of the cache, the
 * rest has come as it is. True if the result is the payload. */
static bool rebuilds(const packet_cache *cache, const unsigned char *payload, size_t bytes,
                     const struct match *matches, size_t count)
{
    unsigned char rebuilt[PAYLOAD_BYTES_MAX];
    memcpy(rebuilt, payload, bytes);
    for (size_t i = 0; i < count; i++) {
        size_t cached_bytes;
        const unsigned char *cached = packet_cache_payload(cache, matches[i].packet, &cached_bytes);
        if (!cached || matches[i].from + matches[i].bytes > cached_bytes)
            return false;
        memcpy(rebuilt + matches[i].at, cached + matches[i].from, matches[i].bytes);
    }
    return memcmp(rebuilt, payload, bytes) == 0;
}

static void count_match(struct totals *totals, const struct match *match)
{
    totals->matches++;
    totals->repeated += match->bytes;
    totals->checksum = mix64(totals->checksum + match->packet);
    totals->checksum = mix64(totals->checksum + ((uint64_t)match->from << 32 | match->at << 16 | match->bytes));
}

/* False if there is no memory. */
static bool send_packet(packet_cache *cache, const unsigned char *payload, size_t bytes, struct totals *totals)
{
    struct anchor anchors[ANCHORS_MAX];
    struct match matches[ANCHORS_MAX];
    size_t anchor_count = anchors_find(payload, bytes, anchors);
    size_t match_count = packet_cache_find(cache, payload, bytes, anchors, anchor_count, matches);
    for (size_t i = 0; i < match_count; i++)
        count_match(totals, &matches[i]);
    totals->wrong += !rebuilds(cache, payload, bytes, matches, match_count);
    totals->bytes += bytes;
    return packet_cache_add(cache, payload, bytes, anchors, anchor_count);
}

static struct totals send_packets(packet_cache *cache)
{
    static struct trace trace;
    trace_init(&trace, &settings.trace);
    struct totals totals = {0};
    struct progress progress = progress_start("packets", settings.packets, settings.progress);
    for (uint64_t i = 0; i < settings.packets; i++) {
        unsigned char payload[PAYLOAD_BYTES_MAX];
        size_t bytes = trace_next(&trace, payload);
        if (!send_packet(cache, payload, bytes, &totals))
            die("no memory for packet %" PRIu64 " of %" PRIu64 "; ask for less --data, or give the heap more", i,
                settings.packets);
        if (i % 1024 == 0)
            progress_show(&progress, i);
    }
    progress_end(&progress);
    return totals;
}

/* ---- Report ------------------------------------------------------------ */

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static void print_phase(double seconds, const struct disk_traffic *from, const struct disk_traffic *to)
{
    puts("             packets      time        rate   MiB read   MiB written");
    printf("sent     %11" PRIu64 " in %6.1f s %11.0f/s %10.1f %13.1f\n\n", settings.packets, seconds,
           (double)settings.packets / seconds, mib(to->read_bytes - from->read_bytes),
           mib(to->written_bytes - from->written_bytes));
}

static void print_cache(const packet_cache *cache)
{
    printf("cache      %.1f MiB in %zu packets, %" PRIu64 " evicted\n", mib(packet_cache_bytes(cache)),
           packet_cache_count(cache), packet_cache_evictions(cache));
    printf("RAM        %.1f MiB of index, whole process at most %.1f MiB resident\n",
           mib(packet_cache_index_bytes(cache)), mib(usage_of_process().resident_peak_bytes));
}

static void print_totals(const struct totals *totals)
{
    double saved = (double)totals->repeated - (double)(totals->matches * REFERENCE_BYTES);
    printf("redundancy %.2f %% of %.1f MiB were in the cache, in %" PRIu64 " matches\n",
           100 * (double)totals->repeated / (double)totals->bytes, mib(totals->bytes), totals->matches);
    printf("saved      %.2f %% with references of %d bytes\n", 100 * saved / (double)totals->bytes, REFERENCE_BYTES);
    printf("checksum   %016" PRIx64 "\n", totals->checksum);
    printf("verified   %" PRIu64 " packets rebuilt right, %" PRIu64 " wrong\n", settings.packets - totals->wrong,
           totals->wrong);
}

/* ---- Main -------------------------------------------------------------- */

static void check_settings(void)
{
    const struct trace_settings *trace = &settings.trace;
    if (settings.data_bytes < 1 << 20 || settings.data_bytes > (uint64_t)1 << 40)
        die("a cache of %" PRIu64 " bytes makes no sense; ask for 1M to 1T", settings.data_bytes);
    if (trace->overlap > 1)
        die("an overlap of %g is impossible; ask for 0 to 1", trace->overlap);
    if (trace->zipf > 10)
        die("a skew of %g is too large; ask for 0 to 10", trace->zipf);
    if (trace->small > 1)
        die("a share of %g is impossible; ask for --small 0 to 1", trace->small);
    if (trace->payload_max < PAYLOAD_BYTES_LEAST || trace->payload_max > PAYLOAD_BYTES_MAX)
        die("payloads of %" PRIu64 " bytes are not possible; ask for %d to %d", trace->payload_max,
            PAYLOAD_BYTES_LEAST, PAYLOAD_BYTES_MAX);
}

static void read_settings(int argc, char **argv)
{
    settings.progress = isatty(STDERR_FILENO);
    if (!options_parse(rows, ROWS, argc, argv))
        exit(2);
    if (settings.help) {
        print_help();
        exit(EXIT_SUCCESS);
    }
    check_settings();
    double cached = (double)settings.data_bytes;
    if (settings.packets == 0)
        settings.packets = (uint64_t)(2 * cached / trace_mean_bytes(&settings.trace));
    if (settings.trace.reach_bytes == 0)
        settings.trace.reach_bytes = (uint64_t)(cached * (1 - settings.trace.overlap));
}

int main(int argc, char **argv)
{
    read_settings(argc, argv);

    packet_cache *cache = packet_cache_create(settings.data_bytes);
    if (!cache)
        die("no memory for the index of a cache of %.0f MiB; ask for less --data", mib(settings.data_bytes));
    struct disk_traffic start = disk_traffic_now();
    double started = seconds_now();
    struct totals totals = send_packets(cache);
    double ended = seconds_now();
    struct disk_traffic end = disk_traffic_now();
    print_phase(ended - started, &start, &end);
    print_cache(cache);
    print_totals(&totals);

    const char *damage = settings.check ? packet_cache_check(cache) : NULL;
    if (settings.check)
        printf("check      %s\n", damage ? damage : "sound");
    packet_cache_destroy(cache);
    return totals.wrong == 0 && !damage ? EXIT_SUCCESS : EXIT_FAILURE;
}

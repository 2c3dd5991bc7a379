/* main.c - loads sessions, sends requests for them, and says what that cost. */
#include "options.h"
#include "progress.h"
#include "requests.h"
#include "sessions.h"
#include "usage.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SESSION_BYTES = sizeof(session) };

static struct settings {
    uint64_t data_bytes, count, threads, seed;
    double hot, hot_requests, updates, seconds, warmup;
    bool check, progress, help;
} settings = {.data_bytes = 512 << 20, .threads = 8, .seed = 1, .hot = 1, .hot_requests = 90, .updates = 50,
              .seconds = 8, .warmup = 3};

static const struct option_row rows[] = {
    {"data", OPTION_SIZE, &settings.data_bytes, "sessions to load, as in 2G (default 512M)"},
    {"count", OPTION_COUNT, &settings.count, "the same as a number of sessions of 248 bytes"},
    {"hot", OPTION_NUMBER, &settings.hot, "percent of the sessions that are busy (default 1)"},
    {"hot-requests", OPTION_NUMBER, &settings.hot_requests, "percent of the requests that they get (default 90)"},
    {"updates", OPTION_NUMBER, &settings.updates, "percent of the requests that change a session (default 50)"},
    {"threads", OPTION_COUNT, &settings.threads, "threads that serve requests (default 8)"},
    {"seconds", OPTION_NUMBER, &settings.seconds, "time for the requests (default 8)"},
    {"warmup", OPTION_NUMBER, &settings.warmup, "time for requests before that (default 3)"},
    {"seed", OPTION_COUNT, &settings.seed, "another one, other requests (default 1)"},
    {"check", OPTION_FLAG, &settings.check, "look at every session at the end"},
    {"disk-stat", OPTION_SETTING, "DISK_STAT", "the kernel's counts of a disk, as /sys/block/sda/stat"},
    {"progress", OPTION_FLAG, &settings.progress, "show progress even if stderr is no terminal"},
    {"help", OPTION_FLAG, &settings.help, "print this"},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static void print_help(void)
{
    puts("Loads sessions of 248 bytes, reads and changes them, and reports the cost. Few of\n"
         "them are busy; they lie between others that nobody asks for.\n\nUsage: sessions [OPTION]...\n");
    options_print(rows, ROWS);
    puts("\nExamples:\n"
         "  sessions                                  512 MiB, 1 % of it busy\n"
         "  sessions --data 2G --updates 5            2 GiB, mostly reads\n"
         "  sessions --hot 100                        every session is as busy as any other");
}

static void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("sessions: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(EXIT_FAILURE);
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

static void print_phase(const char *name, uint64_t operations, const struct usage *from, const struct usage *to)
{
    double seconds = to->at - from->at;
    printf("%-8s %10" PRIu64 " in %6.1f s %11.0f/s %10.1f %13.1f %13.1f\n", name, operations, seconds,
           (double)operations / seconds, mib(to->read_bytes - from->read_bytes),
           mib(to->written_bytes - from->written_bytes), mib(to->disk_written_bytes - from->disk_written_bytes));
    fflush(stdout);
}

static void print_memory(const struct usage *usage)
{
    printf("\ndata       %" PRIu64 " sessions, %.1f MiB\n", settings.count, mib(settings.count * SESSION_BYTES));
    printf("RAM        whole process at most %.1f MiB resident\n", mib(usage->resident_peak_bytes));
    if (usage->budget_bytes)
        printf("           heap %.1f of %.1f MiB budget (%.0f %%)\n", mib(usage->used_bytes), mib(usage->budget_bytes),
               100 * (double)usage->used_bytes / (double)usage->budget_bytes);
}

static void print_updates(const struct outcome *outcome, const struct usage *from, const struct usage *to)
{
    if (outcome->updates > 0)
        printf("updates    %" PRIu64 ", %.1f bytes written for each\n", outcome->updates,
               (double)(to->written_bytes - from->written_bytes) / (double)outcome->updates);
}

/* ---- Main -------------------------------------------------------------- */

static void check_percent(const char *name, double percent)
{
    if (percent > 100)
        die("--%s %g makes no sense; ask for 0 to 100", name, percent);
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
    check_percent("hot", settings.hot);
    check_percent("hot-requests", settings.hot_requests);
    check_percent("updates", settings.updates);
    if (settings.count == 0)
        settings.count = settings.data_bytes / SESSION_BYTES;
    if (settings.threads == 0 || settings.threads > REQUEST_THREADS_MAX)
        die("%" PRIu64 " threads are not possible; ask for 1 to %d", settings.threads, REQUEST_THREADS_MAX);
    if (settings.count < settings.threads || settings.count > UINT32_MAX)
        die("%" PRIu64 " sessions are not possible; ask for one for each thread, up to 2^32 - 1", settings.count);
    if (settings.seconds > 1e6 || settings.warmup > 1e6)
        die("more than 1e6 seconds are not possible");
}

int main(int argc, char **argv)
{
    read_settings(argc, argv);
    struct mix mix = {.count = settings.count, .seed = settings.seed, .hot = settings.hot / 100,
                      .hot_requests = settings.hot_requests / 100, .updates = settings.updates / 100};
    if (!requests_open(&mix, (unsigned)settings.threads, settings.progress))
        die("no memory for the index of %" PRIu64 " sessions", settings.count);

    puts("          operations      time        rate   MiB read   MiB written  by whole disk");
    struct usage start = usage_now();
    if (!requests_load())
        die("no memory for %" PRIu64 " sessions; ask for less --data, or give the heap more", settings.count);
    struct usage loaded = usage_now();
    print_phase("load", settings.count, &start, &loaded);
    struct outcome warm = requests_serve("warm-up", settings.warmup);
    struct usage warmed = usage_now();
    struct outcome served = requests_serve("requests", settings.seconds);
    struct usage end = usage_now();
    print_phase("requests", served.requests, &warmed, &end);
    print_memory(&end);
    print_updates(&served, &warmed, &end);

    uint64_t looked_at = warm.requests + served.requests, wrong = warm.wrong + served.wrong;
    if (settings.check) {
        struct outcome all = requests_check();
        looked_at += all.requests;
        wrong += all.wrong;
    }
    printf("verified   %" PRIu64 " sessions right, %" PRIu64 " wrong\n", looked_at - wrong, wrong);
    return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

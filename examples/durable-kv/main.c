/* main.c - a key-value store in a file that survives kill -9. */
#include "map.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOT_FOUND = 1, FAILED = 2 };

static const char help[] =
    "A key-value store in a file. What it has acknowledged is there after kill -9.\n"
    "\n"
    "Usage: durable-kv FILE COMMAND\n"
    "  set KEY VALUE   keeps a value; replaces an earlier one\n"
    "  get KEY         prints it\n"
    "  del KEY         removes it\n"
    "  list            prints all keys and values, a line each\n"
    "  count N         adds 1 to the value of the key 'count', N times, each time in a\n"
    "                  transaction of its own, and prints what was acknowledged\n"
    "  --help          this\n"
    "\n"
    "Examples:\n"
    "  durable-kv notes.aq set tea Assam\n"
    "  durable-kv notes.aq get tea\n"
    "  durable-kv notes.aq count 1000000000 &\n"
    "  kill -9 $!; durable-kv notes.aq count 3    goes on where it was\n"
    "\n"
    "Exit status: 0 fine, 1 no such key, 2 anything else.";

static void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("durable-kv: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(FAILED);
}

/* What a command works on. */
struct work {
    struct text key, value;
    bool found;
    uint64_t count;
    FILE *listing;
};

static struct text text(const char *string)
{
    return (struct text){string, strlen(string)};
}

/* ---- Bodies of transactions --------------------------------------------- */

/* Each may run more than once before it commits, so it has no effects but those on
 * its work and on the heap. */
typedef int body(aq_tx *tx, struct work *work);

static int create(aq_tx *tx, struct work *work)
{
    (void)work;
    return map_create(tx);
}

static int set(aq_tx *tx, struct work *work)
{
    return map_set(tx, work->key, work->value);
}

static int get(aq_tx *tx, struct work *work)
{
    free((char *)work->value.bytes);
    return map_get(tx, work->key, &work->value);
}

static int delete(aq_tx *tx, struct work *work)
{
    return map_delete(tx, work->key, &work->found);
}

static void list_one(struct text key, struct text value, void *argument)
{
    FILE *listing = argument;
    fwrite(key.bytes, 1, key.length, listing);
    fputc('\t', listing);
    fwrite(value.bytes, 1, value.length, listing);
    fputc('\n', listing);
}

static int list(aq_tx *tx, struct work *work)
{
    rewind(work->listing);
    return map_visit(tx, list_one, work->listing);
}

static bool parse_number(const char *digits, uint64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoull(digits, &end, 10);
    return *digits >= '0' && *digits <= '9' && *end == '\0' && errno == 0;
}

static int count(aq_tx *tx, struct work *work)
{
    struct text old;
    char digits[24];
    int error = map_get(tx, work->key, &old);
    if (error)
        return error;
    if (!parse_number(old.bytes ? old.bytes : "0", &work->count))
        die("the value of '%s' is no number: %s", work->key.bytes, old.bytes);
    free((char *)old.bytes);
    snprintf(digits, sizeof digits, "%" PRIu64, ++work->count);
    return map_set(tx, work->key, text(digits));
}

/* ---- Commands ----------------------------------------------------------- */

/* Runs a body in a transaction, again if it met another one, and commits it. */
static void transact(aq_durable *heap, body *run, struct work *work)
{
    int error;
    do {
        aq_tx *tx;
        error = aq_tx_begin(heap, &tx);
        if (error != AQ_OK)
            break;
        error = run(tx, work);
        if (error == AQ_OK)
            error = aq_tx_commit(tx);
        else
            aq_tx_abort(tx);
    } while (error == AQ_ECONFLICT);
    if (error != AQ_OK)
        die("%s", *aq_error_message() ? aq_error_message() : aq_strerror(error));
}

static int run_set(aq_durable *heap, char **arguments)
{
    struct work work = {.key = text(arguments[0]), .value = text(arguments[1])};
    transact(heap, set, &work);
    return EXIT_SUCCESS;
}

static int run_get(aq_durable *heap, char **arguments)
{
    struct work work = {.key = text(arguments[0])};
    transact(heap, get, &work);
    if (!work.value.bytes)
        return NOT_FOUND;
    fwrite(work.value.bytes, 1, work.value.length, stdout);
    putchar('\n');
    free((char *)work.value.bytes);
    return EXIT_SUCCESS;
}

static int run_delete(aq_durable *heap, char **arguments)
{
    struct work work = {.key = text(arguments[0])};
    transact(heap, delete, &work);
    return work.found ? EXIT_SUCCESS : NOT_FOUND;
}

static int run_list(aq_durable *heap, char **arguments)
{
    (void)arguments;
    char *lines = NULL;
    size_t bytes = 0;
    struct work work = {.listing = open_memstream(&lines, &bytes)};
    if (!work.listing)
        die("no memory for the list");
    transact(heap, list, &work);
    if (fclose(work.listing) != 0)
        die("no memory for the list");
    fwrite(lines, 1, bytes, stdout);
    free(lines);
    return EXIT_SUCCESS;
}

static int run_count(aq_durable *heap, char **arguments)
{
    struct work work = {.key = text("count")};
    uint64_t steps;
    if (!parse_number(arguments[0], &steps))
        die("'%s' is no number of steps", arguments[0]);
    for (uint64_t i = 0; i < steps; i++) {
        transact(heap, count, &work);
        /* It is durable, so it may be told. */
        printf("%" PRIu64 "\n", work.count);
        fflush(stdout);
    }
    return EXIT_SUCCESS;
}

static const struct command {
    const char *name;
    int arguments;
    bool makes_file; /* if it is missing */
    int (*run)(aq_durable *heap, char **arguments);
} commands[] = {
    {"set", 2, true, run_set},     {"get", 1, false, run_get},    {"del", 1, false, run_delete},
    {"list", 0, false, run_list}, {"count", 1, true, run_count},
};

static const struct command *find_command(const char *name, int arguments)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, name) == 0 && commands[i].arguments == arguments)
            return &commands[i];
    }
    die("there is no command '%s' with %d arguments; --help lists what there is", name, arguments);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return puts(help) < 0 ? FAILED : EXIT_SUCCESS;
    if (argc < 3)
        die("which file, and what to do with it? --help lists what there is");
    const struct command *command = find_command(argv[2], argc - 3);
    if (!command->makes_file && access(argv[1], F_OK) != 0)
        die("%s: %s", argv[1], strerror(errno));
    aq_durable_options options;
    aq_durable_options_init(&options);
    options.capacity_bytes = (uint64_t)16 << 30; /* the file takes what it needs, not that */
    aq_durable *heap;
    if (aq_durable_open(argv[1], &options, &heap) != AQ_OK)
        die("%s", aq_error_message());
    transact(heap, create, NULL);
    int status = command->run(heap, argv + 3);
    if (aq_durable_close(heap) != AQ_OK)
        die("%s", aq_error_message());
    if (fflush(stdout) != 0 || ferror(stdout))
        die("cannot write the output: %s", strerror(errno));
    return status;
}

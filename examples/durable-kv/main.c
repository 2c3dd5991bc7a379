/* main.c - a key-value store in a file that survives kill -9. */
#include <aquifer.h>
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOT_FOUND = 1, FAILED = 2, NO_NUMBER = -1 }; /* negative: no error of the library */
static char key_bytes[AQ_KEY_BYTES_MAX], text[AQ_VALUE_BYTES_MAX + 1]; /* the last key, and value */
static const char help[] =
    "A key-value store in a file. What it has acknowledged is there after kill -9.\n\nUsage: durable-kv FILE COMMAND\n"
    "  set KEY VALUE   keeps a value; replaces an earlier one\n"
    "  get KEY         prints it\n"
    "  del KEY         removes it\n"
    "  list            prints all keys and values, a line each\n"
    "  count N         adds 1 to the value of 'count', N times, and prints each when it is durable\n\n"
    "Exit status: 0 fine, 1 no such key, 2 anything else.";

struct work {
    int (*run)(aq_tx *tx, aq_durable_ref map, struct work *work);
    const char *key, *value;
    uint64_t number;
};

static int parse(const char *digits, uint64_t *number)
{
    char *end;
    *number = strtoull(digits, &end, 10);
    return *digits >= '0' && *digits <= '9' && *end == '\0';
}

static int set(aq_tx *tx, aq_durable_ref map, struct work *work)
{
    return aq_map_put(tx, map, work->key, strlen(work->key), work->value, strlen(work->value));
}

static int get(aq_tx *tx, aq_durable_ref map, struct work *work)
{
    aq_bytes value = {text, sizeof text - 1, 0};
    int error = aq_map_get(tx, map, work->key, strlen(work->key), &value);
    text[value.count] = '\0';
    return error;
}

static int del(aq_tx *tx, aq_durable_ref map, struct work *work)
{
    return aq_map_remove(tx, map, work->key, strlen(work->key));
}

static int list(aq_tx *tx, aq_durable_ref map, struct work *work)
{
    aq_bytes key = {key_bytes, sizeof key_bytes, 0}, value = {text, sizeof text, 0};
    int error = aq_map_first(tx, map, &key, &value);
    for (; error == AQ_OK; error = aq_map_next(tx, map, &key, &value), work->number++)
        printf("%.*s\t%.*s\n", (int)key.count, key_bytes, (int)value.count, text);
    return error == AQ_ENOTFOUND ? AQ_OK : error;
}

static int count(aq_tx *tx, aq_durable_ref map, struct work *work)
{
    char digits[24];
    int error = get(tx, map, work);
    if (!error || error == AQ_ENOTFOUND)
        error = parse(error ? "0" : text, &work->number) ? AQ_OK : NO_NUMBER;
    if (error)
        return error;
    snprintf(digits, sizeof digits, "%" PRIu64, ++work->number);
    return aq_map_put(tx, map, work->key, strlen(work->key), digits, strlen(digits));
}

/* A transaction. With threads it might run more than once: then list would have to print afterwards. */
static int transact(aq_tx *tx, void *work)
{
    aq_durable_ref map;
    int error = aq_tx_root_named(tx, "map", "aq_map", &map);
    if (!error && map == AQ_DURABLE_NULL && !(error = aq_map_create(tx, &map)))
        error = aq_tx_set_root_named(tx, "map", "aq_map", map);
    return error ? error : ((struct work *)work)->run(tx, map, work);
}

static const struct command {
    const char *name;
    int given, (*run)(aq_tx *tx, aq_durable_ref map, struct work *work);
} commands[] = {{"set", 2, set}, {"get", 1, get}, {"del", 1, del}, {"list", 0, list}, {"count", 1, count}, {0}};

int main(int argc, char **argv)
{
    const struct command *command = commands;
    uint64_t steps = 1;
    aq_durable *heap;
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return puts(help) < 0 ? FAILED : EXIT_SUCCESS;
    if (argc < 3)
        errx(FAILED, "which file, and what to do with it? --help lists what there is");
    while (command->name && (strcmp(command->name, argv[2]) != 0 || command->given != argc - 3))
        command++;
    struct work work = {.run = command->run, .key = command->run == count ? "count" : argv[3], .value = argv[argc - 1]};
    if (!work.run)
        errx(FAILED, "there is no command '%s' with %d arguments; --help lists what there is", argv[2], argc - 3);
    if (work.run == count && !parse(argv[3], &steps))
        errx(FAILED, "'%s' is no number of steps", argv[3]);
    if (work.run != set && work.run != count && access(argv[1], F_OK) != 0)
        err(FAILED, "%s", argv[1]);
    int error = aq_durable_open(argv[1], NULL, &heap);
    if (error)
        errx(FAILED, "%s", aq_error_message());
    for (; steps > 0 && (error = aq_durable_run(heap, transact, &work)) == AQ_OK; steps--)
        if (work.run == count && printf("%" PRIu64 "\n", work.number) > 0)
            fflush(stdout); /* it is durable, so it may be told */
    if (error == NO_NUMBER)
        errx(FAILED, "the value of 'count' is no number: %s", text);
    if ((error && error != AQ_ENOTFOUND) || aq_durable_close(heap) != AQ_OK)
        errx(FAILED, "%s", aq_error_message());
    if ((work.run == get && !error && puts(text) < 0) || fflush(stdout) != 0)
        err(FAILED, "cannot write the output");
    return error ? NOT_FOUND : EXIT_SUCCESS;
}

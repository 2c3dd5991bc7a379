/* main.c - a key-value store in one mapped file of a volume. */
#include "tree.h"

#include <aquifer.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOT_FOUND = 1, FAILED = 2 };

static const char help[] =
    "A key-value store in one mapped file of a volume, whole after kill -9 at any moment.\n"
    "\n"
    "Usage: kv [OPTION]... VOLUME COMMAND\n"
    "  put KEY VALUE     keeps a value; replaces an earlier one\n"
    "  get KEY           prints it\n"
    "  del KEY           removes it\n"
    "  scan [FROM [N]]   prints keys and values in the order of the keys\n"
    "  load              lines of standard input: KEY, a tab and VALUE to put, KEY alone to delete\n"
    "  fill N            puts N numbers more, at keys in no order\n"
    "  verify            says how many numbers are there; fails if it is not the first ones\n"
    "  --help            this\n"
    "\n"
    "  --ram MIB         RAM of the volume; default 16\n"
    "  --size MIB        of the volume, if it is made; default 256\n"
    "  --sync N          load and fill: makes durable after N lines or numbers, and prints how many are;\n"
    "                    default 1000. The others do so at the end\n"
    "\n"
    "Examples:\n"
    "  kv notes.vol put tea Assam\n"
    "  kv --sync 100 numbers.vol fill 100000000 &\n"
    "  kill -9 $!; kv numbers.vol verify      no fewer than it printed\n"
    "\n"
    "Keys have 1 to 255 bytes, values at most 1000.\n"
    "Exit status: 0 fine, 1 no such key, 2 anything else.";

static void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("kv: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(FAILED);
}

static void check(int error)
{
    if (error != AQ_OK)
        die("%s", aq_error_message());
}

/* ---- The store --------------------------------------------------------- */

struct store {
    aq_volume *volume;
    void *memory;
    struct tree tree;
    uint64_t sync_every, changes, synced;
    bool tells; /* how many changes are durable */
};

/* The file has three quarters of what the volume can hold, so that a store to its memory never lacks room. */
static void open_store(struct store *store, const char *path, uint64_t ram_bytes, uint64_t size_bytes)
{
    aq_volume_options options;
    aq_space space = {.struct_bytes = sizeof space};
    aq_inode inode = {.struct_bytes = sizeof inode};
    aq_file *file;
    if (access(path, F_OK) != 0)
        check(aq_volume_create(path, size_bytes, 0));
    aq_volume_options_init(&options, sizeof options);
    options.ram_bytes = ram_bytes;
    check(aq_volume_open(path, &options, &store->volume));
    check(aq_volume_space(store->volume, &space));
    check(aq_file_open(store->volume, "/kv", AQ_OPEN_READ | AQ_OPEN_WRITE | AQ_OPEN_CREATE, 0600, &file));
    check(aq_file_stat(file, &inode));
    if (inode.size_bytes == 0) {
        inode.size_bytes = space.capacity_bytes / 4 * 3 / PAGE_BYTES * PAGE_BYTES;
        check(aq_file_truncate(file, inode.size_bytes));
    }
    check(aq_file_map(file, 0, inode.size_bytes, AQ_MAP_READ | AQ_MAP_WRITE, &store->memory));
    check(aq_file_close(file));
    if (!tree_open(&store->tree, store->memory, inode.size_bytes))
        die("/kv in %s is no key-value store, or there is no memory", path);
}

static void sync_store(struct store *store)
{
    check(aq_volume_sync(store->volume));
    if (store->tells && store->changes > store->synced)
        printf("%" PRIu64 "\n", store->changes);
    fflush(stdout);
    store->synced = store->changes;
}

static void close_store(struct store *store)
{
    sync_store(store);
    tree_close(&store->tree);
    check(aq_file_unmap(store->memory));
    check(aq_volume_close(store->volume));
}

static struct text text(const char *string)
{
    return (struct text){(const unsigned char *)string, strlen(string)};
}

/* A value of NULL deletes. */
static void change(struct store *store, const char *key, const char *value)
{
    struct text bytes = value ? text(value) : (struct text){NULL, 0};
    if (!*key || strlen(key) > KEY_MAX || bytes.length > VALUE_MAX)
        die("keys have 1 to %d bytes, values at most %d", KEY_MAX, VALUE_MAX);
    if (!tree_put(&store->tree, text(key), bytes))
        die("the store is full; make a larger volume (--size)");
    store->changes++;
    if (store->tells && store->changes - store->synced >= store->sync_every)
        sync_store(store);
}

/* ---- Commands ---------------------------------------------------------- */

static uint64_t parse_number(const char *digits)
{
    char *end;
    errno = 0;
    uint64_t number = strtoull(digits, &end, 10);
    if (*digits < '0' || *digits > '9' || *end != '\0' || errno != 0)
        die("'%s' is no number", digits);
    return number;
}

static int put(struct store *store, char **arguments)
{
    change(store, arguments[0], arguments[1]);
    return EXIT_SUCCESS;
}

static int get(struct store *store, char **arguments)
{
    unsigned char value[VALUE_MAX];
    int length = tree_get(&store->tree, text(arguments[0]), value);
    if (length < 0)
        return NOT_FOUND;
    fwrite(value, 1, (size_t)length, stdout);
    putchar('\n');
    return EXIT_SUCCESS;
}

static int delete(struct store *store, char **arguments)
{
    unsigned char value[VALUE_MAX];
    if (tree_get(&store->tree, text(arguments[0]), value) < 0)
        return NOT_FOUND;
    change(store, arguments[0], NULL);
    return EXIT_SUCCESS;
}

static bool print(struct text key, struct text value, void *context)
{
    uint64_t *left = context;
    char line[KEY_MAX + VALUE_MAX + 2];
    if (*left == 0)
        return false;
    --*left;
    /* A copy: what is mapped may not be in RAM, and write(2) would refuse it. */
    memcpy(line, key.bytes, key.length);
    line[key.length] = '\t';
    memcpy(line + key.length + 1, value.bytes, value.length);
    line[key.length + 1 + value.length] = '\n';
    fwrite(line, 1, key.length + value.length + 2, stdout);
    return true;
}

static int scan(struct store *store, char **arguments)
{
    uint64_t left = arguments[0] && arguments[1] ? parse_number(arguments[1]) : UINT64_MAX;
    tree_scan(&store->tree, text(arguments[0] ? arguments[0] : ""), print, &left);
    return EXIT_SUCCESS;
}

static int load(struct store *store, char **arguments)
{
    (void)arguments;
    char line[KEY_MAX + VALUE_MAX + 3];
    store->tells = true;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        char *tab = strchr(line, '\t');
        if (tab)
            *tab = '\0';
        change(store, line, tab ? tab + 1 : NULL);
    }
    if (ferror(stdin))
        die("cannot read the lines: %s", strerror(errno));
    return EXIT_SUCCESS;
}

/* The key of a number: each number has its own, and they are in no order. */
static void number_key(uint64_t number, char key[17])
{
    number = (number ^ number >> 31) * 0x9E3779B97F4A7C15u;
    number = (number ^ number >> 29) * 0xBF58476D1CE4E5B9u;
    snprintf(key, 17, "%016" PRIx64, number);
}

struct numbers {
    uint64_t count, largest;
    bool are_right;
};

static bool look_at_number(struct text key, struct text value, void *context)
{
    struct numbers *numbers = context;
    char digits[24] = "", expected[17];
    memcpy(digits, value.bytes, value.length < sizeof digits ? value.length : sizeof digits - 1);
    uint64_t number = strtoull(digits, NULL, 10);
    number_key(number, expected);
    numbers->are_right &= key.length == 16 && memcmp(key.bytes, expected, 16) == 0;
    numbers->count++;
    numbers->largest = number > numbers->largest ? number : numbers->largest;
    return true;
}

/* All keys are different, so it is the first numbers if the largest one is not too large. */
static uint64_t count_numbers(const struct store *store)
{
    struct numbers numbers = {0, 0, true};
    tree_scan(&store->tree, text(""), look_at_number, &numbers);
    if (!numbers.are_right || (numbers.count > 0 && numbers.largest != numbers.count - 1))
        die("these are not the first %" PRIu64 " numbers; the largest is %" PRIu64, numbers.count, numbers.largest);
    return numbers.count;
}

static int fill(struct store *store, char **arguments)
{
    uint64_t steps = parse_number(arguments[0]), first = count_numbers(store);
    char key[17], value[24];
    store->tells = true;
    store->changes = store->synced = first;
    for (uint64_t number = first; number < first + steps; number++) {
        number_key(number, key);
        snprintf(value, sizeof value, "%" PRIu64, number);
        change(store, key, value);
    }
    return EXIT_SUCCESS;
}

static int verify(struct store *store, char **arguments)
{
    (void)arguments;
    printf("%" PRIu64 "\n", count_numbers(store));
    return EXIT_SUCCESS;
}

static const struct command {
    const char *name;
    int least, most; /* arguments */
    int (*run)(struct store *store, char **arguments);
} commands[] = {
    {"put", 2, 2, put},   {"get", 1, 1, get},   {"del", 1, 1, delete},    {"scan", 0, 2, scan},
    {"load", 0, 0, load}, {"fill", 1, 1, fill}, {"verify", 0, 0, verify},
};

static const struct command *find_command(const char *name, int arguments)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, name) == 0 && arguments >= commands[i].least && arguments <= commands[i].most)
            return &commands[i];
    }
    die("there is no command '%s' with %d arguments; --help lists what there is", name, arguments);
    return NULL;
}

int main(int argc, char **argv)
{
    struct store store = {.sync_every = 1000};
    uint64_t ram_mib = 16, size_mib = 256;
    int at = 1;
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return puts(help) < 0 ? FAILED : EXIT_SUCCESS;
    for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
        uint64_t *option = strcmp(argv[at], "--ram") == 0    ? &ram_mib
                           : strcmp(argv[at], "--size") == 0 ? &size_mib
                           : strcmp(argv[at], "--sync") == 0 ? &store.sync_every
                                                             : NULL;
        if (!option)
            die("there is no option %s; --help lists what there is", argv[at]);
        *option = parse_number(argv[at + 1]);
    }
    if (argc - at < 2)
        die("which volume, and what to do with it? --help lists what there is");
    const struct command *command = find_command(argv[at + 1], argc - at - 2);
    open_store(&store, argv[at], ram_mib << 20, size_mib << 20);
    int status = command->run(&store, argv + at + 2);
    close_store(&store);
    if (fflush(stdout) != 0 || ferror(stdout))
        die("cannot write the output: %s", strerror(errno));
    return status;
}

/* options.c - see options.h. */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const argument_names[] = {"", "N", "SIZE", "X", "VALUE"};
static const char *const descriptions[] = {"", "a count", "a size (as in 256M or 4G)", "a number", "a value"};

static bool parse_number(const char *text, double *number)
{
    char *end;
    *number = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*number) && *number >= 0;
}

static bool parse_count(const char *text, uint64_t *count)
{
    double number;
    if (!parse_number(text, &number) || number >= 0x1p63 || number != floor(number))
        return false;
    *count = (uint64_t)number;
    return true;
}

static bool parse_size(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (end == text || *text == '-' || errno)
        return false;
    unsigned shift = 0;
    for (unsigned i = 0; *end && units[i]; i++) {
        if (strncasecmp(end, &units[i], 1) == 0) {
            shift = (i + 1) * 10;
            end++;
            break;
        }
    }
    if (strcasecmp(end, "") && strcasecmp(end, "B") && strcasecmp(end, "iB"))
        return false;
    *bytes = (uint64_t)number << shift;
    return *bytes >> shift == number;
}

static bool store(const struct option_row *row, const char *text)
{
    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)row->target = true;
        return true;
    case OPTION_COUNT:
        return parse_count(text, row->target);
    case OPTION_SIZE:
        return parse_size(text, row->target);
    case OPTION_NUMBER:
        return parse_number(text, row->target);
    case OPTION_SETTING:
        return *text != '\0' && setenv(row->target, text, 1) == 0;
    }
    return false;
}

static const struct option_row *find(const struct option_row *rows, size_t count, const char *name, size_t length)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(rows[i].name) == length && memcmp(rows[i].name, name, length) == 0)
            return &rows[i];
    }
    return NULL;
}

bool options_parse(const struct option_row *rows, size_t count, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        const char *name = strncmp(argument, "--", 2) == 0 ? argument + 2 : "";
        size_t length = strcspn(name, "=");
        const struct option_row *row = find(rows, count, name, length);
        if (!row || (row->kind == OPTION_FLAG && name[length])) {
            fprintf(stderr, "%s: unknown option '%s'; --help lists what there is\n", argv[0], argument);
            return false;
        }
        const char *text = name[length] ? name + length + 1 : NULL;
        if (!text && row->kind != OPTION_FLAG)
            text = i + 1 < argc ? argv[++i] : "";
        if (!store(row, text)) {
            fprintf(stderr, "%s: --%s: '%s' is not %s\n", argv[0], row->name, text, descriptions[row->kind]);
            return false;
        }
    }
    return true;
}

void options_print(const struct option_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char left[32];
        snprintf(left, sizeof left, "--%s %s", rows[i].name, argument_names[rows[i].kind]);
        printf("  %-19s %s\n", left, rows[i].help);
    }
}

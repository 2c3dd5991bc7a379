/* options.h - command line options from a table. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind {
    OPTION_FLAG,   /* target: bool */
    OPTION_COUNT,  /* target: uint64_t; 1000000 or 1e6 */
    OPTION_SIZE,   /* target: uint64_t; bytes, or 256M, 4G */
    OPTION_NUMBER, /* target: double */
    OPTION_SETTING /* target: name of an environment variable, which is set */
};

struct option_row {
    const char *name; /* without the dashes */
    enum option_kind kind;
    void *target;
    const char *help;
};

/* Stores what the arguments say. Accepts "--name value" and "--name=value".
 * False after a message on stderr if one is unknown or makes no sense. */
bool options_parse(const struct option_row *rows, size_t count, int argc, char **argv);

/* Prints one line for each row. */
void options_print(const struct option_row *rows, size_t count);

#endif

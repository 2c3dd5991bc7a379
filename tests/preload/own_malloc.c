/* A malloc of the program's own, which gives managed memory to the C library, too: for the entries of directories, and what streams hold back. */
#include "check.h"
#include "eager.c"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

enum { FILES = 1500, HEAD = 48 };

static char *volatile block;

/* The first memory of a malloc is from before there is anything to manage it. */
static void use_up_first_chunk(void)
{
    for (size_t done = 0; done < 2 * CHUNK; done += PAGE)
        block = malloc(PAGE);
}

/* What the C library allocates next has its first bytes at the end of a page, and its entries behind them. */
static DIR *opened_across_pages(const char *name)
{
    enum { BLOCK = 48 };
    block = malloc(16);
    uintptr_t next = (uintptr_t)block + BLOCK, wanted = ((next + 2 * PAGE) & ~(PAGE - 1)) - HEAD;
    block = malloc(wanted - next - 32);
    DIR *directory = opendir(name);
    CHECK(directory != NULL);
    CHECK_IS(wanted, (uintptr_t)directory);
    return directory;
}

static void entries_are_read(void)
{
    char path[4096];
    int seen = 0;
    CHECK_IS(0, mkdir(file_name("folder"), 0700));
    snprintf(path, sizeof path, "%s", file_name("folder"));
    int folder = open(path, O_RDONLY | O_DIRECTORY);
    for (int n = 0; n < FILES; n++) {
        char name[64];
        snprintf(name, sizeof name, "a file with a name that takes some room %d", n);
        close(openat(folder, name, O_CREAT | O_WRONLY, 0600));
    }
    DIR *directory = opened_across_pages(path);
    errno = 0;
    for (;;) {
        if (seen % 100 == 0)
            PUSH_OUT((char *)directory + HEAD, PAGE);
        struct dirent *entry = readdir(directory);
        if (entry == NULL)
            break;
        if (entry->d_name[0] == '.')
            continue;
        seen++;
        /* As programs do that delete all that is in a directory. */
        CHECK_IS(0, unlinkat(folder, entry->d_name, 0));
    }
    CHECK_IS(0, errno);
    CHECK_IS(FILES, seen);
    closedir(directory);
    close(folder);
    CHECK_IS(0, rmdir(path));
}

/* ---- Streams ------------------------------------------------------------------ */

enum { LINES = 3000 };

static void output_is_written(void)
{
    char line[64];
    FILE *to = fopen(file_name("out"), "w");
    CHECK(to != NULL);
    for (int n = 0; n < LINES; n++) {
        CHECK(fprintf(to, "line %d\n", n) > 0);
        if (n % 1000 == 500)
            push_out();
    }
    push_out();
    CHECK_IS(0, fclose(to));
    FILE *from = fopen(file_name("out"), "r");
    CHECK(from != NULL);
    for (int n = 0; n < LINES; n++) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "line %d\n", n);
        CHECK(fgets(line, sizeof line, from) != NULL);
        CHECK(strcmp(line, wanted) == 0);
        if (n % 1000 == 700)
            push_out();
    }
    CHECK(fgets(line, sizeof line, from) == NULL);
    CHECK_IS(0, fclose(from));
}

static void push_out_some(int round)
{
    if (round % 500 == 0)
        push_out();
}

static void opened_again(void)
{
    char line[64] = "";
    FILE *stream = fopen(file_name("first"), "w");
    CHECK(stream != NULL);
    for (int n = 0; n < 2000; n++) {
        fprintf(stream, "first\n");
        push_out_some(n);
        stream = freopen(file_name("second"), "w", stream);
        CHECK(stream != NULL);
        fprintf(stream, "second %d\n", n);
        push_out_some(n);
    }
    CHECK_IS(0, fclose(stream));
    FILE *command = popen("cat >/dev/null", "w");
    CHECK(command != NULL && pclose(command) == 0);
    command = popen("seq 1 3000", "r");
    int lines = 0;
    while (fgets(line, sizeof line, command) != NULL) {
        if (lines++ % 700 == 0)
            push_out();
    }
    CHECK_IS(3000, lines);
    CHECK_IS(0, pclose(command));
    stream = fopen(file_name("second"), "r");
    CHECK(stream != NULL && fgets(line, sizeof line, stream) != NULL);
    CHECK(strcmp(line, "second 1999\n") == 0);
    fclose(stream);
}

static void many_streams(void)
{
    enum { MANY = 300 };
    FILE *streams[MANY];
    for (int n = 0; n < MANY; n++) {
        char name[32], line[16];
        snprintf(name, sizeof name, "many%d", n);
        streams[n] = fopen(file_name(name), "w+");
        CHECK(streams[n] != NULL && fprintf(streams[n], "%d", n) > 0);
        if (n % 3 == 0) {
            CHECK_IS(0, fclose(streams[n]));
            streams[n] = fopen(file_name(name), "r");
            CHECK(streams[n] != NULL && fgets(line, sizeof line, streams[n]) != NULL && atoi(line) == n);
        }
    }
    push_out();
    for (int n = 0; n < MANY; n++) {
        char line[16];
        rewind(streams[n]);
        CHECK(fgets(line, sizeof line, streams[n]) != NULL && atoi(line) == n);
        CHECK_IS(0, fclose(streams[n]));
    }
}

int main(void)
{
    begin();
    use_up_first_chunk();
    RUN(entries_are_read);
    RUN(output_is_written);
    RUN(opened_again);
    RUN(many_streams);
    /* Written when the program ends. */
    puts("the last line");
    for (int n = 0; n < 3; n++)
        push_out();
    return tests_failed();
}

/* streams.c - what the C library reads and writes for a stream. */
#include "check.h"

#include <wchar.h>

static const char *name(void)
{
    return file_name("stream");
}

static void check_file(const char *expected, size_t bytes)
{
    FILE *file = fopen(name(), "r");
    char *in = filled(bytes + 1, 99);
    CHECK(file);
    CHECK_IS(bytes, fread(in, 1, bytes + 1, file));
    CHECK(feof(file) && memcmp(in, expected, bytes) == 0);
    fclose(file);
    free(in);
}

static void through_stream(size_t bytes, int mode)
{
    char *out = filled(bytes, 1);
    FILE *file = fopen(name(), "w");
    CHECK(file && setvbuf(file, NULL, mode, 0) == 0);
    PUSH_OUT(out, bytes);
    CHECK_IS(1, fwrite(out, 1, 1, file));
    CHECK_IS((bytes - 1) / 3, fwrite(out + 1, 3, (bytes - 1) / 3, file));
    size_t rest = (bytes - 1) % 3;
    CHECK_IS(rest, fwrite(out + bytes - rest, 1, rest, file));
    CHECK(fclose(file) == 0);
    push_out();
    check_file(out, bytes);
    file = fopen(name(), "r");
    char *in = filled(bytes, 2);
    CHECK(file && setvbuf(file, NULL, mode, 0) == 0);
    PUSH_OUT(in, bytes);
    CHECK_IS(1, fread(in, 1, 1, file));
    CHECK_IS(1, fread(in + 1, bytes - 1, 1, file));
    CHECK(memcmp(in, out, bytes) == 0);
    CHECK_IS(0, fread(in, 1, 10, file));
    fclose(file);
    free(in);
    free(out);
}

static void short_ones(void)
{
    through_stream(10001, _IOFBF);
    through_stream(10001, _IONBF);
}

static void long_ones(void)
{
    through_stream(3 * MIB + 5, _IOFBF);
    through_stream(3 * MIB + 5, _IONBF);
    through_stream(20 * MIB, _IOFBF);
}

/* A string that is longer than all pages that may be pinned. */
static void long_strings(void)
{
    size_t bytes = 20 * MIB;
    char *text = filled(bytes, 1);
    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)('a' + (unsigned char)text[i] % 26);
    text[bytes - 1] = '\0';
    for (int mode = 0; mode < 4; mode++) {
        FILE *file = fopen(name(), "w");
        CHECK(file && (mode % 2 == 0 || setvbuf(file, NULL, _IONBF, 0) == 0));
        push_out();
        if (mode < 2)
            CHECK(fputs(text, file) >= 0);
        else
            CHECK_IS(bytes - 1, fprintf(file, "%s", text));
        CHECK(fclose(file) == 0);
        check_file(text, bytes - 1);
    }
    free(text);
}

/* As programs do it: with the stream's buffer in memory of their own. */
static void own_buffers(void)
{
    for (int how = 0; how < 4; how++) {
        char *buffer = filled(64 * KIB, 3), *line = filled(10000, 4);
        FILE *file = fopen(name(), "w+");
        CHECK(file);
        if (how == 0)
            CHECK(setvbuf(file, buffer, _IOFBF, 64 * KIB) == 0);
        else if (how == 1)
            CHECK(setvbuf(file, buffer, _IOLBF, 64 * KIB) == 0);
        else if (how == 2)
            setbuf(file, buffer);
        else
            setbuffer(file, buffer, 64 * KIB);
        for (int i = 0; i < 3000; i++)
            fprintf(file, "line %d of a file\n", i);
        push_out();
        CHECK(fflush(file) == 0);
        rewind(file);
        push_out();
        for (int i = 0; i < 3000; i++) {
            char expected[64];
            snprintf(expected, sizeof expected, "line %d of a file\n", i);
            if (i % 1000 == 500)
                PUSH_OUT(line, 10000);
            CHECK(fgets(line, 10000, file) && strcmp(line, expected) == 0);
        }
        CHECK(fclose(file) == 0);
        free(buffer);
        free(line);
    }
}

/* Streams of other kinds: to and from a program, opened for mapping, of wide characters; each with a buffer of the program's. */
static void other_kinds(void)
{
    size_t bytes = 3 * MIB + 7;
    char command[600], *buffer = filled(64 * KIB, 3), *out = filled(bytes, 4), *in = filled(bytes, 5);
    snprintf(command, sizeof command, "cat > %s", name());
    FILE *file = popen(command, "w");
    CHECK(file && setvbuf(file, buffer, _IOFBF, 64 * KIB) == 0);
    for (size_t at = 0; at < bytes; at += 999999) {
        size_t part = bytes - at < 999999 ? bytes - at : 999999;
        push_out();
        CHECK_IS(part, fwrite(out + at, 1, part, file));
    }
    push_out();
    CHECK(pclose(file) == 0);
    check_file(out, bytes);
    snprintf(command, sizeof command, "cat %s", name());
    for (int how = 0; how < 2; how++) {
        file = how == 0 ? popen(command, "r") : fopen(name(), "rm");
        CHECK(file && setvbuf(file, buffer, _IOFBF, 64 * KIB) == 0);
        PUSH_OUT(in, bytes);
        for (size_t at = 0; at < 1000; at++) {
            int byte = getc(file);
            CHECK(byte != EOF);
            in[at] = (char)byte;
        }
        push_out();
        CHECK_IS(bytes - 1000, fread(in + 1000, 1, bytes - 1000, file));
        CHECK(memcmp(in, out, bytes) == 0);
        CHECK((how == 0 ? pclose(file) : fclose(file)) == 0);
    }
    file = fopen(name(), "w+");
    CHECK(file && setvbuf(file, buffer, _IOFBF, 64 * KIB) == 0);
    for (int i = 0; i < 20000; i++)
        CHECK(fwprintf(file, L"%d\n", i) > 0);
    push_out();
    rewind(file);
    for (int i = 0; i < 20000; i++) {
        int read = -1;
        if (i % 5000 == 0)
            push_out();
        CHECK(fwscanf(file, L"%d", &read) == 1 && read == i);
    }
    CHECK(fclose(file) == 0);
    free(buffer);
    free(out);
    free(in);
}

/* getline makes the program's block longer and gives it back. */
static void lines(void)
{
    enum { LONGEST = 300000 };
    FILE *file = fopen(name(), "w");
    CHECK(file);
    for (int length = 1; length < LONGEST; length *= 7) {
        for (int i = 0; i < length; i++)
            putc('x', file);
        putc('\n', file);
    }
    CHECK(fclose(file) == 0);
    file = fopen(name(), "r");
    char *line = NULL;
    size_t room = 0;
    for (int length = 1; length < LONGEST; length *= 7) {
        push_out();
        CHECK_IS(length + 1, getline(&line, &room, file));
        CHECK(line[length - 1] == 'x' && line[length] == '\n' && line[length + 1] == '\0');
        line = realloc(line, room * 2); /* the program's own again */
        CHECK(line);
        room *= 2;
    }
    CHECK_IS(-1, getline(&line, &room, file));
    fclose(file);
    free(line);
}

/* A stream whose pieces the program counts itself. */
static void counts_of_elements(void)
{
    char *memory = filled(3 * MIB, 5);
    FILE *file = fopen(name(), "w");
    CHECK(file);
    PUSH_OUT(memory, 3 * MIB);
    CHECK_IS(3 * MIB / 1000, fwrite(memory, 1000, 3 * MIB / 1000, file));
    CHECK_IS(0, fwrite(memory, 0, 10, file));
    CHECK_IS(0, fwrite(memory, 10, 0, file));
    CHECK(fclose(file) == 0);
    file = fopen(name(), "r");
    PUSH_OUT(memory, 3 * MIB);
    CHECK_IS(3 * MIB / 1000 / 7, fread(memory, 7000, 3 * MIB, file)); /* until the end */
    CHECK(is_filled(memory, 3 * MIB / 1000 * 1000, 5));
    fclose(file);
    free(memory);
}

static void formatted(void)
{
    FILE *file = fopen(name(), "w");
    char *text = filled(100000, 6), *copy = filled(200000, 7);
    memset(text, 'y', 99999);
    text[99999] = '\0';
    CHECK(file);
    PUSH_OUT(text, 100000);
    CHECK_IS(100001, fprintf(file, "%s\n\n", text));
    PUSH_OUT(copy, 200000);
    CHECK_IS(100004, snprintf(copy, 200000, "<%s>%d", text, 123));
    CHECK(fclose(file) == 0);
    memcpy(copy, text, 99999);
    memcpy(copy + 99999, "\n\n", 2);
    check_file(copy, 100001);
    free(text);
    free(copy);
}

static void memory_streams(void)
{
    char *memory = filled(MIB, 8), *text = NULL;
    size_t bytes = 0;
    FILE *file = fmemopen(memory, MIB, "w");
    CHECK(file);
    PUSH_OUT(memory, MIB);
    CHECK_IS(MIB / 2, fwrite(ballast, 1, MIB / 2, file));
    CHECK(fclose(file) == 0 && memcmp(memory, ballast, MIB / 2) == 0);
    file = open_memstream(&text, &bytes);
    CHECK(file);
    CHECK_IS(20 * MIB, fwrite(ballast, 1, 20 * MIB, file));
    CHECK(fclose(file) == 0 && bytes == 20 * MIB && memcmp(text, ballast, bytes) == 0);
    free(text);
    free(memory);
}

int main(void)
{
    begin();
    RUN(short_ones);
    RUN(long_ones);
    RUN(long_strings);
    RUN(own_buffers);
    RUN(other_kinds);
    RUN(lines);
    RUN(counts_of_elements);
    RUN(formatted);
    RUN(memory_streams);
    return tests_failed();
}

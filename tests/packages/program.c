/* A program that links with the library of the package. */
#include <aquifer.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    enum { OBJECTS = 200000 };
    static char *names[OBJECTS];
    char expected[32];
    for (int i = 0; i < OBJECTS; i++) {
        names[i] = aq_malloc(200);
        if (!names[i]) {
            puts(aq_error_message());
            return 1;
        }
        snprintf(names[i], 200, "object %d", i);
    }
    for (int i = 0; i < OBJECTS; i++) {
        snprintf(expected, sizeof expected, "object %d", i);
        if (strcmp(names[i], expected) != 0) {
            printf("%s is not %s\n", names[i], expected);
            return 1;
        }
    }
    return aq_shutdown() != AQ_OK;
}

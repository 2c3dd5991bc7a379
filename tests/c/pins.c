/* pins.c - pages that must stay. */
#include "check.h"

static int static_variable;

static void pins_nest(void)
{
    char *object = aq_malloc(20000);
    CHECK(object);
    fill(object, 20000, 5);
    CHECK_CODE(AQ_OK, aq_pin(object, 20000));
    CHECK_CODE(AQ_OK, aq_pin(object + 5000, 10));
    CHECK_CODE(AQ_EPINNED, aq_free(object));
    CHECK_CODE(AQ_OK, aq_unpin(object + 5000, 10));
    CHECK_CODE(AQ_EPINNED, aq_free(object));
    CHECK(push_out());
    CHECK(is_filled(object, 20000, 5));
    CHECK_CODE(AQ_OK, aq_unpin(object, 20000));
    CHECK_REFUSED(aq_unpin(object, 20000));
    CHECK_CODE(AQ_OK, aq_free(object));
}

static void bad_pins_are_refused(void)
{
    char *object = aq_malloc(100);
    CHECK(object);
    CHECK_REFUSED(aq_pin(NULL, 10));
    CHECK_REFUSED(aq_pin(&static_variable, sizeof static_variable));
    CHECK_REFUSED(aq_pin(object, SIZE_MAX));
    CHECK_REFUSED(aq_unpin(NULL, 10));
    CHECK_REFUSED(aq_unpin(object, 100));
    CHECK_REFUSED(aq_unpin(object, SIZE_MAX));
    CHECK_CODE(AQ_OK, aq_free(object));
    CHECK_CODE(AQ_OK, aq_check());
}

static void too_many_pins_are_refused(void)
{
    enum { OBJECTS = 64 };
    char *objects[OBJECTS];
    int pinned = 0, code = AQ_OK;
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = aq_malloc(MIB);
        CHECK(objects[i]);
    }
    while (pinned < OBJECTS && (code = aq_pin(objects[pinned], MIB)) == AQ_OK)
        pinned++;
    CHECK_CODE(AQ_EPINNED, code);
    CHECK(pinned < 16);
    /* What is not pinned still works. */
    fill(objects[OBJECTS - 1], MIB, 8);
    CHECK(is_filled(objects[OBJECTS - 1], MIB, 8));
    for (int i = 0; i < pinned; i++)
        CHECK_CODE(AQ_OK, aq_unpin(objects[i], MIB));
    CHECK_CODE(AQ_OK, aq_pin(objects[0], 4096));
    CHECK_CODE(AQ_OK, aq_unpin(objects[0], 4096));
    for (int i = 0; i < OBJECTS; i++)
        CHECK_CODE(AQ_OK, aq_free(objects[i]));
}

int main(void)
{
    open_default_heap("pins.c");
    RUN(pins_nest);
    RUN(bad_pins_are_refused);
    RUN(too_many_pins_are_refused);
    return tests_failed();
}

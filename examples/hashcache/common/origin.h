/* origin.h - the web behind the cache: URLs and what their servers respond. */
#ifndef ORIGIN_H
#define ORIGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    URL_BYTES_MAX = 80, /* with its zero byte */
    RESPONSE_BYTES_MIN = 100,
    RESPONSE_BYTES_MAX = 8192,
    RESPONSE_BYTES_MEAN = 1836
};

/* Writes the URL of that number; different numbers give different URLs. */
void origin_url(uint64_t number, char *url);

/* Writes header and body of the response to the URL of that number and returns
 * their length. Small ones are more frequent than large ones: each doubling of
 * the length takes an equal share. */
size_t origin_response(uint64_t number, unsigned char *response);

/* Whether these bytes are what origin_response writes. */
bool origin_response_is(uint64_t number, const unsigned char *response, size_t bytes);

#endif

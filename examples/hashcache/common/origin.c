/* origin.c - see origin.h. */
#include "origin.h"

#include "workload.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HEADER_BYTES_MAX = RESPONSE_BYTES_MIN };

static size_t response_bytes(uint64_t number)
{
    double unit = (double)(mix64(number) >> 11) * 0x1p-53;
    double range = (double)(RESPONSE_BYTES_MAX + 1) / RESPONSE_BYTES_MIN;
    return (size_t)(RESPONSE_BYTES_MIN * pow(range, unit));
}

/* The header for a response of that many bytes in all; returns its length. */
static size_t write_header(size_t bytes, char *header)
{
    int length = snprintf(header, HEADER_BYTES_MAX, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Length: %zu\r\n\r\n",
                          bytes);
    return (size_t)length;
}

void origin_url(uint64_t number, char *url)
{
    uint64_t site = mix64(number / 100) & 0xFFFFFF;
    snprintf(url, URL_BYTES_MAX, "http://www.site-%06" PRIx64 ".example/pages/%" PRIu64 ".html", site, number);
}

size_t origin_response(uint64_t number, unsigned char *response)
{
    size_t bytes = response_bytes(number);
    char header[HEADER_BYTES_MAX];
    size_t header_bytes = write_header(bytes, header);
    memcpy(response, header, header_bytes);
    record_value(number, response + header_bytes, bytes - header_bytes);
    return bytes;
}

bool origin_response_is(uint64_t number, const unsigned char *response, size_t bytes)
{
    char header[HEADER_BYTES_MAX];
    if (bytes != response_bytes(number))
        return false;
    size_t header_bytes = write_header(bytes, header);
    return memcmp(response, header, header_bytes) == 0 &&
           record_value_is(number, response + header_bytes, bytes - header_bytes);
}

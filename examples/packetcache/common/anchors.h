/* anchors.h - places in a payload that are chosen by what stands there.
 *
 * A rolling fingerprint is taken of every 32 bytes in a row, and about one in
 * 256 of them is an anchor. The choice depends on those 32 bytes alone: bytes
 * that were sent before bring their anchors along, wherever in a packet they
 * stand this time (Spring and Wetherall, 2000).
 */
#ifndef ANCHORS_H
#define ANCHORS_H

#include <stddef.h>
#include <stdint.h>

enum {
    PAYLOAD_BYTES_MAX = 1500,
    ANCHOR_BYTES = 32,   /* that a fingerprint covers */
    ANCHOR_PERIOD = 256, /* bytes from anchor to anchor, on average */
    ANCHORS_MAX = PAYLOAD_BYTES_MAX / ANCHOR_BYTES
};

struct anchor {
    uint64_t fingerprint; /* of the 32 bytes from at on */
    uint32_t at;
};

/* Stores the anchors of a payload of at most PAYLOAD_BYTES_MAX bytes, in
 * ascending order and without overlap, and returns how many there are: at
 * most ANCHORS_MAX. */
size_t anchors_find(const unsigned char *payload, size_t bytes, struct anchor *anchors);

#endif

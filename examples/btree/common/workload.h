/* workload.h - records whose content follows from their number, and the order
 * in which queries ask for them. */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A well-mixed 64-bit hash; different inputs give different outputs. */
uint64_t mix64(uint64_t x);

/* The key of record number 0, 1, 2, ...: ascending, with gaps. No record has a
 * key that is 1 more than that of another. */
uint64_t record_key(uint64_t record);

/* Fills value with the bytes that belong to key. */
void record_value(uint64_t key, unsigned char *value, size_t bytes);

/* Whether value holds the bytes that belong to key. */
bool record_value_is(uint64_t key, const unsigned char *value, size_t bytes);

/* The number of the i-th record of a shuffled load: each of 0 to records - 1
 * comes once. records is at most 2^32. */
uint64_t scattered(uint64_t i, uint64_t records);

/* Draws record numbers. */
struct sampler {
    uint64_t state;
    uint64_t records;
    double exponent; /* of Zipf's law; 0 is uniform */
    double h_first, h_last, shortcut;
};

/* Zipf: the record of rank k is drawn with a probability that goes as
 * 1 / k^exponent; ranks are scattered over the keys. exponent 0 to 10. */
void sampler_init(struct sampler *sampler, uint64_t records, double exponent, uint64_t seed);
uint64_t sampler_next(struct sampler *sampler);

#endif

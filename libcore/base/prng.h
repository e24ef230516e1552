/* xoshiro256**: a seeded generator for simulation, jitter and tests; never for secrets. */
#ifndef BASE_PRNG_H
#define BASE_PRNG_H

#include <stddef.h>
#include <stdint.h>

struct prng {
    uint64_t s[4];
};

/* Equal seeds give equal sequences, on every machine and in every version. */
void prng_init(struct prng *p, uint64_t seed);

uint64_t prng_next(struct prng *p);

/* Uniform in [0, n), without bias; n > 0. */
uint64_t prng_below(struct prng *p, uint64_t n);

/* Uniform in [low, high]. */
int64_t prng_between(struct prng *p, int64_t low, int64_t high);

/* Fills `len` bytes; `arg` is a struct prng, so this fits a struct rand_source. */
void prng_fill(void *arg, void *data, size_t len);

#endif

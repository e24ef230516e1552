/* xoshiro256** 1.0 (Blackman, Vigna; public domain), seeded through splitmix64 so that any seed is
 * a good one. */
#include "base/prng.h"

#include <string.h>

#include "base/assert.h"

static uint64_t splitmix64(uint64_t *x)
{
    uint64_t z = *x += 0x9e3779b97f4a7c15U;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return z ^ z >> 31;
}

void prng_init(struct prng *p, uint64_t seed)
{
    for (size_t i = 0; i < sizeof p->s / sizeof *p->s; i++) {
        p->s[i] = splitmix64(&seed);
    }
}

static uint64_t rotl(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

uint64_t prng_next(struct prng *p)
{
    uint64_t result = rotl(p->s[1] * 5, 7) * 9;
    uint64_t t = p->s[1] << 17;
    p->s[2] ^= p->s[0];
    p->s[3] ^= p->s[1];
    p->s[1] ^= p->s[2];
    p->s[0] ^= p->s[3];
    p->s[2] ^= t;
    p->s[3] = rotl(p->s[3], 45);
    return result;
}

/* Values of the last, incomplete round of n are drawn again. */
uint64_t prng_below(struct prng *p, uint64_t n)
{
    ASSERT(n > 0);
    uint64_t reject_below = (0 - n) % n; /* 2^64 mod n */
    uint64_t x = prng_next(p);
    while (x < reject_below) {
        x = prng_next(p);
    }
    return x % n;
}

int64_t prng_between(struct prng *p, int64_t low, int64_t high)
{
    ASSERT(low <= high);
    uint64_t span = (uint64_t)high - (uint64_t)low;
    if (span == UINT64_MAX) return (int64_t)prng_next(p);
    return (int64_t)((uint64_t)low + prng_below(p, span + 1));
}

void prng_fill(void *arg, void *data, size_t len)
{
    uint8_t *out = data;
    while (len > 0) {
        uint64_t x = prng_next(arg);
        size_t n = len < sizeof x ? len : sizeof x;
        memcpy(out, &x, n);
        out += n;
        len -= n;
    }
}

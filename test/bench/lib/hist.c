/* Values below 64 have a bucket each; above, the leading 7 bits of a value choose its bucket. */
#include "lib/hist.h"

static unsigned bucket_of(uint64_t ns)
{
    if (ns < 1U << HIST_SUB_BITS) return (unsigned)ns;
    unsigned shift = 63U - (unsigned)__builtin_clzll(ns) - HIST_SUB_BITS;
    return (shift << HIST_SUB_BITS) + (unsigned)(ns >> shift);
}

/* The largest value of a bucket. */
static uint64_t bucket_end(unsigned i)
{
    if (i < 2U << HIST_SUB_BITS) return i;
    unsigned shift = (i >> HIST_SUB_BITS) - 1;
    uint64_t lead = (i & ((1U << HIST_SUB_BITS) - 1)) + (1U << HIST_SUB_BITS);
    return ((lead + 1) << shift) - 1;
}

void hist_add(struct hist *h, uint64_t ns)
{
    h->count++;
    h->sum_ns += ns;
    if (ns > h->max_ns) h->max_ns = ns;
    h->buckets[bucket_of(ns)]++;
}

void hist_merge(struct hist *into, const struct hist *from)
{
    into->count += from->count;
    into->sum_ns += from->sum_ns;
    if (from->max_ns > into->max_ns) into->max_ns = from->max_ns;
    for (unsigned i = 0; i < HIST_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
}

uint64_t hist_quantile(const struct hist *h, double q)
{
    uint64_t wanted = (uint64_t)(q * (double)h->count + 0.5);
    uint64_t seen = 0;
    if (wanted == 0) wanted = 1;
    for (unsigned i = 0; i < HIST_BUCKETS; i++) {
        seen += h->buckets[i];
        if (seen >= wanted) return bucket_end(i) < h->max_ns ? bucket_end(i) : h->max_ns;
    }
    return h->max_ns;
}

uint64_t hist_mean(const struct hist *h)
{
    return h->count == 0 ? 0 : h->sum_ns / h->count;
}

/* A histogram of times in the manner of HdrHistogram: buckets whose width grows with the value, 1.6 % at most. */
#ifndef BENCH_HIST_H
#define BENCH_HIST_H

#include <stdint.h>

enum {
    HIST_SUB_BITS = 6, /* 64 buckets for each power of two */
    HIST_BUCKETS = (64 - HIST_SUB_BITS + 1) << HIST_SUB_BITS
};

/* All zero when empty. */
struct hist {
    uint64_t count;
    uint64_t sum_ns;
    uint64_t max_ns;
    uint64_t buckets[HIST_BUCKETS];
};

void hist_add(struct hist *h, uint64_t ns);
void hist_merge(struct hist *into, const struct hist *from);

/* The value that a share `q` (0 to 1) of all values does not exceed; 0 when empty. */
uint64_t hist_quantile(const struct hist *h, double q);
uint64_t hist_mean(const struct hist *h);

#endif

#include "server/count.h"

void histogram_add(struct histogram *h, uint64_t ns)
{
    unsigned i = 0;
    while (i < HISTOGRAM_BUCKETS && ns > (uint64_t)HISTOGRAM_FIRST_NS << i)
        i++;
    atomic_fetch_add_explicit(&h->bucket[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum_ns, ns, memory_order_relaxed);
}

/* Sorting a million keys while loading: multikey quicksort with cached chunks of the key.
 *
 * A chunk is seven bytes of the key at some depth and, below them, how many were there (8: the key goes on), so
 * that comparing two chunks as numbers orders them as their keys. Items are touched only to load the chunks of
 * the next depth, for those that were equal. Pivots come from a seeded generator, so no order of the
 * input is a bad one. Rejected: a merge sort that compares whole keys (two cache misses for each of twenty passes). */
#include "mvcc/mvcc_int.h"

enum { CHUNK_BYTES = 7, CHUNK_GOES_ON = 8, SMALL = 12, STACK_MAX = 160, AHEAD = 16 };

struct part {
    size_t lo, hi;
    size_t depth; /* of the chunks in place, in bytes */
};

static uint64_t chunk_of(const struct mvcc_item *it, size_t depth)
{
    size_t left = it->key_len - depth;
    uint8_t b[8] = {0};
    memcpy(b, it->key + depth, left < CHUNK_BYTES ? left : CHUNK_BYTES);
    b[7] = left > CHUNK_BYTES ? CHUNK_GOES_ON : (uint8_t)left;
    return endian_load_be64(b);
}

/* Items lie anywhere: the ones ahead are asked for early, or each would be waited for. */
static void chunks_load(struct mvcc_sort_ref *refs, size_t lo, size_t hi, size_t depth)
{
    for (size_t i = lo; i < hi; i++) {
        if (i + AHEAD < hi) __builtin_prefetch(refs[i + AHEAD].item->key + depth);
        if (i + AHEAD < hi) __builtin_prefetch(refs[i + AHEAD].item);
        refs[i].chunk = chunk_of(refs[i].item, depth);
    }
}

static bool ref_less(const struct mvcc_sort_ref *a, const struct mvcc_sort_ref *b)
{
    if (a->chunk != b->chunk) return a->chunk < b->chunk;
    return bytes_cmp(mvcc__item_key(a->item), mvcc__item_key(b->item)) < 0;
}

static void sort_small(struct mvcc_sort_ref *refs, size_t lo, size_t hi)
{
    for (size_t i = lo + 1; i < hi; i++) {
        struct mvcc_sort_ref x = refs[i];
        size_t k = i;
        for (; k > lo && ref_less(&x, &refs[k - 1]); k--) {
            refs[k] = refs[k - 1];
        }
        refs[k] = x;
    }
}

static uint64_t rand_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Moves chunks below `limit` to the front, and returns where the others begin. Without a branch that depends on the data, for
 * on random keys every second one would be guessed wrong; and word by word, for a whole ref read back right after its
 * words were written has to wait until they are in the cache. */
static size_t split(struct mvcc_sort_ref *refs, size_t lo, size_t hi, uint64_t limit)
{
    size_t l = lo;
    for (size_t i = lo; i < hi; i++) {
        uint64_t chunk = refs[i].chunk;
        struct mvcc_item *item = refs[i].item;
        refs[i].chunk = refs[l].chunk;
        refs[i].item = refs[l].item;
        refs[l].chunk = chunk;
        refs[l].item = item;
        l += chunk < limit;
    }
    return l;
}

/* Three ways around a random pivot: [lo, *lt) is below it, [*lt, *gt) equal, [*gt, hi) above. */
static uint64_t partition(struct mvcc_sort_ref *refs, const struct part *p, size_t *lt, size_t *gt,
                          uint64_t *rand)
{
    uint64_t pivot = refs[p->lo + rand_next(rand) % (p->hi - p->lo)].chunk;
    *lt = split(refs, p->lo, p->hi, pivot);
    *gt = split(refs, *lt, p->hi, pivot + 1); /* no chunk is the greatest number */
    return pivot;
}

static size_t part_len(const struct part *p)
{
    return p->hi - p->lo;
}

static void parts_order(struct part p[3])
{
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 2 - i; k++) {
            if (part_len(&p[k]) >= part_len(&p[k + 1])) continue;
            struct part x = p[k];
            p[k] = p[k + 1];
            p[k + 1] = x;
        }
    }
}

/* Larger parts are pushed first, so the stack stays within twice the logarithm of n. */
void mvcc__sort(struct mvcc_sort_ref *refs, size_t n, uint64_t seed)
{
    struct part stack[STACK_MAX];
    size_t top = 0;
    uint64_t rand = seed | 1;
    chunks_load(refs, 0, n, 0);
    if (n > 1) stack[top++] = (struct part){0, n, 0};
    while (top > 0) {
        struct part p = stack[--top];
        if (part_len(&p) <= SMALL) {
            sort_small(refs, p.lo, p.hi);
            continue;
        }
        size_t lt, gt;
        uint64_t pivot = partition(refs, &p, &lt, &gt, &rand);
        struct part next[3] = {
            {p.lo, lt, p.depth}, {lt, gt, p.depth + CHUNK_BYTES}, {gt, p.hi, p.depth}};
        if ((pivot & 0xff) == CHUNK_GOES_ON) {
            chunks_load(refs, lt, gt, next[1].depth);
        } else {
            ASSERT(gt - lt == 1); /* whole keys are equal: there is just one */
        }
        parts_order(next);
        for (int i = 0; i < 3; i++) {
            if (part_len(&next[i]) > 1) stack[top++] = next[i];
            ASSERT(top < STACK_MAX);
        }
    }
}

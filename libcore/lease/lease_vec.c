/* Chunked vectors, and what linear hashing needs of arithmetic.
 *
 * Linear hashing: with n buckets and 2^k <= n < 2^(k+1), a hash belongs to bucket h mod 2^(k+1),
 * or, if that does not exist yet, to h mod 2^k. Adding bucket n divides exactly one chain, that of
 * n - 2^k. */
#include "base/err.h"
#include "lease/lease_int.h"

static int vec_grow_directory(const struct alloc *alloc, struct lease_vec *v)
{
    size_t cap = v->chunk_cap == 0 ? 8 : v->chunk_cap * 2;
    void ***chunks = alloc->resize(alloc->arg, v->chunks, v->chunk_cap * sizeof *v->chunks,
                                   cap * sizeof *v->chunks);
    if (chunks == NULL) return E_NOMEM;
    v->chunks = chunks;
    v->chunk_cap = cap;
    return 0;
}

int lease__vec_reserve(const struct alloc *alloc, struct lease_vec *v, size_t count)
{
    while (v->chunk_count * LEASE_VEC_CHUNK < count) {
        if (v->chunk_count == v->chunk_cap) {
            int rc = vec_grow_directory(alloc, v);
            if (rc < 0) return rc;
        }
        void **chunk = alloc_zero(alloc, LEASE_VEC_CHUNK * sizeof *chunk);
        if (chunk == NULL) return E_NOMEM;
        v->chunks[v->chunk_count++] = chunk;
    }
    return 0;
}

void lease__vec_deinit(const struct alloc *alloc, struct lease_vec *v)
{
    for (size_t i = 0; i < v->chunk_count; i++) {
        alloc_free(alloc, v->chunks[i], LEASE_VEC_CHUNK * sizeof **v->chunks);
    }
    alloc_free(alloc, v->chunks, v->chunk_cap * sizeof *v->chunks);
    *v = (struct lease_vec){0};
}

/* The largest power of two that is <= n > 0. */
static size_t floor_pow2(size_t n)
{
    ASSERT(n > 0);
    return (size_t)1 << (63 - __builtin_clzll((unsigned long long)n));
}

size_t lease__hash_bucket(uint64_t hash, size_t bucket_count)
{
    size_t low = floor_pow2(bucket_count);
    size_t i = (size_t)hash & (2 * low - 1);
    return i < bucket_count ? i : i - low;
}

int lease__hash_reserve(const struct alloc *alloc, struct lease_hash *h)
{
    return lease__vec_reserve(alloc, &h->buckets, h->count + 1);
}

size_t lease__hash_split_from(size_t bucket_count)
{
    ASSERT(bucket_count > 1);
    return bucket_count - 1 - floor_pow2(bucket_count - 1);
}

static inline uint64_t rotl(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotl(v[1], 13) ^ v[0];
    v[0] = rotl(v[0], 32);
    v[2] += v[3];
    v[3] = rotl(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotl(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotl(v[1], 17) ^ v[2];
    v[2] = rotl(v[2], 32);
}

static uint64_t load64(const uint8_t *p, size_t len)
{
    uint64_t x = 0;
    for (size_t i = 0; i < len; i++) {
        x |= (uint64_t)p[i] << 8 * i;
    }
    return x;
}

uint64_t lease__siphash(const uint8_t seed[16], struct bytes s)
{
    uint64_t k0 = load64(seed, 8);
    uint64_t k1 = load64(seed + 8, 8);
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
                     k1 ^ 0x7465646279746573};
    size_t i = 0;
    for (; i + 8 <= s.len; i += 8) {
        uint64_t m = load64(s.data + i, 8);
        v[3] ^= m;
        sip_round(v);
        v[0] ^= m;
    }
    uint64_t last = (uint64_t)s.len << 56 | (i < s.len ? load64(s.data + i, s.len - i) : 0);
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int n = 0; n < 3; n++) {
        sip_round(v);
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t lease__id_hash(const struct lease_table *t, lease_id id)
{
    uint8_t raw[8];
    lease_encode_key(id, raw);
    return lease__siphash(t->config.hash_seed, bytes_of(raw, sizeof raw));
}

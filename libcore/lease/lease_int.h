/* Inside of module lease: the shape of the table.
 *
 * A lease takes 80 bytes in a pool, 8 for its place in the hash of ids and 8 in the heap of
 * expiries (8 more in the heap of checkpoints, if they are on). A key is one block: its bytes, its
 * place in the hash of keys and in its lease's treap, which keeps the keys in byte order for
 * revocations.
 *
 * Both hashes are linear ones (they grow by splitting one bucket at a time), and all vectors are
 * chunked: no insertion ever moves the table, so that a slice of apply stays short with a million
 * leases. */
#ifndef LEASE_LEASE_INT_H
#define LEASE_LEASE_INT_H

#include "base/assert.h"
#include "lease/lease.h"

/* A vector of pointers in chunks; places never move. */
struct lease_vec {
    void ***chunks;
    size_t chunk_count;
    size_t chunk_cap;
};

enum { LEASE_VEC_CHUNK = 1024, LEASE_POOL_CHUNK = 256 };

#define LEASE_POS_NONE UINT32_MAX
#define LEASE_NS_PER_S 1000000000LL

struct lease_key {
    struct lease_key *chain; /* next in the bucket */
    struct lease_key *up, *left, *right;
    struct lease *lease;
    uint64_t hash; /* low bits: bucket; high half: priority in the treap */
    uint32_t len;
    uint8_t data[];
};

struct lease {
    lease_id id;         /* LEASE_NONE: a free place of the pool */
    struct lease *chain; /* next in the bucket, or in the free list */
    int64_t ttl_s;
    int64_t remaining_s;
    struct lease_key *root; /* treap of its keys */
    uint32_t key_count;
    uint32_t heap_pos; /* the rest is valid only while primary */
    int64_t expiry_ns;
    int64_t wake_ns; /* order of the expiry heap: the expiry, later the next retry */
    int64_t checkpoint_ns;
    uint32_t checkpoint_pos; /* LEASE_POS_NONE: not scheduled */
};

_Static_assert(sizeof(struct lease) <= 80, "a million leases are to stay below 120 MB");

/* A linear hash of chained nodes: what is common to ids and keys. */
struct lease_hash {
    struct lease_vec buckets;
    size_t bucket_count; /* 0 until the first insertion */
    size_t count;
};

/* A heap of leases by wake_ns or checkpoint_ns. */
struct lease_heap {
    struct lease_vec slots; /* room for every lease of the table */
    size_t count;
};

/* How far a promotion has come. */
enum lease_phase {
    LEASE_DEMOTED,
    LEASE_REFRESHING, /* expiries are set, the heap grows from the pool */
    LEASE_SORTING,    /* heap sort in place: slots behind `heap.count` are descending */
    LEASE_SPREADING,  /* walks the slots from the last to the first: ascending */
    LEASE_REHEAPING,  /* slots become a heap again */
    LEASE_PRIMARY
};

struct lease_promotion {
    int64_t now_ns;
    int64_t extend_ns;
    size_t at;           /* cursor of the phase */
    int64_t base_ns;     /* start of the window that is being filled, from now */
    int64_t window_ns;   /* its end */
    int64_t window_used; /* leases that run out in it */
};

struct lease_table {
    struct lease_config config;
    const struct alloc *alloc;
    struct lease_vec pool; /* of LEASE_POOL_CHUNK leases each */
    size_t pool_chunks;
    struct lease *free;
    struct lease_hash ids;
    struct lease_hash keys;
    enum lease_phase phase;
    struct lease_promotion promotion;
    struct lease_heap expiries;
    struct lease_heap checkpoints;
    struct lease_stats stats;
};

/* ---- lease_vec.c: chunked vectors and the bucket arithmetic of linear hashes ---- */

/* Makes places 0 ... count-1 exist; new ones are NULL. Errors: E_NOMEM. */
int lease__vec_reserve(const struct alloc *alloc, struct lease_vec *v, size_t count);
void lease__vec_deinit(const struct alloc *alloc, struct lease_vec *v);

static inline void **lease__vec_at(const struct lease_vec *v, size_t i)
{
    ASSERT(i / LEASE_VEC_CHUNK < v->chunk_count);
    return &v->chunks[i / LEASE_VEC_CHUNK][i % LEASE_VEC_CHUNK];
}

/* The bucket of `hash` among `bucket_count` > 0. */
size_t lease__hash_bucket(uint64_t hash, size_t bucket_count);
/* Room for one more node and for the split that goes with it. Errors: E_NOMEM. */
int lease__hash_reserve(const struct alloc *alloc, struct lease_hash *h);
/* The bucket whose chain is to be divided between itself and `bucket_count` - 1, now that this one
 * exists. */
size_t lease__hash_split_from(size_t bucket_count);

/* SipHash-1-3 of `s`. */
uint64_t lease__siphash(const uint8_t seed[16], struct bytes s);
/* A good mix of an id; ids are chosen by clients, hence the seed. */
uint64_t lease__id_hash(const struct lease_table *t, lease_id id);

/* ---- lease_table.c ---- */

struct lease *lease__lookup(const struct lease_table *t, lease_id id);

/* ---- lease_keys.c ---- */

/* Frees all keys of the table (the trees are left dangling). */
void lease__keys_free(struct lease_table *t);

/* ---- lease_expiry.c ---- */

/* Room in the heaps for `count` leases. Errors: E_NOMEM. */
int lease__expiry_reserve(struct lease_table *t, size_t count);
/* A lease came or is about to go. */
void lease__expiry_add(struct lease_table *t, struct lease *l, int64_t now_ns);
void lease__expiry_del(struct lease_table *t, struct lease *l);
/* The next checkpoint, if the lease is long enough for one. */
void lease__checkpoint_schedule(struct lease_table *t, struct lease *l, int64_t now_ns);

#endif

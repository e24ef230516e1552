/* The replicated part of the table: leases by id, and their rows. */
#include "base/err.h"
#include "lease/lease_int.h"
#include "pb/kv.h"

int lease_new(const struct lease_config *config, const struct alloc *alloc,
              struct lease_table **out)
{
    ASSERT(config->ttl_s_min > 0);
    ASSERT(config->retry_ns > 0);
    ASSERT(config->checkpoint_interval_ns >= 0);
    struct lease_table *t = alloc_zero(alloc, sizeof *t);
    if (t == NULL) return E_NOMEM;
    t->config = *config;
    t->alloc = alloc;
    *out = t;
    return 0;
}

void lease_reset(struct lease_table *t)
{
    lease__keys_free(t);
    for (size_t i = 0; i < t->pool_chunks; i++) {
        alloc_free(t->alloc, *lease__vec_at(&t->pool, i), LEASE_POOL_CHUNK * sizeof(struct lease));
    }
    lease__vec_deinit(t->alloc, &t->pool);
    lease__vec_deinit(t->alloc, &t->ids.buckets);
    lease__vec_deinit(t->alloc, &t->keys.buckets);
    lease__vec_deinit(t->alloc, &t->expiries.slots);
    lease__vec_deinit(t->alloc, &t->checkpoints.slots);
    struct lease_config config = t->config;
    *t = (struct lease_table){.config = config, .alloc = t->alloc};
}

void lease_free(struct lease_table *t)
{
    if (t == NULL) return;
    lease_reset(t);
    alloc_free(t->alloc, t, sizeof *t);
}

/* ---- ids ------------------------------------------------------------------------------------- */

static struct lease **id_bucket(const struct lease_table *t, uint64_t hash)
{
    return (struct lease **)lease__vec_at(&t->ids.buckets,
                                          lease__hash_bucket(hash, t->ids.bucket_count));
}

struct lease *lease__lookup(const struct lease_table *t, lease_id id)
{
    if (t->ids.count == 0 || id == LEASE_NONE) return NULL;
    struct lease *l = *id_bucket(t, lease__id_hash(t, id));
    while (l != NULL && l->id != id) {
        l = l->chain;
    }
    return l;
}

/* Adds one bucket and divides the chain that it shares with an older one. */
static void ids_split(struct lease_table *t)
{
    t->ids.bucket_count++;
    if (t->ids.bucket_count == 1) return;
    size_t from = lease__hash_split_from(t->ids.bucket_count);
    struct lease **bucket = (struct lease **)lease__vec_at(&t->ids.buckets, from);
    struct lease *l = *bucket;
    *bucket = NULL;
    while (l != NULL) {
        struct lease *next = l->chain;
        bucket = id_bucket(t, lease__id_hash(t, l->id));
        l->chain = *bucket;
        *bucket = l;
        l = next;
    }
}

/* Buckets stay when leases go: one is only added for a lease beyond the highest count so far. */
static void ids_insert(struct lease_table *t, struct lease *l)
{
    if (t->ids.count == t->ids.bucket_count) ids_split(t);
    struct lease **bucket = id_bucket(t, lease__id_hash(t, l->id));
    l->chain = *bucket;
    *bucket = l;
    t->ids.count++;
}

static void ids_delete(struct lease_table *t, struct lease *l)
{
    struct lease **link = id_bucket(t, lease__id_hash(t, l->id));
    while (*link != l) {
        ASSERT(*link != NULL);
        link = &(*link)->chain;
    }
    *link = l->chain;
    t->ids.count--;
}

/* ---- the pool -------------------------------------------------------------------------------- */

/* Makes sure that a free place exists. */
static int pool_reserve(struct lease_table *t)
{
    if (t->free != NULL) return 0;
    int rc = lease__vec_reserve(t->alloc, &t->pool, t->pool_chunks + 1);
    if (rc < 0) return rc;
    struct lease *chunk = alloc_zero(t->alloc, LEASE_POOL_CHUNK * sizeof *chunk);
    if (chunk == NULL) return E_NOMEM;
    *lease__vec_at(&t->pool, t->pool_chunks++) = chunk;
    for (size_t i = LEASE_POOL_CHUNK; i-- > 0;) {
        chunk[i].chain = t->free;
        t->free = &chunk[i];
    }
    return 0;
}

/* All that one more lease can need. */
static int table_reserve(struct lease_table *t)
{
    if (t->ids.count + 1 >= LEASE_POS_NONE) return E_NOMEM;
    int rc = pool_reserve(t);
    if (rc == 0) rc = lease__hash_reserve(t->alloc, &t->ids);
    if (rc == 0) rc = lease__expiry_reserve(t, t->ids.count + 1);
    return rc;
}

static struct lease *table_insert(struct lease_table *t, const struct pb_lease *row)
{
    struct lease *l = t->free;
    ASSERT(l != NULL);
    t->free = l->chain;
    int64_t ttl_s = row->ttl_s < t->config.ttl_s_min ? t->config.ttl_s_min : row->ttl_s;
    *l = (struct lease){.id = row->id, .ttl_s = ttl_s, .remaining_s = row->remaining_ttl_s};
    l->heap_pos = LEASE_POS_NONE;
    l->checkpoint_pos = LEASE_POS_NONE;
    ids_insert(t, l);
    return l;
}

/* ---- the face -------------------------------------------------------------------------------- */

int lease_load(struct lease_table *t, struct bytes value, struct errmsg *em)
{
    ASSERT(t->phase == LEASE_DEMOTED);
    struct pb_lease row;
    if (pb_lease_decode(value, &row) < 0) {
        errmsg_set(em, "a row of the lease bucket does not parse");
        return E_CORRUPT;
    }
    if (row.id == LEASE_NONE || lease__lookup(t, row.id) != NULL) {
        errmsg_set(em, "lease %016llx is invalid or stored twice", (unsigned long long)row.id);
        return E_CORRUPT;
    }
    int rc = table_reserve(t);
    if (rc < 0) return rc;
    (void)table_insert(t, &row);
    return 0;
}

int lease_grant(struct lease_table *t, lease_id id, int64_t ttl_s, int64_t now_ns,
                int64_t *granted_s)
{
    ASSERT(t->phase == LEASE_DEMOTED || t->phase == LEASE_PRIMARY);
    if (id == LEASE_NONE) return E_LEASE_NOT_FOUND;
    if (ttl_s > LEASE_TTL_S_MAX) return E_LEASE_TTL_TOO_LARGE;
    if (lease__lookup(t, id) != NULL) return E_LEASE_EXIST;
    int rc = table_reserve(t); /* the last line that can fail */
    if (rc < 0) return rc;
    struct lease *l = table_insert(t, &(struct pb_lease){.id = id, .ttl_s = ttl_s});
    lease__expiry_add(t, l, now_ns);
    t->stats.granted_total++;
    *granted_s = l->ttl_s;
    return 0;
}

void lease_remove(struct lease_table *t, lease_id id)
{
    ASSERT(t->phase == LEASE_DEMOTED || t->phase == LEASE_PRIMARY);
    struct lease *l = lease__lookup(t, id);
    ASSERT(l != NULL);
    ASSERT(l->key_count == 0);
    lease__expiry_del(t, l);
    ids_delete(t, l);
    *l = (struct lease){.id = LEASE_NONE, .chain = t->free};
    t->free = l;
    t->stats.revoked_total++;
}

static struct lease_info info_of(const struct lease_table *t, const struct lease *l)
{
    return (struct lease_info){
        .id = l->id,
        .ttl_s = l->ttl_s,
        .remaining_s = l->remaining_s,
        .expiry_ns = t->phase == LEASE_PRIMARY ? l->expiry_ns : LEASE_FOREVER,
        .key_count = l->key_count,
    };
}

bool lease_find(const struct lease_table *t, lease_id id, struct lease_info *out)
{
    const struct lease *l = lease__lookup(t, id);
    if (l == NULL) return false;
    if (out != NULL) *out = info_of(t, l);
    return true;
}

bool lease_next(const struct lease_table *t, size_t *cursor, struct lease_info *out)
{
    while (*cursor / LEASE_POOL_CHUNK < t->pool_chunks) {
        const struct lease *chunk = *lease__vec_at(&t->pool, *cursor / LEASE_POOL_CHUNK);
        const struct lease *l = &chunk[*cursor % LEASE_POOL_CHUNK];
        ++*cursor;
        if (l->id != LEASE_NONE) {
            *out = info_of(t, l);
            return true;
        }
    }
    return false;
}

size_t lease_count(const struct lease_table *t)
{
    return t->ids.count;
}

void lease_get_stats(const struct lease_table *t, struct lease_stats *out)
{
    *out = t->stats;
    out->lease_count = t->ids.count;
    out->key_count = t->keys.count;
}

/* ---- rows ------------------------------------------------------------------------------------ */

void lease_encode_key(lease_id id, uint8_t key[8])
{
    uint64_t u = (uint64_t)id;
    for (int i = 0; i < 8; i++) {
        key[i] = (uint8_t)(u >> (56 - 8 * i));
    }
}

int lease_encode_row(const struct lease_table *t, lease_id id, uint8_t key[8], struct buf *value)
{
    const struct lease *l = lease__lookup(t, id);
    ASSERT(l != NULL);
    int rc = pb_lease_put(
        &(struct pb_lease){.id = l->id, .ttl_s = l->ttl_s, .remaining_ttl_s = l->remaining_s},
        value);
    if (rc < 0) return rc;
    lease_encode_key(id, key);
    return 0;
}

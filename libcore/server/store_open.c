/* Opening the store: one walk over the file validates it and loads leases, meta and all revisions. */
#include "server/server_int.h"

#include <stdio.h>

#include "alarm/alarm.h"
#include "base/err.h"

enum { META_ROW_BYTES_MAX = 64 * 1024, CONF_STATE_BYTES_MAX = 1024 * 1024 };

/* How often what is left of long leases is replicated, as upstream. */
#define CHECKPOINT_NS INT64_C(300000000000)

/* What the walk picks up on its way. */
struct loader {
    struct server *s;
    struct store_start *out;
    struct buf scheduled, finished, index, term; /* values of meta; spans of the walk do not stay */
    struct errmsg *em;
    int (*sound)(void *arg);
    void *sound_arg;
};

static int on_end(void *arg)
{
    struct loader *l = arg;
    return l->sound == NULL ? 0 : l->sound(l->sound_arg);
}

static int keep(struct buf *to, struct bytes value)
{
    buf_reset(to);
    return buf_put_bytes(to, value);
}

static int on_meta(struct loader *l, struct bytes key, struct bytes value)
{
    if (bytes_eq(key, bytes_str("scheduledCompactRev"))) return keep(&l->scheduled, value);
    if (bytes_eq(key, bytes_str("finishedCompactRev"))) return keep(&l->finished, value);
    if (bytes_eq(key, bytes_str("consistent_index"))) return keep(&l->index, value);
    if (bytes_eq(key, bytes_str("term"))) return keep(&l->term, value);
    if (bytes_eq(key, bytes_str("confState"))) return keep(&l->out->conf_state, value);
    if (bytes_eq(key, bytes_str("storageVersion"))) {
        snprintf(l->out->storage_version, sizeof l->out->storage_version, "%.*s", (int)value.len,
                 (const char *)value.data);
    }
    return 0;
}

static int on_row(void *arg, enum table t, struct bytes key, struct bytes value)
{
    struct loader *l = arg;
    if (t == TABLE_KEY) return mvcc_load_row(l->s->mvcc, key, value, l->em);
    if (t == TABLE_LEASE) return lease_load(l->s->leases, value, l->em);
    if (t == TABLE_META) return on_meta(l, key, value);
    if (t == TABLE_AUTH && bytes_eq(key, bytes_str("authEnabled"))) {
        l->out->auth_enabled = value.len == 1 && value.data[0] == 1;
    }
    return 0;
}

/* While loading: the lease of a key's newest row holds the key; one that does not exist is passed over. */
static void on_lease(void *arg, struct bytes key, int64_t lease)
{
    struct server *s = arg;
    if (lease == LEASE_NONE) {
        lease_detach(s->leases, key);
        return;
    }
    int rc = lease_attach(s->leases, lease, key);
    if (rc == E_NOMEM) (void)server__need(s, SIZE_MAX);
    if (rc == E_LEASE_NOT_FOUND) {
        LOG(s->log, LOG_WARN, "a stored key names a lease that does not exist",
            LOGF_HEX("lease", (uint64_t)lease));
    }
}

static int tables_new(struct server *s)
{
    uint64_t ticks = s->config->election_timeout / s->config->heartbeat_interval;
    uint64_t ttl_ms = ticks * 3 / 2 * s->config->heartbeat_interval;
    struct lease_config lc = {.ttl_s_min = (int64_t)((ttl_ms + 999) / 1000),
                              .retry_ns = (int64_t)(5000 + 2 * s->config->election_timeout) *
                                          1000000};
    if (config_gate(s->config, "LeaseCheckpoint")) lc.checkpoint_interval_ns = CHECKPOINT_NS;
    os_rand.fill(os_rand.arg, lc.hash_seed, sizeof lc.hash_seed);
    int rc = lease_new(&lc, s->alloc, &s->leases);
    struct mvcc_opts mo = {.alloc = s->alloc,
                           .index_lock = &s->index_lock.face,
                           .backend = &s->backend,
                           .log = s->log,
                           .on_lease = on_lease,
                           .arg = s};
    os_rand.fill(os_rand.arg, &mo.seed, sizeof mo.seed);
    return rc < 0 ? rc : mvcc_load_begin(&mo, &s->mvcc);
}

static int load_versions(struct server *s, struct store_start *out, struct errmsg *em)
{
    struct backend_read *read = NULL;
    int rc = s->backend.read_begin(s->backend.arg, &read, em);
    if (rc < 0) return rc;
    rc = membership_load(s->alloc, &s->backend, read, &out->members, em);
    if (rc == 0) rc = alarm_load(s->alloc, &s->backend, read, &out->alarms, em);
    s->backend.read_end(read);
    return rc;
}

static uint64_t number_of(const struct buf *b)
{
    uint64_t v = 0;
    for (size_t i = 0; i < b->len && b->len == 8; i++)
        v = v << 8 | b->data[i];
    return v;
}

static int load_end(struct server *s, struct loader *l, struct errmsg *em)
{
    struct mvcc_meta meta = {.scheduled_compact_rev = buf_bytes(&l->scheduled),
                             .finished_compact_rev = buf_bytes(&l->finished),
                             .consistent_index = buf_bytes(&l->index),
                             .term = buf_bytes(&l->term)};
    l->out->consistent_index = number_of(&l->index);
    l->out->consistent_term = number_of(&l->term);
    return mvcc_load_end(s->mvcc, &meta, em);
}

static void note_size(struct server *s)
{
    struct backend_size size = {0, 0};
    (void)s->backend.size(s->backend.arg, &size);
    atomic_store(&s->db_bytes, size.total_bytes);
    atomic_store(&s->db_in_use_bytes, size.in_use_bytes);
}

static int open_and_load(struct server *s, bool create, struct loader *l, struct errmsg *em)
{
    int64_t quota = s->config->quota_backend_bytes;
    struct backend_lmdb_opts o = {
        .alloc = s->alloc,
        .disk = s->disk,
        .path = s->dir.db,
        .create = create,
        .map_bytes = backend_map_bytes(quota > 0 ? (uint64_t)quota : APPLY_QUOTA_BYTES_DEFAULT),
        .walk = {.row = on_row,
                 .end = on_end,
                 .arg = l,
                 .tables = 1U << TABLE_KEY | 1U << TABLE_LEASE | 1U << TABLE_META |
                           1U << TABLE_AUTH}};
    int rc = tables_new(s);
    if (rc == 0) rc = backend_lmdb_open(&o, &s->lmdb, em);
    if (rc < 0) return rc;
    s->backend = backend_lmdb_face(s->lmdb);
    rc = load_end(s, l, em);
    if (rc == 0) rc = load_versions(s, l->out, em);
    if (rc == 0) note_size(s);
    return rc;
}

int server__store_open(struct server *s, bool create, struct store_start *out,
                       int (*sound)(void *arg), void *arg, struct errmsg *em)
{
    struct loader l = {.s = s, .out = out, .em = em, .sound = sound, .sound_arg = arg};
    struct buf *const bufs[] = {&l.scheduled, &l.finished, &l.index, &l.term};
    for (size_t i = 0; i < 4; i++)
        buf_init(bufs[i], s->alloc, META_ROW_BYTES_MAX);
    memset(out, 0, sizeof *out);
    buf_init(&out->conf_state, s->alloc, CONF_STATE_BYTES_MAX);
    int rc = open_and_load(s, create, &l, em);
    for (size_t i = 0; i < 4; i++)
        buf_deinit(bufs[i]);
    if (rc < 0) {
        server__store_close(s);
        server__store_start_deinit(out);
    }
    return rc;
}

void server__store_start_deinit(struct store_start *st)
{
    membership_unref(st->members);
    alarm_unref(st->alarms);
    buf_deinit(&st->conf_state);
    st->members = NULL;
    st->alarms = NULL;
}

void server__store_close(struct server *s)
{
    mvcc_free(s->mvcc);
    lease_free(s->leases);
    backend_lmdb_close(s->lmdb);
    s->mvcc = NULL;
    s->leases = NULL;
    s->lmdb = NULL;
}

/* Building the index from the stored rows: bbolt-format.md 10.
 *
 * Rows come in revision order. A hash table finds the item of each row's key; at the end the table is packed into
 * an array in place, sorted by key, and made into a tree in one go. The hash is seeded by the caller, so
 * that no set of keys is slow on purpose. A table of a million keys is in no cache: a row is placed a few rows late, when
 * the slot that was asked for at once has arrived. Leases of newest rows are noted aside and reported at the end. */
#include "mvcc/mvcc_int.h"
#include "pb/kv.h"

enum { SLOTS_MIN = 1024, PENDING = 16 };

/* A row on its way into the table. */
struct pending {
    struct mvcc_item
        *item; /* with its key, and thrown away if the table has that key; NULL: no row */
    uint64_t hash;
    struct mvcc_rev rev;
    bool tomb;
    int64_t create, version, lease;
};

struct leased {
    struct mvcc_item *item;
    int64_t lease;
    int64_t main;
    uint32_t sub;
};

/* Slots are sort references: while loading `chunk` is the hash of the key. */
struct mvcc_load {
    struct mvcc_sort_ref *slots;
    size_t slot_count; /* a power of two */
    size_t used;
    uint64_t seed;
    struct mvcc_rev last;
    struct pending pending[PENDING]; /* a ring; the oldest is at `pending_next` */
    size_t pending_next;
    struct leased *leased;
    size_t leased_count, leased_cap;
    void (*on_lease)(void *arg, struct bytes key, int64_t lease);
    void *arg;
};

void mvcc__load_free(struct mvcc *m)
{
    struct mvcc_load *l = m->load;
    if (l == NULL) return;
    for (size_t i = 0; l->slots != NULL && i < l->slot_count; i++) {
        mvcc__item_free(m->alloc, l->slots[i].item);
    }
    for (size_t i = 0; i < PENDING; i++)
        mvcc__item_free(m->alloc, l->pending[i].item);
    alloc_free(m->alloc, l->slots, l->slot_count * sizeof *l->slots);
    alloc_free(m->alloc, l->leased, l->leased_cap * sizeof *l->leased);
    alloc_free(m->alloc, l, sizeof *l);
    m->load = NULL;
}

static void store_init(struct mvcc *m, const struct mvcc_opts *opts)
{
    m->alloc = opts->alloc;
    m->lock = *opts->index_lock;
    m->backend = opts->backend;
    m->log = opts->log;
    m->run_bytes_max = opts->run_bytes_max == 0 ? RUN_BYTES_MAX : opts->run_bytes_max;
    m->tree.alloc = opts->alloc;
    m->finished = -1;
    atomic_store(&m->published, 1);
    atomic_store(&m->compacted, -1);
}

static int load_init(struct mvcc *m, const struct mvcc_opts *opts)
{
    m->load = alloc_zero(m->alloc, sizeof *m->load);
    if (m->load == NULL) return E_NOMEM;
    struct mvcc_load *l = m->load;
    l->seed = opts->seed;
    l->on_lease = opts->on_lease;
    l->arg = opts->arg;
    l->slots = alloc_zero(m->alloc, SLOTS_MIN * sizeof *l->slots);
    if (l->slots == NULL) return E_NOMEM;
    l->slot_count = SLOTS_MIN;
    return 0;
}

static int first_pair(struct mvcc *m)
{
    struct mvcc_run *run = mvcc__run_new(m->alloc, 1);
    if (run == NULL) return E_NOMEM;
    m->pair = mvcc__pair_new(m->alloc, run, NULL);
    if (m->pair != NULL) return 0;
    atomic_store(&run->refs, 1);
    mvcc__run_unref(run);
    return E_NOMEM;
}

int mvcc_load_begin(const struct mvcc_opts *opts, struct mvcc **out)
{
    ASSERT(opts->alloc != NULL);
    ASSERT(opts->index_lock != NULL);
    struct mvcc *m = alloc_zero(opts->alloc, sizeof *m);
    if (m == NULL) return E_NOMEM;
    store_init(m, opts);
    int rc = first_pair(m);
    if (rc == 0) rc = load_init(m, opts);
    if (rc < 0) {
        mvcc_free(m);
        return rc;
    }
    *out = m;
    return 0;
}

/* --- rows --- */

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static uint64_t key_hash(struct bytes key, uint64_t seed)
{
    uint64_t h = seed ^ key.len * 0xff51afd7ed558ccdu;
    size_t i = 0;
    for (; i + 8 <= key.len; i += 8) {
        h = mix(h ^ endian_load_le64(key.data + i)) + seed;
    }
    uint64_t rest = 0;
    if (i < key.len) memcpy(&rest, key.data + i, key.len - i);
    return mix(mix(h ^ rest) + seed);
}

static int slots_grow(const struct alloc *a, struct mvcc_load *l)
{
    size_t count = 2 * l->slot_count;
    struct mvcc_sort_ref *slots = alloc_zero(a, count * sizeof *slots);
    if (slots == NULL) return E_NOMEM;
    for (size_t i = 0; i < l->slot_count; i++) {
        if (l->slots[i].item == NULL) continue;
        size_t k = l->slots[i].chunk & (count - 1);
        while (slots[k].item != NULL) {
            k = (k + 1) & (count - 1);
        }
        slots[k] = l->slots[i];
    }
    alloc_free(a, l->slots, l->slot_count * sizeof *slots);
    l->slots = slots;
    l->slot_count = count;
    return 0;
}

/* The item of p's key: the one in the table, or p's own, which is the table's then. NULL without memory. */
static struct mvcc_item *place_item(const struct alloc *a, struct mvcc_load *l, struct pending *p)
{
    if (l->used >= l->slot_count / 4 * 3 && slots_grow(a, l) < 0) return NULL;
    struct mvcc_item *own = p->item;
    struct bytes key = mvcc__item_key(own);
    size_t i = p->hash & (l->slot_count - 1);
    p->item = NULL;
    for (; l->slots[i].item != NULL; i = (i + 1) & (l->slot_count - 1)) {
        struct mvcc_item *it = l->slots[i].item;
        if (l->slots[i].chunk != p->hash || !bytes_eq(mvcc__item_key(it), key)) continue;
        mvcc__item_free(a, own);
        return it;
    }
    l->slots[i] = (struct mvcc_sort_ref){p->hash, own};
    l->used++;
    return own;
}

static int note_lease(const struct alloc *a, struct mvcc_load *l, struct leased note)
{
    if (l->leased_count == l->leased_cap) {
        size_t cap = l->leased_cap == 0 ? 64 : 2 * l->leased_cap;
        struct leased *grown =
            a->resize(a->arg, l->leased, l->leased_cap * sizeof *grown, cap * sizeof *grown);
        if (grown == NULL) return E_NOMEM;
        l->leased = grown;
        l->leased_cap = cap;
    }
    l->leased[l->leased_count++] = note;
    return 0;
}

/* Adds a row to its item. The first row of a key brings create revision and version along, for earlier ones may be
 * compacted away; a deletion of what is deleted already is ignored. */
static int place_row(struct mvcc *m, struct pending *p)
{
    struct mvcc_load *l = m->load;
    struct mvcc_item *it = place_item(m->alloc, l, p);
    if (it == NULL) return E_NOMEM;
    bool fresh = it->mod == 0;
    if (p->tomb && it->tomb) return 0;
    struct mvcc_item_change ch;
    int rc = mvcc__item_prepare(m->alloc, it, &ch);
    if (rc < 0) return rc;
    mvcc__item_store(it, &ch, p->rev.main, p->rev.sub, p->tomb);
    mvcc__item_settle(m->alloc, &ch);
    if (fresh && !p->tomb) {
        it->create = p->create;
        it->version = p->version;
    }
    it->leased = !p->tomb && p->lease != 0;
    if (!it->leased) return 0;
    return note_lease(m->alloc, l, (struct leased){it, p->lease, p->rev.main, p->rev.sub});
}

/* Places the oldest pending row, if there is one, and makes its place the next to be filled. */
static int place_oldest(struct mvcc *m)
{
    struct pending *p = &m->load->pending[m->load->pending_next];
    int rc = p->item == NULL ? 0 : place_row(m, p);
    m->load->pending_next = (m->load->pending_next + 1) % PENDING;
    return rc;
}

static int load_change(struct mvcc *m, struct mvcc_rev rev, bool tomb, const struct pb_kv *kv)
{
    struct mvcc_load *l = m->load;
    struct pending *p = &l->pending[l->pending_next];
    int rc = place_oldest(m);
    if (rc < 0) return rc;
    *p = (struct pending){.item = mvcc__item_new(m->alloc, kv->key),
                          .hash = key_hash(kv->key, l->seed),
                          .rev = rev,
                          .tomb = tomb,
                          .create = kv->create_revision,
                          .version = kv->version,
                          .lease = kv->lease};
    __builtin_prefetch(&l->slots[p->hash & (l->slot_count - 1)]);
    return p->item == NULL ? E_NOMEM : 0;
}

int mvcc_load_row(struct mvcc *m, struct bytes rev_key, struct bytes value, struct errmsg *em)
{
    struct mvcc_load *l = m->load;
    ASSERT(l != NULL);
    struct mvcc_rev rev;
    struct pb_kv kv;
    bool tomb;
    if (mvcc__rev_parse(rev_key, &rev, &tomb) < 0) {
        errmsg_set(em, "table \"key\": a key of %zu bytes is no revision", rev_key.len);
        return E_CORRUPT;
    }
    if (!mvcc__rev_less(l->last.main, l->last.sub, rev.main, rev.sub) && l->last.main > 0) {
        errmsg_set(em, "table \"key\": revision %lld,%u is out of order", (long long)rev.main,
                   rev.sub);
        return E_CORRUPT;
    }
    if (pb_kv_decode(value, &kv) < 0 || kv.key.len > KEY_LEN_MAX) {
        errmsg_set(em, "table \"key\": revision %lld,%u holds no KeyValue", (long long)rev.main,
                   rev.sub);
        return E_CORRUPT;
    }
    if (rev.main < 1) return 0; /* no server writes these; upstream does not look at them either */
    l->last = rev;
    return load_change(m, rev, tomb, &kv);
}

/* --- the end --- */

static int meta_u64(struct bytes v, const char *name, uint64_t *out, struct errmsg *em)
{
    *out = 0;
    if (v.len == 0) return 0;
    if (v.len != 8) {
        errmsg_set(em, "table \"meta\": %s has %zu bytes, not 8", name, v.len);
        return E_CORRUPT;
    }
    *out = endian_load_be64(v.data);
    return 0;
}

static int meta_rev(struct bytes v, const char *name, int64_t *out, struct errmsg *em)
{
    *out = -1;
    if (v.len == 0) return 0;
    struct mvcc_rev rev;
    bool tomb;
    if (mvcc__rev_parse(v, &rev, &tomb) < 0) {
        errmsg_set(em, "table \"meta\": %s is no revision", name);
        return E_CORRUPT;
    }
    *out = rev.main;
    return 0;
}

static int64_t max_rev(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int load_meta(struct mvcc *m, const struct mvcc_meta *meta, struct errmsg *em)
{
    int64_t scheduled, finished;
    int rc = meta_rev(meta->scheduled_compact_rev, "scheduledCompactRev", &scheduled, em);
    if (rc == 0) rc = meta_rev(meta->finished_compact_rev, "finishedCompactRev", &finished, em);
    if (rc == 0) rc = meta_u64(meta->consistent_index, "consistent_index", &m->index, em);
    if (rc == 0) rc = meta_u64(meta->term, "term", &m->term, em);
    if (rc < 0) return rc;
    int64_t current = max_rev(1, m->load->last.main);
    atomic_store(&m->published, max_rev(current, max_rev(finished, scheduled)));
    m->finished = finished;
    atomic_store(&m->compacted, max_rev(finished, scheduled));
    if (scheduled > finished) {
        m->marks[0] = (struct mvcc_mark){.rev = scheduled, .prev = finished};
        m->mark_count = 1;
    }
    return 0;
}

static size_t slots_pack(struct mvcc_load *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->slot_count; i++) {
        if (l->slots[i].item != NULL) l->slots[n++] = l->slots[i];
    }
    ASSERT(n == l->used);
    for (size_t i = n; i < l->slot_count; i++) {
        l->slots[i].item = NULL;
    }
    return n;
}

static void report_leases(const struct mvcc_load *l)
{
    for (size_t i = 0; l->on_lease != NULL && i < l->leased_count; i++) {
        const struct leased *x = &l->leased[i];
        bool newest = x->item->mod == x->main && x->item->sub == x->sub;
        if (newest) l->on_lease(l->arg, mvcc__item_key(x->item), x->lease);
    }
}

int mvcc_load_end(struct mvcc *m, const struct mvcc_meta *meta, struct errmsg *em)
{
    struct mvcc_load *l = m->load;
    ASSERT(l != NULL);
    int rc = load_meta(m, meta, em);
    for (size_t i = 0; i < PENDING && rc == 0; i++)
        rc = place_oldest(m);
    if (rc < 0) return rc;
    size_t n = slots_pack(l);
    mvcc__sort(l->slots, n, l->seed);
    rc = mvcc__tree_build(&m->tree, l->slots, n);
    if (rc < 0) return rc;
    for (size_t i = 0; i < n; i++) {
        l->slots[i].item = NULL; /* now the tree's */
    }
    report_leases(l);
    mvcc__load_free(m);
    return 0;
}

/* --- from the backend --- */

static int load_rows(struct mvcc *m, struct backend_read *r, struct errmsg *em)
{
    struct backend_cursor *c;
    int rc = m->backend->cursor_open(r, TABLE_KEY, &c);
    if (rc < 0) return rc;
    struct bytes k, v;
    rc = m->backend->seek(c, BYTES_EMPTY, &k, &v);
    while (rc == 0) {
        rc = mvcc_load_row(m, k, v, em);
        if (rc == 0) rc = m->backend->next(c, &k, &v);
    }
    m->backend->cursor_close(c);
    return rc == E_NOTFOUND ? 0 : rc;
}

static int meta_get(const struct mvcc *m, struct backend_read *r, const char *name,
                    struct bytes *out)
{
    int rc = m->backend->get(r, TABLE_META, bytes_str(name), out);
    if (rc == E_NOTFOUND) *out = BYTES_EMPTY;
    return rc == E_NOTFOUND ? 0 : rc;
}

static int load_all(struct mvcc *m, struct backend_read *r, struct errmsg *em)
{
    struct mvcc_meta meta = {0};
    int rc = load_rows(m, r, em);
    if (rc == 0) rc = meta_get(m, r, "scheduledCompactRev", &meta.scheduled_compact_rev);
    if (rc == 0) rc = meta_get(m, r, "finishedCompactRev", &meta.finished_compact_rev);
    if (rc == 0) rc = meta_get(m, r, "consistent_index", &meta.consistent_index);
    if (rc == 0) rc = meta_get(m, r, "term", &meta.term);
    return rc < 0 ? rc : mvcc_load_end(m, &meta, em);
}

int mvcc_open(const struct mvcc_opts *opts, struct mvcc **out, struct errmsg *em)
{
    ASSERT(opts->backend != NULL);
    struct mvcc *m;
    int rc = mvcc_load_begin(opts, &m);
    if (rc < 0) return rc;
    struct backend_read *r;
    rc = m->backend->read_begin(m->backend->arg, &r, em);
    if (rc == 0) {
        rc = load_all(m, r, em);
        m->backend->read_end(r);
    }
    if (rc < 0) {
        mvcc_free(m);
        return rc;
    }
    *out = m;
    return 0;
}

/* Views: where a reader finds everything of one revision.
 *
 * The order of opening is the whole point. Pin first, or compaction may take what is about to be read. Test under the
 * index lock, here and nowhere later. Then the pair of runs, only then the backend's transaction: a run that retires in
 * between is then either in the pair or in what the transaction sees. The transaction is begun when the first row
 * is wanted that no run has: reads of what was just written never touch the backend. A pin that was broken for its age is
 * noticed after the transaction has begun, or under the index lock, before anything read is believed. */
#include "mvcc/mvcc_int.h"
#include "pb/kv.h"
#include "pb/wire.h"

/* Takes the current pair. */
static struct mvcc_pair *pair_take(struct mvcc *m)
{
    mvcc__read_lock(m);
    struct mvcc_pair *p = mvcc__pair_ref(m->pair);
    mvcc__read_unlock(m);
    return p;
}

/* Tests under the lock and takes the pair in the same hold. False when compaction has passed the pin. */
static bool view_admit(struct mvcc_view *v, bool exact)
{
    struct mvcc *m = v->m;
    mvcc__read_lock(m);
    v->compacted = mvcc_compacted(m);
    bool ok = exact ? v->pin_rev == v->compacted : v->pin_rev >= v->compacted;
    if (ok && v->pair == NULL) v->pair = mvcc__pair_ref(m->pair);
    mvcc__read_unlock(m);
    return ok;
}

static void view_refuse(struct mvcc_view *v)
{
    mvcc__pin_drop(v->pin);
    mvcc__pair_unref(v->pair);
    if (v->read != NULL) v->m->backend->read_end(v->read);
}

/* What the planted faults do too early; nothing in a normal build. */
static int view_planted(struct mvcc_view *v)
{
    if (PLANTED(PLANT_PAIR_BEFORE_PIN)) v->pair = pair_take(v->m);
    if (PLANTED(PLANT_BACKEND_BEFORE_PAIR)) {
        return v->m->backend->read_begin(v->m->backend->arg, &v->read, NULL);
    }
    return 0;
}

/* Opens at `v->rev`, or the current revision when that is <= 0, with the pin at the same. */
int mvcc_view_open(struct mvcc *m, int64_t rev, struct mvcc_view *out)
{
    struct mvcc_view v = {.m = m};
    int rc = view_planted(&v);
    if (rc < 0) return rc;
    v.current = mvcc_revision(m);
    v.rev = v.pin_rev = rev > 0 ? rev : v.current;
    v.pin = mvcc__pin_take(m, v.pin_rev);
    if (v.pin == NULL) rc = E_NOMEM;
    if (rev > v.current) rc = E_FUTURE_REV;
    while (rc == 0 && !view_admit(&v, false)) {
        if (rev > 0) rc = E_COMPACTED;
        v.current = mvcc_revision(m); /* the current revision moved on and was compacted at once */
        if (rev <= 0) v.rev = v.pin_rev = v.current;
        mvcc__pin_move(v.pin, v.pin_rev);
    }
    if (rc < 0) {
        if (v.pin != NULL) view_refuse(&v);
        return rc;
    }
    *out = v;
    return 0;
}

int mvcc_view_open_history(struct mvcc *m, int64_t from, struct mvcc_view *out)
{
    ASSERT(from > 0);
    struct mvcc_view v;
    int rc = mvcc_view_open(m, from, &v);
    if (rc < 0) return rc;
    v.rev = v.current;
    *out = v;
    return 0;
}

/* For hashes: pins the compact revision itself, so that no later compaction starts to take rows away. */
int mvcc__view_open_hash(struct mvcc *m, int64_t rev, struct mvcc_view *out)
{
    struct mvcc_view v = {.m = m};
    v.current = mvcc_revision(m);
    v.pin_rev = mvcc_compacted(m);
    v.pin = mvcc__pin_take(m, v.pin_rev);
    if (v.pin == NULL) return E_NOMEM;
    while (!view_admit(&v, true)) {
        v.current = mvcc_revision(m);
        v.pin_rev = v.compacted;
        mvcc__pin_move(v.pin, v.pin_rev);
    }
    v.rev = rev == 0 ? v.current : rev;
    int rc = rev > v.current ? E_FUTURE_REV : rev > 0 && rev < v.compacted ? E_COMPACTED : 0;
    if (rc < 0) {
        view_refuse(&v);
        return rc;
    }
    *out = v;
    return 0;
}

int mvcc_view_open_entry(struct mvcc *m, int64_t rev, struct mvcc_view *out)
{
    ASSERT(m->in_entry);
    struct mvcc_view v = {.m = m, .current = m->main - 1, .compacted = mvcc_compacted(m)};
    if (rev > v.current) return E_FUTURE_REV;
    if (rev > 0 && rev < v.compacted) return E_COMPACTED;
    v.rev = rev > 0 ? rev : m->main;
    v.pin_rev = rev > 0 ? rev : v.current;
    v.pin = mvcc__pin_take(m, v.pin_rev);
    if (v.pin == NULL) return E_NOMEM;
    v.pair = mvcc__pair_ref(m->pair);
    *out = v;
    return 0;
}

static void view_let_go(struct mvcc_view *v)
{
    if (v->read != NULL) v->m->backend->read_end(v->read);
    v->read = NULL;
    mvcc__pair_unref(v->pair);
    v->pair = NULL;
}

void mvcc_view_close(struct mvcc_view *v)
{
    ASSERT(v->pin != NULL);
    view_let_go(v);
    mvcc__pin_drop(v->pin);
    v->pin = NULL;
}

void mvcc_view_suspend(struct mvcc_view *v)
{
    ASSERT(!v->suspended);
    view_let_go(v);
    v->suspended = true;
}

int mvcc_view_resume(struct mvcc_view *v)
{
    ASSERT(v->suspended);
    if (mvcc__pin_broken(v->pin)) return E_INTR;
    v->pair = pair_take(v->m);
    v->suspended = false;
    return 0;
}

int mvcc__view_begin_read(struct mvcc_view *v, struct errmsg *em)
{
    ASSERT(!v->suspended);
    if (v->read != NULL) return 0;
    const struct backend *b = v->m->backend;
    struct backend_read *r;
    int rc = b->read_begin(b->arg, &r, em);
    if (rc < 0) return rc;
    if (mvcc__pin_broken(v->pin)) {
        b->read_end(r);
        return E_INTR;
    }
    v->read = r;
    return 0;
}

int mvcc__backend_kv(const struct backend *b, struct backend_read *r, const struct mvcc_row *row,
                     struct bytes *kv, struct errmsg *em)
{
    uint8_t key[REV_KEY_TOMB_BYTES];
    int rc = b->get(r, TABLE_KEY, mvcc__rev_key(row->mod, row->sub, false, key), kv);
    if (rc != E_NOTFOUND) return rc;
    errmsg_set(em, "the store lacks revision %lld,%u that the index knows", (long long)row->mod,
               row->sub);
    return E_CORRUPT;
}

int mvcc_view_kv(struct mvcc_view *v, const struct mvcc_row *row, struct bytes *kv,
                 struct errmsg *em)
{
    ASSERT(!v->suspended);
    if (mvcc__pair_find(v->pair, row->mod, row->sub, kv)) return 0;
    int rc = mvcc__view_begin_read(v, em);
    if (rc < 0) return rc;
    return mvcc__backend_kv(v->m->backend, v->read, row, kv, em);
}

int mvcc_view_get(struct mvcc_view *v, struct bytes key, struct mvcc_row *out)
{
    ASSERT(v->pin != NULL);
    struct mvcc *m = v->m;
    mvcc__read_lock(m);
    bool broken = mvcc__pin_broken(v->pin);
    const struct mvcc_item *it = mvcc__tree_get(&m->tree, key);
    bool found = it != NULL && mvcc__item_at(it, v->rev, out);
    mvcc__read_unlock(m);
    if (broken) return E_INTR;
    return found ? 0 : E_NOTFOUND;
}

int mvcc_kv_strip(struct bytes kv, struct bytes *head, struct bytes *lease)
{
    enum { FIELD_VALUE = 5, FIELD_LEASE = 6 };
    struct pb_reader r = pb_reader_of(kv);
    struct bytes h = kv, tail = BYTES_EMPTY;
    for (;;) {
        const uint8_t *at = r.at;
        struct pb_field f;
        int rc = pb_next(&r, &f);
        if (rc < 0) return E_CORRUPT;
        if (rc == 0) break;
        if (f.number == FIELD_VALUE || f.number == FIELD_LEASE) {
            size_t before = (size_t)(at - kv.data);
            if (before < h.len) h = bytes_of(kv.data, before);
            if (f.number == FIELD_LEASE) tail = bytes_of(at, (size_t)(r.at - at));
        }
    }
    *head = h;
    *lease = tail;
    return 0;
}

int mvcc__key_copy(const struct alloc *a, struct bytes key, uint8_t **data, size_t *len,
                   size_t *cap)
{
    if (key.len > *cap) {
        size_t want = key.len < 64 ? 64 : key.len;
        uint8_t *grown = a->resize(a->arg, *data, *cap, want);
        if (grown == NULL) return E_NOMEM;
        *data = grown;
        *cap = want;
    }
    if (key.len > 0) memcpy(*data, key.data, key.len);
    *len = key.len;
    return 0;
}

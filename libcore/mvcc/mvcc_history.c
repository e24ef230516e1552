/* The changes of [from, to] in order, from the backend and both runs.
 *
 * A view's pair was taken before its transaction began, so the backend may hold rows that the runs hold as well, never
 * the other way round a gap. The first row of the older run is the border: below it the backend speaks, from it on the runs. */
#include "mvcc/mvcc_int.h"

enum { STAGE_BACKEND, STAGE_FROZEN, STAGE_ACTIVE, STAGE_END };

void mvcc_history_init(struct mvcc_history *h, struct mvcc_view *v, int64_t from, int64_t to)
{
    ASSERT(to <= v->rev || v->rev < 0);
    *h = (struct mvcc_history){.v = v, .from = from < 0 ? 0 : from, .to = to};
}

void mvcc_history_deinit(struct mvcc_history *h)
{
    if (h->cursor != NULL) h->v->m->backend->cursor_close(h->cursor);
    h->cursor = NULL;
    h->stage = STAGE_END;
}

static size_t run_rows(const struct mvcc_run *run)
{
    return run == NULL ? 0 : atomic_load_explicit(&run->row_count, memory_order_acquire);
}

/* The first row of the runs; false when they are empty. */
static bool runs_first(const struct mvcc_pair *p, struct mvcc_rev *out)
{
    const struct mvcc_run *run = run_rows(p->frozen) > 0 ? p->frozen : p->active;
    if (run_rows(run) == 0) return false;
    const struct mvcc_run_row *row = mvcc__run_at(run, 0);
    *out = (struct mvcc_rev){row->main, row->sub};
    return true;
}

static int next_stage(struct mvcc_history *h)
{
    h->stage++;
    h->positioned = false;
    return E_NOTFOUND;
}

static int backend_row(struct mvcc_history *h, struct bytes *k, struct bytes *v, struct errmsg *em)
{
    const struct backend *b = h->v->m->backend;
    if (h->positioned) return b->next(h->cursor, k, v);
    int rc = mvcc__view_begin_read(h->v, em);
    if (rc == 0) rc = b->cursor_open(h->v->read, TABLE_KEY, &h->cursor);
    if (rc < 0) return rc;
    h->positioned = true;
    uint8_t key[REV_KEY_TOMB_BYTES];
    return b->seek(h->cursor, mvcc__rev_key(h->from, 0, false, key), k, v);
}

static void backend_done(struct mvcc_history *h)
{
    if (h->cursor != NULL) h->v->m->backend->cursor_close(h->cursor);
    h->cursor = NULL;
}

/* The next one from the backend; E_NOTFOUND moves on to the runs. */
static int from_backend(struct mvcc_history *h, struct mvcc_change *out, struct errmsg *em)
{
    struct mvcc_rev first = {0};
    bool runs = runs_first(h->v->pair, &first);
    /* An entry's rows are in one run: what begins with `from` has all of it. */
    bool covered = first.main < h->from || (first.main == h->from && first.sub == 0);
    if (runs && covered) return next_stage(h);
    struct bytes k, v;
    struct mvcc_rev rev;
    bool tomb;
    int rc = backend_row(h, &k, &v, em);
    if (rc < 0 && rc != E_NOTFOUND) return rc;
    if (rc == 0 && mvcc__rev_parse(k, &rev, &tomb) < 0) {
        errmsg_set(em, "table \"key\": a key of %zu bytes is no revision", k.len);
        return E_CORRUPT;
    }
    bool over = rc == E_NOTFOUND || rev.main > h->to ||
                (runs && !mvcc__rev_less(rev.main, rev.sub, first.main, first.sub));
    if (over) {
        backend_done(h);
        return next_stage(h);
    }
    *out = (struct mvcc_change){.main = rev.main, .sub = rev.sub, .deletion = tomb, .kv = v};
    return 0;
}

static int from_run(struct mvcc_history *h, const struct mvcc_run *run, struct mvcc_change *out)
{
    size_t n = run_rows(run);
    if (n == 0) return next_stage(h);
    if (!h->positioned) {
        h->at = mvcc__run_lower(run, n, h->from, 0);
        h->positioned = true;
    }
    if (h->at >= n) return next_stage(h);
    const struct mvcc_run_row *row = mvcc__run_at(run, h->at);
    if (row->main > h->to) return next_stage(h);
    h->at++;
    *out = (struct mvcc_change){.main = row->main,
                                .sub = row->sub,
                                .deletion = row->tomb,
                                .kv = bytes_of(row->kv, row->kv_len)};
    return 0;
}

int mvcc_history_next(struct mvcc_history *h, struct mvcc_change *out, struct errmsg *em)
{
    ASSERT(!h->v->suspended);
    int rc = E_NOTFOUND;
    while (rc == E_NOTFOUND && h->stage != STAGE_END) {
        if (h->stage == STAGE_BACKEND) {
            rc = from_backend(h, out, em);
        } else {
            const struct mvcc_pair *p = h->v->pair;
            rc = from_run(h, h->stage == STAGE_FROZEN ? p->frozen : p->active, out);
        }
    }
    return rc;
}

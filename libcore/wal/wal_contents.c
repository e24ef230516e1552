/* What the records of a log amount to: for a restart, for a check, for the list of snapshots.
 *
 * Entries behind the start snapshot form a list without holes; a record for a position that is there already drops
 * that entry and all behind it first, as after a change of leader (disk-format.md 2.8). */
#include "base/assert.h"
#include "base/err.h"
#include "pb/wire.h"
#include "wal/wal_int.h"

static void contents_drop_from(struct wal_contents *c, size_t keep)
{
    while (c->entry_count > keep) {
        struct rcbuf *data = c->entries[--c->entry_count].data;
        c->entry_bytes -= rcbuf_bytes(data).len;
        rcbuf_unref(data);
    }
}

void wal_contents_deinit(struct wal_contents *c)
{
    contents_drop_from(c, 0);
    if (c->entries != NULL) alloc_free(c->alloc, c->entries, c->entry_cap * sizeof *c->entries);
    alloc_free(c->alloc, c->metadata, c->metadata_len);
    *c = WAL_CONTENTS_EMPTY;
}

/* ---- one record each ---------------------------------------------------------------------------------- */

static int bad(struct errmsg *em, int rc, const struct wal_view *v, const char *what)
{
    errmsg_set(em, "%s: in file '%s' at position: %llu", what, v->segment,
               (unsigned long long)v->offset);
    return rc;
}

static int entries_reserve(struct wal_contents *c)
{
    if (c->entry_count < c->entry_cap) return 0;
    size_t cap = c->entry_cap == 0 ? 64 : c->entry_cap * 2;
    struct raft_entry *v =
        c->alloc->resize(c->alloc->arg, c->entries, c->entry_cap * sizeof *v, cap * sizeof *v);
    if (v == NULL) return E_NOMEM;
    c->entries = v;
    c->entry_cap = cap;
    return 0;
}

static int entry_keep(struct wal_contents *c, const struct pb_entry *e, uint64_t position,
                      uint64_t bytes_max)
{
    ASSERT(position <= c->entry_count);
    contents_drop_from(c, (size_t)position);
    int rc = entries_reserve(c);
    if (rc < 0) return rc;
    if (e->data.len > bytes_max - c->entry_bytes) return E_TOOBIG;
    struct rcbuf *data = NULL;
    if (e->data.len > 0) {
        data = rcbuf_copy(c->alloc, e->data);
        if (data == NULL) return E_NOMEM;
    }
    c->entries[c->entry_count++] =
        (struct raft_entry){e->term, e->index, (enum raft_entry_type)e->type, data};
    c->entry_bytes += e->data.len;
    return 0;
}

static int on_entry(struct wal_reader *r, const struct wal_view *v, raft_index start,
                    struct wal_contents *c, struct errmsg *em)
{
    struct pb_entry e;
    if (pb_entry_decode(v->data, &e) < 0) return bad(em, E_CORRUPT, v, "entry does not parse");
    if (e.type < RAFT_ENTRY_NORMAL || e.type > RAFT_ENTRY_CONF_CHANGE_V2)
        return bad(em, E_CORRUPT, v, "entry of unknown type");
    if (e.index > start) {
        uint64_t position = e.index - start - 1;
        if (position > c->entry_count) {
            errmsg_set(em, "%s, snapshot[Index: %llu], current entry[Index: %llu, Term: %llu]",
                       err_text(E_WAL_HOLE), (unsigned long long)start, (unsigned long long)e.index,
                       (unsigned long long)e.term);
            return E_WAL_HOLE;
        }
        uint64_t max = r->o.contents_bytes_max;
        int rc = entry_keep(c, &e, position, max == 0 ? WAL_CONTENTS_BYTES_MAX : max);
        if (rc < 0) return bad(em, rc, v, "the log's entries do not fit into memory");
    }
    c->last_index = e.index;
    return 0;
}

static int on_metadata(const struct wal_view *v, struct wal_contents *c, struct errmsg *em)
{
    if (c->metadata != NULL) {
        if (bytes_eq(bytes_of(c->metadata, c->metadata_len), v->data)) return 0;
        return bad(em, E_WAL_METADATA, v, err_text(E_WAL_METADATA));
    }
    if (v->data.len == 0) return 0;
    c->metadata = alloc_new(c->alloc, v->data.len);
    if (c->metadata == NULL) return E_NOMEM;
    memcpy(c->metadata, v->data.data, v->data.len);
    c->metadata_len = v->data.len;
    return 0;
}

static int on_state(const struct wal_view *v, struct raft_hard_state *out, struct errmsg *em)
{
    struct pb_hard_state s;
    if (pb_hard_state_decode(v->data, &s) < 0) return bad(em, E_CORRUPT, v, "state does not parse");
    *out = (struct raft_hard_state){s.term, s.vote, s.commit};
    return 0;
}

/* Index and term of a snapshot record; its conf state is not looked at. */
static int snapshot_decode(const struct wal_view *v, struct wal_snapshot *out, struct errmsg *em)
{
    struct wal_snapshot s = {0};
    struct pb_reader in = pb_reader_of(v->data);
    struct pb_field f;
    int rc;
    while ((rc = pb_next(&in, &f)) == 1) {
        if (f.wire != PB_WIRE_VARINT) continue;
        if (f.number == 1) s.index = f.value;
        if (f.number == 2) s.term = f.value;
    }
    if (rc < 0) return bad(em, E_CORRUPT, v, "snapshot record does not parse");
    *out = s;
    return 0;
}

static int on_snapshot(const struct wal_view *v, struct wal_snapshot start, struct wal_contents *c,
                       struct errmsg *em)
{
    struct wal_snapshot s;
    int rc = snapshot_decode(v, &s, em);
    if (rc < 0 || s.index != start.index) return rc;
    if (s.term != start.term)
        return bad(em, E_WAL_SNAPSHOT_MISMATCH, v, err_text(E_WAL_SNAPSHOT_MISMATCH));
    c->start_found = true;
    return 0;
}

static int on_record(struct wal_reader *r, const struct wal_view *v, struct wal_snapshot start,
                     bool keep_entries, struct wal_contents *c, struct errmsg *em)
{
    switch (v->type) {
    case WAL_METADATA: return on_metadata(v, c, em);
    case WAL_ENTRY: return keep_entries ? on_entry(r, v, start.index, c, em) : 0;
    case WAL_STATE: return on_state(v, &c->hard_state, em);
    case WAL_SNAPSHOT: return on_snapshot(v, start, c, em);
    case WAL_CRC: return 0;
    }
    errmsg_set(em, "unexpected block type %lld", (long long)v->type);
    return E_CORRUPT;
}

int wal__collect(struct wal_reader *r, struct wal_snapshot start, bool keep_entries,
                 struct wal_contents *c, struct errmsg *em)
{
    struct wal_view v;
    int rc;
    while ((rc = wal_reader_next(r, &v, em)) == 0) {
        rc = on_record(r, &v, start, keep_entries, c, em);
        if (rc < 0) return rc;
    }
    return rc == E_NOTFOUND ? 0 : rc;
}

/* ---- read-only questions -------------------------------------------------------------------------------- */

static int read_only(const struct wal_opts *o, const char *dir, struct wal_snapshot start,
                     bool keep_entries, struct wal_contents *c, struct errmsg *em)
{
    struct wal_reader *r;
    int rc = wal_reader_open(o, dir, start.index, &r, em);
    if (rc < 0) return rc;
    rc = wal__collect(r, start, keep_entries, c, em);
    wal_reader_close(r);
    if (rc == E_EOF) {
        c->torn = true;
        rc = 0;
    }
    if (rc == 0 && !c->start_found) {
        errmsg_set(em, "%s: index %llu, term %llu", err_text(E_WAL_SNAPSHOT_NOT_FOUND),
                   (unsigned long long)start.index, (unsigned long long)start.term);
        rc = E_WAL_SNAPSHOT_NOT_FOUND;
    }
    return rc;
}

int wal_read(const struct wal_opts *o, const char *dir, struct wal_snapshot start,
             struct wal_contents *out, struct errmsg *em)
{
    struct wal_contents c = {.alloc = o->alloc};
    int rc = read_only(o, dir, start, true, &c, em);
    if (rc < 0 && rc != E_WAL_HOLE && rc != E_WAL_SNAPSHOT_NOT_FOUND) wal_contents_deinit(&c);
    *out = c;
    return rc;
}

int wal_verify(const struct wal_opts *o, const char *dir, struct wal_snapshot start,
               struct raft_hard_state *state, struct errmsg *em)
{
    struct wal_contents c = {.alloc = o->alloc};
    int rc = read_only(o, dir, start, false, &c, em);
    if (rc == 0) *state = c.hard_state;
    wal_contents_deinit(&c);
    return rc;
}

/* ---- snapshots ------------------------------------------------------------------------------------------- */

struct snapshot_list {
    const struct alloc *alloc;
    struct wal_snapshot *v;
    size_t count;
    size_t cap;
};

static int snapshot_add(struct snapshot_list *l, struct wal_snapshot s)
{
    if (l->count == l->cap) {
        size_t cap = l->cap == 0 ? 16 : l->cap * 2;
        struct wal_snapshot *v =
            l->alloc->resize(l->alloc->arg, l->v, l->cap * sizeof *v, cap * sizeof *v);
        if (v == NULL) return E_NOMEM;
        l->v = v;
        l->cap = cap;
    }
    l->v[l->count++] = s;
    return 0;
}

/* Like upstream's scan: records of other types are not judged here. */
static int snapshot_scan(struct wal_reader *r, struct snapshot_list *l,
                         struct raft_hard_state *state, raft_index *last, struct errmsg *em)
{
    struct wal_view v;
    int rc;
    while ((rc = wal_reader_next(r, &v, em)) == 0) {
        struct wal_snapshot s;
        if (v.type == WAL_STATE) rc = on_state(&v, state, em);
        if (v.type == WAL_SNAPSHOT) {
            rc = snapshot_decode(&v, &s, em);
            if (rc == 0) rc = snapshot_add(l, s);
            if (rc == 0 && s.index > *last) *last = s.index;
        }
        struct pb_entry e;
        if (v.type == WAL_ENTRY && pb_entry_decode(v.data, &e) == 0) *last = e.index;
        if (rc < 0) return rc;
    }
    return rc == E_NOTFOUND || rc == E_EOF ? 0 : rc;
}

/* Keeps those that are committed, in an array of exactly their number. */
static int snapshot_trim(struct snapshot_list *l, raft_index commit, struct wal_snapshot **out,
                         size_t *n)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++)
        if (l->v[i].index <= commit) l->v[kept++] = l->v[i];
    struct wal_snapshot *v = NULL;
    if (kept > 0) {
        v = alloc_new(l->alloc, kept * sizeof *v);
        if (v == NULL) return E_NOMEM;
        memcpy(v, l->v, kept * sizeof *v);
    }
    *out = v;
    *n = kept;
    return 0;
}

int wal_snapshots(const struct wal_opts *o, const char *dir, struct wal_snapshot **out, size_t *n,
                  struct errmsg *em)
{
    raft_index last;
    return wal_survey(o, dir, out, n, &last, em);
}

int wal_survey(const struct wal_opts *o, const char *dir, struct wal_snapshot **out, size_t *n,
               raft_index *last, struct errmsg *em)
{
    struct wal_reader *r;
    int rc = wal_reader_open_all(o, dir, &r, em);
    if (rc < 0) return rc;
    struct snapshot_list l = {.alloc = o->alloc};
    struct raft_hard_state state = {0};
    *last = 0;
    rc = snapshot_scan(r, &l, &state, last, em);
    wal_reader_close(r);
    if (rc == 0) rc = snapshot_trim(&l, state.commit, out, n);
    if (l.v != NULL) alloc_free(o->alloc, l.v, l.cap * sizeof *l.v);
    return rc;
}

void wal_snapshots_free(const struct wal_opts *o, struct wal_snapshot *list, size_t n)
{
    if (list != NULL) alloc_free(o->alloc, list, n * sizeof *list);
}

/* Birth and end of a handle: creation of a log, opening at a snapshot, closing. */
#include "base/assert.h"
#include "base/err.h"
#include "wal/wal_int.h"

/* ---- handles ---------------------------------------------------------------------------------------- */

static int wal_fill(struct wal *w, const char *dir, struct bytes metadata)
{
    size_t len = strlen(dir);
    if (len >= sizeof w->dir.text) return E_TOOBIG;
    memcpy(w->dir.text, dir, len + 1);
    w->buffer = alloc_new(w->o.alloc, WAL__BUFFER_BYTES + WAL__PAGE_BYTES);
    if (w->buffer == NULL) return E_NOMEM;
    if (metadata.len == 0) return 0;
    w->metadata = alloc_new(w->o.alloc, metadata.len);
    if (w->metadata == NULL) return E_NOMEM;
    memcpy(w->metadata, metadata.data, metadata.len);
    w->metadata_len = metadata.len;
    return 0;
}

int wal__new(const struct wal_opts *o, const char *dir, struct bytes metadata, struct wal **out)
{
    struct wal *w = alloc_zero(o->alloc, sizeof *w);
    if (w == NULL) return E_NOMEM;
    w->o = *o;
    w->segs.alloc = o->alloc;
    int rc = wal_fill(w, dir, metadata);
    if (rc < 0) {
        wal__free(w);
        return rc;
    }
    *out = w;
    return 0;
}

void wal__free(struct wal *w)
{
    const struct alloc *a = w->o.alloc;
    if (w->next != NULL) w->o.disk->close(w->o.disk->arg, w->next);
    wal__segments_close(&w->segs, w->o.disk);
    wal__segments_deinit(&w->segs);
    alloc_free(a, w->buffer, WAL__BUFFER_BYTES + WAL__PAGE_BYTES);
    alloc_free(a, w->metadata, w->metadata_len);
    alloc_free(a, w, sizeof *w);
}

int wal_close(struct wal *w, struct errmsg *em)
{
    if (w == NULL) return 0;
    int rc = w->failed ? 0 : wal_sync(w, em);
    wal__drop_next(w);
    wal__free(w);
    return rc;
}

void wal_abandon(struct wal *w)
{
    if (w != NULL) wal__free(w);
}

int wal_exists(const struct wal_opts *o, const char *dir, bool *exists, struct errmsg *em)
{
    struct disk_stat st;
    int rc = o->disk->stat(o->disk->arg, dir, &st);
    if (rc == E_NOENT) {
        *exists = false;
        return 0;
    }
    if (rc < 0) return wal_fs_fail(em, rc, "look at", dir);
    struct wal_fs_names names = {0};
    rc = wal_fs_list(o->disk, o->alloc, dir, &names, em);
    if (rc < 0) return rc;
    *exists = false;
    for (size_t i = 0; i < names.count; i++)
        if (wal_fs_has_suffix(names.v[i], ".wal")) *exists = true;
    wal_fs_names_deinit(&names);
    return 0;
}

/* ---- opening ------------------------------------------------------------------------------------------ */

/* Opens and locks every segment, without waiting. */
static int lock_all(const struct wal_opts *o, const char *dir, struct wal__segments *segs,
                    struct errmsg *em)
{
    const struct disk *d = o->disk;
    for (size_t i = 0; i < segs->count; i++) {
        struct wal_path path;
        int rc = wal_fs_join(dir, segs->v[i].name, &path, em);
        if (rc < 0) return rc;
        rc = d->open(d->arg, path.text, DISK_WRITE, 0600, &segs->v[i].file);
        if (rc < 0) {
            segs->v[i].file = NULL;
            return wal_fs_fail(em, rc, "open", path.text);
        }
        rc = d->lock(d->arg, segs->v[i].file, false);
        if (rc < 0) return wal_fs_fail(em, rc, "lock", path.text);
    }
    return 0;
}

/* Behind the last record there may be remains of later ones, hidden by a zero length word. They were never synced;
 * overwriting a part of them would make a log that reads as corrupt. So they go, durably, before anything is written. */
static int zero_tail(struct wal *w, struct errmsg *em)
{
    const struct disk *d = w->o.disk;
    struct disk_file *f = wal__tail(w)->file;
    struct disk_stat st;
    int rc = d->file_stat(d->arg, f, &st);
    if (rc < 0) return wal__fail(w, rc, "look at", em);
    if (st.size_bytes <= w->offset) return 0;
    rc = d->truncate(d->arg, f, w->offset);
    if (rc == 0) rc = d->allocate(d->arg, f, st.size_bytes);
    if (rc == 0) rc = d->datasync(d->arg, f);
    return rc < 0 ? wal__fail(w, rc, "zero the rest of", em) : 0;
}

/* Makes the handle ready to append where the reader came to its end. */
static int stand_at_end(struct wal *w, const struct wal_reader *r, raft_index last_index,
                        struct errmsg *em)
{
    w->offset = wal_reader_offset(r);
    w->crc = wal_reader_crc(r);
    w->last_index = last_index;
    int rc = zero_tail(w, em);
    if (rc < 0 || w->offset > 0) return rc;
    /* An empty last segment gets its head again, so that it can be read without the one before. */
    rc = wal__put_head(w, em);
    return rc < 0 ? rc : wal_sync(w, em);
}

static int read_for_writing(const struct wal_opts *o, const char *dir, struct wal_snapshot start,
                            struct wal__segments *segs, struct wal_contents *c, struct wal **out,
                            struct errmsg *em)
{
    struct wal_reader *r;
    int rc = wal__reader_over(o, dir, segs, &r);
    if (rc < 0) return rc;
    struct wal *w = NULL;
    rc = wal__collect(r, start, true, c, em);
    if (rc == 0) rc = wal__new(o, dir, bytes_of(c->metadata, c->metadata_len), &w);
    if (rc == 0) {
        w->segs = *segs;
        *segs = (struct wal__segments){.alloc = o->alloc};
        rc = stand_at_end(w, r, c->last_index, em);
    }
    wal_reader_close(r);
    if (rc < 0) {
        wal_abandon(w);
        return rc;
    }
    *out = w;
    return 0;
}

int wal_open(const struct wal_opts *o, const char *dir, struct wal_snapshot start,
             struct wal_contents *contents, struct wal **out, struct errmsg *em)
{
    struct wal__segments segs = {.alloc = o->alloc};
    struct wal_contents c = {.alloc = o->alloc};
    int rc = wal__segments_list(o, dir, &segs, em);
    if (rc < 0) return rc;
    rc = wal__segments_select(&segs, start.index, em);
    if (rc == 0) rc = lock_all(o, dir, &segs, em);
    if (rc == 0) rc = read_for_writing(o, dir, start, &segs, &c, out, em);
    wal__segments_close(&segs, o->disk);
    wal__segments_deinit(&segs);
    if (rc < 0) {
        wal_contents_deinit(&c);
        return rc;
    }
    *contents = c;
    return 0;
}

int wal_open_repair(const struct wal_opts *o, const char *dir, struct wal_snapshot start,
                    struct wal_contents *contents, bool *repaired, struct wal **out,
                    struct errmsg *em)
{
    bool did = false;
    int rc = wal_open(o, dir, start, contents, out, em);
    if (rc == E_EOF) {
        rc = wal_repair(o, dir, &did, em);
        if (rc == 0) rc = wal_open(o, dir, start, contents, out, em);
    }
    if (repaired != NULL) *repaired = did;
    return rc;
}

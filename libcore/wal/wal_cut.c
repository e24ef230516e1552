/* The next segment: made ahead of time, filled with its head, renamed into place.
 *
 * A crash at any step leaves a log that ends at the last synced record: the old segment is exact and synced before
 * the new one gets its name, and the new one has its whole head, synced, before that. The prepared file is 0.tmp
 * or 1.tmp in turn; one that a crash left behind is emptied first, for its content is not known. */
#include "base/assert.h"
#include "base/err.h"
#include "wal/wal_int.h"

static const char *next_name(const struct wal *w)
{
    return w->next_count % 2 == 0 ? "0.tmp" : "1.tmp";
}

static int prepare_file(const struct wal_opts *o, struct disk_file *f)
{
    const struct disk *d = o->disk;
    int rc = d->lock(d->arg, f, true);
    if (rc == 0) rc = d->truncate(d->arg, f, 0);
    if (rc == 0) rc = d->allocate(d->arg, f, wal__segment_bytes(o));
    return rc;
}

int wal__make_segment(const struct wal_opts *o, const char *path, struct disk_file **out,
                      struct errmsg *em)
{
    const struct disk *d = o->disk;
    struct disk_file *f;
    int rc = d->open(d->arg, path, DISK_WRITE | DISK_CREATE, 0600, &f);
    if (rc < 0) return wal_fs_fail(em, rc, "make WAL segment", path);
    rc = prepare_file(o, f);
    if (rc < 0) {
        (void)d->unlink(d->arg, path); /* the first error is the one to tell */
        d->close(d->arg, f);
        return wal_fs_fail(em, rc, "allocate WAL segment", path);
    }
    *out = f;
    return 0;
}

int wal_prepare_next(struct wal *w, struct errmsg *em)
{
    if (w->failed) {
        errmsg_set(em, "the WAL in \"%s\" has failed before and takes no more", w->dir.text);
        return E_IO;
    }
    if (w->next != NULL) return 0;
    struct wal_path path;
    int rc = wal_fs_join(w->dir.text, next_name(w), &path, em);
    if (rc < 0) return rc;
    return wal__make_segment(&w->o, path.text, &w->next, em);
}

void wal__drop_next(struct wal *w)
{
    if (w->next == NULL) return;
    struct wal_path path;
    if (wal_fs_join(w->dir.text, next_name(w), &path, NULL) == 0)
        (void)w->o.disk->unlink(w->o.disk->arg, path.text); /* a leftover is reused */
    w->o.disk->close(w->o.disk->arg, w->next);
    w->next = NULL;
}

/* Ends the current segment at exactly its content, durable. */
static int seal_tail(struct wal *w, struct errmsg *em)
{
    const struct disk *d = w->o.disk;
    struct disk_file *f = wal__tail(w)->file;
    int rc = wal__flush(w, em);
    if (rc < 0) return rc;
    rc = d->truncate(d->arg, f, w->offset);
    if (rc < 0) return wal__fail(w, rc, "truncate", em);
    rc = w->o.unsafe_no_sync ? 0 : d->datasync(d->arg, f);
    if (rc < 0) return wal__fail(w, rc, "sync", em);
    w->unsynced = false;
    w->sync_due = false;
    return 0;
}

/* Makes the prepared file the tail, still under its temporary name. Room was reserved. */
static void adopt_next(struct wal *w)
{
    ASSERT(w->next != NULL);
    ASSERT(w->buffered == 0);
    ASSERT(w->segs.count < w->segs.cap);
    struct wal__segment s = {.seq = wal__tail(w)->seq + 1, .first = w->last_index + 1};
    wal__name_format(s.seq, s.first, s.name);
    s.file = w->next;
    w->segs.v[w->segs.count++] = s;
    w->next = NULL;
    w->offset = 0;
}

static int name_tail(struct wal *w, const char *temporary, struct errmsg *em)
{
    const struct disk *d = w->o.disk;
    struct wal_path from;
    struct wal_path to;
    int rc = wal_fs_join(w->dir.text, temporary, &from, em);
    if (rc == 0) rc = wal_fs_join(w->dir.text, wal__tail(w)->name, &to, em);
    if (rc < 0) return wal__fail(w, rc, "name", em);
    rc = d->rename(d->arg, from.text, to.text);
    if (rc < 0) return wal__fail(w, rc, "rename", em);
    rc = w->o.unsafe_no_sync ? 0 : d->sync_dir(d->arg, w->dir.text);
    return rc < 0 ? wal__fail(w, rc, "sync the folder of", em) : 0;
}

/* Without room for the next segment the current one just grows: a longer segment is as good to read, and the
 * space that is left is better used for records. The next save tries again. */
static int put_off(struct wal *w, int rc)
{
    if (w->put_off) return 0; /* said once, not at each save */
    w->put_off = true;
    LOG(w->o.log, LOG_WARN, "cannot allocate the next WAL segment; the current one grows",
        LOGF_STR("path", w->segs.v[w->segs.count - 1].name), LOGF_STR("error", err_text(rc)));
    return 0;
}

int wal__cut(struct wal *w, struct errmsg *em)
{
    int rc = wal__segments_reserve(&w->segs);
    if (rc == 0) rc = wal_prepare_next(w, em);
    if (rc == E_NOSPACE || rc == E_NOMEM) return put_off(w, rc);
    if (rc < 0) return wal__fail(w, rc, "prepare the one after", em);
    w->put_off = false;
    rc = seal_tail(w, em);
    if (rc < 0) return rc;
    const char *temporary = next_name(w);
    adopt_next(w);
    w->next_count++;
    rc = wal__put_head(w, em);
    if (rc == 0) rc = wal_sync(w, em);
    if (rc == 0) rc = name_tail(w, temporary, em);
    if (rc < 0) return rc;
    LOG(w->o.log, LOG_INFO, "created a new WAL segment", LOGF_STR("path", wal__tail(w)->name));
    return 0;
}

void wal_release(struct wal *w, raft_index index)
{
    size_t smaller = w->segs.count - 1;
    for (size_t i = 0; i < w->segs.count; i++) {
        if (w->segs.v[i].first < index) continue;
        smaller = i == 0 ? 0 : i - 1;
        break;
    }
    wal__segments_drop(&w->segs, w->o.disk, smaller);
    ASSERT(w->segs.count > 0);
}

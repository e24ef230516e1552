/* Repair of a torn end, and the end of segments that nobody needs. */
#include "base/assert.h"
#include "base/err.h"
#include "wal/wal_int.h"

/* ---- repair -------------------------------------------------------------------------------------------- */

static bool all_zero(const uint8_t *p, size_t n)
{
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* Copies `size_bytes`; parts that are all zero stay holes. */
static int copy_bytes(const struct wal_opts *o, struct disk_file *from, struct disk_file *to,
                      uint64_t size_bytes)
{
    const struct disk *d = o->disk;
    uint8_t *chunk = alloc_new(o->alloc, WAL__BUFFER_BYTES);
    if (chunk == NULL) return E_NOMEM;
    int rc = d->truncate(d->arg, to, size_bytes);
    for (uint64_t at = 0; at < size_bytes && rc == 0;) {
        size_t got = 0;
        rc = d->read(d->arg, from, at, chunk, WAL__BUFFER_BYTES, &got);
        if (rc == 0 && got == 0) rc = E_EOF;
        if (rc == 0 && !all_zero(chunk, got)) rc = d->write(d->arg, to, at, bytes_of(chunk, got));
        at += got;
    }
    alloc_free(o->alloc, chunk, WAL__BUFFER_BYTES);
    return rc == 0 ? d->datasync(d->arg, to) : rc;
}

static int keep_copy(const struct wal_opts *o, const char *path, struct disk_file *f,
                     struct errmsg *em)
{
    const struct disk *d = o->disk;
    struct wal_path copy;
    size_t len = strlen(path);
    if (len + sizeof ".broken" > sizeof copy.text) return wal_fs_fail(em, E_TOOBIG, "copy", path);
    memcpy(copy.text, path, len);
    memcpy(copy.text + len, ".broken", sizeof ".broken");
    struct disk_stat st;
    struct disk_file *to;
    int rc = d->file_stat(d->arg, f, &st);
    if (rc < 0) return wal_fs_fail(em, rc, "look at", path);
    rc = d->open(d->arg, copy.text, DISK_WRITE | DISK_CREATE | DISK_TRUNCATE, 0600, &to);
    if (rc < 0) return wal_fs_fail(em, rc, "make", copy.text);
    rc = copy_bytes(o, f, to, st.size_bytes);
    d->close(d->arg, to);
    return rc < 0 ? wal_fs_fail(em, rc, "write", copy.text) : 0;
}

/* Reads the one segment to its end. 0: clean; E_EOF: torn behind `*good`. */
static int find_end(const struct wal_opts *o, const char *dir, const struct wal__segments *one,
                    uint64_t *good, struct errmsg *em)
{
    struct wal_reader *r;
    int rc = wal__reader_over(o, dir, one, &r);
    if (rc < 0) return rc;
    struct wal_view v;
    while ((rc = wal_reader_next(r, &v, em)) == 0) {}
    *good = wal_reader_offset(r);
    wal_reader_close(r);
    return rc == E_NOTFOUND ? 0 : rc;
}

static int cut_off(const struct wal_opts *o, const char *dir, const char *path, struct disk_file *f,
                   uint64_t good, struct errmsg *em)
{
    const struct disk *d = o->disk;
    int rc = keep_copy(o, path, f, em);
    if (rc < 0) return rc;
    rc = d->sync_dir(d->arg, dir);
    if (rc == 0) rc = d->truncate(d->arg, f, good);
    if (rc == 0) rc = d->datasync(d->arg, f);
    return rc < 0 ? wal_fs_fail(em, rc, "repair", path) : 0;
}

/* `one` holds just the last segment. */
static int repair_last(const struct wal_opts *o, const char *dir, struct wal__segments *one,
                       bool *repaired, struct errmsg *em)
{
    const struct disk *d = o->disk;
    struct wal_path path;
    int rc = wal_fs_join(dir, one->v[0].name, &path, em);
    if (rc < 0) return rc;
    rc = d->open(d->arg, path.text, DISK_WRITE, 0600, &one->v[0].file);
    if (rc < 0) {
        one->v[0].file = NULL;
        return wal_fs_fail(em, rc, "open", path.text);
    }
    rc = d->lock(d->arg, one->v[0].file, false);
    if (rc < 0) return wal_fs_fail(em, rc, "lock", path.text);
    LOG(o->log, LOG_INFO, "repairing", LOGF_STR("path", path.text));
    uint64_t good = 0;
    rc = find_end(o, dir, one, &good, em);
    if (rc == E_EOF) {
        rc = cut_off(o, dir, path.text, one->v[0].file, good, em);
        *repaired = rc == 0;
    }
    if (rc == 0)
        LOG(o->log, LOG_INFO, "repaired", LOGF_STR("path", path.text), LOGF_UINT("offset", good));
    return rc;
}

int wal_repair(const struct wal_opts *o, const char *dir, bool *repaired, struct errmsg *em)
{
    struct wal__segments segs = {0};
    int rc = wal__segments_list(o, dir, &segs, em);
    if (rc < 0) return rc;
    bool did = false;
    if (segs.count == 0) {
        errmsg_set(em, "no WAL segment in \"%s\"", dir);
        rc = E_WAL_FILE_NOT_FOUND;
    } else {
        wal__segments_drop(&segs, o->disk, segs.count - 1);
        rc = repair_last(o, dir, &segs, &did, em);
    }
    wal__segments_close(&segs, o->disk);
    wal__segments_deinit(&segs);
    if (repaired != NULL) *repaired = did;
    return rc;
}

/* ---- purge --------------------------------------------------------------------------------------------- */

/* Deletes one segment that nobody holds. E_LOCKED. */
static int purge_one(const struct wal_opts *o, const char *path, struct errmsg *em)
{
    const struct disk *d = o->disk;
    struct disk_file *f;
    int rc = d->open(d->arg, path, DISK_WRITE, 0600, &f);
    if (rc < 0) return wal_fs_fail(em, rc, "open", path);
    rc = d->lock(d->arg, f, false);
    if (rc == 0) {
        rc = d->unlink(d->arg, path);
        if (rc < 0) wal_fs_fail(em, rc, "remove", path);
    }
    d->close(d->arg, f);
    if (rc == 0) LOG(o->log, LOG_INFO, "purged", LOGF_STR("path", path));
    return rc;
}

static int purge_names(const struct wal_opts *o, const char *dir, const struct wal_fs_names *names,
                       size_t excess, size_t *removed, struct errmsg *em)
{
    struct wal_path path;
    for (size_t i = 0; i < names->count && *removed < excess; i++) {
        if (!wal_fs_has_suffix(names->v[i], "wal")) continue;
        int rc = wal_fs_join(dir, names->v[i], &path, em);
        if (rc == 0) rc = purge_one(o, path.text, em);
        if (rc == E_LOCKED) return 0;
        if (rc < 0) return rc;
        (*removed)++;
    }
    return 0;
}

int wal_purge(const struct wal_opts *o, const char *dir, size_t keep, size_t *removed,
              struct errmsg *em)
{
    struct wal_fs_names names = {0};
    size_t done = 0;
    int rc = keep == 0 ? 0 : wal_fs_list(o->disk, o->alloc, dir, &names, em);
    if (rc < 0) return rc;
    size_t count = 0;
    for (size_t i = 0; i < names.count; i++)
        count += wal_fs_has_suffix(names.v[i], "wal");
    if (keep > 0 && count > keep) rc = purge_names(o, dir, &names, count - keep, &done, em);
    wal_fs_names_deinit(&names);
    if (removed != NULL) *removed = done;
    return rc;
}

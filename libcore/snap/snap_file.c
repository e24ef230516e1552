/* One .snap file: snappb.snapshot { crc, data }, data = raftpb.Snapshot { data, metadata }. */
#include <stdio.h>

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/err.h"
#include "pb/raftpb.h"
#include "pb/wire.h"
#include "snap/snap_int.h"
#include "wal/wal_conf.h"

void snap_deinit(struct snap *s)
{
    buf_deinit(&s->file);
    *s = SNAP_EMPTY;
}

/* ---- reading ------------------------------------------------------------------------------------------ */

static int refuse(struct errmsg *em, int rc, const char *what)
{
    errmsg_set(em, "%s", what == NULL ? err_text(rc) : what);
    return rc;
}

/* Whether `data` is a row of well-formed fields. */
static bool well_formed(struct bytes data)
{
    struct pb_reader in = pb_reader_of(data);
    struct pb_field f;
    int rc;
    while ((rc = pb_next(&in, &f)) == 1) {}
    return rc == 0;
}

static int decode_metadata(struct bytes data, struct snap *out)
{
    struct pb_reader in = pb_reader_of(data);
    struct pb_field f;
    int rc;
    while ((rc = pb_next(&in, &f)) == 1) {
        if (f.number == 1 && f.wire == PB_WIRE_LEN) out->conf = f.data;
        if (f.number == 2 && f.wire == PB_WIRE_VARINT) out->index = f.value;
        if (f.number == 3 && f.wire == PB_WIRE_VARINT) out->term = f.value;
    }
    return rc == 0 && well_formed(out->conf) ? 0 : E_CORRUPT;
}

static int decode_inner(struct bytes data, struct snap *out)
{
    struct pb_reader in = pb_reader_of(data);
    struct pb_field f;
    int rc;
    while ((rc = pb_next(&in, &f)) == 1) {
        if (f.wire != PB_WIRE_LEN) continue;
        if (f.number == 1) out->data = f.data;
        if (f.number == 2 && decode_metadata(f.data, out) < 0) return E_CORRUPT;
    }
    return rc == 0 ? 0 : E_CORRUPT;
}

int snap_decode(struct bytes file, struct snap *out, struct errmsg *em)
{
    if (file.len == 0) return refuse(em, E_SNAP_EMPTY, NULL);
    struct pb_snap_file f;
    if (pb_snap_file_decode(file, &f) < 0) return refuse(em, E_CORRUPT, "snap: not a snapshot");
    if (f.data.len == 0 || f.crc == 0) return refuse(em, E_SNAP_EMPTY, NULL);
    if (crc32c(f.data) != f.crc) return refuse(em, E_SNAP_CRC, NULL);
    struct snap s = SNAP_EMPTY;
    if (decode_inner(f.data, &s) < 0) return refuse(em, E_CORRUPT, "snap: content does not parse");
    *out = s;
    return 0;
}

int snap_read(const struct snap_opts *o, const char *path, struct snap *out, struct errmsg *em)
{
    struct buf file;
    buf_init(&file, o->alloc, SNAP_FILE_BYTES_MAX);
    int rc = wal_fs_read(o->disk, path, &file, em);
    if (rc == 0) {
        rc = snap_decode(buf_bytes(&file), out, em);
        if (rc < 0) errmsg_prefix(em, "\"%s\"", path);
    }
    if (rc < 0) {
        buf_deinit(&file);
        return rc;
    }
    out->file = file;
    return 0;
}

/* ---- writing ------------------------------------------------------------------------------------------ */

int snap_encode(const struct snap_content *c, struct buf *out)
{
    ASSERT(c->conf != NULL);
    struct pb_snapshot s = {.data = c->data, .index = c->index, .term = c->term};
    s.conf_state = wal_conf_view(c->conf);
    s.conf_state.auto_leave_unset = c->bare_conf && !c->conf->auto_leave;
    struct buf inner;
    buf_init(&inner, out->alloc, SNAP_FILE_BYTES_MAX);
    int rc = pb_snapshot_put(&s, &inner);
    struct pb_snap_file f = {crc32c(buf_bytes(&inner)), buf_bytes(&inner)};
    if (rc == 0) rc = pb_snap_file_put(&f, out);
    buf_deinit(&inner);
    return rc;
}

static int write_synced(const struct snap_opts *o, const char *path, struct bytes content)
{
    const struct disk *d = o->disk;
    struct disk_file *f;
    int rc = d->open(d->arg, path, DISK_WRITE | DISK_CREATE | DISK_TRUNCATE, 0666, &f);
    if (rc < 0) return rc;
    rc = d->write(d->arg, f, 0, content);
    if (rc == 0) rc = d->datasync(d->arg, f);
    d->close(d->arg, f);
    if (rc < 0) (void)d->unlink(d->arg, path); /* the first error is the one to tell */
    return rc;
}

int snap_write(const struct snap_opts *o, const char *dir, const struct snap_content *c,
               struct errmsg *em)
{
    ASSERT(c->index > 0);
    char name[SNAP_NAME_BYTES_MAX];
    int n = snprintf(name, sizeof name, "%016llx-%016llx.snap", (unsigned long long)c->term,
                     (unsigned long long)c->index);
    ASSERT(n == 38);
    struct wal_path path;
    int rc = wal_fs_join(dir, name, &path, em);
    if (rc < 0) return rc;
    struct buf content;
    buf_init(&content, o->alloc, SNAP_FILE_BYTES_MAX);
    rc = snap_encode(c, &content);
    if (rc == 0) rc = write_synced(o, path.text, buf_bytes(&content));
    if (rc == 0) rc = o->disk->sync_dir(o->disk->arg, dir);
    buf_deinit(&content);
    return rc < 0 ? wal_fs_fail(em, rc, "write", path.text) : 0;
}

/* The data directory at start: made, tested, swept. */
#include "snap/datadir.h"

#include <stdio.h>

#include "base/err.h"
#include "wal/wal_fs.h"

static bool print_path(char out[DATADIR_PATH_BYTES_MAX], const char *dir, const char *name)
{
    int n = snprintf(out, DATADIR_PATH_BYTES_MAX, "%s%s", dir, name);
    return n > 0 && n < DATADIR_PATH_BYTES_MAX;
}

int datadir_init(struct datadir *d, const char *root, const char *wal_dir)
{
    bool own_wal = wal_dir == NULL || wal_dir[0] == '\0';
    bool fits = print_path(d->root, root, "") && print_path(d->member, root, "/member") &&
                print_path(d->snap, root, "/member/snap") &&
                print_path(d->db, root, "/member/snap/db") &&
                print_path(d->wal, own_wal ? root : wal_dir, own_wal ? "/member/wal" : "");
    return fits ? 0 : E_TOOBIG;
}

static void warn_mode(const struct snap_opts *o, const char *dir)
{
    struct disk_stat st;
    if (o->disk->stat(o->disk->arg, dir, &st) != 0 || (st.mode & 0777) == 0700) return;
    LOG(o->log, LOG_WARN, "check file permission", LOGF_STR("path", dir),
        LOGF_UINT("mode", st.mode & 0777));
}

int datadir_touch(const struct snap_opts *o, const char *dir, struct errmsg *em)
{
    const struct disk *d = o->disk;
    int rc = wal_fs_mkdir_all(d, dir, em);
    if (rc < 0) return rc;
    warn_mode(o, dir);
    struct wal_path path;
    rc = wal_fs_join(dir, ".touch", &path, em);
    if (rc < 0) return rc;
    struct disk_file *f;
    rc = d->open(d->arg, path.text, DISK_WRITE | DISK_CREATE | DISK_TRUNCATE, 0600, &f);
    if (rc == 0) {
        d->close(d->arg, f);
        rc = d->unlink(d->arg, path.text);
    }
    return rc < 0 ? wal_fs_fail(em, rc, "write to data folder", dir) : 0;
}

/* Half-received stores and interrupted defragmentations: nobody will finish them. */
static bool is_stray(const char *name)
{
    return wal_fs_has_prefix(name, "tmp") || wal_fs_has_prefix(name, "db.tmp");
}

static int sweep(const struct snap_opts *o, const char *dir, struct errmsg *em)
{
    struct wal_fs_names names = {0};
    int rc = wal_fs_list(o->disk, o->alloc, dir, &names, em);
    for (size_t i = 0; i < names.count && rc == 0; i++) {
        if (!is_stray(names.v[i])) continue;
        struct wal_path path;
        rc = wal_fs_join(dir, names.v[i], &path, em);
        if (rc < 0) break;
        rc = o->disk->unlink(o->disk->arg, path.text);
        if (rc < 0)
            wal_fs_fail(em, rc, "remove", path.text);
        else
            LOG(o->log, LOG_INFO, "found and removed a leftover file", LOGF_STR("path", path.text));
    }
    wal_fs_names_deinit(&names);
    return rc;
}

int datadir_prepare(const struct datadir *d, const struct snap_opts *o, struct errmsg *em)
{
    int rc = datadir_touch(o, d->root, em);
    if (rc == 0) rc = datadir_touch(o, d->member, em);
    if (rc == 0) rc = datadir_touch(o, d->snap, em);
    if (rc == 0) rc = sweep(o, d->snap, em);
    return rc;
}

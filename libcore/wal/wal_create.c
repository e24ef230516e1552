/* Creation of a log: all or nothing.
 *
 * Everything is made in DIR.tmp and synced, the folder is renamed to DIR, the parent folder is synced. If that last
 * sync fails nobody can say which name will be there after a crash, so the folder is set aside as
 * DIR.broken.TIME. */
#include <stdio.h>
#include <time.h>

#include "base/assert.h"
#include "base/err.h"
#include "wal/wal_int.h"

enum { NS_PER_S = 1000000000, STAMP_BYTES_MAX = 40 };

static int first_segment(struct wal *w, const char *building, struct errmsg *em)
{
    int rc = wal__segments_reserve(&w->segs);
    if (rc < 0) return rc;
    struct wal__segment s = {0};
    wal__name_format(0, 0, s.name);
    struct wal_path path;
    rc = wal_fs_join(building, s.name, &path, em);
    if (rc == 0) rc = wal__make_segment(&w->o, path.text, &s.file, em);
    if (rc < 0) return rc;
    w->segs.v[w->segs.count++] = s;
    rc = wal__put_head(w, em);
    if (rc == 0) rc = wal_save_snapshot(w, (struct wal_snapshot){0, 0}, NULL, em);
    if (rc == 0) rc = wal_sync(w, em);
    if (rc < 0) return rc;
    rc = w->o.disk->sync_dir(w->o.disk->arg, building);
    return rc < 0 ? wal_fs_fail(em, rc, "sync folder", building) : 0;
}

/* "20060102.150405.999999": up to six digits of fraction, trailing zeros dropped. */
static void stamp(const struct clock *clock, char out[STAMP_BYTES_MAX])
{
    int64_t now_ns = clock == NULL ? 0 : clock->wall_ns(clock->arg);
    time_t s = (time_t)(now_ns / NS_PER_S);
    struct tm tm = {0};
    (void)gmtime_r(&s, &tm);
    size_t n = strftime(out, STAMP_BYTES_MAX, "%Y%m%d.%H%M%S", &tm);
    int m = snprintf(out + n, STAMP_BYTES_MAX - n, ".%06d", (int)(now_ns % NS_PER_S / 1000));
    ASSERT(m == 7);
    size_t len = n + (size_t)m;
    while (out[len - 1] == '0')
        out[--len] = '\0';
    if (out[len - 1] == '.') out[len - 1] = '\0';
}

static void set_aside(struct wal *w)
{
    char when[STAMP_BYTES_MAX];
    stamp(w->o.clock, when);
    struct wal_path to;
    int n = snprintf(to.text, sizeof to.text, "%s.broken.%s", w->dir.text, when);
    if (n <= 0 || (size_t)n >= sizeof to.text) return;
    int rc = w->o.disk->rename(w->o.disk->arg, w->dir.text, to.text);
    if (rc < 0)
        LOG(w->o.log, LOG_ERROR, "failed to rename WAL during cleanup",
            LOGF_STR("source-path", w->dir.text), LOGF_STR("rename-path", to.text));
}

/* From the folder under construction to the log. */
static int publish(struct wal *w, const char *building, const char *parent, struct errmsg *em)
{
    const struct disk *d = w->o.disk;
    int rc = wal_fs_remove_dir(d, w->o.alloc, w->dir.text, em);
    if (rc < 0) return rc;
    rc = d->rename(d->arg, building, w->dir.text);
    if (rc < 0) return wal_fs_fail(em, rc, "rename", building);
    rc = d->sync_dir(d->arg, parent);
    if (rc == 0) return 0;
    set_aside(w);
    return wal_fs_fail(em, rc, "sync folder", parent);
}

static int build(struct wal *w, const char *building, struct errmsg *em)
{
    const struct disk *d = w->o.disk;
    struct wal_path parent;
    int rc = wal_fs_parent(w->dir.text, &parent, em);
    if (rc == 0) rc = wal_fs_remove_dir(d, w->o.alloc, building, em);
    if (rc == 0) rc = wal_fs_mkdir_all(d, building, em);
    if (rc == 0) rc = first_segment(w, building, em);
    if (rc == 0) rc = publish(w, building, parent.text, em);
    if (rc < 0)
        (void)wal_fs_remove_dir(d, w->o.alloc, building, NULL); /* the first error is told */
    return rc;
}

/* DIR without trailing slashes, and DIR.tmp. */
static int name_places(const char *dir, struct wal_path *clean, struct wal_path *building,
                       struct errmsg *em)
{
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/')
        len--;
    if (len + sizeof ".tmp" > sizeof clean->text) return wal_fs_fail(em, E_TOOBIG, "make", dir);
    memcpy(clean->text, dir, len);
    clean->text[len] = '\0';
    memcpy(building->text, dir, len);
    memcpy(building->text + len, ".tmp", sizeof ".tmp");
    return 0;
}

int wal_create(const struct wal_opts *o, const char *dir, struct bytes metadata, struct wal **out,
               struct errmsg *em)
{
    struct wal_path clean;
    struct wal_path building;
    int rc = name_places(dir, &clean, &building, em);
    if (rc < 0) return rc;
    bool exists;
    rc = wal_exists(o, clean.text, &exists, em);
    if (rc == 0 && exists) rc = wal_fs_fail(em, E_EXIST, "make a WAL in", clean.text);
    if (rc < 0) return rc;
    struct wal *w;
    rc = wal__new(o, clean.text, metadata, &w);
    if (rc < 0) return rc;
    rc = build(w, building.text, em);
    if (rc < 0) {
        wal__free(w);
        return rc;
    }
    *out = w;
    return 0;
}

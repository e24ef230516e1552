/* The snapshot folder: which files there are, which one to load, which ones to let go. */
#include <stdio.h>

#include "base/assert.h"
#include "base/err.h"
#include "snap/snap_int.h"

enum { HEX_DIGITS = 16 };

/* Exactly 16 hex digits, of lower case as we and upstream write them. */
static bool hex16(const char *text, uint64_t *out)
{
    uint64_t v = 0;
    for (int i = 0; i < HEX_DIGITS; i++) {
        char c = text[i];
        bool digit = c >= '0' && c <= '9';
        if (!digit && (c < 'a' || c > 'f')) return false;
        v = v << 4 | (uint64_t)(digit ? c - '0' : c - 'a' + 10);
    }
    *out = v;
    return true;
}

/* ---- .snap files -------------------------------------------------------------------------------------- */

void snap_list_deinit(struct snap_list *l)
{
    if (l->names != NULL) alloc_free(l->alloc, l->names, l->cap * sizeof *l->names);
    *l = (struct snap_list){0};
}

/* A name that is no TERM-INDEX keeps its place by text; the file's content says what it is. */
static struct snap_name name_of(const char *text)
{
    struct snap_name n = {0};
    uint64_t term;
    uint64_t index;
    if (hex16(text, &term) && text[HEX_DIGITS] == '-' && hex16(text + HEX_DIGITS + 1, &index)) {
        n.term = term;
        n.index = index;
    }
    memcpy(n.text, text, strlen(text) + 1);
    return n;
}

static bool is_snap(const struct snap_opts *o, const char *name)
{
    if (wal_fs_has_suffix(name, ".snap") && strlen(name) < SNAP_NAME_BYTES_MAX) return true;
    if (strcmp(name, "db") != 0)
        LOG(o->log, LOG_WARN, "found unexpected non-snap file; skipping", LOGF_STR("path", name));
    return false;
}

int snap_list(const struct snap_opts *o, const char *dir, struct snap_list *out, struct errmsg *em)
{
    struct wal_fs_names names = {0};
    int rc = wal_fs_list(o->disk, o->alloc, dir, &names, em);
    if (rc < 0) return rc;
    struct snap_list l = {.alloc = o->alloc, .cap = names.count};
    if (l.cap > 0) {
        l.names = alloc_new(o->alloc, l.cap * sizeof *l.names);
        if (l.names == NULL) rc = E_NOMEM;
    }
    for (size_t i = names.count; i-- > 0 && rc == 0;)
        if (is_snap(o, names.v[i])) l.names[l.count++] = name_of(names.v[i]);
    wal_fs_names_deinit(&names);
    if (rc < 0) return rc;
    *out = l;
    return 0;
}

static bool is_wanted(const struct snap *s, const struct wal_snapshot *wanted, size_t n)
{
    for (size_t i = n; i-- > 0;)
        if (wanted[i].index == s->index && wanted[i].term == s->term) return true;
    return false;
}

/* A file that fails its check: said aloud, and set aside when asked for. */
static void reject(const struct snap_opts *o, const char *path, int why, bool rename_broken)
{
    LOG(o->log, LOG_WARN, "failed to read a snap file", LOGF_STR("path", path),
        LOGF_STR("error", err_text(why)));
    if (!rename_broken) return;
    struct wal_path broken;
    size_t len = strlen(path);
    if (len + sizeof ".broken" > sizeof broken.text) return;
    memcpy(broken.text, path, len);
    memcpy(broken.text + len, ".broken", sizeof ".broken");
    int rc = o->disk->rename(o->disk->arg, path, broken.text);
    if (rc < 0)
        LOG(o->log, LOG_WARN, "failed to rename a broken snap file", LOGF_STR("from", path),
            LOGF_STR("error", err_text(rc)));
}

static bool fails_check(int rc)
{
    return rc == E_SNAP_EMPTY || rc == E_SNAP_CRC || rc == E_CORRUPT || rc == E_TOOBIG;
}

/* One candidate. 0: loaded; E_NOTFOUND: try the next. */
static int try_load(const struct snap_opts *o, const char *path, const struct wal_snapshot *wanted,
                    size_t n, bool rename_broken, struct snap *out, struct errmsg *em)
{
    struct snap s = SNAP_EMPTY;
    int rc = snap_read(o, path, &s, em);
    if (fails_check(rc)) {
        reject(o, path, rc, rename_broken);
        return E_NOTFOUND;
    }
    if (rc < 0) return rc;
    if (!is_wanted(&s, wanted, n)) {
        snap_deinit(&s);
        return E_NOTFOUND;
    }
    *out = s;
    return 0;
}

int snap_load_newest(const struct snap_opts *o, const char *dir, const struct wal_snapshot *wanted,
                     size_t n, bool rename_broken, struct snap *out, struct errmsg *em)
{
    struct snap_list l = {0};
    int rc = snap_list(o, dir, &l, em);
    if (rc < 0) return rc;
    rc = E_NOTFOUND;
    for (size_t i = 0; i < l.count && rc == E_NOTFOUND; i++) {
        struct wal_path path;
        rc = wal_fs_join(dir, l.names[i].text, &path, em);
        if (rc == 0) rc = try_load(o, path.text, wanted, n, rename_broken, out, em);
    }
    snap_list_deinit(&l);
    if (rc != E_NOTFOUND) return rc;
    errmsg_set(em, "%s in \"%s\"", err_text(E_SNAP_NONE), dir);
    return E_SNAP_NONE;
}

int snap_purge(const struct snap_opts *o, const char *dir, const char *suffix, size_t keep,
               size_t *removed, struct errmsg *em)
{
    struct wal_fs_names names = {0};
    size_t count = 0;
    size_t done = 0;
    int rc = keep == 0 ? 0 : wal_fs_list(o->disk, o->alloc, dir, &names, em);
    for (size_t i = 0; i < names.count; i++)
        count += wal_fs_has_suffix(names.v[i], suffix);
    for (size_t i = 0; i < names.count && rc == 0 && count > keep; i++) {
        if (!wal_fs_has_suffix(names.v[i], suffix)) continue;
        struct wal_path path;
        rc = wal_fs_join(dir, names.v[i], &path, em);
        if (rc < 0) break;
        rc = o->disk->unlink(o->disk->arg, path.text);
        if (rc < 0) wal_fs_fail(em, rc, "remove", path.text);
        if (rc < 0) break;
        count--;
        done++;
    }
    wal_fs_names_deinit(&names);
    if (removed != NULL) *removed = done;
    return rc;
}

/* ---- INDEX.snap.db ------------------------------------------------------------------------------------- */

int snap_db_path(const char *dir, raft_index index, char *path, size_t cap)
{
    int n = snprintf(path, cap, "%s/%016llx.snap.db", dir, (unsigned long long)index);
    return n > 0 && (size_t)n < cap ? 0 : E_TOOBIG;
}

struct each {
    snap_db_fn fn;
    void *arg;
};

static int each_name(void *arg, const char *name)
{
    const struct each *e = arg;
    uint64_t index;
    if (strlen(name) != HEX_DIGITS + strlen(".snap.db") || !hex16(name, &index)) return 0;
    if (strcmp(name + HEX_DIGITS, ".snap.db") != 0) return 0;
    return e->fn(e->arg, index, name);
}

int snap_db_each(const struct snap_opts *o, const char *dir, snap_db_fn fn, void *arg)
{
    struct each e = {fn, arg};
    return o->disk->list(o->disk->arg, dir, each_name, &e);
}

struct below {
    raft_index limit;
    struct buf found; /* raft_index each */
};

static int note_below(void *arg, raft_index index, const char *name)
{
    (void)name;
    struct below *b = arg;
    return index < b->limit ? buf_put(&b->found, &index, sizeof index) : 0;
}

int snap_db_release(const struct snap_opts *o, const char *dir, raft_index index, struct errmsg *em)
{
    struct below b = {.limit = index};
    buf_init(&b.found, o->alloc, WAL_FS_NAMES_MAX * sizeof index);
    int rc = snap_db_each(o, dir, note_below, &b);
    if (rc < 0) wal_fs_fail(em, rc, "list folder", dir);
    for (size_t at = 0; at < b.found.len && rc == 0; at += sizeof index) {
        raft_index one;
        memcpy(&one, b.found.data + at, sizeof one);
        struct wal_path path;
        rc = snap_db_path(dir, one, path.text, sizeof path.text);
        if (rc == 0) rc = o->disk->unlink(o->disk->arg, path.text);
        if (rc < 0) wal_fs_fail(em, rc, "remove a received store from", dir);
    }
    buf_deinit(&b.found);
    return rc;
}

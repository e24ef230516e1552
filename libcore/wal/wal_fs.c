/* Small jobs over `struct disk`. */
#include "wal/wal_fs.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/err.h"

int wal_fs_fail(struct errmsg *em, int rc, const char *what, const char *path)
{
    ASSERT(rc < 0);
    errmsg_set(em, "cannot %s \"%s\": %s", what, path, err_text(rc));
    return rc;
}

int wal_fs_join(const char *dir, const char *name, struct wal_path *out, struct errmsg *em)
{
    int n = snprintf(out->text, sizeof out->text, "%s/%s", dir, name);
    if (n > 0 && (size_t)n < sizeof out->text) return 0;
    errmsg_set(em, "path of \"%s\" is too long", name);
    return E_TOOBIG;
}

int wal_fs_parent(const char *path, struct wal_path *out, struct errmsg *em)
{
    size_t len = strlen(path);
    if (len >= sizeof out->text) {
        errmsg_set(em, "path is too long");
        return E_TOOBIG;
    }
    while (len > 1 && path[len - 1] == '/')
        len--;
    while (len > 0 && path[len - 1] != '/')
        len--;
    while (len > 1 && path[len - 1] == '/')
        len--;
    if (len == 0) {
        path = ".";
        len = 1;
    }
    memcpy(out->text, path, len);
    out->text[len] = '\0';
    return 0;
}

bool wal_fs_has_suffix(const char *name, const char *suffix)
{
    size_t n = strlen(name);
    size_t s = strlen(suffix);
    return n >= s && memcmp(name + n - s, suffix, s) == 0;
}

bool wal_fs_has_prefix(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* ---- folders -------------------------------------------------------------------------------------- */

static int mkdir_one(const struct disk *d, const char *dir, struct errmsg *em)
{
    int rc = d->mkdir(d->arg, dir, 0700);
    if (rc == 0) return 0;
    struct disk_stat st;
    if (rc == E_EXIST && d->stat(d->arg, dir, &st) == 0 && st.is_dir) return 0;
    return wal_fs_fail(em, rc, "make folder", dir);
}

int wal_fs_mkdir_all(const struct disk *d, const char *dir, struct errmsg *em)
{
    struct disk_stat st;
    if (d->stat(d->arg, dir, &st) == 0 && st.is_dir) return 0;
    struct wal_path path;
    size_t len = strlen(dir);
    if (len >= sizeof path.text) return wal_fs_fail(em, E_TOOBIG, "make folder", dir);
    memcpy(path.text, dir, len + 1);
    for (size_t i = 1; i < len; i++) {
        if (path.text[i] != '/' || path.text[i - 1] == '/') continue;
        path.text[i] = '\0';
        int rc = 0;
        if (d->stat(d->arg, path.text, &st) != 0 || !st.is_dir) rc = mkdir_one(d, path.text, em);
        path.text[i] = '/';
        if (rc < 0) return rc;
    }
    return mkdir_one(d, path.text, em);
}

static int names_reserve(struct wal_fs_names *n)
{
    if (n->count < n->cap) return 0;
    if (n->count >= WAL_FS_NAMES_MAX) return E_TOOBIG;
    size_t cap = n->cap == 0 ? 16 : n->cap * 2;
    char **v = n->alloc->resize(n->alloc->arg, n->v, n->cap * sizeof *v, cap * sizeof *v);
    if (v == NULL) return E_NOMEM;
    n->v = v;
    n->cap = cap;
    return 0;
}

static int names_add(void *arg, const char *name)
{
    struct wal_fs_names *n = arg;
    int rc = names_reserve(n);
    if (rc < 0) return rc;
    size_t bytes = strlen(name) + 1;
    char *copy = alloc_new(n->alloc, bytes);
    if (copy == NULL) return E_NOMEM;
    memcpy(copy, name, bytes);
    n->v[n->count++] = copy;
    return 0;
}

static int name_cmp(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int wal_fs_list(const struct disk *d, const struct alloc *a, const char *dir,
                struct wal_fs_names *out, struct errmsg *em)
{
    struct wal_fs_names n = {.alloc = a};
    int rc = d->list(d->arg, dir, names_add, &n);
    if (rc < 0) {
        wal_fs_names_deinit(&n);
        return wal_fs_fail(em, rc, "list folder", dir);
    }
    if (n.count > 0) qsort(n.v, n.count, sizeof *n.v, name_cmp);
    *out = n;
    return 0;
}

void wal_fs_names_deinit(struct wal_fs_names *n)
{
    for (size_t i = 0; i < n->count; i++)
        alloc_free(n->alloc, n->v[i], strlen(n->v[i]) + 1);
    if (n->v != NULL) alloc_free(n->alloc, n->v, n->cap * sizeof *n->v);
    *n = (struct wal_fs_names){0};
}

static int remove_entries(const struct disk *d, const char *dir, const struct wal_fs_names *names,
                          struct errmsg *em)
{
    struct wal_path path;
    for (size_t i = 0; i < names->count; i++) {
        int rc = wal_fs_join(dir, names->v[i], &path, em);
        if (rc < 0) return rc;
        struct disk_stat st;
        rc = d->stat(d->arg, path.text, &st);
        if (rc == 0 && st.is_dir) rc = E_EXIST;
        if (rc == 0) rc = d->unlink(d->arg, path.text);
        if (rc < 0) return wal_fs_fail(em, rc, "remove", path.text);
    }
    return 0;
}

int wal_fs_remove_dir(const struct disk *d, const struct alloc *a, const char *dir,
                      struct errmsg *em)
{
    struct disk_stat st;
    int rc = d->stat(d->arg, dir, &st);
    if (rc == E_NOENT) return 0;
    if (rc < 0) return wal_fs_fail(em, rc, "look at", dir);
    struct wal_fs_names names = {0};
    rc = wal_fs_list(d, a, dir, &names, em);
    if (rc < 0) return rc;
    rc = remove_entries(d, dir, &names, em);
    wal_fs_names_deinit(&names);
    if (rc < 0) return rc;
    rc = d->rmdir(d->arg, dir);
    return rc < 0 ? wal_fs_fail(em, rc, "remove folder", dir) : 0;
}

/* ---- files ---------------------------------------------------------------------------------------- */

static int read_into(const struct disk *d, struct disk_file *f, struct buf *out)
{
    struct disk_stat st;
    int rc = d->file_stat(d->arg, f, &st);
    if (rc < 0) return rc;
    if (st.size_bytes > SIZE_MAX - out->len) return E_TOOBIG;
    rc = buf_reserve(out, (size_t)st.size_bytes);
    if (rc < 0) return rc;
    size_t got = 0;
    if (st.size_bytes > 0)
        rc = d->read(d->arg, f, 0, out->data + out->len, (size_t)st.size_bytes, &got);
    if (rc == 0) out->len += got;
    return rc;
}

int wal_fs_read(const struct disk *d, const char *path, struct buf *out, struct errmsg *em)
{
    struct disk_file *f;
    int rc = d->open(d->arg, path, DISK_READ, 0, &f);
    if (rc < 0) return wal_fs_fail(em, rc, "open", path);
    rc = read_into(d, f, out);
    d->close(d->arg, f);
    return rc < 0 ? wal_fs_fail(em, rc, "read", path) : 0;
}

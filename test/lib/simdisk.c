/* env/disk.h over the simulated disk: each changing call becomes a record, is done on the present
 * state by the very function that crash images use, and is put in the trace. */
#include "simdisk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "simdisk_int.h"

/* --- paths ------------------------------------------------------------------------------------ */

/* The next component of *path in `name`; false when none is left. */
static bool path_next(const char **path, char name[SIM_PATH_BYTES_MAX])
{
    for (;;) {
        while (**path == '/') {
            ++*path;
        }
        size_t len = strcspn(*path, "/");
        if (len == 0) return false;
        if (len >= SIM_PATH_BYTES_MAX) abort();
        memcpy(name, *path, len);
        name[len] = 0;
        *path += len;
        if (strcmp(name, ".") != 0) return true;
    }
}

/* The folder of the last component, and that component ("" for the root itself). E_NOENT when a
 * folder on the way is missing. */
static int path_parent(const struct sim_image *im, const char *path, size_t *dir,
                       char name[SIM_PATH_BYTES_MAX])
{
    char next[SIM_PATH_BYTES_MAX];
    *dir = 0;
    name[0] = 0;
    while (path_next(&path, next)) {
        if (name[0] != 0) {
            const struct sim_entry *e = sim_entry_find(&im->nodes[*dir], name);
            if (e == NULL || !im->nodes[e->node].is_dir) return E_NOENT;
            *dir = e->node;
        }
        memcpy(name, next, strlen(next) + 1);
    }
    return 0;
}

static int path_node(const struct sim_image *im, const char *path, size_t *node)
{
    char name[SIM_PATH_BYTES_MAX];
    size_t dir = 0;
    int rc = path_parent(im, path, &dir, name);
    if (rc < 0) return rc;
    const struct sim_entry *e = name[0] == 0 ? NULL : sim_entry_find(&im->nodes[dir], name);
    if (name[0] != 0 && e == NULL) return E_NOENT;
    *node = e == NULL ? 0 : e->node;
    return 0;
}

/* --- operations ------------------------------------------------------------------------------- */

static void record_free(struct sim_record *r)
{
    free(r->path);
    free(r->path_to);
    free(r->name);
    free(r->name_to);
    free(r->data);
}

/* Whether this operation is to fail, and with what. */
static int fault_strike(struct simdisk *d, enum simdisk_kind kind)
{
    const struct simdisk_fault *f = &d->fault;
    if (f->nth == 0 || (f->kinds != 0 && (f->kinds & 1U << kind) == 0)) return 0;
    d->fault_seen++;
    if (d->fault_seen < f->nth || (d->fault_seen > f->nth && !f->forever)) return 0;
    d->fault_struck++;
    return f->rc;
}

static void trace_push(struct simdisk *d, const struct sim_record *r)
{
    if (d->trace_count == d->trace_cap) {
        d->trace_cap = d->trace_cap == 0 ? 64 : 2 * d->trace_cap;
        struct sim_record *grown = realloc(d->trace, d->trace_cap * sizeof *grown);
        if (grown == NULL) abort();
        d->trace = grown;
    }
    d->trace[d->trace_count++] = *r;
}

/* Does and records the operation, or fails it; takes what `r` holds. */
static int perform(struct simdisk *d, struct sim_record *r)
{
    int rc = fault_strike(d, r->kind);
    bool partly =
        rc < 0 && d->fault.half &&
        (r->kind == SIMDISK_WRITE || r->kind == SIMDISK_SYNC || r->kind == SIMDISK_SYNC_DIR);
    if (rc < 0 && !partly) {
        record_free(r);
        return rc;
    }
    if (partly && r->kind == SIMDISK_WRITE) r->len /= 2;
    sim_image_apply(&d->now, r);
    trace_push(d, r);
    return rc;
}

static void simdisk_lock(struct simdisk *d)
{
    (void)pthread_mutex_lock(&d->mutex);
}

static void simdisk_unlock(struct simdisk *d)
{
    (void)pthread_mutex_unlock(&d->mutex);
}

/* --- files ------------------------------------------------------------------------------------ */

static int create(struct simdisk *d, const char *path, size_t dir, const char *name, uint32_t mode,
                  enum simdisk_kind kind, size_t *child)
{
    struct sim_record r = {.kind = kind,
                           .path = sim_strdup(path),
                           .node = dir,
                           .name = sim_strdup(name),
                           .child = d->now.node_count,
                           .mode = mode & 07777};
    size_t made = r.child;
    int rc = perform(d, &r);
    if (rc == 0) *child = made;
    return rc;
}

static int cut(struct simdisk *d, const char *path, size_t node)
{
    if (d->now.nodes[node].size_bytes == 0) return 0;
    struct sim_record r = {.kind = SIMDISK_TRUNCATE, .path = sim_strdup(path), .node = node};
    return perform(d, &r);
}

static int open_node(struct simdisk *d, const char *path, unsigned flags, uint32_t mode,
                     size_t *node)
{
    char name[SIM_PATH_BYTES_MAX];
    size_t dir = 0;
    int rc = path_parent(&d->now, path, &dir, name);
    if (rc < 0) return rc;
    const struct sim_entry *e = name[0] == 0 ? NULL : sim_entry_find(&d->now.nodes[dir], name);
    if (e == NULL && name[0] != 0) {
        if ((flags & DISK_CREATE) == 0) return E_NOENT;
        return create(d, path, dir, name, mode, SIMDISK_CREATE, node);
    }
    if ((flags & DISK_EXCLUSIVE) != 0 && (flags & DISK_CREATE) != 0) return E_EXIST;
    *node = e == NULL ? 0 : e->node;
    if (d->now.nodes[*node].is_dir && (flags & DISK_WRITE) != 0) return E_IO;
    return (flags & DISK_TRUNCATE) != 0 ? cut(d, path, *node) : 0;
}

static int sim_open(void *arg, const char *path, unsigned flags, uint32_t mode,
                    struct disk_file **out)
{
    struct simdisk *d = arg;
    size_t node = 0;
    simdisk_lock(d);
    int rc = open_node(d, path, flags, mode, &node);
    if (rc == 0) {
        struct disk_file *f = sim_alloc(sizeof *f);
        *f = (struct disk_file){.node = node,
                                .writable = (flags & DISK_WRITE) != 0,
                                .path = sim_strdup(path),
                                .next = d->open};
        d->open = f;
        *out = f;
    }
    simdisk_unlock(d);
    return rc;
}

static void sim_close(void *arg, struct disk_file *f)
{
    struct simdisk *d = arg;
    if (f == NULL) return;
    simdisk_lock(d);
    struct disk_file **at = &d->open;
    while (*at != f) {
        if (*at == NULL) abort(); /* closed twice */
        at = &(*at)->next;
    }
    *at = f->next;
    (void)pthread_cond_broadcast(&d->unlocked);
    simdisk_unlock(d);
    free(f->path);
    free(f);
}

static int sim_read(void *arg, struct disk_file *f, uint64_t offset, void *data, size_t len,
                    size_t *got)
{
    struct simdisk *d = arg;
    simdisk_lock(d);
    const struct sim_node *n = &d->now.nodes[f->node];
    int rc = n->is_dir ? E_IO : 0;
    if (rc == 0) *got = sim_file_read(n, offset, data, len);
    simdisk_unlock(d);
    return rc;
}

static int change(struct simdisk *d, struct disk_file *f, struct sim_record r)
{
    if (!f->writable && r.kind != SIMDISK_SYNC) {
        free(r.data);
        return E_IO;
    }
    simdisk_lock(d);
    r.path = sim_strdup(f->path);
    r.node = f->node;
    int rc = perform(d, &r);
    simdisk_unlock(d);
    return rc;
}

static int sim_write(void *arg, struct disk_file *f, uint64_t offset, struct bytes data)
{
    if (data.len == 0) return 0;
    struct sim_record r = {.kind = SIMDISK_WRITE, .offset = offset, .len = data.len};
    r.data = sim_alloc(data.len);
    memcpy(r.data, data.data, data.len);
    return change(arg, f, r);
}

static int sim_datasync(void *arg, struct disk_file *f)
{
    return change(arg, f, (struct sim_record){.kind = SIMDISK_SYNC});
}

static int sim_truncate(void *arg, struct disk_file *f, uint64_t size_bytes)
{
    return change(arg, f, (struct sim_record){.kind = SIMDISK_TRUNCATE, .offset = size_bytes});
}

static int sim_allocate(void *arg, struct disk_file *f, uint64_t size_bytes)
{
    return change(arg, f, (struct sim_record){.kind = SIMDISK_ALLOCATE, .offset = size_bytes});
}

static struct disk_stat stat_of(const struct sim_node *n)
{
    return (struct disk_stat){.size_bytes = n->size_bytes, .mode = n->mode, .is_dir = n->is_dir};
}

static int sim_file_stat(void *arg, struct disk_file *f, struct disk_stat *out)
{
    struct simdisk *d = arg;
    simdisk_lock(d);
    *out = stat_of(&d->now.nodes[f->node]);
    simdisk_unlock(d);
    return 0;
}

static bool lock_is_held(const struct simdisk *d, const struct disk_file *by)
{
    for (const struct disk_file *f = d->open; f != NULL; f = f->next) {
        if (f != by && f->locked && f->node == by->node) return true;
    }
    return false;
}

static int sim_lock(void *arg, struct disk_file *f, bool wait)
{
    struct simdisk *d = arg;
    if (!f->writable) return E_IO;
    simdisk_lock(d);
    while (wait && lock_is_held(d, f)) {
        (void)pthread_cond_wait(&d->unlocked, &d->mutex);
    }
    int rc = lock_is_held(d, f) ? E_LOCKED : 0;
    if (rc == 0) f->locked = true;
    simdisk_unlock(d);
    return rc;
}

/* --- names ------------------------------------------------------------------------------------ */

static int sim_stat(void *arg, const char *path, struct disk_stat *out)
{
    struct simdisk *d = arg;
    size_t node = 0;
    simdisk_lock(d);
    int rc = path_node(&d->now, path, &node);
    if (rc == 0) *out = stat_of(&d->now.nodes[node]);
    simdisk_unlock(d);
    return rc;
}

static int make_dir(struct simdisk *d, const char *path, uint32_t mode)
{
    char name[SIM_PATH_BYTES_MAX];
    size_t dir = 0;
    size_t child = 0;
    int rc = path_parent(&d->now, path, &dir, name);
    if (rc < 0) return rc;
    if (name[0] == 0 || sim_entry_find(&d->now.nodes[dir], name) != NULL) return E_EXIST;
    return create(d, path, dir, name, mode, SIMDISK_MKDIR, &child);
}

static int sim_mkdir(void *arg, const char *path, uint32_t mode)
{
    struct simdisk *d = arg;
    simdisk_lock(d);
    int rc = make_dir(d, path, mode);
    simdisk_unlock(d);
    return rc;
}

/* Whether a rename may put `node` over what stands at `target`, as rename(2) says. */
static int may_replace(const struct sim_image *im, size_t node, const struct sim_entry *target)
{
    if (target == NULL || target->node == node) return 0;
    const struct sim_node *old = &im->nodes[target->node];
    if (im->nodes[node].is_dir != old->is_dir) return E_IO;
    return old->is_dir && old->entry_count > 0 ? E_EXIST : 0;
}

static int rename_in(struct simdisk *d, const char *from, const char *to)
{
    char name[SIM_PATH_BYTES_MAX];
    char name_to[SIM_PATH_BYTES_MAX];
    size_t dir = 0;
    size_t dir_to = 0;
    int rc = path_parent(&d->now, from, &dir, name);
    if (rc == 0) rc = path_parent(&d->now, to, &dir_to, name_to);
    if (rc < 0) return rc;
    const struct sim_entry *e = sim_entry_find(&d->now.nodes[dir], name);
    if (e == NULL) return E_NOENT;
    rc = may_replace(&d->now, e->node, sim_entry_find(&d->now.nodes[dir_to], name_to));
    if (rc < 0) return rc;
    struct sim_record r = {.kind = SIMDISK_RENAME,
                           .path = sim_strdup(from),
                           .path_to = sim_strdup(to),
                           .node = dir,
                           .name = sim_strdup(name),
                           .node_to = dir_to,
                           .name_to = sim_strdup(name_to)};
    return perform(d, &r);
}

static int sim_rename(void *arg, const char *from, const char *to)
{
    struct simdisk *d = arg;
    simdisk_lock(d);
    int rc = rename_in(d, from, to);
    simdisk_unlock(d);
    return rc;
}

static int remove_in(struct simdisk *d, const char *path, bool is_dir)
{
    char name[SIM_PATH_BYTES_MAX];
    size_t dir = 0;
    int rc = path_parent(&d->now, path, &dir, name);
    if (rc < 0) return rc;
    const struct sim_entry *e = sim_entry_find(&d->now.nodes[dir], name);
    if (e == NULL) return E_NOENT;
    const struct sim_node *n = &d->now.nodes[e->node];
    if (n->is_dir != is_dir) return is_dir ? E_NOENT : E_IO;
    if (is_dir && n->entry_count > 0) return E_EXIST;
    struct sim_record r = {.kind = is_dir ? SIMDISK_RMDIR : SIMDISK_UNLINK,
                           .path = sim_strdup(path),
                           .node = dir,
                           .name = sim_strdup(name)};
    return perform(d, &r);
}

static int sim_unlink(void *arg, const char *path)
{
    struct simdisk *d = arg;
    simdisk_lock(d);
    int rc = remove_in(d, path, false);
    simdisk_unlock(d);
    return rc;
}

static int sim_rmdir(void *arg, const char *path)
{
    struct simdisk *d = arg;
    simdisk_lock(d);
    int rc = remove_in(d, path, true);
    simdisk_unlock(d);
    return rc;
}

/* The names of a folder as they are now, so that the callback may change it. */
static int names_copy(struct simdisk *d, const char *path, char ***names, size_t *count)
{
    size_t node = 0;
    simdisk_lock(d);
    int rc = path_node(&d->now, path, &node);
    if (rc == 0 && !d->now.nodes[node].is_dir) rc = E_NOENT;
    if (rc == 0) {
        const struct sim_node *n = &d->now.nodes[node];
        *count = n->entry_count;
        *names = sim_alloc(n->entry_count * sizeof **names);
        for (size_t i = 0; i < n->entry_count; i++) {
            (*names)[i] = sim_strdup(n->entries[i].name);
        }
    }
    simdisk_unlock(d);
    return rc;
}

static int sim_list(void *arg, const char *path, disk_list_fn fn, void *fn_arg)
{
    char **names = NULL;
    size_t count = 0;
    int rc = names_copy(arg, path, &names, &count);
    if (rc < 0) return rc;
    for (size_t i = 0; i < count; i++) {
        if (rc == 0) rc = fn(fn_arg, names[i]);
        free(names[i]);
    }
    free(names);
    return rc;
}

static int sim_sync_dir(void *arg, const char *path)
{
    struct simdisk *d = arg;
    size_t node = 0;
    simdisk_lock(d);
    int rc = path_node(&d->now, path, &node);
    if (rc == 0 && !d->now.nodes[node].is_dir) rc = E_NOENT;
    if (rc == 0) {
        struct sim_record r = {.kind = SIMDISK_SYNC_DIR, .path = sim_strdup(path), .node = node};
        rc = perform(d, &r);
    }
    simdisk_unlock(d);
    return rc;
}

/* --- the handle ------------------------------------------------------------------------------- */

static const struct disk face = {
    .open = sim_open,
    .close = sim_close,
    .read = sim_read,
    .write = sim_write,
    .datasync = sim_datasync,
    .truncate = sim_truncate,
    .allocate = sim_allocate,
    .file_stat = sim_file_stat,
    .lock = sim_lock,
    .stat = sim_stat,
    .mkdir = sim_mkdir,
    .rename = sim_rename,
    .unlink = sim_unlink,
    .rmdir = sim_rmdir,
    .list = sim_list,
    .sync_dir = sim_sync_dir,
};

struct simdisk *simdisk_new(void)
{
    struct simdisk *d = sim_alloc(sizeof *d);
    d->face = face;
    d->face.arg = d;
    (void)pthread_mutex_init(&d->mutex, NULL);
    (void)pthread_cond_init(&d->unlocked, NULL);
    sim_image_init(&d->base);
    sim_image_init(&d->now);
    return d;
}

static void trace_clear(struct simdisk *d)
{
    for (size_t i = 0; i < d->trace_count; i++) {
        record_free(&d->trace[i]);
    }
    d->trace_count = 0;
}

void simdisk_free(struct simdisk *d)
{
    if (d == NULL) return;
    trace_clear(d);
    free(d->trace);
    while (d->open != NULL) { /* as a dead process leaves them */
        struct disk_file *f = d->open;
        d->open = f->next;
        free(f->path);
        free(f);
    }
    sim_image_deinit(&d->base);
    sim_image_deinit(&d->now);
    (void)pthread_mutex_destroy(&d->mutex);
    (void)pthread_cond_destroy(&d->unlocked);
    free(d);
}

const struct disk *simdisk_face(struct simdisk *d)
{
    return &d->face;
}

size_t simdisk_op_count(struct simdisk *d)
{
    simdisk_lock(d);
    size_t n = d->trace_count;
    simdisk_unlock(d);
    return n;
}

struct simdisk_op simdisk_op(struct simdisk *d, size_t i)
{
    simdisk_lock(d);
    if (i >= d->trace_count) abort();
    const struct sim_record *r = &d->trace[i];
    struct simdisk_op op = {.kind = r->kind,
                            .path = r->path,
                            .path_to = r->path_to,
                            .offset = r->offset,
                            .data = bytes_of(r->data, r->len)};
    simdisk_unlock(d);
    return op;
}

const char *simdisk_kind_name(enum simdisk_kind k)
{
    static const char *const names[] = {
        [SIMDISK_CREATE] = "create",     [SIMDISK_WRITE] = "write",       [SIMDISK_SYNC] = "sync",
        [SIMDISK_TRUNCATE] = "truncate", [SIMDISK_ALLOCATE] = "allocate", [SIMDISK_MKDIR] = "mkdir",
        [SIMDISK_RENAME] = "rename",     [SIMDISK_UNLINK] = "unlink",     [SIMDISK_RMDIR] = "rmdir",
        [SIMDISK_SYNC_DIR] = "sync_dir", [SIMDISK_MARK] = "mark",
    };
    return names[k];
}

void simdisk_mark(struct simdisk *d, const char *text)
{
    struct sim_record r = {.kind = SIMDISK_MARK, .path = sim_strdup(text)};
    simdisk_lock(d);
    trace_push(d, &r);
    simdisk_unlock(d);
}

void simdisk_settle(struct simdisk *d)
{
    simdisk_lock(d);
    trace_clear(d);
    sim_image_deinit(&d->base);
    sim_image_copy(&d->base, &d->now);
    simdisk_unlock(d);
}

void simdisk_set_fault(struct simdisk *d, struct simdisk_fault fault)
{
    simdisk_lock(d);
    d->fault = fault;
    d->fault_seen = 0;
    d->fault_struck = 0;
    simdisk_unlock(d);
}

size_t simdisk_fault_count(struct simdisk *d)
{
    simdisk_lock(d);
    size_t n = d->fault_struck;
    simdisk_unlock(d);
    return n;
}

/* --- shortcuts -------------------------------------------------------------------------------- */

static _Noreturn void give_up(const char *what, const char *path)
{
    (void)fprintf(stderr, "simdisk: %s: %s\n", what, path);
    abort();
}

/* The node of `name` in folder `dir`, made in both states when it is missing. */
static size_t settle_entry(struct simdisk *d, size_t dir, const char *name, bool is_dir)
{
    const struct sim_entry *e = sim_entry_find(&d->now.nodes[dir], name);
    size_t node = e != NULL ? e->node : sim_node_add(&d->now, is_dir, is_dir ? 0700 : 0600);
    if (d->now.nodes[node].is_dir != is_dir)
        give_up("a file where a folder is needed, or the reverse", name);
    sim_entry_set(&d->now.nodes[dir], name, node);
    sim_node_ensure(&d->base, node, is_dir, d->now.nodes[node].mode);
    sim_entry_set(&d->base.nodes[dir], name, node);
    return node;
}

/* Like path_parent(), but makes what is missing. */
static size_t settle_parent(struct simdisk *d, const char *path, char name[SIM_PATH_BYTES_MAX])
{
    char next[SIM_PATH_BYTES_MAX];
    size_t dir = 0;
    name[0] = 0;
    while (path_next(&path, next)) {
        if (name[0] != 0) dir = settle_entry(d, dir, name, true);
        memcpy(name, next, strlen(next) + 1);
    }
    return dir;
}

/* Writes to both states, leaving pages of zeros out. */
static void settle_content(struct simdisk *d, size_t node, uint64_t offset, struct bytes data)
{
    static const uint8_t zeros[SIM_PAGE_BYTES];
    for (size_t at = 0; at < data.len; at += SIM_PAGE_BYTES) {
        size_t n = data.len - at < SIM_PAGE_BYTES ? data.len - at : SIM_PAGE_BYTES;
        if (memcmp(data.data + at, zeros, n) == 0) continue;
        sim_file_write(&d->now.nodes[node], offset + at, data.data + at, n);
        sim_file_write(&d->base.nodes[node], offset + at, data.data + at, n);
    }
}

static size_t settle_file(struct simdisk *d, const char *path, uint64_t size_bytes)
{
    char name[SIM_PATH_BYTES_MAX];
    size_t dir = settle_parent(d, path, name);
    if (name[0] == 0) give_up("no file name", path);
    size_t node = settle_entry(d, dir, name, false);
    sim_file_resize(&d->now.nodes[node], 0);
    sim_file_resize(&d->base.nodes[node], 0);
    sim_file_resize(&d->now.nodes[node], size_bytes);
    sim_file_resize(&d->base.nodes[node], size_bytes);
    return node;
}

void simdisk_put_file(struct simdisk *d, const char *path, struct bytes content)
{
    simdisk_lock(d);
    settle_content(d, settle_file(d, path, content.len), 0, content);
    simdisk_unlock(d);
}

void simdisk__put_page(struct simdisk *d, const char *path, uint64_t size_bytes, uint64_t offset,
                       struct bytes content)
{
    size_t node = 0;
    simdisk_lock(d);
    if (offset == 0 || path_node(&d->now, path, &node) < 0) node = settle_file(d, path, size_bytes);
    settle_content(d, node, offset, content);
    simdisk_unlock(d);
}

void simdisk__put_dir(struct simdisk *d, const char *path)
{
    char name[SIM_PATH_BYTES_MAX];
    simdisk_lock(d);
    size_t dir = settle_parent(d, path, name);
    if (name[0] != 0) (void)settle_entry(d, dir, name, true);
    simdisk_unlock(d);
}

uint8_t *simdisk_get_file(struct simdisk *d, const char *path, size_t *len)
{
    size_t node = 0;
    simdisk_lock(d);
    if (path_node(&d->now, path, &node) < 0) give_up("no such file", path);
    const struct sim_node *n = &d->now.nodes[node];
    uint8_t *data = sim_alloc((size_t)n->size_bytes + 1);
    *len = sim_file_read(n, 0, data, (size_t)n->size_bytes);
    simdisk_unlock(d);
    return data;
}

bool simdisk_exists(struct simdisk *d, const char *path)
{
    size_t node = 0;
    simdisk_lock(d);
    bool there = path_node(&d->now, path, &node) == 0;
    simdisk_unlock(d);
    return there;
}

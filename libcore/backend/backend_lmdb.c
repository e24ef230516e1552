/* Opening and closing the LMDB store; see backend.h for the order of steps. */
#include <stdio.h>
#include <unistd.h>

#include "backend/backend_int.h"
#include "base/assert.h"
#include "base/err.h"

#define ENV_FLAGS (MDB_NOSUBDIR | MDB_NOTLS)
/* The map of a store while it is made: ten empty tables. */
#define NEW_MAP_BYTES ((size_t)1 << 20)

uint64_t backend_map_bytes(uint64_t quota_bytes)
{
    uint64_t room = UINT64_MAX / BACKEND_MAP_PER_QUOTA;
    uint64_t wanted = (quota_bytes < room ? quota_bytes : room) * BACKEND_MAP_PER_QUOTA;
    return wanted > BACKEND_MAP_BYTES_MIN ? wanted : BACKEND_MAP_BYTES_MIN;
}

static int map_mdb_error(int mdb_rc)
{
    switch (mdb_rc) {
    case 0: return 0;
    case MDB_NOTFOUND: return E_NOTFOUND;
    case MDB_MAP_FULL: return E_NOSPACE;
    case MDB_READERS_FULL: return E_BUSY;
    case MDB_TXN_FULL:
    case MDB_BAD_VALSIZE: return E_TOOBIG;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH: return E_CORRUPT;
    default: return mdb_rc > 0 ? err_from_errno(mdb_rc) : E_IO;
    }
}

int backend__error(int mdb_rc, const char *what, struct errmsg *em)
{
    int rc = map_mdb_error(mdb_rc);
    if (rc < 0) errmsg_set(em, "%s: %s", what, mdb_strerror(mdb_rc));
    return rc;
}

/* --- the environment ----------------------------------------------------------------------------- */

int backend__env_open(const char *path, size_t map_bytes, unsigned reader_count, MDB_env **out,
                      struct errmsg *em)
{
    MDB_env *env = NULL;
    int rc = mdb_env_create(&env);
    if (rc != 0) return backend__error(rc, path, em);
    rc = mdb_env_set_mapsize(env, map_bytes);
    if (rc == 0) rc = mdb_env_set_maxreaders(env, reader_count);
    if (rc == 0) rc = mdb_env_set_maxdbs(env, TABLE_COUNT);
    if (rc == 0) rc = mdb_env_open(env, path, ENV_FLAGS, BACKEND_FILE_MODE);
    if (rc != 0) {
        mdb_env_close(env);
        return backend__error(rc, path, em);
    }
    ASSERT(mdb_env_get_maxkeysize(env) == 511);
    *out = env;
    return 0;
}

/* Handles of all tables; those that a file lacks are made. Writes nothing when none is lacking. */
int backend__tables_open(MDB_env *env, MDB_dbi *dbi, const char *path, struct errmsg *em)
{
    MDB_txn *txn = NULL;
    int rc = mdb_txn_begin(env, NULL, 0, &txn);
    for (unsigned t = 0; rc == 0 && t < TABLE_COUNT; t++)
        rc = mdb_dbi_open(txn, table_name((enum table)t), MDB_CREATE, &dbi[t]);
    if (rc != 0) {
        if (txn != NULL) mdb_txn_abort(txn);
        return backend__error(rc, path, em);
    }
    return backend__error(mdb_txn_commit(txn), path, em);
}

/* --- a new store --------------------------------------------------------------------------------- */

int backend__path_join(char *out, const char *path, const char *suffix, struct errmsg *em)
{
    int n = snprintf(out, BACKEND_PATH_BYTES_MAX, "%s%s", path, suffix);
    if (n > 0 && n < BACKEND_PATH_BYTES_MAX) return 0;
    errmsg_set(em, "%s: the path is too long", path);
    return E_INVAL;
}

int backend__sync_folder_of(const struct disk *disk, const char *path, struct errmsg *em)
{
    char folder[BACKEND_PATH_BYTES_MAX];
    int rc = backend__path_join(folder, path, "", em);
    if (rc < 0) return rc;
    char *slash = strrchr(folder, '/');
    if (slash == NULL) {
        folder[0] = '.';
        folder[1] = 0;
    } else {
        slash[slash == folder ? 1 : 0] = 0;
    }
    rc = disk->sync_dir(disk->arg, folder);
    if (rc < 0) errmsg_set(em, "%s: cannot sync the folder: %s", folder, err_text(rc));
    return rc;
}

/* What LMDB committed is durable; this covers the rest of the file before it gets its name. */
int backend__sync_file(const struct disk *disk, const char *path)
{
    struct disk_file *f = NULL;
    int rc = disk->open(disk->arg, path, DISK_WRITE, 0, &f);
    if (rc < 0) return rc;
    rc = disk->datasync(disk->arg, f);
    disk->close(disk->arg, f);
    return rc;
}

static int fill_new(const char *path, struct errmsg *em)
{
    MDB_env *env = NULL;
    MDB_dbi dbi[TABLE_COUNT];
    int rc = backend__env_open(path, NEW_MAP_BYTES, 1, &env, em);
    if (rc < 0) return rc;
    rc = backend__tables_open(env, dbi, path, em);
    mdb_env_close(env);
    return rc;
}

static int create_store(const struct backend_lmdb_opts *o, struct errmsg *em)
{
    const struct disk *disk = o->disk;
    char made[BACKEND_PATH_BYTES_MAX], lock[BACKEND_PATH_BYTES_MAX];
    int rc = backend__path_join(made, o->path, ".tmp.new", em);
    if (rc == 0) rc = backend__path_join(lock, o->path, ".tmp.new-lock", em);
    if (rc < 0) return rc;
    (void)disk->unlink(disk->arg, made); /* of a start that was cut short */
    rc = fill_new(made, em);
    if (rc == 0) {
        rc = backend__sync_file(disk, made);
        if (rc == 0) rc = disk->rename(disk->arg, made, o->path);
        if (rc < 0) errmsg_set(em, "%s: %s", made, err_text(rc));
    }
    if (rc < 0) (void)disk->unlink(disk->arg, made);
    (void)disk->unlink(disk->arg, lock);
    return rc < 0 ? rc : backend__sync_folder_of(disk, o->path, em);
}

/* --- open and close ------------------------------------------------------------------------------- */

static int open_file(const struct backend_lmdb_opts *o, struct disk_file **out, struct errmsg *em)
{
    const struct disk *disk = o->disk;
    int rc = disk->open(disk->arg, o->path, DISK_WRITE, 0, out);
    if (rc == E_NOENT && o->create) {
        rc = create_store(o, em);
        if (rc < 0) return rc;
        rc = disk->open(disk->arg, o->path, DISK_WRITE, 0, out);
    }
    if (rc < 0) {
        errmsg_set(em, "%s: %s", o->path, err_text(rc));
        return rc;
    }
    rc = disk->lock(disk->arg, *out, false);
    if (rc == 0) return 0;
    errmsg_set(em, "%s: %s", o->path, rc == E_LOCKED ? "in use by another process" : err_text(rc));
    disk->close(disk->arg, *out);
    return rc;
}

/* A file that is larger than the map asked for (a smaller quota, a test's setting) still gets room to grow. */
static size_t map_for(const struct backend_lmdb_opts *o, const struct walk_stats *st)
{
    uint64_t wanted = o->map_bytes != 0 ? o->map_bytes : BACKEND_MAP_BYTES_MIN;
    uint64_t used = st->page_count * st->page_bytes;
    if (wanted < used * 2) wanted = used * 2;
    return (size_t)(wanted / st->page_bytes * st->page_bytes);
}

static int open_env(struct backend_lmdb *b, const struct backend_lmdb_opts *o, struct errmsg *em)
{
    struct walk_stats stats;
    int rc = backend_walk_file(b->disk, b->file, o->path, &b->alloc, &o->walk, &stats, em);
    if (rc != 0) return rc;
    unsigned readers = o->reader_count_max != 0 ? o->reader_count_max : BACKEND_READERS_DEFAULT;
    MDB_env *env = NULL;
    rc = backend__env_open(o->path, map_for(o, &stats), readers + 1, &env, em);
    if (rc < 0) return rc;
    b->env = env;
    rc = backend__tables_open(env, b->dbi, o->path, em);
    if (rc < 0) return rc;
    rc = backend__readers_init(b, readers);
    if (rc < 0) errmsg_set(em, "%s: %s", o->path, err_text(rc));
    return rc;
}

int backend_lmdb_open(const struct backend_lmdb_opts *o, struct backend_lmdb **out,
                      struct errmsg *em)
{
    ASSERT(o->alloc != NULL && o->disk != NULL && o->path != NULL);
    struct backend_lmdb *b = alloc_zero(o->alloc, sizeof *b);
    if (b == NULL) return E_NOMEM;
    b->alloc = *o->alloc;
    b->disk = o->disk;
    b->pid = getpid();
    b->tx.store = b;
    atomic_flag_clear(&b->size_busy);
    int rc = backend__path_join(b->path, o->path, "", em);
    if (rc == 0) rc = open_file(o, &b->file, em);
    if (rc == 0) {
        rc = open_env(b, o, em);
        if (rc == 0) {
            *out = b;
            return 0;
        }
        backend_lmdb_close(b);
        return rc;
    }
    alloc_free(o->alloc, b, sizeof *b);
    return rc;
}

void backend_lmdb_close(struct backend_lmdb *b)
{
    if (b == NULL) return;
    ASSERT(b->tx.txn == NULL);
    ASSERT(b->pid == getpid());
    backend__readers_deinit(b);
    if (b->retired != NULL) mdb_env_close(b->retired);
    if (b->env != NULL) mdb_env_close(b->env);
    b->disk->close(b->disk->arg, b->file);
    struct alloc a = b->alloc;
    alloc_free(&a, b, sizeof *b);
}

struct backend backend_lmdb_face(struct backend_lmdb *b)
{
    ASSERT(b != NULL);
    return (struct backend){
        .begin = backend__begin,
        .put = backend__put,
        .del = backend__del,
        .commit = backend__commit,
        .abort = backend__abort,
        .read_begin = backend__read_begin,
        .read_end = backend__read_end,
        .get = backend__get,
        .cursor_open = backend__cursor_open,
        .cursor_close = backend__cursor_close,
        .seek = backend__seek,
        .next = backend__next,
        .size = backend__size,
        .arg = b,
    };
}

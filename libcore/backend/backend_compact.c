/* Defragmentation: the store moves into a new file that has no free pages.
 *
 * LMDB copies what the last commit left, the copy is synced, checked by the walk and opened, and only then takes the
 * place of the file by rename. Until then every failure, and every crash, leaves the store as it was; a left-over copy is
 * deleted at the next start. From then on commits go to the new file, so if the rename cannot be made durable the
 * process must end.
 *
 * Reads do not wait. A read transaction belongs to the environment that it began in and goes on there; each reader says in
 * `env` which one it may use (a hazard pointer: written first, then the store is asked again whether it still is the
 * one). The old environment, whose file has no name any more, is closed by a later write transaction once no reader names
 * it. Rejected: one lock around all reads, which would make the thread wait that holds a read transaction itself. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "backend/backend_int.h"
#include "base/assert.h"
#include "base/err.h"
#include "env/failpoint.h"

/* The copy while it is made. */
struct copy {
    char path[BACKEND_PATH_BYTES_MAX];
    char lock[BACKEND_PATH_BYTES_MAX];
    MDB_env *env;
    MDB_dbi dbi[TABLE_COUNT];
    struct disk_file *file;
};

/* --- the old environment --------------------------------------------------------------------------- */

void backend__retired_close(struct backend_lmdb *b)
{
    ASSERT(b->pid != 0);
    if (b->retired == NULL) return;
    for (unsigned i = 0; i < b->reader_count; i++) {
        if (b->readers[i].env == b->retired) return;
    }
    mdb_env_close(b->retired);
    b->retired = NULL;
}

/* --- making the copy -------------------------------------------------------------------------------- */

/* LMDB's own opening would let everybody read the copy. */
static int copy_pages(struct backend_lmdb *b, const char *path, struct errmsg *em)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, BACKEND_FILE_MODE);
    if (fd < 0) {
        int rc = err_from_errno(errno);
        errmsg_set(em, "%s: %s", path, err_text(rc));
        return rc;
    }
    int rc = backend__error(mdb_env_copyfd2(b->env, fd, MDB_CP_COMPACT), path, em);
    if (close(fd) < 0 && rc == 0) rc = err_from_errno(errno);
    return rc;
}

/* What a failpoint said, as an error. */
static int injected(const char *text, struct errmsg *em)
{
    if (text == NULL) return 0;
    errmsg_set(em, "%s", text);
    return E_IO;
}

static int write_copy(struct backend_lmdb *b, struct copy *c, struct errmsg *em)
{
    FAILPOINT("defragBeforeCopy");
    int rc = injected(FAILPOINT_TEXT("defragOpenFileError"), em);
    if (rc < 0) return rc;
    rc = copy_pages(b, c->path, em);
    if (rc == 0) rc = injected(FAILPOINT_TEXT("defragdbFail"), em);
    if (rc < 0) return rc;
    rc = backend__sync_file(b->disk, c->path);
    if (rc < 0) errmsg_set(em, "%s: %s", c->path, err_text(rc));
    return rc;
}

static int open_copy(struct backend_lmdb *b, struct copy *c, struct errmsg *em)
{
    MDB_envinfo info;
    struct walk_stats stats;
    const struct walk_opts only_check = {0};
    int rc = backend__error(mdb_env_info(b->env, &info), c->path, em);
    if (rc < 0) return rc;
    rc = b->disk->open(b->disk->arg, c->path, DISK_WRITE, 0, &c->file);
    if (rc == 0) rc = b->disk->lock(b->disk->arg, c->file, false);
    if (rc < 0) {
        errmsg_set(em, "%s: %s", c->path, err_text(rc));
        return rc;
    }
    rc = backend_walk_file(b->disk, c->file, c->path, &b->alloc, &only_check, &stats, em);
    if (rc != 0) return rc;
    rc = backend__env_open(c->path, info.me_mapsize, b->reader_count + 1, &c->env, em);
    if (rc == 0) rc = backend__tables_open(c->env, c->dbi, c->path, em);
    /* Cursors look a handle up without asking which environment it is of. */
    if (rc == 0) ASSERT(memcmp(c->dbi, b->dbi, sizeof c->dbi) == 0);
    return rc;
}

static void drop_copy(struct backend_lmdb *b, struct copy *c)
{
    ASSERT(c->env != b->env);
    if (c->env != NULL) mdb_env_close(c->env);
    if (c->file != NULL) b->disk->close(b->disk->arg, c->file);
    (void)b->disk->unlink(b->disk->arg, c->path);
    (void)b->disk->unlink(b->disk->arg, c->lock);
}

/* --- the exchange ------------------------------------------------------------------------------------ */

/* The copy becomes the store. Its lock file gets the name that belongs to it, for tools that look in from outside. */
static int take_place(struct backend_lmdb *b, const struct copy *c, bool *must_end,
                      struct errmsg *em)
{
    char lock[BACKEND_PATH_BYTES_MAX];
    int rc = backend__path_join(lock, b->path, "-lock", em);
    if (rc < 0) return rc;
    FAILPOINT("defragBeforeRename");
    rc = b->disk->rename(b->disk->arg, c->path, b->path);
    if (rc < 0) {
        errmsg_set(em, "%s: %s", c->path, err_text(rc));
        return rc;
    }
    (void)b->disk->rename(b->disk->arg, c->lock, lock);
    rc = backend__sync_folder_of(b->disk, b->path, em);
    *must_end = rc < 0;
    return rc;
}

static void switch_to(struct backend_lmdb *b, const struct copy *c)
{
    ASSERT(b->retired == NULL && b->tx.txn == NULL);
    b->retired = b->env;
    b->env = c->env;
    b->disk->close(b->disk->arg, b->file);
    b->file = c->file;
    backend__size_forget(b);
    backend__readers_refresh(b);
    backend__retired_close(b);
}

int backend_lmdb_compact(struct backend_lmdb *b, bool *must_end, struct errmsg *em)
{
    ASSERT(b->tx.txn == NULL);
    struct copy *c = alloc_zero(&b->alloc, sizeof *c);
    *must_end = false;
    if (c == NULL) return E_NOMEM;
    int rc = backend__path_join(c->path, b->path, ".tmp.defrag", em);
    if (rc == 0) rc = backend__path_join(c->lock, b->path, ".tmp.defrag-lock", em);
    backend__retired_close(b);
    if (rc == 0 && b->retired != NULL) {
        errmsg_set(em, "%s: reads from before the last defragmentation are still open", b->path);
        rc = E_BUSY;
    }
    if (rc < 0) goto out;
    (void)b->disk->unlink(b->disk->arg, c->path);
    (void)b->disk->unlink(b->disk->arg, c->lock);
    rc = write_copy(b, c, em);
    if (rc == 0) rc = open_copy(b, c, em);
    if (rc == 0) rc = take_place(b, c, must_end, em);
    if (rc == 0) {
        switch_to(b, c);
    } else if (!*must_end) {
        drop_copy(b, c);
    }
out:
    alloc_free(&b->alloc, c, sizeof *c);
    return rc;
}

/* Inside of the LMDB store: the handle, its write transaction and its pool of readers. */
#ifndef BACKEND_BACKEND_INT_H
#define BACKEND_BACKEND_INT_H

#include <lmdb.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "backend/backend.h"

/* Paths of the store: what the caller gave plus the longest suffix. */
enum { BACKEND_PATH_BYTES_MAX = 4096 };
#define BACKEND_FILE_MODE 0600

struct backend_cursor {
    struct backend_read *read;
    MDB_cursor *mdb;
    enum table table;
    /* Where it stands: see backend_cursor.c. */
    enum { AT_START, AT_EMPTY_KEY, AT_ROW, AT_GROUP, AT_END } at;
    const uint8_t *group_head; /* AT_GROUP: the KEY_HEAD_BYTES that all its keys share */
    struct bytes group_key;    /* AT_GROUP: the key given last */
};

/* One read transaction of the pool. It keeps its LMDB transaction (reset) and one cursor per table for the
 * next time, since making those is what costs. */
struct backend_read {
    struct backend_lmdb *store;
    MDB_txn *txn;              /* NULL until first used */
    MDB_env *_Atomic env;      /* the one that it may touch, see backend_compact.c; NULL: none */
    atomic_uint_fast32_t next; /* in the free list: index + 1, 0 = last */
    struct backend_read *next_taken; /* while the writer refreshes it */
    unsigned cursor_count;           /* open ones */
    struct backend_cursor *spare[TABLE_COUNT];
};

/* The one write transaction; `txn` is NULL while there is none. */
struct backend_tx {
    struct backend_lmdb *store;
    MDB_txn *txn;
    MDB_cursor *
        append; /* on TABLE_KEY, while only appends went there; LMDB frees it with the transaction */
    uint64_t bytes; /* put so far, for the question whether the disk is full */
    bool failed;    /* an operation failed; only abort is left */
};

struct backend_lmdb {
    struct alloc alloc;
    const struct disk *disk;
    struct disk_file *file; /* holds the lock; a second view of the file's sync errors */
    MDB_env *_Atomic env;   /* changed by the writer only */
    MDB_env
        *retired; /* the one before the last compaction, while readers may touch it; the writer's */
    char path[BACKEND_PATH_BYTES_MAX];
    MDB_dbi dbi[TABLE_COUNT];
    pid_t pid; /* of the opener: LMDB does not survive fork() */
    struct backend_tx tx;

    unsigned reader_count;
    struct backend_read *readers;
    atomic_uint_fast32_t
        refresh_count;                 /* odd: the writer has taken free readers out for a moment */
    atomic_uint_fast64_t free_readers; /* head of a stack: change count << 32 | index + 1 */

    /* The last answer of size(), under `size_busy`. */
    atomic_flag size_busy;
    uint64_t size_txn_id;
    struct backend_size size;
};

/* --- backend_lmdb.c ------------------------------------------------------------------------------ */

/* Maps what LMDB returned (0, an errno or MDB_...) to 0 or an E_...; puts LMDB's words and `what` in `em`. */
int backend__error(int mdb_rc, const char *what, struct errmsg *em);

int backend__env_open(const char *path, size_t map_bytes, unsigned reader_count, MDB_env **out,
                      struct errmsg *em);
/* Handles of all tables; those that a file lacks are made. Writes nothing when none is lacking. */
int backend__tables_open(MDB_env *env, MDB_dbi *dbi, const char *path, struct errmsg *em);
int backend__path_join(char *out, const char *path, const char *suffix, struct errmsg *em);
int backend__sync_file(const struct disk *disk, const char *path);
int backend__sync_folder_of(const struct disk *disk, const char *path, struct errmsg *em);

/* LMDB takes spans as non-const and does not write to them. */
static inline MDB_val backend__val(struct bytes s)
{
    return (MDB_val){.mv_size = s.len, .mv_data = (void *)(uintptr_t)s.data};
}

static inline struct bytes backend__bytes(const MDB_val *v)
{
    return bytes_of(v->mv_data, v->mv_size);
}

/* --- backend_tx.c, backend_read.c, backend_cursor.c, backend_size.c: the contract's functions ------- */

int backend__begin(void *arg, struct backend_tx **out, struct errmsg *em);
int backend__put(struct backend_tx *tx, enum table t, struct bytes key, struct bytes value,
                 struct errmsg *em);
int backend__del(struct backend_tx *tx, enum table t, struct bytes key, struct errmsg *em);
int backend__commit(struct backend_tx *tx, struct errmsg *em);
void backend__abort(struct backend_tx *tx);

int backend__readers_init(struct backend_lmdb *b, unsigned count);
void backend__readers_deinit(struct backend_lmdb *b);
/* Lets every reader that is free now forget the environment of before. The writer only. */
void backend__readers_refresh(struct backend_lmdb *b);
int backend__read_begin(void *arg, struct backend_read **out, struct errmsg *em);
void backend__read_end(struct backend_read *r);
int backend__get(struct backend_read *r, enum table t, struct bytes key, struct bytes *value);

int backend__cursor_open(struct backend_read *r, enum table t, struct backend_cursor **out);
void backend__cursor_close(struct backend_cursor *c);
int backend__seek(struct backend_cursor *c, struct bytes key, struct bytes *k, struct bytes *v);
int backend__next(struct backend_cursor *c, struct bytes *k, struct bytes *v);

int backend__size(void *arg, struct backend_size *out);
/* The file was exchanged: transaction ids begin anew. */
void backend__size_forget(struct backend_lmdb *b);

/* --- backend_compact.c ---------------------------------------------------------------------------- */

/* Closes the retired environment if no reader touches it any more. The writer only. */
void backend__retired_close(struct backend_lmdb *b);

#endif

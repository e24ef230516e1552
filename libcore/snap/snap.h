/* .snap files: the raft snapshot of a member, next to its store.
 *
 * A file TERM-INDEX.snap holds a crc and a raftpb.Snapshot: the membership as the JSON dump of a v2 key tree, and
 * index, term and conf state. Upstream 3.7 writes and forwards them, 3.6 also starts from them.
 *
 * Format: doc/formats/snap.md.   Thread: any that may block; nothing is kept between calls. */
#ifndef SNAP_SNAP_H
#define SNAP_SNAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/errmsg.h"
#include "base/log.h"
#include "env/disk.h"
#include "raft/raft_types.h"
#include "wal/wal.h"

/* Largest .snap file that is read: the JSON of a cluster is some kilobytes. */
#define SNAP_FILE_BYTES_MAX (64 * 1024 * 1024)
/* Upstream's default for --max-snapshots. */
#define SNAP_FILES_MAX_DEFAULT 5
/* "TERM-INDEX.snap.broken" and a zero. */
#define SNAP_NAME_BYTES_MAX 64

struct snap_opts {
    const struct disk *disk;
    const struct alloc *alloc;
    const struct log *log; /* may be NULL */
};

/* ---- one file ---- */

/* What is written. Borrowed. */
struct snap_content {
    raft_index index;
    raft_term term;
    const struct raft_conf_state *conf;
    bool bare_conf; /* leave auto_leave out when it is false, as 3.7's `snapshot restore` does */
    struct bytes data;
};

/* What was read; the spans point into `file`. */
struct snap {
    raft_index index;
    raft_term term;
    struct bytes conf; /* encoded raftpb.ConfState */
    struct bytes data; /* the v2 store's JSON */
    struct buf file;
};

#define SNAP_EMPTY ((struct snap){0})

void snap_deinit(struct snap *s);

/* Reads and checks one file.
 *
 * Owner:   gives `*out` (snap_deinit()).
 * Errors:  E_SNAP_EMPTY (no byte, no data, or crc 0), E_SNAP_CRC, E_CORRUPT (does not parse), E_TOOBIG, E_NOENT; `*out` is
 *          untouched. */
int snap_read(const struct snap_opts *o, const char *path, struct snap *out, struct errmsg *em);

/* Checks a file's bytes, borrowed by `*out` whose `file` stays empty. Errors as snap_read(). */
int snap_decode(struct bytes file, struct snap *out, struct errmsg *em);

/* The file's bytes appended to `out`; E_NOMEM, E_TOOBIG leave it as it was. */
int snap_encode(const struct snap_content *c, struct buf *out);

/* Writes `dir`/TERM-INDEX.snap, synced, the folder too; on error it is deleted again. */
int snap_write(const struct snap_opts *o, const char *dir, const struct snap_content *c,
               struct errmsg *em);

/* ---- the folder ---- */

struct snap_name {
    raft_term term;
    raft_index index;
    char text[SNAP_NAME_BYTES_MAX]; /* file name */
};

struct snap_list {
    const struct alloc *alloc;
    struct snap_name *names; /* newest first: by file name, so by term first */
    size_t count;
    size_t cap;
};

void snap_list_deinit(struct snap_list *l);

/* Names the *.snap files of `dir`; other names than `db` are warned about. Gives `*out`. */
int snap_list(const struct snap_opts *o, const char *dir, struct snap_list *out, struct errmsg *em);

/* Loads the newest file whose (term, index) is among the `n` records in `wanted`, trying from the highest name down; one
 * that fails its check is renamed to NAME.broken when `rename_broken` (3.6's rule), else only passed over.
 *
 * Owner:   gives `*out` (snap_deinit()).   Errors: E_SNAP_NONE no file is usable; and those of the disk. */
int snap_load_newest(const struct snap_opts *o, const char *dir, const struct wal_snapshot *wanted,
                     size_t n, bool rename_broken, struct snap *out, struct errmsg *em);

/* Deletes the oldest (by name) files that end in `suffix` (".snap" or ".snap.db") while there are more than `keep` (0:
 * none). `*removed` may be NULL. */
int snap_purge(const struct snap_opts *o, const char *dir, const char *suffix, size_t keep,
               size_t *removed, struct errmsg *em);

/* ---- INDEX.snap.db: stores received from a leader ---- */

/* Writes `dir`/INDEX.snap.db into `path` (of `cap` bytes). E_TOOBIG. */
int snap_db_path(const char *dir, raft_index index, char *path, size_t cap);

/* Calls `fn` once for each INDEX.snap.db, in no order. */
typedef int (*snap_db_fn)(void *arg, raft_index index, const char *name);
int snap_db_each(const struct snap_opts *o, const char *dir, snap_db_fn fn, void *arg);

/* Deletes those with an index below `index`, as after a new snapshot. */
int snap_db_release(const struct snap_opts *o, const char *dir, raft_index index,
                    struct errmsg *em);

#endif

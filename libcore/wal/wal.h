/* The write-ahead log: append records, make them durable, cut segments, let old ones go.
 *
 * One handle writes one folder; it holds a lock on every segment that it may still need. Records go
 * to a buffer and from there to the disk in whole pages; only wal_sync() makes them durable, one fdatasync
 * for all that was appended before it. After the first failed write or sync a handle takes no more: every
 * later call is E_IO, nothing is retried, and wal_open() tells what survived.
 *
 * Format: doc/formats/wal.md (byte-compatible with etcd 3.6 and 3.7). Reading: wal/wal_read.h.
 * Thread: a handle belongs to one thread at a time (the WAL thread). */
#ifndef WAL_WAL_H
#define WAL_WAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/errmsg.h"
#include "base/log.h"
#include "env/clock.h"
#include "env/disk.h"
#include "raft/raft_types.h"

/* A segment's preallocated length, as upstream: decimal, not 64 MiB. */
#define WAL_SEGMENT_BYTES 64000000
/* Entries that one restart may hold in memory: 10,000 of the largest default request. */
#define WAL_CONTENTS_BYTES_MAX ((uint64_t)16 * 1024 * 1024 * 1024)
/* Upstream's default for --max-wals. */
#define WAL_FILES_MAX_DEFAULT 5

enum wal_type { WAL_METADATA = 1, WAL_ENTRY = 2, WAL_STATE = 3, WAL_CRC = 4, WAL_SNAPSHOT = 5 };

/* A record as it is handed to the writer, already encoded. */
struct wal_record {
    enum wal_type type; /* not WAL_CRC or WAL_METADATA: heads are the writer's own affair */
    struct bytes data;
};

/* What a snapshot record names. */
struct wal_snapshot {
    raft_index index;
    raft_term term;
};

/* Borrowed for the call, its members for the life of the handle. */
struct wal_opts {
    const struct disk *disk;
    const struct alloc *alloc;   /* usable from any thread: entries are shared */
    const struct log *log;       /* may be NULL */
    const struct clock *clock;   /* may be NULL; names wal.broken.* after a failed creation */
    uint64_t segment_bytes;      /* 0: WAL_SEGMENT_BYTES */
    uint64_t contents_bytes_max; /* 0: WAL_CONTENTS_BYTES_MAX */
    bool unsafe_no_sync;         /* --unsafe-no-fsync: wal_sync() only flushes */
};

struct wal;
struct wal_contents; /* wal/wal_read.h */

/* Makes a new log in `dir` (0700): built in `dir`.tmp, synced, renamed, parent folder synced. The first segment
 * holds the records crc(0), metadata, snapshot (0,0). A present `dir` must hold no segment.
 *
 * Owner:   borrows metadata; gives `*out` (wal_close()).
 * Errors:  E_EXIST `dir` has segments; E_NOMEM; what the disk says. Nothing of `dir` is left then. */
int wal_create(const struct wal_opts *o, const char *dir, struct bytes metadata, struct wal **out,
               struct errmsg *em);

/* Opens the log for writing at the snapshot `start` ((0,0): from the beginning): locks its segments without waiting,
 * reads them as wal_read() does, zeroes what lies behind the last record, and stands ready to append there.
 * A start snapshot without record is no error here (contents->start_found tells).
 *
 * Owner:   gives `*contents` (wal_contents_deinit()) and `*out` (wal_close()).
 * Errors:  E_EOF the last record is torn: wal_repair() once, then again; E_LOCKED; and those of wal_read(). */
int wal_open(const struct wal_opts *o, const char *dir, struct wal_snapshot start,
             struct wal_contents *contents, struct wal **out, struct errmsg *em);

/* wal_open(), and once wal_repair() and wal_open() again when that says E_EOF. `*repaired` (may be NULL) tells. */
int wal_open_repair(const struct wal_opts *o, const char *dir, struct wal_snapshot start,
                    struct wal_contents *contents, bool *repaired, struct wal **out,
                    struct errmsg *em);

/* Appends `n` records to the buffer; they are durable when the next wal_sync() returns 0.
 *
 * Owner:   borrows `rec` for the call.
 * Errors:  E_TOOBIG a record is over WAL_RECORD_BYTES_MAX, E_CORRUPT one does not parse: nothing was written;
 *          E_NOSPACE, E_IO, ...: `w` takes no more, wal_open() tells what survived. */
int wal_append(struct wal *w, const struct wal_record *rec, size_t n, struct errmsg *em);

/* What one raft batch persists: the entries in order, then `state` when it is not empty (NULL: none). Cuts the
 * segment when it is full, which also makes everything before durable; without space for the next one the cut is put
 * off and the segment grows.
 *
 * Owner:   borrows all for the call.   Errors: as wal_append(). */
int wal_save(struct wal *w, const struct raft_hard_state *state, const struct raft_entry *entries,
             size_t n, struct errmsg *em);

/* Appends a snapshot record; `conf` is NULL only for index 0. Asks for a sync; no cut.
 * Errors: as wal_append(); E_NOMEM nothing was written. */
int wal_save_snapshot(struct wal *w, struct wal_snapshot snap, const struct raft_conf_state *conf,
                      struct errmsg *em);

/* True when something appended since the last sync must be durable before anyone hears of it: an entry, a
 * snapshot, another term or vote. A moved commit index alone does not ask. */
bool wal_sync_due(const struct wal *w);

/* Makes everything appended so far durable. Errors: E_NOSPACE, E_IO; `w` takes no more. */
int wal_sync(struct wal *w, struct errmsg *em);

/* Allocates the next segment ahead of time, so that a cut is short; nothing to do when it is there. For idle
 * moments of the WAL thread. Errors: E_NOSPACE and others of the disk; `w` is as before. */
int wal_prepare_next(struct wal *w, struct errmsg *em);

/* Drops the locks of segments in front of the last one whose first index is < `index`, so that wal_purge() may take
 * them. Called when a snapshot record with `index` is durable. */
void wal_release(struct wal *w, raft_index index);

/* The index of the last entry written, or of a later snapshot record. */
raft_index wal_last_index(const struct wal *w);
/* The offset behind the last record, buffered ones included, in the current segment. */
uint64_t wal_offset(const struct wal *w);
/* Sequence number of the current segment. */
uint64_t wal_segment_seq(const struct wal *w);
/* Bytes handed to the disk since the handle was opened. */
uint64_t wal_written_bytes(const struct wal *w);

/* Syncs what is buffered (unless the handle has failed), removes the unused next segment, drops all locks and frees
 * `w` in any case. A NULL `w` is allowed. Errors: E_IO, E_NOSPACE from the last sync. */
int wal_close(struct wal *w, struct errmsg *em);

/* Frees `w` as a crash would: nothing is flushed or removed. */
void wal_abandon(struct wal *w);

/* True when `dir` holds at least one name that ends in ".wal". Errors: of the disk; no `dir` is no log. */
int wal_exists(const struct wal_opts *o, const char *dir, bool *exists, struct errmsg *em);

/* Looks at the last segment only and cuts off a torn record at its end, keeping a copy NAME.broken. Nothing to do
 * is success; `*repaired` (may be NULL) tells. Not while the log is open. Errors: E_LOCKED; E_WAL_CRC, E_CORRUPT what cannot
 * be repaired, nothing was changed. */
int wal_repair(const struct wal_opts *o, const char *dir, bool *repaired, struct errmsg *em);

/* Deletes the oldest segments while there are more than `keep` (0: none), stopping at the first that is locked.
 * `*removed` (may be NULL) counts. Any thread; the log may be open. */
int wal_purge(const struct wal_opts *o, const char *dir, size_t keep, size_t *removed,
              struct errmsg *em);

#endif

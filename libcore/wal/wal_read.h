/* Reading a write-ahead log: a stream of records in constant memory, and what a restart or a tool makes of it.
 *
 * Error kinds, each told apart by its code:
 *   E_EOF                     unexpected end: the log stops inside a record (torn write)
 *   E_WAL_CRC                 crc mismatch
 *   E_WAL_SNAPSHOT_NOT_FOUND  no record for the start snapshot
 *   E_WAL_SNAPSHOT_MISMATCH   a record with the start's index and another term
 *   E_WAL_HOLE                an entry behind a hole ("slice bounds out of range")
 *   E_WAL_METADATA            conflicting metadata
 *   E_WAL_FILE_NOT_FOUND      no segment starts at or before the start snapshot
 *   E_WAL_SEQUENCE            a segment in the middle is missing
 *   E_CORRUPT                 a record that is whole but does not parse, or of unknown type
 *   E_TOOBIG                  a record over WAL_RECORD_BYTES_MAX, or more entries than the options allow
 * and what the disk and the allocator say. The message names file and offset.
 *
 * What the records hold is read with pb/raftpb.h. */
#ifndef WAL_WAL_READ_H
#define WAL_WAL_READ_H

#include "wal/wal.h"

/* ---- the stream ---- */

struct wal_reader;

struct wal_view {
    int64_t type;        /* an enum wal_type, or what the log holds instead */
    uint32_t crc;        /* as stored */
    struct bytes data;   /* borrowed until the next call with the reader */
    const char *segment; /* file name; lives as long as the reader */
    uint64_t seq;        /* of that segment */
    uint64_t offset;     /* of the record in it */
    uint64_t end_offset; /* behind the record and its padding */
};

/* Opens the segments from the last one that starts at or before `from` on, read-only, without locks.
 *
 * Owner:   gives `*out` (wal_reader_close()).
 * Errors:  E_WAL_FILE_NOT_FOUND, E_WAL_SEQUENCE, E_NOENT no such folder. */
int wal_reader_open(const struct wal_opts *o, const char *dir, raft_index from,
                    struct wal_reader **out, struct errmsg *em);

/* All segments that are there, whatever their numbers. Errors: E_WAL_FILE_NOT_FOUND when there is none. */
int wal_reader_open_all(const struct wal_opts *o, const char *dir, struct wal_reader **out,
                        struct errmsg *em);

/* One segment alone; its name need not be a segment's. */
int wal_reader_open_file(const struct wal_opts *o, const char *path, struct wal_reader **out,
                         struct errmsg *em);

/* The next record; crcs and the chain are checked. E_NOTFOUND at the clean end; calling again looks whether the last
 * segment has grown. On E_WAL_CRC `*out` is filled all the same and the reader stands behind the record with the
 * stored crc as its own, so a tool may go on. After any other error only close. */
int wal_reader_next(struct wal_reader *r, struct wal_view *out, struct errmsg *em);

/* Where the last good record ended: offset in, and number of, the segment being read; and the running crc. */
uint64_t wal_reader_offset(const struct wal_reader *r);
uint64_t wal_reader_seq(const struct wal_reader *r);
uint32_t wal_reader_crc(const struct wal_reader *r);
size_t wal_reader_segment_count(const struct wal_reader *r);

void wal_reader_close(struct wal_reader *r); /* NULL is allowed */

/* ---- all at once ---- */

struct wal_contents {
    const struct alloc *alloc;
    uint8_t *metadata; /* NULL while none was met */
    size_t metadata_len;
    struct raft_hard_state hard_state; /* the last one; zeros when there is none */
    struct raft_entry *entries;        /* those behind the start snapshot, without holes */
    size_t entry_count;
    size_t entry_cap;
    uint64_t entry_bytes;  /* of all entries' data */
    raft_index last_index; /* of the last entry record met, also one at or below the start */
    bool start_found;      /* the start snapshot's record was met */
    bool torn;             /* read-only: the log ended inside a record */
};

#define WAL_CONTENTS_EMPTY ((struct wal_contents){0})

void wal_contents_deinit(struct wal_contents *c);

/* Reads the log from the snapshot `start`, read-only, as a tool does: a torn end is fine.
 *
 * Owner:   gives `*out` (wal_contents_deinit()); on error it holds what was read up to E_WAL_HOLE, and the whole on
 *          E_WAL_SNAPSHOT_NOT_FOUND; else it is empty. Deinit in any case. */
int wal_read(const struct wal_opts *o, const char *dir, struct wal_snapshot start,
             struct wal_contents *out, struct errmsg *em);

/* Reads everything from `start` on and keeps only the last hard state. Errors as wal_read(), holes are not looked for. */
int wal_verify(const struct wal_opts *o, const char *dir, struct wal_snapshot start,
               struct raft_hard_state *state, struct errmsg *em);

/* The snapshot records of the whole log with index <= the commit index of its last state record, in log order.
 *
 * Owner:   gives `*out`, an array of `*n` (wal_snapshots_free()). */
int wal_snapshots(const struct wal_opts *o, const char *dir, struct wal_snapshot **out, size_t *n,
                  struct errmsg *em);

/* The same, and the index that the log reaches: of its last entry, or of a later snapshot. */
int wal_survey(const struct wal_opts *o, const char *dir, struct wal_snapshot **out, size_t *n,
               raft_index *last, struct errmsg *em);
void wal_snapshots_free(const struct wal_opts *o, struct wal_snapshot *list, size_t n);

#endif

/* Shared inside the WAL module. */
#ifndef WAL_WAL_INT_H
#define WAL_WAL_INT_H

#include "base/buf.h"
#include "pb/raftpb.h"
#include "wal/wal.h"
#include "wal/wal_fs.h"
#include "wal/wal_read.h"

enum {
    WAL__SECTOR_BYTES = 512, /* what a disk writes whole; the torn-write test goes by it */
    WAL__PAGE_BYTES = 4096,  /* what an overflowing buffer is cut to */
    WAL__BUFFER_BYTES = 128 * 1024,
    WAL__NAME_BYTES_MAX = 64,
    WAL__FRAME_BYTES = 8 /* the length word */
};

/* ---- names and segments (wal_name.c) ---- */

struct wal__segment {
    uint64_t seq;
    raft_index first; /* index of the first entry that may be inside */
    char name[WAL__NAME_BYTES_MAX];
    struct disk_file *file; /* NULL while closed */
};

struct wal__segments {
    const struct alloc *alloc;
    struct wal__segment *v; /* by name, oldest first */
    size_t count;
    size_t cap;
};

/* SEQ-INDEX.wal; `text` is kept as it is. False when it is none. */
bool wal__name_parse(const char *text, struct wal__segment *out);
void wal__name_format(uint64_t seq, raft_index first, char out[WAL__NAME_BYTES_MAX]);

/* The folder's segments; other names get a warning. */
int wal__segments_list(const struct wal_opts *o, const char *dir, struct wal__segments *out,
                       struct errmsg *em);
/* Drops those in front of the last one with first <= `from`, and checks that numbers rise by one. */
int wal__segments_select(struct wal__segments *s, raft_index from, struct errmsg *em);
int wal__segments_reserve(struct wal__segments *s);
/* Closes all open files. */
void wal__segments_close(struct wal__segments *s, const struct disk *d);
void wal__segments_deinit(struct wal__segments *s);
/* Drops the first `n`, closing their files. */
void wal__segments_drop(struct wal__segments *s, const struct disk *d, size_t n);

/* ---- frames (wal_frame.c) ---- */

struct wal__frame {
    uint64_t record_bytes; /* the Record message */
    uint64_t pad_bytes;
};

/* The length word of a record of `record_bytes`. */
uint64_t wal__frame_encode(uint64_t record_bytes, uint64_t *pad_bytes);
struct wal__frame wal__frame_decode(uint64_t word);
/* True when a sector's piece of the bytes behind a length word is all zero; `offset` is theirs in the file. */
bool wal__torn(struct bytes behind, uint64_t offset);

/* ---- reader (wal_reader.c) ---- */

struct wal_reader {
    struct wal_opts o;
    struct wal_path dir;
    struct wal__segments segs;
    bool borrowed;          /* the files are a writer's, open already */
    size_t at;              /* segment being read */
    struct disk_file *file; /* NULL before the first read of it */
    uint64_t size_bytes;
    bool sized;      /* size_bytes is known */
    uint64_t offset; /* behind the last good record */
    uint32_t crc;
    struct buf window; /* bytes of the file from `window_at` on */
    uint64_t window_at;
};

/* A reader over the open files of `segs`, which it copies; it closes none. */
int wal__reader_over(const struct wal_opts *o, const char *dir, const struct wal__segments *segs,
                     struct wal_reader **out);

/* ---- what a reader's records amount to (wal_contents.c) ---- */

/* Reads to the end. 0 at a clean end, else what ended it. */
int wal__collect(struct wal_reader *r, struct wal_snapshot start, bool keep_entries,
                 struct wal_contents *c, struct errmsg *em);

/* ---- writer (wal_write.c, wal_cut.c, wal_open.c) ---- */

struct wal {
    struct wal_opts o;
    struct wal_path dir;
    struct wal__segments segs; /* those whose locks are held; the last one is being written */
    uint8_t *buffer;           /* WAL__BUFFER_BYTES + WAL__PAGE_BYTES */
    size_t buffered;
    uint64_t offset; /* of the file, behind what was handed to the disk */
    uint32_t crc;
    uint8_t *metadata;
    size_t metadata_len;
    struct raft_hard_state state; /* last one saved through this handle */
    raft_index last_index;
    struct disk_file *next; /* the prepared segment, locked, or NULL */
    unsigned next_count;    /* prepared so far; its parity names the file */
    uint64_t written_bytes;
    bool sync_due; /* see wal_sync_due() */
    bool unsynced; /* something was handed to the disk or the buffer since the last sync */
    bool put_off;  /* there was no room for the next segment */
    bool failed;   /* takes no more */
};

/* Allocates a handle without files; `metadata` is copied. */
int wal__new(const struct wal_opts *o, const char *dir, struct bytes metadata, struct wal **out);
/* Frees it; files are closed, nothing is written. */
void wal__free(struct wal *w);
struct wal__segment *wal__tail(struct wal *w);
/* Marks `w` as failed, says so, and returns `rc`. */
int wal__fail(struct wal *w, int rc, const char *what, struct errmsg *em);
/* Appends one record whose data is `a` then `b`. */
int wal__put_record(struct wal *w, enum wal_type type, struct bytes a, struct bytes b,
                    struct errmsg *em);
int wal__put_state(struct wal *w, struct raft_hard_state s, struct errmsg *em);
int wal__flush(struct wal *w, struct errmsg *em);
/* crc, metadata, and the last state if there is one. */
int wal__put_head(struct wal *w, struct errmsg *em);
int wal__cut(struct wal *w, struct errmsg *em);
/* Makes or reuses `name` as an empty, locked, preallocated file. */
int wal__make_segment(const struct wal_opts *o, const char *path, struct disk_file **out,
                      struct errmsg *em);
/* Deletes the prepared segment, if any. */
void wal__drop_next(struct wal *w);

uint64_t wal__segment_bytes(const struct wal_opts *o);

#endif

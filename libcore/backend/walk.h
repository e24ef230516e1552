/* Validates an LMDB 0.9 data file without LMDB, and hands out its rows in the same pass.
 *
 * LMDB maps its file and believes it: one wrong page number is a crash or worse. So nothing is given to it that
 * this walk has not seen whole: both meta pages, then every page of the newest state exactly once (branches,
 * leaves, overflow runs, the list of free pages), every offset, size, count and the order of all keys.
 *
 * Iterative; memory is one bit per page, one page per tree level, a few read windows, and the largest value that
 * is handed out. Reads go through `struct disk` in windows that double while they are sequential. */
#ifndef BACKEND_WALK_H
#define BACKEND_WALK_H

#include <stdint.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/errmsg.h"
#include "env/backend.h"
#include "env/disk.h"

/* Called per row, in key order within a table; tables come in name order but TABLE_KEY last, so that leases
 * and meta are known when revisions arrive. Spans are valid for the call. Non-zero stops the walk with that
 * value. */
typedef int (*walk_row_fn)(void *arg, enum table t, struct bytes key, struct bytes value);

struct walk_opts {
    walk_row_fn row; /* or NULL */
    /* Called when all was found sound, as the last thing; non-zero is what the walk returns. Or NULL. */
    int (*end)(void *arg);
    void *arg;
    uint32_t tables; /* whose rows are handed out: bits 1 << enum table */
};

struct walk_stats {
    uint64_t txn_id; /* of the state walked */
    uint32_t page_bytes;
    uint64_t page_count; /* last used page + 1 */
    uint64_t free_count; /* pages that the free list names */
    uint64_t row_count[TABLE_COUNT];
};

/* Walks the file at `path`. `stats` may be NULL.
 *
 * Owner:  borrows all. Thread: any; the file must not change meanwhile.
 * Errors: E_NOENT no such file; E_EOF the file is empty; E_UNSUPPORTED it is a bbolt database (the text says how
 *         to convert it) or of another program; E_CORRUPT damaged, `em` names page and reason; E_NOMEM, E_IO;
 *         what `row` or `end` returned. */
int backend_walk(const struct disk *disk, const char *path, const struct alloc *alloc,
                 const struct walk_opts *opts, struct walk_stats *stats, struct errmsg *em);

/* The same over an open file; `path` is for texts only. */
int backend_walk_file(const struct disk *disk, struct disk_file *file, const char *path,
                      const struct alloc *alloc, const struct walk_opts *opts,
                      struct walk_stats *stats, struct errmsg *em);

#endif

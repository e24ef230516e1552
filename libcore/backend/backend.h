/* The LMDB implementation of `struct backend` (env/backend.h): the member's store on disk.
 *
 * One file, `<data dir>/member/snap/db`, opened with MDB_NOSUBDIR and MDB_NOTLS; the name is upstream's on
 * purpose, so that upstream started on such a folder refuses instead of starting empty. LMDB puts its lock
 * table beside it as `db-lock`; that file holds nothing worth keeping.
 *
 * The order at every start: lock the file, walk it (backend/walk.h) because LMDB trusts what it maps, then
 * hand it to LMDB. A new store is built under `db.tmp.new` and renamed when it is durable, so `db`
 * is either absent or whole; upstream's own start-up removes names that begin with `db.tmp`. */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/walk.h"
#include "base/alloc.h"
#include "base/errmsg.h"
#include "env/backend.h"
#include "env/disk.h"

/* The map is address space, not memory: it is reserved once and never resized. */
#define BACKEND_MAP_BYTES_MIN ((uint64_t)64 << 30)
#define BACKEND_MAP_PER_QUOTA 8
/* Read transactions at once: io threads, workers and snapshot streams stay far below. Each costs a cache
 * line in the lock table; above it read_begin() answers E_BUSY. */
#define BACKEND_READERS_DEFAULT 1024

struct backend_lmdb;

struct backend_lmdb_opts {
    const struct alloc *alloc; /* used from any thread; outlives the store */
    const struct disk *disk;   /* of real files, LMDB opens `path` by itself; outlives the store */
    const char *path;          /* of the db file; its folder must exist */
    bool create;               /* make a new store when there is no file */
    uint64_t map_bytes;        /* 0: BACKEND_MAP_BYTES_MIN */
    unsigned reader_count_max; /* 0: BACKEND_READERS_DEFAULT */
    struct walk_opts walk;     /* what the start-up walk shall hand out; zero: it only validates */
};

/* The size of map for a quota: the larger of BACKEND_MAP_BYTES_MIN and 8 x the quota. */
uint64_t backend_map_bytes(uint64_t quota_bytes);

/* Opens the store, after the walk.
 *
 * Owner:   gives `*out`, for backend_lmdb_close(); borrows `o` for the call.
 * Thread:  any one. A file is opened once at a time in all processes; a store does not survive fork().
 * Errors:  E_NOENT no file and not `create`; E_LOCKED open elsewhere; those of backend_walk(); E_NOMEM,
 *          E_NOSPACE, E_IO. The file is as before. */
int backend_lmdb_open(const struct backend_lmdb_opts *o, struct backend_lmdb **out,
                      struct errmsg *em);

/* Closes; no transaction may be open. A NULL `b` is allowed. */
void backend_lmdb_close(struct backend_lmdb *b);

/* The functions over `b`, valid until it is closed.
 *
 * Beyond the contract: a key of more than 510 bytes, or an empty one, is stored under a stand-in (see
 * backend_key.h); callers never see it, and cursors give such keys in their right place. read_begin() costs less
 * than 1 us, takes no lock and makes no system call once as many transactions were open before. */
struct backend backend_lmdb_face(struct backend_lmdb *b);

/* Moves the store into a new file without free pages (defragmentation).
 *
 * Thread:  the writer's, between two write transactions. Reads go on; the space of the old file comes back when those
 *          have ended that began before.
 * Errors:  E_BUSY such reads of an earlier call are still open; E_NOSPACE, E_IO, E_CORRUPT, E_NOMEM: the store is as
 *          before, unless `*must_end`: then the exchange may not survive a power cut and the process must end. */
int backend_lmdb_compact(struct backend_lmdb *b, bool *must_end, struct errmsg *em);

/* Disk space kept for the day the disk is full: rule 8 of the design's "Durability and visibility".
 *
 * `path` should be `<data dir>/member/ballast`: upstream reads the folders below `member`, not `member`
 * itself. Creating one that has the size already does nothing; one of another size is replaced.
 * Errors: E_NOSPACE (no file stays behind), E_IO, E_ACCES. */
int backend_ballast_create(const struct disk *disk, const char *path, uint64_t bytes,
                           struct errmsg *em);

/* Gives the space back; no ballast is no error. */
int backend_ballast_release(const struct disk *disk, const char *path, struct errmsg *em);

#endif

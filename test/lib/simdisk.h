/* A disk in memory behind `struct disk`, for tests of what must survive a crash.
 *
 * Every change is recorded in a trace. From any prefix of it a crash image can be made: the disk as
 * it may be found after a power cut at that moment. A file's changes are durable from the next
 * datasync of that file on; a folder's entries (create, rename, unlink, mkdir, rmdir) only from the
 * next sync_dir of that folder on. A handle's datasync does not make its name durable. The n-th
 * changing operation can be made to fail.
 *
 * Paths may be absolute or relative; both start at the same empty root folder ("/a" is "a"), and
 * "." is the root. Files are sparse, pages are shared between images, so large preallocated files
 * cost little. Thread safe. */
#ifndef TEST_LIB_SIMDISK_H
#define TEST_LIB_SIMDISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "env/disk.h"

struct simdisk;

enum simdisk_kind {
    SIMDISK_CREATE,   /* a file came into being: path */
    SIMDISK_WRITE,    /* path, offset, data */
    SIMDISK_SYNC,     /* datasync: path */
    SIMDISK_TRUNCATE, /* path, offset = new size; also an open with DISK_TRUNCATE */
    SIMDISK_ALLOCATE, /* path, offset = new size */
    SIMDISK_MKDIR,    /* path */
    SIMDISK_RENAME,   /* path, path_to */
    SIMDISK_UNLINK,   /* path */
    SIMDISK_RMDIR,    /* path */
    SIMDISK_SYNC_DIR, /* path */
    SIMDISK_MARK      /* path = the text of simdisk_mark() */
};

struct simdisk_op {
    enum simdisk_kind kind;
    const char *path;    /* as it was named in the call (of a handle: when it was opened) */
    const char *path_to; /* SIMDISK_RENAME */
    uint64_t offset;
    struct bytes data; /* SIMDISK_WRITE */
};

/* What becomes of changes that no sync covers. */
enum simdisk_loss {
    SIMDISK_KEPT, /* all reached the disk */
    SIMDISK_LOST, /* none did */
    /* Each sector of a write, each truncate, a prefix of each folder's entries: by seed. */
    SIMDISK_TORN
};

enum { SIMDISK_SECTOR_BYTES = 512 };

/* Gives an empty disk; simdisk_free() frees it (open handles must be closed first, or are lost).
 * Aborts without memory. */
struct simdisk *simdisk_new(void);
void simdisk_free(struct simdisk *d);

/* Lives as long as `d`. */
const struct disk *simdisk_face(struct simdisk *d);

/* --- the trace -------------------------------------------------------------------------------- */

size_t simdisk_op_count(struct simdisk *d);
/* Valid until simdisk_settle() or simdisk_free(). */
struct simdisk_op simdisk_op(struct simdisk *d, size_t i);
const char *simdisk_kind_name(enum simdisk_kind k);
/* Puts a remark in the trace ("reply 7"), so that a test can show what came after which sync. */
void simdisk_mark(struct simdisk *d, const char *text);
/* Makes all that was done so far durable and empties the trace. */
void simdisk_settle(struct simdisk *d);

/* --- faults ----------------------------------------------------------------------------------- */

struct simdisk_fault {
    size_t nth;     /* the n-th changing operation from now (1 = next) fails; 0: none does */
    int rc;         /* with this E_IO, E_NOSPACE, ... */
    bool forever;   /* and all after it */
    bool half;      /* a failing write has written its first half, a failing sync its effect */
    unsigned kinds; /* a set of 1u << SIMDISK_...; 0: all kinds count */
};

void simdisk_set_fault(struct simdisk *d, struct simdisk_fault fault);
/* How often a fault struck since it was set. */
size_t simdisk_fault_count(struct simdisk *d);

/* --- crash images ----------------------------------------------------------------------------- */

/* Gives the disk as found after a power cut when the first `prefix` <= simdisk_op_count()
 * operations had been called (the last one had returned). `seed` matters for SIMDISK_TORN only. `d`
 * stays as it is. */
struct simdisk *simdisk_crash(struct simdisk *d, size_t prefix, enum simdisk_loss loss,
                              uint64_t seed);

/* Gives a copy of the present state (all of it durable, no trace, no locks). */
struct simdisk *simdisk_copy(struct simdisk *d);

/* --- shortcuts (none enters the trace; when they cannot, they say why and abort) -------------- */

/* Puts a file with this content in place, replacing one; folders on the way are made. Durable at
 * once. */
void simdisk_put_file(struct simdisk *d, const char *path, struct bytes content);
/* Copies a real file or folder tree (of plain files) from the host to `to`. Durable at once. */
void simdisk_load(struct simdisk *d, const char *host_path, const char *to);
/* Gives the content (free() frees it) and its length. */
uint8_t *simdisk_get_file(struct simdisk *d, const char *path, size_t *len);
bool simdisk_exists(struct simdisk *d, const char *path);

#endif

/* Small jobs over `struct disk` that the WAL, the snapshot folder and the tools share: paths, parents, whole
 * files, sweeping.
 *
 * Paths are zero-terminated and at most WAL_PATH_BYTES_MAX long; "/" separates. */
#ifndef WAL_WAL_FS_H
#define WAL_WAL_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/errmsg.h"
#include "env/disk.h"

enum { WAL_PATH_BYTES_MAX = 4096 };

/* How many names of one folder are looked at; far above what a member ever makes. */
#define WAL_FS_NAMES_MAX ((size_t)1 << 20)

struct wal_path {
    char text[WAL_PATH_BYTES_MAX];
};

/* dir/name into `out`. E_TOOBIG with a message. */
int wal_fs_join(const char *dir, const char *name, struct wal_path *out, struct errmsg *em);

/* The folder that holds `path`: "." when it names none. E_TOOBIG. */
int wal_fs_parent(const char *path, struct wal_path *out, struct errmsg *em);

bool wal_fs_has_suffix(const char *name, const char *suffix);
bool wal_fs_has_prefix(const char *name, const char *prefix);

/* Makes `dir` and the parents that are missing (0700). A present one is fine. */
int wal_fs_mkdir_all(const struct disk *d, const char *dir, struct errmsg *em);

/* The names of a folder, ascending by byte. */
struct wal_fs_names {
    const struct alloc *alloc;
    char **v;
    size_t count;
    size_t cap;
};

/* Gives `*out` (wal_fs_names_deinit()). Errors: E_TOOBIG over WAL_FS_NAMES_MAX; E_NOMEM; of the disk. */
int wal_fs_list(const struct disk *d, const struct alloc *a, const char *dir,
                struct wal_fs_names *out, struct errmsg *em);
void wal_fs_names_deinit(struct wal_fs_names *n);

/* Appends a whole file to `out`. Errors: as buf_reserve() and the disk. */
int wal_fs_read(const struct disk *d, const char *path, struct buf *out, struct errmsg *em);

/* Deletes the plain files of `dir` and `dir` itself; a missing one is fine. E_EXIST when it holds a folder. */
int wal_fs_remove_dir(const struct disk *d, const struct alloc *a, const char *dir,
                      struct errmsg *em);

/* Puts "path: text of rc" into `em` and returns `rc`. */
int wal_fs_fail(struct errmsg *em, int rc, const char *what, const char *path);

#endif

/* The file system as a struct of functions, so that the same WAL runs on a real disk and on a simulated
 * one that loses, tears and refuses writes.
 *
 * Contract: EINTR is retried inside; a short write is continued inside (a failure after part of it was
 * written is an error all the same). Every function returns 0 or a negative E_... (E_NOENT, E_EXIST, E_ACCES,
 * E_NOSPACE, E_LOCKED, E_IO, ...). After a failed `datasync` the file's content is unknown: callers
 * never retry it. Functions block; they are for threads that may. */
#ifndef ENV_DISK_H
#define ENV_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct disk_file; /* of the implementation */

enum disk_open_flag {
    DISK_READ = 0,
    DISK_WRITE = 1,     /* read and write */
    DISK_CREATE = 2,    /* create when absent */
    DISK_EXCLUSIVE = 4, /* with DISK_CREATE: E_EXIST when present */
    DISK_TRUNCATE = 8
};

struct disk_stat {
    uint64_t size_bytes;
    uint32_t mode; /* permission bits */
    bool is_dir;
};

/* Called once per name in a folder, "." and ".." left out, in no order; non-zero stops with that value. */
typedef int (*disk_list_fn)(void *arg, const char *name);

struct disk {
    int (*open)(void *arg, const char *path, unsigned flags, uint32_t mode, struct disk_file **out);
    void (*close)(void *arg, struct disk_file *f); /* drops a lock held through `f` */
    /* Reads up to `len` bytes at `offset`; `*got` < len only at the end of the file. */
    int (*read)(void *arg, struct disk_file *f, uint64_t offset, void *data, size_t len,
                size_t *got);
    int (*write)(void *arg, struct disk_file *f, uint64_t offset, struct bytes data);
    int (*datasync)(void *arg, struct disk_file *f);
    int (*truncate)(void *arg, struct disk_file *f, uint64_t size_bytes);
    /* Makes the file `size_bytes` long with zeros and, where the system can, reserves the space. */
    int (*allocate)(void *arg, struct disk_file *f, uint64_t size_bytes);
    int (*file_stat)(void *arg, struct disk_file *f, struct disk_stat *out);
    /* An exclusive lock over the whole file, shared with upstream (F_OFD_SETLK). Without `wait` a held one
     * is E_LOCKED. */
    int (*lock)(void *arg, struct disk_file *f, bool wait);

    int (*stat)(void *arg, const char *path, struct disk_stat *out);
    int (*mkdir)(void *arg, const char *path, uint32_t mode); /* one level */
    int (*rename)(void *arg, const char *from, const char *to);
    int (*unlink)(void *arg, const char *path);
    int (*rmdir)(void *arg, const char *path); /* an empty one */
    int (*list)(void *arg, const char *path, disk_list_fn fn, void *fn_arg);
    int (*sync_dir)(void *arg, const char *path);
    void *arg;
};

#endif

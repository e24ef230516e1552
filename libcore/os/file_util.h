/* Small jobs on whole files over any `struct disk`. */
#ifndef OS_FILE_UTIL_H
#define OS_FILE_UTIL_H

#include "base/buf.h"
#include "base/errmsg.h"
#include "env/disk.h"

/* Appends the file's content. E_TOOBIG when it does not fit in `out`'s bound; E_NOENT, E_ACCES,
 * ...; the file is named in `em`. On error `out` is as before. */
int file_read_all(const struct disk *d, const char *path, struct buf *out, struct errmsg *em);

/* The same from an open descriptor, a pipe or terminal: until its end. */
int file_read_fd(int fd, struct buf *out, struct errmsg *em);

/* Makes the folder and those above it that are missing, mode 0700 (or `mode`). */
int file_mkdir_all(const struct disk *d, const char *path, uint32_t mode, struct errmsg *em);

/* Replaces the file in one step: written and synced under PATH.tmp, renamed, folder synced. On
 * error the old content stands; when only the folder's sync failed, the new one does, but may not
 * survive a crash. */
int file_write_atomic(const struct disk *d, const char *path, struct bytes content, uint32_t mode,
                      struct errmsg *em);

/* Writes all of `data` to a descriptor (stdout, a pipe). E_CLOSED, E_NOSPACE, E_IO. */
int file_write_fd(int fd, struct bytes data);

#endif

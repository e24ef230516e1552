/* The real file system behind `struct disk`. */
#ifndef OS_DISK_H
#define OS_DISK_H

#include "env/disk.h"

/* Stateless, static storage; handles may be used by one thread at a time. */
const struct disk *os_disk(void);

/* The file descriptor below a handle of os_disk(), for mmap and sendfile; it stays the handle's. */
int os_disk_fd(const struct disk_file *f);

#endif

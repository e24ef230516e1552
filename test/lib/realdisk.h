/* The real file system behind `struct disk`, for tests of modules that may not link os: what maps files or opens them
 * by itself cannot use the simulated disk. As plain as it can be; programs use os/disk.h. */
#ifndef TEST_LIB_REALDISK_H
#define TEST_LIB_REALDISK_H

#include "env/disk.h"

enum { REALDISK_PATH_BYTES_MAX = 512 };

/* Stateless, static storage. */
const struct disk *realdisk(void);

/* Makes an empty folder of a name of its own below $TMPDIR, else /dev/shm or /tmp, and gives its path. Aborts when it cannot. */
void realdisk_folder(const char *name, char out[REALDISK_PATH_BYTES_MAX]);

/* Removes a folder of files, and itself. */
void realdisk_remove(const char *folder);

#endif

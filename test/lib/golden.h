/* Golden data directories, unpacked straight from their archives into a simulated disk. */
#ifndef TEST_LIB_GOLDEN_H
#define TEST_LIB_GOLDEN_H

#include <stdbool.h>
#include <stddef.h>

#include "simdisk.h"

struct json_object;

enum { GOLDEN_DIRS_MAX = 128, GOLDEN_PATH_BYTES_MAX = 256 };

/* Folders below ../shared/golden/`under` that hold an expected.json, relative to ../shared, sorted. */
struct golden_dirs {
    char path[GOLDEN_DIRS_MAX][GOLDEN_PATH_BYTES_MAX];
    size_t count; /* 0 when ../shared is not there */
};

void golden_find(struct golden_dirs *g, const char *under);

/* Unpacks ../shared/`dir`/data.tar.xz: the files whose path holds `part` ("/wal/"), as "data/member/wal/...". Fails
 * the running test when that does not work. */
void golden_unpack(struct simdisk *d, const char *dir, const char *part);

/* Gives ../shared/`dir`/expected.json (json_object_put()). */
struct json_object *golden_expected(const char *dir);

#endif

/* Golden data directories: `xz -dc` into a pipe, and a reader of plain tar blocks. */
#include "golden.h"

#include <dirent.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "shared.h"

enum { TAR_BLOCK_BYTES = 512, TAR_SIZE_AT = 124, TAR_SIZE_BYTES = 12, TAR_TYPE_AT = 156 };

/* ---- finding ---------------------------------------------------------------------------------------- */

static bool has_expected(const char *relative)
{
    char name[GOLDEN_PATH_BYTES_MAX + 32];
    char path[SHARED_PATH_BYTES_MAX];
    snprintf(name, sizeof name, "%s/expected.json", relative);
    return shared_find(name, path);
}

static int path_cmp(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The folders right below `relative`: those with an expected.json are taken, others are looked into by the caller. */
static void find_below(struct golden_dirs *g, const char *relative, bool deeper)
{
    char path[SHARED_PATH_BYTES_MAX];
    if (!shared_find(relative, path)) return;
    DIR *dir = opendir(path);
    if (dir == NULL) return;
    const struct dirent *e;
    while ((e = readdir(dir)) != NULL) {
        char below[GOLDEN_PATH_BYTES_MAX];
        if (e->d_name[0] == '.' || e->d_type != DT_DIR) continue;
        int n = snprintf(below, sizeof below, "%s/%s", relative, e->d_name);
        if (n < 0 || (size_t)n >= sizeof below || g->count == GOLDEN_DIRS_MAX) continue;
        if (has_expected(below))
            memcpy(g->path[g->count++], below, (size_t)n + 1);
        else if (deeper)
            find_below(g, below, false);
    }
    closedir(dir);
}

void golden_find(struct golden_dirs *g, const char *under)
{
    char relative[GOLDEN_PATH_BYTES_MAX];
    g->count = 0;
    snprintf(relative, sizeof relative, "golden/%s", under);
    find_below(g, relative, true);
    qsort(g->path, g->count, sizeof g->path[0], path_cmp);
}

/* ---- unpacking -------------------------------------------------------------------------------------- */

static void read_exact(FILE *in, void *data, size_t n)
{
    if (fread(data, 1, n, in) != n) fail_msg("the archive is cut");
}

/* One block for all files, as large as the largest so far: segments are many and mostly zeros. */
static uint8_t *file_room(size_t bytes)
{
    static uint8_t *room;
    static size_t room_bytes;
    if (bytes <= room_bytes) return room;
    free(room);
    room = malloc(bytes);
    assert_non_null(room);
    room_bytes = bytes;
    return room;
}

static void skip_file(FILE *in, size_t bytes)
{
    char chunk[16 * TAR_BLOCK_BYTES];
    while (bytes > 0) {
        size_t n = bytes < sizeof chunk ? bytes : sizeof chunk;
        read_exact(in, chunk, n);
        bytes -= n;
    }
}

static void take_file(struct simdisk *d, FILE *in, const char *name, size_t bytes, bool wanted)
{
    size_t padded = (bytes + TAR_BLOCK_BYTES - 1) / TAR_BLOCK_BYTES * TAR_BLOCK_BYTES;
    if (!wanted) {
        skip_file(in, padded);
        return;
    }
    uint8_t *data = file_room(padded + 1);
    read_exact(in, data, padded);
    simdisk_put_file(d, name, bytes_of(data, bytes));
}

static void unpack(struct simdisk *d, FILE *in, const char *part)
{
    char block[TAR_BLOCK_BYTES + 1] = {0};
    for (;;) {
        read_exact(in, block, TAR_BLOCK_BYTES);
        if (block[0] == '\0') return;
        char size[TAR_SIZE_BYTES + 1] = {0};
        char name[101] = {0};
        memcpy(size, block + TAR_SIZE_AT, TAR_SIZE_BYTES);
        memcpy(name, block, 100);
        bool file = block[TAR_TYPE_AT] == '0';
        take_file(d, in, name, (size_t)strtoull(size, NULL, 8), file && strstr(name, part) != NULL);
    }
}

void golden_unpack(struct simdisk *d, const char *dir, const char *part)
{
    char relative[GOLDEN_PATH_BYTES_MAX + 32];
    char path[SHARED_PATH_BYTES_MAX];
    char command[SHARED_PATH_BYTES_MAX + 32];
    snprintf(relative, sizeof relative, "%s/data.tar.xz", dir);
    assert_true(shared_find(relative, path));
    snprintf(command, sizeof command, "xz -dc '%s'", path);
    FILE *in = popen(command, "r");
    assert_non_null(in);
    unpack(d, in, part);
    while (fread(command, 1, sizeof command, in) > 0) {}
    assert_int_equal(pclose(in), 0);
}

struct json_object *golden_expected(const char *dir)
{
    char relative[GOLDEN_PATH_BYTES_MAX + 32];
    char path[SHARED_PATH_BYTES_MAX];
    snprintf(relative, sizeof relative, "%s/expected.json", dir);
    assert_true(shared_find(relative, path));
    struct json_object *o = json_object_from_file(path);
    assert_non_null(o);
    return o;
}

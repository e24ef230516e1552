/* The LMDB file walker on any bytes: whatever the file, the walk ends with an answer; and what it lets pass is safe to
 * give to LMDB, to read, change and walk again.
 *
 * First byte: bit 0: the rest is a file as it is; else it is a list of patches (page, offset u16, length, bytes) to a
 * sound file of this program, so that the fuzzer reaches what lies behind the first checks. Bit 1: use what
 * passed with LMDB. Built with PLANT_OVERFLOW it holds a bug to be found. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/walk_int.h"
#include "base/assert.h"
#include "base/endian.h"
#include "base/err.h"
#include "os/heap.h"
#include "realdisk.h"

enum { RAW = 1, USE = 2, ROWS = 90, FILE_BYTES_MAX = 1 << 18 };

static struct {
    char folder[REALDISK_PATH_BYTES_MAX];
    char path[REALDISK_PATH_BYTES_MAX + 8];
    uint8_t sound[FILE_BYTES_MAX];
    size_t sound_bytes;
    uint8_t now[FILE_BYTES_MAX];
    size_t now_bytes;
} fuzz;

static void must(int rc)
{
    ASSERT(rc == 0);
}

/* --- a disk of one file in memory ----------------------------------------------------------------------- */

static int mem_read(void *arg, struct disk_file *f, uint64_t offset, void *data, size_t len,
                    size_t *got)
{
    (void)arg;
    (void)f;
    size_t left = offset < fuzz.now_bytes ? fuzz.now_bytes - (size_t)offset : 0;
    *got = len < left ? len : left;
    if (*got != 0) memcpy(data, fuzz.now + offset, *got);
    return 0;
}

static int mem_stat(void *arg, struct disk_file *f, struct disk_stat *out)
{
    (void)arg;
    (void)f;
    *out = (struct disk_stat){.size_bytes = fuzz.now_bytes};
    return 0;
}

static const struct disk memory = {.read = mem_read, .file_stat = mem_stat};

/* --- the sound file -------------------------------------------------------------------------------------- */

static struct backend_lmdb *open_store(bool create)
{
    struct backend_lmdb_opts o = {.alloc = &os_heap,
                                  .disk = realdisk(),
                                  .path = fuzz.path,
                                  .create = create,
                                  .map_bytes = 16 << 20,
                                  .reader_count_max = 2};
    struct backend_lmdb *b = NULL;
    struct errmsg em;
    return backend_lmdb_open(&o, &b, &em) == 0 ? b : NULL;
}

static void put_rows(struct backend *f, uint64_t from, size_t value_bytes)
{
    static const uint8_t value[6000];
    struct backend_tx *tx = NULL;
    must(f->begin(f->arg, &tx, NULL));
    for (uint64_t i = from; i < from + ROWS; i++) {
        uint8_t key[17] = {[8] = '_'};
        endian_store_be64(key, i);
        size_t len = i % 40 == 3 ? sizeof value : value_bytes;
        must(f->put(tx, TABLE_KEY, bytes_of(key, sizeof key), bytes_of(value, len), NULL));
        if (i % 3 == 0) must(f->del(tx, TABLE_KEY, bytes_of(key, sizeof key), NULL));
    }
    must(f->put(tx, TABLE_AUTH_USERS, bytes_of(value, 600), bytes_str("long name"), NULL));
    must(f->put(tx, TABLE_META, bytes_str("term"), bytes_of(value, 8), NULL));
    must(f->commit(tx, NULL));
}

static void write_file(const uint8_t *data, size_t len)
{
    FILE *f = fopen(fuzz.path, "wb");
    ASSERT(f != NULL);
    ASSERT(fwrite(data, 1, len, f) == len);
    (void)fclose(f);
}

static void clean_up(void)
{
    realdisk_remove(fuzz.folder);
}

static void prepare(void)
{
    realdisk_folder("fuzz-walk", fuzz.folder);
    (void)atexit(clean_up);
    (void)snprintf(fuzz.path, sizeof fuzz.path, "%s/db", fuzz.folder);
    struct backend_lmdb *b = open_store(true);
    ASSERT(b != NULL);
    struct backend face = backend_lmdb_face(b);
    put_rows(&face, 1, 60);
    put_rows(&face, 20, 80);
    backend_lmdb_close(b);
    FILE *f = fopen(fuzz.path, "rb");
    ASSERT(f != NULL);
    fuzz.sound_bytes = fread(fuzz.sound, 1, sizeof fuzz.sound, f);
    (void)fclose(f);
    ASSERT(fuzz.sound_bytes > 8 * 4096 && fuzz.sound_bytes < sizeof fuzz.sound);
}

/* --- one input ------------------------------------------------------------------------------------------- */

static void patch(const uint8_t *p, size_t len)
{
    memcpy(fuzz.now, fuzz.sound, fuzz.sound_bytes);
    fuzz.now_bytes = fuzz.sound_bytes;
    while (len >= 4) {
        size_t at = (size_t)p[0] * 4096 + endian_load_le16(p + 1) % 4096, n = p[3];
        p += 4;
        len -= 4;
        if (n > len) n = len;
        if (at < fuzz.now_bytes) {
            size_t room = fuzz.now_bytes - at;
            memcpy(fuzz.now + at, p, n < room ? n : room);
        }
        p += n;
        len -= n;
    }
}

static int see_row(void *arg, enum table t, struct bytes key, struct bytes value)
{
    uint32_t *sum = arg;
    ASSERT((unsigned)t < TABLE_COUNT);
    for (size_t i = 0; i < key.len; i++)
        *sum += key.data[i];
    for (size_t i = 0; i < value.len; i++)
        *sum += value.data[i];
    return 0;
}

#ifdef PLANT_OVERFLOW
/* The bug: a page's bound is believed before it is checked. */
static void planted(void)
{
    uint8_t pointers[4096];
    if (fuzz.now_bytes < 4 * 4096) return;
    const uint8_t *page = fuzz.now + 2 * 4096;
    memcpy(pointers, page + WALK_HEAD_BYTES, endian_load_le16(page + 12));
    ASSERT(pointers[0] == page[WALK_HEAD_BYTES]);
}
#else
static void planted(void)
{
}
#endif

static int walk_now(void)
{
    planted();
    uint32_t sum = 0;
    struct walk_opts opts = {.row = see_row, .arg = &sum, .tables = UINT32_MAX};
    struct walk_stats stats;
    struct errmsg em;
    em.text[0] = 0;
    int rc = backend_walk_file(&memory, NULL, "db", &os_heap, &opts, &stats, &em);
    ASSERT(rc == 0 || rc == E_CORRUPT || rc == E_UNSUPPORTED || rc == E_EOF);
    ASSERT((rc == 0) == (em.text[0] == 0));
    return rc;
}

static void read_all(struct backend *f)
{
    struct backend_read *r = NULL;
    must(f->read_begin(f->arg, &r, NULL));
    for (unsigned t = 0; t < TABLE_COUNT; t++) {
        struct backend_cursor *c = NULL;
        struct bytes k, v;
        must(f->cursor_open(r, (enum table)t, &c));
        int rc = f->seek(c, BYTES_EMPTY, &k, &v);
        while (rc == 0)
            rc = f->next(c, &k, &v);
        ASSERT(rc == E_NOTFOUND);
        f->cursor_close(c);
    }
    f->read_end(r);
}

static void use_with_lmdb(void)
{
    write_file(fuzz.now, fuzz.now_bytes);
    struct backend_lmdb *b = open_store(false);
    if (b == NULL) return; /* LMDB itself may refuse */
    struct backend face = backend_lmdb_face(b);
    read_all(&face);
    put_rows(&face, 10, 500);
    backend_lmdb_close(b);
    must(backend_walk(realdisk(), fuzz.path, &os_heap, NULL, NULL, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0 || len > FILE_BYTES_MAX) return 0;
    if (fuzz.sound_bytes == 0) prepare();
    if ((data[0] & RAW) != 0) {
        fuzz.now_bytes = len - 1;
        memcpy(fuzz.now, data + 1, len - 1);
    } else {
        patch(data + 1, len - 1);
    }
    if (walk_now() == 0 && (data[0] & USE) != 0) use_with_lmdb();
    return 0;
}

/* The start of the file: whose it is, and which of the two meta pages counts. */
#include "backend/walk_int.h"
#include "base/assert.h"
#include "base/endian.h"
#include "base/err.h"

#define LMDB_MAGIC   0xBEEFC0DEu
#define LMDB_VERSION 1u
#define BBOLT_MAGIC  0xED0CDAEDu

enum { MAGIC_AT = 16, FREE_AT = 40, MAIN_AT = 88, LAST_PAGE_AT = 136, TXN_AT = 144 };

_Static_assert(FREE_AT + WALK_RECORD_BYTES == MAIN_AT, "records follow each other");
_Static_assert(TXN_AT + 8 == WALK_META_BYTES, "the transaction ends the meta page");

void walk__record(const uint8_t *p, struct walk_record *out)
{
    out->pad = endian_load_le32(p);
    out->flags = endian_load_le16(p + 4);
    out->depth = endian_load_le16(p + 6);
    out->branch_pages = endian_load_le64(p + 8);
    out->leaf_pages = endian_load_le64(p + 16);
    out->overflow_pages = endian_load_le64(p + 24);
    out->rows = endian_load_le64(p + 32);
    out->root = endian_load_le64(p + 40);
}

static int read_at(const struct disk *disk, struct disk_file *file, uint64_t at, uint8_t *data)
{
    size_t got = 0;
    int rc = disk->read(disk->arg, file, at, data, WALK_META_BYTES, &got);
    if (rc < 0) return rc;
    return got == WALK_META_BYTES ? 0 : E_CORRUPT;
}

static int damaged(struct errmsg *em, const char *path, unsigned page, const char *why)
{
    errmsg_set(em, "%s is damaged: page %u: %s", path, page, why);
    return E_CORRUPT;
}

/* A first page without LMDB's magic: another program's file, or ours with a hole. */
static int foreign(const struct disk *disk, struct disk_file *file, const char *path,
                   const uint8_t *head, struct errmsg *em)
{
    if (endian_load_le32(head + MAGIC_AT) == BBOLT_MAGIC) {
        errmsg_set(em,
                   "%s is a database of upstream etcd (bbolt), convert it with 'etcd-utl migrate'",
                   path);
        return E_UNSUPPORTED;
    }
    static const uint8_t zeros[WALK_META_BYTES];
    uint8_t second[WALK_META_BYTES];
    bool ours = memcmp(head, zeros, sizeof zeros) == 0;
    if (!ours && read_at(disk, file, WALK_PAGE_BYTES_MIN, second) == 0) {
        ours = endian_load_le32(second + MAGIC_AT) == LMDB_MAGIC;
    }
    if (ours) return damaged(em, path, 0, "it is no meta page");
    errmsg_set(em, "%s is no database of this program", path);
    return E_UNSUPPORTED;
}

static bool page_bytes_ok(uint32_t n)
{
    return n >= WALK_PAGE_BYTES_MIN && n <= WALK_PAGE_BYTES_MAX && (n & (n - 1)) == 0;
}

static const char *record_fault(const struct walk_record *r)
{
    bool none = r->root == WALK_ROOT_NONE;
    uint64_t pages = r->branch_pages | r->leaf_pages | r->overflow_pages;
    if (none != (r->depth == 0)) return "a table's depth and root disagree";
    if (none && (pages | r->rows) != 0) return "an empty table has rows";
    if (r->depth > WALK_DEPTH_MAX) return "a table is too deep";
    return NULL;
}

static const char *meta_fault(const uint8_t *p, unsigned number, struct walk_meta *out)
{
    if (endian_load_le64(p) != number) return "it bears another page's number";
    if (endian_load_le16(p + 10) != WALK_PAGE_META) return "it is no meta page";
    if (endian_load_le32(p + MAGIC_AT) != LMDB_MAGIC) return "its magic number is wrong";
    walk__record(p + FREE_AT, &out->free_list);
    walk__record(p + MAIN_AT, &out->main);
    out->last_page = endian_load_le64(p + LAST_PAGE_AT);
    out->txn_id = endian_load_le64(p + TXN_AT);
    out->page_bytes = out->free_list.pad;
    if (!page_bytes_ok(out->page_bytes)) return "its page size is wrong";
    if ((out->free_list.flags & WALK_FLAGS_OF_TABLE) != WALK_FLAG_INTEGER_KEY) {
        return "its flags are wrong";
    }
    if (out->main.flags != 0) return "its flags are wrong";
    if (out->last_page < 1) return "its last page is wrong";
    const char *fault = record_fault(&out->free_list);
    return fault != NULL ? fault : record_fault(&out->main);
}

static int version_ok(const uint8_t *p, const char *path, struct errmsg *em)
{
    uint32_t version = endian_load_le32(p + 20);
    if (endian_load_le32(p + MAGIC_AT) != LMDB_MAGIC || version == LMDB_VERSION) return 0;
    errmsg_set(em, "%s has version %u of LMDB's format, only %u is known", path, version,
               LMDB_VERSION);
    return E_UNSUPPORTED;
}

/* Which one counts. They are always of transactions that follow each other, or both of a new file. */
static const char *pick(const struct walk_meta m[2], struct walk_meta *out)
{
    if (m[0].page_bytes != m[1].page_bytes) return "the meta pages disagree on the page size";
    unsigned newer = m[0].txn_id < m[1].txn_id;
    uint64_t distance = m[newer].txn_id - m[1 - newer].txn_id;
    if (m[newer].txn_id == 0)
        newer = 0;
    else if (distance != 1 || m[newer].txn_id % 2 != newer)
        return "the meta pages do not follow";
    *out = m[newer];
    return NULL;
}

int walk__meta(const struct disk *disk, struct disk_file *file, const char *path,
               uint64_t file_bytes, struct walk_meta *out, struct errmsg *em)
{
    if (file_bytes == 0) {
        errmsg_set(em, "%s is empty", path);
        return E_EOF;
    }
    if (file_bytes < WALK_META_BYTES) return damaged(em, path, 0, "the file is too short");
    uint8_t raw[WALK_META_BYTES];
    struct walk_meta m[2];
    for (unsigned i = 0; i < 2; i++) {
        int rc = read_at(disk, file, i == 0 ? 0 : m[0].page_bytes, raw);
        if (rc == E_CORRUPT) return damaged(em, path, i, "the file is too short");
        if (rc < 0) {
            errmsg_set(em, "%s: %s", path, err_text(rc));
            return rc;
        }
        if (i == 0 && endian_load_le32(raw + MAGIC_AT) != LMDB_MAGIC) {
            return foreign(disk, file, path, raw, em);
        }
        rc = version_ok(raw, path, em);
        if (rc < 0) return rc;
        const char *fault = meta_fault(raw, i, &m[i]);
        if (fault != NULL) return damaged(em, path, i, fault);
    }
    const char *fault = pick(m, out);
    return fault == NULL ? 0 : damaged(em, path, 0, fault);
}

/* Inside of the walker. The data file of LMDB 0.9 (format version 1), 64 bits, little-endian, as far as it matters:
 *
 *   page    u64 its own number; u16 pad; u16 flags (1 branch, 2 leaf, 4 overflow, 8 meta);
 *           u16 lower, u16 upper: end of the pointers and start of the nodes, counted from the page's start
 *           (overflow: u32 pages in the run instead); u16 pointer[] in key order, each to a node
 *   node    u16 lo, u16 hi, u16 flags, u16 key length; key; value. Nodes fill [upper, page end) without a gap, each at
 *           an even place.
 *           leaf    value length = hi << 16 | lo; flags 1: the value is the number of an overflow page,
 *                   2: the value is a table's record
 *           branch  child = flags << 32 | hi << 16 | lo; no value; the first key is not looked at
 *   record  u32 pad, u16 flags, u16 depth, u64 branch pages, leaf pages, overflow pages, rows, root (all ones: empty)
 *   meta    in pages 0 and 1, behind the page's head of 16 bytes: u32 magic 0xBEEFC0DE, u32 version, u64 address,
 *           u64 map size, record of the free list (its pad is the page size), record of the main table,
 *           u64 last page, u64 transaction. Transaction n writes page n % 2, so the newer one counts.
 *   free    rows of the free list: key u64 transaction, value u64 count and as many page numbers, falling
 *
 * Every page from 2 to the last is in one table or the free list, once. */
#ifndef BACKEND_WALK_INT_H
#define BACKEND_WALK_INT_H

#include <stdbool.h>

#include "backend/backend_key.h"
#include "backend/walk.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "LMDB files are in host order");

enum {
    WALK_HEAD_BYTES = 16, /* of a page */
    WALK_NODE_BYTES = 8,  /* of a node, before its key */
    WALK_RECORD_BYTES = 48,
    WALK_META_BYTES = 152, /* page head and meta */
    WALK_PAGE_BYTES_MIN = 4096,
    WALK_PAGE_BYTES_MAX = 32768, /* LMDB's own bound */
    WALK_DEPTH_MAX = 32,         /* LMDB's cursors hold no more levels */

    WALK_PAGE_BRANCH = 1,
    WALK_PAGE_LEAF = 2,
    WALK_PAGE_OVERFLOW = 4,
    WALK_PAGE_META = 8,

    WALK_NODE_BIG = 1,
    WALK_NODE_TABLE = 2,

    WALK_FLAG_INTEGER_KEY =
        8, /* of the free list's record, which shares the word with the file's own */
    WALK_FLAGS_OF_TABLE = 0x7f,

    /* Two streams (leaves and overflow runs) with room for strays; large enough that a read's cost is its bytes. */
    WALK_WINDOW_COUNT = 4,
    WALK_WINDOW_BYTES_MAX = 256 * 1024,
    WALK_WINDOW_BYTES_FIRST = 16 * 1024
};

/* --- walk_source.c: pages out of the file ----------------------------------------------------------- */

struct walk_window {
    uint8_t *data;
    uint64_t first_page;
    uint32_t page_count; /* held; 0: none */
    uint64_t used_at;    /* the least is refilled */
};

struct walk_source {
    const struct disk *disk;
    struct disk_file *file;
    const struct alloc *alloc;
    uint32_t page_bytes;
    uint64_t page_count;   /* whole pages in the file */
    uint32_t window_pages; /* that a window holds at most */
    uint64_t clock;
    struct walk_window window[WALK_WINDOW_COUNT];
    uint8_t *run; /* a run too long for a window */
    size_t run_bytes;
};

int walk__source_init(struct walk_source *s, const struct disk *disk, struct disk_file *file,
                      const struct alloc *alloc, uint32_t page_bytes, uint64_t page_count);
void walk__source_deinit(struct walk_source *s);

/* `count` pages from `first` on in one piece, valid until the next call. The caller has checked that they lie
 * in the file. Errors: E_NOMEM, E_IO. */
int walk__pages(struct walk_source *s, uint64_t first, uint64_t count, const uint8_t **out);

/* --- walk_page.c: one page by itself ------------------------------------------------------------------- */

struct walk_node {
    struct bytes key;
    uint16_t flags;
    uint64_t child;       /* branch */
    uint64_t value_bytes; /* leaf */
    const uint8_t *value; /* leaf: the value, or the number of its overflow page */
};

/* Checks a branch or leaf page; `kind` is the flag it must have. NULL when it is sound, else what is wrong. */
const char *walk__page_fault(const uint8_t *page, uint32_t page_bytes, uint64_t number,
                             uint16_t kind);

/* Of a page that walk__page_fault() passed. */
unsigned walk__node_count(const uint8_t *page);
void walk__node(const uint8_t *page, unsigned i, uint16_t kind, struct walk_node *out);

/* --- walk_meta.c: the start of the file --------------------------------------------------------------- */

struct walk_record {
    uint32_t pad;
    uint16_t flags;
    uint16_t depth;
    uint64_t branch_pages, leaf_pages, overflow_pages, rows, root;
};

#define WALK_ROOT_NONE UINT64_MAX

struct walk_meta {
    struct walk_record free_list, main;
    uint64_t last_page, txn_id;
    uint32_t page_bytes;
};

void walk__record(const uint8_t *p, struct walk_record *out);

/* Reads both meta pages and picks the newer. Errors as backend_walk(). */
int walk__meta(const struct disk *disk, struct disk_file *file, const char *path,
               uint64_t file_bytes, struct walk_meta *out, struct errmsg *em);

#endif

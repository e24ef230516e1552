/* The walk over all pages; the form of the file is in walk_int.h, the promise in walk.h.
 *
 * Idea: every page is claimed in a bitmap when it is first met, and claiming one twice is damage; so loops and shared
 * subtrees end by themselves, and at the end no bit may be left. Trees are walked in key
 * order with a stack of one page per level. Keys must rise over the whole table, and the key by which a branch
 * leads to a child stands in that sequence between what comes before and after: each key met, in a leaf or a
 * branch, is compared with the one before it only.
 *
 * Rejected: going through the file in page order (reads are sequential, but order and bounds of keys would
 * need a second pass); mmap (a file that gets shorter or a bad sector is then a signal, not an error). */
#include "backend/walk_int.h"
#include "base/assert.h"
#include "base/endian.h"
#include "base/err.h"

struct level {
    uint8_t *page;
    uint64_t number;
    unsigned next, count; /* nodes */
};

struct walk {
    struct walk_source source;
    const struct alloc *alloc;
    const char *path;
    const struct walk_opts *opts;
    struct walk_stats *stats;
    struct errmsg *em;
    struct walk_meta meta;

    uint8_t *claimed; /* a bit per page up to the last */
    size_t claimed_bytes;
    uint64_t claimed_count;

    struct walk_record table[TABLE_COUNT];
    bool table_met[TABLE_COUNT];

    uint8_t *pages; /* of the levels */
    size_t pages_bytes;
    struct level level[WALK_DEPTH_MAX];
};

/* The state of one table's walk. */
struct tree {
    const struct walk_record *record;
    struct walk_record seen; /* the same numbers, counted */
    bool integer_keys;       /* the free list's: native, 64 bits */
    bool key_met, key_led;   /* there is a key before; it was a branch's */
    uint8_t key[KEY_STORED_BYTES_MAX];
    size_t key_bytes;
    int (*row)(struct walk *w, const struct tree *t, uint64_t page, const struct walk_node *n);
    enum table table; /* for rows of tables */
};

static int bad(struct walk *w, uint64_t page, const char *why)
{
    errmsg_set(w->em, "%s is damaged: page %llu: %s", w->path, (unsigned long long)page, why);
    return E_CORRUPT;
}

static int read_failed(struct walk *w, int rc)
{
    errmsg_set(w->em, "%s: %s", w->path, err_text(rc));
    return rc;
}

/* --- claims ---------------------------------------------------------------------------------------- */

static int claim(struct walk *w, uint64_t from, uint64_t page)
{
    if (page < 2 || page > w->meta.last_page)
        return bad(w, from, "it names a page outside the file");
    uint8_t bit = (uint8_t)(1u << page % 8);
    if ((w->claimed[page / 8] & bit) != 0) return bad(w, page, "it is in use twice");
    w->claimed[page / 8] |= bit;
    w->claimed_count++;
    return 0;
}

/* Claims pages that will be read. */
static int claim_run(struct walk *w, uint64_t from, uint64_t page, uint64_t count)
{
    uint64_t have = w->source.page_count;
    if (page >= have || count > have - page)
        return bad(w, from, "it names a page outside the file");
    int rc = 0;
    for (uint64_t i = 0; i < count && rc == 0; i++)
        rc = claim(w, from, page + i);
    return rc;
}

/* --- values ---------------------------------------------------------------------------------------- */

static int claim_overflow(struct walk *w, uint64_t from, const struct walk_node *n, uint64_t *first,
                          uint64_t *pages)
{
    *first = endian_load_le64(n->value);
    uint32_t page_bytes = w->meta.page_bytes;
    uint64_t need = (WALK_HEAD_BYTES - 1 + n->value_bytes) / page_bytes + 1;
    if (*first >= w->source.page_count) return bad(w, from, "it names a page outside the file");
    const uint8_t *head = NULL;
    int rc = walk__pages(&w->source, *first, 1, &head);
    if (rc < 0) return read_failed(w, rc);
    if (endian_load_le64(head) != *first) return bad(w, *first, "it bears another page's number");
    if (endian_load_le16(head + 10) != WALK_PAGE_OVERFLOW) {
        return bad(w, *first, "it is no overflow page");
    }
    *pages = endian_load_le32(head + 12);
    if (*pages < need) return bad(w, *first, "its run is too short for its value");
    return claim_run(w, from, *first, *pages);
}

/* The value of a long row, in one piece, until pages are next read. */
static int load_overflow(struct walk *w, const struct walk_node *n, uint64_t first,
                         struct bytes *value)
{
    uint64_t need = (WALK_HEAD_BYTES - 1 + n->value_bytes) / w->meta.page_bytes + 1;
    const uint8_t *data = NULL;
    int rc = walk__pages(&w->source, first, need, &data);
    if (rc < 0) return read_failed(w, rc);
    *value = bytes_of(data + WALK_HEAD_BYTES, (size_t)n->value_bytes);
    return 0;
}

/* --- rows ------------------------------------------------------------------------------------------ */

static int table_row(struct walk *w, const struct tree *t, uint64_t page, const struct walk_node *n)
{
    if ((n->flags & WALK_NODE_TABLE) != 0) return bad(w, page, "a row is a table");
    struct bytes value = bytes_of(n->value, (size_t)n->value_bytes), key = n->key;
    bool wanted = w->opts->row != NULL && (w->opts->tables & 1u << t->table) != 0;
    bool stand_in = key.len == KEY_STORED_BYTES_MAX;
    if ((n->flags & WALK_NODE_BIG) != 0 && (wanted || stand_in)) {
        int rc = load_overflow(w, n, endian_load_le64(n->value), &value);
        if (rc < 0) return rc;
    }
    if (stand_in && backend__key_verify(n->key, value, &key, &value) < 0) {
        return bad(w, page, "a long key does not match its row");
    }
    return wanted ? w->opts->row(w->opts->arg, t->table, key, value) : 0;
}

static int main_row(struct walk *w, const struct tree *t, uint64_t page, const struct walk_node *n)
{
    (void)t;
    unsigned i = 0;
    while (i < TABLE_COUNT && !bytes_eq(n->key, bytes_str(table_name((enum table)i))))
        i++;
    if (i == TABLE_COUNT || n->flags != WALK_NODE_TABLE) {
        errmsg_set(w->em,
                   "%s is damaged or of another program: page %llu: it names no table of ours",
                   w->path, (unsigned long long)page);
        return E_UNSUPPORTED;
    }
    if (n->value_bytes != WALK_RECORD_BYTES) return bad(w, page, "a table's record is damaged");
    struct walk_record *r = &w->table[i];
    walk__record(n->value, r);
    if (r->flags != 0) return bad(w, page, "a table's flags are wrong");
    w->table_met[i] = true;
    return 0;
}

static int claim_free(struct walk *w, uint64_t page, const uint8_t *list, uint64_t count)
{
    uint64_t before = UINT64_MAX;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t free_page = endian_load_le64(list + 8 * i);
        if (free_page >= before) return bad(w, page, "the free list is out of order");
        before = free_page;
        int rc = claim(w, page, free_page);
        if (rc < 0) return rc;
    }
    w->stats->free_count += count;
    return 0;
}

static int free_row(struct walk *w, const struct tree *t, uint64_t page, const struct walk_node *n)
{
    (void)t;
    if ((n->flags & WALK_NODE_TABLE) != 0) return bad(w, page, "a row is a table");
    if (endian_load_le64(n->key.data) > w->meta.txn_id) {
        return bad(w, page, "the free list is of a later transaction");
    }
    struct bytes list = bytes_of(n->value, (size_t)n->value_bytes);
    if ((n->flags & WALK_NODE_BIG) != 0) {
        int rc = load_overflow(w, n, endian_load_le64(n->value), &list);
        if (rc < 0) return rc;
    }
    if (list.len < 8 || list.len % 8 != 0) return bad(w, page, "the free list is damaged");
    uint64_t count = endian_load_le64(list.data);
    if (count > list.len / 8 - 1) return bad(w, page, "the free list is damaged");
    return claim_free(w, page, list.data + 8, count);
}

/* --- trees ----------------------------------------------------------------------------------------- */

static int compare(const struct tree *t, struct bytes a, struct bytes b)
{
    if (!t->integer_keys) return bytes_cmp(a, b);
    uint64_t x = endian_load_le64(a.data), y = endian_load_le64(b.data);
    return (x > y) - (x < y);
}

/* Puts `key` in the sequence; `led`: it is a branch's. `keep`: copy it, its page may go. */
static int next_key(struct walk *w, struct tree *t, uint64_t page, struct bytes before,
                    struct bytes key, bool led)
{
    if (t->integer_keys && key.len != sizeof(uint64_t))
        return bad(w, page, "a key has a wrong length");
    if (t->key_met) {
        int order = compare(t, before, key);
        if (order > 0 || (order == 0 && !t->key_led)) return bad(w, page, "keys are out of order");
    }
    t->key_met = true;
    t->key_led = led;
    return 0;
}

static void keep_key(struct tree *t, struct bytes key)
{
    ASSERT(key.len <= sizeof t->key);
    memcpy(t->key, key.data, key.len);
    t->key_bytes = key.len;
}

static int leaf_rows(struct walk *w, struct tree *t, const struct level *l)
{
    struct bytes before = bytes_of(t->key, t->key_bytes);
    for (unsigned i = 0; i < l->count; i++) {
        struct walk_node n;
        walk__node(l->page, i, WALK_PAGE_LEAF, &n);
        int rc = next_key(w, t, l->number, before, n.key, false);
        if (rc == 0 && (n.flags & WALK_NODE_BIG) != 0) {
            uint64_t first = 0, pages = 0;
            rc = claim_overflow(w, l->number, &n, &first, &pages);
            t->seen.overflow_pages += pages;
        }
        if (rc == 0) rc = t->row(w, t, l->number, &n);
        if (rc != 0) return rc;
        before = n.key;
    }
    keep_key(t, before);
    t->seen.rows += l->count;
    return 0;
}

/* Claims, reads and checks the page that becomes level `depth`. */
static int enter(struct walk *w, struct tree *t, unsigned depth, uint64_t from, uint64_t number)
{
    struct level *l = &w->level[depth];
    bool leaf = depth + 1 == t->record->depth;
    int rc = claim_run(w, from, number, 1);
    if (rc < 0) return rc;
    const uint8_t *page = NULL;
    rc = walk__pages(&w->source, number, 1, &page);
    if (rc < 0) return read_failed(w, rc);
    const char *fault = walk__page_fault(page, w->meta.page_bytes, number,
                                         leaf ? WALK_PAGE_LEAF : WALK_PAGE_BRANCH);
    if (fault != NULL) return bad(w, number, fault);
    memcpy(l->page, page, w->meta.page_bytes);
    l->number = number;
    l->next = 0;
    l->count = walk__node_count(page);
    if (leaf) {
        t->seen.leaf_pages++;
        return 0;
    }
    t->seen.branch_pages++;
    /* LMDB itself leaves a branch with one child only in its free list. */
    if (l->count < 2 && !t->integer_keys) return bad(w, number, "a branch has one child");
    return 0;
}

/* Goes from the branch at `depth` to its next child. */
static int descend(struct walk *w, struct tree *t, unsigned depth)
{
    struct level *l = &w->level[depth];
    struct walk_node n;
    walk__node(l->page, l->next, WALK_PAGE_BRANCH, &n);
    if (l->next > 0) {
        int rc = next_key(w, t, l->number, bytes_of(t->key, t->key_bytes), n.key, true);
        if (rc < 0) return rc;
        keep_key(t, n.key);
    }
    l->next++;
    return enter(w, t, depth + 1, l->number, n.child);
}

static int tree_pages(struct walk *w, struct tree *t, uint64_t from)
{
    unsigned depth = 0;
    int rc = enter(w, t, 0, from, t->record->root);
    while (rc == 0) {
        struct level *l = &w->level[depth];
        if (depth + 1 == t->record->depth) {
            rc = leaf_rows(w, t, l);
            l->next = l->count;
        } else if (l->next < l->count) {
            rc = descend(w, t, depth);
            depth++;
            continue;
        }
        if (depth == 0) break;
        depth--;
    }
    return rc;
}

static int walk_tree(struct walk *w, struct tree *t, uint64_t from)
{
    const struct walk_record *r = t->record;
    if (r->root == WALK_ROOT_NONE) {
        bool sound = r->depth == 0 && r->rows == 0 && (r->branch_pages | r->leaf_pages) == 0;
        return sound ? 0 : bad(w, from, "an empty table has rows");
    }
    if (r->depth == 0 || r->depth > WALK_DEPTH_MAX) return bad(w, from, "a table's depth is wrong");
    int rc = tree_pages(w, t, from);
    if (rc != 0) return rc;
    if (t->seen.rows != r->rows) return bad(w, r->root, "its table has another number of rows");
    if (t->seen.branch_pages != r->branch_pages || t->seen.leaf_pages != r->leaf_pages ||
        t->seen.overflow_pages != r->overflow_pages) {
        return bad(w, r->root, "its table has another number of pages");
    }
    return 0;
}

static int walk_table(struct walk *w, enum table table)
{
    if (!w->table_met[table]) return 0;
    struct tree t = {.record = &w->table[table], .row = table_row, .table = table};
    int rc = walk_tree(w, &t, w->meta.main.root);
    w->stats->row_count[table] = t.seen.rows;
    return rc;
}

/* Name order, but the revisions last: see walk.h. */
static int walk_tables(struct walk *w)
{
    struct tree main = {.record = &w->meta.main, .row = main_row};
    int rc = walk_tree(w, &main, w->meta.txn_id % 2);
    for (unsigned t = 0; t < TABLE_COUNT && rc == 0; t++) {
        if (t != TABLE_KEY) rc = walk_table(w, (enum table)t);
    }
    return rc == 0 ? walk_table(w, TABLE_KEY) : rc;
}

static int walk_free_list(struct walk *w)
{
    struct tree t = {.record = &w->meta.free_list, .row = free_row, .integer_keys = true};
    return walk_tree(w, &t, w->meta.txn_id % 2);
}

/* --- the whole ------------------------------------------------------------------------------------- */

static int get_memory(struct walk *w, uint64_t file_bytes)
{
    /* The last pages may be free and never written, so the file may be shorter than the last page says; but each
     * of those is named in the free list, which is in the file. */
    uint64_t bound = w->source.page_count + file_bytes / sizeof(uint64_t);
    if (w->meta.last_page >= bound) return bad(w, w->meta.txn_id % 2, "its last page is wrong");
    w->claimed_bytes = (size_t)(w->meta.last_page / 8 + 1);
    w->pages_bytes = (size_t)WALK_DEPTH_MAX * w->meta.page_bytes;
    w->claimed = alloc_zero(w->alloc, w->claimed_bytes);
    w->pages = alloc_new(w->alloc, w->pages_bytes);
    if (w->claimed == NULL || w->pages == NULL) return read_failed(w, E_NOMEM);
    for (unsigned i = 0; i < WALK_DEPTH_MAX; i++)
        w->level[i].page = w->pages + (size_t)i * w->meta.page_bytes;
    return 0;
}

/* LMDB loses no page, so one that nothing names stands for a tree that is not the one that was written: an old
 * page in the place of a newer one, most likely a write that never arrived. */
static int report(struct walk *w)
{
    w->stats->txn_id = w->meta.txn_id;
    w->stats->page_bytes = w->meta.page_bytes;
    w->stats->page_count = w->meta.last_page + 1;
    if (w->claimed_count == w->stats->page_count - 2) return 0;
    uint64_t page = 2;
    while ((w->claimed[page / 8] & 1u << page % 8) != 0)
        page++;
    return bad(w, page, "it is neither in use nor free");
}

static int walk_all(struct walk *w, const struct disk *disk, struct disk_file *file)
{
    struct disk_stat st;
    int rc = disk->file_stat(disk->arg, file, &st);
    if (rc < 0) return read_failed(w, rc);
    rc = walk__meta(disk, file, w->path, st.size_bytes, &w->meta, w->em);
    if (rc < 0) return rc;
    rc = walk__source_init(&w->source, disk, file, w->alloc, w->meta.page_bytes,
                           st.size_bytes / w->meta.page_bytes);
    if (rc < 0) return read_failed(w, rc);
    rc = get_memory(w, st.size_bytes);
    if (rc == 0) rc = walk_tables(w);
    if (rc == 0) rc = walk_free_list(w);
    return rc == 0 ? report(w) : rc;
}

int backend_walk_file(const struct disk *disk, struct disk_file *file, const char *path,
                      const struct alloc *alloc, const struct walk_opts *opts,
                      struct walk_stats *stats, struct errmsg *em)
{
    static const struct walk_opts only_validate;
    struct walk_stats counted = {0};
    struct walk *w = alloc_zero(alloc, sizeof *w);
    if (w == NULL) return E_NOMEM;
    w->alloc = alloc;
    w->path = path;
    w->opts = opts != NULL ? opts : &only_validate;
    w->stats = &counted;
    w->em = em;
    int rc = walk_all(w, disk, file);
    if (rc == 0 && w->opts->end != NULL) rc = w->opts->end(w->opts->arg);
    alloc_free(alloc, w->claimed, w->claimed_bytes);
    alloc_free(alloc, w->pages, w->pages_bytes);
    walk__source_deinit(&w->source);
    alloc_free(alloc, w, sizeof *w);
    if (rc == 0 && stats != NULL) *stats = counted;
    return rc;
}

int backend_walk(const struct disk *disk, const char *path, const struct alloc *alloc,
                 const struct walk_opts *opts, struct walk_stats *stats, struct errmsg *em)
{
    struct disk_file *f = NULL;
    int rc = disk->open(disk->arg, path, DISK_READ, 0, &f);
    if (rc < 0) {
        errmsg_set(em, "%s: %s", path, err_text(rc));
        return rc;
    }
    rc = backend_walk_file(disk, f, path, alloc, opts, stats, em);
    disk->close(disk->arg, f);
    return rc;
}

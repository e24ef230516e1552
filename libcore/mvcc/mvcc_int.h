/* What the sources of mvcc share. Readers: see mvcc/mvcc.h first.
 *
 * Who guards what:
 *   tree, items, histories, pair, compacted, hashes   changed under the index lock (write), by the apply actor only, which
 *                                                     therefore reads them without it; all others read under the lock
 *   published, now_ms, run_bytes, key_count, pins     atomics
 *   rows of a run                                     appended by the apply actor, published by row_count
 *   the rest of struct mvcc                           apply actor only */
#ifndef MVCC_MVCC_INT_H
#define MVCC_MVCC_INT_H

#include <stdatomic.h>

#include "base/assert.h"
#include "base/endian.h"
#include "base/err.h"
#include "base/limits.h"
#include "mvcc/compact.h"
#include "mvcc/mvcc.h"
#include "mvcc/view.h"

/* Faults that test/unit/mvcc plants into its own copy of the module; a normal build has none of it. */
#ifdef MVCC_PLANTS
enum mvcc_plant_kind {
    PLANT_NONE,
    PLANT_PAIR_BEFORE_PIN,
    PLANT_BACKEND_BEFORE_PAIR,
    PLANT_REMOVE_BEFORE_MARK,
    PLANT_PUBLISH_EARLY,
    PLANT_SPLIT_ENTRY,
    PLANT_IGNORE_PINS
};
extern enum mvcc_plant_kind mvcc_plant;
#define PLANTED(kind) (mvcc_plant == (kind))
#else
#define PLANTED(kind) false
#endif

/* --- revision keys --- */

enum { REV_KEY_BYTES = 17, REV_KEY_TOMB_BYTES = 18 };

struct mvcc_rev {
    int64_t main;
    uint32_t sub;
};

/* Writes 17 or 18 bytes to `out`; returns the span. */
struct bytes mvcc__rev_key(int64_t main, uint32_t sub, bool tomb, uint8_t out[REV_KEY_TOMB_BYTES]);
/* E_CORRUPT when `key` is no revision key, or one beyond our limits (sub over SUB_MAX). */
int mvcc__rev_parse(struct bytes key, struct mvcc_rev *rev, bool *tomb);

static inline bool mvcc__rev_less(int64_t main_a, uint32_t sub_a, int64_t main_b, uint32_t sub_b)
{
    return main_a != main_b ? main_a < main_b : sub_a < sub_b;
}

/* --- items: one key with what the index knows of it (mvcc_item.c) --- */

#define SUB_MAX     (UINT32_MAX / 2)
#define KEY_LEN_MAX ((1u << 30) - 1)

/* One stored revision of a key. */
struct mvcc_ent {
    int64_t main;
    uint32_t sub : 31;
    uint32_t tomb : 1;
    uint32_t gen; /* where in the array its generation starts */
};

/* All revisions of a key that has more than one. The first generation may have lost its beginning to
 * compaction: create0 and version0 are those of entry 0. Every later generation starts with version 1. */
struct mvcc_hist {
    int64_t create0;
    int64_t version0;
    uint32_t count;
    uint32_t cap;
    struct mvcc_ent ents[];
};

/* The newest revision stands in the item itself, so that reads of the present touch nothing else. */
struct mvcc_item {
    struct mvcc_hist *hist; /* NULL: there is one revision, this one */
    int64_t mod;
    int64_t create; /* create and version are 0 when tomb */
    int64_t version;
    uint32_t sub;
    uint32_t key_len : 30;
    uint32_t tomb : 1;
    uint32_t leased : 1; /* the newest row has a lease */
    uint8_t key[];
};
_Static_assert(sizeof(struct mvcc_item) == 40, "a million keys count on it");

static inline struct bytes mvcc__item_key(const struct mvcc_item *it)
{
    return bytes_of(it->key, it->key_len);
}

struct mvcc_item *mvcc__item_new(const struct alloc *a, struct bytes key);
void mvcc__item_free(const struct alloc *a, struct mvcc_item *it);
/* The live row at `rev`; false when the key does not exist there. */
bool mvcc__item_at(const struct mvcc_item *it, int64_t rev, struct mvcc_row *out);
/* Whether (main, sub), no deletion, is the newest entry at or below `rev`. */
bool mvcc__item_is_newest(const struct mvcc_item *it, int64_t rev, int64_t main, uint32_t sub);
/* Whether the newest entry at or below `rev` is a deletion at `rev` itself. */
bool mvcc__item_tomb_at(const struct mvcc_item *it, int64_t rev);

/* Appending a revision, in two steps: prepare allocates (E_NOMEM), store changes the item and cannot
 * fail. `old` of the change is freed by mvcc__item_settle() after the lock. */
struct mvcc_item_change {
    struct mvcc_hist *hist; /* to put in place of the item's; NULL: stays */
    struct mvcc_hist *old;
    uint32_t drop; /* of a prune: entries that go */
};
int mvcc__item_prepare(const struct alloc *a, const struct mvcc_item *it,
                       struct mvcc_item_change *ch);
void mvcc__item_store(struct mvcc_item *it, struct mvcc_item_change *ch, int64_t main, uint32_t sub,
                      bool tomb);
void mvcc__item_settle(const struct alloc *a, struct mvcc_item_change *ch);

/* Compaction of one item at `rev`, in the same two steps. plan returns 0: nothing to do; 1: store the change;
 * 2: the whole item goes; or E_NOMEM. */
int mvcc__item_prune_plan(const struct alloc *a, const struct mvcc_item *it, int64_t rev,
                          struct mvcc_item_change *ch);
void mvcc__item_prune_store(struct mvcc_item *it, struct mvcc_item_change *ch);

/* --- the tree (mvcc_tree.c): a B+tree of items by key; its users lock --- */

enum { LEAF_MAX = 64, BRANCH_MAX = 64, NODE_MIN = 16, NODE_FILL = 56, TREE_DEPTH_MAX = 12 };

struct mvcc_leaf {
    struct mvcc_leaf *next;
    uint32_t count;
    struct mvcc_item *items[LEAF_MAX];
};

struct mvcc_branch {
    uint32_t count;
    uint64_t
        head[BRANCH_MAX]; /* first bytes of the key of low[], to compare without a cache miss */
    struct mvcc_item *low[BRANCH_MAX]; /* the first item below child[] */
    void *child[BRANCH_MAX];
};

struct mvcc_tree {
    const struct alloc *alloc;
    void *root; /* a leaf when depth is 0; NULL when empty */
    uint32_t depth;
    _Atomic uint64_t count;
};

struct mvcc_path {
    struct mvcc_branch *branch[TREE_DEPTH_MAX];
    uint32_t at[TREE_DEPTH_MAX];
    struct mvcc_leaf *leaf; /* NULL in an empty tree */
    uint32_t slot;          /* of the first item >= the key; may be leaf->count */
};

/* Nodes for one insertion. */
struct mvcc_spare {
    struct mvcc_leaf *leaf;
    struct mvcc_branch *branch[TREE_DEPTH_MAX];
    uint32_t branch_count;
};

void mvcc__tree_seek(const struct mvcc_tree *t, struct bytes key, struct mvcc_path *out);
/* The item of exactly this key, or NULL. */
struct mvcc_item *mvcc__tree_get(const struct mvcc_tree *t, struct bytes key);
/* The item at a position, stepping over leaf ends; NULL behind the last. */
static inline struct mvcc_item *mvcc__tree_item(struct mvcc_leaf **leaf, uint32_t *slot)
{
    while (*leaf != NULL && *slot >= (*leaf)->count) {
        *leaf = (*leaf)->next;
        *slot = 0;
    }
    return *leaf == NULL ? NULL : (*leaf)->items[*slot];
}

/* Insertion at a path of mvcc__tree_seek(): reserve may fail with E_NOMEM, insert cannot. */
int mvcc__tree_reserve(const struct mvcc_tree *t, const struct mvcc_path *p,
                       struct mvcc_spare *out);
void mvcc__tree_insert(struct mvcc_tree *t, struct mvcc_path *p, struct mvcc_spare *s,
                       struct mvcc_item *it);
void mvcc__spare_free(const struct mvcc_tree *t, struct mvcc_spare *s);
/* Takes the item at `p` out (p->slot must be on it); frees nodes, not the item. */
void mvcc__tree_remove(struct mvcc_tree *t, struct mvcc_path *p);

struct mvcc_sort_ref {
    uint64_t chunk;
    struct mvcc_item *item;
};

/* Sorts by key; keys are distinct. `seed` picks pivots. */
void mvcc__sort(struct mvcc_sort_ref *refs, size_t n, uint64_t seed);
/* Fills an empty tree from sorted items. Errors: E_NOMEM, the tree is then still empty. */
int mvcc__tree_build(struct mvcc_tree *t, const struct mvcc_sort_ref *refs, size_t n);
/* Frees nodes and items. */
void mvcc__tree_free(struct mvcc_tree *t);

/* --- runs (mvcc_run.c) --- */

enum { RUN_SEG_ROWS_MIN = 64, RUN_SEGS = 26 };

struct mvcc_run_row {
    const uint8_t *kv;
    int64_t main;
    uint32_t sub : 31;
    uint32_t tomb : 1;
    uint32_t kv_len;
};

struct mvcc_run_op {
    const uint8_t *data; /* key, then value */
    uint32_t key_len;
    uint32_t value_len;
    enum table table;
    bool del;
};

struct mvcc_chunk;

struct mvcc_run {
    atomic_uint refs;
    const struct alloc *alloc;
    uint64_t seq;             /* counts runs from 1 */
    _Atomic size_t row_count; /* rows below it are complete */
    size_t op_count;
    size_t sealed_rows, sealed_ops;
    size_t bytes;         /* handed out, with row descriptors */
    uint64_t index, term; /* of the last seal */
    bool sealed;          /* there was one */
    struct mvcc_chunk *chunks;
    uint8_t *room, *room_end;
    struct mvcc_run_row *row_segs[RUN_SEGS]; /* segment k has RUN_SEG_ROWS_MIN << k */
    struct mvcc_run_op *op_segs[RUN_SEGS];
};

/* The two runs that readers look into; immutable. */
struct mvcc_pair {
    atomic_uint refs;
    const struct alloc *alloc;
    struct mvcc_run *active;
    struct mvcc_run *frozen; /* or NULL */
};

struct mvcc_run *mvcc__run_new(const struct alloc *a, uint64_t seq);
void mvcc__run_unref(struct mvcc_run *r);
/* Appends a row whose KeyValue has `kv_len` bytes; the caller fills `*kv` before mvcc__run_publish(). Errors: E_NOMEM. */
int mvcc__run_row(struct mvcc_run *r, int64_t main, uint32_t sub, bool tomb, size_t kv_len,
                  uint8_t **kv);
void mvcc__run_publish(struct mvcc_run *r);
int mvcc__run_op(struct mvcc_run *r, enum table t, bool del, struct bytes key, struct bytes value);
const struct mvcc_run_row *mvcc__run_at(const struct mvcc_run *r, size_t i);
/* How many of the first `n` rows are below (main, sub). */
size_t mvcc__run_lower(const struct mvcc_run *r, size_t n, int64_t main, uint32_t sub);

struct mvcc_pair *mvcc__pair_new(const struct alloc *a, struct mvcc_run *active,
                                 struct mvcc_run *frozen);
struct mvcc_pair *mvcc__pair_ref(struct mvcc_pair *p);
void mvcc__pair_unref(struct mvcc_pair *p);
/* The row (main, sub), no deletion, if one of the runs has it. */
bool mvcc__pair_find(const struct mvcc_pair *p, int64_t main, uint32_t sub, struct bytes *kv);

/* --- pins (mvcc_pin.c) --- */

enum { PINS_PER_BLOCK = 64 };

struct mvcc_pin {
    _Atomic int64_t value; /* PIN_FREE, PIN_CLAIMED, PIN_BROKEN, or the revision + PIN_BIAS */
    _Atomic int64_t born_ms;
};

struct mvcc_pin_block {
    struct mvcc_pin pins[PINS_PER_BLOCK];
    struct mvcc_pin_block *_Atomic next;
};

/* Registers `rev`. NULL without memory. Any thread. */
struct mvcc_pin *mvcc__pin_take(struct mvcc *m, int64_t rev);
void mvcc__pin_move(struct mvcc_pin *p, int64_t rev);
void mvcc__pin_drop(struct mvcc_pin *p);
bool mvcc__pin_broken(const struct mvcc_pin *p);
/* Whether a pin below `rev` is left after those that are too old were broken. */
bool mvcc__pins_below(struct mvcc *m, int64_t rev);
void mvcc__pins_free(struct mvcc *m);

/* --- the store --- */

struct mvcc_load;

enum { MARKS_MAX = 16 };

/* A compaction that was asked for and has not begun. */
struct mvcc_mark {
    int64_t rev;
    int64_t prev;  /* the compact revision before */
    uint64_t seq;  /* of the run with the mark: to be durable first */
    bool remember; /* the hash will be complete */
};

struct mvcc {
    const struct alloc *alloc;
    struct rwlock lock;
    const struct backend *backend;
    const struct log *log;
    size_t run_bytes_max;
    _Atomic int64_t published;
    _Atomic int64_t compacted;
    _Atomic int64_t now_ms;
    _Atomic size_t run_bytes;
    struct mvcc_tree tree;
    struct mvcc_pair *pair;
    struct mvcc_pair *next_pair; /* for the retirement, so that it cannot fail */
    struct mvcc_pin_block pins;
    struct mvcc_load *load; /* while loading */

    /* the entry in progress */
    bool in_entry;
    bool has_mark;
    int64_t main; /* what its changes get */
    uint32_t sub; /* what the next one gets; 0: nothing changed yet */
    int64_t mark_rev;
    struct backend_read *read; /* of mvcc_write_kv(); NULL until needed */

    uint64_t index, term; /* of the last seal */
    uint64_t durable_seq; /* of the last retired run */

    int64_t finished; /* the last compaction that is done; -1 */
    struct mvcc_mark marks[MARKS_MAX];
    uint32_t mark_count;
    struct mvcc_compact *job;
    struct mvcc_hash_answer hashes[MVCC_HASHES_KEPT]; /* newest first */
    uint32_t hash_count;
};

static inline void mvcc__read_lock(struct mvcc *m)
{
    m->lock.read(m->lock.arg);
}

static inline void mvcc__read_unlock(struct mvcc *m)
{
    m->lock.read_done(m->lock.arg);
}

static inline void mvcc__write_lock(struct mvcc *m)
{
    m->lock.write(m->lock.arg);
}

static inline void mvcc__write_unlock(struct mvcc *m)
{
    m->lock.write_done(m->lock.arg);
}

/* The range rules shared by ranges and deletes. */
struct mvcc_bounds {
    struct bytes key;
    struct bytes end;
    bool one;     /* just `key` */
    bool to_last; /* no end */
};
struct mvcc_bounds mvcc__bounds(struct bytes key, struct bytes end);
static inline bool mvcc__beyond(const struct mvcc_bounds *b, struct bytes key)
{
    if (b->one) return !bytes_eq(b->key, key);
    return !b->to_last && bytes_cmp(key, b->end) >= 0;
}

/* The row from a read transaction. Errors: E_CORRUPT it is not there, with words; of the backend. */
int mvcc__backend_kv(const struct backend *b, struct backend_read *r, const struct mvcc_row *row,
                     struct bytes *kv, struct errmsg *em);
/* Begins the view's read transaction if there is none. Errors: E_INTR the pin is broken; of the backend. */
int mvcc__view_begin_read(struct mvcc_view *v, struct errmsg *em);
/* Opens a view for HashKV; 0 is the current revision, a negative one is taken as it is. Errors: as mvcc_hash_open(). */
int mvcc__view_open_hash(struct mvcc *m, int64_t rev, struct mvcc_view *out);

/* --- batches of rows, for hashes and the lister (mvcc_hash.c) --- */

enum { MVCC_BATCH_ROWS = 64 };

struct mvcc_batch_row {
    struct mvcc_rev rev;
    bool tomb;
    bool kept; /* set by the look-up: the newest of its key, no deletion */
    struct bytes key;
    struct bytes kv;
};

struct mvcc_batch {
    size_t count;
    struct mvcc_batch_row rows[MVCC_BATCH_ROWS];
};

/* Errors: E_NOTFOUND the row is above `rev_max` (not added); E_CORRUPT. */
int mvcc__batch_add(struct mvcc_batch *b, struct bytes k, struct bytes v, int64_t rev_max,
                    struct errmsg *em);
/* Sets `kept` of the rows at or below `below`, as seen at `rev`, in one hold of the lock. */
void mvcc__batch_look_up(struct mvcc *m, struct mvcc_batch *b, int64_t rev, int64_t below);
/* Continues the hash with a row that is not above the hashed revision. */
uint32_t mvcc__hash_row(uint32_t crc, const struct mvcc_batch_row *row, int64_t compact_rev,
                        bool kept);
/* Looks on for a member of the keep set; `known` when settled. Errors: E_NOMEM. */
int mvcc__keep_scan(struct mvcc *m, struct mvcc_keep *k, size_t keys_max);

/* Frees what is left of a load. */
void mvcc__load_free(struct mvcc *m);
/* Makes room for `n` bytes in a key buffer. Errors: E_NOMEM. */
int mvcc__key_copy(const struct alloc *a, struct bytes key, uint8_t **data, size_t *len,
                   size_t *cap);

#endif

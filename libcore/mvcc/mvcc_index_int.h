/* The key index inside the folder: revision keys, items with their histories, the tree, sorting.
 *
 * None of it locks: the store does (mvcc/mvcc_int.h says who guards what). */
#ifndef MVCC_MVCC_INDEX_INT_H
#define MVCC_MVCC_INDEX_INT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "mvcc/view.h"

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

/* live and mod_max let a count of the present step over whole leaves. */
struct mvcc_leaf {
    struct mvcc_leaf *next;
    int64_t mod_max; /* no item has changed behind it */
    uint32_t live;   /* items that are not deleted now */
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
/* Notes a change of an item in `leaf` at `main`, which made it live or a deletion. */
void mvcc__leaf_changed(struct mvcc_leaf *leaf, int64_t main, bool was_live, bool is_live);
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

#endif

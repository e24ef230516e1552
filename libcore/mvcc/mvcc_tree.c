/* The ordered index: a B+tree whose leaves hold pointers to items.
 *
 * Leaves are linked, so that a scan never climbs. A branch keeps for each child its first item and the first eight
 * bytes of that item's key: descending compares numbers and touches an item only on a tie. A full node
 * splits in halves, but a leaf that grows at the right end of the tree starts an empty neighbour, so keys put in order
 * fill their leaves. A node that falls below NODE_MIN is merged with a neighbour under the same parent or shares with
 * it. Nothing recurses: a path of the descent is kept and walked upwards. */
#include "mvcc/mvcc_int.h"

static uint64_t key_head(struct bytes key)
{
    uint8_t b[8] = {0};
    if (key.len > 0) memcpy(b, key.data, key.len < 8 ? key.len : 8);
    return endian_load_be64(b);
}

/* The child to follow: the last one whose first key is at most `key`, or the first child. */
static uint32_t branch_find(const struct mvcc_branch *b, struct bytes key, uint64_t head)
{
    uint32_t lo = 1, hi = b->count;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        bool at_most = b->head[mid] != head ? b->head[mid] < head
                                            : bytes_cmp(mvcc__item_key(b->low[mid]), key) <= 0;
        if (at_most) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo - 1;
}

static uint32_t leaf_find(const struct mvcc_leaf *leaf, struct bytes key)
{
    uint32_t lo = 0, hi = leaf->count;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (hi - lo > 2) { /* items lie anywhere: ask for both that may come next */
            __builtin_prefetch(leaf->items[lo + (mid - lo) / 2]);
            __builtin_prefetch(leaf->items[mid + 1 + (hi - mid - 1) / 2]);
        }
        if (bytes_cmp(mvcc__item_key(leaf->items[mid]), key) < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

void mvcc__tree_seek(const struct mvcc_tree *t, struct bytes key, struct mvcc_path *out)
{
    uint64_t head = key_head(key);
    void *node = t->root;
    out->leaf = NULL;
    out->slot = 0;
    if (node == NULL) return;
    ASSERT(t->depth <= TREE_DEPTH_MAX);
    for (uint32_t level = 0; level < t->depth; level++) {
        struct mvcc_branch *b = node;
        out->branch[level] = b;
        out->at[level] = branch_find(b, key, head);
        node = b->child[out->at[level]];
    }
    out->leaf = node;
    out->slot = leaf_find(out->leaf, key);
}

struct mvcc_item *mvcc__tree_get(const struct mvcc_tree *t, struct bytes key)
{
    struct mvcc_path p;
    mvcc__tree_seek(t, key, &p);
    if (p.leaf == NULL || p.slot >= p.leaf->count) return NULL;
    struct mvcc_item *it = p.leaf->items[p.slot];
    return bytes_eq(mvcc__item_key(it), key) ? it : NULL;
}

/* --- what leaves know of their items --- */

void mvcc__leaf_changed(struct mvcc_leaf *leaf, int64_t main, bool was_live, bool is_live)
{
    ASSERT(leaf->live + is_live >= was_live);
    leaf->mod_max = main > leaf->mod_max ? main : leaf->mod_max;
    leaf->live = leaf->live + is_live - was_live;
}

/* After items have moved from leaf to leaf. */
static void leaf_recount(struct mvcc_leaf *leaf)
{
    leaf->live = 0;
    leaf->mod_max = 0;
    for (uint32_t i = 0; i < leaf->count; i++) {
        mvcc__leaf_changed(leaf, leaf->items[i]->mod, false, !leaf->items[i]->tomb);
    }
}

/* --- the first items that branches remember --- */

static void branch_set(struct mvcc_branch *b, uint32_t i, void *child, struct mvcc_item *low)
{
    b->child[i] = child;
    b->low[i] = low;
    b->head[i] = key_head(mvcc__item_key(low));
}

/* The first item below child `i` of the branch at `level`. */
static struct mvcc_item *child_low(const struct mvcc_tree *t, const void *child, uint32_t level)
{
    if (level + 1 == t->depth) return ((const struct mvcc_leaf *)child)->items[0];
    return ((const struct mvcc_branch *)child)->low[0];
}

static void path_refresh_lows(const struct mvcc_tree *t, const struct mvcc_path *p)
{
    for (uint32_t level = t->depth; level-- > 0;) {
        struct mvcc_branch *b = p->branch[level];
        uint32_t i = p->at[level];
        branch_set(b, i, b->child[i], child_low(t, b->child[i], level));
    }
}

/* --- insertion --- */

void mvcc__spare_free(const struct mvcc_tree *t, struct mvcc_spare *s)
{
    alloc_free(t->alloc, s->leaf, sizeof *s->leaf);
    for (uint32_t i = 0; i < s->branch_count; i++) {
        alloc_free(t->alloc, s->branch[i], sizeof *s->branch[i]);
    }
    *s = (struct mvcc_spare){0};
}

/* How many branches an insertion through full nodes will add. */
static uint32_t branches_needed(const struct mvcc_tree *t, const struct mvcc_path *p)
{
    if (p->leaf->count < LEAF_MAX) return 0;
    uint32_t n = 0;
    for (uint32_t level = t->depth; level-- > 0; n++) {
        if (p->branch[level]->count < BRANCH_MAX) return n;
    }
    return n + 1; /* a new root */
}

int mvcc__tree_reserve(const struct mvcc_tree *t, const struct mvcc_path *p, struct mvcc_spare *out)
{
    struct mvcc_spare s = {0};
    uint32_t branches = p->leaf == NULL ? 0 : branches_needed(t, p);
    ASSERT(branches <= TREE_DEPTH_MAX);
    if (p->leaf == NULL || p->leaf->count == LEAF_MAX) {
        s.leaf = alloc_new(t->alloc, sizeof *s.leaf);
        if (s.leaf == NULL) return E_NOMEM;
    }
    while (s.branch_count < branches) {
        s.branch[s.branch_count] = alloc_new(t->alloc, sizeof(struct mvcc_branch));
        if (s.branch[s.branch_count] == NULL) {
            mvcc__spare_free(t, &s);
            return E_NOMEM;
        }
        s.branch_count++;
    }
    *out = s;
    return 0;
}

static void leaf_put(struct mvcc_leaf *leaf, uint32_t slot, struct mvcc_item *it)
{
    ASSERT(leaf->count < LEAF_MAX);
    memmove(leaf->items + slot + 1, leaf->items + slot,
            (leaf->count - slot) * sizeof leaf->items[0]);
    leaf->items[slot] = it;
    leaf->count++;
    mvcc__leaf_changed(leaf, it->mod, false, !it->tomb);
}

/* Moves `n` children of `from`, beginning at `at`, to `to` at `to_at`; nothing else of `to` moves. */
static void branch_copy(struct mvcc_branch *to, uint32_t to_at, const struct mvcc_branch *from,
                        uint32_t at, uint32_t n)
{
    memmove(to->head + to_at, from->head + at, n * sizeof to->head[0]);
    memmove(to->low + to_at, from->low + at, n * sizeof to->low[0]);
    memmove(to->child + to_at, from->child + at, n * sizeof to->child[0]);
}

static void branch_put(struct mvcc_branch *b, uint32_t i, void *child, struct mvcc_item *low)
{
    ASSERT(b->count < BRANCH_MAX);
    branch_copy(b, i + 1, b, i, b->count - i);
    branch_set(b, i, child, low);
    b->count++;
}

/* Splits the full leaf of the path and puts the item into one of the halves; returns the right half. */
static struct mvcc_leaf *leaf_split(struct mvcc_leaf *leaf, uint32_t slot, struct mvcc_leaf *right,
                                    struct mvcc_item *it)
{
    bool at_end = slot == LEAF_MAX && leaf->next == NULL;
    uint32_t keep = at_end ? LEAF_MAX : LEAF_MAX / 2;
    right->next = leaf->next;
    right->count = LEAF_MAX - keep;
    memcpy(right->items, leaf->items + keep, right->count * sizeof right->items[0]);
    leaf->next = right;
    leaf->count = keep;
    leaf_recount(right);
    leaf_recount(leaf);
    if (slot > keep || at_end) {
        leaf_put(right, slot - keep, it);
    } else {
        leaf_put(leaf, slot, it);
    }
    return right;
}

/* Puts (child, low) behind place `at` of a full branch; returns its new right neighbour. */
static struct mvcc_branch *branch_split(struct mvcc_branch *b, uint32_t at,
                                        struct mvcc_branch *right, void *child,
                                        struct mvcc_item *low)
{
    uint32_t keep = BRANCH_MAX / 2;
    right->count = BRANCH_MAX - keep;
    branch_copy(right, 0, b, keep, right->count);
    b->count = keep;
    if (at + 1 > keep) {
        branch_put(right, at + 1 - keep, child, low);
    } else {
        branch_put(b, at + 1, child, low);
    }
    return right;
}

static void root_grow(struct mvcc_tree *t, struct mvcc_branch *root, void *right,
                      struct mvcc_item *right_low)
{
    struct mvcc_item *left_low = t->depth == 0 ? ((struct mvcc_leaf *)t->root)->items[0]
                                               : ((struct mvcc_branch *)t->root)->low[0];
    ASSERT(t->depth < TREE_DEPTH_MAX);
    root->count = 2;
    branch_set(root, 0, t->root, left_low);
    branch_set(root, 1, right, right_low);
    t->root = root;
    t->depth++;
}

/* Hangs the new right half into the parents, splitting those that are full. */
static void path_hang(struct mvcc_tree *t, struct mvcc_path *p, struct mvcc_spare *s, void *right)
{
    struct mvcc_item *low = ((struct mvcc_leaf *)right)->items[0];
    for (uint32_t level = t->depth; level-- > 0;) {
        struct mvcc_branch *b = p->branch[level];
        if (b->count < BRANCH_MAX) {
            branch_put(b, p->at[level] + 1, right, low);
            return;
        }
        ASSERT(s->branch_count > 0);
        struct mvcc_branch *fresh = s->branch[--s->branch_count];
        right = branch_split(b, p->at[level], fresh, right, low);
        low = fresh->low[0];
    }
    ASSERT(s->branch_count > 0);
    root_grow(t, s->branch[--s->branch_count], right, low);
}

void mvcc__tree_insert(struct mvcc_tree *t, struct mvcc_path *p, struct mvcc_spare *s,
                       struct mvcc_item *it)
{
    atomic_fetch_add_explicit(&t->count, 1, memory_order_relaxed);
    if (p->leaf == NULL) {
        *s->leaf = (struct mvcc_leaf){0};
        leaf_put(s->leaf, 0, it);
        t->root = s->leaf;
        return;
    }
    if (p->leaf->count < LEAF_MAX) {
        leaf_put(p->leaf, p->slot, it);
        if (p->slot == 0) path_refresh_lows(t, p);
        return;
    }
    struct mvcc_leaf *right = leaf_split(p->leaf, p->slot, s->leaf, it);
    if (p->slot == 0) path_refresh_lows(t, p);
    path_hang(t, p, s, right);
    ASSERT(s->branch_count == 0);
}

/* --- removal --- */

/* Evens out two neighbours that do not fit into one: returns false; or merges them: true, `b` is then unused. */
static bool leaf_join(struct mvcc_leaf *a, struct mvcc_leaf *b)
{
    uint32_t sum = a->count + b->count;
    uint32_t want = sum <= LEAF_MAX - NODE_MIN / 2 ? sum : sum / 2;
    if (want >= a->count) {
        uint32_t n = want - a->count;
        memcpy(a->items + a->count, b->items, n * sizeof a->items[0]);
        memmove(b->items, b->items + n, (b->count - n) * sizeof b->items[0]);
    } else {
        uint32_t n = a->count - want;
        memmove(b->items + n, b->items, b->count * sizeof b->items[0]);
        memcpy(b->items, a->items + want, n * sizeof b->items[0]);
    }
    a->count = want;
    b->count = sum - want;
    leaf_recount(a);
    leaf_recount(b);
    if (b->count == 0) a->next = b->next;
    return b->count == 0;
}

static bool branch_join(struct mvcc_branch *a, struct mvcc_branch *b)
{
    uint32_t sum = a->count + b->count;
    uint32_t want = sum <= BRANCH_MAX - NODE_MIN / 2 ? sum : sum / 2;
    if (want >= a->count) {
        uint32_t n = want - a->count;
        branch_copy(a, a->count, b, 0, n);
        branch_copy(b, 0, b, n, b->count - n);
    } else {
        uint32_t n = a->count - want;
        branch_copy(b, n, b, 0, b->count);
        branch_copy(b, 0, a, want, n);
    }
    a->count = want;
    b->count = sum - want;
    return b->count == 0;
}

static uint32_t node_count(const struct mvcc_tree *t, const void *node, uint32_t level)
{
    return level + 1 == t->depth ? ((const struct mvcc_leaf *)node)->count
                                 : ((const struct mvcc_branch *)node)->count;
}

/* Merges or evens out child `i` of the branch at `level` with a neighbour. */
static void children_balance(struct mvcc_tree *t, struct mvcc_branch *b, uint32_t i, uint32_t level)
{
    ASSERT(b->count >= 2);
    uint32_t l = i + 1 < b->count ? i : i - 1;
    void *left = b->child[l], *right = b->child[l + 1];
    bool leaves = level + 1 == t->depth;
    bool merged = leaves ? leaf_join(left, right) : branch_join(left, right);
    branch_set(b, l, left, child_low(t, left, level));
    if (!merged) {
        branch_set(b, l + 1, right, child_low(t, right, level));
        return;
    }
    alloc_free(t->alloc, right, leaves ? sizeof(struct mvcc_leaf) : sizeof(struct mvcc_branch));
    branch_copy(b, l + 1, b, l + 2, b->count - l - 2);
    b->count--;
}

static void root_shrink(struct mvcc_tree *t)
{
    while (t->depth > 0 && ((struct mvcc_branch *)t->root)->count == 1) {
        struct mvcc_branch *old = t->root;
        t->root = old->child[0];
        t->depth--;
        alloc_free(t->alloc, old, sizeof *old);
    }
    if (t->depth == 0 && ((struct mvcc_leaf *)t->root)->count == 0) {
        alloc_free(t->alloc, t->root, sizeof(struct mvcc_leaf));
        t->root = NULL;
    }
}

void mvcc__tree_remove(struct mvcc_tree *t, struct mvcc_path *p)
{
    struct mvcc_leaf *leaf = p->leaf;
    ASSERT(leaf != NULL);
    ASSERT(p->slot < leaf->count);
    leaf->live -= !leaf->items[p->slot]->tomb;
    memmove(leaf->items + p->slot, leaf->items + p->slot + 1,
            (leaf->count - p->slot - 1) * sizeof leaf->items[0]);
    leaf->count--;
    atomic_fetch_sub_explicit(&t->count, 1, memory_order_relaxed);
    for (uint32_t level = t->depth; level-- > 0;) {
        struct mvcc_branch *b = p->branch[level];
        uint32_t i = p->at[level];
        if (node_count(t, b->child[i], level) < NODE_MIN) {
            children_balance(t, b, i, level);
        } else {
            branch_set(b, i, b->child[i], child_low(t, b->child[i], level));
        }
    }
    root_shrink(t);
}

/* --- building in bulk --- */

struct level_ref {
    void *node;
    struct mvcc_item *low;
};

/* How many of `n` things the i-th of `parts` nearly equal parts gets. */
static size_t part_size(size_t n, size_t parts, size_t i)
{
    return n / parts + (i < n % parts);
}

static void leaf_level_free(const struct mvcc_tree *t, struct level_ref *refs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        alloc_free(t->alloc, refs[i].node, sizeof(struct mvcc_leaf));
    }
}

static int build_leaves(const struct mvcc_tree *t, const struct mvcc_sort_ref *items, size_t n,
                        struct level_ref *out, size_t leaves)
{
    struct mvcc_leaf *before = NULL;
    for (size_t i = 0; i < leaves; i++) {
        struct mvcc_leaf *leaf = alloc_new(t->alloc, sizeof *leaf);
        if (leaf == NULL) {
            leaf_level_free(t, out, i);
            return E_NOMEM;
        }
        leaf->next = NULL;
        leaf->count = (uint32_t)part_size(n, leaves, i);
        for (uint32_t k = 0; k < leaf->count; k++) {
            leaf->items[k] = (items++)->item;
        }
        leaf_recount(leaf);
        if (before != NULL) before->next = leaf;
        before = leaf;
        out[i] = (struct level_ref){leaf, leaf->items[0]};
    }
    return 0;
}

/* Frees the nodes below a list of nodes at `depth` levels above the leaves; leaves by their links. */
static void nodes_free(const struct mvcc_tree *t, void *root, uint32_t depth)
{
    struct mvcc_branch *path[TREE_DEPTH_MAX];
    uint32_t at[TREE_DEPTH_MAX];
    uint32_t level = 0;
    void *node = root;
    for (;;) {
        if (level < depth) {
            path[level] = node;
            at[level] = 0;
            node = path[level++]->child[0];
            continue;
        }
        alloc_free(t->alloc, node, sizeof(struct mvcc_leaf));
        while (level > 0 && ++at[level - 1] == path[level - 1]->count) {
            alloc_free(t->alloc, path[--level], sizeof(struct mvcc_branch));
        }
        if (level == 0) return;
        node = path[level - 1]->child[at[level - 1]];
    }
}

/* One level of branches over `*n` nodes, in place; on failure all nodes are freed. */
static int build_level(const struct mvcc_tree *t, struct level_ref *refs, size_t *n, uint32_t depth)
{
    size_t parts = (*n + NODE_FILL - 1) / NODE_FILL;
    size_t from = 0;
    for (size_t i = 0; i < parts; i++) {
        size_t count = part_size(*n, parts, i);
        struct mvcc_branch *b = alloc_new(t->alloc, sizeof *b);
        if (b == NULL) {
            for (size_t k = 0; k < i; k++) {
                nodes_free(t, refs[k].node, depth + 1);
            }
            for (size_t k = from; k < *n; k++) {
                nodes_free(t, refs[k].node, depth);
            }
            return E_NOMEM;
        }
        b->count = (uint32_t)count;
        for (uint32_t k = 0; k < b->count; k++) {
            branch_set(b, k, refs[from + k].node, refs[from + k].low);
        }
        from += count;
        refs[i] = (struct level_ref){b, b->low[0]};
    }
    *n = parts;
    return 0;
}

int mvcc__tree_build(struct mvcc_tree *t, const struct mvcc_sort_ref *items, size_t n)
{
    ASSERT(t->root == NULL);
    if (n == 0) return 0;
    size_t leaves = (n + NODE_FILL - 1) / NODE_FILL;
    struct level_ref *refs = alloc_new(t->alloc, leaves * sizeof *refs);
    if (refs == NULL) return E_NOMEM;
    size_t nodes = leaves;
    uint32_t depth = 0;
    int rc = build_leaves(t, items, n, refs, leaves);
    while (rc == 0 && nodes > 1) {
        rc = build_level(t, refs, &nodes, depth++);
    }
    if (rc == 0) {
        t->root = refs[0].node;
        t->depth = depth;
        atomic_store_explicit(&t->count, n, memory_order_relaxed);
    }
    alloc_free(t->alloc, refs, leaves * sizeof *refs);
    return rc;
}

void mvcc__tree_free(struct mvcc_tree *t)
{
    if (t->root == NULL) return;
    struct mvcc_path p;
    mvcc__tree_seek(t, BYTES_EMPTY, &p);
    for (struct mvcc_leaf *leaf = p.leaf; leaf != NULL; leaf = leaf->next) {
        for (uint32_t i = 0; i < leaf->count; i++) {
            mvcc__item_free(t->alloc, leaf->items[i]);
        }
    }
    nodes_free(t, t->root, t->depth);
    *t = (struct mvcc_tree){.alloc = t->alloc};
}

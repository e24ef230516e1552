/* Single keys by hash, ranges by an interval tree.
 *
 * The tree is a treap in the order of (key, end); each node knows the watcher with the furthest end below it. Watchers of
 * the same key or the same range are one node: the others hang on it in a chain. Nothing is allocated but the hash
 * table, and nothing recurs: a walk finds its way back by parents. */
#include "watch/watch_int.h"

void watch__index_init(struct watch_index *ix, const struct alloc *alloc, uint64_t seed)
{
    *ix = (struct watch_index){.draws = 0};
    map_bytes_init(&ix->keys, alloc, seed);
}

void watch__index_deinit(struct watch_index *ix)
{
    ASSERT(ix->root == NULL && ix->keys.count == 0);
    map_bytes_deinit(&ix->keys);
}

int watch__index_reserve(struct watch_index *ix, size_t more)
{
    return map_bytes_reserve(&ix->keys, more);
}

static bool is_single(const struct watch_watcher *w)
{
    return w->end.len == 0;
}

static bool is_open_ended(const struct watch_watcher *w)
{
    return w->end.len == 1 && w->end.data[0] == 0;
}

/* --- chains -------------------------------------------------------------------------------------- */

static void chain_put(struct watch_watcher *first, struct watch_watcher *w)
{
    w->same_prev = first;
    w->same_next = first->same_next;
    if (w->same_next != NULL) w->same_next->same_prev = w;
    first->same_next = w;
}

/* Takes out one that is not the first. */
static void chain_take(struct watch_watcher *w)
{
    ASSERT(w->same_prev != NULL);
    w->same_prev->same_next = w->same_next;
    if (w->same_next != NULL) w->same_next->same_prev = w->same_prev;
    w->same_next = NULL;
    w->same_prev = NULL;
}

/* --- single keys --------------------------------------------------------------------------------- */

static int key_add(struct watch_index *ix, struct watch_watcher *w)
{
    struct watch_watcher *first = map_bytes_get(&ix->keys, w->key);
    if (first == NULL) return map_bytes_put(&ix->keys, w->key, w);
    chain_put(first, w);
    return 0;
}

static void key_remove(struct watch_index *ix, struct watch_watcher *w)
{
    if (w->same_prev != NULL) {
        chain_take(w);
        return;
    }
    struct watch_watcher *second = w->same_next;
    void *was = map_bytes_remove(&ix->keys, w->key);
    ASSERT(was == w);
    if (second == NULL) return;
    second->same_prev = NULL;
    w->same_next = NULL;
    int rc = map_bytes_put(&ix->keys, second->key, second);
    ASSERT(rc == 0); /* one has just left */
}

/* --- ranges: order ------------------------------------------------------------------------------- */

static int cmp_end(const struct watch_watcher *a, const struct watch_watcher *b)
{
    bool a_open = is_open_ended(a);
    bool b_open = is_open_ended(b);
    if (a_open || b_open) return (int)a_open - (int)b_open;
    return bytes_cmp(a->end, b->end);
}

static int cmp_range(const struct watch_watcher *a, const struct watch_watcher *b)
{
    int c = bytes_cmp(a->key, b->key);
    return c != 0 ? c : cmp_end(a, b);
}

static bool ends_behind(const struct watch_watcher *w, struct bytes key)
{
    return is_open_ended(w) || bytes_cmp(w->end, key) > 0;
}

static void refresh(struct watch_watcher *n)
{
    n->furthest = n;
    if (n->left != NULL && cmp_end(n->left->furthest, n->furthest) > 0)
        n->furthest = n->left->furthest;
    if (n->right != NULL && cmp_end(n->right->furthest, n->furthest) > 0)
        n->furthest = n->right->furthest;
}

static void refresh_up(struct watch_watcher *n)
{
    for (; n != NULL; n = n->parent)
        refresh(n);
}

/* --- ranges: the treap --------------------------------------------------------------------------- */

/* Puts `w` (or NULL) where `old` hangs. */
static void replace(struct watch_index *ix, struct watch_watcher *old, struct watch_watcher *w)
{
    struct watch_watcher *parent = old->parent;
    if (parent == NULL) {
        ix->root = w;
    } else if (parent->left == old) {
        parent->left = w;
    } else {
        parent->right = w;
    }
    if (w != NULL) w->parent = parent;
}

/* Lets `n`, a child, take the place of its parent. */
static void rotate_up(struct watch_index *ix, struct watch_watcher *n)
{
    struct watch_watcher *p = n->parent;
    bool left = p->left == n;
    struct watch_watcher *inner = left ? n->right : n->left;
    replace(ix, p, n);
    if (left) {
        p->left = inner;
        n->right = p;
    } else {
        p->right = inner;
        n->left = p;
    }
    if (inner != NULL) inner->parent = p;
    p->parent = n;
    refresh(p);
    refresh(n);
}

static uint32_t draw(struct watch_index *ix)
{
    return (uint32_t)(map_hash_u64(ix->keys.seed, ++ix->draws) >> 16);
}

static void range_add(struct watch_index *ix, struct watch_watcher *w)
{
    struct watch_watcher *parent = NULL;
    struct watch_watcher **at = &ix->root;
    while (*at != NULL) {
        int c = cmp_range(w, *at);
        if (c == 0) {
            chain_put(*at, w);
            return;
        }
        parent = *at;
        at = c < 0 ? &parent->left : &parent->right;
    }
    w->parent = parent;
    w->priority = draw(ix);
    *at = w;
    refresh_up(w);
    while (w->parent != NULL && w->parent->priority < w->priority)
        rotate_up(ix, w);
}

/* The second of a chain takes over the node of the first. */
static void inherit(struct watch_index *ix, struct watch_watcher *w)
{
    struct watch_watcher *second = w->same_next;
    second->same_prev = NULL;
    second->priority = w->priority;
    second->left = w->left;
    second->right = w->right;
    if (second->left != NULL) second->left->parent = second;
    if (second->right != NULL) second->right->parent = second;
    replace(ix, w, second);
    refresh_up(second);
}

static void sink_and_cut(struct watch_index *ix, struct watch_watcher *w)
{
    while (w->left != NULL || w->right != NULL) {
        struct watch_watcher *up = w->left == NULL                          ? w->right
                                   : w->right == NULL                       ? w->left
                                   : w->left->priority > w->right->priority ? w->left
                                                                            : w->right;
        rotate_up(ix, up);
    }
    struct watch_watcher *parent = w->parent;
    replace(ix, w, NULL);
    refresh_up(parent);
}

static void range_remove(struct watch_index *ix, struct watch_watcher *w)
{
    if (w->same_prev != NULL) {
        chain_take(w);
        return;
    }
    if (w->same_next != NULL) {
        inherit(ix, w);
    } else {
        sink_and_cut(ix, w);
    }
    w->left = NULL;
    w->right = NULL;
    w->parent = NULL;
    w->same_next = NULL;
}

int watch__index_add(struct watch_index *ix, struct watch_watcher *w)
{
    ASSERT(w->same_next == NULL && w->same_prev == NULL && w->parent == NULL);
    if (is_single(w)) return key_add(ix, w);
    range_add(ix, w);
    return 0;
}

void watch__index_remove(struct watch_index *ix, struct watch_watcher *w)
{
    if (is_single(w)) {
        key_remove(ix, w);
    } else {
        range_remove(ix, w);
    }
}

/* --- walking ------------------------------------------------------------------------------------- */

static bool may_cover(const struct watch_watcher *n, struct bytes key)
{
    return n != NULL && ends_behind(n->furthest, key);
}

static struct watch_watcher *leftmost(struct watch_watcher *n, struct bytes key)
{
    while (may_cover(n->left, key))
        n = n->left;
    return n;
}

/* The next node in order, leaving out what ends too early. */
static struct watch_watcher *next_node(struct watch_watcher *n, struct bytes key)
{
    if (may_cover(n->right, key)) return leftmost(n->right, key);
    while (n->parent != NULL) {
        struct watch_watcher *from = n;
        n = n->parent;
        if (n->left == from) return n;
    }
    return NULL;
}

/* The first one from `n` on that covers the key; what begins behind it ends the walk. */
static struct watch_watcher *covering(struct watch_watcher *n, struct bytes key)
{
    while (n != NULL && bytes_cmp(n->key, key) <= 0) {
        if (ends_behind(n, key)) return n;
        n = next_node(n, key);
    }
    return NULL;
}

static struct watch_watcher *first_range(const struct watch_index *ix, struct bytes key)
{
    return may_cover(ix->root, key) ? covering(leftmost(ix->root, key), key) : NULL;
}

struct watch_watcher *watch__cover_first(const struct watch_index *ix, struct bytes key,
                                         struct watch__cover *c)
{
    c->key = key;
    c->at = map_bytes_get(&ix->keys, key);
    if (c->at == NULL) c->at = first_range(ix, key);
    return c->at;
}

struct watch_watcher *watch__cover_next(const struct watch_index *ix, struct watch__cover *c)
{
    ASSERT(c->at != NULL);
    if (is_single(c->at)) {
        c->at = first_range(ix, c->key);
    } else {
        c->at = covering(next_node(c->at, c->key), c->key);
    }
    return c->at;
}

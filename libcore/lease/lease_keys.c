/* Keys and their leases: a hash from key to lease, and a treap per lease that keeps its keys in
 * byte order.
 *
 * A treap because it needs no balance bookkeeping and is deleted from as simply as it is filled;
 * priorities are half of the seeded hash, so that no choice of keys makes it deep. */
#include "base/err.h"
#include "lease/lease_int.h"

static size_t key_bytes(size_t len)
{
    return sizeof(struct lease_key) + len;
}

static struct bytes key_span(const struct lease_key *k)
{
    return bytes_of(k->data, k->len);
}

/* ---- the hash -------------------------------------------------------------------------------- */

static struct lease_key **key_bucket(const struct lease_table *t, uint64_t hash)
{
    return (struct lease_key **)lease__vec_at(&t->keys.buckets,
                                              lease__hash_bucket(hash, t->keys.bucket_count));
}

static struct lease_key *key_lookup(const struct lease_table *t, struct bytes key, uint64_t hash)
{
    if (t->keys.count == 0) return NULL;
    struct lease_key *k = *key_bucket(t, hash);
    while (k != NULL && !(k->hash == hash && bytes_eq(key_span(k), key))) {
        k = k->chain;
    }
    return k;
}

static void keys_split(struct lease_table *t)
{
    t->keys.bucket_count++;
    if (t->keys.bucket_count == 1) return;
    size_t from = lease__hash_split_from(t->keys.bucket_count);
    struct lease_key **bucket = (struct lease_key **)lease__vec_at(&t->keys.buckets, from);
    struct lease_key *k = *bucket;
    *bucket = NULL;
    while (k != NULL) {
        struct lease_key *next = k->chain;
        bucket = key_bucket(t, k->hash);
        k->chain = *bucket;
        *bucket = k;
        k = next;
    }
}

static void keys_insert(struct lease_table *t, struct lease_key *k)
{
    if (t->keys.count == t->keys.bucket_count) keys_split(t);
    struct lease_key **bucket = key_bucket(t, k->hash);
    k->chain = *bucket;
    *bucket = k;
    t->keys.count++;
}

static void keys_delete(struct lease_table *t, struct lease_key *k)
{
    struct lease_key **link = key_bucket(t, k->hash);
    while (*link != k) {
        ASSERT(*link != NULL);
        link = &(*link)->chain;
    }
    *link = k->chain;
    t->keys.count--;
}

void lease__keys_free(struct lease_table *t)
{
    for (size_t i = 0; i < t->keys.bucket_count; i++) {
        struct lease_key *k = *lease__vec_at(&t->keys.buckets, i);
        while (k != NULL) {
            struct lease_key *next = k->chain;
            alloc_free(t->alloc, k, key_bytes(k->len));
            k = next;
        }
    }
    t->keys.bucket_count = 0;
    t->keys.count = 0;
}

/* ---- the treap ------------------------------------------------------------------------------- */

static bool above(const struct lease_key *a, const struct lease_key *b)
{
    return (a->hash >> 32) > (b->hash >> 32);
}

/* The place that points to `k`: in its parent, or the root. */
static struct lease_key **tree_link(struct lease *l, struct lease_key *k)
{
    if (k->up == NULL) return &l->root;
    return k->up->left == k ? &k->up->left : &k->up->right;
}

/* Lifts `k` over its parent. */
static void tree_rotate_up(struct lease *l, struct lease_key *k)
{
    struct lease_key *p = k->up;
    ASSERT(p != NULL);
    *tree_link(l, p) = k;
    k->up = p->up;
    p->up = k;
    if (p->left == k) {
        p->left = k->right;
        if (p->left != NULL) p->left->up = p;
        k->right = p;
    } else {
        p->right = k->left;
        if (p->right != NULL) p->right->up = p;
        k->left = p;
    }
}

static void tree_insert(struct lease *l, struct lease_key *k)
{
    struct lease_key *up = NULL;
    struct lease_key **link = &l->root;
    while (*link != NULL) {
        up = *link;
        int c = bytes_cmp(key_span(k), key_span(up));
        ASSERT(c != 0);
        link = c < 0 ? &up->left : &up->right;
    }
    *link = k;
    k->up = up;
    k->left = k->right = NULL;
    k->lease = l;
    while (k->up != NULL && above(k, k->up)) {
        tree_rotate_up(l, k);
    }
    l->key_count++;
}

static void tree_delete(struct lease *l, struct lease_key *k)
{
    while (k->left != NULL && k->right != NULL) {
        tree_rotate_up(l, above(k->left, k->right) ? k->left : k->right);
    }
    struct lease_key *child = k->left != NULL ? k->left : k->right;
    *tree_link(l, k) = child;
    if (child != NULL) child->up = k->up;
    k->up = k->left = k->right = NULL;
    ASSERT(l->key_count > 0);
    l->key_count--;
}

/* ---- the face -------------------------------------------------------------------------------- */

/* Gives a node in no tree and no bucket. */
static struct lease_key *key_new(struct lease_table *t, struct bytes key, uint64_t hash)
{
    if (key.len > UINT32_MAX || lease__hash_reserve(t->alloc, &t->keys) < 0) return NULL;
    struct lease_key *k = alloc_new(t->alloc, key_bytes(key.len));
    if (k == NULL) return NULL;
    *k = (struct lease_key){.hash = hash, .len = (uint32_t)key.len};
    if (key.len > 0) memcpy(k->data, key.data, key.len);
    return k;
}

int lease_attach(struct lease_table *t, lease_id id, struct bytes key)
{
    struct lease *l = lease__lookup(t, id);
    if (l == NULL) return E_LEASE_NOT_FOUND;
    uint64_t hash = lease__siphash(t->config.hash_seed, key);
    struct lease_key *k = key_lookup(t, key, hash);
    if (k != NULL) {
        if (k->lease == l) return 0;
        tree_delete(k->lease, k);
    } else {
        k = key_new(t, key, hash); /* the last line that can fail */
        if (k == NULL) return E_NOMEM;
        keys_insert(t, k);
    }
    tree_insert(l, k);
    return 0;
}

void lease_detach(struct lease_table *t, struct bytes key)
{
    if (t->keys.count == 0) return;
    struct lease_key *k = key_lookup(t, key, lease__siphash(t->config.hash_seed, key));
    if (k == NULL) return;
    tree_delete(k->lease, k);
    keys_delete(t, k);
    alloc_free(t->alloc, k, key_bytes(k->len));
}

lease_id lease_of_key(const struct lease_table *t, struct bytes key)
{
    if (t->keys.count == 0) return LEASE_NONE;
    const struct lease_key *k = key_lookup(t, key, lease__siphash(t->config.hash_seed, key));
    return k == NULL ? LEASE_NONE : k->lease->id;
}

bool lease_key_first(const struct lease_table *t, lease_id id, struct bytes *out)
{
    const struct lease *l = lease__lookup(t, id);
    if (l == NULL || l->root == NULL) return false;
    const struct lease_key *k = l->root;
    while (k->left != NULL) {
        k = k->left;
    }
    *out = key_span(k);
    return true;
}

bool lease_key_after(const struct lease_table *t, lease_id id, struct bytes key, struct bytes *out)
{
    const struct lease *l = lease__lookup(t, id);
    if (l == NULL) return false;
    const struct lease_key *best = NULL;
    const struct lease_key *k = l->root;
    while (k != NULL) {
        bool behind = bytes_cmp(key_span(k), key) > 0;
        if (behind) best = k;
        k = behind ? k->left : k->right;
    }
    if (best != NULL) *out = key_span(best);
    return best != NULL;
}

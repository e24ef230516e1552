/* The leader's part: when leases run out, which are to be revoked, what remains of them.
 *
 * Two heaps of leases, by the time of the next wake-up and of the next checkpoint. A promotion
 * gives every lease its expiry and thins out where too many fall together; with a million leases
 * that is long work, so it goes in steps: refresh and push, heap sort in place, walk in order and
 * delay, make a heap again. Demotion forgets it all at once: positions and times count only while
 * the table is primary. */
#include "base/err.h"
#include "lease/lease_int.h"

int lease__expiry_reserve(struct lease_table *t, size_t count)
{
    int rc = lease__vec_reserve(t->alloc, &t->expiries.slots, count);
    if (rc == 0 && t->config.checkpoint_interval_ns > 0) {
        rc = lease__vec_reserve(t->alloc, &t->checkpoints.slots, count);
    }
    return rc;
}

/* ---- heaps ----------------------------------------------------------------------------------- */

/* Which of the two heaps is meant decides the order and where a lease notes its place. */
static bool is_checkpoints(const struct lease_table *t, const struct lease_heap *h)
{
    return h == &t->checkpoints;
}

static struct lease *heap_at(const struct lease_heap *h, size_t i)
{
    return *lease__vec_at(&h->slots, i);
}

static int64_t heap_key(const struct lease_table *t, const struct lease_heap *h,
                        const struct lease *l)
{
    return is_checkpoints(t, h) ? l->checkpoint_ns : l->wake_ns;
}

static void heap_set(const struct lease_table *t, struct lease_heap *h, size_t i, struct lease *l)
{
    *lease__vec_at(&h->slots, i) = l;
    if (is_checkpoints(t, h)) {
        l->checkpoint_pos = (uint32_t)i;
    } else {
        l->heap_pos = (uint32_t)i;
    }
}

/* Lets the lease at `i` rise to its place. */
static void heap_up(const struct lease_table *t, struct lease_heap *h, size_t i)
{
    struct lease *l = heap_at(h, i);
    while (i > 0) {
        struct lease *parent = heap_at(h, (i - 1) / 2);
        if (heap_key(t, h, parent) <= heap_key(t, h, l)) break;
        heap_set(t, h, i, parent);
        i = (i - 1) / 2;
    }
    heap_set(t, h, i, l);
}

static void heap_down(const struct lease_table *t, struct lease_heap *h, size_t i)
{
    struct lease *l = heap_at(h, i);
    for (;;) {
        size_t c = 2 * i + 1;
        if (c >= h->count) break;
        struct lease *child = heap_at(h, c);
        if (c + 1 < h->count && heap_key(t, h, heap_at(h, c + 1)) < heap_key(t, h, child)) {
            child = heap_at(h, ++c);
        }
        if (heap_key(t, h, l) <= heap_key(t, h, child)) break;
        heap_set(t, h, i, child);
        i = c;
    }
    heap_set(t, h, i, l);
}

static void heap_push(const struct lease_table *t, struct lease_heap *h, struct lease *l)
{
    heap_set(t, h, h->count, l);
    heap_up(t, h, h->count++);
}

/* The key of the lease at `i` has changed. */
static void heap_fix(const struct lease_table *t, struct lease_heap *h, size_t i)
{
    ASSERT(i < h->count);
    struct lease *l = heap_at(h, i);
    heap_up(t, h, i);
    if (heap_at(h, i) == l) heap_down(t, h, i);
}

static void heap_remove(const struct lease_table *t, struct lease_heap *h, size_t i)
{
    ASSERT(i < h->count);
    struct lease *last = heap_at(h, --h->count);
    if (i == h->count) return;
    heap_set(t, h, i, last);
    heap_fix(t, h, i);
}

/* ---- times ----------------------------------------------------------------------------------- */

/* now + extend + ttl, below LEASE_FOREVER whatever the parts are. */
static int64_t expiry_at(int64_t now_ns, int64_t extend_ns, int64_t ttl_s)
{
    int64_t ns;
    if (__builtin_mul_overflow(ttl_s, (int64_t)LEASE_NS_PER_S, &ns) ||
        __builtin_add_overflow(ns, now_ns, &ns) || __builtin_add_overflow(ns, extend_ns, &ns)) {
        return LEASE_FOREVER - 1;
    }
    return ns;
}

static int64_t remaining_or_ttl(const struct lease *l)
{
    return l->remaining_s > 0 ? l->remaining_s : l->ttl_s;
}

static void lease_refresh(struct lease *l, int64_t now_ns, int64_t extend_ns, int64_t ttl_s)
{
    l->expiry_ns = expiry_at(now_ns, extend_ns, ttl_s);
    l->wake_ns = l->expiry_ns;
}

void lease__checkpoint_schedule(struct lease_table *t, struct lease *l, int64_t now_ns)
{
    int64_t interval = t->config.checkpoint_interval_ns;
    if (interval == 0 || remaining_or_ttl(l) <= interval / LEASE_NS_PER_S) return;
    l->checkpoint_ns = now_ns + interval;
    if (l->checkpoint_pos == LEASE_POS_NONE) {
        heap_push(t, &t->checkpoints, l);
    } else {
        heap_fix(t, &t->checkpoints, l->checkpoint_pos);
    }
}

void lease__expiry_add(struct lease_table *t, struct lease *l, int64_t now_ns)
{
    if (t->phase != LEASE_PRIMARY) return;
    lease_refresh(l, now_ns, 0, l->ttl_s);
    heap_push(t, &t->expiries, l);
    lease__checkpoint_schedule(t, l, now_ns);
}

void lease__expiry_del(struct lease_table *t, struct lease *l)
{
    if (t->phase != LEASE_PRIMARY) return;
    heap_remove(t, &t->expiries, l->heap_pos);
    if (l->checkpoint_pos != LEASE_POS_NONE) heap_remove(t, &t->checkpoints, l->checkpoint_pos);
}

/* ---- promotion ------------------------------------------------------------------------------- */

void lease_promote(struct lease_table *t, int64_t extend_ns, int64_t now_ns)
{
    ASSERT(extend_ns >= 0);
    t->phase = LEASE_REFRESHING;
    t->promotion = (struct lease_promotion){.now_ns = now_ns, .extend_ns = extend_ns};
    t->expiries.count = 0;
    t->checkpoints.count = 0;
}

/* Refreshes the next lease of the pool; false when there is none. */
static bool promote_refresh(struct lease_table *t)
{
    struct lease_promotion *p = &t->promotion;
    if (p->at / LEASE_POOL_CHUNK >= t->pool_chunks) return false;
    struct lease *chunk = *lease__vec_at(&t->pool, p->at / LEASE_POOL_CHUNK);
    struct lease *l = &chunk[p->at++ % LEASE_POOL_CHUNK];
    if (l->id == LEASE_NONE) return true;
    lease_refresh(l, p->now_ns, p->extend_ns, remaining_or_ttl(l));
    l->checkpoint_pos = LEASE_POS_NONE;
    lease__checkpoint_schedule(t, l, p->now_ns);
    heap_push(t, &t->expiries, l);
    return true;
}

/* Moves the soonest lease behind the shrinking heap; false when it is empty. */
static bool promote_sort(struct lease_table *t)
{
    struct lease_heap *h = &t->expiries;
    if (h->count == 0) return false;
    struct lease *first = heap_at(h, 0);
    heap_remove(t, h, 0);
    heap_set(t, h, h->count, first);
    return true;
}

/* Delays the next lease, soonest first, if its second is full already: upstream's rule, so that the
 * leases that piled up while nobody led do not all run out at once. */
static bool promote_spread(struct lease_table *t)
{
    struct lease_promotion *p = &t->promotion;
    if (p->at == 0) return false;
    struct lease *l = heap_at(&t->expiries, --p->at);
    int64_t left_ns = l->expiry_ns - p->now_ns;
    if (p->at + 1 == t->ids.count) { /* the first one opens the first window */
        p->base_ns = left_ns;
        p->window_ns = left_ns + LEASE_NS_PER_S;
    }
    if (left_ns > p->window_ns) {
        p->base_ns = left_ns;
        p->window_ns = left_ns + LEASE_NS_PER_S;
        p->window_used = 1;
        return true;
    }
    if (++p->window_used <= LEASE_SPREAD_PER_SECOND) return true;
    int64_t delay_ns = p->window_used * LEASE_NS_PER_S / LEASE_SPREAD_PER_SECOND;
    delay_ns -= left_ns - p->base_ns;
    p->window_ns = p->base_ns + delay_ns;
    lease_refresh(l, p->now_ns, p->extend_ns + delay_ns, remaining_or_ttl(l));
    return true;
}

/* Takes the next slot into the growing heap. */
static bool promote_reheap(struct lease_table *t)
{
    if (t->expiries.count == t->ids.count) return false;
    heap_up(t, &t->expiries, t->expiries.count++);
    return true;
}

/* From one phase of a promotion to the next. */
static void promote_advance(struct lease_table *t)
{
    switch (t->phase) {
    case LEASE_REFRESHING:
        ASSERT(t->expiries.count == t->ids.count);
        t->phase = t->ids.count < LEASE_SPREAD_COUNT_MIN ? LEASE_PRIMARY : LEASE_SORTING;
        return;
    case LEASE_SORTING:
        t->promotion.at = t->ids.count;
        t->phase = LEASE_SPREADING;
        return;
    case LEASE_SPREADING: t->phase = LEASE_REHEAPING; return;
    case LEASE_REHEAPING: t->phase = LEASE_PRIMARY; return;
    case LEASE_DEMOTED:
    case LEASE_PRIMARY: break;
    }
    ASSERT(!"a promotion is under way");
}

static bool promote_one(struct lease_table *t)
{
    switch (t->phase) {
    case LEASE_REFRESHING: return promote_refresh(t);
    case LEASE_SORTING: return promote_sort(t);
    case LEASE_SPREADING: return promote_spread(t);
    case LEASE_REHEAPING: return promote_reheap(t);
    case LEASE_DEMOTED:
    case LEASE_PRIMARY: break;
    }
    return false;
}

bool lease_promote_step(struct lease_table *t, size_t steps)
{
    ASSERT(t->phase != LEASE_DEMOTED);
    while (t->phase != LEASE_PRIMARY && steps > 0) {
        if (promote_one(t)) {
            steps--;
        } else {
            promote_advance(t);
        }
    }
    return t->phase == LEASE_PRIMARY;
}

void lease_demote(struct lease_table *t)
{
    t->phase = LEASE_DEMOTED;
    t->expiries.count = 0;
    t->checkpoints.count = 0;
}

bool lease_is_primary(const struct lease_table *t)
{
    return t->phase == LEASE_PRIMARY;
}

/* ---- what a primary does --------------------------------------------------------------------- */

int lease_renew(struct lease_table *t, lease_id id, int64_t now_ns, int64_t *ttl_s)
{
    if (t->phase != LEASE_PRIMARY) return E_NOT_PRIMARY;
    struct lease *l = lease__lookup(t, id);
    if (l == NULL) return E_LEASE_NOT_FOUND;
    if (l->expiry_ns <= now_ns) return E_AGAIN;
    if (t->config.checkpoint_interval_ns > 0 && l->remaining_s > 0) return E_BUSY;
    lease_refresh(l, now_ns, 0, l->ttl_s);
    heap_fix(t, &t->expiries, l->heap_pos);
    t->stats.renewed_total++;
    *ttl_s = l->ttl_s;
    return 0;
}

int lease_time_to_live(const struct lease_table *t, lease_id id, int64_t now_ns, int64_t *left_s)
{
    if (t->phase != LEASE_PRIMARY) return E_NOT_PRIMARY;
    const struct lease *l = lease__lookup(t, id);
    if (l == NULL) return E_LEASE_NOT_FOUND;
    *left_s = (l->expiry_ns - now_ns) / LEASE_NS_PER_S;
    return 0;
}

size_t lease_expired(struct lease_table *t, int64_t now_ns, lease_id *out, size_t max)
{
    size_t n = 0;
    if (t->phase != LEASE_PRIMARY) return 0;
    while (n < max && t->expiries.count > 0) {
        struct lease *l = heap_at(&t->expiries, 0);
        if (l->wake_ns > now_ns) break;
        ASSERT(l->expiry_ns <= now_ns);
        l->wake_ns = now_ns + t->config.retry_ns;
        heap_down(t, &t->expiries, 0);
        out[n++] = l->id;
    }
    return n;
}

int64_t lease_next_expiry(const struct lease_table *t)
{
    if (t->phase != LEASE_PRIMARY || t->expiries.count == 0) return LEASE_FOREVER;
    return heap_at(&t->expiries, 0)->wake_ns;
}

size_t lease_checkpoints_due(struct lease_table *t, int64_t now_ns, struct lease_checkpoint *out,
                             size_t max)
{
    size_t n = 0;
    if (t->phase != LEASE_PRIMARY) return 0;
    while (n < max && t->checkpoints.count > 0) {
        struct lease *l = heap_at(&t->checkpoints, 0);
        if (l->checkpoint_ns > now_ns) break;
        int64_t left_s = (l->expiry_ns - now_ns + LEASE_NS_PER_S - 1) / LEASE_NS_PER_S;
        if (l->expiry_ns > now_ns && left_s > t->config.checkpoint_interval_ns / LEASE_NS_PER_S) {
            l->checkpoint_ns = now_ns + t->config.checkpoint_interval_ns;
            heap_down(t, &t->checkpoints, 0);
        } else { /* the rest of its life is too short for another one */
            heap_remove(t, &t->checkpoints, 0);
            l->checkpoint_pos = LEASE_POS_NONE;
        }
        if (l->expiry_ns > now_ns && left_s < l->ttl_s) {
            out[n++] = (struct lease_checkpoint){l->id, left_s};
        }
    }
    return n;
}

bool lease_checkpoint(struct lease_table *t, lease_id id, int64_t remaining_s, int64_t now_ns)
{
    struct lease *l = lease__lookup(t, id);
    if (l == NULL) return false;
    l->remaining_s = remaining_s;
    if (t->phase == LEASE_PRIMARY) lease__checkpoint_schedule(t, l, now_ns);
    return true;
}

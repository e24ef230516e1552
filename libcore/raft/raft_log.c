/* The log in memory: one array of entries, and marks that only move forward.
 *
 *     before_index   first ..... applied .. applying .. committed ..... last
 *                                       stable .... in_progress
 *
 * Entries up to `stable` are in the WAL; those up to `in_progress` were handed out to be written. A new leader may cut
 * the end off, never below `committed`; the two write marks then move back. Entries everybody has applied and needs no
 * more are dropped from the front; the index and term of the last one dropped stay, for matching. */
#include "raft/raft_int.h"

raft_index raft__log_first(const struct raft__log *l)
{
    ASSERT(l->before_index < UINT64_MAX);
    return l->before_index + 1;
}

raft_index raft__log_last(const struct raft__log *l)
{
    ASSERT(l->head + l->count <= l->cap);
    return l->before_index + l->count;
}

const struct raft_entry *raft__log_at(const struct raft__log *l, raft_index i)
{
    ASSERT(i > l->before_index);
    ASSERT(i <= raft__log_last(l));
    return &l->entries[l->head + (size_t)(i - l->before_index - 1)];
}

bool raft__log_term(const struct raft__log *l, raft_index i, raft_term *term)
{
    ASSERT(term != NULL);
    if (i < l->before_index || i > raft__log_last(l)) return false;
    *term = i == l->before_index ? l->before_term : raft__log_at(l, i)->term;
    return true;
}

raft_term raft__log_last_term(const struct raft__log *l)
{
    raft_term t = 0;
    bool known = raft__log_term(l, raft__log_last(l), &t);
    ASSERT(known);
    return t;
}

bool raft__log_match(const struct raft__log *l, raft_index i, raft_term term)
{
    ASSERT(l != NULL);
    raft_term t;
    return raft__log_term(l, i, &t) && t == term;
}

/* Paper 5.4.1: "If the logs have last entries with different terms, then the log with the later term is more
 * up-to-date. If the logs end with the same term, then whichever log is longer is more up-to-date." */
bool raft__log_up_to_date(const struct raft__log *l, raft_index index, raft_term term)
{
    ASSERT(l != NULL);
    raft_term mine = raft__log_last_term(l);
    return term > mine || (term == mine && index >= raft__log_last(l));
}

raft_index raft__log_conflict_by_term(const struct raft__log *l, raft_index i, raft_term term,
                                      raft_term *found)
{
    ASSERT(found != NULL);
    for (; i > 0; i--) {
        raft_term t;
        if (!raft__log_term(l, i, &t)) {
            *found = 0;
            return i;
        }
        if (t <= term) {
            *found = t;
            return i;
        }
    }
    *found = 0;
    return 0;
}

int raft__log_reserve(struct raft__log *l, size_t n)
{
    ASSERT(l->head + l->count <= l->cap);
    if (l->cap - l->head - l->count >= n) return 0;
    if (l->cap - l->count >= n && l->head >= l->count) {
        /* The front is free and larger than what is in use: each entry moves at most once per its own drop. */
        memmove(l->entries, l->entries + l->head, l->count * sizeof *l->entries);
        l->head = 0;
        return 0;
    }
    size_t cap = l->cap < 64 ? 64 : l->cap;
    while (cap - l->count < n || cap < 2 * l->count)
        cap *= 2;
    struct raft_entry *v = alloc_new(l->alloc, cap * sizeof *v);
    if (v == NULL) return E_NOMEM;
    if (l->count > 0) memcpy(v, l->entries + l->head, l->count * sizeof *v);
    alloc_free(l->alloc, l->entries, l->cap * sizeof *v);
    l->entries = v;
    l->cap = cap;
    l->head = 0;
    return 0;
}

static void cut_from(struct raft__log *l, raft_index i)
{
    ASSERT(i > l->committed);
    while (raft__log_last(l) >= i) {
        l->count--;
        rcbuf_unref(l->entries[l->head + l->count].data);
    }
    if (l->stable >= i) l->stable = i - 1;
    if (l->in_progress >= i) l->in_progress = i - 1;
}

void raft__log_append(struct raft__log *l, const struct raft_entry *ents, size_t n)
{
    ASSERT(n > 0);
    ASSERT(ents[0].index > l->committed);
    ASSERT(ents[0].index <= raft__log_last(l) + 1);
    cut_from(l, ents[0].index);
    ASSERT(l->cap - l->head - l->count >= n);
    for (size_t i = 0; i < n; i++) {
        l->entries[l->head + l->count] = ents[i];
        (void)rcbuf_ref(ents[i].data);
        l->count++;
    }
}

void raft__log_commit_to(struct raft__log *l, raft_index i)
{
    ASSERT(i <= raft__log_last(l));
    if (i > l->committed) l->committed = i;
}

void raft__log_stable_to(struct raft__log *l, raft_index i)
{
    ASSERT(i <= raft__log_last(l));
    if (i > l->stable) l->stable = i;
    if (l->in_progress < l->stable) l->in_progress = l->stable;
}

void raft__log_applied_to(struct raft__log *l, raft_index i)
{
    ASSERT(i >= l->applied);
    ASSERT(i <= l->committed);
    size_t bytes = 0;
    for (raft_index k = l->applied + 1; k <= i && l->applying_bytes > 0; k++)
        if (k > l->before_index) bytes += raft_entry_bytes(raft__log_at(l, k));
    l->applied = i;
    if (l->applying < i) l->applying = i;
    l->applying_bytes -= bytes < l->applying_bytes ? bytes : l->applying_bytes;
    l->applying_paused = l->applying_bytes >= l->applying_bytes_max;
}

raft_index raft__log_appliable(const struct raft__log *l, bool allow_unstable)
{
    ASSERT(l->applying <= l->committed);
    return allow_unstable || l->committed < l->stable ? l->committed : l->stable;
}

bool raft__log_has_committed(const struct raft__log *l, bool allow_unstable)
{
    ASSERT(l->applied <= l->applying);
    /* A snapshot is applied before anything behind it. */
    if (l->applying_paused || l->snapshot != NULL) return false;
    return l->applying < raft__log_appliable(l, allow_unstable);
}

size_t raft__log_fit(const struct raft__log *l, raft_index lo, raft_index hi, size_t bytes_max,
                     size_t *bytes)
{
    ASSERT(lo < hi);
    size_t n = 0;
    size_t sum = 0;
    for (raft_index i = lo; i < hi; i++, n++) {
        size_t b = raft_entry_bytes(raft__log_at(l, i));
        if (n > 0 && (b > bytes_max || sum > bytes_max - b)) break;
        sum += b;
        if (sum >= bytes_max) {
            n++;
            break;
        }
    }
    *bytes = sum;
    return n;
}

void raft__log_accept_applying(struct raft__log *l, raft_index i, size_t bytes, bool unstable_ok)
{
    ASSERT(i >= l->applying);
    ASSERT(i <= l->committed);
    l->applying = i;
    l->applying_bytes += bytes;
    /* Also paused when the limit, not the log, ended the span: the next entry would go over it. */
    l->applying_paused = l->applying_bytes >= l->applying_bytes_max ||
                         i < raft__log_appliable(l, unstable_ok);
}

static void unref_all(struct raft__log *l)
{
    ASSERT(l->head + l->count <= l->cap);
    for (size_t i = 0; i < l->count; i++)
        rcbuf_unref(l->entries[l->head + i].data);
    l->count = 0;
    l->head = 0;
}

static void snapshot_drop(struct raft__log *l)
{
    ASSERT(l->alloc != NULL);
    if (l->snapshot != NULL) {
        rcbuf_unref(l->snapshot->data);
        alloc_free(l->alloc, l->snapshot, sizeof *l->snapshot);
    }
    l->snapshot = NULL;
    l->snapshot_in_progress = false;
}

void raft__log_restore(struct raft__log *l, struct raft_snapshot *s)
{
    ASSERT(s->meta.index > l->committed);
    unref_all(l);
    snapshot_drop(l);
    l->before_index = s->meta.index;
    l->before_term = s->meta.term;
    l->committed = s->meta.index;
    l->stable = s->meta.index;
    l->in_progress = s->meta.index;
    l->snapshot = s;
}

void raft__log_compact(struct raft__log *l, raft_index i)
{
    ASSERT(i <= l->applied);
    ASSERT(i <= l->stable);
    if (i <= l->before_index) return;
    l->before_term = raft__log_at(l, i)->term;
    size_t n = (size_t)(i - l->before_index);
    for (size_t k = 0; k < n; k++)
        rcbuf_unref(l->entries[l->head + k].data);
    l->head += n;
    l->count -= n;
    l->before_index = i;
    if (l->count == 0) l->head = 0;
}

void raft__log_deinit(struct raft__log *l)
{
    ASSERT(l->alloc != NULL);
    unref_all(l);
    snapshot_drop(l);
    alloc_free(l->alloc, l->entries, l->cap * sizeof *l->entries);
    *l = (struct raft__log){.alloc = l->alloc};
}

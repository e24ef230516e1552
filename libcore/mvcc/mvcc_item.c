/* One key in the index: its revisions by generation.
 *
 * A generation is a life of the key: a put, more puts, a deletion. They lie in one flat array in revision order; each
 * entry says where its generation starts, so that create revision and version of any entry follow by subtraction. The
 * newest entry is copied into the item. A key with a single revision has no array at all: 40 bytes and the key.
 *
 * Rejected: an array per generation, as upstream has it: two more pointers to chase, and memory for each. */
#include "mvcc/mvcc_int.h"

enum { HIST_CAP_MIN = 4 };

static size_t hist_bytes(uint32_t cap)
{
    return sizeof(struct mvcc_hist) + (size_t)cap * sizeof(struct mvcc_ent);
}

struct mvcc_item *mvcc__item_new(const struct alloc *a, struct bytes key)
{
    ASSERT(key.len <= KEY_LEN_MAX);
    struct mvcc_item *it = alloc_new(a, sizeof *it + key.len);
    if (it == NULL) return NULL;
    memset(it, 0, sizeof *it);
    it->key_len = (uint32_t)key.len & KEY_LEN_MAX;
    if (key.len > 0) memcpy(it->key, key.data, key.len);
    return it;
}

static void hist_free(const struct alloc *a, struct mvcc_hist *h)
{
    if (h != NULL) alloc_free(a, h, hist_bytes(h->cap));
}

void mvcc__item_free(const struct alloc *a, struct mvcc_item *it)
{
    if (it == NULL) return;
    hist_free(a, it->hist);
    alloc_free(a, it, sizeof *it + it->key_len);
}

/* How many entries are at or below `rev`. */
static uint32_t hist_upper(const struct mvcc_hist *h, int64_t rev)
{
    uint32_t lo = 0, hi = h->count;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (h->ents[mid].main <= rev) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

static int64_t hist_create(const struct mvcc_hist *h, uint32_t i)
{
    uint32_t gen = h->ents[i].gen;
    return gen == 0 ? h->create0 : h->ents[gen].main;
}

static int64_t hist_version(const struct mvcc_hist *h, uint32_t i)
{
    uint32_t gen = h->ents[i].gen;
    return (gen == 0 ? h->version0 : 1) + (int64_t)(i - gen);
}

static struct mvcc_row item_newest(const struct mvcc_item *it)
{
    return (struct mvcc_row){
        .mod = it->mod, .create = it->create, .version = it->version, .sub = it->sub};
}

bool mvcc__item_at(const struct mvcc_item *it, int64_t rev, struct mvcc_row *out)
{
    if (it->mod <= rev) {
        if (it->tomb) return false;
        *out = item_newest(it);
        return true;
    }
    const struct mvcc_hist *h = it->hist;
    if (h == NULL) return false;
    uint32_t n = hist_upper(h, rev);
    if (n == 0 || h->ents[n - 1].tomb) return false;
    const struct mvcc_ent *e = &h->ents[n - 1];
    *out = (struct mvcc_row){.mod = e->main,
                             .create = hist_create(h, n - 1),
                             .version = hist_version(h, n - 1),
                             .sub = e->sub};
    return true;
}

bool mvcc__item_is_newest(const struct mvcc_item *it, int64_t rev, int64_t main, uint32_t sub)
{
    struct mvcc_row row;
    return mvcc__item_at(it, rev, &row) && row.mod == main && row.sub == sub;
}

bool mvcc__item_tomb_at(const struct mvcc_item *it, int64_t rev)
{
    if (it->mod <= rev) return it->tomb && it->mod == rev;
    if (it->hist == NULL) return false;
    uint32_t n = hist_upper(it->hist, rev);
    return n > 0 && it->hist->ents[n - 1].tomb && it->hist->ents[n - 1].main == rev;
}

/* --- appending --- */

/* A bigger copy with the same entries; of an item without array, with its one revision. */
static struct mvcc_hist *hist_grow(const struct alloc *a, const struct mvcc_item *it)
{
    const struct mvcc_hist *old = it->hist;
    uint32_t cap = old == NULL ? HIST_CAP_MIN : old->cap + old->cap / 2 + 1;
    ASSERT(old == NULL || cap > old->cap);
    struct mvcc_hist *h = alloc_new(a, hist_bytes(cap));
    if (h == NULL) return NULL;
    if (old != NULL) {
        memcpy(h, old, hist_bytes(old->count));
    } else {
        *h = (struct mvcc_hist){.create0 = it->create, .version0 = it->version, .count = 1};
        h->ents[0] = (struct mvcc_ent){.main = it->mod, .sub = it->sub & SUB_MAX, .tomb = it->tomb};
    }
    h->cap = cap;
    return h;
}

int mvcc__item_prepare(const struct alloc *a, const struct mvcc_item *it,
                       struct mvcc_item_change *ch)
{
    *ch = (struct mvcc_item_change){0};
    if (it->mod == 0) return 0; /* fresh: its first revision goes into the item */
    if (it->hist != NULL && it->hist->count < it->hist->cap) return 0;
    ch->hist = hist_grow(a, it);
    return ch->hist == NULL ? E_NOMEM : 0;
}

/* Puts the entry behind the others in the array; `fresh_life` when the one before was a deletion. */
static void hist_append(struct mvcc_hist *h, int64_t main, uint32_t sub, bool tomb, bool fresh_life)
{
    ASSERT(h->count < h->cap);
    uint32_t i = h->count;
    h->ents[i] = (struct mvcc_ent){.main = main,
                                   .sub = sub & SUB_MAX,
                                   .tomb = tomb,
                                   .gen = fresh_life ? i : h->ents[i - 1].gen};
    h->count = i + 1;
}

void mvcc__item_store(struct mvcc_item *it, struct mvcc_item_change *ch, int64_t main, uint32_t sub,
                      bool tomb)
{
    ASSERT(sub <= SUB_MAX);
    if (ch->hist != NULL) {
        ch->old = it->hist;
        it->hist = ch->hist;
    }
    bool lives = it->mod > 0 && !it->tomb;
    if (it->hist != NULL) hist_append(it->hist, main, sub, tomb, it->tomb);
    it->create = tomb ? 0 : lives ? it->create : main;
    it->version = tomb ? 0 : lives ? it->version + 1 : 1;
    it->mod = main;
    it->sub = sub;
    it->tomb = tomb;
}

void mvcc__item_settle(const struct alloc *a, struct mvcc_item_change *ch)
{
    hist_free(a, ch->old);
    ch->old = NULL;
}

/* --- compaction --- */

/* How many of the oldest entries a compaction at `rev` drops: all before the newest one at or below
 * `rev`, and that one too when it is a deletion below `rev` (one exactly at `rev` is kept, as upstream does). */
static uint32_t prune_count(const struct mvcc_item *it, int64_t rev)
{
    if (it->hist == NULL) return it->tomb && it->mod < rev;
    uint32_t n = hist_upper(it->hist, rev);
    if (n == 0) return 0;
    const struct mvcc_ent *e = &it->hist->ents[n - 1];
    return e->tomb && e->main < rev ? n : n - 1;
}

static struct mvcc_hist *hist_tail(const struct alloc *a, const struct mvcc_hist *old,
                                   uint32_t drop)
{
    uint32_t count = old->count - drop;
    struct mvcc_hist *h = alloc_new(a, hist_bytes(count));
    if (h == NULL) return NULL;
    *h = (struct mvcc_hist){.create0 = hist_create(old, drop),
                            .version0 = hist_version(old, drop),
                            .count = count,
                            .cap = count};
    for (uint32_t i = 0; i < count; i++) {
        h->ents[i] = old->ents[drop + i];
        h->ents[i].gen = h->ents[i].gen > drop ? h->ents[i].gen - drop : 0;
    }
    return h;
}

int mvcc__item_prune_plan(const struct alloc *a, const struct mvcc_item *it, int64_t rev,
                          struct mvcc_item_change *ch)
{
    *ch = (struct mvcc_item_change){0};
    uint32_t drop = prune_count(it, rev);
    if (drop == 0) return 0;
    uint32_t count = it->hist == NULL ? 1 : it->hist->count;
    ASSERT(drop <= count);
    if (drop == count) return 2;
    ch->drop = drop;
    if (count - drop == 1) return 1;
    ch->hist = hist_tail(a, it->hist, drop);
    return ch->hist == NULL ? E_NOMEM : 1;
}

void mvcc__item_prune_store(struct mvcc_item *it, struct mvcc_item_change *ch)
{
    ASSERT(ch->drop > 0);
    ASSERT(it->hist != NULL);
    ch->old = it->hist;
    it->hist = ch->hist;
}

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
#include "mvcc/mvcc_index_int.h"
#include "mvcc/mvcc_run_int.h"
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

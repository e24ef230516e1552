/* The key-value store of one member: key index, revisions, write-buffer runs.
 *
 * One writer (the apply actor) changes the store entry by entry; readers on any thread look through views
 * (mvcc/view.h); compaction and hashes are in mvcc/compact.h. Rows are pairs of upstream's revision key and an encoded
 * KeyValue, as in bbolt-format.md 8; they live in two runs in memory until the backend thread has committed them.
 *
 * The life of a change: it is appended to the active run, then to the index, both unsealed; mvcc_entry_seal() binds the
 * entry's changes to (index, term) and only then publishes the revision. Between entries mvcc_run_swap() freezes the
 * active run, the backend thread writes it with mvcc_run_write() and commits, and mvcc_run_retire() lets it go. */
#ifndef MVCC_MVCC_H
#define MVCC_MVCC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/errmsg.h"
#include "base/log.h"
#include "env/backend.h"
#include "env/lock.h"

struct mvcc;
struct mvcc_run;

/* What the index knows of one stored row that is no deletion. (mod, sub) names the row for mvcc_view_kv(). */
struct mvcc_row {
    int64_t mod;
    int64_t create;
    int64_t version;
    uint32_t sub;
};

struct mvcc_opts {
    const struct alloc *alloc; /* usable from any thread; outlives the store */
    const struct rwlock *index_lock;
    const struct backend *backend;
    size_t run_bytes_max; /* when a run counts as full; 0: RUN_BYTES_MAX */
    const struct log *log;
    uint64_t seed; /* of the hash table used while loading; any value, best an unknown one */
    /* At the end of a load, once for each key whose newest row has a lease; borrows `key`. May be NULL. */
    void (*on_lease)(void *arg, struct bytes key, int64_t lease);
    void *arg;
};

/* --- birth: before any other thread knows the store --- */

/* Gives an empty store that waits for rows. Errors: E_NOMEM. */
int mvcc_load_begin(const struct mvcc_opts *opts, struct mvcc **out);

/* One row of TABLE_KEY; rows come in key order. Borrows both. Errors: E_NOMEM; E_CORRUPT no revision key, not behind the
 * row before, or no KeyValue; `em` says which. The store can then only be freed. */
int mvcc_load_row(struct mvcc *m, struct bytes rev_key, struct bytes kv, struct errmsg *em);

/* Values of TABLE_META; an absent one is empty. */
struct mvcc_meta {
    struct bytes scheduled_compact_rev;
    struct bytes finished_compact_rev;
    struct bytes consistent_index;
    struct bytes term;
};

/* Sorts, builds the index in bulk, sets revisions as bbolt-format.md 10 says; an unfinished compaction is then waiting in
 * mvcc_compact_begin(). Errors: E_NOMEM; E_CORRUPT a meta value has a wrong form. */
int mvcc_load_end(struct mvcc *m, const struct mvcc_meta *meta, struct errmsg *em);

/* The three above over a read transaction of `opts->backend`. Gives the store, freed with mvcc_free(). Errors: as above
 * and those of the backend. */
int mvcc_open(const struct mvcc_opts *opts, struct mvcc **out, struct errmsg *em);

/* No view and no compaction may be open. NULL is allowed. */
void mvcc_free(struct mvcc *m);

/* --- numbers, any thread --- */

int64_t mvcc_revision(const struct mvcc *m);  /* published; at least 1 */
int64_t mvcc_compacted(const struct mvcc *m); /* of the last sealed mark; -1: never */
size_t
mvcc_run_bytes(const struct mvcc *m); /* both runs: what a quota adds to the backend's size */
uint64_t
mvcc_key_count(const struct mvcc *m); /* keys the index knows, deleted but uncompacted ones too */

/* Coarse time for the age of pins (READ_PIN_MAX_MS); any clock that does not go back. Any one thread. */
void mvcc_tick(struct mvcc *m, int64_t now_ms);

/* --- the writer: the apply actor only --- */

/* (index, term) of the last sealed entry; after a load what meta said, 0 if absent. */
uint64_t mvcc_applied_index(const struct mvcc *m);
uint64_t mvcc_applied_term(const struct mvcc *m);

/* Starts an entry. A failed call inside it (E_NOMEM, or a read error) leaves the entry unsealed for good: the process
 * ends, and nothing of the entry was ever visible. */
void mvcc_entry_begin(struct mvcc *m);

/* The revision that a header shows at this point of the entry: that of the entry once it changed a key. */
int64_t mvcc_entry_revision(const struct mvcc *m);

/* Puts a key at (revision + 1, next sub). Borrows both spans. `*out` is the new row; may be NULL. The old row is to be had from
 * mvcc_write_get() before. Errors: E_NOMEM. */
int mvcc_write_put(struct mvcc *m, struct bytes key, struct bytes value, int64_t lease,
                   struct mvcc_row *out);

/* The newest row of `key`, the entry's own changes included. Errors: E_NOTFOUND. */
int mvcc_write_get(const struct mvcc *m, struct bytes key, struct mvcc_row *out);

/* The stored KeyValue of a row from mvcc_write_get(). `*kv` is valid until mvcc_entry_seal(). Errors: of the backend;
 * E_CORRUPT the backend does not have the row. */
int mvcc_write_kv(struct mvcc *m, const struct mvcc_row *row, struct bytes *kv, struct errmsg *em);

/* A change to another table, committed with the entry. Borrows the spans. Not for TABLE_KEY, nor for meta's
 * consistent_index and term, which the seal writes. Errors: E_NOMEM. */
int mvcc_table_put(struct mvcc *m, enum table t, struct bytes key, struct bytes value);
int mvcc_table_del(struct mvcc *m, enum table t, struct bytes key);

/* Marks everything below `rev` as compacted, visible with the seal; the work itself is mvcc_compact_begin()'s.
 * Errors: E_COMPACTED, E_FUTURE_REV (nothing changed, the entry goes on), E_NOMEM. */
int mvcc_write_compact(struct mvcc *m, int64_t rev);

/* Ends the entry: its changes, `index` and `term` are one value from here on; publishes the revision. Every applied entry
 * is sealed, also one that changed nothing. `index` is above the last one's. Cannot fail. */
void mvcc_entry_seal(struct mvcc *m, uint64_t index, uint64_t term);

/* --- deleting a range inside an entry, resumable --- */

struct mvcc_delete {
    struct mvcc *m;
    /* A deleted key that had a lease, to be detached; borrows. May be NULL. */
    void (*on_lease)(void *arg, struct bytes key);
    void *arg;
    bool want_prev; /* fill `prev` */
    uint64_t count; /* deleted so far */
    struct mvcc_row
        *prev; /* the deleted rows in key order; to be read through a view of this entry */
    size_t prev_count, prev_cap;
    struct bytes end;
    bool started;
    struct mvcc_leaf
        *leaf; /* where to go on; the tree keeps its shape while the delete is stepped */
    uint32_t slot;
    struct bytes key;
};

/* Range rules of server-behaviour.md 2. Borrows `key` and `end` until deinit. Set on_lease, want_prev after it. */
void mvcc_delete_init(struct mvcc_delete *d, struct mvcc *m, struct bytes key, struct bytes end);

/* Deletes on, looking at no more than `keys_max` keys (about 0.2 us each). Nothing else may be written to the entry until
 * it is done. Returns 1 while there is more, 0 at the end. Errors: E_NOMEM. */
int mvcc_delete_step(struct mvcc_delete *d, size_t keys_max);
void mvcc_delete_deinit(struct mvcc_delete *d);

/* --- runs --- */

/* The active run's bytes; half the limit is a reason to commit. Apply actor. */
size_t mvcc_active_bytes(const struct mvcc *m);

/* True while the active run is full and the other is not retired yet: apply pauses between entries. Apply actor. */
bool mvcc_run_full(const struct mvcc *m);

/* Freezes the active run and gives it to the backend thread until mvcc_run_retire(). `*out` is NULL inside an entry, while
 * the frozen one is not retired yet, and when nothing was sealed since. Apply actor. Errors: E_NOMEM. */
int mvcc_run_swap(struct mvcc *m, struct mvcc_run **out);

/* After the durable commit of the frozen run. Apply actor. */
void mvcc_run_retire(struct mvcc *m, struct mvcc_run *run);

/* Keeps a run that was swapped out alive until it is released, so that its memory (up to run_bytes_max) is freed by the
 * backend thread or a worker and not by mvcc_run_retire(), which would take the apply actor some milliseconds. Any thread that
 * was given the run. */
void mvcc_run_hold(struct mvcc_run *run);
void mvcc_run_release(struct mvcc_run *run);

/* Writes the whole run, consistent_index and term into `tx`; may be repeated in a new transaction. Backend thread.
 * Errors: of the backend. */
int mvcc_run_write(const struct mvcc_run *run, const struct backend *b, struct backend_tx *tx,
                   struct errmsg *em);

/* Of a frozen run, any thread that was given it. */
uint64_t mvcc_run_index(const struct mvcc_run *run); /* of the last seal in it */
uint64_t mvcc_run_term(const struct mvcc_run *run);
bool mvcc_run_is_trivial(const struct mvcc_run *run); /* holds index and term only */

/* The active run holds sealed changes other than index and term. Apply actor. */
bool mvcc_active_is_trivial(const struct mvcc *m);

#endif

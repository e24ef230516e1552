/* Compaction as a job over three threads, and the hashes of the store.
 *
 * A mark (mvcc_write_compact) is only a number until its run is durable. Then a worker lists what goes, portion by
 * portion; the backend thread deletes each portion inside a normal commit, the finished mark goes with the last; then the
 * apply actor prunes the index. One job at a time; marks that come meanwhile are served by the next one together. */
#ifndef MVCC_COMPACT_H
#define MVCC_COMPACT_H

#include "mvcc/view.h"

struct mvcc_compact; /* the job */
struct mvcc_portion; /* rows to delete, owned by one thread at a time */

/* Gives a job when a mark waits whose run is retired, no job is open, and no pin below the mark is left (pins older than
 * READ_PIN_MAX_MS are broken); else `*out` is NULL: ask again after a retirement, the end of a read, or a tick. Apply actor.
 * Errors: E_NOMEM. */
int mvcc_compact_begin(struct mvcc *m, struct mvcc_compact **out);
/* True while a mark has not been worked off (a job may be open). Apply actor. */
bool mvcc_compact_pending(const struct mvcc *m);
/* The revision of the job. */
int64_t mvcc_compact_rev(const struct mvcc_compact *c);

/* Reads on, no more than `rows_max` rows, holding the index lock only for some 64 look-ups at a time. `*portion` is given, or NULL.
 * Returns 1 while there is more, 0 with the last portion (always one, maybe without rows). The job holds no read transaction between calls once it
 * gave a portion. Worker thread. Errors: E_NOMEM, E_CORRUPT, those of the backend: the process ends. */
int mvcc_compact_list(struct mvcc_compact *c, size_t rows_max, struct mvcc_portion **portion,
                      struct errmsg *em);

/* Puts the deletions, and with the last portion finishedCompactRev, into `tx`; may be repeated in another transaction.
 * Backend thread. */
int mvcc_portion_write(const struct mvcc_portion *p, const struct backend *b, struct backend_tx *tx,
                       struct errmsg *em);
size_t mvcc_portion_rows(const struct mvcc_portion *p);
bool mvcc_portion_is_last(const struct mvcc_portion *p);
/* Any thread, after the commit. NULL is allowed. */
void mvcc_portion_free(struct mvcc_portion *p);

/* Prunes the index between entries, looking at no more than `keys_max` keys; the last portion may be still in
 * flight. Returns 1 while there is more, 0 at the end. Apply actor. Errors: E_NOMEM (the step can be repeated). */
int mvcc_compact_prune(struct mvcc_compact *c, size_t keys_max);

/* After the last portion is durable and pruning is done: remembers the hash, frees the job. Apply actor. */
void mvcc_compact_end(struct mvcc_compact *c);
/* Frees the job unfinished, at a stop; the next start resumes it. NULL is allowed. */
void mvcc_compact_abandon(struct mvcc_compact *c);

/* --- hashes: bbolt-format.md 11 --- */

struct mvcc_hash_answer {
    uint32_t hash;
    int64_t compact_rev; /* -1: never */
    int64_t hash_rev;
    int64_t current_rev; /* for the header */
};

/* The search for one member of the keep set: whether that set is empty is part of the rules. */
struct mvcc_keep {
    int64_t rev;
    bool tombs; /* deletions at `rev` count */
    bool known, empty;
    uint8_t *key; /* where to look on */
    size_t key_len, key_cap;
};

/* A resumable HashKV, in the caller's storage, not to be moved. */
struct mvcc_hash {
    struct mvcc_view v;
    struct mvcc_history h;
    struct mvcc_hash_answer answer;
    struct mvcc_keep keep;
    uint32_t crc;
    bool cached;
};

/* `rev` <= 0 is the current revision (a negative one is echoed as hash_rev). Any thread; worker best. Errors: E_COMPACTED, E_FUTURE_REV, E_NOMEM. */
int mvcc_hash_open(struct mvcc *m, int64_t rev, struct mvcc_hash *out);
/* Reads on, no more than `rows_max` rows; 1 while there is more, 0 when `answer` is complete. Errors: E_INTR, E_NOMEM, E_CORRUPT, of the backend. */
int mvcc_hash_step(struct mvcc_hash *h, size_t rows_max, struct errmsg *em);
void mvcc_hash_close(struct mvcc_hash *h);

/* The remembered compaction hashes, newest first; at most MVCC_HASHES_KEPT. Any thread. Returns how many. */
#define MVCC_HASHES_KEPT 10
size_t mvcc_hash_remembered(struct mvcc *m, struct mvcc_hash_answer out[MVCC_HASHES_KEPT]);

/* The Hash of Maintenance.Hash over one read transaction, all tables at once (commit the runs before). Worker. */
int mvcc_hash_all(const struct backend *b, struct backend_read *r, uint32_t *out);

#endif

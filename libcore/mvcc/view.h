/* Reading: views pinned at a revision, ranges over the index, rows, and the history of changes.
 *
 * A view is opened in one order (design.md, "Read view"): pin, test against the compacted revision under the index lock,
 * take the pair of runs, and only then begin the backend's read transaction (when the first row that is not in a run is
 * wanted). A view and what hangs on it belong to one thread at a time; it may be handed over. */
#ifndef MVCC_VIEW_H
#define MVCC_VIEW_H

#include "mvcc/mvcc.h"

struct mvcc_pair;
struct mvcc_pin;

/* In the caller's storage. Fields are read through the functions below. */
struct mvcc_view {
    struct mvcc *m;
    struct mvcc_pin *pin;
    int64_t pin_rev;
    int64_t rev;       /* what it reads */
    int64_t current;   /* published when it was opened: for the header */
    int64_t compacted; /* at the same moment */
    struct mvcc_pair *pair;
    struct backend_read *read; /* NULL until needed, and while suspended */
    bool suspended;
};

/* Opens a view at `rev`; <= 0 is the current revision. Any thread. Errors: E_COMPACTED, E_FUTURE_REV, E_NOMEM. */
int mvcc_view_open(struct mvcc *m, int64_t rev, struct mvcc_view *out);

/* A view for changes from `from` on, up to the current revision (history below `from` may go). Errors: as above. */
int mvcc_view_open_history(struct mvcc *m, int64_t from, struct mvcc_view *out);

/* Inside an entry, apply actor: sees the entry's own changes so far when `rev` <= 0, else the state at `rev`. Its rows stay readable
 * after the seal and on other threads, so a reply can carry it. Errors: as above (current = before the entry). */
int mvcc_view_open_entry(struct mvcc *m, int64_t rev, struct mvcc_view *out);

void mvcc_view_close(struct mvcc_view *v);

/* Across a wait: ends the backend's read transaction and lets the runs go; the pin stays. Spans from mvcc_view_kv() are no longer valid.
 * Errors of resume: E_INTR the pin was older than READ_PIN_MAX_MS and was broken: the answer is to be reset. */
void mvcc_view_suspend(struct mvcc_view *v);
int mvcc_view_resume(struct mvcc_view *v);

/* The stored KeyValue of a row, uncopied; valid until suspend or close. Errors: E_INTR as above; E_CORRUPT the store lacks the row; those of
 * the backend. */
int mvcc_view_kv(struct mvcc_view *v, const struct mvcc_row *row, struct bytes *kv,
                 struct errmsg *em);

/* Splits a KeyValue for keys_only: `*head` is all before the value, `*lease` the field behind it (may be empty).
 * Errors: E_CORRUPT. */
int mvcc_kv_strip(struct bytes kv, struct bytes *head, struct bytes *lease);

/* --- ranges: server-behaviour.md 2 --- */

enum mvcc_sort_order { MVCC_SORT_NONE, MVCC_SORT_ASCEND, MVCC_SORT_DESCEND };
enum mvcc_sort_target {
    MVCC_SORT_KEY,
    MVCC_SORT_VERSION,
    MVCC_SORT_CREATE,
    MVCC_SORT_MOD,
    MVCC_SORT_VALUE
};

struct mvcc_range_opts {
    struct bytes key; /* borrowed until deinit, as is end */
    struct bytes end; /* empty: one key; one zero byte: all keys >= key */
    int64_t limit;    /* <= 0: none */
    enum mvcc_sort_order order;
    enum mvcc_sort_target target;
    int64_t mod_min, mod_max, create_min, create_max; /* inclusive; 0: off */
    bool count_only;                                  /* no rows, only the count */
    bool
        no_count; /* stop behind the limit: count is then that of the keys seen (for RangeStream) */
};

enum mvcc_range_state {
    MVCC_RANGE_WALK,
    MVCC_RANGE_WALKED,
    MVCC_RANGE_VALUES,
    MVCC_RANGE_SORT,
    MVCC_RANGE_DONE
};

/* In the caller's storage. After the end: rows by mvcc_range_row(), `row_count`, `count`, `more`. */
struct mvcc_range {
    struct mvcc_view *v;
    struct mvcc_range_opts o;
    size_t row_count; /* after filter and limit */
    uint64_t count;   /* keys in the range, whatever limit and filters say */
    bool more;        /* the limit cut rows off */
    enum mvcc_range_state state;
    bool reversed, grown;
    size_t fetch_max; /* rows wanted from the walk; SIZE_MAX: all */
    size_t fetched;   /* rows so far */
    struct mvcc_row one;
    struct mvcc_row *rows;
    size_t row_cap;
    struct bytes *values;   /* sort by value: spans into the view */
    uint32_t *perm, *spare; /* sorting: the order of rows, and room to merge */
    size_t perm_cap, width, at;
    uint8_t *resume; /* the key to go on with */
    size_t resume_len, resume_cap;
    bool resumed;
};

/* Borrows `v` until deinit. */
void mvcc_range_init(struct mvcc_range *r, struct mvcc_view *v, const struct mvcc_range_opts *o);

/* Looks at no more than `keys_max` keys (MVCC_SLICE_KEYS is about 100 us), holding the index lock. Returns 1 while there is
 * more to do, 0 at the end. Do not suspend the view midway when sorting by value. Errors: E_NOMEM; E_INTR; those of mvcc_view_kv(). */
int mvcc_range_step(struct mvcc_range *r, size_t keys_max, struct errmsg *em);
void mvcc_range_deinit(struct mvcc_range *r);

/* The i-th row of the answer, i < row_count. */
const struct mvcc_row *mvcc_range_row(const struct mvcc_range *r, size_t i);

#define MVCC_SLICE_KEYS 512

/* One key, without any allocation. Errors: E_NOTFOUND; E_INTR. */
int mvcc_view_get(struct mvcc_view *v, struct bytes key, struct mvcc_row *out);

/* --- history: every change of [from, to] in order, whichever of backend and runs has it --- */

struct mvcc_change {
    int64_t main;
    uint32_t sub;
    bool deletion;
    struct bytes kv; /* valid until the view is suspended or closed */
};

struct mvcc_history {
    struct mvcc_view *v;
    int64_t from, to;
    struct backend_cursor *cursor;
    int stage;
    size_t at;
    bool positioned;
};

/* Borrows `v` until deinit; `to` is at most v->rev. */
void mvcc_history_init(struct mvcc_history *h, struct mvcc_view *v, int64_t from, int64_t to);
/* Errors: E_NOTFOUND behind the last; E_INTR; E_CORRUPT; those of the backend. */
int mvcc_history_next(struct mvcc_history *h, struct mvcc_change *out, struct errmsg *em);
/* Closes the cursor; call it before suspend, then init again from the next revision. */
void mvcc_history_deinit(struct mvcc_history *h);

#endif

/* Runs and the pair of them, inside the folder (mvcc_run.c). */
#ifndef MVCC_MVCC_RUN_INT_H
#define MVCC_MVCC_RUN_INT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "env/backend.h"

enum { RUN_SEG_ROWS_MIN = 64, RUN_SEGS = 26 };

struct mvcc_run_row {
    const uint8_t *kv;
    int64_t main;
    uint32_t sub : 31;
    uint32_t tomb : 1;
    uint32_t kv_len;
};

struct mvcc_run_op {
    const uint8_t *data; /* key, then value */
    uint32_t key_len;
    uint32_t value_len;
    enum table table;
    bool del;
};

struct mvcc_chunk;

struct mvcc_run {
    atomic_uint refs;
    const struct alloc *alloc;
    uint64_t seq;             /* counts runs from 1 */
    _Atomic size_t row_count; /* rows below it are complete */
    size_t op_count;
    size_t sealed_rows, sealed_ops;
    size_t bytes;         /* handed out, with row descriptors */
    uint64_t index, term; /* of the last seal */
    bool sealed;          /* there was one */
    struct mvcc_chunk *chunks;
    uint8_t *room, *room_end;
    struct mvcc_run_row *row_segs[RUN_SEGS]; /* segment k has RUN_SEG_ROWS_MIN << k */
    struct mvcc_run_op *op_segs[RUN_SEGS];
};

/* The two runs that readers look into; immutable. */
struct mvcc_pair {
    atomic_uint refs;
    const struct alloc *alloc;
    struct mvcc_run *active;
    struct mvcc_run *frozen; /* or NULL */
};

struct mvcc_run *mvcc__run_new(const struct alloc *a, uint64_t seq);
void mvcc__run_unref(struct mvcc_run *r);
/* Appends a row whose KeyValue has `kv_len` bytes; the caller fills `*kv` before mvcc__run_publish(). Errors: E_NOMEM. */
int mvcc__run_row(struct mvcc_run *r, int64_t main, uint32_t sub, bool tomb, size_t kv_len,
                  uint8_t **kv);
void mvcc__run_publish(struct mvcc_run *r);
int mvcc__run_op(struct mvcc_run *r, enum table t, bool del, struct bytes key, struct bytes value);
const struct mvcc_run_row *mvcc__run_at(const struct mvcc_run *r, size_t i);
/* How many of the first `n` rows are below (main, sub). */
size_t mvcc__run_lower(const struct mvcc_run *r, size_t n, int64_t main, uint32_t sub);

struct mvcc_pair *mvcc__pair_new(const struct alloc *a, struct mvcc_run *active,
                                 struct mvcc_run *frozen);
struct mvcc_pair *mvcc__pair_ref(struct mvcc_pair *p);
void mvcc__pair_unref(struct mvcc_pair *p);
/* The row (main, sub), no deletion, if one of the runs has it. */
bool mvcc__pair_find(const struct mvcc_pair *p, int64_t main, uint32_t sub, struct bytes *kv);

#endif

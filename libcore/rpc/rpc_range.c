/* Range: from a view to an answer.
 *
 * The index is walked in slices between which other requests of this thread are served. A small answer is made in one
 * piece. A large one is a source: pass one has added up the length of its rows, pass two copies them out frame by frame
 * as the client makes room, and holds no read transaction while it waits. */
#include "rpc/rpc_int.h"

#include "apply/check.h"
#include "base/assert.h"
#include "etcdserverpb.pb-c.h"

enum {
    ONE_PIECE_BYTES_MAX = 48 *
                          1024, /* below it an answer is copied, which is cheaper than a source */
    ONE_PIECE_ROWS_MAX = 64, /* so many are not measured first: with them it mostly is one piece */
    ROWS_PER_SLICE = 256     /* rows measured before other requests have their turn */
};

/* Fields of RangeResponse. */
enum { FIELD_KVS = 2, FIELD_MORE = 3, FIELD_COUNT = 4 };

struct emit {
    struct rpc_range *r;
    struct rpc_thread *t;
    size_t at;         /* next row to measure or to send */
    uint64_t kv_bytes; /* of all kvs fields */
    size_t row_at;     /* bytes of the present row that were sent */
    uint8_t head[RPC_HEADER_BYTES_MAX + 8];
    uint8_t tail[32];
    size_t head_len, head_at;
    size_t tail_len, tail_at;
};

/* --- the request --------------------------------------------------------------------------------- */

static void to_opts(const Etcdserverpb__RangeRequest *q, struct mvcc_range_opts *o)
{
    *o = (struct mvcc_range_opts){.limit = q->limit,
                                  .order = (enum mvcc_sort_order)q->sort_order,
                                  .target = (enum mvcc_sort_target)q->sort_target,
                                  .mod_min = q->min_mod_revision,
                                  .mod_max = q->max_mod_revision,
                                  .create_min = q->min_create_revision,
                                  .create_max = q->max_create_revision,
                                  .count_only = q->count_only};
}

struct rpc_range *rpc__range_new(struct rpc_call *c, struct bytes msg, bool stream)
{
    Etcdserverpb__RangeRequest *q = rpc__unpack(c, &etcdserverpb__range_request__descriptor, msg);
    if (q == NULL) return NULL;
    int rc = stream ? apply_check_range_stream(q) : apply_check_range(q);
    size_t bytes = sizeof(struct rpc_range) + q->key.len + q->range_end.len;
    struct rpc_range *r = rc == 0 ? grpc_pool_get(c->t->pool, bytes) : NULL;
    if (r == NULL) {
        rpc__fail(c, rc == 0 ? E_NOMEM : rc);
        return NULL;
    }
    memset(r, 0, sizeof *r);
    r->bytes = bytes;
    uint8_t *room = (uint8_t *)(r + 1);
    to_opts(q, &r->opts);
    if (q->key.len > 0) memcpy(room, q->key.data, q->key.len);
    if (q->range_end.len > 0) memcpy(room + q->key.len, q->range_end.data, q->range_end.len);
    r->opts.key = bytes_of(room, q->key.len);
    r->opts.end = bytes_of(room + q->key.len, q->range_end.len);
    r->revision = q->revision;
    r->serializable = q->serializable;
    r->keys_only = q->keys_only;
    r->count_only = q->count_only;
    return r;
}

void rpc__range_free(struct rpc_thread *t, struct rpc_range *r)
{
    if (r == NULL) return;
    if (r->has_range) mvcc_range_deinit(&r->range);
    if (r->has_view) mvcc_view_close(&r->view);
    grpc_pool_put(t->pool, r, r->bytes);
}

/* --- the view -------------------------------------------------------------------------------------- */

static void after_round(struct rpc_call *c)
{
    int rc = c->job.wait.rc;
    if (rc == 0) rc = mvcc_view_open(c->t->member->mvcc, c->read.rev, c->read.view);
    if (rc < 0) {
        rpc__fail(c, rc);
    } else {
        c->read.go(c);
    }
}

void rpc__open_view(struct rpc_call *c, struct mvcc_view *v, int64_t rev, bool serializable,
                    void (*go)(struct rpc_call *c))
{
    const struct rpc_member *m = c->t->member;
    int rc = mvcc_view_open(m->mvcc, rev, v);
    bool opened = rc == 0;
    if (serializable || m->reads_alone(m->arg)) {
        if (opened) {
            go(c);
        } else {
            rpc__fail(c, rc);
        }
        return;
    }
    if (opened) mvcc_view_close(v);
    c->read.view = v;
    c->read.rev = rev;
    c->read.go = go;
    rpc__ask(c, RPC_ASK_READ, NULL, m->next_request_id(m->arg), after_round);
}

struct bytes rpc__kv_shown(struct bytes kv, bool keys_only, enum mvcc_sort_target target,
                           struct bytes *lease)
{
    *lease = BYTES_EMPTY;
    if (!keys_only) return kv;
    struct bytes head = BYTES_EMPTY;
    struct bytes tail = BYTES_EMPTY;
    if (mvcc_kv_strip(kv, &head, &tail) < 0) return kv;
    if (target == MVCC_SORT_VALUE) *lease = tail;
    return head;
}

/* --- pass one: how long ------------------------------------------------------------------------- */

static int row_bytes(struct emit *e, size_t i, struct bytes *head, struct bytes *lease)
{
    struct bytes kv = BYTES_EMPTY;
    struct errmsg em = {""};
    int rc = mvcc_view_kv(&e->r->view, mvcc_range_row(&e->r->range, i), &kv, &em);
    if (rc == 0) *head = rpc__kv_shown(kv, e->r->keys_only, e->r->opts.target, lease);
    return rc;
}

static void make_ends(struct emit *e)
{
    struct rpc_header h = rpc__header(e->t, e->r->view.current);
    uint8_t *at = pb_write_len(e->head, 1, rpc__header_size(&h));
    e->head_len = (size_t)(rpc__header_write(&h, at) - e->head);
    at = e->tail;
    if (e->r->range.more) at = pb_write_uint(at, FIELD_MORE, 1);
    if (e->r->range.count != 0) at = pb_write_uint(at, FIELD_COUNT, e->r->range.count);
    e->tail_len = (size_t)(at - e->tail);
}

/* Makes the whole answer in the thread's buffer. 1 when it is larger than one piece may be. */
static int make_one_piece(struct rpc_call *c, struct emit *e)
{
    struct buf *out = &c->t->out;
    buf_reset(out);
    int rc = buf_put(out, e->head, e->head_len);
    for (size_t i = 0; i < e->r->range.row_count && rc == 0; i++) {
        struct bytes head = BYTES_EMPTY;
        struct bytes lease = BYTES_EMPTY;
        rc = row_bytes(e, i, &head, &lease);
        if (rc == 0 && out->len + head.len + lease.len > ONE_PIECE_BYTES_MAX) return 1;
        if (rc == 0) rc = pb_put_len(out, FIELD_KVS, head.len + lease.len);
        if (rc == 0) rc = buf_put_bytes(out, head);
        if (rc == 0) rc = buf_put_bytes(out, lease);
    }
    if (rc == 0) rc = buf_put(out, e->tail, e->tail_len);
    return rc;
}

/* --- pass two: a source -------------------------------------------------------------------------- */

static size_t take(uint8_t *out, size_t cap, const uint8_t *data, size_t len, size_t *at)
{
    size_t n = len - *at < cap ? len - *at : cap;
    if (n > 0) memcpy(out, data + *at, n);
    *at += n;
    return n;
}

/* Copies what fits of the present row: its tag and length, the row, the kept lease. */
static int pull_row(struct emit *e, uint8_t *out, size_t cap, size_t *used)
{
    struct bytes head = BYTES_EMPTY;
    struct bytes lease = BYTES_EMPTY;
    int rc = row_bytes(e, e->at, &head, &lease);
    if (rc < 0) return rc;
    uint8_t prefix[1 + PB_VARINT_BYTES_MAX];
    size_t prefix_len = (size_t)(pb_write_len(prefix, FIELD_KVS, head.len + lease.len) - prefix);
    const struct bytes parts[] = {bytes_of(prefix, prefix_len), head, lease};
    size_t skip = e->row_at;
    size_t total = prefix_len + head.len + lease.len;
    for (size_t i = 0; i < 3 && *used < cap; i++) {
        size_t at = skip < parts[i].len ? skip : parts[i].len;
        skip -= at;
        size_t n = take(out + *used, cap - *used, parts[i].data, parts[i].len, &at);
        *used += n;
        e->row_at += n;
    }
    if (e->row_at == total) {
        e->row_at = 0;
        e->at++;
    }
    return 0;
}

static int source_pull(void *arg, uint8_t *out, size_t cap)
{
    struct emit *e = arg;
    size_t used = take(out, cap, e->head, e->head_len, &e->head_at);
    int rc = mvcc_view_resume(&e->r->view);
    while (rc == 0 && used < cap && e->at < e->r->range.row_count)
        rc = pull_row(e, out, cap, &used);
    mvcc_view_suspend(&e->r->view);
    if (rc < 0) return rc;
    used += take(out + used, cap - used, e->tail, e->tail_len, &e->tail_at);
    return (int)used;
}

static void source_release(void *arg)
{
    struct emit *e = arg;
    struct rpc_thread *t = e->t;
    rpc__range_free(t, e->r);
    grpc_pool_put(t->pool, e, sizeof *e);
}

static void send_source(struct rpc_call *c, struct emit *measured)
{
    uint64_t len = measured->head_len + measured->kv_bytes + measured->tail_len;
    struct emit *e = len <= UINT32_MAX ? grpc_pool_get(c->t->pool, sizeof *e) : NULL;
    if (e == NULL) {
        rpc__fail(c, len <= UINT32_MAX ? E_NOMEM : E_TOOBIG);
        return;
    }
    *e = *measured;
    e->at = 0;
    mvcc_view_suspend(&e->r->view);
    c->state = NULL; /* the source owns it from here on */
    rpc__output(c);
    struct grpc_source source = {
        .len = len, .pull = source_pull, .release = source_release, .arg = e};
    int rc = grpc_call_send_source(c->call, &source);
    if (rc == 0) rpc__count_sent(c, len);
    if (rc < 0) source_release(e);
    rpc__finish(c, rc);
}

/* --- the steps of a Range -------------------------------------------------------------------------- */

struct range_call {
    struct rpc_range *r;
    struct emit emit;
};

/* Answers in one piece; false, with nothing done, when it is too large for that. */
static bool reply_one_piece(struct rpc_call *c, struct emit *e)
{
    int rc = make_one_piece(c, e);
    if (rc > 0) return false;
    if (rc < 0) {
        rpc__fail(c, rc);
    } else {
        rpc__reply(c, buf_bytes(&c->t->out));
    }
    return true;
}

static void measure(struct rpc_call *c)
{
    struct range_call *s = c->state;
    struct emit *e = &s->emit;
    size_t end = e->at + ROWS_PER_SLICE;
    if (end > s->r->range.row_count) end = s->r->range.row_count;
    for (; e->at < end; e->at++) {
        struct bytes head = BYTES_EMPTY;
        struct bytes lease = BYTES_EMPTY;
        int rc = row_bytes(e, e->at, &head, &lease);
        if (rc < 0) {
            rpc__fail(c, rc);
            return;
        }
        e->kv_bytes += pb_len_size(FIELD_KVS, head.len + lease.len);
    }
    if (e->at < s->r->range.row_count) {
        rpc__yield(c, measure);
        return;
    }
    if (e->kv_bytes > ONE_PIECE_BYTES_MAX || !reply_one_piece(c, e)) {
        struct emit measured = *e;
        struct rpc_thread *t = c->t;
        s->r = NULL;
        grpc_pool_put(t->pool, s, sizeof *s);
        c->state = NULL;
        send_source(c, &measured);
    }
}

static void walk(struct rpc_call *c)
{
    struct range_call *s = c->state;
    struct errmsg em = {""};
    int rc = mvcc_range_step(&s->r->range, MVCC_SLICE_KEYS, &em);
    if (rc > 0) {
        rpc__yield(c, walk);
    } else if (rc < 0) {
        rpc__fail(c, rc);
    } else {
        s->emit = (struct emit){.r = s->r, .t = c->t};
        make_ends(&s->emit);
        bool few = s->r->range.row_count <= ONE_PIECE_ROWS_MAX;
        if (!few || !reply_one_piece(c, &s->emit)) measure(c);
    }
}

static void begin_walk(struct rpc_call *c)
{
    struct range_call *s = c->state;
    s->r->has_view = true;
    mvcc_range_init(&s->r->range, &s->r->view, &s->r->opts);
    s->r->has_range = true;
    walk(c);
}

void rpc__kv_range(struct rpc_call *c, struct bytes msg)
{
    struct rpc_range *r = rpc__range_new(c, msg, false);
    if (r == NULL) return;
    struct range_call *s = grpc_pool_get(c->t->pool, sizeof *s);
    if (s == NULL) {
        rpc__range_free(c->t, r);
        rpc__fail(c, E_NOMEM);
        return;
    }
    *s = (struct range_call){.r = r};
    c->state = s;
    rpc__open_view(c, &r->view, r->revision, r->serializable, begin_walk);
}

void rpc__range_drop(struct rpc_call *c)
{
    struct range_call *s = c->state;
    if (s == NULL) return;
    rpc__range_free(c->t, s->r);
    grpc_pool_put(c->t->pool, s, sizeof *s);
}

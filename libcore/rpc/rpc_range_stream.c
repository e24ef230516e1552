/* RangeStream: the rows of a range in chunks, all at the revision of the first.
 *
 * The first chunk has 10 rows; the next is doubled when a chunk weighed less than half of --max-request-bytes, and halved
 * when it weighed more than twice that. All but the last hold rows only; the last has header, more and count. Each
 * chunk opens a view of its own, so a slow reader pins nothing; when a compaction passes by, the stream ends with
 * Compacted. */
#include "rpc/rpc_int.h"

#include "base/assert.h"
#include "pb/kv.h"

enum { FIRST_CHUNK_ROWS = 10, FIELD_RESPONSE = 1, FIELD_KVS = 2, FIELD_MORE = 3, FIELD_COUNT = 4 };

struct stream {
    struct rpc_range *r;
    int64_t limit;   /* of the whole stream; 0: none */
    int64_t sent;    /* rows */
    int64_t header;  /* revision of the last message's header */
    int64_t chunk;   /* rows of the present chunk; <= 0: all */
    uint64_t beyond; /* keys behind the last row, when the limit cut */
    bool more;
    bool counting;   /* the present walk counts what is beyond */
    struct buf body; /* rows of the present chunk, encoded */
    struct buf next; /* key to go on with */
};

static void walk(struct rpc_call *c);

void rpc__range_stream_drop(struct rpc_call *c)
{
    struct stream *s = c->state;
    if (s == NULL) return;
    rpc__range_free(c->t, s->r);
    buf_deinit(&s->body);
    buf_deinit(&s->next);
    grpc_pool_put(c->t->pool, s, sizeof *s);
}

/* --- sending --------------------------------------------------------------------------------------- */

/* The message is header, rows, more, count in this order of fields; the pieces are sent without joining them. */
static int send_message(struct rpc_call *c, struct bytes head, struct bytes tail)
{
    struct stream *s = c->state;
    uint8_t prefix[1 + PB_VARINT_BYTES_MAX];
    size_t len = head.len + s->body.len + tail.len;
    const struct grpc_part parts[] = {
        {bytes_of(prefix, (size_t)(pb_write_len(prefix, FIELD_RESPONSE, len) - prefix)), NULL},
        {head, NULL},
        {buf_bytes(&s->body), NULL},
        {tail, NULL}};
    rpc__output(c);
    int rc = grpc_call_send_parts(c->call, parts, sizeof parts / sizeof *parts);
    if (rc == 0) rpc__count_sent(c, parts[0].bytes.len + len);
    return rc;
}

static void send_last(struct rpc_call *c)
{
    struct stream *s = c->state;
    struct rpc_header h = rpc__header(c->t, s->header);
    uint8_t head[RPC_HEADER_BYTES_MAX + 8];
    uint8_t tail[32];
    uint64_t count = (uint64_t)s->sent + s->beyond;
    uint8_t *at = rpc__header_write(&h, pb_write_len(head, 1, rpc__header_size(&h)));
    uint8_t *end = tail;
    if (s->more) end = pb_write_uint(end, FIELD_MORE, 1);
    if (count != 0) end = pb_write_uint(end, FIELD_COUNT, count);
    int rc =
        send_message(c, bytes_of(head, (size_t)(at - head)), bytes_of(tail, (size_t)(end - tail)));
    rpc__finish(c, rc);
}

/* --- the next walk ---------------------------------------------------------------------------------- */

static int open_next(struct rpc_call *c)
{
    struct stream *s = c->state;
    struct rpc_range *r = s->r;
    int rc = mvcc_view_open(c->t->member->mvcc, r->revision, &r->view);
    if (rc < 0) return rc;
    r->has_view = true;
    r->opts.key = buf_bytes(&s->next);
    return 0;
}

static void begin_walk(struct rpc_call *c)
{
    struct stream *s = c->state;
    struct rpc_range *r = s->r;
    r->opts.limit = s->counting || s->chunk < 0 ? 0 : s->chunk;
    r->opts.count_only = s->counting || r->count_only;
    r->opts.no_count = !r->opts.count_only;
    mvcc_range_init(&r->range, &r->view, &r->opts);
    r->has_range = true;
    walk(c);
}

static void end_walk(struct rpc_range *r)
{
    mvcc_range_deinit(&r->range);
    mvcc_view_close(&r->view);
    r->has_range = false;
    r->has_view = false;
}

static void next_chunk(struct rpc_call *c)
{
    int rc = open_next(c);
    if (rc < 0) {
        rpc__fail(c, rc);
    } else {
        begin_walk(c);
    }
}

/* --- one chunk --------------------------------------------------------------------------------------- */

static int encode_rows(struct stream *s)
{
    struct rpc_range *r = s->r;
    struct errmsg em = {""};
    struct bytes kv = BYTES_EMPTY;
    int rc = 0;
    for (size_t i = 0; i < r->range.row_count && rc == 0; i++) {
        struct bytes lease = BYTES_EMPTY;
        rc = mvcc_view_kv(&r->view, mvcc_range_row(&r->range, i), &kv, &em);
        if (rc < 0) return rc;
        struct bytes head = rpc__kv_shown(kv, r->keys_only, MVCC_SORT_KEY, &lease);
        rc = pb_put_bytes(&s->body, FIELD_KVS, head);
    }
    if (rc < 0 || r->range.row_count == 0) return rc;
    struct pb_kv last;
    rc = pb_kv_decode(kv, &last);
    buf_reset(&s->next);
    if (rc == 0) rc = buf_put_bytes(&s->next, last.key);
    return rc == 0 ? buf_put_u8(&s->next, 0) : rc; /* the least key behind the last */
}

static void adjust_chunk(struct rpc_call *c)
{
    struct stream *s = c->state;
    size_t target = c->t->member->request_bytes_max;
    if (s->body.len < target / 2) s->chunk *= 2;
    if (s->body.len > target * 2) s->chunk /= 2;
    if (s->chunk == 0) s->chunk = 1;
    if (s->limit > 0 && s->chunk > s->limit - s->sent) s->chunk = s->limit - s->sent;
}

static void chunk_done(struct rpc_call *c)
{
    struct stream *s = c->state;
    if (s->r->count_only) s->beyond = s->r->range.count;
    int rc = s->r->count_only ? 0 : encode_rows(s);
    s->sent += (int64_t)s->r->range.row_count;
    s->more = s->r->range.more;
    end_walk(s->r);
    bool cut = s->more && s->limit > 0 && s->sent == s->limit;
    if (rc == 0 && s->more && !cut) {
        rc = send_message(c, BYTES_EMPTY, BYTES_EMPTY);
        adjust_chunk(c);
        buf_reset(&s->body);
    }
    if (rc < 0) {
        rpc__fail(c, rc);
    } else if (!s->more) {
        send_last(c);
    } else if (cut) {
        s->counting = true;
        next_chunk(c);
    } else if (grpc_call_writable(c->call)) {
        rpc__yield(c, next_chunk);
    } else {
        c->on_writable = next_chunk;
    }
}

static void walk(struct rpc_call *c)
{
    struct stream *s = c->state;
    struct errmsg em = {""};
    int rc = mvcc_range_step(&s->r->range, MVCC_SLICE_KEYS, &em);
    if (rc > 0) {
        rpc__yield(c, walk);
    } else if (rc < 0) {
        rpc__fail(c, rc);
    } else if (s->counting) {
        s->beyond = s->r->range.count;
        send_last(c);
    } else {
        chunk_done(c);
    }
}

static void first_view(struct rpc_call *c)
{
    struct stream *s = c->state;
    s->r->has_view = true;
    s->header = s->r->view.current;
    if (s->r->revision == 0) s->r->revision = s->r->view.rev; /* a negative one is not pinned */
    begin_walk(c);
}

void rpc__kv_range_stream(struct rpc_call *c, struct bytes msg)
{
    struct rpc_range *r = rpc__range_new(c, msg, true);
    if (r == NULL) return;
    struct stream *s = grpc_pool_get(c->t->pool, sizeof *s);
    if (s == NULL) {
        rpc__range_free(c->t, r);
        rpc__fail(c, E_NOMEM);
        return;
    }
    *s = (struct stream){.r = r, .limit = r->opts.limit};
    s->chunk = s->limit < 0                                  ? -1
               : s->limit > 0 && s->limit < FIRST_CHUNK_ROWS ? s->limit
                                                             : FIRST_CHUNK_ROWS;
    buf_init(&s->body, c->t->alloc, INT32_MAX);
    buf_init(&s->next, c->t->alloc, INT32_MAX);
    c->state = s;
    rpc__open_view(c, &r->view, r->revision, r->serializable, first_view);
}

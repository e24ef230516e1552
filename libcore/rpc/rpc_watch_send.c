/* WatchResponses: their bytes, fragments, and the room they need.
 *
 * Events arrive as finished pieces; a response is a head and those pieces, neighbours joined, shared with all
 * who get the same. Fragments beyond what the stream takes at once are kept as finished messages. */
#include "base/assert.h"
#include "rpc/rpc_watch_int.h"

#include "base/limits.h"

enum {
    FIELD_HEADER = 1,
    FIELD_WATCH_ID = 2,
    FIELD_CREATED = 3,
    FIELD_CANCELED = 4,
    FIELD_COMPACT_REVISION = 5,
    FIELD_CANCEL_REASON = 6,
    FIELD_FRAGMENT = 7,
    PARTS_FIRST = 16,
    PARTS_KEPT = 1024
};

static void on_room(struct rpc_call *c)
{
    struct watch_call *s = c->state;
    s->held = false;
    rpc__watch_send_rests(s);
    if (!rpc__watch_room(s)) return;
    watch_stream_wake(&s->stream);
    rpc__watch_kick(c->t->watch);
    grpc_call_release(c->call); /* may end the call */
}

bool rpc__watch_room(struct watch_call *s)
{
    struct rpc_call *c = s->c;
    if (c->call == NULL) return false;
    if (s->held) return false;
    if (grpc_call_writable(c->call) && list_empty(&s->rests)) return true;
    s->held = true;
    grpc_call_hold(c->call);
    c->on_writable = on_room;
    return false;
}

/* --- the head ------------------------------------------------------------------------------------ */

static uint8_t *flag(uint8_t *at, uint32_t field, bool value)
{
    return value ? pb_write_uint(at, field, 1) : at;
}

static struct bytes head_bytes(const struct watch_call *s, const struct watch_head *h, uint8_t *out)
{
    struct rpc_header header = s->c->t->watch->header;
    header.revision = h->revision;
    uint8_t *at = pb_write_len(out, FIELD_HEADER, rpc__header_size(&header));
    at = rpc__header_write(&header, at);
    if (h->id != 0) at = pb_write_uint(at, FIELD_WATCH_ID, (uint64_t)h->id);
    at = flag(at, FIELD_CREATED, h->created);
    at = flag(at, FIELD_CANCELED, h->canceled);
    if (h->compact_revision != 0)
        at = pb_write_uint(at, FIELD_COMPACT_REVISION, (uint64_t)h->compact_revision);
    if (h->reason != NULL) at = pb_write_bytes(at, FIELD_CANCEL_REASON, bytes_str(h->reason));
    at = flag(at, FIELD_FRAGMENT, h->fragment);
    ASSERT(at <= out + WATCH_HEAD_BYTES_MAX);
    return bytes_of(out, (size_t)(at - out));
}

int rpc__watch_say(struct watch_call *s, const struct watch_head *h)
{
    uint8_t room[WATCH_HEAD_BYTES_MAX];
    struct bytes msg = head_bytes(s, h, room);
    rpc__output(s->c);
    int rc = grpc_call_send(s->c->call, msg);
    if (rc == 0) rpc__count_sent(s->c, msg.len);
    (void)rpc__watch_room(s);
    return rc;
}

/* --- fragments ----------------------------------------------------------------------------------- */

void rpc__watch_drop_rests(struct watch_call *s)
{
    struct list *at = NULL;
    while ((at = list_pop_front(&s->rests)) != NULL) {
        struct watch_rest *r = LIST_OBJECT(at, struct watch_rest, link);
        rcbuf_unref(r->msg);
        alloc_free(s->c->t->alloc, r, sizeof *r);
    }
}

void rpc__watch_send_rests(struct watch_call *s)
{
    while (!list_empty(&s->rests) && grpc_call_writable(s->c->call)) {
        struct watch_rest *r = LIST_OBJECT(s->rests.next, struct watch_rest, link);
        const struct grpc_part part = {rcbuf_bytes(r->msg), r->msg};
        rpc__output(s->c);
        if (grpc_call_send_parts(s->c->call, &part, 1) < 0) return;
        rpc__count_sent(s->c, part.bytes.len);
        list_remove(&r->link);
        rcbuf_unref(r->msg);
        alloc_free(s->c->t->alloc, r, sizeof *r);
    }
}

/* How many of the pieces fit below the limit; at least one. */
static size_t fragment_pieces(const struct watch_piece *pieces, size_t count, size_t head,
                              size_t max, size_t *bytes)
{
    size_t n = 0;
    *bytes = 0;
    while (n < count && (n == 0 || head + *bytes + pieces[n].bytes.len < max))
        *bytes += pieces[n++].bytes.len;
    return n;
}

static int push_rest(struct watch_call *s, struct list *list, struct bytes head,
                     const struct watch_piece *pieces, size_t count, size_t bytes)
{
    const struct alloc *a = s->c->t->alloc;
    struct watch_rest *r = alloc_zero(a, sizeof *r);
    struct rcbuf *msg = r == NULL ? NULL : rcbuf_new(a, head.len + bytes);
    if (msg == NULL) {
        alloc_free(a, r, sizeof *r);
        return E_NOMEM;
    }
    memcpy(msg->data, head.data, head.len);
    uint8_t *at = msg->data + head.len;
    for (size_t i = 0; i < count; i++) {
        memcpy(at, pieces[i].bytes.data, pieces[i].bytes.len);
        at += pieces[i].bytes.len;
    }
    r->msg = msg;
    list_push_back(list, &r->link);
    return 0;
}

/* All fragments are made before the first is sent, so that memory may only be short for the whole. */
static int send_fragments(struct watch_call *s, struct watch_head *h, const struct watch_out *out,
                          size_t max)
{
    uint8_t room[WATCH_HEAD_BYTES_MAX];
    int rc = 0;
    ASSERT(list_empty(&s->rests));
    for (size_t i = 0; i < out->count && rc == 0;) {
        size_t bytes = 0;
        h->fragment = true;
        struct bytes head = head_bytes(s, h, room);
        size_t n = fragment_pieces(out->pieces + i, out->count - i, head.len, max, &bytes);
        h->fragment = i + n < out->count;
        head = head_bytes(s, h, room);
        rc = push_rest(s, &s->rests, head, out->pieces + i, n, bytes);
        i += n;
    }
    if (rc < 0) {
        rpc__watch_drop_rests(s);
        return rc;
    }
    rpc__watch_send_rests(s);
    return 0;
}

/* --- events -------------------------------------------------------------------------------------- */

static int reserve_parts(struct rpc_watch *rw, size_t count)
{
    if (count <= rw->part_cap) return 0;
    const struct alloc *a = rw->t->alloc;
    size_t cap = count < PARTS_FIRST ? PARTS_FIRST : count;
    struct grpc_part *grown =
        a->resize(a->arg, rw->parts, rw->part_cap * sizeof *grown, cap * sizeof *grown);
    if (grown == NULL) return E_NOMEM;
    rw->parts = grown;
    rw->part_cap = cap;
    return 0;
}

static void trim_parts(struct rpc_watch *rw)
{
    if (rw->part_cap <= PARTS_KEPT) return;
    alloc_free(rw->t->alloc, rw->parts, rw->part_cap * sizeof *rw->parts);
    rw->parts = NULL;
    rw->part_cap = 0;
}

static bool adjoins(const struct grpc_part *p, const struct watch_piece *next)
{
    return p->shared == next->shared && p->bytes.data + p->bytes.len == next->bytes.data;
}

/* Head and pieces as parts; neighbours in memory are one part. Returns how many. */
static size_t join_parts(struct rpc_watch *rw, struct bytes head, const struct watch_out *out)
{
    size_t n = 1;
    rw->parts[0] = (struct grpc_part){head, NULL};
    for (size_t i = 0; i < out->count; i++) {
        if (n > 1 && adjoins(&rw->parts[n - 1], &out->pieces[i])) {
            rw->parts[n - 1].bytes.len += out->pieces[i].bytes.len;
        } else {
            rw->parts[n++] = (struct grpc_part){out->pieces[i].bytes, out->pieces[i].shared};
        }
    }
    return n;
}

static size_t pieces_bytes(const struct watch_out *out)
{
    size_t n = 0;
    for (size_t i = 0; i < out->count; i++)
        n += out->pieces[i].bytes.len;
    return n;
}

static struct watch_call *call_of(const struct watch_watcher *w)
{
    return (struct watch_call *)(void *)w->stream;
}

static int sink_events(void *arg, struct watch_watcher *watcher, const struct watch_out *out)
{
    struct rpc_watch *rw = arg;
    struct watch_call *s = call_of(watcher);
    struct rpc_watcher *w = (struct rpc_watcher *)(void *)watcher;
    struct watch_head h = {.revision = out->revision, .id = w->id};
    uint8_t room[WATCH_HEAD_BYTES_MAX];
    struct bytes head = head_bytes(s, &h, room);
    size_t max = (size_t)rw->t->member->request_bytes_max + GRPC_OVERHEAD_BYTES;
    int rc = 0;
    rpc__output(s->c);
    if (w->fragment && out->count > 1 && head.len + pieces_bytes(out) >= max) {
        rc = send_fragments(s, &h, out, max);
    } else {
        rc = reserve_parts(rw, out->count + 1);
        if (rc == 0) rc = grpc_call_send_parts(s->c->call, rw->parts, join_parts(rw, head, out));
        if (rc == 0) rpc__count_sent(s->c, head.len + pieces_bytes(out));
        trim_parts(rw);
    }
    if (rc == 0) {
        w->silent = false;
        atomic_fetch_add_explicit(&rw->counts.events, out->count, memory_order_relaxed);
    }
    (void)rpc__watch_room(s);
    return rc;
}

/* --- the rest of the sink ------------------------------------------------------------------------ */

static bool sink_writable(void *arg, struct watch_stream *stream)
{
    (void)arg;
    return rpc__watch_room((struct watch_call *)(void *)stream);
}

static int sink_overtaken(void *arg, struct watch_watcher *watcher, int64_t compacted)
{
    (void)arg;
    const struct rpc_watcher *w = (struct rpc_watcher *)(void *)watcher;
    return rpc__watch_say(
        call_of(watcher),
        &(struct watch_head){.id = w->id, .canceled = true, .compact_revision = compacted});
}

static int sink_progress(void *arg, struct watch_stream *stream, int64_t rev)
{
    (void)arg;
    return rpc__watch_say((struct watch_call *)(void *)stream,
                          &(struct watch_head){.revision = rev, .id = -1});
}

static void sink_failed(void *arg, struct watch_watcher *watcher, int rc)
{
    struct rpc_watch *rw = arg;
    struct watch_call *s = call_of(watcher);
    s->fail_rc = rc;
    list_remove(&s->failing);
    list_push_back(&rw->failing, &s->failing);
}

struct watch_sink rpc__watch_sink(struct rpc_watch *rw)
{
    return (struct watch_sink){.arg = rw,
                               .writable = sink_writable,
                               .events = sink_events,
                               .overtaken = sink_overtaken,
                               .progress = sink_progress,
                               .failed = sink_failed};
}

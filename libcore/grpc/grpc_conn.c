/* The server's side of one connection: an nghttp2 session, what goes in and what comes out.
 *
 * nghttp2 does framing, HPACK, stream states and flow control accounting; everything that gRPC or upstream's
 * server adds stands in the files beside this one. Rejected: nghttp2's automatic window updates (the
 * windows are our back-pressure) and its own limit of concurrent streams (it answers the excess
 * with a connection error once the SETTINGS are acknowledged, upstream refuses the stream). */
#include "grpc/grpc_conn_int.h"

#include "base/assert.h"
#include "base/endian.h"

enum {
    FRAME_HEAD_BYTES = 9,
    GOAWAY_CODE_AT = FRAME_HEAD_BYTES + 4,
    MAX_FRAME_BYTES = 16384,
    HEADER_BYTES_DEFAULT = 128 * 1024
};

#define SECOND_NS 1000000000ULL

struct grpc_conn_opts grpc_conn_opts_default(void)
{
    return (struct grpc_conn_opts){
        .recv_bytes_max = 1572864 + 524288,
        .streams_max = UINT32_MAX,
        .header_bytes_max = HEADER_BYTES_DEFAULT,
        .call_queue_bytes = 256 * 1024,
        .conn_queue_bytes_max = 32 * 1024 * 1024,
        .assembly_bytes_max = 32 * 1024 * 1024,
        .handshake_timeout_ns = 10 * SECOND_NS,
        .keepalive_time_ns = 2 * 3600 * SECOND_NS,
        .keepalive_timeout_ns = 20 * SECOND_NS,
        .keepalive_min_time_ns = 5 * SECOND_NS,
        .reset_burst = 1000,
        .reset_per_s = 100,
    };
}

/* ---- what nghttp2 tells ------------------------------------------------------------------------ */

static struct grpc_call *call_of(struct grpc_conn *c, int32_t stream_id)
{
    return nghttp2_session_get_stream_user_data(c->session, stream_id);
}

static bool is_request(const nghttp2_frame *frame)
{
    return frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    if (is_request(frame)) grpc__request_begin(arg, frame->hd.stream_id);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                     nghttp2_rcbuf *value, uint8_t flags, void *arg)
{
    if (is_request(frame))
        grpc__request_field(arg, name, value); /* trailers of a client say nothing */
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *data,
                   size_t len, void *arg)
{
    struct grpc_conn *c = arg;
    int rc = nghttp2_session_consume_connection(session, len);
    if (nghttp2_is_fatal(rc)) return NGHTTP2_ERR_CALLBACK_FAILURE;
    struct grpc_call *call = call_of(c, stream_id);
    if (call != NULL) grpc__call_data(call, bytes_of(data, len));
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct grpc_conn *c = arg;
    bool end_stream = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    struct grpc_call *call = NULL;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        if (is_request(frame)) return grpc__request_end(c, frame->hd.stream_id, end_stream);
        __attribute__((fallthrough));
    case NGHTTP2_DATA:
        call = end_stream ? call_of(c, frame->hd.stream_id) : NULL;
        if (call != NULL) grpc__call_half_close(call);
        break;
    case NGHTTP2_PING:
        grpc__live_ping(c, frame->ping.opaque_data, (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0);
        break;
    case NGHTTP2_SETTINGS: c->ready = true; break;
    default: break;
    }
    return 0;
}

static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct grpc_conn *c = arg;
    if (frame->hd.type == NGHTTP2_GOAWAY) grpc__live_goaway_sent(c);
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    c->sent_since_ping = true;
    /* An answer before the end of the request: the client is told to stop sending. */
    if (frame->hd.type == NGHTTP2_HEADERS && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 &&
        nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) == 0) {
        return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                         NGHTTP2_NO_ERROR);
    }
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t code, void *arg)
{
    struct grpc_conn *c = arg;
    struct grpc_call *call = call_of(c, stream_id);
    if (c->req.stream_id == stream_id) c->req.begun_ns = 0;
    if (call == NULL) return 0;
    bool ours = code == NGHTTP2_INTERNAL_ERROR;
    if (call->stage != CALL_OPEN)
        grpc__live_finished(c);
    else
        grpc__live_reset(c);
    grpc__call_cancel(call, ours ? GRPC_CANCEL_ERROR : GRPC_CANCEL_PEER);
    c->call_count--;
    grpc__call_free(call);
    return 0;
}

/* Writes a DATA frame straight from the call's queue; without room it is asked for again by the next pull. Should
 * the call have been reset in between, its frame fails. */
static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
                        size_t len, nghttp2_data_source *source, void *arg)
{
    struct grpc_conn *c = arg;
    if (c->out_cap - c->out_len < FRAME_HEAD_BYTES + len) return NGHTTP2_ERR_WOULDBLOCK;
    uint8_t *out = c->out + c->out_len;
    memcpy(out, head, FRAME_HEAD_BYTES);
    int n = len == 0 ? 0 : grpc__call_take(source->ptr, out + FRAME_HEAD_BYTES, len);
    if (n != (int)len) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    c->out_len += FRAME_HEAD_BYTES + len;
    return 0;
}

/* ---- birth and death ----------------------------------------------------------------------------- */

static uint64_t deadline_of(const struct heap_item *item)
{
    const void *call = (const char *)item - offsetof(struct grpc_call, timer);
    return ((const struct grpc_call *)call)->deadline_ns;
}

static bool call_before(const struct heap_item *a, const struct heap_item *b)
{
    return deadline_of(a) < deadline_of(b);
}

static void set_callbacks(nghttp2_session_callbacks *cb)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback2(cb, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    nghttp2_session_callbacks_set_send_data_callback(cb, on_send_data);
}

static void set_options(nghttp2_option *o)
{
    nghttp2_option_set_no_auto_window_update(o, 1);
    nghttp2_option_set_no_http_messaging(o, 1); /* grpc_head.c judges instead */
    nghttp2_option_set_no_closed_streams(o, 1);
    /* nghttp2's own bucket reads a clock; ours is in grpc_live.c. */
    nghttp2_option_set_stream_reset_rate_limit(o, UINT64_MAX, 0);
}

static int session_new(struct grpc_conn *c)
{
    nghttp2_session_callbacks *cb = NULL;
    nghttp2_option *o = NULL;
    nghttp2_mem mem = grpc__pool_mem(c->opts.pool);
    int rc = nghttp2_session_callbacks_new(&cb);
    if (rc == 0) rc = nghttp2_option_new(&o);
    if (rc == 0) {
        set_callbacks(cb);
        set_options(o);
        rc = nghttp2_session_server_new3(&c->session, cb, c, o, &mem);
    }
    nghttp2_option_del(o);
    nghttp2_session_callbacks_del(cb);
    return rc == 0 ? 0 : E_NOMEM;
}

static int session_greet(struct grpc_conn *c)
{
    /* MAX_CONCURRENT_STREAMS is added by out_settings(), unknown to nghttp2. */
    const nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, MAX_FRAME_BYTES};
    int rc = nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, &entry, 1);
    if (rc == 0) {
        rc = nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0,
                                                   GRPC_CONN_WINDOW);
    }
    return rc == 0 ? 0 : E_NOMEM;
}

struct grpc_conn *grpc_conn_new(const struct grpc_conn_opts *opts,
                                const struct grpc_handler *handler, uint64_t now_ns)
{
    ASSERT(opts->pool != NULL);
    ASSERT(opts->reset_burst > 0);
    struct grpc_conn *c = grpc_pool_get(opts->pool, sizeof *c);
    if (c == NULL) return NULL;
    *c = (struct grpc_conn){.opts = *opts,
                            .handler = handler,
                            .now_ns = now_ns,
                            .born_ns = now_ns,
                            .read_ns = now_ns,
                            .reset_ns = now_ns,
                            .reset_credit = opts->reset_burst,
                            .close_ns = GRPC_NEVER,
                            .drain_ns = GRPC_NEVER,
                            .first_out = true};
    list_init(&c->calls);
    list_init(&c->waiting);
    list_init(&c->writable);
    grpc__heads_init(&c->req.heads, opts->pool, opts->header_bytes_max);
    heap_init(&c->deadlines, grpc_pool_alloc(opts->pool), call_before);
    if (session_new(c) < 0 || session_greet(c) < 0) {
        grpc_conn_free(c);
        return NULL;
    }
    return c;
}

void grpc_conn_free(struct grpc_conn *c)
{
    if (c == NULL) return;
    /* nghttp2_session_del() tells nothing about open streams. */
    struct list *link;
    while ((link = list_pop_front(&c->calls)) != NULL) {
        struct grpc_call *call = LIST_OBJECT(link, struct grpc_call, link);
        grpc__call_cancel(call, GRPC_CANCEL_CONN);
        grpc__call_free(call);
    }
    nghttp2_session_del(c->session);
    grpc__heads_deinit(&c->req.heads);
    heap_deinit(&c->deadlines);
    grpc_pool_put(c->opts.pool, c, sizeof *c);
}

/* ---- in ------------------------------------------------------------------------------------------- */

static int feed_failed(struct grpc_conn *c, ssize_t rc)
{
    c->dead = true;
    return rc == NGHTTP2_ERR_NOMEM ? E_NOMEM : E_PROTO;
}

int grpc_conn_feed(struct grpc_conn *c, const uint8_t *data, size_t len, uint64_t now_ns)
{
    c->now_ns = now_ns;
    c->read_ns = now_ns;
    c->ping_sent_ns = 0;
    if (c->dead) return E_CLOSED;
    if (c->close_ns != GRPC_NEVER) return 0; /* told off: only the time to read that is left */
    ssize_t n = nghttp2_session_mem_recv(c->session, data, len);
    if (n < 0) return feed_failed(c, n);
    grpc__run_waiting(c);
    return c->dead ? E_CLOSED : 0;
}

/* ---- out ------------------------------------------------------------------------------------------ */

/* Room is there: a frame is never larger than what the loop of pull leaves, bar HEADERS. */
static void out_put(struct grpc_conn *c, const uint8_t *data, size_t len)
{
    size_t room = c->out_cap - c->out_len;
    size_t n = len < room ? len : room;
    if (n > 0) memcpy(c->out + c->out_len, data, n);
    c->out_len += n;
    c->rest = data + n;
    c->rest_len = len - n;
}

/* Our first frame, with the limit of streams that nghttp2 must not know. */
static void out_settings(struct grpc_conn *c, const uint8_t *frame, size_t len)
{
    c->first_out = false;
    ASSERT(frame[3] == NGHTTP2_SETTINGS && len == FRAME_HEAD_BYTES + 6);
    out_put(c, frame, len);
    if (c->opts.streams_max == UINT32_MAX) return;
    uint8_t *out = c->out + c->out_len;
    ASSERT(c->out_cap - c->out_len >= 6);
    endian_store_be16(out, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    endian_store_be32(out + 2, c->opts.streams_max);
    out[-(ptrdiff_t)len + 2] = 12; /* the frame's length */
    c->out_len += 6;
}

/* The notice of a graceful stop gets upstream's debug data; a frame too large gets no GOAWAY at all. */
static void out_goaway(struct grpc_conn *c, const uint8_t *frame, size_t len)
{
    static const char why[] = "graceful_stop";
    if (endian_load_be32(frame + GOAWAY_CODE_AT) == NGHTTP2_FRAME_SIZE_ERROR) {
        c->dead = true;
        return;
    }
    bool notice = c->draining && !c->drained && len == FRAME_HEAD_BYTES + 8 &&
                  endian_load_be32(frame + FRAME_HEAD_BYTES) == INT32_MAX;
    out_put(c, frame, len);
    if (!notice) return;
    ASSERT(c->out_cap - c->out_len >= sizeof why - 1);
    memcpy(c->out + c->out_len, why, sizeof why - 1);
    c->out[c->out_len - len + 2] = 8 + sizeof why - 1;
    c->out_len += sizeof why - 1;
}

static void out_frame(struct grpc_conn *c, const uint8_t *frame, size_t len)
{
    if (c->first_out)
        out_settings(c, frame, len);
    else if (len > GOAWAY_CODE_AT && frame[3] == NGHTTP2_GOAWAY)
        out_goaway(c, frame, len);
    else
        out_put(c, frame, len);
}

static void tell_writable(struct grpc_conn *c)
{
    struct list *link;
    while ((link = list_pop_front(&c->writable)) != NULL) {
        struct grpc_call *call = LIST_OBJECT(link, struct grpc_call, writable_link);
        const struct grpc_handler *h = c->handler;
        if (call->stage == CALL_OPEN && h->on_writable != NULL) {
            h->on_writable(h->arg, call, call->data);
        }
    }
}

static void out_all(struct grpc_conn *c)
{
    while (!c->dead && !c->told_off && c->out_cap - c->out_len >= GRPC_PULL_BYTES_MIN) {
        const uint8_t *frame = NULL;
        ssize_t n = nghttp2_session_mem_send(c->session, &frame);
        if (n < 0) c->dead = true;
        if (n <= 0) break;
        out_frame(c, frame, (size_t)n);
    }
}

size_t grpc_conn_pull(struct grpc_conn *c, uint8_t *out, size_t cap, uint64_t now_ns)
{
    ASSERT(cap >= GRPC_PULL_BYTES_MIN);
    c->now_ns = now_ns;
    c->out = out;
    c->out_cap = cap;
    c->out_len = 0;
    if (c->rest_len > 0) out_put(c, c->rest, c->rest_len);
    out_all(c);
    c->out = NULL;
    tell_writable(c);
    return c->out_len;
}

/* ---- state and time -------------------------------------------------------------------------------- */

uint64_t grpc_conn_tick(struct grpc_conn *c, uint64_t now_ns)
{
    c->now_ns = now_ns;
    if (c->dead) return GRPC_NEVER;
    for (;;) {
        struct heap_item *first = heap_first(&c->deadlines);
        if (first == NULL) break;
        struct grpc_call *call = LIST_OBJECT(first, struct grpc_call, timer);
        if (call->deadline_ns > now_ns) break;
        grpc__call_expire(call);
    }
    grpc__live_tick(c);
    uint64_t next = grpc__live_next(c);
    const struct heap_item *first = heap_first(&c->deadlines);
    return first != NULL && deadline_of(first) < next ? deadline_of(first) : next;
}

bool grpc_conn_want_write(const struct grpc_conn *c)
{
    if (c->rest_len > 0) return true;
    return !c->dead && !c->told_off && nghttp2_session_want_write(c->session) != 0;
}

bool grpc_conn_want_read(const struct grpc_conn *c)
{
    return nghttp2_session_get_outbound_queue_size(c->session) < GRPC_CONTROL_QUEUE_MAX;
}

bool grpc_conn_done(const struct grpc_conn *c)
{
    if (c->dead) return true;
    return c->close_ns == GRPC_NEVER && nghttp2_session_want_read(c->session) == 0;
}

size_t grpc_conn_call_count(const struct grpc_conn *c)
{
    return c->call_count;
}

size_t grpc_conn_queued_bytes(const struct grpc_conn *c)
{
    return c->queued_bytes;
}

void grpc_conn_set_data(struct grpc_conn *c, void *data)
{
    c->data = data;
}

void *grpc_conn_data(const struct grpc_conn *c)
{
    return c->data;
}

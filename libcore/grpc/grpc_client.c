/* The client's side of one connection: an nghttp2 session, what goes in and what comes out. */
#include "grpc/grpc_client_int.h"

#include "base/assert.h"

enum { FRAME_HEAD_BYTES = 9, NAME_BYTES_MAX = 1024 };

#define SECOND_NS 1000000000ULL

static const uint8_t KEEPALIVE_PING[8] = {0};

struct grpc_client_opts grpc_client_opts_default(void)
{
    return (struct grpc_client_opts){
        .user_agent = "etcd-c",
        .scheme = "http",
        .recv_bytes_max = INT32_MAX,
        .send_bytes_max = 2 * 1024 * 1024,
        .call_queue_bytes = 256 * 1024,
        .handshake_timeout_ns = 10 * SECOND_NS,
        .keepalive_time_ns = GRPC_NEVER,
        .keepalive_timeout_ns = 20 * SECOND_NS,
    };
}

/* ---- what nghttp2 tells ------------------------------------------------------------------------ */

static struct grpc_client_call *call_of(struct grpc_client_conn *c, int32_t stream_id)
{
    return nghttp2_session_get_stream_user_data(c->session, stream_id);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct grpc_client_conn *c = arg;
    grpc__heads_reset(&c->heads);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                     nghttp2_rcbuf *value, uint8_t flags, void *arg)
{
    struct grpc_client_conn *c = arg;
    return grpc__heads_add(&c->heads, name, value) == 0 ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *data,
                   size_t len, void *arg)
{
    struct grpc_client_conn *c = arg;
    int rc = nghttp2_session_consume_connection(session, len);
    if (nghttp2_is_fatal(rc)) return NGHTTP2_ERR_CALLBACK_FAILURE;
    struct grpc_client_call *call = call_of(c, stream_id);
    if (call != NULL) grpc__client_data(call, bytes_of(data, len));
    return 0;
}

static void saw_goaway(struct grpc_client_conn *c, const nghttp2_goaway *frame)
{
    static const char why[] = "too_many_pings";
    c->draining = true;
    struct bytes data = bytes_of(frame->opaque_data, frame->opaque_data_len);
    if (frame->error_code == NGHTTP2_ENHANCE_YOUR_CALM && grpc__is(data, why)) {
        c->pinged_too_often = true;
    }
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct grpc_client_conn *c = arg;
    bool end_stream = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    struct grpc_client_call *call = NULL;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        call = call_of(c, frame->hd.stream_id);
        if (call != NULL) grpc__client_headers(call, end_stream);
        break;
    case NGHTTP2_DATA:
        call = end_stream ? call_of(c, frame->hd.stream_id) : NULL;
        if (call != NULL) grpc__client_no_trailers(call);
        break;
    case NGHTTP2_GOAWAY: saw_goaway(c, &frame->goaway); break;
    case NGHTTP2_SETTINGS: c->ready = true; break;
    default: break;
    }
    return 0;
}

static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct grpc_client_conn *c = arg;
    if (frame->hd.type != NGHTTP2_HEADERS) return 0;
    struct grpc_client_call *call = call_of(c, frame->hd.stream_id);
    if (call != NULL) call->sent = true;
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t code, void *arg)
{
    struct grpc_client_conn *c = arg;
    struct grpc_client_call *call = call_of(c, stream_id);
    if (call == NULL) return 0;
    /* A request that never left was not refused by anyone, but is as unprocessed. */
    grpc__client_closed(call, call->sent ? code : (uint32_t)NGHTTP2_REFUSED_STREAM);
    return 0;
}

static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
                        size_t len, nghttp2_data_source *source, void *arg)
{
    struct grpc_client_conn *c = arg;
    if (c->out_cap - c->out_len < FRAME_HEAD_BYTES + len) return NGHTTP2_ERR_WOULDBLOCK;
    struct grpc_client_call *call = call_of(c, frame->hd.stream_id);
    if (call == NULL) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    uint8_t *out = c->out + c->out_len;
    memcpy(out, head, FRAME_HEAD_BYTES);
    int n = grpc__client_take(call, out + FRAME_HEAD_BYTES, len);
    if (n != (int)len) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    c->out_len += FRAME_HEAD_BYTES + len;
    return 0;
}

/* ---- birth and death ----------------------------------------------------------------------------- */

static uint64_t deadline_of(const struct heap_item *item)
{
    const void *call = (const char *)item - offsetof(struct grpc_client_call, timer);
    return ((const struct grpc_client_call *)call)->deadline_ns;
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

static int session_new(struct grpc_client_conn *c)
{
    nghttp2_session_callbacks *cb = NULL;
    nghttp2_option *o = NULL;
    nghttp2_mem mem = grpc__pool_mem(c->opts.pool);
    int rc = nghttp2_session_callbacks_new(&cb);
    if (rc == 0) rc = nghttp2_option_new(&o);
    if (rc == 0) {
        set_callbacks(cb);
        nghttp2_option_set_no_auto_window_update(o, 1);
        nghttp2_option_set_no_closed_streams(o, 1);
        rc = nghttp2_session_client_new3(&c->session, cb, c, o, &mem);
    }
    nghttp2_option_del(o);
    nghttp2_session_callbacks_del(cb);
    return rc == 0 ? 0 : E_NOMEM;
}

static int session_greet(struct grpc_client_conn *c)
{
    const nghttp2_settings_entry entries[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, GRPC_CLIENT_STREAM_WINDOW},
    };
    int rc = nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, entries,
                                     sizeof entries / sizeof *entries);
    if (rc == 0) {
        rc = nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0,
                                                   GRPC_CLIENT_CONN_WINDOW);
    }
    return rc == 0 ? 0 : E_NOMEM;
}

static int conn_init(struct grpc_client_conn *c)
{
    const struct alloc *a = grpc_pool_alloc(c->opts.pool);
    list_init(&c->calls);
    list_init(&c->ending);
    list_init(&c->writable);
    grpc__heads_init(&c->heads, c->opts.pool, GRPC_CLIENT_HEADER_BYTES_MAX);
    heap_init(&c->deadlines, a, call_before);
    buf_init(&c->authority, a, NAME_BYTES_MAX);
    buf_init(&c->user_agent, a, NAME_BYTES_MAX);
    int rc = buf_put_str(&c->authority, c->opts.authority);
    if (rc == 0) rc = buf_put_str(&c->user_agent, c->opts.user_agent);
    if (rc == 0) rc = session_new(c);
    return rc == 0 ? session_greet(c) : rc;
}

struct grpc_client_conn *grpc_client_conn_new(const struct grpc_client_opts *opts, uint64_t now_ns)
{
    ASSERT(opts->pool != NULL);
    ASSERT(opts->authority != NULL);
    struct grpc_client_conn *c = grpc_pool_get(opts->pool, sizeof *c);
    if (c == NULL) return NULL;
    *c = (struct grpc_client_conn){
        .opts = *opts, .now_ns = now_ns, .born_ns = now_ns, .read_ns = now_ns};
    if (c->opts.keepalive_time_ns < GRPC_CLIENT_KEEPALIVE_MIN_NS) {
        c->opts.keepalive_time_ns = GRPC_CLIENT_KEEPALIVE_MIN_NS;
    }
    if (conn_init(c) < 0) {
        grpc_client_conn_free(c);
        return NULL;
    }
    return c;
}

void grpc_client_conn_free(struct grpc_client_conn *c)
{
    if (c == NULL) return;
    grpc_client_conn_lost(c, "the client connection is closing");
    nghttp2_session_del(c->session);
    grpc__heads_deinit(&c->heads);
    heap_deinit(&c->deadlines);
    buf_deinit(&c->authority);
    buf_deinit(&c->user_agent);
    grpc_pool_put(c->opts.pool, c, sizeof *c);
}

void grpc_client_conn_lost(struct grpc_client_conn *c, const char *reason)
{
    c->lost = true;
    grpc__client_run_ending(c);
    while (!list_empty(&c->calls)) {
        struct grpc_client_call *call = LIST_OBJECT(c->calls.next, struct grpc_client_call, link);
        call->unprocessed = !call->sent;
        grpc__client_end(call, GRPC_UNAVAILABLE, bytes_str(reason));
    }
}

/* ---- in and out ------------------------------------------------------------------------------------ */

int grpc_client_conn_feed(struct grpc_client_conn *c, const uint8_t *data, size_t len,
                          uint64_t now_ns)
{
    c->now_ns = now_ns;
    c->read_ns = now_ns;
    c->ping_sent_ns = 0;
    if (c->lost) return E_CLOSED;
    ssize_t n = nghttp2_session_mem_recv(c->session, data, len);
    if (n < 0) {
        grpc_client_conn_lost(c, "error reading from server: protocol error");
        return n == NGHTTP2_ERR_NOMEM ? E_NOMEM : E_PROTO;
    }
    grpc__client_run_ending(c);
    return 0;
}

static void out_put(struct grpc_client_conn *c, const uint8_t *data, size_t len)
{
    size_t room = c->out_cap - c->out_len;
    size_t n = len < room ? len : room;
    if (n > 0) memcpy(c->out + c->out_len, data, n);
    c->out_len += n;
    c->rest = data + n;
    c->rest_len = len - n;
}

static void tell_writable(struct grpc_client_conn *c)
{
    struct list *link;
    while ((link = list_pop_front(&c->writable)) != NULL) {
        struct grpc_client_call *call = LIST_OBJECT(link, struct grpc_client_call, end_link);
        if (!call->ended && call->events->on_writable != NULL) {
            call->events->on_writable(call->arg, call);
        }
    }
}

size_t grpc_client_conn_pull(struct grpc_client_conn *c, uint8_t *out, size_t cap, uint64_t now_ns)
{
    ASSERT(cap >= GRPC_PULL_BYTES_MIN);
    c->now_ns = now_ns;
    c->out = out;
    c->out_cap = cap;
    c->out_len = 0;
    if (c->rest_len > 0) out_put(c, c->rest, c->rest_len);
    while (!c->lost && c->out_cap - c->out_len >= GRPC_PULL_BYTES_MIN) {
        const uint8_t *frame = NULL;
        ssize_t n = nghttp2_session_mem_send(c->session, &frame);
        if (n < 0) grpc_client_conn_lost(c, err_text(E_NOMEM));
        if (n <= 0) break;
        out_put(c, frame, (size_t)n);
    }
    c->out = NULL;
    /* A session that wants no more, without a GOAWAY of the server's, has ended itself over an error. */
    if (!c->lost && !c->draining && nghttp2_session_want_read(c->session) == 0) {
        grpc_client_conn_lost(c, "error reading from server: protocol error");
    }
    tell_writable(c);
    grpc__client_run_ending(c);
    return c->out_len;
}

/* ---- state and time -------------------------------------------------------------------------------- */

static uint64_t later(uint64_t from_ns, uint64_t delay_ns)
{
    return delay_ns < GRPC_NEVER - from_ns ? from_ns + delay_ns : GRPC_NEVER;
}

static uint64_t keepalive_ns(const struct grpc_client_conn *c)
{
    if (!c->ready) return later(c->born_ns, c->opts.handshake_timeout_ns);
    if (c->ping_sent_ns != 0) return later(c->ping_sent_ns, c->opts.keepalive_timeout_ns);
    if (c->call_count == 0 && !c->opts.keepalive_without_calls) return GRPC_NEVER;
    return later(c->read_ns, c->opts.keepalive_time_ns);
}

static void keepalive_run(struct grpc_client_conn *c)
{
    if (c->now_ns < keepalive_ns(c)) return;
    if (!c->ready) {
        grpc_client_conn_lost(c, "connection error: desc = \"transport: no SETTINGS in time\"");
    } else if (c->ping_sent_ns != 0) {
        grpc_client_conn_lost(c, "keepalive ping failed to receive ACK within timeout");
    } else {
        c->ping_sent_ns = c->now_ns == 0 ? 1 : c->now_ns;
        (void)nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, KEEPALIVE_PING);
    }
}

uint64_t grpc_client_conn_tick(struct grpc_client_conn *c, uint64_t now_ns)
{
    c->now_ns = now_ns;
    if (c->lost) return GRPC_NEVER;
    const struct heap_item *first;
    while ((first = heap_first(&c->deadlines)) != NULL && deadline_of(first) <= now_ns) {
        grpc__client_expire(LIST_OBJECT(heap_first(&c->deadlines), struct grpc_client_call, timer));
    }
    keepalive_run(c);
    grpc__client_run_ending(c);
    first = heap_first(&c->deadlines);
    uint64_t next = c->lost ? GRPC_NEVER : keepalive_ns(c);
    return first != NULL && deadline_of(first) < next ? deadline_of(first) : next;
}

bool grpc_client_conn_want_write(const struct grpc_client_conn *c)
{
    if (c->rest_len > 0) return true;
    return !c->lost && nghttp2_session_want_write(c->session) != 0;
}

bool grpc_client_conn_done(const struct grpc_client_conn *c)
{
    return c->lost || nghttp2_session_want_read(c->session) == 0;
}

bool grpc_client_conn_ready(const struct grpc_client_conn *c)
{
    return c->ready && !c->lost;
}

bool grpc_client_conn_draining(const struct grpc_client_conn *c)
{
    return c->draining || c->lost;
}

bool grpc_client_conn_pinged_too_often(const struct grpc_client_conn *c)
{
    return c->pinged_too_often;
}

size_t grpc_client_conn_call_count(const struct grpc_client_conn *c)
{
    return c->call_count;
}

/* One call of the client's side.
 *
 * A status is decided once (trailers, a reset, a deadline, a lost connection); it is told after the messages
 * that came before it. Texts and codes for what no server said are upstream's (grpc-go 1.82). */
#include "grpc/grpc_client_int.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/text.h"

enum { CLIENT_HEADERS_MAX = 64 /* metadata fields of a request */, CLIENT_HEADERS_OWN = 8 };

/* ---- birth and death --------------------------------------------------------------------------- */

static void call_free(struct grpc_client_call *call)
{
    struct grpc_client_conn *c = call->conn;
    if (heap_item_queued(&call->timer)) heap_remove(&c->deadlines, &call->timer);
    list_remove(&call->link);
    list_remove(&call->end_link);
    grpc__queue_deinit(&call->out, c->opts.pool);
    grpc__in_deinit(&call->in, c->opts.pool);
    buf_deinit(&call->backlog);
    buf_deinit(&call->text);
    grpc_pool_put(c->opts.pool, call, sizeof *call);
}

static nghttp2_nv nv_of(struct bytes name, struct bytes value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name.data,
                        .value = (uint8_t *)(uintptr_t)value.data,
                        .namelen = name.len,
                        .valuelen = value.len};
}

/* Submits the request; everything is copied by nghttp2. */
static int call_submit(struct grpc_client_call *call, const struct grpc_client_call_opts *o)
{
    struct grpc_client_conn *c = call->conn;
    nghttp2_nv nv[CLIENT_HEADERS_OWN + CLIENT_HEADERS_MAX];
    char timeout[16];
    size_t n = 0;
    nv[n++] = grpc__nv(":method", bytes_str("POST"));
    nv[n++] = grpc__nv(":scheme", bytes_str(c->opts.scheme));
    nv[n++] = grpc__nv(":path", bytes_str(o->path));
    nv[n++] = grpc__nv(":authority", buf_bytes(&c->authority));
    nv[n++] = grpc__nv("content-type", bytes_str("application/grpc"));
    nv[n++] = grpc__nv("user-agent", buf_bytes(&c->user_agent));
    nv[n++] = grpc__nv("te", bytes_str("trailers"));
    if (o->deadline_ns != GRPC_NEVER) {
        uint64_t left = o->deadline_ns > c->now_ns ? o->deadline_ns - c->now_ns : 0;
        nv[n] = grpc__nv("grpc-timeout", bytes_of(timeout, grpc__timeout_format(left, timeout)));
        nv[n++].flags |= NGHTTP2_NV_FLAG_NO_INDEX; /* never the same twice */
    }
    for (size_t i = 0; i < o->field_count; i++) {
        nv[n++] = nv_of(o->fields[i].name, o->fields[i].value);
    }
    const nghttp2_data_provider provider = {.read_callback = grpc__client_read};
    call->stream_id = nghttp2_submit_request(c->session, NULL, nv, n, &provider, call);
    if (call->stream_id > 0) return 0;
    return call->stream_id == NGHTTP2_ERR_NOMEM ? E_NOMEM : E_CLOSED;
}

int grpc_client_start(struct grpc_client_conn *c, const struct grpc_client_call_opts *opts,
                      uint64_t now_ns, struct grpc_client_call **out)
{
    ASSERT(opts->field_count <= CLIENT_HEADERS_MAX);
    ASSERT(opts->events->on_end != NULL);
    c->now_ns = now_ns;
    if (c->lost || c->draining) return E_CLOSED;
    struct grpc_client_call *call = grpc_pool_get(c->opts.pool, sizeof *call);
    if (call == NULL) return E_NOMEM;
    *call = (struct grpc_client_call){.conn = c,
                                      .events = opts->events,
                                      .arg = opts->arg,
                                      .deadline_ns = opts->deadline_ns,
                                      .kind = (uint8_t)opts->kind};
    const struct alloc *a = grpc_pool_alloc(c->opts.pool);
    list_init(&call->link);
    list_init(&call->end_link);
    buf_init(&call->backlog, a, UINT32_MAX);
    buf_init(&call->text, a, 4 * GRPC_TEXT_BYTES_MAX);
    int rc = opts->deadline_ns == GRPC_NEVER ? 0 : heap_push(&c->deadlines, &call->timer);
    if (rc == 0) rc = call_submit(call, opts);
    if (rc < 0) {
        call_free(call);
        return rc;
    }
    /* A connection that was silent because it had nothing to say is not suspicious. */
    if (c->call_count == 0 && !c->opts.keepalive_without_calls) c->read_ns = now_ns;
    list_push_back(&c->calls, &call->link);
    c->call_count++;
    *out = call;
    return 0;
}

/* The last word; the call is gone afterwards. */
static void call_tell_end(struct grpc_client_call *call, bool with_trailers)
{
    struct grpc_client_conn *c = call->conn;
    const struct grpc_status status = {
        .code = (enum grpc_code)call->code,
        .text = buf_bytes(&call->text),
        .trailers = with_trailers ? c->heads.fields : NULL,
        .trailer_count = with_trailers ? c->heads.count : 0,
        .unprocessed = call->unprocessed,
        .from_server = call->from_server,
    };
    call->ended = true;
    (void)nghttp2_session_set_stream_user_data(c->session, call->stream_id, NULL);
    c->call_count--;
    call->events->on_end(call->arg, call, &status);
    call_free(call);
}

/* The first decision stands. */
static void call_decide(struct grpc_client_call *call, enum grpc_code code, struct bytes text)
{
    if (call->decided) return;
    call->decided = true;
    call->code = (uint8_t)code;
    if (text.len > GRPC_TEXT_BYTES_MAX) text.len = GRPC_TEXT_BYTES_MAX;
    buf_reset(&call->text);
    (void)buf_put_bytes(&call->text, text); /* without memory: the code alone */
    grpc__queue_deinit(&call->out, call->conn->opts.pool);
}

static void call_rst(struct grpc_client_call *call, uint32_t http2_code)
{
    (void)nghttp2_submit_rst_stream(call->conn->session, NGHTTP2_FLAG_NONE, call->stream_id,
                                    http2_code);
}

void grpc__client_end(struct grpc_client_call *call, enum grpc_code code, struct bytes text)
{
    call_decide(call, code, text);
    call_tell_end(call, false);
}

/* Ends a call by our own decision, later. */
static void call_give_up(struct grpc_client_call *call, enum grpc_code code, struct bytes text)
{
    if (call->ended) return;
    bool decided = call->decided;
    call_decide(call, code, text);
    call->ended = true;
    if (!decided) call_rst(call, NGHTTP2_CANCEL);
    list_remove(&call->end_link);
    list_push_back(&call->conn->ending, &call->end_link);
}

void grpc__client_run_ending(struct grpc_client_conn *c)
{
    struct list *link;
    while ((link = list_pop_front(&c->ending)) != NULL) {
        call_tell_end(LIST_OBJECT(link, struct grpc_client_call, end_link), false);
    }
}

void grpc_client_cancel(struct grpc_client_call *call)
{
    call_give_up(call, GRPC_CANCELED, bytes_str("context canceled"));
}

void grpc__client_expire(struct grpc_client_call *call)
{
    heap_remove(&call->conn->deadlines, &call->timer);
    call_give_up(call, GRPC_DEADLINE_EXCEEDED, bytes_str(err_text(E_DEADLINE_EXCEEDED)));
}

/* ---- sending ------------------------------------------------------------------------------------- */

bool grpc_client_writable(struct grpc_client_call *call)
{
    bool room = call->out.bytes <= call->conn->opts.call_queue_bytes;
    call->unwritable = !room;
    return room;
}

static void call_wake(struct grpc_client_call *call)
{
    if (!call->deferred) return;
    call->deferred = false;
    (void)nghttp2_session_resume_data(call->conn->session, call->stream_id);
}

int grpc_client_send(struct grpc_client_call *call, struct bytes msg)
{
    if (call->half_closed || call->decided) return E_CLOSED;
    if (msg.len > call->conn->opts.send_bytes_max || msg.len > UINT32_MAX) return E_TOOBIG;
    if (!grpc_client_writable(call)) return E_AGAIN;
    const struct grpc_part part = {.bytes = msg};
    int rc = grpc__queue_put_message(&call->out, call->conn->opts.pool, 0, &part, 1, msg.len);
    if (rc == 0) call_wake(call);
    return rc;
}

void grpc_client_half_close(struct grpc_client_call *call)
{
    if (call->half_closed || call->decided) return;
    call->half_closed = true;
    call_wake(call);
}

int grpc__client_take(struct grpc_client_call *call, uint8_t *out, size_t cap)
{
    struct grpc_client_conn *c = call->conn;
    int n = grpc__queue_read(&call->out, c->opts.pool, out, cap);
    if (call->unwritable && !call->ended && call->out.bytes <= c->opts.call_queue_bytes / 2) {
        call->unwritable = false;
        list_remove(&call->end_link);
        list_push_back(&c->writable, &call->end_link);
    }
    return n;
}

/* The stream's data, not `source`, leads to the call: it may be gone while its RST_STREAM still waits. */
ssize_t grpc__client_read(nghttp2_session *session, int32_t stream_id, uint8_t *out, size_t cap,
                          uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct grpc_client_call *call = nghttp2_session_get_stream_user_data(session, stream_id);
    if (call == NULL) return NGHTTP2_ERR_DEFERRED;
    size_t n = call->out.bytes < cap ? call->out.bytes : cap;
    if (n == 0 && !call->half_closed) {
        call->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n > 0) *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (call->half_closed && n == call->out.bytes) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

/* ---- receiving: messages ------------------------------------------------------------------------ */

static bool call_one_answer(const struct grpc_client_call *call)
{
    return call->kind == GRPC_UNARY || call->kind == GRPC_CLIENT_STREAM;
}

static void call_give(struct grpc_client_call *call, struct bytes msg)
{
    if (call->got_message && call_one_answer(call)) {
        call_give_up(call, GRPC_INTERNAL,
                     bytes_str("cardinality violation: expected <EOF> for non server-streaming "
                               "RPCs, but received another message"));
        return;
    }
    call->got_message = true;
    if (call->events->on_message != NULL) call->events->on_message(call->arg, call, msg);
}

static void give_up_toobig(struct grpc_client_call *call)
{
    char text[96];
    int n = snprintf(text, sizeof text, "grpc: received message larger than max (%u vs. %u)",
                     call->in.need, call->conn->opts.recv_bytes_max);
    call_give_up(call, GRPC_RESOURCE_EXHAUSTED, bytes_of(text, (size_t)n));
}

static void call_give_inflated(struct grpc_client_call *call, struct bytes msg)
{
    struct grpc_client_conn *c = call->conn;
    struct buf plain = BUF_EMPTY;
    buf_init(&plain, grpc_pool_alloc(c->opts.pool), SIZE_MAX);
    int rc = grpc__gunzip(c->opts.pool, msg, c->opts.recv_bytes_max, &plain);
    char text[96];
    int n = snprintf(text, sizeof text,
                     "grpc: received message after decompression larger than max %u",
                     c->opts.recv_bytes_max);
    if (rc == 0) {
        call_give(call, buf_bytes(&plain));
    } else if (rc == E_TOOBIG) {
        call_give_up(call, GRPC_RESOURCE_EXHAUSTED, bytes_of(text, (size_t)n));
    } else {
        call_give_up(call, GRPC_INTERNAL,
                     bytes_str("grpc: failed to decompress the message: gzip: invalid data"));
    }
    buf_deinit(&plain);
}

static void call_message(struct grpc_client_call *call, struct bytes msg)
{
    char text[64];
    if (call->in.flag == 0) {
        call_give(call, msg);
    } else if (call->in.flag > 1) {
        int n = snprintf(text, sizeof text, "grpc: received unexpected payload format %u",
                         call->in.flag);
        call_give_up(call, GRPC_INTERNAL, bytes_of(text, (size_t)n));
    } else if (call->gzip_in) {
        call_give_inflated(call, msg);
    } else {
        call_give_up(call, GRPC_INTERNAL,
                     bytes_str("grpc: compressed flag set with identity or empty encoding"));
    }
}

static void call_message_head(struct grpc_client_call *call)
{
    if (call->in.need > call->conn->opts.recv_bytes_max) {
        give_up_toobig(call);
        return;
    }
    call->in.pieces = call->events->on_piece != NULL && call->in.flag == 0;
    if (call->in.pieces) call->got_message = true;
}

static bool call_runs(const struct grpc_client_call *call)
{
    return !call->ended && !call->held;
}

static struct bytes call_parse(struct grpc_client_call *call, struct bytes input)
{
    struct grpc_pool *pool = call->conn->opts.pool;
    bool more = true;
    call->parsing = true;
    while (more && call_runs(call)) {
        struct bytes out = BYTES_EMPTY;
        uint32_t at = call->in.got;
        switch (grpc__in_step(&call->in, pool, &input, &out)) {
        case GRPC__IN_HEAD: call_message_head(call); break;
        case GRPC__IN_MESSAGE: call_message(call, out); break;
        case GRPC__IN_PIECE: call->events->on_piece(call->arg, call, call->in.need, at, out); break;
        case GRPC__IN_MORE: more = false; break;
        case GRPC__IN_NOMEM:
            call_give_up(call, GRPC_RESOURCE_EXHAUSTED, bytes_str(err_text(E_NOMEM)));
            break;
        }
    }
    call->parsing = false;
    return input;
}

static void call_extend(struct grpc_client_call *call, size_t used)
{
    if (used == 0 || call->ended) return;
    (void)nghttp2_session_consume_stream(call->conn->session, call->stream_id, used);
}

void grpc__client_data(struct grpc_client_call *call, struct bytes chunk)
{
    if (call->ended || !call->headers_seen) return;
    struct bytes left = call->held ? chunk : call_parse(call, chunk);
    call_extend(call, chunk.len - left.len);
    if (call->ended || left.len == 0) return;
    if (buf_put_bytes(&call->backlog, left) < 0) {
        call_give_up(call, GRPC_RESOURCE_EXHAUSTED, bytes_str(err_text(E_NOMEM)));
    }
}

/* ---- receiving: the end --------------------------------------------------------------------------- */

/* A good status for a call that got less than it must is none. */
static void call_judge_ok(struct grpc_client_call *call)
{
    const char *text = NULL;
    if (call->code != GRPC_OK) return;
    if (grpc__in_midway(&call->in)) {
        text = "unexpected EOF";
    } else if (call_one_answer(call) && !call->got_message) {
        text = "cardinality violation: received no response message from non-server-streaming RPC";
    }
    if (text == NULL) return;
    call->decided = false;
    call_decide(call, GRPC_INTERNAL, bytes_str(text));
}

/* The server is done with the call: tells the end now, or once the hold is released. */
static void call_settle(struct grpc_client_call *call, bool with_trailers)
{
    if (call->ended) return; /* its on_end is on the way */
    if (call->held) return;
    call_judge_ok(call);
    call_tell_end(call, with_trailers);
}

/* No more of our side is wanted. */
static void call_stop_sending(struct grpc_client_call *call)
{
    if (nghttp2_session_get_stream_local_close(call->conn->session, call->stream_id) == 0) {
        call_rst(call, NGHTTP2_NO_ERROR);
    }
}

static struct bytes head_find(const struct grpc__heads *h, const char *name)
{
    const struct grpc_head head = {.fields = h->fields, .field_count = h->count};
    return grpc_head_get(&head, name);
}

static const struct http_status {
    const char *number;
    const char *words;
    enum grpc_code code;
} HTTP_STATUSES[] = {
    {"200", "OK", GRPC_UNKNOWN},
    {"400", "Bad Request", GRPC_INTERNAL},
    {"401", "Unauthorized", GRPC_UNAUTHENTICATED},
    {"403", "Forbidden", GRPC_PERMISSION_DENIED},
    {"404", "Not Found", GRPC_UNIMPLEMENTED},
    {"405", "Method Not Allowed", GRPC_UNKNOWN},
    {"415", "Unsupported Media Type", GRPC_UNKNOWN},
    {"421", "Misdirected Request", GRPC_UNKNOWN},
    {"429", "Too Many Requests", GRPC_UNAVAILABLE},
    {"500", "Internal Server Error", GRPC_UNKNOWN},
    {"502", "Bad Gateway", GRPC_UNAVAILABLE},
    {"503", "Service Unavailable", GRPC_UNAVAILABLE},
    {"504", "Gateway Timeout", GRPC_UNAVAILABLE},
};

static const struct http_status *http_status_find(struct bytes number)
{
    for (size_t i = 0; i < sizeof HTTP_STATUSES / sizeof *HTTP_STATUSES; i++) {
        if (grpc__is(number, HTTP_STATUSES[i].number)) return &HTTP_STATUSES[i];
    }
    return NULL;
}

/* Whoever answered does not speak gRPC. */
static void call_not_grpc(struct grpc_client_call *call)
{
    struct grpc_client_conn *c = call->conn;
    struct bytes number = head_find(&c->heads, ":status");
    struct bytes type = head_find(&c->heads, "content-type");
    const struct http_status *s = http_status_find(number);
    struct buf text = BUF_EMPTY;
    buf_init(&text, grpc_pool_alloc(c->opts.pool), GRPC_TEXT_BYTES_MAX);
    int rc = buf_printf(&text, "unexpected HTTP status code received from server: %.*s (%s); ",
                        (int)number.len, (const char *)number.data, s == NULL ? "" : s->words);
    if (rc == 0 && type.data == NULL) {
        (void)buf_put_str(&text, "malformed header: missing HTTP content-type");
    } else if (rc == 0) {
        rc = buf_put_str(&text, "transport: received unexpected content-type ");
        if (rc == 0) (void)text_put_quoted(&text, type);
    }
    call_give_up(call, s == NULL ? GRPC_UNKNOWN : s->code, buf_bytes(&text));
    buf_deinit(&text);
}

/* "13" -> GRPC_INTERNAL; what is no code we know is Unknown. */
static enum grpc_code code_parse(struct bytes text)
{
    unsigned value = 0;
    if (text.len == 0 || text.len > 2) return GRPC_UNKNOWN;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return GRPC_UNKNOWN;
        value = value * 10 + (unsigned)(text.data[i] - '0');
    }
    return value <= GRPC_UNAUTHENTICATED ? (enum grpc_code)value : GRPC_UNKNOWN;
}

static void call_trailers(struct grpc_client_call *call)
{
    struct grpc_client_conn *c = call->conn;
    struct buf text = BUF_EMPTY;
    buf_init(&text, grpc_pool_alloc(c->opts.pool), GRPC_TEXT_BYTES_MAX);
    (void)grpc__message_decode(&text, head_find(&c->heads, "grpc-message"));
    call_decide(call, code_parse(head_find(&c->heads, "grpc-status")), buf_bytes(&text));
    call->from_server = true;
    buf_deinit(&text);
    call_stop_sending(call);
    call_settle(call, true);
}

static bool informational(const struct grpc__heads *h)
{
    struct bytes status = head_find(h, ":status");
    return status.len == 3 && status.data[0] == '1';
}

void grpc__client_headers(struct grpc_client_call *call, bool end_stream)
{
    struct grpc_client_conn *c = call->conn;
    struct bytes suffix = BYTES_EMPTY;
    if (call->ended || (!end_stream && informational(&c->heads))) return;
    if (!call->headers_seen && !grpc__content_type(head_find(&c->heads, "content-type"), &suffix)) {
        call_not_grpc(call);
        return;
    }
    if (end_stream) {
        call_trailers(call);
        return;
    }
    if (call->headers_seen) {
        call_give_up(call, GRPC_INTERNAL,
                     bytes_str("a HEADERS frame cannot appear in the middle of a stream"));
        return;
    }
    call->headers_seen = true;
    call->gzip_in = grpc__is(head_find(&c->heads, "grpc-encoding"), "gzip");
    if (call->events->on_headers != NULL) {
        call->events->on_headers(call->arg, call, c->heads.fields, c->heads.count);
    }
}

void grpc__client_no_trailers(struct grpc_client_call *call)
{
    if (call->decided) return;
    call_decide(call, GRPC_INTERNAL,
                bytes_str("server closed the stream without sending trailers"));
    call_stop_sending(call);
    call_settle(call, false);
}

static const struct reset_status {
    const char *name;
    enum grpc_code code;
} RESETS[] = {
    [NGHTTP2_NO_ERROR] = {"NO_ERROR", GRPC_INTERNAL},
    [NGHTTP2_PROTOCOL_ERROR] = {"PROTOCOL_ERROR", GRPC_INTERNAL},
    [NGHTTP2_INTERNAL_ERROR] = {"INTERNAL_ERROR", GRPC_INTERNAL},
    [NGHTTP2_FLOW_CONTROL_ERROR] = {"FLOW_CONTROL_ERROR", GRPC_RESOURCE_EXHAUSTED},
    [NGHTTP2_SETTINGS_TIMEOUT] = {"SETTINGS_TIMEOUT", GRPC_INTERNAL},
    [NGHTTP2_STREAM_CLOSED] = {"STREAM_CLOSED", GRPC_INTERNAL},
    [NGHTTP2_FRAME_SIZE_ERROR] = {"FRAME_SIZE_ERROR", GRPC_INTERNAL},
    [NGHTTP2_REFUSED_STREAM] = {"REFUSED_STREAM", GRPC_UNAVAILABLE},
    [NGHTTP2_CANCEL] = {"CANCEL", GRPC_CANCELED},
    [NGHTTP2_COMPRESSION_ERROR] = {"COMPRESSION_ERROR", GRPC_INTERNAL},
    [NGHTTP2_CONNECT_ERROR] = {"CONNECT_ERROR", GRPC_INTERNAL},
    [NGHTTP2_ENHANCE_YOUR_CALM] = {"ENHANCE_YOUR_CALM", GRPC_RESOURCE_EXHAUSTED},
    [NGHTTP2_INADEQUATE_SECURITY] = {"INADEQUATE_SECURITY", GRPC_PERMISSION_DENIED},
    [NGHTTP2_HTTP_1_1_REQUIRED] = {"HTTP_1_1_REQUIRED", GRPC_INTERNAL},
};

void grpc__client_closed(struct grpc_client_call *call, uint32_t http2_code)
{
    struct grpc_client_conn *c = call->conn;
    if (call->decided) return; /* told by its own path */
    bool known = http2_code < sizeof RESETS / sizeof *RESETS && RESETS[http2_code].name != NULL;
    enum grpc_code code = known ? RESETS[http2_code].code : GRPC_UNKNOWN;
    char text[96];
    int n = snprintf(text, sizeof text, "stream terminated by RST_STREAM with error code: %s",
                     known ? RESETS[http2_code].name : "unknown");
    struct bytes words = bytes_of(text, (size_t)n);
    call->unprocessed = http2_code == NGHTTP2_REFUSED_STREAM;
    if (code == GRPC_CANCELED && call->deadline_ns <= c->now_ns) code = GRPC_DEADLINE_EXCEEDED;
    if (call->unprocessed && c->draining) words = bytes_str("the connection is draining");
    call->held = false;
    grpc__client_end(call, code, words);
}

/* ---- hold ------------------------------------------------------------------------------------------ */

void grpc_client_hold(struct grpc_client_call *call)
{
    call->held = true;
}

void grpc_client_release(struct grpc_client_call *call)
{
    if (!call->held) return;
    call->held = false;
    if (call->parsing || call->ended) return;
    struct buf old = call->backlog;
    buf_init(&call->backlog, old.alloc, old.bytes_max);
    struct bytes left = call_parse(call, buf_bytes(&old));
    call_extend(call, old.len - left.len);
    if (!call->ended && left.len > 0 && buf_put_bytes(&call->backlog, left) < 0) {
        call_give_up(call, GRPC_RESOURCE_EXHAUSTED, bytes_str(err_text(E_NOMEM)));
    }
    buf_deinit(&old);
    if (!call->decided || call->ended || call->held) return;
    call_judge_ok(call); /* on_end follows, but not from inside this function */
    call->ended = true;
    list_remove(&call->end_link);
    list_push_back(&call->conn->ending, &call->end_link);
}

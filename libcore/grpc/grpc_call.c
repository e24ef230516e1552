/* One call of the server's side: sending and ending.
 *
 * HEADERS are handed to nghttp2 with the first message, DATA is made when nghttp2 asks for it, trailers are
 * handed over with the last DATA frame, so a whole unary answer leaves in one write. A payload of copies is
 * written straight behind its frame head in the pull's buffer (NO_COPY); one with a source in it goes
 * through nghttp2's frame buffer, because a source may give less than was hoped for. */
#include "grpc/grpc_conn_int.h"

#include "base/assert.h"

enum { SOURCES_QUEUED_MAX = 2 };

static nghttp2_nv nv_static(const char *name, struct bytes value)
{
    nghttp2_nv nv = grpc__nv(name, value);
    nv.flags |= NGHTTP2_NV_FLAG_NO_COPY_VALUE;
    return nv;
}

struct grpc_call *grpc__call_new(struct grpc_conn *c, int32_t stream_id, uint64_t deadline_ns)
{
    struct grpc_call *call = grpc_pool_get(c->opts.pool, sizeof *call);
    if (call == NULL) return NULL;
    *call = (struct grpc_call){.conn = c, .stream_id = stream_id, .deadline_ns = deadline_ns};
    const struct alloc *a = grpc_pool_alloc(c->opts.pool);
    list_init(&call->link);
    list_init(&call->wait_link);
    list_init(&call->writable_link);
    buf_init(&call->text, a, 4 * GRPC_TEXT_BYTES_MAX);
    buf_init(&call->backlog, a, UINT32_MAX);
    bool timed = deadline_ns != GRPC_NEVER;
    if ((timed && heap_push(&c->deadlines, &call->timer) < 0) ||
        nghttp2_session_set_stream_user_data(c->session, stream_id, call) != 0) {
        grpc__call_free(call);
        return NULL;
    }
    list_push_back(&c->calls, &call->link);
    c->call_count++;
    return call;
}

static void call_drop_queue(struct grpc_call *call)
{
    call->conn->queued_bytes -= call->out.bytes;
    grpc__queue_deinit(&call->out, call->conn->opts.pool);
}

static void call_stop_timer(struct grpc_call *call)
{
    if (heap_item_queued(&call->timer)) heap_remove(&call->conn->deadlines, &call->timer);
}

void grpc__call_free(struct grpc_call *call)
{
    struct grpc_conn *c = call->conn;
    struct grpc_pool *pool = c->opts.pool;
    call_stop_timer(call);
    grpc__call_unreserve(call);
    list_remove(&call->link);
    list_remove(&call->writable_link);
    call_drop_queue(call);
    grpc__in_deinit(&call->in, pool);
    buf_deinit(&call->text);
    buf_deinit(&call->backlog);
    grpc_pool_put(pool, call, sizeof *call);
}

void grpc__call_set_suffix(struct grpc_call *call, struct bytes suffix)
{
    static const char base[] = "application/grpc+";
    const size_t len = sizeof base - 1;
    if (suffix.len == 0 || suffix.len > sizeof call->type - len) return;
    memcpy(call->type, base, len);
    memcpy(call->type + len, suffix.data, suffix.len);
    call->type_len = (uint8_t)(len + suffix.len);
}

static struct bytes call_type(const struct grpc_call *call)
{
    if (call->type_len > 0) return bytes_of(call->type, call->type_len);
    return bytes_str("application/grpc");
}

/* ---- the handler's side ---------------------------------------------------------------------- */

void grpc_call_set_data(struct grpc_call *call, void *data)
{
    call->data = data;
}

void *grpc_call_data(const struct grpc_call *call)
{
    return call->data;
}

struct grpc_conn *grpc_call_conn(const struct grpc_call *call)
{
    return call->conn;
}

uint64_t grpc_call_deadline_ns(const struct grpc_call *call)
{
    return call->deadline_ns;
}

static bool call_has_room(const struct grpc_call *call)
{
    return call->out.bytes <= call->conn->opts.call_queue_bytes &&
           call->out.source_count < SOURCES_QUEUED_MAX;
}

bool grpc_call_writable(struct grpc_call *call)
{
    bool room = call_has_room(call);
    call->unwritable = !room;
    return room;
}

/* Nothing can be said any more: the stream goes, or without memory even for that the connection. */
static void call_rst(struct grpc_call *call, uint32_t http2_code)
{
    int rc = nghttp2_submit_rst_stream(call->conn->session, NGHTTP2_FLAG_NONE, call->stream_id,
                                       http2_code);
    if (rc != 0) call->conn->dead = true;
}

/* Hands the answer's headers over; DATA is then asked for by grpc__call_read(). */
static int call_open_answer(struct grpc_call *call)
{
    if (call->headers_sent) return 0;
    const nghttp2_nv nv[] = {
        nv_static(":status", bytes_str("200")),
        nv_static("content-type", call_type(call)),
        nv_static("grpc-encoding", bytes_str("gzip")),
    };
    const size_t count = call->gzip_in ? 3 : 2;
    const nghttp2_data_provider provider = {.source = {.ptr = call},
                                            .read_callback = grpc__call_read};
    int rc = nghttp2_submit_response(call->conn->session, call->stream_id, nv, count, &provider);
    if (rc != 0) return E_NOMEM;
    call->headers_sent = true;
    return 0;
}

static void call_wake(struct grpc_call *call)
{
    if (!call->deferred) return;
    call->deferred = false;
    if (nghttp2_session_resume_data(call->conn->session, call->stream_id) == NGHTTP2_ERR_NOMEM) {
        call_rst(call, NGHTTP2_INTERNAL_ERROR);
    }
}

/* What must hold before a message is queued. */
static int call_send_check(struct grpc_call *call, uint64_t total)
{
    ASSERT(call->stage == CALL_OPEN);
    if (total > UINT32_MAX) return E_TOOBIG;
    if (!grpc_call_writable(call)) return E_AGAIN;
    return 0;
}

static int call_put_gzip(struct grpc_call *call, const struct grpc_part *parts, size_t count)
{
    struct grpc_conn *c = call->conn;
    struct buf zipped = BUF_EMPTY;
    buf_init(&zipped, grpc_pool_alloc(c->opts.pool), UINT32_MAX);
    int rc = grpc__gzip(c->opts.pool, parts, count, &zipped);
    const struct grpc_part whole = {.bytes = buf_bytes(&zipped)};
    if (rc == 0) {
        rc = grpc__queue_put_message(&call->out, c->opts.pool, 1, &whole, 1, zipped.len);
    }
    buf_deinit(&zipped);
    return rc;
}

int grpc_call_send_parts(struct grpc_call *call, const struct grpc_part *parts, size_t count)
{
    struct grpc_conn *c = call->conn;
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += parts[i].bytes.len;
    int rc = call_send_check(call, total);
    if (rc < 0) return rc;
    size_t before = call->out.bytes;
    /* An empty message is never compressed, as upstream. */
    rc = call->gzip_in && total > 0
             ? call_put_gzip(call, parts, count)
             : grpc__queue_put_message(&call->out, c->opts.pool, 0, parts, count, (size_t)total);
    if (rc < 0) return rc;
    c->queued_bytes += call->out.bytes - before;
    rc = call_open_answer(call);
    if (rc < 0) { /* nothing was queued before, or the headers would have been sent */
        call_drop_queue(call);
        return rc;
    }
    call_wake(call);
    return 0;
}

int grpc_call_send(struct grpc_call *call, struct bytes msg)
{
    const struct grpc_part part = {.bytes = msg};
    return grpc_call_send_parts(call, &part, 1);
}

int grpc_call_send_source(struct grpc_call *call, const struct grpc_source *source)
{
    struct grpc_conn *c = call->conn;
    int rc = call_send_check(call, source->len);
    if (rc == 0) rc = call_open_answer(call);
    if (rc < 0) return rc;
    size_t before = call->out.bytes;
    rc = grpc__queue_put_source(&call->out, c->opts.pool, source);
    if (rc < 0) return rc;
    c->queued_bytes += call->out.bytes - before;
    call_wake(call);
    return 0;
}

void grpc_call_resume(struct grpc_call *call)
{
    call_wake(call);
}

/* An error without data: HEADERS that are trailers as well. */
static int call_trailers_only(struct grpc_call *call)
{
    const nghttp2_nv nv[] = {
        nv_static(":status", bytes_str("200")),
        nv_static("content-type", call_type(call)),
        nv_static("grpc-status", bytes_str(grpc__code_text(call->code))),
        nv_static("grpc-message", buf_bytes(&call->text)),
    };
    return nghttp2_submit_response(call->conn->session, call->stream_id, nv, sizeof nv / sizeof *nv,
                                   NULL);
}

/* Texts are cut at a bound, never refused: a status must always get through. */
static int call_set_text(struct grpc_call *call, struct bytes text)
{
    if (text.len > GRPC_TEXT_BYTES_MAX) text.len = GRPC_TEXT_BYTES_MAX;
    buf_reset(&call->text);
    if (grpc__message_plain(text)) return buf_put_bytes(&call->text, text);
    return grpc__message_encode(&call->text, text);
}

void grpc_call_finish(struct grpc_call *call, enum grpc_code code, struct bytes text)
{
    ASSERT(call->stage == CALL_OPEN);
    call_stop_timer(call);
    grpc__call_unreserve(call);
    call->stage = CALL_FINISHED;
    call->code = (uint8_t)code;
    int rc = text.len == 0 ? 0 : call_set_text(call, text);
    if (rc == 0 && !call->headers_sent) {
        rc = call_trailers_only(call) == 0 ? 0 : E_NOMEM;
    } else if (rc == 0) {
        call_wake(call);
    }
    if (rc < 0) call_rst(call, NGHTTP2_INTERNAL_ERROR);
}

void grpc_call_finish_err(struct grpc_call *call, int rc)
{
    if (rc == 0)
        grpc_call_finish(call, GRPC_OK, BYTES_EMPTY);
    else
        grpc_call_finish(call, err_grpc_code(rc), bytes_str(err_text(rc)));
}

void grpc_call_finish_unknown(struct grpc_call *call, const struct grpc_head *head,
                              bool service_known)
{
    struct buf text = BUF_EMPTY;
    buf_init(&text, grpc_pool_alloc(call->conn->opts.pool), GRPC_TEXT_BYTES_MAX);
    int rc = 0;
    if (service_known) {
        rc = buf_put_str(&text, "unknown method ");
        if (rc == 0) rc = buf_put_bytes(&text, head->method);
        if (rc == 0) rc = buf_put_str(&text, " for service ");
    } else {
        rc = buf_put_str(&text, "unknown service ");
    }
    if (rc == 0) rc = buf_put_bytes(&text, head->service);
    grpc_call_finish(call, GRPC_UNIMPLEMENTED, rc == 0 ? buf_bytes(&text) : BYTES_EMPTY);
    buf_deinit(&text);
}

void grpc_call_reset(struct grpc_call *call, uint32_t http2_code)
{
    ASSERT(call->stage == CALL_OPEN);
    call->stage = CALL_RESET;
    call_stop_timer(call);
    grpc__call_unreserve(call);
    call_drop_queue(call);
    call_rst(call, http2_code);
}

/* ---- the connection's side ------------------------------------------------------------------- */

void grpc__call_fail(struct grpc_call *call, enum grpc_code code, struct bytes text)
{
    bool told = call->begun && call->stage == CALL_OPEN;
    grpc_call_finish(call, code, text);
    const struct grpc_handler *h = call->conn->handler;
    if (told) h->on_cancel(h->arg, call, call->data, GRPC_CANCEL_ERROR);
}

void grpc__call_cancel(struct grpc_call *call, enum grpc_cancel why)
{
    bool told = call->begun && call->stage == CALL_OPEN;
    if (call->stage == CALL_OPEN) call->stage = CALL_RESET;
    const struct grpc_handler *h = call->conn->handler;
    if (told) h->on_cancel(h->arg, call, call->data, why);
}

void grpc__call_expire(struct grpc_call *call)
{
    call_stop_timer(call);
    call_drop_queue(call);
    call_rst(call, NGHTTP2_CANCEL);
    grpc__call_cancel(call, GRPC_CANCEL_DEADLINE);
}

/* The last DATA frame is being made (or none is needed): trailers follow it. */
static ssize_t call_end_data(struct grpc_call *call, ssize_t n, uint32_t *flags)
{
    const nghttp2_nv nv[] = {
        nv_static("grpc-status", bytes_str(grpc__code_text(call->code))),
        nv_static("grpc-message", buf_bytes(&call->text)),
    };
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    int rc =
        nghttp2_submit_trailer(call->conn->session, call->stream_id, nv, sizeof nv / sizeof *nv);
    return rc == 0 ? n : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static void call_note_room(struct grpc_call *call)
{
    if (!call->unwritable || call->stage != CALL_OPEN) return;
    if (call->out.bytes > call->conn->opts.call_queue_bytes / 2 || !call_has_room(call)) return;
    call->unwritable = false;
    list_remove(&call->writable_link);
    list_push_back(&call->conn->writable, &call->writable_link);
}

int grpc__call_take(struct grpc_call *call, uint8_t *out, size_t cap)
{
    struct grpc_conn *c = call->conn;
    size_t before = call->out.bytes;
    int n = grpc__queue_read(&call->out, c->opts.pool, out, cap);
    c->queued_bytes -= before - call->out.bytes;
    call_note_room(call);
    return n;
}

ssize_t grpc__call_read(nghttp2_session *session, int32_t stream_id, uint8_t *out, size_t cap,
                        uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct grpc_call *call = source->ptr;
    bool finished = call->stage == CALL_FINISHED;
    if (grpc__queue_empty(&call->out)) {
        if (finished) return call_end_data(call, 0, flags);
        call->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (call->out.source_count == 0) { /* written by the send callback, which cannot fall short */
        size_t n = call->out.bytes < cap ? call->out.bytes : cap;
        *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
        if (finished && n == call->out.bytes) return call_end_data(call, (ssize_t)n, flags);
        return (ssize_t)n;
    }
    int n = grpc__call_take(call, out, cap);
    if (n == E_AGAIN) {
        call->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n < 0) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (finished && grpc__queue_empty(&call->out)) return call_end_data(call, n, flags);
    return n;
}

/* A request's headers: collected, judged in upstream's order, turned into a call.
 *
 * nghttp2's own checks of HTTP semantics are off, because they demand :authority, which gRPC
 * clients may leave out (http.md, section 5); what a server must refuse is refused here. */
#include "grpc/grpc_conn_int.h"

#include "base/assert.h"
#include "base/text.h"

void grpc__request_begin(struct grpc_conn *c, int32_t stream_id)
{
    struct grpc__request *r = &c->req;
    grpc__heads_reset(&r->heads);
    *r = (struct grpc__request){
        .heads = r->heads, .stream_id = stream_id, .begun_ns = c->now_ns == 0 ? 1 : c->now_ns};
}

/* Pseudo headers: before all others and each known one. False: malformed. */
static bool field_pseudo(struct grpc__request *r, struct bytes name, struct bytes value)
{
    if (r->regular) return false;
    if (grpc__is(name, ":method"))
        r->method = value;
    else if (grpc__is(name, ":path"))
        r->path = value;
    else if (grpc__is(name, ":authority"))
        r->authority_count++, r->authority = value;
    else
        return grpc__is(name, ":scheme");
    return true;
}

/* Fields that the transport reads; false: metadata. */
static bool field_transport(struct grpc__request *r, struct bytes name, struct bytes value)
{
    switch (name.len) {
    case 2: return grpc__is(name, "te");
    case 4:
        if (!grpc__is(name, "host")) return false;
        r->host_count++;
        r->host = value;
        return true;
    case 10:
        if (grpc__is(name, "connection"))
            r->failed = E_PROTO;
        else if (grpc__is(name, "user-agent"))
            r->user_agent = value;
        else
            return false;
        return true;
    case 12:
        if (grpc__is(name, "content-type"))
            r->content_type = value;
        else if (grpc__is(name, "grpc-timeout"))
            r->timeout_set = true, r->timeout = value;
        else
            return false;
        return true;
    case 13:
        if (!grpc__is(name, "grpc-encoding")) return false;
        r->encoding = value;
        return true;
    case 20: return grpc__is(name, "grpc-accept-encoding");
    default: return false;
    }
}

/* A name that is known needs no check of its letters. */
static bool field_valid(struct bytes name, struct bytes value, bool known)
{
    if (!known && nghttp2_check_header_name(name.data, name.len) == 0) return false;
    return nghttp2_check_header_value(value.data, value.len) != 0;
}

void grpc__request_field(struct grpc_conn *c, nghttp2_rcbuf *name_buf, nghttp2_rcbuf *value_buf)
{
    struct grpc__request *r = &c->req;
    struct bytes name = grpc__rcbuf_bytes(name_buf);
    struct bytes value = grpc__rcbuf_bytes(value_buf);
    if (r->failed != 0) return;
    bool pseudo = name.len > 0 && name.data[0] == ':';
    bool known = pseudo ? field_pseudo(r, name, value) : field_transport(r, name, value);
    if (!pseudo) r->regular = true;
    if ((pseudo && !known) || !field_valid(name, value, known)) r->failed = E_PROTO;
    if (r->failed != 0) return;
    int rc = known ? grpc__heads_add_own(&r->heads, name_buf, value_buf)
                   : grpc__heads_add(&r->heads, name_buf, value_buf);
    if (rc < 0) r->failed = rc;
}

static int reset_stream(struct grpc_conn *c, int32_t stream_id, uint32_t code)
{
    return nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, stream_id, code);
}

int grpc__abort(struct grpc_conn *c, int32_t stream_id, const char *http_status,
                struct bytes suffix, enum grpc_code code, struct bytes text)
{
    struct buf type = BUF_EMPTY;
    struct buf message = BUF_EMPTY;
    buf_init(&type, grpc_pool_alloc(c->opts.pool), GRPC_TEXT_BYTES_MAX);
    buf_init(&message, grpc_pool_alloc(c->opts.pool), 4 * GRPC_TEXT_BYTES_MAX);
    int rc = buf_put_str(&type, suffix.len > 0 ? "application/grpc+" : "application/grpc");
    if (rc == 0) rc = buf_put_bytes(&type, suffix);
    if (rc == 0) rc = grpc__message_encode(&message, text);
    if (rc < 0) {
        rc = reset_stream(c, stream_id, NGHTTP2_INTERNAL_ERROR);
        goto out;
    }
    const nghttp2_nv nv[] = {
        grpc__nv(":status", bytes_str(http_status)),
        grpc__nv("content-type", buf_bytes(&type)),
        grpc__nv("grpc-status", bytes_str(grpc__code_text(code))),
        grpc__nv("grpc-message", buf_bytes(&message)),
    };
    rc = nghttp2_submit_response(c->session, stream_id, nv, sizeof nv / sizeof *nv, NULL);
out:
    buf_deinit(&type);
    buf_deinit(&message);
    return nghttp2_is_fatal(rc) ? rc : 0;
}

/* Answers with a text that quotes something of the client's. */
static int abort_quoted(struct grpc_conn *c, int32_t id, const char *http_status,
                        struct bytes suffix, enum grpc_code code, const char *before,
                        struct bytes quoted, const char *after)
{
    struct buf text = BUF_EMPTY;
    buf_init(&text, grpc_pool_alloc(c->opts.pool), GRPC_TEXT_BYTES_MAX);
    int rc = buf_put_str(&text, before);
    if (rc == 0) rc = text_put_quoted(&text, quoted);
    if (rc == 0) rc = buf_put_str(&text, after);
    rc = rc < 0 ? reset_stream(c, id, NGHTTP2_INTERNAL_ERROR)
                : grpc__abort(c, id, http_status, suffix, code, buf_bytes(&text));
    buf_deinit(&text);
    return rc;
}

static int abort_timeout(struct grpc_conn *c, int32_t id, struct bytes suffix, struct errmsg *em)
{
    errmsg_prefix(em, "malformed grpc-timeout");
    return grpc__abort(c, id, "400", suffix, GRPC_INTERNAL, bytes_str(em->text));
}

static int abort_hosts(struct grpc_conn *c, int32_t id)
{
    struct errmsg em = {{0}};
    errmsg_set(&em,
               "num values of :authority: %u, num values of host: %u, both must only have 1 value "
               "as per HTTP/2 spec",
               c->req.authority_count, c->req.host_count);
    return grpc__abort(c, id, "400", BYTES_EMPTY, GRPC_INTERNAL, bytes_str(em.text));
}

static uint32_t calls_max(const struct grpc_conn *c)
{
    return c->opts.streams_max < GRPC_CALLS_MAX ? c->opts.streams_max : GRPC_CALLS_MAX;
}

/* Splits "/service/method" at its last slash; false when it has not two. */
static bool path_split(struct bytes path, struct grpc_head *head)
{
    if (path.len == 0 || path.data[0] != '/') return false;
    size_t last = path.len - 1;
    while (path.data[last] != '/')
        last--;
    if (last == 0) return false;
    head->path = path;
    head->service = bytes_of(path.data + 1, last - 1);
    head->method = bytes_of(path.data + last + 1, path.len - last - 1);
    return true;
}

static void call_encoding(struct grpc_call *call, struct bytes encoding)
{
    if (encoding.len == 0 || grpc__is(encoding, "identity")) return;
    if (grpc__is(encoding, "gzip")) {
        call->gzip_in = true;
        return;
    }
    struct buf text = BUF_EMPTY;
    buf_init(&text, grpc_pool_alloc(call->conn->opts.pool), GRPC_TEXT_BYTES_MAX);
    int rc = buf_put_str(&text, "grpc: Decompressor is not installed for grpc-encoding ");
    if (rc == 0) (void)text_put_quoted(&text, encoding);
    grpc__call_fail(call, GRPC_UNIMPLEMENTED, buf_bytes(&text));
    buf_deinit(&text);
}

/* Lets the handler judge the call; the spans in `head` live until this returns. */
static int call_begin(struct grpc_conn *c, struct grpc_head *head, struct bytes suffix,
                      bool end_stream)
{
    struct grpc__request *r = &c->req;
    struct grpc_call *call = grpc__call_new(c, r->stream_id, head->deadline_ns);
    if (call == NULL) return reset_stream(c, r->stream_id, NGHTTP2_REFUSED_STREAM);
    grpc__call_set_suffix(call, suffix);
    enum grpc_kind kind = c->handler->on_call(c->handler->arg, call, head);
    if (call->stage != CALL_OPEN) return 0;
    call->kind = (uint8_t)kind;
    call->begun = true;
    call_encoding(call, r->encoding);
    if (end_stream) grpc__call_half_close(call);
    return 0;
}

/* Rules that close or reset before anything is looked at. Returns whether one did. */
static bool request_refused(struct grpc_conn *c, int32_t id, int *rc)
{
    const struct grpc__request *r = &c->req;
    uint32_t code = NGHTTP2_NO_ERROR;
    if (r->failed == E_TOOBIG)
        code = NGHTTP2_FRAME_SIZE_ERROR;
    else if (r->failed == E_NOMEM)
        code = NGHTTP2_REFUSED_STREAM;
    else if (r->failed != 0)
        code = NGHTTP2_PROTOCOL_ERROR;
    if (code == NGHTTP2_NO_ERROR) return false;
    *rc = reset_stream(c, id, code);
    grpc__live_reset(c);
    return true;
}

static bool request_over_limit(struct grpc_conn *c, int32_t id, int *rc)
{
    if (c->call_count < calls_max(c) && c->queued_bytes <= c->opts.conn_queue_bytes_max) {
        return false;
    }
    *rc = reset_stream(c, id, NGHTTP2_REFUSED_STREAM);
    grpc__live_reset(c);
    return true;
}

static int request_start(struct grpc_conn *c, int32_t id, struct bytes suffix, uint64_t timeout_ns,
                         bool end_stream)
{
    struct grpc__request *r = &c->req;
    if (!grpc__is(r->method, "POST")) {
        return abort_quoted(c, id, "405", suffix, GRPC_INTERNAL,
                            "Received a HEADERS frame with :method ", r->method,
                            " which should be POST");
    }
    if (timeout_ns == 0) {
        return grpc__abort(c, id, "200", suffix, GRPC_DEADLINE_EXCEEDED,
                           bytes_str(err_text(E_DEADLINE_EXCEEDED)));
    }
    struct grpc_head head = {
        .authority = r->authority_count > 0 ? r->authority : r->host,
        .user_agent = r->user_agent,
        .fields = r->heads.fields,
        .field_count = r->heads.count,
        .deadline_ns = timeout_ns < GRPC_NEVER - c->now_ns ? c->now_ns + timeout_ns : GRPC_NEVER,
    };
    if (!path_split(r->path, &head)) {
        return abort_quoted(c, id, "200", suffix, GRPC_UNIMPLEMENTED,
                            "malformed method name: ", r->path, "");
    }
    return call_begin(c, &head, suffix, end_stream);
}

/* The order of the checks is upstream's: what is refused first decides what the client sees. */
static int request_judge(struct grpc_conn *c, int32_t id, bool end_stream)
{
    const struct grpc__request *r = &c->req;
    struct bytes suffix = BYTES_EMPTY;
    uint64_t timeout_ns = GRPC_NEVER;
    struct errmsg em = {{0}};
    int rc = 0;
    if (r->failed != E_PROTO && (r->authority_count > 1 || r->host_count > 1)) {
        return abort_hosts(c, id);
    }
    if (request_refused(c, id, &rc)) return rc;
    if (!grpc__content_type(r->content_type, &suffix)) {
        return abort_quoted(c, id, "415", BYTES_EMPTY, GRPC_INVALID_ARGUMENT,
                            "invalid gRPC request content-type ", r->content_type, "");
    }
    if (r->timeout_set && grpc__timeout_parse(r->timeout, &timeout_ns, &em) < 0) {
        return abort_timeout(c, id, suffix, &em);
    }
    if (c->drained) return 0; /* above the last stream that the second GOAWAY named */
    if (request_over_limit(c, id, &rc)) return rc;
    return request_start(c, id, suffix, timeout_ns, end_stream);
}

int grpc__request_end(struct grpc_conn *c, int32_t stream_id, bool end_stream)
{
    ASSERT(stream_id == c->req.stream_id);
    c->req.begun_ns = 0;
    int rc = request_judge(c, stream_id, end_stream);
    grpc__heads_reset(&c->req.heads);
    return rc;
}

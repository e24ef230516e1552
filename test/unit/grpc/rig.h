/* A server connection under test, with a scripted handler and two kinds of peers.
 *
 * `wire` is a bare nghttp2 client that can say anything and notes each frame as a line; bytes can also be fed
 * raw. Time is a number that the test moves. Everything both sides see goes to logs of lines, and tests compare
 * those. */
#ifndef TEST_UNIT_GRPC_RIG_H
#define TEST_UNIT_GRPC_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <nghttp2/nghttp2.h>

#include "grpc/grpc.h"
#include "test_heap.h"

#define RIG_SECOND   1000000000ULL
#define RIG_START_NS (1000 * RIG_SECOND)

struct rig_log {
    char text[65536];
    size_t len;
};

__attribute__((format(printf, 2, 3), unused)) static void rig_say(struct rig_log *l,
                                                                  const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(l->text + l->len, sizeof l->text - l->len, format, args);
    va_end(args);
    l->len += (size_t)n;
    if (l->len >= sizeof l->text) fail_msg("the log is full");
}

__attribute__((unused)) static void rig_forget(struct rig_log *l)
{
    l->len = 0;
    l->text[0] = 0;
}

/* The log is `expected`, and is then empty. */
#define EXPECT_LOG(l, expected)                                                                    \
    do {                                                                                           \
        assert_string_equal((l)->text, (expected));                                                \
        rig_forget(l);                                                                             \
    } while (0)

enum { RIG_WIRE_BODIES = 64, RIG_BODY_BYTES = 4 * 1024 * 1024 };

/* What a stream of the wire still has to send. */
struct rig_body {
    int32_t stream_id;
    const uint8_t *data;
    size_t len;
    size_t off;
    bool end;
};

struct rig {
    struct test_heap heap;
    struct grpc_pool *pool;
    struct grpc_conn_opts opts;
    struct grpc_conn *conn;
    struct grpc_handler handler;
    uint64_t now_ns;
    size_t step; /* bytes per feed; 0: all at once */
    int feed_rc;

    struct rig_log seen;    /* by the handler */
    struct grpc_call *last; /* of Later, Sink, Hold */
    uint64_t source_left;   /* of rig_source() */
    uint64_t source_ready;
    unsigned source_released;

    nghttp2_session *wire;
    struct rig_log frames; /* received by the wire */
    bool show_windows;
    bool deaf; /* the wire does not take the server's bytes */
    struct rig_body bodies[RIG_WIRE_BODIES];
    uint8_t *body; /* DATA that the wire received */
    size_t body_len;
    size_t order[4096]; /* stream of each DATA frame received */
    size_t order_count;
};

/* ---- the handler ----------------------------------------------------------------------------- */

struct rig_method {
    const char *name;
    enum grpc_kind kind;
};

static const struct rig_method RIG_METHODS[] = {
    {"Echo", GRPC_UNARY},
    {"Fail", GRPC_UNARY},
    {"Later", GRPC_UNARY},
    {"Server", GRPC_SERVER_STREAM},
    {"Bidi", GRPC_BIDI},
    {"Client", GRPC_CLIENT_STREAM},
    {"Sink", GRPC_BIDI},
    {"Hold", GRPC_BIDI},
    {"LaterStream", GRPC_SERVER_STREAM},
};

static bool rig_is(struct bytes s, const char *text)
{
    return bytes_eq(s, bytes_str(text));
}

static enum grpc_kind rig_on_call(void *arg, struct grpc_call *call, const struct grpc_head *head)
{
    struct rig *r = arg;
    rig_say(&r->seen, "call %.*s\n", (int)head->path.len, (const char *)head->path.data);
    for (size_t i = 0; i < head->field_count; i++) {
        rig_say(&r->seen, "  %.*s=%.*s\n", (int)head->fields[i].name.len,
                (const char *)head->fields[i].name.data, (int)head->fields[i].value.len,
                (const char *)head->fields[i].value.data);
    }
    if (rig_is(head->method, "Refuse")) {
        grpc_call_finish(call, GRPC_NOT_FOUND, bytes_str("refused"));
        return GRPC_UNARY;
    }
    for (size_t i = 0; i < sizeof RIG_METHODS / sizeof *RIG_METHODS; i++) {
        if (!rig_is(head->method, RIG_METHODS[i].name)) continue;
        grpc_call_set_data(call, (void *)(uintptr_t)&RIG_METHODS[i]);
        if (strcmp(RIG_METHODS[i].name, "Hold") == 0) grpc_call_hold(call);
        r->last = call;
        return RIG_METHODS[i].kind;
    }
    grpc_call_finish_unknown(call, head, rig_is(head->service, "t.S"));
    return GRPC_UNARY;
}

static void rig_send(struct rig *r, struct grpc_call *call, struct bytes msg)
{
    int rc = grpc_call_send(call, msg);
    if (rc == E_NOMEM)
        grpc_call_reset(call, NGHTTP2_INTERNAL_ERROR);
    else if (rc < 0)
        rig_say(&r->seen, "send %s\n", err_symbol(rc));
}

static void rig_answer(struct rig *r, struct grpc_call *call, const char *name, struct bytes msg)
{
    if (strcmp(name, "Echo") == 0) {
        int rc = grpc_call_send(call, msg);
        grpc_call_finish_err(call, rc);
    } else if (strcmp(name, "Fail") == 0) {
        grpc_call_finish(call, GRPC_INVALID_ARGUMENT, bytes_str("bad key: 100%\n\xc3\xa4"));
    } else if (strcmp(name, "Server") == 0) {
        for (int i = 0; i < 3; i++) {
            int rc = grpc_call_send(call, msg);
            if (rc == 0) continue;
            grpc_call_reset(call, NGHTTP2_INTERNAL_ERROR);
            return;
        }
        grpc_call_finish(call, GRPC_OK, BYTES_EMPTY);
    } else if (strcmp(name, "Bidi") == 0) {
        rig_send(r, call, msg);
    }
}

static void rig_on_message(void *arg, struct grpc_call *call, void *data, struct bytes msg)
{
    struct rig *r = arg;
    const struct rig_method *m = data;
    if (msg.len <= 32) {
        rig_say(&r->seen, "msg %s %.*s\n", m->name, (int)msg.len, (const char *)msg.data);
    } else {
        rig_say(&r->seen, "msg %s of %zu\n", m->name, msg.len);
    }
    rig_answer(r, call, m->name, msg);
}

static void rig_on_half_close(void *arg, struct grpc_call *call, void *data)
{
    struct rig *r = arg;
    const struct rig_method *m = data;
    rig_say(&r->seen, "half %s\n", m->name);
    if (strcmp(m->name, "Bidi") == 0) grpc_call_finish(call, GRPC_OK, BYTES_EMPTY);
    if (strcmp(m->name, "Client") == 0) {
        int rc = grpc_call_send(call, bytes_str("done"));
        grpc_call_finish_err(call, rc);
    }
}

static void rig_on_cancel(void *arg, struct grpc_call *call, void *data, enum grpc_cancel why)
{
    static const char *const names[] = {"peer", "deadline", "conn", "error"};
    struct rig *r = arg;
    const struct rig_method *m = data;
    rig_say(&r->seen, "cancel %s %s\n", m->name, names[why]);
    if (r->last == call) r->last = NULL;
}

static void rig_on_writable(void *arg, struct grpc_call *call, void *data)
{
    struct rig *r = arg;
    const struct rig_method *m = data;
    rig_say(&r->seen, "writable %s\n", m->name);
}

/* ---- a source -------------------------------------------------------------------------------- */

static int rig_source_pull(void *arg, uint8_t *out, size_t cap)
{
    struct rig *r = arg;
    if (r->source_left == UINT64_MAX) return E_IO;
    if (r->source_ready == 0) return E_AGAIN;
    size_t n = cap < r->source_ready ? cap : (size_t)r->source_ready;
    memset(out, 's', n);
    r->source_ready -= n;
    r->source_left -= n;
    return (int)n;
}

static void rig_source_release(void *arg)
{
    struct rig *r = arg;
    r->source_released++;
}

/* A source of `len` bytes of which `ready` are there. */
__attribute__((unused)) static struct grpc_source rig_source(struct rig *r, uint64_t len,
                                                             uint64_t ready)
{
    r->source_left = len;
    r->source_ready = ready;
    return (struct grpc_source){
        .len = len, .pull = rig_source_pull, .release = rig_source_release, .arg = r};
}

/* ---- the wire ---------------------------------------------------------------------------------- */

static int wire_on_header(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name,
                          size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                          void *arg)
{
    (void)s, (void)f, (void)flags;
    struct rig *r = arg;
    rig_say(&r->frames, "  %.*s: %.*s\n", (int)name_len, (const char *)name, (int)value_len,
            (const char *)value);
    return 0;
}

static int wire_on_begin_headers(nghttp2_session *s, const nghttp2_frame *f, void *arg)
{
    (void)s;
    struct rig *r = arg;
    bool end = (f->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    rig_say(&r->frames, "HEADERS %d%s\n", f->hd.stream_id, end ? " end" : "");
    return 0;
}

static int wire_on_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *data,
                        size_t len, void *arg)
{
    (void)s, (void)flags, (void)id;
    struct rig *r = arg;
    if (r->body_len + len > RIG_BODY_BYTES) fail_msg("too much DATA for the rig");
    memcpy(r->body + r->body_len, data, len);
    r->body_len += len;
    return 0;
}

static void wire_say_data(struct rig *r, const nghttp2_frame *f)
{
    bool end = (f->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    rig_say(&r->frames, "DATA %d %zu%s\n", f->hd.stream_id, f->hd.length, end ? " end" : "");
    if (r->order_count < 4096) r->order[r->order_count++] = (size_t)f->hd.stream_id;
}

static int wire_on_frame(nghttp2_session *s, const nghttp2_frame *f, void *arg)
{
    (void)s;
    struct rig *r = arg;
    const char *ack = (f->hd.flags & NGHTTP2_FLAG_ACK) != 0 ? " ack" : "";
    switch (f->hd.type) {
    case NGHTTP2_DATA: wire_say_data(r, f); break;
    case NGHTTP2_RST_STREAM:
        rig_say(&r->frames, "RST %d %u\n", f->hd.stream_id, f->rst_stream.error_code);
        break;
    case NGHTTP2_SETTINGS:
        rig_say(&r->frames, "SETTINGS%s\n", ack);
        for (size_t i = 0; i < f->settings.niv; i++) {
            rig_say(&r->frames, "  %d=%u\n", f->settings.iv[i].settings_id,
                    f->settings.iv[i].value);
        }
        break;
    case NGHTTP2_PING:
        rig_say(&r->frames, "PING %02x%02x%s\n", f->ping.opaque_data[0], f->ping.opaque_data[1],
                ack);
        break;
    case NGHTTP2_GOAWAY:
        rig_say(&r->frames, "GOAWAY %d %u %.*s\n", f->goaway.last_stream_id, f->goaway.error_code,
                (int)f->goaway.opaque_data_len, (const char *)f->goaway.opaque_data);
        break;
    case NGHTTP2_WINDOW_UPDATE:
        if (!r->show_windows) break;
        rig_say(&r->frames, "WINDOW %d %d\n", f->hd.stream_id,
                f->window_update.window_size_increment);
        break;
    default: break;
    }
    return 0;
}

static ssize_t wire_read(nghttp2_session *s, int32_t id, uint8_t *out, size_t cap, uint32_t *flags,
                         nghttp2_data_source *source, void *arg)
{
    (void)s, (void)id, (void)arg;
    struct rig_body *b = source->ptr;
    size_t n = b->len - b->off < cap ? b->len - b->off : cap;
    if (n == 0 && !b->end) return NGHTTP2_ERR_DEFERRED;
    if (n > 0) memcpy(out, b->data + b->off, n);
    b->off += n;
    if (b->end && b->off == b->len) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static void wire_new(struct rig *r)
{
    nghttp2_session_callbacks *cb;
    nghttp2_option *o;
    assert_int_equal(nghttp2_session_callbacks_new(&cb), 0);
    assert_int_equal(nghttp2_option_new(&o), 0);
    nghttp2_option_set_no_http_messaging(o, 1);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, wire_on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, wire_on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, wire_on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, wire_on_frame);
    assert_int_equal(nghttp2_session_client_new2(&r->wire, cb, r, o), 0);
    nghttp2_option_del(o);
    nghttp2_session_callbacks_del(cb);
    assert_int_equal(nghttp2_submit_settings(r->wire, 0, NULL, 0), 0);
}

#define RIG_H(n, v)                                                                                \
    {                                                                                              \
        (uint8_t *)(uintptr_t)(n), (uint8_t *)(uintptr_t)(v), strlen(n), strlen(v), 0              \
    }

static int32_t wire_submit(struct rig *r, const nghttp2_nv *nv, size_t count, struct bytes body,
                           bool end)
{
    for (size_t i = 0; i < RIG_WIRE_BODIES; i++) {
        struct rig_body *b = &r->bodies[i];
        if (b->stream_id != 0) continue;
        *b = (struct rig_body){.data = body.data, .len = body.len, .end = end};
        const nghttp2_data_provider p = {.source = {.ptr = b}, .read_callback = wire_read};
        bool none = body.len == 0 && end;
        b->stream_id = nghttp2_submit_request(r->wire, NULL, nv, count, none ? NULL : &p, NULL);
        assert_true(b->stream_id > 0);
        return b->stream_id;
    }
    fail_msg("no more bodies");
    return -1;
}

/* A POST of `path` with up to one further header; `body` stays in place until it is sent. */
__attribute__((unused)) static int32_t wire_call(struct rig *r, const char *path, const char *name,
                                                 const char *value, struct bytes body, bool end)
{
    const nghttp2_nv nv[] = {
        RIG_H(":method", "POST"), RIG_H(":scheme", "http"),
        RIG_H(":path", path),     RIG_H("content-type", "application/grpc"),
        RIG_H("te", "trailers"),  RIG_H(name == NULL ? "" : name, value == NULL ? "" : value)};
    return wire_submit(r, nv, name == NULL ? 5 : 6, body, end);
}

/* More of a body that was not ended. */
__attribute__((unused)) static void wire_more(struct rig *r, int32_t stream_id, struct bytes body,
                                              bool end)
{
    for (size_t i = 0; i < RIG_WIRE_BODIES; i++) {
        struct rig_body *b = &r->bodies[i];
        if (b->stream_id != stream_id) continue;
        assert_int_equal(b->off, b->len);
        *b = (struct rig_body){
            .stream_id = stream_id, .data = body.data, .len = body.len, .end = end};
        assert_int_equal(nghttp2_session_resume_data(r->wire, stream_id), 0);
        return;
    }
    fail_msg("no such stream");
}

/* ---- moving bytes ------------------------------------------------------------------------------ */

__attribute__((unused)) static int rig_feed(struct rig *r, const void *data, size_t len)
{
    const uint8_t *p = data;
    int rc = 0;
    while (len > 0 && rc == 0) {
        size_t n = r->step == 0 || r->step > len ? len : r->step;
        rc = grpc_conn_feed(r->conn, p, n, r->now_ns);
        p += n;
        len -= n;
    }
    if (rc < 0) r->feed_rc = rc;
    return rc;
}

static bool rig_wire_to_conn(struct rig *r)
{
    const uint8_t *data;
    ssize_t n = nghttp2_session_mem_send(r->wire, &data);
    assert_true(n >= 0);
    if (n > 0) (void)rig_feed(r, data, (size_t)n);
    return n > 0;
}

static bool rig_conn_to_wire(struct rig *r)
{
    static uint8_t out[GRPC_PULL_BYTES];
    if (r->deaf) return false;
    size_t n = grpc_conn_pull(r->conn, out, sizeof out, r->now_ns);
    if (n > 0) assert_int_equal(nghttp2_session_mem_recv(r->wire, out, n), n);
    return n > 0;
}

/* Moves bytes both ways until both are silent. */
__attribute__((unused)) static void rig_run(struct rig *r)
{
    bool more = true;
    while (more) {
        while (rig_wire_to_conn(r)) {}
        more = rig_conn_to_wire(r);
    }
    (void)grpc_conn_tick(r->conn, r->now_ns);
    while (rig_conn_to_wire(r)) {}
}

/* ---- birth and death ----------------------------------------------------------------------------- */

__attribute__((unused)) static void rig_init_opts(struct rig *r)
{
    memset(r, 0, sizeof *r);
    test_heap_init(&r->heap);
    r->now_ns = RIG_START_NS;
    r->opts = grpc_conn_opts_default();
    r->handler = (struct grpc_handler){.arg = r,
                                       .on_call = rig_on_call,
                                       .on_message = rig_on_message,
                                       .on_half_close = rig_on_half_close,
                                       .on_cancel = rig_on_cancel,
                                       .on_writable = rig_on_writable};
    r->body = malloc(RIG_BODY_BYTES);
}

/* With r->opts as they are now. */
__attribute__((unused)) static void rig_open(struct rig *r)
{
    r->pool = grpc_pool_new(&r->heap.alloc, 1024 * 1024);
    assert_non_null(r->pool);
    r->opts.pool = r->pool;
    r->conn = grpc_conn_new(&r->opts, &r->handler, r->now_ns);
    assert_non_null(r->conn);
    wire_new(r);
}

/* A connection that has shaken hands. */
__attribute__((unused)) static struct rig *rig_new(void)
{
    struct rig *r = malloc(sizeof *r);
    rig_init_opts(r);
    rig_open(r);
    rig_run(r);
    rig_forget(&r->frames);
    return r;
}

__attribute__((unused)) static void rig_close(struct rig *r)
{
    grpc_conn_free(r->conn);
    grpc_pool_free(r->pool);
    nghttp2_session_del(r->wire);
    test_heap_check_empty(&r->heap);
    free(r->body);
}

__attribute__((unused)) static void rig_free(struct rig *r)
{
    rig_close(r);
    free(r);
}

/* ---- small things ------------------------------------------------------------------------------- */

/* One framed message: flag, length, bytes; in a buffer of the test. */
__attribute__((unused)) static struct bytes framed(uint8_t *out, uint8_t flag, const void *msg,
                                                   size_t len)
{
    out[0] = flag;
    out[1] = (uint8_t)(len >> 24);
    out[2] = (uint8_t)(len >> 16);
    out[3] = (uint8_t)(len >> 8);
    out[4] = (uint8_t)len;
    memcpy(out + 5, msg, len);
    return bytes_of(out, len + 5);
}

#define RIG_TEST(name)                                                                             \
    {                                                                                              \
#name, name, NULL, NULL, NULL                                                              \
    }

#endif

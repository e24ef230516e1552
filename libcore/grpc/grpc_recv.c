/* One call of the server's side: receiving.
 *
 * Small messages go to the handler where they lie. One that arrives in pieces first reserves its length from the
 * connection's assembly budget; calls beyond it wait in line with what their initial window let in, so
 * that many half-sent large requests cost one budget and not their sum. Messages larger than a
 * window get one WINDOW_UPDATE for all of it when the budget allows (upstream does the same). */
#include "grpc/grpc_conn_int.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"

static bool call_takes_one(const struct grpc_call *call)
{
    return call->kind == GRPC_UNARY || call->kind == GRPC_SERVER_STREAM;
}

static void fail_printf(struct grpc_call *call, enum grpc_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void fail_printf(struct grpc_call *call, enum grpc_code code, const char *format, ...)
{
    char text[160];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ASSERT(n >= 0 && (size_t)n < sizeof text);
    grpc__call_fail(call, code, bytes_of(text, (size_t)n));
}

/* ---- the assembly budget ----------------------------------------------------------------------- */

static bool budget_allows(const struct grpc_conn *c, uint32_t need)
{
    return c->assembling_bytes == 0 || c->assembling_bytes + need <= c->opts.assembly_bytes_max;
}

static void call_reserve(struct grpc_call *call)
{
    struct grpc_conn *c = call->conn;
    call->reserved = call->in.need;
    c->assembling_bytes += call->reserved;
    uint64_t window = (uint64_t)call->in.need + GRPC_PREFIX_BYTES;
    if (!call_takes_one(call) || window <= GRPC_STREAM_WINDOW) return;
    if (window > INT32_MAX) window = INT32_MAX;
    /* Without memory the client keeps waiting until its deadline; there is nothing better to do. */
    (void)nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, call->stream_id,
                                                (int32_t)window);
}

void grpc__call_unreserve(struct grpc_call *call)
{
    struct grpc_conn *c = call->conn;
    ASSERT(c->assembling_bytes >= call->reserved);
    c->assembling_bytes -= call->reserved;
    call->reserved = 0;
    if (!call->waiting) return;
    call->waiting = false;
    list_remove(&call->wait_link);
    c->waiting_count--;
}

static void call_wait(struct grpc_call *call)
{
    struct grpc_conn *c = call->conn;
    if (c->waiting_count >= GRPC_WAITING_CALLS_MAX) {
        grpc__call_fail(call, GRPC_RESOURCE_EXHAUSTED,
                        bytes_str("grpc: too many unfinished requests on one connection"));
        return;
    }
    call->waiting = true;
    list_push_back(&c->waiting, &call->wait_link);
    c->waiting_count++;
}

/* ---- messages ---------------------------------------------------------------------------------- */

static void call_give(struct grpc_call *call, struct bytes msg)
{
    const struct grpc_handler *h = call->conn->handler;
    if (call->kind != GRPC_SERVER_STREAM) {
        call->got_message = true;
        h->on_message(h->arg, call, call->data, msg);
        return;
    }
    if (call->got_message) {
        grpc__call_fail(call, GRPC_INTERNAL,
                        bytes_str("cardinality violation: received multiple request messages for "
                                  "non-client-streaming RPC"));
        return;
    }
    call->got_message = true; /* given when the client has ended its side */
    if (buf_put_bytes(&call->backlog, msg) < 0) grpc_call_reset(call, NGHTTP2_INTERNAL_ERROR);
}

static void call_give_inflated(struct grpc_call *call, struct bytes msg)
{
    struct grpc_conn *c = call->conn;
    struct buf plain = BUF_EMPTY;
    buf_init(&plain, grpc_pool_alloc(c->opts.pool), SIZE_MAX);
    int rc = grpc__gunzip(c->opts.pool, msg, c->opts.recv_bytes_max, &plain);
    if (rc == 0) {
        call_give(call, buf_bytes(&plain));
    } else if (rc == E_TOOBIG) {
        fail_printf(call, GRPC_RESOURCE_EXHAUSTED,
                    "grpc: received message after decompression larger than max %u",
                    c->opts.recv_bytes_max);
    } else if (rc == E_NOMEM) {
        grpc__call_fail(call, GRPC_RESOURCE_EXHAUSTED, bytes_str(err_text(E_NOMEM)));
    } else {
        grpc__call_fail(call, GRPC_INTERNAL,
                        bytes_str("grpc: failed to decompress the message: gzip: invalid data"));
    }
    buf_deinit(&plain);
}

static void call_message(struct grpc_call *call, struct bytes msg)
{
    grpc__call_unreserve(call);
    if (call->in.flag == 0) {
        call_give(call, msg);
    } else if (call->in.flag > 1) {
        fail_printf(call, GRPC_INTERNAL, "grpc: received unexpected payload format %u",
                    call->in.flag);
    } else if (call->gzip_in) {
        call_give_inflated(call, msg);
    } else {
        grpc__call_fail(call, GRPC_INTERNAL,
                        bytes_str("grpc: compressed flag set with identity or empty encoding"));
    }
}

/* A prefix is whole; `have` bytes of the message are at hand. */
static void call_message_head(struct grpc_call *call, size_t have)
{
    const struct grpc_conn *c = call->conn;
    if (call->in.need > c->opts.recv_bytes_max) {
        fail_printf(call, GRPC_RESOURCE_EXHAUSTED,
                    "grpc: received message larger than max (%u vs. %u)", call->in.need,
                    c->opts.recv_bytes_max);
    } else if (have < call->in.need) {
        if (budget_allows(c, call->in.need))
            call_reserve(call);
        else
            call_wait(call);
    }
}

/* Whether the loop over a call's bytes goes on. */
static bool call_runs(const struct grpc_call *call)
{
    if (call->stage != CALL_OPEN || call->held || call->waiting) return false;
    return call->kind != GRPC_UNARY || !call->got_message;
}

/* Parses until the bytes are used up or the call may not go on; returns what is left. */
static struct bytes call_parse(struct grpc_call *call, struct bytes input)
{
    struct grpc_pool *pool = call->conn->opts.pool;
    bool more = true;
    call->parsing = true;
    while (more && call_runs(call)) {
        struct bytes msg = BYTES_EMPTY;
        switch (grpc__in_step(&call->in, pool, &input, &msg)) {
        case GRPC__IN_HEAD: call_message_head(call, input.len); break;
        case GRPC__IN_MESSAGE: call_message(call, msg); break;
        case GRPC__IN_PIECE: /* only clients ask for pieces */
        case GRPC__IN_MORE: more = false; break;
        case GRPC__IN_NOMEM:
            grpc__call_fail(call, GRPC_RESOURCE_EXHAUSTED, bytes_str(err_text(E_NOMEM)));
            break;
        }
    }
    call->parsing = false;
    return input;
}

static bool call_stalled(const struct grpc_call *call)
{
    return call->stage == CALL_OPEN && (call->held || call->waiting);
}

/* Lets the client send as much as was used up, where more than one message may come. */
static void call_extend(struct grpc_call *call, size_t used)
{
    if (used == 0 || call_takes_one(call) || call->stage != CALL_OPEN) return;
    (void)nghttp2_session_consume_stream(call->conn->session, call->stream_id, used);
}

static void call_end_request(struct grpc_call *call)
{
    const struct grpc_handler *h = call->conn->handler;
    bool unary = call->kind == GRPC_UNARY;
    call->half_told = true;
    if (unary && call->got_message) return;
    if (grpc__in_midway(&call->in)) {
        grpc__call_fail(call, unary ? GRPC_UNKNOWN : GRPC_INTERNAL, bytes_str("unexpected EOF"));
    } else if (unary) {
        grpc__call_fail(call, GRPC_UNKNOWN, bytes_str("EOF"));
    } else if (call->kind == GRPC_SERVER_STREAM && call->got_message) {
        h->on_message(h->arg, call, call->data, buf_bytes(&call->backlog));
    } else if (call->kind == GRPC_SERVER_STREAM) {
        grpc__call_fail(call, GRPC_INTERNAL,
                        bytes_str("cardinality violation: received no request message from "
                                  "non-client-streaming RPC"));
    } else if (h->on_half_close != NULL) {
        h->on_half_close(h->arg, call, call->data);
    }
}

static void call_settle(struct grpc_call *call)
{
    if (!call->half_closed || call->half_told) return;
    if (call->stage == CALL_OPEN && !call_stalled(call)) call_end_request(call);
}

void grpc__call_data(struct grpc_call *call, struct bytes chunk)
{
    if (call->stage != CALL_OPEN) return;
    struct bytes left = call_stalled(call) ? chunk : call_parse(call, chunk);
    call_extend(call, chunk.len - left.len);
    if (!call_stalled(call) || left.len == 0) return;
    if (buf_put_bytes(&call->backlog, left) < 0) grpc_call_reset(call, NGHTTP2_INTERNAL_ERROR);
}

void grpc__call_half_close(struct grpc_call *call)
{
    call->half_closed = true;
    call_settle(call);
}

/* Goes on with what was set aside; at most as much again is set aside. */
static void call_go_on(struct grpc_call *call)
{
    struct buf old = call->backlog;
    buf_init(&call->backlog, old.alloc, old.bytes_max);
    struct bytes left = call_parse(call, buf_bytes(&old));
    call_extend(call, old.len - left.len);
    if (call_stalled(call) && left.len > 0 && buf_put_bytes(&call->backlog, left) < 0) {
        grpc_call_reset(call, NGHTTP2_INTERNAL_ERROR);
    }
    buf_deinit(&old);
    call_settle(call);
}

void grpc__run_waiting(struct grpc_conn *c)
{
    while (!list_empty(&c->waiting)) {
        struct grpc_call *call = LIST_OBJECT(c->waiting.next, struct grpc_call, wait_link);
        if (!budget_allows(c, call->in.need)) return;
        grpc__call_unreserve(call); /* leaves the line */
        call_reserve(call);
        if (!call->held) call_go_on(call);
    }
}

void grpc_call_hold(struct grpc_call *call)
{
    ASSERT(call->stage == CALL_OPEN);
    ASSERT(!call->begun || !call_takes_one(call));
    call->held = true;
}

void grpc_call_release(struct grpc_call *call)
{
    if (!call->held) return;
    call->held = false;
    if (call->begun && !call->parsing && !call->waiting) call_go_on(call);
}

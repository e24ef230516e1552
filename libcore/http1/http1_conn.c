/* One HTTP/1.x connection: what comes in, what goes out, and when it has taken too long.
 *
 * Callbacks never nest: a request that was pipelined behind an answer surfaces from feed, sent or tick, not
 * from the function that completed the answer. */
#include "http1/http1_int.h"

#include "base/assert.h"

#define SECOND_NS 1000000000ULL

struct http1_opts http1_opts_default(void)
{
    return (struct http1_opts){
        .target_bytes_max = 16 * 1024,
        .header_bytes_max = 64 * 1024,
        .header_count_max = 128,
        .body_bytes_max = 2 * 1024 * 1024 + 64 * 1024,
        .queue_bytes = 256 * 1024,
        .head_timeout_ns = 10 * SECOND_NS,
        .body_timeout_ns = 120 * SECOND_NS,
        .idle_timeout_ns = 120 * SECOND_NS,
    };
}

/* ---- state --------------------------------------------------------------------------------------- */

void http1__move(struct http1_conn *c, enum http1__state to)
{
    static const uint8_t allowed[] = {
        [HTTP1__IDLE] = 1U << HTTP1__HEAD | 1U << HTTP1__OVER,
        [HTTP1__HEAD] = 1U << HTTP1__BODY | 1U << HTTP1__OVER,
        [HTTP1__BODY] = 1U << HTTP1__ASKED | 1U << HTTP1__OVER,
        [HTTP1__ASKED] = 1U << HTTP1__STREAMING | 1U << HTTP1__IDLE | 1U << HTTP1__OVER,
        [HTTP1__STREAMING] = 1U << HTTP1__IDLE | 1U << HTTP1__OVER,
        [HTTP1__OVER] = 0,
    };
    ASSERT((allowed[c->state] >> to & 1U) != 0);
    c->state = (uint8_t)to;
    c->state_ns = c->now_ns;
}

static bool parses(const struct http1_conn *c)
{
    return c->state == HTTP1__IDLE || c->state == HTTP1__HEAD || c->state == HTTP1__BODY;
}

/* ---- birth and death ------------------------------------------------------------------------------- */

struct http1_conn *http1_conn_new(const struct alloc *alloc, const struct http1_opts *opts,
                                  const struct http1_handler *handler, uint64_t now_ns)
{
    struct http1_conn *c = alloc_new(alloc, sizeof *c);
    if (c == NULL) return NULL;
    *c = (struct http1_conn){
        .alloc = alloc, .opts = *opts, .handler = handler, .now_ns = now_ns, .state_ns = now_ns};
    buf_init(&c->head, alloc, opts->header_bytes_max + opts->target_bytes_max);
    buf_init(&c->body, alloc, opts->body_bytes_max);
    buf_init(&c->backlog, alloc, HTTP1_BACKLOG_BYTES_MAX);
    buf_init(&c->out, alloc, HTTP1_OUT_BYTES_MAX);
    http1__parse_reset(c);
    return c;
}

/* Tells the handler, once, that its request is gone. */
static void abort_request(struct http1_conn *c)
{
    bool open = c->state == HTTP1__ASKED || c->state == HTTP1__STREAMING;
    if (!open) return;
    http1__move(c, HTTP1__OVER);
    if (c->handler->on_abort != NULL) c->handler->on_abort(c->handler->arg, c);
}

void http1_conn_free(struct http1_conn *c)
{
    if (c == NULL) return;
    abort_request(c);
    alloc_free(c->alloc, c->spans, c->span_cap * sizeof *c->spans);
    alloc_free(c->alloc, c->fields, c->span_cap * sizeof *c->fields);
    buf_deinit(&c->head);
    buf_deinit(&c->body);
    buf_deinit(&c->backlog);
    buf_deinit(&c->out);
    alloc_free(c->alloc, c, sizeof *c);
}

/* ---- in ---------------------------------------------------------------------------------------------- */

void http1__answered(struct http1_conn *c)
{
    http1__move(c, c->close ? HTTP1__OVER : HTTP1__IDLE);
    http1__parse_reset(c);
}

static void ask(struct http1_conn *c)
{
    http1__request_build(c);
    c->handler->on_request(c->handler->arg, c, &c->req);
}

/* Parses and asks until the input is used up or an answer is awaited; returns what is left. */
static struct bytes run(struct http1_conn *c, struct bytes input)
{
    c->feeding = true;
    while (input.len > 0 && parses(c)) {
        size_t n = http1__parse(c, input);
        ASSERT(n <= input.len);
        input = bytes_of(input.data + n, input.len - n);
        if (c->failed != 0)
            http1__refuse(c, c->failed);
        else if (c->state == HTTP1__ASKED)
            ask(c);
    }
    c->feeding = false;
    return input;
}

void http1__go_on(struct http1_conn *c)
{
    if (c->feeding || c->backlog.len == 0 || !parses(c)) return;
    struct buf old = c->backlog;
    buf_init(&c->backlog, c->alloc, HTTP1_BACKLOG_BYTES_MAX);
    struct bytes left = run(c, buf_bytes(&old));
    if (c->state != HTTP1__OVER && buf_put_bytes(&c->backlog, left) < 0) {
        abort_request(c);
    }
    buf_deinit(&old);
}

int http1_conn_feed(struct http1_conn *c, const uint8_t *data, size_t len, uint64_t now_ns)
{
    c->now_ns = now_ns;
    http1__go_on(c);
    if (c->state == HTTP1__OVER) return E_CLOSED;
    struct bytes left = bytes_of(data, len);
    if (c->backlog.len == 0) left = run(c, left);
    if (c->state == HTTP1__OVER || left.len == 0) return 0;
    int rc = buf_put_bytes(&c->backlog, left);
    if (rc == 0) return 0;
    abort_request(c);
    if (c->state != HTTP1__OVER) http1__move(c, HTTP1__OVER);
    return rc == E_NOMEM ? E_NOMEM : E_CLOSED;
}

void http1_conn_eof(struct http1_conn *c)
{
    c->eof = true;
    if (parses(c) && c->backlog.len == 0) http1__move(c, HTTP1__OVER);
}

/* ---- out --------------------------------------------------------------------------------------------- */

struct bytes http1_conn_out(const struct http1_conn *c)
{
    if (c->out.len == c->out_sent) return BYTES_EMPTY;
    return bytes_of(c->out.data + c->out_sent, c->out.len - c->out_sent);
}

static void tell_writable(struct http1_conn *c)
{
    if (!c->unwritable || c->state != HTTP1__STREAMING) return;
    if (c->out.len - c->out_sent > c->opts.queue_bytes / 2) return;
    c->unwritable = false;
    if (c->handler->on_writable != NULL) c->handler->on_writable(c->handler->arg, c);
}

void http1_conn_sent(struct http1_conn *c, size_t n)
{
    ASSERT(n <= c->out.len - c->out_sent);
    c->out_sent += n;
    /* Moved down only when half is sent, so that a slow reader does not make it quadratic. */
    if (c->out_sent == c->out.len) {
        buf_reset(&c->out);
        c->out_sent = 0;
    } else if (c->out_sent > c->out.len / 2) {
        buf_consume(&c->out, c->out_sent);
        c->out_sent = 0;
    }
    tell_writable(c);
    http1__go_on(c);
    if (c->eof) http1_conn_eof(c);
}

/* ---- time and state ---------------------------------------------------------------------------------- */

static uint64_t due_ns(const struct http1_conn *c)
{
    uint64_t limit = HTTP1_NEVER;
    if (c->state == HTTP1__IDLE) limit = c->opts.idle_timeout_ns;
    if (c->state == HTTP1__HEAD) limit = c->opts.head_timeout_ns;
    if (c->state == HTTP1__BODY) limit = c->opts.body_timeout_ns;
    return limit < HTTP1_NEVER - c->state_ns ? c->state_ns + limit : HTTP1_NEVER;
}

uint64_t http1_conn_tick(struct http1_conn *c, uint64_t now_ns)
{
    c->now_ns = now_ns;
    http1__go_on(c);
    if (now_ns >= due_ns(c)) {
        if (c->state == HTTP1__IDLE)
            http1__move(c, HTTP1__OVER);
        else
            http1__refuse(c, 408);
    }
    return due_ns(c);
}

bool http1_conn_want_read(const struct http1_conn *c)
{
    return c->state != HTTP1__OVER && !c->eof && c->backlog.len < HTTP1_BACKLOG_BYTES;
}

bool http1_conn_done(const struct http1_conn *c)
{
    return c->state == HTTP1__OVER;
}

void http1_conn_drain(struct http1_conn *c)
{
    c->draining = true;
    if (c->state == HTTP1__IDLE && c->backlog.len == 0) http1__move(c, HTTP1__OVER);
}

/* Calls: pick a connection, wait for the answer, try again where that is safe. */
#include "client/client.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "client/client_int.h"
#include "etcdserverpb.pb-c.h"
#include "pb/pack.h"
#include "pb/wire.h"

enum {
    SEND_BYTES_MAX = 2 * 1024 * 1024,
    POOL_BYTES_MAX = 1024 * 1024,
    RETRIES_MAX = 100,
    RETRY_MS = 25,
    LOGIN_BYTES_MAX = 64 * 1024,
    STREAM_QUEUE_BYTES_MAX = 4 * 1024 * 1024 /* above it a stream's server has to wait */
};

/* A message that came and was not asked for yet. */
struct message {
    struct list link; /* first */
    size_t len;
    uint8_t data[];
};

/* --- life ------------------------------------------------------------------------------------------- */

static void on_wait_timer(void *arg)
{
    struct client *c = arg;
    c->timed_out = true;
    loop_stop(c->loop);
}

int client_new(const struct client_opts *opts, struct client **out, struct errmsg *em)
{
    struct client *c = alloc_zero(opts->alloc, sizeof *c);
    if (c == NULL) return E_NOMEM;
    c->opts = *opts;
    if (c->opts.send_bytes_max == 0) c->opts.send_bytes_max = SEND_BYTES_MAX;
    if (c->opts.recv_bytes_max == 0) c->opts.recv_bytes_max = INT32_MAX;
    int rc = loop_new(opts->alloc, &c->loop, em);
    if (rc == 0) rc = loop_timer_open(c->loop, on_wait_timer, c, &c->wait_timer);
    c->pool = rc < 0 ? NULL : grpc_pool_new(opts->alloc, POOL_BYTES_MAX);
    c->read_buffer = alloc_new(opts->alloc, CLIENT_READ_BYTES);
    c->endpoints = alloc_zero(opts->alloc, (opts->endpoint_count + 1) * sizeof *c->endpoints);
    if (rc == 0 && (c->pool == NULL || c->read_buffer == NULL || c->endpoints == NULL))
        rc = E_NOMEM;
    for (size_t i = 0; i < opts->endpoint_count && rc == 0; i++) {
        rc = client__endpoint_init(c, &c->endpoints[i], opts->endpoints[i], em);
        c->endpoint_count++;
    }
    if (rc < 0) {
        client_free(c);
        return rc;
    }
    *out = c;
    return 0;
}

static void drop_token(struct client *c)
{
    alloc_free(c->opts.alloc, c->token, c->token_bytes);
    c->token = NULL;
}

void client_free(struct client *c)
{
    if (c == NULL) return;
    const struct alloc *a = c->opts.alloc;
    for (size_t i = 0; i < c->endpoint_count; i++)
        client__endpoint_deinit(&c->endpoints[i]);
    if (c->wait_timer != NULL) loop_timer_close(c->wait_timer);
    alloc_free(a, c->endpoints, (c->opts.endpoint_count + 1) * sizeof *c->endpoints);
    alloc_free(a, c->read_buffer, CLIENT_READ_BYTES);
    if (c->pool != NULL) grpc_pool_free(c->pool);
    if (c->loop != NULL) loop_free(c->loop);
    drop_token(c);
    alloc_free(a, c, sizeof *c);
}

/* --- waiting -------------------------------------------------------------------------------------------- */

bool client__wait(struct client *c, uint64_t deadline_ns)
{
    for (;;) {
        uint64_t now = client__now(c);
        if (now >= deadline_ns) return false;
        c->timed_out = false;
        if (deadline_ns != GRPC_NEVER)
            loop_timer_start(c->wait_timer, (deadline_ns - now) / 1000000 + 1, 0);
        loop_run(c->loop);
        loop_timer_stop(c->wait_timer);
        /* The loop's clock lags behind ours a little, so its timer may be early. */
        if (!c->timed_out) return true;
    }
}

void client_interrupt(struct client *c)
{
    c->interrupted = true;
    loop_stop(c->loop);
}

/* --- status --------------------------------------------------------------------------------------------- */

static const char *const CODE_NAMES[] = {
    "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
    "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
    "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
    "DataLoss", "Unauthenticated"};

const char *client_code_name(enum grpc_code code)
{
    return (unsigned)code < sizeof CODE_NAMES / sizeof *CODE_NAMES ? CODE_NAMES[code] : "Unknown";
}

void client_status_text(const struct client_status *st, char *out, size_t cap)
{
    bool own = st->code == GRPC_DEADLINE_EXCEEDED || st->code == GRPC_CANCELED;
    if (own || strncmp(st->text, "etcdserver: ", 12) == 0 ||
        strncmp(st->text, "etcdclient: ", 12) == 0) {
        snprintf(out, cap, "%s", st->text);
    } else {
        snprintf(out, cap, "rpc error: code = %s desc = %s", client_code_name(st->code), st->text);
    }
}

static void set_status(struct client_status *st, enum grpc_code code, struct bytes text)
{
    st->code = code;
    int len = (int)(text.len < sizeof st->text - 1 ? text.len : sizeof st->text - 1);
    snprintf(st->text, sizeof st->text, "%.*s", len, text.len == 0 ? "" : (const char *)text.data);
}

static int status_error(const struct client_status *st)
{
    for (int i = ERR_ORDINAL_OK + 1; i < ERR_ORDINAL_END; i++) {
        if (err_grpc_code(-i) == st->code && strcmp(err_text(-i), st->text) == 0) return -i;
    }
    return E_PROTO;
}

/* --- streams: what unary calls are made of, too ------------------------------------------------------------ */

static void give_up(struct client_stream *s, struct grpc_client_call *call, int rc)
{
    set_status(&s->status, GRPC_RESOURCE_EXHAUSTED, bytes_str(err_text(rc)));
    grpc_client_cancel(call);
}

/* Of a unary call: the answer is written where it will be read, so that a large one exists once. */
static void on_piece(void *arg, struct grpc_client_call *call, uint64_t len, uint64_t at,
                     struct bytes piece)
{
    struct client_stream *s = arg;
    int rc = at == 0 ? buf_reserve(s->answer, (size_t)len) : 0;
    if (rc == 0) rc = buf_put_bytes(s->answer, piece);
    if (rc < 0) give_up(s, call, rc);
}

static void on_answer(void *arg, struct grpc_client_call *call, struct bytes msg)
{
    struct client_stream *s = arg;
    int rc = buf_put_bytes(s->answer, msg);
    if (rc < 0) give_up(s, call, rc);
}

static void on_message(void *arg, struct grpc_client_call *call, struct bytes msg)
{
    struct client_stream *s = arg;
    struct message *m = alloc_new(s->c->opts.alloc, sizeof *m + msg.len);
    if (m == NULL) {
        give_up(s, call, E_NOMEM);
        return;
    }
    m->len = msg.len;
    if (msg.len > 0) memcpy(m->data, msg.data, msg.len);
    list_push_back(&s->messages, &m->link);
    s->queued_bytes += msg.len;
    if (s->queued_bytes > STREAM_QUEUE_BYTES_MAX && !s->held) {
        s->held = true;
        grpc_client_hold(call);
    }
    client__wake(s->c);
}

static void on_end(void *arg, struct grpc_client_call *call, const struct grpc_status *status)
{
    struct client_stream *s = arg;
    (void)call;
    s->call = NULL;
    s->ended = true;
    s->unprocessed = status->unprocessed;
    if (s->status.code == GRPC_OK) set_status(&s->status, status->code, status->text);
    client__wake(s->c);
}

static const struct grpc_client_events STREAM = {.on_message = on_message, .on_end = on_end};
static const struct grpc_client_events UNARY = {
    .on_piece = on_piece, .on_message = on_answer, .on_end = on_end};

static size_t put_fields(const struct client *c, const struct client_request *req,
                         struct grpc_field out[4])
{
    size_t n = 0;
    const char *token = c->token != NULL ? c->token : c->opts.token;
    out[n++] = (struct grpc_field){bytes_str("client-api-version"), bytes_str(CLIENT_API_VERSION)};
    if (token != NULL && token[0] != '\0')
        out[n++] = (struct grpc_field){bytes_str("token"), bytes_str(token)};
    if (req->require_leader)
        out[n++] = (struct grpc_field){bytes_str("hasleader"), bytes_str("true")};
    return n;
}

static int start_on(struct client_stream *s, const struct client_request *req, enum grpc_kind kind,
                    uint64_t deadline_ns)
{
    struct grpc_field fields[4];
    struct grpc_client_call_opts o = {.path = req->path,
                                      .fields = fields,
                                      .field_count = put_fields(s->c, req, fields),
                                      .deadline_ns = deadline_ns,
                                      .kind = kind,
                                      .events = kind == GRPC_UNARY ? &UNARY : &STREAM,
                                      .arg = s};
    return grpc_client_start(s->e->conn, &o, client__now(s->c), &s->call);
}

/* Finds a connection that is up, within the deadline; `*st` says why not. */
static int find_endpoint(struct client *c, uint64_t deadline_ns, struct endpoint **out,
                         struct client_status *st)
{
    if (c->endpoint_count == 0) {
        set_status(st, GRPC_UNAVAILABLE, bytes_str("etcdclient: no available endpoints"));
        return E_NOTFOUND;
    }
    for (;;) {
        client__connect_all(c);
        *out = client__pick(c);
        if (*out != NULL) return 0;
        if (!client__wait(c, deadline_ns)) break;
        if (c->interrupted) {
            c->interrupted = false;
            set_status(st, GRPC_CANCELED, bytes_str("context canceled"));
            return E_INTR;
        }
    }
    set_status(st, GRPC_DEADLINE_EXCEEDED, bytes_str("context deadline exceeded"));
    return E_DEADLINE_EXCEEDED;
}

static void stream_init(struct client_stream *s, struct client *c)
{
    *s = (struct client_stream){.c = c};
    list_init(&s->messages);
}

static void stream_deinit(struct client_stream *s)
{
    if (s->call != NULL) {
        struct endpoint *e = s->e;
        ASSERT(e->conn != NULL);
        grpc_client_cancel(s->call);
        /* The tick tells the end of what was cancelled. */
        (void)grpc_client_conn_tick(e->conn, client__now(s->c));
        ASSERT(s->ended);
        client__flush(e);
    }
    while (!list_empty(&s->messages)) {
        struct message *m = (struct message *)(void *)list_pop_front(&s->messages);
        alloc_free(s->c->opts.alloc, m, sizeof *m + m->len);
    }
}

/* --- unary --------------------------------------------------------------------------------------------------- */

/* Sends the one message, or ends the call with why it cannot be sent. */
static void send_one(struct client_stream *s, struct bytes body)
{
    int rc = grpc_client_send(s->call, body);
    if (rc == 0) {
        grpc_client_half_close(s->call);
        return;
    }
    char text[128];
    snprintf(text, sizeof text, "%s", err_text(rc));
    if (rc == E_TOOBIG) {
        snprintf(text, sizeof text, "trying to send message larger than max (%zu vs. %u)", body.len,
                 s->c->opts.send_bytes_max);
    }
    set_status(&s->status, GRPC_RESOURCE_EXHAUSTED, bytes_str(text));
    grpc_client_cancel(s->call);
}

/* One try. `*again`: the server has surely not begun it. */
static int unary_once(struct client *c, const struct client_request *req, uint64_t deadline_ns,
                      struct buf *answer, struct client_status *st, bool *again)
{
    struct client_stream s;
    size_t before = answer->len;
    stream_init(&s, c);
    s.answer = answer;
    *again = false;
    int rc = find_endpoint(c, deadline_ns, &s.e, st);
    if (rc < 0) return rc;
    rc = start_on(&s, req, GRPC_UNARY, deadline_ns);
    if (rc < 0) {
        *again = rc == E_CLOSED;
        set_status(st, rc == E_CLOSED ? GRPC_UNAVAILABLE : GRPC_RESOURCE_EXHAUSTED,
                   bytes_str(rc == E_CLOSED ? "the connection is draining" : err_text(rc)));
        return rc;
    }
    send_one(&s, req->body);
    client__flush(s.e);
    while (!s.ended && !c->interrupted)
        (void)client__wait(c, GRPC_NEVER);
    if (s.ended) {
        *again = s.unprocessed;
        *st = s.status;
        rc = s.status.code == GRPC_OK ? 0 : status_error(&s.status);
    } else {
        c->interrupted = false;
        set_status(st, GRPC_CANCELED, bytes_str("context canceled"));
        rc = E_INTR;
    }
    stream_deinit(&s);
    if (rc < 0) answer->len = before;
    return rc;
}

static uint64_t deadline_of(const struct client *c, const struct client_request *req)
{
    return req->timeout_ns == 0 ? GRPC_NEVER : client__now(c) + req->timeout_ns;
}

/* Whether to try again: what the server has not begun; reads that met a connection or member in trouble; what a learner
 * refuses, as the next endpoint may be a voter. */
static bool may_retry(const struct client *c, const struct client_request *req, int rc,
                      const struct client_status *st, bool again)
{
    if (again) return true;
    if (rc == E_NOT_SUPPORTED_FOR_LEARNER) return c->endpoint_count > 1;
    return req->read && st->code == GRPC_UNAVAILABLE && c->endpoint_count > 0;
}

/* Waits a moment before the next try. False when the deadline comes first, or an interrupt. */
static bool pause_before_retry(struct client *c, uint64_t deadline_ns, struct client_status *st)
{
    uint64_t until = client__now(c) + RETRY_MS * 1000000ULL;
    if (until > deadline_ns) until = deadline_ns;
    while (!c->interrupted && client__wait(c, until))
        continue;
    if (c->interrupted) {
        c->interrupted = false;
        set_status(st, GRPC_CANCELED, bytes_str("context canceled"));
        return false;
    }
    if (until < deadline_ns) return true;
    set_status(st, GRPC_DEADLINE_EXCEEDED, bytes_str("context deadline exceeded"));
    return false;
}

int client_unary(struct client *c, const struct client_request *req, struct buf *answer,
                 struct client_status *st)
{
    uint64_t deadline = deadline_of(c, req);
    bool logged_in_anew = false;
    int rc = 0;
    for (int i = 0; i < RETRIES_MAX; i++) {
        bool again = false;
        *st = (struct client_status){GRPC_OK, ""};
        rc = unary_once(c, req, deadline, answer, st, &again);
        if (rc == E_INVALID_AUTH_TOKEN && c->token != NULL && !logged_in_anew) {
            struct client_status login;
            logged_in_anew = true;
            if (client_login(c, &login) == 0) continue;
        }
        if (rc == 0 || rc == E_INTR || !may_retry(c, req, rc, st, again)) break;
        if (!pause_before_retry(c, deadline, st))
            return st->code == GRPC_CANCELED ? E_INTR : E_DEADLINE_EXCEEDED;
    }
    return rc;
}

/* --- login ---------------------------------------------------------------------------------------------------- */

static int take_token(struct client *c, struct bytes answer)
{
    struct pb_reader r = pb_reader_of(answer);
    struct pb_field f;
    while (pb_next(&r, &f) > 0) {
        if (f.number != 2 || f.wire != PB_WIRE_LEN) continue;
        char *token = alloc_new(c->opts.alloc, f.data.len + 1);
        if (token == NULL) return E_NOMEM;
        memcpy(token, f.data.data, f.data.len);
        token[f.data.len] = '\0';
        drop_token(c);
        c->token = token;
        c->token_bytes = f.data.len + 1;
    }
    return 0;
}

int client_login(struct client *c, struct client_status *st)
{
    const struct client_opts *o = &c->opts;
    *st = (struct client_status){GRPC_OK, ""};
    if (o->token != NULL || o->user == NULL || o->user[0] == '\0' || o->password == NULL ||
        o->password[0] == '\0') {
        return 0;
    }
    struct buf body;
    struct buf answer;
    buf_init(&body, o->alloc, LOGIN_BYTES_MAX);
    buf_init(&answer, o->alloc, LOGIN_BYTES_MAX);
    drop_token(c);
    int rc = pb_put_bytes(&body, 1, bytes_str(o->user));
    if (rc == 0) rc = pb_put_bytes(&body, 2, bytes_str(o->password));
    struct client_request req = {.path = "/etcdserverpb.Auth/Authenticate",
                                 .body = buf_bytes(&body),
                                 .timeout_ns = o->dial_timeout_ns};
    bool again = false;
    if (rc == 0) rc = unary_once(c, &req, deadline_of(c, &req), &answer, st, &again);
    if (rc == 0) rc = take_token(c, buf_bytes(&answer));
    buf_deinit(&body);
    buf_deinit(&answer);
    return rc == E_AUTH_NOT_ENABLED ? 0 : rc;
}

/* --- streams of the caller ---------------------------------------------------------------------------------------- */

int client_stream_open(struct client *c, const struct client_request *req, bool send_body,
                       struct client_stream **out, struct client_status *st)
{
    struct client_stream *s = alloc_new(c->opts.alloc, sizeof *s);
    if (s == NULL) return E_NOMEM;
    stream_init(s, c);
    uint64_t deadline = deadline_of(c, req);
    *st = (struct client_status){GRPC_OK, ""};
    int rc = find_endpoint(c, deadline, &s->e, st);
    if (rc == 0) rc = start_on(s, req, send_body ? GRPC_SERVER_STREAM : GRPC_BIDI, deadline);
    if (rc == 0 && send_body) {
        rc = grpc_client_send(s->call, req->body);
        grpc_client_half_close(s->call);
    }
    if (rc < 0) {
        if (st->code == GRPC_OK) set_status(st, GRPC_UNAVAILABLE, bytes_str(err_text(rc)));
        client_stream_close(s);
        return rc;
    }
    client__flush(s->e);
    *out = s;
    return 0;
}

int client_stream_send(struct client_stream *s, struct bytes msg)
{
    if (s->call == NULL) return E_CLOSED;
    int rc = grpc_client_send(s->call, msg);
    while (rc == E_AGAIN && !s->ended) {
        client__flush(s->e);
        (void)client__wait(s->c, client__now(s->c) + 10000000ULL);
        rc = s->ended ? E_CLOSED : grpc_client_send(s->call, msg);
    }
    client__flush(s->e);
    return rc;
}

void client_stream_half_close(struct client_stream *s)
{
    if (s->call == NULL) return;
    grpc_client_half_close(s->call);
    client__flush(s->e);
}

static int take_message(struct client_stream *s, struct buf *msg)
{
    struct message *m = (struct message *)(void *)list_pop_front(&s->messages);
    buf_reset(msg);
    int rc = buf_put(msg, m->data, m->len);
    s->queued_bytes -= m->len;
    alloc_free(s->c->opts.alloc, m, sizeof *m + m->len);
    if (s->held && s->call != NULL && s->queued_bytes < STREAM_QUEUE_BYTES_MAX / 2) {
        s->held = false;
        grpc_client_release(s->call);
        client__flush(s->e);
    }
    return rc < 0 ? rc : 1;
}

int client_stream_next(struct client_stream *s, uint64_t timeout_ns, struct buf *msg,
                       struct client_status *st)
{
    uint64_t deadline = timeout_ns == 0 ? GRPC_NEVER : client__now(s->c) + timeout_ns;
    for (;;) {
        if (!list_empty(&s->messages)) return take_message(s, msg);
        if (s->ended) {
            *st = s->status;
            return s->status.code == GRPC_OK ? 0 : status_error(&s->status);
        }
        bool in_time = client__wait(s->c, deadline);
        if (s->c->interrupted) {
            s->c->interrupted = false;
            return E_INTR;
        }
        if (!in_time && list_empty(&s->messages) && !s->ended) return E_AGAIN;
    }
}

void client_stream_close(struct client_stream *s)
{
    if (s == NULL) return;
    stream_deinit(s);
    alloc_free(s->c->opts.alloc, s, sizeof *s);
}

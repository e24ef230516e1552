/* The client's side, against our server's side and against scripted frames. */
#include "rig.h"

#include "grpc/grpc_client.h"

/* A client and the rig's server, and what the client's calls were told. */
struct pair {
    struct rig *r;
    struct grpc_client_opts opts;
    struct grpc_client_conn *client;
    struct rig_log told;
    bool start_again; /* from on_end of the first call */
    bool cut;         /* nothing moves any more */
};

static void on_headers(void *arg, struct grpc_client_call *call, const struct grpc_field *fields,
                       size_t count)
{
    struct pair *p = arg;
    (void)call, (void)fields;
    rig_say(&p->told, "headers %zu\n", count);
}

static void on_message(void *arg, struct grpc_client_call *call, struct bytes msg)
{
    struct pair *p = arg;
    (void)call;
    if (msg.len <= 32)
        rig_say(&p->told, "msg %.*s\n", (int)msg.len, (const char *)msg.data);
    else
        rig_say(&p->told, "msg of %zu\n", msg.len);
}

static void on_piece(void *arg, struct grpc_client_call *call, uint64_t len, uint64_t at,
                     struct bytes piece)
{
    struct pair *p = arg;
    (void)call;
    rig_say(&p->told, "piece %zu+%zu of %zu\n", (size_t)at, piece.len, (size_t)len);
}

static void on_writable(void *arg, struct grpc_client_call *call)
{
    struct pair *p = arg;
    (void)call;
    rig_say(&p->told, "writable\n");
}

static const struct grpc_client_events EVENTS;
static struct grpc_client_call *start(struct pair *p, const char *path, enum grpc_kind kind,
                                      uint64_t deadline_ns);

static void on_end(void *arg, struct grpc_client_call *call, const struct grpc_status *status)
{
    struct pair *p = arg;
    (void)call;
    rig_say(&p->told, "end %d %.*s%s%s\n", (int)status->code, (int)status->text.len,
            (const char *)status->text.data, status->from_server ? " (server)" : "",
            status->unprocessed ? " (unprocessed)" : "");
    if (p->start_again) {
        p->start_again = false;
        grpc_client_half_close(start(p, "/t.S/Client", GRPC_CLIENT_STREAM, GRPC_NEVER));
    }
}

static const struct grpc_client_events EVENTS = {.on_headers = on_headers,
                                                 .on_message = on_message,
                                                 .on_writable = on_writable,
                                                 .on_end = on_end};
static const struct grpc_client_events PIECES = {
    .on_message = on_message, .on_piece = on_piece, .on_end = on_end};

static struct grpc_client_call *start(struct pair *p, const char *path, enum grpc_kind kind,
                                      uint64_t deadline_ns)
{
    static const struct grpc_field fields[] = {
        {{(const uint8_t *)"client-api-version", 18}, {(const uint8_t *)"3.7", 3}},
    };
    const struct grpc_client_call_opts o = {.path = path,
                                            .fields = fields,
                                            .field_count = 1,
                                            .deadline_ns = deadline_ns,
                                            .kind = kind,
                                            .events = &EVENTS,
                                            .arg = p};
    struct grpc_client_call *call = NULL;
    assert_int_equal(grpc_client_start(p->client, &o, p->r->now_ns, &call), 0);
    return call;
}

static void unary(struct pair *p, const char *path, const char *msg, uint64_t deadline_ns)
{
    struct grpc_client_call *call = start(p, path, GRPC_UNARY, deadline_ns);
    assert_int_equal(grpc_client_send(call, bytes_str(msg)), 0);
    grpc_client_half_close(call);
}

static bool client_to_server(struct pair *p)
{
    static uint8_t out[GRPC_PULL_BYTES];
    size_t n = grpc_client_conn_pull(p->client, out, sizeof out, p->r->now_ns);
    if (n > 0) (void)rig_feed(p->r, out, n);
    return n > 0;
}

static bool server_to_client(struct pair *p)
{
    static uint8_t out[GRPC_PULL_BYTES];
    size_t n = grpc_conn_pull(p->r->conn, out, sizeof out, p->r->now_ns);
    for (size_t at = 0; at < n;) {
        size_t step = p->r->step == 0 || p->r->step > n - at ? n - at : p->r->step;
        (void)grpc_client_conn_feed(p->client, out + at, step, p->r->now_ns);
        at += step;
    }
    return n > 0;
}

static void run(struct pair *p)
{
    bool more = !p->cut;
    while (more) {
        more = client_to_server(p);
        if (server_to_client(p)) more = true;
        (void)grpc_conn_tick(p->r->conn, p->r->now_ns);
        (void)grpc_client_conn_tick(p->client, p->r->now_ns);
        if (grpc_client_conn_want_write(p->client)) more = true;
        if (grpc_conn_want_write(p->r->conn) && !grpc_conn_done(p->r->conn)) more = true;
    }
}

static struct pair *pair_new_with(uint32_t recv_bytes_max, uint32_t streams_max)
{
    struct pair *p = calloc(1, sizeof *p);
    p->r = malloc(sizeof *p->r);
    rig_init_opts(p->r);
    p->r->opts.streams_max = streams_max;
    rig_open(p->r);
    p->opts = grpc_client_opts_default();
    p->opts.pool = p->r->pool;
    p->opts.authority = "127.0.0.1:2379";
    p->opts.recv_bytes_max = recv_bytes_max;
    p->client = grpc_client_conn_new(&p->opts, p->r->now_ns);
    assert_non_null(p->client);
    assert_false(grpc_client_conn_ready(p->client));
    run(p);
    assert_true(grpc_client_conn_ready(p->client));
    return p;
}

static struct pair *pair_new(void)
{
    return pair_new_with(UINT32_MAX, UINT32_MAX);
}

static void pair_free(struct pair *p)
{
    grpc_client_conn_free(p->client);
    rig_free(p->r);
    free(p);
}

static void calls_unary(void **state)
{
    for (size_t step = 0; step < 2; step++) {
        struct pair *p = pair_new();
        p->r->step = step;
        unary(p, "/t.S/Echo", "abc", p->r->now_ns + 5 * RIG_SECOND);
        run(p);
        EXPECT_LOG(&p->r->seen, "call /t.S/Echo\n  client-api-version=3.7\nmsg Echo abc\n");
        EXPECT_LOG(&p->told, "headers 2\nmsg abc\nend 0  (server)\n");
        assert_int_equal(grpc_client_conn_call_count(p->client), 0);
        pair_free(p);
    }
}

static void decodes_status_texts(void **state)
{
    struct pair *p = pair_new();
    unary(p, "/t.S/Fail", "", GRPC_NEVER);
    unary(p, "/t.S/Nope", "", GRPC_NEVER);
    run(p);
    EXPECT_LOG(&p->told, "end 12 unknown method Nope for service t.S (server)\n"
                         "end 3 bad key: 100%\n\xc3\xa4 (server)\n");
    pair_free(p);
}

static void sends_its_deadline_and_keeps_it(void **state)
{
    struct pair *p = pair_new();
    unary(p, "/t.S/Later", "a", p->r->now_ns + 5 * RIG_SECOND);
    run(p);
    assert_true(grpc_call_deadline_ns(p->r->last) == p->r->now_ns + 5 * RIG_SECOND);
    p->r->now_ns += 5 * RIG_SECOND;
    assert_true(grpc_client_conn_tick(p->client, p->r->now_ns) > 0);
    EXPECT_LOG(&p->told, "end 4 context deadline exceeded\n");
    run(p);
    assert_int_equal(grpc_conn_call_count(p->r->conn), 0);
    pair_free(p);
}

static void a_reset_by_the_server_at_the_deadline_is_one_too(void **state)
{
    struct pair *p = pair_new();
    unary(p, "/t.S/Later", "a", p->r->now_ns + 5 * RIG_SECOND);
    run(p);
    p->r->now_ns += 5 * RIG_SECOND;
    (void)grpc_conn_tick(p->r->conn, p->r->now_ns);
    (void)server_to_client(p);
    EXPECT_LOG(&p->told, "end 4 stream terminated by RST_STREAM with error code: CANCEL\n");
    pair_free(p);
}

static void streams_both_ways(void **state)
{
    struct pair *p = pair_new();
    struct grpc_client_call *call = start(p, "/t.S/Bidi", GRPC_BIDI, GRPC_NEVER);
    assert_int_equal(grpc_client_send(call, bytes_str("one")), 0);
    run(p);
    EXPECT_LOG(&p->told, "headers 2\nmsg one\n");
    assert_int_equal(grpc_client_send(call, bytes_str("two")), 0);
    grpc_client_half_close(call);
    assert_int_equal(grpc_client_send(call, bytes_str("three")), E_CLOSED);
    run(p);
    EXPECT_LOG(&p->told, "msg two\nend 0  (server)\n");
    pair_free(p);
}

static void starts_calls_inside_on_end(void **state)
{
    struct pair *p = pair_new();
    p->start_again = true;
    unary(p, "/t.S/Echo", "abc", GRPC_NEVER);
    run(p);
    EXPECT_LOG(&p->told, "headers 2\nmsg abc\nend 0  (server)\nheaders 2\nmsg done\n"
                         "end 0  (server)\n");
    pair_free(p);
}

static void cancels(void **state)
{
    struct pair *p = pair_new();
    struct grpc_client_call *call = start(p, "/t.S/Sink", GRPC_BIDI, GRPC_NEVER);
    run(p);
    grpc_client_cancel(call);
    EXPECT_LOG(&p->told, "");
    run(p);
    EXPECT_LOG(&p->told, "end 1 context canceled\n");
    EXPECT_LOG(&p->r->seen, "call /t.S/Sink\n  client-api-version=3.7\ncancel Sink peer\n");
    /* Before its headers have left: the server never hears of it. */
    grpc_client_cancel(start(p, "/t.S/Sink", GRPC_BIDI, GRPC_NEVER));
    run(p);
    EXPECT_LOG(&p->told, "end 1 context canceled\n");
    assert_int_equal(grpc_conn_call_count(p->r->conn), 0);
    pair_free(p);
}

static void bounds_answers(void **state)
{
    struct pair *p = pair_new_with(10, UINT32_MAX);
    unary(p, "/t.S/Echo", "0123456789", GRPC_NEVER);
    unary(p, "/t.S/Echo", "0123456789a", GRPC_NEVER);
    run(p);
    EXPECT_LOG(&p->told, "headers 2\nheaders 2\nmsg 0123456789\nend 0  (server)\n"
                         "end 8 grpc: received message larger than max (11 vs. 10)\n");
    pair_free(p);
}

static void bounds_requests(void **state)
{
    struct pair *p = pair_new();
    static uint8_t big[2 * 1024 * 1024 + 1];
    struct grpc_client_call *call = start(p, "/t.S/Later", GRPC_UNARY, GRPC_NEVER);
    assert_int_equal(grpc_client_send(call, bytes_of(big, sizeof big)), E_TOOBIG);
    assert_int_equal(grpc_client_send(call, bytes_of(big, sizeof big - 1)), 0);
    assert_int_equal(grpc_client_send(call, bytes_str("more")), E_AGAIN);
    run(p);
    EXPECT_LOG(&p->told, "writable\n");
    EXPECT_LOG(&p->r->seen, "call /t.S/Later\n  client-api-version=3.7\nmsg Later of 2097152\n");
    pair_free(p);
}

static void gives_large_answers_in_pieces(void **state)
{
    struct pair *p = pair_new();
    const struct grpc_client_call_opts o = {.path = "/t.S/Later",
                                            .deadline_ns = GRPC_NEVER,
                                            .kind = GRPC_UNARY,
                                            .events = &PIECES,
                                            .arg = p};
    struct grpc_client_call *call = NULL;
    assert_int_equal(grpc_client_start(p->client, &o, p->r->now_ns, &call), 0);
    assert_int_equal(grpc_client_send(call, BYTES_EMPTY), 0);
    run(p);
    const struct grpc_source source = rig_source(p->r, 30000, 30000);
    assert_int_equal(grpc_call_send_source(p->r->last, &source), 0);
    grpc_call_finish(p->r->last, GRPC_OK, BYTES_EMPTY);
    run(p);
    EXPECT_LOG(&p->told, "piece 0+16379 of 30000\npiece 16379+13621 of 30000\nend 0  (server)\n");
    pair_free(p);
}

static void takes_an_answer_beyond_its_windows(void **state)
{
    struct pair *p = pair_new();
    unary(p, "/t.S/Later", "a", GRPC_NEVER);
    run(p);
    const struct grpc_source source = rig_source(p->r, 40000000, 40000000);
    assert_int_equal(grpc_call_send_source(p->r->last, &source), 0);
    grpc_call_finish(p->r->last, GRPC_OK, BYTES_EMPTY);
    run(p);
    EXPECT_LOG(&p->told, "headers 2\nmsg of 40000000\nend 0  (server)\n");
    pair_free(p);
}

static void a_call_on_hold_costs_one_window(void **state)
{
    struct pair *p = pair_new();
    struct grpc_client_call *call = start(p, "/t.S/Later", GRPC_SERVER_STREAM, GRPC_NEVER);
    assert_int_equal(grpc_client_send(call, BYTES_EMPTY), 0);
    grpc_client_hold(call);
    run(p);
    size_t before = p->r->heap.live_bytes;
    const struct grpc_source source = rig_source(p->r, 10000000, 10000000);
    assert_int_equal(grpc_call_send_source(p->r->last, &source), 0);
    grpc_call_finish(p->r->last, GRPC_OK, BYTES_EMPTY);
    run(p);
    EXPECT_LOG(&p->told, "headers 2\n");
    assert_true(p->r->heap.live_bytes - before < 3 * 1024 * 1024);
    grpc_client_release(call);
    run(p);
    EXPECT_LOG(&p->told, "msg of 10000000\nend 0  (server)\n");
    pair_free(p);
}

static void an_end_waits_for_the_hold(void **state)
{
    struct pair *p = pair_new();
    struct grpc_client_call *call = start(p, "/t.S/Bidi", GRPC_BIDI, GRPC_NEVER);
    assert_int_equal(grpc_client_send(call, bytes_str("a")), 0);
    grpc_client_half_close(call);
    grpc_client_hold(call);
    run(p);
    EXPECT_LOG(&p->told, "headers 2\n");
    grpc_client_release(call);
    EXPECT_LOG(&p->told, "msg a\n");
    run(p);
    EXPECT_LOG(&p->told, "end 0  (server)\n");
    pair_free(p);
}

static void waits_for_room_under_the_limit_of_streams(void **state)
{
    struct pair *p = pair_new_with(UINT32_MAX, 1);
    unary(p, "/t.S/Later", "a", GRPC_NEVER);
    unary(p, "/t.S/Echo", "b", GRPC_NEVER);
    run(p);
    EXPECT_LOG(&p->r->seen, "call /t.S/Later\n  client-api-version=3.7\nmsg Later a\n");
    grpc_call_finish(p->r->last, GRPC_NOT_FOUND, bytes_str("x"));
    run(p);
    EXPECT_LOG(&p->told, "end 5 x (server)\nheaders 2\nmsg b\nend 0  (server)\n");
    pair_free(p);
}

static void a_lost_connection_ends_all_calls(void **state)
{
    struct pair *p = pair_new();
    unary(p, "/t.S/Later", "a", GRPC_NEVER);
    run(p);
    unary(p, "/t.S/Later", "b", GRPC_NEVER);
    grpc_client_conn_lost(p->client, "error reading from server: EOF");
    EXPECT_LOG(&p->told, "end 14 error reading from server: EOF\n"
                         "end 14 error reading from server: EOF (unprocessed)\n");
    struct grpc_client_call *call = NULL;
    const struct grpc_client_call_opts o = {
        .path = "/t.S/Echo", .deadline_ns = GRPC_NEVER, .events = &EVENTS, .arg = p};
    assert_int_equal(grpc_client_start(p->client, &o, p->r->now_ns, &call), E_CLOSED);
    pair_free(p);
}

static void a_draining_server_gets_no_new_calls(void **state)
{
    struct pair *p = pair_new_with(UINT32_MAX, 1);
    unary(p, "/t.S/Later", "a", GRPC_NEVER);
    unary(p, "/t.S/Echo", "never sent", GRPC_NEVER);
    run(p);
    grpc_conn_drain(p->r->conn, p->r->now_ns);
    run(p);
    assert_true(grpc_client_conn_draining(p->client));
    struct grpc_client_call *call = NULL;
    const struct grpc_client_call_opts o = {
        .path = "/t.S/Echo", .deadline_ns = GRPC_NEVER, .events = &EVENTS, .arg = p};
    assert_int_equal(grpc_client_start(p->client, &o, p->r->now_ns, &call), E_CLOSED);
    grpc_call_finish(p->r->last, GRPC_OK, BYTES_EMPTY);
    run(p);
    assert_non_null(strstr(p->told.text, "end 14 the connection is draining (unprocessed)\n"));
    pair_free(p);
}

static void pings_only_with_calls_open(void **state)
{
    struct pair *p = calloc(1, sizeof *p);
    p->r = malloc(sizeof *p->r);
    rig_init_opts(p->r);
    rig_open(p->r);
    p->opts = grpc_client_opts_default();
    p->opts.pool = p->r->pool;
    p->opts.authority = "a";
    p->opts.keepalive_time_ns = RIG_SECOND; /* raised to 10 s */
    p->client = grpc_client_conn_new(&p->opts, p->r->now_ns);
    run(p);
    assert_true(grpc_client_conn_tick(p->client, p->r->now_ns) == GRPC_NEVER);
    unary(p, "/t.S/Later", "a", GRPC_NEVER);
    run(p);
    assert_true(grpc_client_conn_tick(p->client, p->r->now_ns) == p->r->now_ns + 10 * RIG_SECOND);
    p->r->now_ns += 10 * RIG_SECOND;
    run(p); /* pinged and answered */
    assert_true(grpc_client_conn_tick(p->client, p->r->now_ns) == p->r->now_ns + 10 * RIG_SECOND);
    p->r->now_ns += 10 * RIG_SECOND;
    (void)grpc_client_conn_tick(p->client, p->r->now_ns);
    p->r->now_ns += 20 * RIG_SECOND;
    (void)grpc_client_conn_tick(p->client, p->r->now_ns);
    assert_non_null(strstr(p->told.text, "end 14 keepalive ping failed to receive ACK within"));
    pair_free(p);
}

/* ---- a scripted server --------------------------------------------------------------------------- */

/* What a server may say on stream 1 after an empty SETTINGS, and how the call then ends. */
struct script {
    const char *what;
    const char *bytes;
    size_t len;
    const char *told;
};

#define S(x)       (x), sizeof(x) - 1
#define STATUS_200 "\x88"
#define TYPE_GRPC                                                                                  \
    "\x0f\x10\x10"                                                                                 \
    "application/grpc"
#define HEADERS_200 "\0\0\x14\1\4\0\0\0\1" STATUS_200 TYPE_GRPC
#define TRAILERS                                                                                   \
    "\0\0\x0f\1\5\0\0\0\1\0\x0bgrpc-status\x01"                                                    \
    "0"

static const struct script SCRIPTS[] = {
    {"no trailers", S(HEADERS_200 "\0\0\0\0\1\0\0\0\1"),
     "headers 2\nend 13 server closed the stream without sending trailers\n"},
    {"no message", S(HEADERS_200 TRAILERS),
     "headers 2\nend 13 cardinality violation: received no response message from "
     "non-server-streaming RPC (server)\n"},
    {"two messages", S(HEADERS_200 "\0\0\x0c\0\0\0\0\0\1\0\0\0\0\1a\0\0\0\0\1b" TRAILERS),
     "headers 2\nmsg a\nend 13 cardinality violation: expected <EOF> for non server-streaming "
     "RPCs, but received another message\n"},
    {"half a message", S(HEADERS_200 "\0\0\6\0\0\0\0\0\1\0\0\0\0\2a" TRAILERS),
     "headers 2\nend 13 unexpected EOF (server)\n"},
    {"a bad flag", S(HEADERS_200 "\0\0\6\0\0\0\0\0\1\3\0\0\0\1a"),
     "headers 2\nend 13 grpc: received unexpected payload format 3\n"},
    {"compressed without encoding", S(HEADERS_200 "\0\0\6\0\0\0\0\0\1\1\0\0\0\1a"),
     "headers 2\nend 13 grpc: compressed flag set with identity or empty encoding\n"},
    {"refused", S("\0\0\4\3\0\0\0\0\1\0\0\0\7"),
     "end 14 stream terminated by RST_STREAM with error code: REFUSED_STREAM (unprocessed)\n"},
    {"internal", S("\0\0\4\3\0\0\0\0\1\0\0\0\2"),
     "end 13 stream terminated by RST_STREAM with error code: INTERNAL_ERROR\n"},
    {"not found, no type", S("\0\0\1\1\5\0\0\0\1\x8d"),
     "end 12 unexpected HTTP status code received from server: 404 (Not Found); malformed header: "
     "missing HTTP content-type\n"},
    {"html", S("\0\0\x0d\1\4\0\0\0\1\x88\x0f\x10\x09text/html"),
     "end 2 unexpected HTTP status code received from server: 200 (OK); transport: received "
     "unexpected content-type \"text/html\"\n"},
    {"not http/2", S("HTTP/1.1 400 Bad Request\r\n\r\n"),
     "end 14 error reading from server: "
     "protocol error\n"},
};

static void script_run(const struct script *s, size_t step)
{
    struct pair *p = calloc(1, sizeof *p);
    p->r = malloc(sizeof *p->r);
    rig_init_opts(p->r);
    rig_open(p->r);
    p->opts = grpc_client_opts_default();
    p->opts.pool = p->r->pool;
    p->opts.authority = "a";
    p->client = grpc_client_conn_new(&p->opts, p->r->now_ns);
    unary(p, "/t.S/Echo", "x", GRPC_NEVER);
    static uint8_t out[GRPC_PULL_BYTES];
    assert_true(grpc_client_conn_pull(p->client, out, sizeof out, p->r->now_ns) > 0);
    bool raw = s->bytes[0] == 'H';
    if (!raw) (void)grpc_client_conn_feed(p->client, (const uint8_t *)"\0\0\0\4\0\0\0\0\0", 9, 1);
    for (size_t at = 0; at < s->len;) {
        size_t n = step == 0 || step > s->len - at ? s->len - at : step;
        (void)grpc_client_conn_feed(p->client, (const uint8_t *)s->bytes + at, n, p->r->now_ns);
        at += n;
    }
    (void)grpc_client_conn_pull(p->client, out, sizeof out, p->r->now_ns);
    assert_string_equal(p->told.text, s->told);
    pair_free(p);
}

static void understands_what_servers_say(void **state)
{
    for (size_t step = 0; step < 2; step++) {
        for (size_t i = 0; i < sizeof SCRIPTS / sizeof *SCRIPTS; i++) {
            if (step == 0) print_message("# %s\n", SCRIPTS[i].what);
            script_run(&SCRIPTS[i], step);
        }
    }
}

static void survive(struct test_heap *h, void *arg)
{
    struct pair *p = calloc(1, sizeof *p);
    p->r = malloc(sizeof *p->r);
    rig_init_opts(p->r);
    rig_open(p->r);
    struct grpc_pool *pool = grpc_pool_new(&h->alloc, 0);
    p->opts = grpc_client_opts_default();
    p->opts.pool = pool;
    p->opts.authority = "a";
    p->client = pool == NULL ? NULL : grpc_client_conn_new(&p->opts, p->r->now_ns);
    struct grpc_client_call *call = NULL;
    const struct grpc_client_call_opts o = {.path = "/t.S/Bidi",
                                            .deadline_ns = p->r->now_ns + RIG_SECOND,
                                            .kind = GRPC_BIDI,
                                            .events = &EVENTS,
                                            .arg = p};
    for (int i = 0; i < 3 && p->client != NULL; i++) {
        if (grpc_client_start(p->client, &o, p->r->now_ns, &call) < 0) continue;
        if (grpc_client_send(call, bytes_str("abc")) == 0)
            grpc_client_half_close(call);
        else
            grpc_client_cancel(call);
    }
    if (p->client != NULL) run(p);
    grpc_client_conn_free(p->client);
    grpc_pool_free(pool);
    test_heap_check_empty(h);
    rig_free(p->r);
    free(p);
}

static void survives_any_failing_allocation(void **state)
{
    assert_true(test_heap_every_failure(survive, NULL) > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(calls_unary),
        RIG_TEST(decodes_status_texts),
        RIG_TEST(sends_its_deadline_and_keeps_it),
        RIG_TEST(a_reset_by_the_server_at_the_deadline_is_one_too),
        RIG_TEST(streams_both_ways),
        RIG_TEST(starts_calls_inside_on_end),
        RIG_TEST(cancels),
        RIG_TEST(bounds_answers),
        RIG_TEST(bounds_requests),
        RIG_TEST(gives_large_answers_in_pieces),
        RIG_TEST(takes_an_answer_beyond_its_windows),
        RIG_TEST(a_call_on_hold_costs_one_window),
        RIG_TEST(an_end_waits_for_the_hold),
        RIG_TEST(waits_for_room_under_the_limit_of_streams),
        RIG_TEST(a_lost_connection_ends_all_calls),
        RIG_TEST(a_draining_server_gets_no_new_calls),
        RIG_TEST(pings_only_with_calls_open),
        RIG_TEST(understands_what_servers_say),
        RIG_TEST(survives_any_failing_allocation),
    };
    return cmocka_run_group_tests_name("grpc client", tests, NULL, NULL);
}

/* HTTP/1.x of the server: what is asked, what is answered, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "http1/http1.h"
#include "test_heap.h"

#define SECOND   1000000000ULL
#define START_NS (100 * SECOND)

/* A connection whose handler notes each request and answers by its path. */
struct rig {
    struct test_heap heap;
    struct http1_opts opts;
    struct http1_handler handler;
    struct http1_conn *conn;
    uint64_t now_ns;
    size_t step;
    char seen[8192];
    size_t seen_len;
    char out[262144];
    size_t out_len;
};

static void say(struct rig *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct rig *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    r->seen_len +=
        (size_t)vsnprintf(r->seen + r->seen_len, sizeof r->seen - r->seen_len, format, args);
    va_end(args);
    assert_true(r->seen_len < sizeof r->seen);
}

static bool is(struct bytes s, const char *text)
{
    return bytes_eq(s, bytes_str(text));
}

static void answer(struct rig *r, struct http1_conn *c, const struct http1_request *req)
{
    const struct http1_field type = {bytes_str("Content-Type"), bytes_str("text/plain")};
    const struct http1_response ok = {
        .status = 200, .fields = &type, .field_count = 1, .body = bytes_str("hello")};
    if (is(req->path, "/later")) return;
    if (is(req->path, "/empty")) {
        (void)http1_respond(c, &(struct http1_response){.status = 204});
    } else if (is(req->path, "/close")) {
        struct http1_response close = ok;
        close.close = true;
        (void)http1_respond(c, &close);
    } else if (is(req->path, "/stream")) {
        if (http1_begin(c, &ok) < 0 || http1_write(c, bytes_str("0123456789abcdef!")) < 0 ||
            http1_end(c) < 0) {
            say(r, "stream failed\n");
        }
    } else {
        (void)http1_respond(c, &ok);
    }
}

static void on_request(void *arg, struct http1_conn *c, const struct http1_request *req)
{
    struct rig *r = arg;
    say(r, "%.*s %.*s", (int)req->method.len, (const char *)req->method.data, (int)req->path.len,
        (const char *)req->path.data);
    if (req->query.len > 0) {
        say(r, " ?%.*s", (int)req->query.len, (const char *)req->query.data);
    }
    struct bytes x = http1_request_get(req, "x-token");
    if (x.data != NULL) say(r, " token=%.*s", (int)x.len, (const char *)x.data);
    if (req->body.len > 0) {
        say(r, " body=%.*s", (int)(req->body.len > 40 ? 40 : req->body.len),
            (const char *)req->body.data);
    }
    say(r, "%s\n", req->keep_alive ? "" : " (last)");
    answer(r, c, req);
}

static void on_abort(void *arg, struct http1_conn *c)
{
    say(arg, "abort\n");
}

static void on_writable(void *arg, struct http1_conn *c)
{
    say(arg, "writable\n");
}

static struct rig *rig_new(void)
{
    struct rig *r = calloc(1, sizeof *r);
    test_heap_init(&r->heap);
    r->opts = http1_opts_default();
    r->now_ns = START_NS;
    r->handler = (struct http1_handler){
        .arg = r, .on_request = on_request, .on_abort = on_abort, .on_writable = on_writable};
    return r;
}

static void rig_open(struct rig *r)
{
    r->conn = http1_conn_new(&r->heap.alloc, &r->opts, &r->handler, r->now_ns);
}

static void rig_free(struct rig *r)
{
    http1_conn_free(r->conn);
    test_heap_check_empty(&r->heap);
    free(r);
}

static void take_out(struct rig *r)
{
    for (;;) {
        struct bytes out = http1_conn_out(r->conn);
        if (out.len == 0) break;
        if (r->step > 0 && out.len > r->step) out.len = r->step;
        assert_true(r->out_len + out.len < sizeof r->out);
        memcpy(r->out + r->out_len, out.data, out.len);
        r->out_len += out.len;
        http1_conn_sent(r->conn, out.len);
    }
    r->out[r->out_len] = 0;
}

static int feed(struct rig *r, const char *text, size_t len)
{
    int rc = 0;
    while (len > 0 && rc == 0) {
        size_t n = r->step == 0 || r->step > len ? len : r->step;
        rc = http1_conn_feed(r->conn, (const uint8_t *)text, n, r->now_ns);
        take_out(r);
        text += n;
        len -= n;
    }
    return rc;
}

#define HELLO_HEAD "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
#define HELLO      HELLO_HEAD "Content-Length: 5\r\n\r\nhello"
#define HELLO_LAST HELLO_HEAD "Connection: close\r\nContent-Length: 5\r\n\r\nhello"
#define H          "Host: a\r\n"
#define REFUSED(s)                                                                                 \
    "HTTP/1.1 " s "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" s

/* One conversation: what is fed, what the handler saw, what came back, whether the connection is over. */
struct talk {
    const char *what;
    const char *in;
    const char *seen;
    const char *out;
    bool over;
};

static const struct talk TALKS[] = {
    {"get", "GET /health?serializable=true&x=%20 HTTP/1.1\r\n" H "X-Token: s\r\n\r\n",
     "GET /health ?serializable=true&x=%20 token=s\n", HELLO, false},
    {"post", "POST /v3/kv/put HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\n{}",
     "POST /v3/kv/put body={}\n", HELLO, false},
    {"chunked",
     "POST /v3/kv/put HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n2;x=y\r\n\"}"
     "\r\n0\r\nX-Token: late\r\n\r\n",
     "POST /v3/kv/put body={\"a\"}\n", HELLO, false},
    {"two pipelined", "GET /a HTTP/1.1\r\n" H "\r\nGET /b HTTP/1.1\r\n" H "\r\n",
     "GET /a\nGET /b\n", HELLO HELLO, false},
    {"post, then get pipelined",
     "POST /a HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabcGET /b HTTP/1.1\r\n" H "\r\n",
     "POST /a body=abc\nGET /b\n", HELLO HELLO, false},
    {"head", "HEAD /a HTTP/1.1\r\n" H "\r\n", "HEAD /a\n", HELLO_HEAD "Content-Length: 5\r\n\r\n",
     false},
    {"no content", "GET /empty HTTP/1.1\r\n" H "\r\n", "GET /empty\n",
     "HTTP/1.1 204 No Content\r\n\r\n", false},
    {"connection: close",
     "GET /a HTTP/1.1\r\n" H "Connection: close\r\n\r\nGET /b HTTP/1.1\r\n\r\n", "GET /a (last)\n",
     HELLO_LAST, true},
    {"close by the handler", "GET /close HTTP/1.1\r\n" H "\r\n", "GET /close\n", HELLO_LAST, true},
    {"1.0", "GET /a HTTP/1.0\r\n\r\n", "GET /a (last)\n", HELLO, true},
    {"1.0 keep-alive", "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET /a\n",
     HELLO_HEAD "Connection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", false},
    {"stream", "GET /stream HTTP/1.1\r\n" H "\r\nGET /a HTTP/1.1\r\n" H "\r\n",
     "GET /stream\nGET /a\n",
     HELLO_HEAD "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n11\r\n0123456789abcdef!\r\n"
                "0\r\n\r\n" HELLO,
     false},
    {"stream to 1.0", "GET /stream HTTP/1.0\r\n\r\n", "GET /stream (last)\n",
     HELLO_HEAD "\r\nhello0123456789abcdef!", true},
    {"expect", "PUT /a HTTP/1.1\r\n" H "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\nx",
     "PUT /a body=x\n", "HTTP/1.1 100 Continue\r\n\r\n" HELLO, false},
    {"an upgrade is a request",
     "GET /a HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "GET /a\n", HELLO,
     false},
    {"unknown expectation", "PUT /a HTTP/1.1\r\n" H "Expect: tea\r\nContent-Length: 1\r\n\r\nx", "",
     REFUSED("417 Expectation Failed"), true},
    {"no host", "GET /a HTTP/1.1\r\n\r\n", "", REFUSED("400 Bad Request"), true},
    {"garbage", "\x16\x03\x01\r\n\r\n", "", REFUSED("400 Bad Request"), true},
    {"connect", "CONNECT a:1 HTTP/1.1\r\n" H "\r\n", "", REFUSED("400 Bad Request"), true},
    {"two lengths", "POST /a HTTP/1.1\r\n" H "Content-Length: 1\r\nContent-Length: 2\r\n\r\nx", "",
     REFUSED("400 Bad Request"), true},
    {"length and chunks",
     "POST /a HTTP/1.1\r\n" H "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     "", REFUSED("400 Bad Request"), true},
    {"a negative chunk",
     "POST /a HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n", "",
     REFUSED("400 Bad Request"), true},
    {"another version", "GET /a HTTP/3.0\r\n" H "\r\n", "",
     REFUSED("505 HTTP Version Not Supported"), true},
    {"a body too large", "POST /a HTTP/1.1\r\n" H "Content-Length: 101\r\n\r\n", "",
     REFUSED("413 Request Entity Too Large"), true},
    {"chunks too large",
     "POST /a HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n65\r\n"
     "01234567890123456789012345678901234567890123456789"
     "012345678901234567890123456789012345678901234567890\r\n0\r\n\r\n",
     "", REFUSED("413 Request Entity Too Large"), true},
    {"too long a target",
     "GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa HTTP/1.1\r\n" H "\r\n",
     "", REFUSED("414 Request URI Too Long"), true},
    {"too many headers", "GET /a HTTP/1.1\r\n" H "A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n\r\n", "",
     REFUSED("431 Request Header Fields Too Large"), true},
    {"too large headers",
     "GET /a HTTP/1.1\r\n" H "A: 0123456789012345678901234567890123456789012345678901234567890123"
     "01234567890123456789012345678901234567890123456789\r\nB: 01234567890123456789012345678901\r\n"
     "\r\n",
     "", REFUSED("431 Request Header Fields Too Large"), true},
};

static void converses(void **state)
{
    static const size_t steps[] = {0, 1, 3, 7};
    for (size_t s = 0; s < 4; s++) {
        for (size_t i = 0; i < sizeof TALKS / sizeof *TALKS; i++) {
            const struct talk *t = &TALKS[i];
            struct rig *r = rig_new();
            r->step = steps[s];
            r->opts.body_bytes_max = 100;
            r->opts.target_bytes_max = 60;
            r->opts.header_bytes_max = 100;
            r->opts.header_count_max = 4;
            rig_open(r);
            if (s == 0) print_message("# %s\n", t->what);
            (void)feed(r, t->in, strlen(t->in));
            assert_string_equal(r->seen, t->seen);
            assert_string_equal(r->out, t->out);
            assert_int_equal(http1_conn_done(r->conn), t->over);
            rig_free(r);
        }
    }
}

static void keeps_pipelined_requests_until_the_answer(void **state)
{
    struct rig *r = rig_new();
    rig_open(r);
    const char in[] = "GET /later HTTP/1.1\r\n" H "\r\nGET /b HTTP/1.1\r\n" H "\r\n";
    assert_int_equal(feed(r, in, sizeof in - 1), 0);
    assert_string_equal(r->seen, "GET /later\n");
    assert_int_equal(http1_respond(r->conn, &(struct http1_response){.status = 204}), 0);
    assert_string_equal(r->seen, "GET /later\n");
    take_out(r);
    assert_string_equal(r->seen, "GET /later\nGET /b\n");
    assert_string_equal(r->out, "HTTP/1.1 204 No Content\r\n\r\n" HELLO);
    rig_free(r);
}

static void stops_reading_behind_an_unanswered_request(void **state)
{
    struct rig *r = rig_new();
    static char junk[65536];
    rig_open(r);
    const char in[] = "GET /later HTTP/1.1\r\n" H "\r\n";
    assert_int_equal(feed(r, in, sizeof in - 1), 0);
    assert_true(http1_conn_want_read(r->conn));
    assert_int_equal(feed(r, junk, sizeof junk), 0);
    assert_false(http1_conn_want_read(r->conn));
    for (int i = 0; i < 15; i++)
        assert_int_equal(feed(r, junk, sizeof junk), 0);
    assert_int_equal(feed(r, junk, sizeof junk), E_CLOSED);
    assert_string_equal(r->seen, "GET /later\nabort\n");
    assert_true(http1_conn_done(r->conn));
    rig_free(r);
}

static void aborts_when_freed(void **state)
{
    struct rig *r = rig_new();
    rig_open(r);
    const char in[] = "GET /later HTTP/1.1\r\n" H "\r\n";
    (void)feed(r, in, sizeof in - 1);
    http1_conn_free(r->conn);
    assert_string_equal(r->seen, "GET /later\nabort\n");
    r->conn = NULL;
    rig_free(r);
}

static void answers_after_a_half_close(void **state)
{
    struct rig *r = rig_new();
    rig_open(r);
    const char in[] = "GET /later HTTP/1.1\r\n" H "\r\nGET /b HTTP/1.1\r\n" H "\r\n";
    (void)feed(r, in, sizeof in - 1);
    http1_conn_eof(r->conn);
    assert_false(http1_conn_done(r->conn));
    (void)http1_respond(r->conn, &(struct http1_response){.status = 204});
    take_out(r);
    assert_string_equal(r->seen, "GET /later\nGET /b\n");
    assert_true(http1_conn_done(r->conn));
    rig_free(r);
}

static void drops_what_takes_too_long(void **state)
{
    static const struct {
        const char *in;
        uint64_t limit_ns;
        const char *out;
    } cases[] = {
        {"", 120 * SECOND, ""},
        {"GET / HT", 10 * SECOND, REFUSED("408 Request Timeout")},
        {"POST / HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nabc", 120 * SECOND,
         REFUSED("408 Request Timeout")},
    };
    for (size_t i = 0; i < 3; i++) {
        struct rig *r = rig_new();
        rig_open(r);
        (void)feed(r, cases[i].in, strlen(cases[i].in));
        assert_true(http1_conn_tick(r->conn, r->now_ns) == START_NS + cases[i].limit_ns);
        (void)http1_conn_tick(r->conn, START_NS + cases[i].limit_ns - 1);
        assert_false(http1_conn_done(r->conn));
        (void)http1_conn_tick(r->conn, START_NS + cases[i].limit_ns);
        take_out(r);
        assert_true(http1_conn_done(r->conn));
        assert_string_equal(r->out, cases[i].out);
        rig_free(r);
    }
}

static void a_slow_head_is_not_saved_by_more_bytes(void **state)
{
    struct rig *r = rig_new();
    rig_open(r);
    (void)feed(r, "GET /", 5);
    for (int i = 0; i < 9; i++) {
        r->now_ns += SECOND;
        (void)feed(r, "a", 1);
    }
    (void)http1_conn_tick(r->conn, START_NS + 10 * SECOND);
    assert_true(http1_conn_done(r->conn));
    rig_free(r);
}

static void a_stream_waits_for_its_reader(void **state)
{
    struct rig *r = rig_new();
    static const char piece[1000];
    r->opts.queue_bytes = 4000;
    rig_open(r);
    const char in[] = "GET /later HTTP/1.1\r\n" H "\r\n";
    (void)feed(r, in, sizeof in - 1);
    assert_int_equal(http1_begin(r->conn, &(struct http1_response){.status = 200}), 0);
    int n = 0;
    while (http1_write(r->conn, bytes_of(piece, sizeof piece)) == 0)
        n++;
    assert_int_equal(n, 4);
    assert_string_equal(r->seen, "GET /later\n");
    http1_conn_sent(r->conn, 2500);
    assert_string_equal(r->seen, "GET /later\nwritable\n");
    assert_int_equal(http1_write(r->conn, bytes_of(piece, sizeof piece)), 0);
    assert_int_equal(http1_end(r->conn), 0);
    take_out(r);
    assert_false(http1_conn_done(r->conn));
    rig_free(r);
}

static void drains_after_the_answer(void **state)
{
    struct rig *r = rig_new();
    rig_open(r);
    const char in[] = "GET /later HTTP/1.1\r\n" H "\r\n";
    (void)feed(r, in, sizeof in - 1);
    http1_conn_drain(r->conn);
    assert_false(http1_conn_done(r->conn));
    (void)http1_respond(r->conn, &(struct http1_response){.status = 204});
    take_out(r);
    assert_string_equal(r->out, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    assert_true(http1_conn_done(r->conn));
    rig_free(r);
}

static void drains_at_once_when_idle(void **state)
{
    struct rig *r = rig_new();
    rig_open(r);
    http1_conn_drain(r->conn);
    assert_true(http1_conn_done(r->conn));
    rig_free(r);
}

static void forges_no_header(void **state)
{
    struct rig *r = rig_new();
    rig_open(r);
    const char in[] = "GET /later HTTP/1.1\r\n" H "\r\n";
    (void)feed(r, in, sizeof in - 1);
    const struct http1_field f = {bytes_str("X"), bytes_str("a\r\nSet-Cookie: b")};
    (void)http1_respond(r->conn, &(struct http1_response){
                                     .status = 200, .fields = &f, .field_count = 1, .date = "now"});
    take_out(r);
    assert_string_equal(r->out, "HTTP/1.1 200 OK\r\nX: a  Set-Cookie: b\r\nDate: now\r\n"
                                "Content-Length: 0\r\n\r\n");
    rig_free(r);
}

static void survive(struct test_heap *h, void *arg)
{
    struct rig *r = rig_new();
    r->conn = http1_conn_new(&h->alloc, &r->opts, &r->handler, START_NS);
    const char in[] = "POST /a HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
                      "\r\nGET /stream HTTP/1.1\r\n" H "\r\n";
    if (r->conn != NULL) (void)feed(r, in, sizeof in - 1);
    http1_conn_free(r->conn);
    r->conn = NULL;
    rig_free(r);
}

static void survives_any_failing_allocation(void **state)
{
    for (size_t step = 0; step < 2; step++)
        assert_true(test_heap_every_failure(survive, NULL) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(converses),
        cmocka_unit_test(keeps_pipelined_requests_until_the_answer),
        cmocka_unit_test(stops_reading_behind_an_unanswered_request),
        cmocka_unit_test(aborts_when_freed),
        cmocka_unit_test(answers_after_a_half_close),
        cmocka_unit_test(drops_what_takes_too_long),
        cmocka_unit_test(a_slow_head_is_not_saved_by_more_bytes),
        cmocka_unit_test(a_stream_waits_for_its_reader),
        cmocka_unit_test(drains_after_the_answer),
        cmocka_unit_test(drains_at_once_when_idle),
        cmocka_unit_test(forges_no_header),
        cmocka_unit_test(survives_any_failing_allocation),
    };
    return cmocka_run_group_tests_name("http1", tests, NULL, NULL);
}

/* Liveness of the server's side: handshake, pings and strikes, floods, draining, limits of streams. */
#include "rig.h"

static uint8_t room[4096];

#define HEAD_200 "  :status: 200\n  content-type: application/grpc\n"

static struct rig *opened(void)
{
    struct rig *r = malloc(sizeof *r);
    rig_init_opts(r);
    rig_open(r);
    return r;
}

static void greets_with_settings(void **state)
{
    struct rig *r = opened();
    rig_run(r);
    EXPECT_LOG(&r->frames, "SETTINGS\n  5=16384\nSETTINGS ack\n");
    rig_free(r);
}

static void announces_a_limit_of_streams(void **state)
{
    struct rig *r = malloc(sizeof *r);
    rig_init_opts(r);
    r->opts.streams_max = 2;
    rig_open(r);
    nghttp2_submit_ping(r->wire, 0, NULL);
    for (int i = 0; i < 3; i++) {
        wire_call(r, "/t.S/Later", NULL, NULL, framed(room, 0, "a", 1), true);
    }
    while (rig_wire_to_conn(r)) {}
    rig_run(r);
    EXPECT_LOG(&r->frames, "SETTINGS\n  5=16384\n  3=2\nSETTINGS ack\nPING 0000 ack\nRST 5 7\n");
    assert_int_equal(grpc_conn_call_count(r->conn), 2);
    assert_false(grpc_conn_done(r->conn));
    rig_free(r);
}

static void drops_a_half_sent_preface(void **state)
{
    struct rig *r = opened();
    assert_int_equal(rig_feed(r, "PRI * HTTP/2.0\r\n\r\nSM", 20), 0);
    assert_true(grpc_conn_tick(r->conn, r->now_ns) == RIG_START_NS + 10 * RIG_SECOND);
    (void)grpc_conn_tick(r->conn, RIG_START_NS + 10 * RIG_SECOND - 1);
    assert_false(grpc_conn_done(r->conn));
    (void)grpc_conn_tick(r->conn, RIG_START_NS + 10 * RIG_SECOND);
    assert_true(grpc_conn_done(r->conn));
    rig_free(r);
}

static void refuses_a_wrong_preface(void **state)
{
    struct rig *r = opened();
    assert_int_equal(rig_feed(r, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27), E_PROTO);
    assert_true(grpc_conn_done(r->conn));
    assert_int_equal(rig_feed(r, "x", 1), E_CLOSED);
    rig_free(r);
}

/* A HEADERS frame of 10 bytes without END_HEADERS, of which nothing follows. */
static void drops_a_half_sent_header_block(void **state)
{
    struct rig *r = rig_new();
    assert_int_equal(rig_feed(r, "\0\0\1\1\0\0\0\0\1\x83", 10), 0);
    r->now_ns += 3 * RIG_SECOND;
    assert_true(grpc_conn_tick(r->conn, r->now_ns) == RIG_START_NS + 10 * RIG_SECOND);
    (void)grpc_conn_tick(r->conn, RIG_START_NS + 10 * RIG_SECOND);
    assert_true(grpc_conn_done(r->conn));
    rig_free(r);
}

static void closes_without_goaway_on_a_huge_frame(void **state)
{
    struct rig *r = rig_new();
    (void)rig_feed(r, "\0\x40\1\0\0\0\0\0\1", 9);
    rig_run(r);
    EXPECT_LOG(&r->frames, "");
    assert_true(grpc_conn_done(r->conn));
    rig_free(r);
}

static void says_goaway_to_an_even_stream(void **state)
{
    struct rig *r = rig_new();
    (void)rig_feed(r, "\0\0\1\1\5\0\0\0\2\x83", 10);
    rig_run(r);
    assert_non_null(strstr(r->frames.text, "GOAWAY 0 1 "));
    assert_true(grpc_conn_done(r->conn));
    rig_free(r);
}

static void ping(struct rig *r)
{
    nghttp2_submit_ping(r->wire, 0, NULL);
    rig_run(r);
}

static void tells_a_nervous_client_off(void **state)
{
    for (int with_call = 0; with_call < 2; with_call++) {
        struct rig *r = rig_new();
        if (with_call) {
            wire_call(r, "/t.S/Later", NULL, NULL, framed(room, 0, "a", 1), true);
            rig_run(r);
        }
        for (int i = 0; i < 3; i++)
            ping(r);
        EXPECT_LOG(&r->frames, "PING 0000 ack\nPING 0000 ack\nPING 0000 ack\n");
        ping(r);
        EXPECT_LOG(&r->frames, with_call ? "PING 0000 ack\nGOAWAY 1 11 too_many_pings\n"
                                         : "PING 0000 ack\nGOAWAY 0 11 too_many_pings\n");
        assert_false(grpc_conn_done(r->conn));
        assert_true(grpc_conn_tick(r->conn, r->now_ns) == r->now_ns + RIG_SECOND);
        (void)grpc_conn_tick(r->conn, r->now_ns + RIG_SECOND);
        assert_true(grpc_conn_done(r->conn));
        rig_free(r);
    }
}

static void bears_slow_pings_of_a_client_with_calls(void **state)
{
    struct rig *r = rig_new();
    wire_call(r, "/t.S/Later", NULL, NULL, framed(room, 0, "a", 1), true);
    rig_run(r);
    for (int i = 0; i < 10; i++) {
        ping(r);
        r->now_ns += 5 * RIG_SECOND;
    }
    assert_null(strstr(r->frames.text, "GOAWAY"));
    rig_free(r);
}

static void pings_without_calls_must_be_hours_apart(void **state)
{
    struct rig *r = rig_new();
    for (int i = 0; i < 4; i++) {
        ping(r);
        r->now_ns += 60 * RIG_SECOND;
    }
    assert_non_null(strstr(r->frames.text, "GOAWAY 0 11 too_many_pings"));
    rig_free(r);
}

static void what_we_send_clears_the_strikes(void **state)
{
    struct rig *r = rig_new();
    for (int i = 0; i < 10; i++) {
        ping(r);
        wire_call(r, "/t.S/Echo", NULL, NULL, framed(room, 0, "a", 1), true);
        rig_run(r);
        ping(r);
        ping(r);
    }
    assert_null(strstr(r->frames.text, "GOAWAY"));
    rig_free(r);
}

static void pings_a_silent_client(void **state)
{
    struct rig *r = rig_new();
    const uint64_t idle = 7200 * RIG_SECOND;
    assert_true(grpc_conn_tick(r->conn, r->now_ns) == RIG_START_NS + idle);
    r->now_ns += idle;
    rig_run(r);
    EXPECT_LOG(&r->frames, "PING 0000\n");
    rig_run(r); /* its answer */
    assert_true(grpc_conn_tick(r->conn, r->now_ns) == r->now_ns + idle);
    r->now_ns += idle;
    assert_true(grpc_conn_tick(r->conn, r->now_ns) == r->now_ns + 20 * RIG_SECOND);
    (void)grpc_conn_tick(r->conn, r->now_ns + 20 * RIG_SECOND);
    assert_true(grpc_conn_done(r->conn));
    rig_free(r);
}

static void drains(void **state)
{
    struct rig *r = rig_new();
    wire_call(r, "/t.S/Later", NULL, NULL, framed(room, 0, "a", 1), true);
    rig_run(r);
    struct grpc_call *call = r->last;
    r->deaf = true;
    grpc_conn_drain(r->conn, r->now_ns);
    grpc_conn_drain(r->conn, r->now_ns);
    /* Sent before the client knows: still served. */
    wire_call(r, "/t.S/Echo", NULL, NULL, framed(room + 100, 0, "b", 1), true);
    rig_run(r);
    r->deaf = false;
    rig_run(r);
    EXPECT_LOG(&r->frames, "GOAWAY 2147483647 0 graceful_stop\nPING 0106\nHEADERS 3\n" HEAD_200
                           "DATA 3 6\nHEADERS 3 end\n  grpc-status: 0\n  grpc-message: \n"
                           "GOAWAY 3 0 graceful_stop\n");
    assert_false(grpc_conn_done(r->conn));
    grpc_call_finish(call, GRPC_OK, BYTES_EMPTY);
    rig_run(r);
    assert_true(grpc_conn_done(r->conn));
    rig_free(r);
}

static void drains_without_an_answer_to_its_ping(void **state)
{
    struct rig *r = rig_new();
    grpc_conn_drain(r->conn, r->now_ns);
    static uint8_t out[GRPC_PULL_BYTES];
    assert_int_equal(grpc_conn_pull(r->conn, out, sizeof out, r->now_ns), 17 + 30);
    assert_false(grpc_conn_done(r->conn));
    assert_true(grpc_conn_tick(r->conn, r->now_ns) == r->now_ns + 5 * RIG_SECOND);
    r->now_ns += 5 * RIG_SECOND;
    (void)grpc_conn_tick(r->conn, r->now_ns);
    assert_int_equal(grpc_conn_pull(r->conn, out, sizeof out, r->now_ns), 30);
    assert_true(grpc_conn_done(r->conn));
    rig_free(r);
}

static void bounds_rapid_resets(void **state)
{
    struct rig *r = malloc(sizeof *r);
    rig_init_opts(r);
    r->opts.reset_burst = 20;
    r->opts.reset_per_s = 10;
    rig_open(r);
    rig_run(r);
    int calls = 0;
    while (strstr(r->frames.text, "GOAWAY") == NULL && calls < 60) {
        memset(r->bodies, 0, sizeof r->bodies);
        int32_t id = wire_call(r, "/t.S/Later", NULL, NULL, framed(room, 0, "a", 1), true);
        while (rig_wire_to_conn(r)) {}
        nghttp2_submit_rst_stream(r->wire, 0, id, NGHTTP2_CANCEL);
        rig_run(r);
        calls++;
    }
    assert_int_equal(calls, 21);
    assert_non_null(strstr(r->frames.text, "GOAWAY 41 11 too_many_resets"));
    assert_int_equal(grpc_conn_call_count(r->conn), 0);
    rig_free(r);
}

static void forgives_resets_among_finished_calls(void **state)
{
    struct rig *r = malloc(sizeof *r);
    rig_init_opts(r);
    r->opts.reset_burst = 5;
    r->opts.reset_per_s = 10;
    rig_open(r);
    rig_run(r);
    for (int i = 0; i < 100; i++) {
        memset(r->bodies, 0, sizeof r->bodies);
        int32_t id = wire_call(r, "/t.S/Later", NULL, NULL, framed(room, 0, "a", 1), true);
        wire_call(r, "/t.S/Echo", NULL, NULL, framed(room + 100, 0, "a", 1), true);
        rig_run(r);
        nghttp2_submit_rst_stream(r->wire, 0, id, NGHTTP2_CANCEL);
        rig_run(r);
        rig_forget(&r->seen);
        assert_null(strstr(r->frames.text, "GOAWAY"));
        rig_forget(&r->frames);
    }
    rig_free(r);
}

static void bounds_floods_of_pings_and_settings(void **state)
{
    static const char *const frames[] = {"\0\0\x08\6\0\0\0\0\0abcdefgh", "\0\0\0\4\0\0\0\0\0"};
    static const size_t lens[] = {17, 9};
    for (int i = 0; i < 2; i++) {
        struct rig *r = rig_new();
        size_t before = r->heap.live_bytes;
        int n = 0;
        r->deaf = true;
        r->opts.keepalive_min_time_ns = 0;
        while (rig_feed(r, frames[i], lens[i]) == 0 && grpc_conn_want_read(r->conn) && n < 20000) {
            r->now_ns += 7200 * RIG_SECOND;
            n++;
        }
        assert_true(n < 5000);
        assert_true(r->heap.live_bytes - before < 2000000);
        rig_free(r);
    }
}

/* Answers that nobody takes stop the reading, whatever they are. */
static void does_not_read_while_answers_pile_up(void **state)
{
    struct rig *r = rig_new();
    r->deaf = true;
    int n = 0;
    while (grpc_conn_want_read(r->conn) && n < 20000) {
        memset(r->bodies, 0, sizeof r->bodies);
        wire_call(r, "/t.S/Nope", NULL, NULL, BYTES_EMPTY, true);
        while (rig_wire_to_conn(r)) {}
        rig_forget(&r->seen);
        n++;
    }
    assert_true(n < 5000);
    assert_true(r->heap.live_bytes < 16 * 1024 * 1024);
    r->deaf = false;
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(greets_with_settings),
        RIG_TEST(announces_a_limit_of_streams),
        RIG_TEST(drops_a_half_sent_preface),
        RIG_TEST(refuses_a_wrong_preface),
        RIG_TEST(drops_a_half_sent_header_block),
        RIG_TEST(closes_without_goaway_on_a_huge_frame),
        RIG_TEST(says_goaway_to_an_even_stream),
        RIG_TEST(tells_a_nervous_client_off),
        RIG_TEST(bears_slow_pings_of_a_client_with_calls),
        RIG_TEST(pings_without_calls_must_be_hours_apart),
        RIG_TEST(what_we_send_clears_the_strikes),
        RIG_TEST(pings_a_silent_client),
        RIG_TEST(drains),
        RIG_TEST(drains_without_an_answer_to_its_ping),
        RIG_TEST(bounds_rapid_resets),
        RIG_TEST(forgives_resets_among_finished_calls),
        RIG_TEST(bounds_floods_of_pings_and_settings),
        RIG_TEST(does_not_read_while_answers_pile_up),
    };
    return cmocka_run_group_tests_name("grpc live", tests, NULL, NULL);
}

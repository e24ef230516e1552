/* Streams of the server: every kind, sources, back-pressure, fairness, compression. */
#include "rig.h"

#include <zlib.h>

#define OK_TRAILERS(id) "HEADERS " id " end\n  grpc-status: 0\n  grpc-message: \n"
#define HEAD_200        "  :status: 200\n  content-type: application/grpc\n"

static uint8_t room[65536];

static void echoes_a_bidi_stream(void **state)
{
    struct rig *r = rig_new();
    int32_t id = wire_call(r, "/t.S/Bidi", NULL, NULL, framed(room, 0, "abc", 3), false);
    rig_run(r);
    EXPECT_LOG(&r->frames, "HEADERS 1\n" HEAD_200 "DATA 1 8\n");
    wire_more(r, id, framed(room, 0, "defg", 4), false);
    rig_run(r);
    EXPECT_LOG(&r->frames, "DATA 1 9\n");
    wire_more(r, id, BYTES_EMPTY, true);
    rig_run(r);
    EXPECT_LOG(&r->frames, OK_TRAILERS("1"));
    EXPECT_LOG(&r->seen, "call /t.S/Bidi\nmsg Bidi abc\nmsg Bidi defg\nhalf Bidi\n");
    rig_free(r);
}

static void joins_small_messages_in_one_frame(void **state)
{
    struct rig *r = rig_new();
    (void)framed(room, 0, "abc", 3);
    (void)framed(room + 8, 0, "", 0);
    (void)framed(room + 13, 0, "x", 1);
    wire_call(r, "/t.S/Bidi", NULL, NULL, bytes_of(room, 19), true);
    rig_run(r);
    EXPECT_LOG(&r->frames, "HEADERS 1\n" HEAD_200 "DATA 1 19\n" OK_TRAILERS("1"));
    assert_memory_equal(r->body, room, 19);
    rig_free(r);
}

static void answers_a_server_stream_when_the_request_has_ended(void **state)
{
    struct rig *r = rig_new();
    int32_t id = wire_call(r, "/t.S/Server", NULL, NULL, framed(room, 0, "abc", 3), false);
    rig_run(r);
    EXPECT_LOG(&r->seen, "call /t.S/Server\n");
    wire_more(r, id, BYTES_EMPTY, true);
    rig_run(r);
    EXPECT_LOG(&r->seen, "msg Server abc\n");
    EXPECT_LOG(&r->frames, "HEADERS 1\n" HEAD_200 "DATA 1 24\n" OK_TRAILERS("1"));
    rig_free(r);
}

static void answers_a_client_stream(void **state)
{
    struct rig *r = rig_new();
    wire_call(r, "/t.S/Client", NULL, NULL, framed(room, 0, "a", 1), true);
    rig_run(r);
    EXPECT_LOG(&r->seen, "call /t.S/Client\nmsg Client a\nhalf Client\n");
    EXPECT_LOG(&r->frames, "HEADERS 1\n" HEAD_200 "DATA 1 9\n" OK_TRAILERS("1"));
    rig_free(r);
}

static struct grpc_call *later(struct rig *r, const char *path)
{
    wire_call(r, path, NULL, NULL, framed(room, 0, "a", 1), true);
    rig_run(r);
    rig_forget(&r->seen);
    rig_forget(&r->frames);
    assert_non_null(r->last);
    return r->last;
}

static void sends_a_source_in_frames(void **state)
{
    struct rig *r = rig_new();
    struct grpc_call *call = later(r, "/t.S/Later");
    const struct grpc_source source = rig_source(r, 40000, 40000);
    assert_int_equal(grpc_call_send_source(call, &source), 0);
    grpc_call_finish(call, GRPC_OK, BYTES_EMPTY);
    rig_run(r);
    EXPECT_LOG(&r->frames,
               "HEADERS 1\n" HEAD_200 "DATA 1 16384\nDATA 1 16384\nDATA 1 7237\n" OK_TRAILERS("1"));
    assert_int_equal(r->body_len, 40005);
    assert_memory_equal(r->body, "\0\0\0\x9c\x40ss", 7);
    assert_int_equal(r->source_released, 1);
    rig_free(r);
}

static void a_source_may_have_nothing_yet(void **state)
{
    struct rig *r = rig_new();
    struct grpc_call *call = later(r, "/t.S/Later");
    const struct grpc_source source = rig_source(r, 100, 0);
    assert_int_equal(grpc_call_send_source(call, &source), 0);
    grpc_call_finish(call, GRPC_OK, BYTES_EMPTY);
    rig_run(r);
    EXPECT_LOG(&r->frames, "HEADERS 1\n" HEAD_200 "DATA 1 5\n");
    r->source_ready = 60;
    grpc_call_resume(call);
    rig_run(r);
    EXPECT_LOG(&r->frames, "DATA 1 60\n");
    r->source_ready = 40;
    grpc_call_resume(call);
    rig_run(r);
    EXPECT_LOG(&r->frames, "DATA 1 40\n" OK_TRAILERS("1"));
    rig_free(r);
}

static void a_failing_source_resets_its_stream(void **state)
{
    struct rig *r = rig_new();
    struct grpc_call *call = later(r, "/t.S/Later");
    const struct grpc_source source = rig_source(r, UINT64_MAX, 1);
    struct grpc_source s = source;
    s.len = 1000;
    assert_int_equal(grpc_call_send_source(call, &s), 0);
    rig_run(r);
    EXPECT_LOG(&r->frames, "HEADERS 1\n" HEAD_200 "RST 1 2\n");
    EXPECT_LOG(&r->seen, "cancel Later error\n");
    assert_int_equal(r->source_released, 1);
    rig_free(r);
}

static void releases_sources_of_cancelled_calls(void **state)
{
    struct rig *r = rig_new();
    struct grpc_call *call = later(r, "/t.S/Later");
    const struct grpc_source source = rig_source(r, 1000, 0);
    assert_int_equal(grpc_call_send_source(call, &source), 0);
    assert_int_equal(grpc_call_send_source(call, &source), 0);
    assert_int_equal(grpc_call_send_source(call, &source), E_AGAIN);
    rig_run(r);
    nghttp2_submit_rst_stream(r->wire, 0, 1, NGHTTP2_CANCEL);
    rig_run(r);
    assert_int_equal(r->source_released, 2);
    assert_int_equal(grpc_conn_queued_bytes(r->conn), 0);
    rig_free(r);
}

/* A reader that does not read: a bound on what is queued, and a word when there is room. */
static void a_slow_reader_costs_bounded_memory(void **state)
{
    struct rig *r = rig_new();
    struct grpc_call *call = later(r, "/t.S/Sink");
    static uint8_t msg[10000];
    size_t before = r->heap.live_bytes;
    int n = 0;
    r->deaf = true;
    while (grpc_call_send(call, bytes_of(msg, sizeof msg)) == 0)
        n++;
    assert_true(n >= 26 && n <= 28);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(grpc_call_send(call, bytes_of(msg, sizeof msg)), E_AGAIN);
    }
    assert_true(r->heap.live_bytes - before < 600000);
    assert_false(grpc_call_writable(call));
    r->deaf = false;
    rig_run(r);
    EXPECT_LOG(&r->seen, "writable Sink\n");
    assert_true(grpc_call_writable(call));
    assert_int_equal(r->body_len, n * 10005);
    grpc_call_finish(call, GRPC_OK, BYTES_EMPTY);
    rig_free(r);
}

static void refuses_calls_while_too_much_is_queued(void **state)
{
    struct rig *r = malloc(sizeof *r);
    rig_init_opts(r);
    r->opts.conn_queue_bytes_max = 50000;
    rig_open(r);
    rig_run(r);
    struct grpc_call *call = later(r, "/t.S/Sink");
    static uint8_t msg[60000];
    r->deaf = true;
    assert_int_equal(grpc_call_send(call, bytes_of(msg, sizeof msg)), 0);
    wire_call(r, "/t.S/Echo", NULL, NULL, framed(room, 0, "b", 1), true);
    rig_run(r);
    EXPECT_LOG(&r->seen, "");
    r->deaf = false;
    rig_run(r);
    assert_non_null(strstr(r->frames.text, "RST 3 7\n"));
    rig_free(r);
}

static void serves_streams_by_bytes(void **state)
{
    struct rig *r = rig_new();
    struct grpc_call *calls[4];
    for (int i = 0; i < 3; i++) {
        calls[i] = later(r, "/t.S/Later");
        const struct grpc_source source = {.len = 10 * 16384, .pull = rig_source_pull, .arg = r};
        r->source_ready = r->source_left = UINT32_MAX;
        r->deaf = true;
        assert_int_equal(grpc_call_send_source(calls[i], &source), 0);
        grpc_call_finish(calls[i], GRPC_OK, BYTES_EMPTY);
    }
    calls[3] = later(r, "/t.S/Sink"); /* the watch that must not starve */
    assert_int_equal(grpc_call_send(calls[3], bytes_str("event")), 0);
    r->deaf = false;
    r->order_count = 0;
    assert_int_equal(nghttp2_session_set_local_window_size(r->wire, 0, 0, 1 << 20), 0);
    for (int32_t id = 1; id < 7; id += 2) {
        assert_int_equal(nghttp2_session_set_local_window_size(r->wire, 0, id, 1 << 20), 0);
    }
    rig_run(r);
    /* Of any 4 frames in a row no stream has more than 2; the watch's is among the first 5. */
    size_t watch_at = SIZE_MAX;
    for (size_t i = 0; i < r->order_count; i++) {
        if (r->order[i] == 7 && watch_at == SIZE_MAX) watch_at = i;
        size_t same = 0;
        for (size_t j = i; j < i + 4 && j < r->order_count; j++)
            same += r->order[j] == r->order[i];
        assert_true(same <= 2);
    }
    assert_true(watch_at < 5);
    assert_true(r->order_count >= 31);
    rig_free(r);
}

static void holds_back_what_the_handler_does_not_take(void **state)
{
    struct rig *r = rig_new();
    static uint8_t big[200000];
    size_t len = 0;
    while (len + 1005 <= sizeof big)
        len += framed(big + len, 0, room, 1000).len;
    r->show_windows = true;
    wire_call(r, "/t.S/Hold", NULL, NULL, bytes_of(big, len), true);
    rig_run(r);
    EXPECT_LOG(&r->seen, "call /t.S/Hold\n");
    assert_null(strstr(r->frames.text, "WINDOW 1"));
    size_t held = r->heap.live_bytes;
    assert_true(held < 400000);
    grpc_call_release(r->last);
    rig_run(r);
    size_t messages = 0;
    for (const char *p = r->seen.text; (p = strstr(p, "msg Hold of 1000\n")) != NULL; p++) {
        messages++;
    }
    assert_int_equal(messages, len / 1005);
    assert_non_null(strstr(r->seen.text, "half Hold\n"));
    assert_non_null(strstr(r->frames.text, "WINDOW 1"));
    rig_free(r);
}

static void large_requests_wait_for_their_budget(void **state)
{
    enum { CALLS = 6, BYTES = 200000 };
    struct rig *r = malloc(sizeof *r);
    rig_init_opts(r);
    r->opts.assembly_bytes_max = 300000;
    rig_open(r);
    rig_run(r);
    static uint8_t big[CALLS][BYTES + 5];
    static uint8_t zeros[BYTES];
    size_t idle = grpc_pool_used_bytes(r->pool);
    for (int i = 0; i < CALLS; i++) {
        wire_call(r, "/t.S/Later", NULL, NULL, framed(big[i], 0, zeros, BYTES), true);
    }
    size_t peak = 0;
    while (strlen(r->seen.text) < CALLS * strlen("call /t.S/Later\nmsg Later of 200000\n")) {
        bool moved = rig_wire_to_conn(r);
        if (rig_conn_to_wire(r)) moved = true;
        size_t used = grpc_pool_used_bytes(r->pool);
        if (used > peak) peak = used;
        assert_true(moved);
    }
    /* One assembled in buffers that double, the others held at their first window. */
    assert_true(peak - idle < 2 * 300000 + (CALLS - 1) * 2 * 65536 + 300000);
    rig_free(r);
}

static struct bytes gzipped(uint8_t *out, size_t cap, const void *msg, size_t len)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)msg;
    z.avail_in = (uInt)len;
    z.next_out = out + 5;
    z.avail_out = (uInt)(cap - 5);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t n = z.total_out;
    deflateEnd(&z);
    out[0] = 1;
    out[1] = (uint8_t)(n >> 24);
    out[2] = (uint8_t)(n >> 16);
    out[3] = (uint8_t)(n >> 8);
    out[4] = (uint8_t)n;
    return bytes_of(out, n + 5);
}

static void inflates_and_answers_in_kind(void **state)
{
    struct rig *r = rig_new();
    wire_call(r, "/t.S/Echo", "grpc-encoding", "gzip", gzipped(room, sizeof room, "abc", 3), true);
    rig_run(r);
    EXPECT_LOG(&r->seen, "call /t.S/Echo\nmsg Echo abc\n");
    assert_non_null(strstr(r->frames.text, "  grpc-encoding: gzip\n"));
    assert_int_equal(r->body[0], 1);
    assert_int_equal(r->body[5], 0x1f);
    assert_int_equal(r->body[6], 0x8b);
    rig_free(r);
}

static void a_plain_request_with_gzip_encoding_gets_gzip(void **state)
{
    struct rig *r = rig_new();
    wire_call(r, "/t.S/Echo", "grpc-encoding", "gzip", framed(room, 0, "abc", 3), true);
    rig_run(r);
    assert_int_equal(r->body[0], 1);
    rig_free(r);
}

static void an_empty_answer_is_not_compressed(void **state)
{
    struct rig *r = rig_new();
    wire_call(r, "/t.S/Echo", "grpc-encoding", "gzip", framed(room, 0, "", 0), true);
    rig_run(r);
    assert_memory_equal(r->body, "\0\0\0\0\0", 5);
    rig_free(r);
}

static void bounds_what_gzip_inflates_to(void **state)
{
    struct rig *r = rig_new();
    const size_t len = r->opts.recv_bytes_max;
    uint8_t *zeros = calloc(1, len + 1);
    wire_call(r, "/t.S/Later", "grpc-encoding", "gzip", gzipped(room, sizeof room, zeros, len),
              true);
    rig_run(r);
    EXPECT_LOG(&r->seen, "call /t.S/Later\nmsg Later of 2097152\n");
    wire_call(r, "/t.S/Echo", "grpc-encoding", "gzip", gzipped(room, sizeof room, zeros, len + 1),
              true);
    rig_run(r);
    assert_non_null(strstr(r->frames.text, "grpc-status: 8\n  grpc-message: grpc: received message "
                                           "after decompression larger than max 2097152\n"));
    free(zeros);
    rig_free(r);
}

static void shares_spans_of_large_parts(void **state)
{
    struct rig *r = rig_new();
    struct grpc_call *call = later(r, "/t.S/Later");
    struct rcbuf *big = rcbuf_new(&r->heap.alloc, 5000);
    memset(big->data, 'e', 5000);
    const struct grpc_part parts[] = {{bytes_str("head"), NULL},
                                      {rcbuf_bytes(big), big},
                                      {bytes_of(big->data, 10), big},
                                      {bytes_str("tail"), NULL}};
    assert_int_equal(grpc_call_send_parts(call, parts, 4), 0);
    assert_int_equal(big->refs, 2);
    rcbuf_unref(big);
    grpc_call_finish(call, GRPC_OK, BYTES_EMPTY);
    rig_run(r);
    assert_int_equal(r->body_len, 5 + 5018);
    assert_memory_equal(r->body, "\0\0\0\x13\x9aheadee", 11);
    assert_memory_equal(r->body + r->body_len - 5, "etail", 5);
    rig_free(r);
}

static void survive(struct test_heap *h, void *arg)
{
    struct rig *r = malloc(sizeof *r);
    rig_init_opts(r);
    r->pool = grpc_pool_new(&h->alloc, 0);
    r->opts.pool = r->pool;
    r->conn = r->pool == NULL ? NULL : grpc_conn_new(&r->opts, &r->handler, r->now_ns);
    if (r->conn != NULL) {
        static uint8_t big[70005] = {0, 0, 1, 0x11, 0x70};
        wire_new(r);
        wire_call(r, "/t.S/Echo", "grpc-timeout", "1S", framed(room, 0, "abc", 3), true);
        wire_call(r, "/t.S/Bidi", "grpc-encoding", "gzip", framed(room + 100, 0, "abc", 3), true);
        wire_call(r, "/t.S/Server", "token", "t", framed(room + 200, 0, "abc", 3), true);
        wire_call(r, "/t.S/Fail", NULL, NULL, bytes_of(big, sizeof big), true);
        wire_call(r, "/t.S/Nope", NULL, NULL, framed(room + 300, 0, "abc", 3), true);
        wire_call(r, "/t.S/Later", "grpc-timeout", "1S", framed(room + 400, 0, "a", 1), true);
        rig_run(r);
        r->now_ns += RIG_SECOND;
        rig_run(r);
        nghttp2_session_del(r->wire);
    }
    grpc_conn_free(r->conn);
    grpc_pool_free(r->pool);
    test_heap_check_empty(&r->heap);
    free(r->body);
    free(r);
}

static void survives_any_failing_allocation(void **state)
{
    assert_true(test_heap_every_failure(survive, NULL) > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(echoes_a_bidi_stream),
        RIG_TEST(joins_small_messages_in_one_frame),
        RIG_TEST(answers_a_server_stream_when_the_request_has_ended),
        RIG_TEST(answers_a_client_stream),
        RIG_TEST(sends_a_source_in_frames),
        RIG_TEST(a_source_may_have_nothing_yet),
        RIG_TEST(a_failing_source_resets_its_stream),
        RIG_TEST(releases_sources_of_cancelled_calls),
        RIG_TEST(a_slow_reader_costs_bounded_memory),
        RIG_TEST(refuses_calls_while_too_much_is_queued),
        RIG_TEST(serves_streams_by_bytes),
        RIG_TEST(holds_back_what_the_handler_does_not_take),
        RIG_TEST(large_requests_wait_for_their_budget),
        RIG_TEST(inflates_and_answers_in_kind),
        RIG_TEST(a_plain_request_with_gzip_encoding_gets_gzip),
        RIG_TEST(an_empty_answer_is_not_compressed),
        RIG_TEST(bounds_what_gzip_inflates_to),
        RIG_TEST(shares_spans_of_large_parts),
        RIG_TEST(survives_any_failing_allocation),
    };
    return cmocka_run_group_tests_name("grpc stream", tests, NULL, NULL);
}

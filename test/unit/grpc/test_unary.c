/* Unary calls of the server: every rule of http.md, section 5, as frames. */
#include "rig.h"

#define OK_TRAILERS(id) "HEADERS " id " end\n  grpc-status: 0\n  grpc-message: \n"
#define HEAD_200        "  :status: 200\n  content-type: application/grpc\n"
#define ANSWER_ABC      "HEADERS 1\n" HEAD_200 "DATA 1 8\n" OK_TRAILERS("1")

static uint8_t room[4096];

static void answers_a_unary_call(void **state)
{
    struct rig *r = rig_new();
    wire_call(r, "/t.S/Echo", NULL, NULL, framed(room, 0, "abc", 3), true);
    rig_run(r);
    EXPECT_LOG(&r->seen, "call /t.S/Echo\nmsg Echo abc\n");
    EXPECT_LOG(&r->frames, ANSWER_ABC);
    assert_memory_equal(r->body, "\0\0\0\0\3abc", 8);
    assert_int_equal(grpc_conn_call_count(r->conn), 0);
    rig_free(r);
}

static void takes_bytes_one_at_a_time(void **state)
{
    struct rig *r = malloc(sizeof *r);
    rig_init_opts(r);
    r->step = 1;
    rig_open(r);
    wire_call(r, "/t.S/Echo", NULL, NULL, framed(room, 0, "abc", 3), true);
    rig_run(r);
    EXPECT_LOG(&r->seen, "call /t.S/Echo\nmsg Echo abc\n");
    EXPECT_LOG(&r->frames, "SETTINGS\n  5=16384\nSETTINGS ack\n" ANSWER_ABC);
    rig_free(r);
}

static void answers_before_the_client_ends_its_side(void **state)
{
    struct rig *r = rig_new();
    wire_call(r, "/t.S/Echo", NULL, NULL, framed(room, 0, "abc", 3), false);
    rig_run(r);
    EXPECT_LOG(&r->frames, ANSWER_ABC "RST 1 0\n");
    rig_free(r);
}

static void ignores_what_follows_the_first_message(void **state)
{
    struct rig *r = rig_new();
    (void)framed(room, 0, "abc", 3);
    memcpy(room + 8, "\7garbage", 8);
    wire_call(r, "/t.S/Echo", NULL, NULL, bytes_of(room, 16), true);
    rig_run(r);
    EXPECT_LOG(&r->seen, "call /t.S/Echo\nmsg Echo abc\n");
    EXPECT_LOG(&r->frames, ANSWER_ABC);
    rig_free(r);
}

static void encodes_status_texts(void **state)
{
    struct rig *r = rig_new();
    wire_call(r, "/t.S/Fail", NULL, NULL, framed(room, 0, "", 0), true);
    rig_run(r);
    EXPECT_LOG(&r->frames, "HEADERS 1 end\n" HEAD_200
                           "  grpc-status: 3\n  grpc-message: bad key: 100%25%0A%C3%A4\n");
    rig_free(r);
}

/* One request that is answered by trailers only. */
struct refusal {
    const char *what;
    const char *path;
    const char *name; /* of one further header */
    const char *value;
    struct bytes body;
    const char *frames;
    const char *seen;
};

#define B(s)                                                                                       \
    {                                                                                              \
        (const uint8_t *)(s), sizeof(s) - 1                                                        \
    }
#define TRAILERS_ONLY(code, text)                                                                  \
    "HEADERS 1 end\n" HEAD_200 "  grpc-status: " code "\n  grpc-message: " text "\n"
#define TRAILERS_400(code, text)                                                                   \
    "HEADERS 1 end\n  :status: 400\n  content-type: application/grpc\n  grpc-status: " code        \
    "\n  grpc-message: " text "\n"

static const struct refusal REFUSALS[] = {
    {"empty body", "/t.S/Echo", NULL, NULL, B(""), TRAILERS_ONLY("2", "EOF"),
     "call /t.S/Echo\ncancel Echo error\n"},
    {"half a prefix", "/t.S/Echo", NULL, NULL, B("\0\0"), TRAILERS_ONLY("2", "unexpected EOF"),
     "call /t.S/Echo\ncancel Echo error\n"},
    {"half a message", "/t.S/Echo", NULL, NULL, B("\0\0\0\0\5abc"),
     TRAILERS_ONLY("2", "unexpected EOF"), "call /t.S/Echo\ncancel Echo error\n"},
    {"half a message of a stream", "/t.S/Sink", NULL, NULL, B("\0\0\0\0\5abc"),
     TRAILERS_ONLY("13", "unexpected EOF"), "call /t.S/Sink\ncancel Sink error\n"},
    {"no message of a server stream", "/t.S/Server", NULL, NULL, B(""),
     TRAILERS_ONLY("13", "cardinality violation: received no request message from "
                         "non-client-streaming RPC"),
     "call /t.S/Server\ncancel Server error\n"},
    {"two messages of a server stream", "/t.S/Server", NULL, NULL, B("\0\0\0\0\1a\0\0\0\0\1b"),
     TRAILERS_ONLY("13", "cardinality violation: received multiple request messages for "
                         "non-client-streaming RPC"),
     "call /t.S/Server\ncancel Server error\n"},
    {"a flag above 1", "/t.S/Echo", NULL, NULL, B("\2\0\0\0\1a"),
     TRAILERS_ONLY("13", "grpc: received unexpected payload format 2"),
     "call /t.S/Echo\ncancel Echo error\n"},
    {"compressed without encoding", "/t.S/Echo", NULL, NULL, B("\1\0\0\0\1a"),
     TRAILERS_ONLY("13", "grpc: compressed flag set with identity or empty encoding"),
     "call /t.S/Echo\ncancel Echo error\n"},
    {"compressed with identity", "/t.S/Echo", "grpc-encoding", "identity", B("\1\0\0\0\1a"),
     TRAILERS_ONLY("13", "grpc: compressed flag set with identity or empty encoding"),
     "call /t.S/Echo\ncancel Echo error\n"},
    {"unknown encoding", "/t.S/Echo", "grpc-encoding", "zst\"d", B("\1\0\0\0\1a"),
     TRAILERS_ONLY("12", "grpc: Decompressor is not installed for grpc-encoding \"zst\\\"d\""),
     "call /t.S/Echo\ncancel Echo error\n"},
    {"broken gzip", "/t.S/Echo", "grpc-encoding", "gzip", B("\1\0\0\0\1a"),
     TRAILERS_ONLY("13", "grpc: failed to decompress the message: gzip: invalid data"),
     "call /t.S/Echo\ncancel Echo error\n"},
    {"too large", "/t.S/Echo", NULL, NULL, B("\0\0\x20\0\1a"),
     TRAILERS_ONLY("8", "grpc: received message larger than max (2097153 vs. 2097152)"),
     "call /t.S/Echo\ncancel Echo error\n"},
    {"no second slash", "/foo", NULL, NULL, B("\0\0\0\0\0"),
     TRAILERS_ONLY("12", "malformed method name: \"/foo\""), ""},
    {"no slash", "foo", NULL, NULL, B("\0\0\0\0\0"),
     TRAILERS_ONLY("12", "malformed method name: \"foo\""), ""},
    {"unknown service", "/x.Y/Z", NULL, NULL, B("\0\0\0\0\0"),
     TRAILERS_ONLY("12", "unknown service x.Y"), "call /x.Y/Z\n"},
    {"unknown method", "/t.S/Z", NULL, NULL, B("\0\0\0\0\0"),
     TRAILERS_ONLY("12", "unknown method Z for service t.S"), "call /t.S/Z\n"},
    {"refused by the handler", "/t.S/Refuse", NULL, NULL, B("\0\0\0\0\0"),
     TRAILERS_ONLY("5", "refused"), "call /t.S/Refuse\n"},
    {"no time at all", "/t.S/Echo", "grpc-timeout", "0n", B("\0\0\0\0\0"),
     TRAILERS_ONLY("4", "context deadline exceeded"), ""},
    {"bad unit", "/t.S/Echo", "grpc-timeout", "5x", B("\0\0\0\0\0"),
     TRAILERS_400("13",
                  "malformed grpc-timeout: transport: timeout unit is not recognized: \"5x\""),
     ""},
    {"too long a timeout", "/t.S/Echo", "grpc-timeout", "123456789S", B("\0\0\0\0\0"),
     TRAILERS_400("13", "malformed grpc-timeout: transport: timeout string is too long: "
                        "\"123456789S\""),
     ""},
    {"too short a timeout", "/t.S/Echo", "grpc-timeout", "S", B("\0\0\0\0\0"),
     TRAILERS_400("13", "malformed grpc-timeout: transport: timeout string is too short: \"S\""),
     ""},
    {"a timeout of no digits", "/t.S/Echo", "grpc-timeout", "-1S", B("\0\0\0\0\0"),
     TRAILERS_400("13",
                  "malformed grpc-timeout: strconv.ParseUint: parsing \"-1\": invalid syntax"),
     ""},
    {"a connection header", "/t.S/Echo", "connection", "close", B("\0\0\0\0\0"), "RST 1 1\n", ""},
    {"a name with a blank", "/t.S/Echo", "to ken", "x", B("\0\0\0\0\0"), "RST 1 1\n", ""},
};

static void refuses_what_is_wrong(void **state)
{
    for (size_t step = 0; step < 2; step++) {
        for (size_t i = 0; i < sizeof REFUSALS / sizeof *REFUSALS; i++) {
            const struct refusal *f = &REFUSALS[i];
            struct rig *r = rig_new();
            r->step = step;
            print_message("# %s\n", f->what);
            wire_call(r, f->path, f->name, f->value, f->body, true);
            rig_run(r);
            assert_string_equal(r->frames.text, f->frames);
            assert_string_equal(r->seen.text, f->seen);
            rig_free(r);
        }
    }
}

static void resets_after_an_early_error(void **state)
{
    struct rig *r = rig_new();
    wire_call(r, "/t.S/Z", NULL, NULL, bytes_of("\0\0\0", 3), false);
    rig_run(r);
    EXPECT_LOG(&r->frames, TRAILERS_ONLY("12", "unknown method Z for service t.S") "RST 1 0\n");
    rig_free(r);
}

static void demands_post(void **state)
{
    struct rig *r = rig_new();
    const nghttp2_nv nv[] = {RIG_H(":method", "GET"), RIG_H(":path", "/t.S/Echo"),
                             RIG_H("content-type", "application/grpc")};
    wire_submit(r, nv, 3, BYTES_EMPTY, true);
    rig_run(r);
    EXPECT_LOG(&r->frames, "HEADERS 1 end\n  :status: 405\n  content-type: application/grpc\n"
                           "  grpc-status: 13\n  grpc-message: Received a HEADERS frame with "
                           ":method \"GET\" which should be POST\n");
    rig_free(r);
}

static void demands_a_grpc_content_type(void **state)
{
    static const char *const types[] = {"application/json", "application/grpc-web", "text/\"x\""};
    static const char *const texts[] = {"application/json", "application/grpc-web",
                                        "text/\\\"x\\\""};
    for (size_t i = 0; i < 3; i++) {
        struct rig *r = rig_new();
        char expected[512];
        const nghttp2_nv nv[] = {RIG_H(":method", "POST"), RIG_H(":path", "/t.S/Echo"),
                                 RIG_H("content-type", types[i])};
        wire_submit(r, nv, 3, BYTES_EMPTY, true);
        rig_run(r);
        (void)snprintf(expected, sizeof expected,
                       "HEADERS 1 end\n  :status: 415\n  content-type: application/grpc\n"
                       "  grpc-status: 3\n"
                       "  grpc-message: invalid gRPC request content-type \"%s\"\n",
                       texts[i]);
        EXPECT_LOG(&r->frames, expected);
        rig_free(r);
    }
}

static void repeats_the_suffix(void **state)
{
    static const char *const types[] = {"application/grpc+proto", "application/grpc;charset=x",
                                        "application/grpc+"};
    static const char *const echoed[] = {"application/grpc+proto", "application/grpc+charset=x",
                                         "application/grpc"};
    for (size_t i = 0; i < 3; i++) {
        struct rig *r = rig_new();
        char expected[512];
        const nghttp2_nv nv[] = {RIG_H(":method", "POST"), RIG_H(":path", "/t.S/Echo"),
                                 RIG_H("content-type", types[i])};
        wire_submit(r, nv, 3, framed(room, 0, "abc", 3), true);
        rig_run(r);
        (void)snprintf(expected, sizeof expected,
                       "HEADERS 1\n  :status: 200\n  content-type: %s\nDATA 1 8\n" OK_TRAILERS("1"),
                       echoed[i]);
        EXPECT_LOG(&r->frames, expected);
        rig_free(r);
    }
}

static void refuses_two_authorities(void **state)
{
    struct rig *r = rig_new();
    const nghttp2_nv nv[] = {RIG_H(":method", "POST"), RIG_H(":path", "/t.S/Echo"),
                             RIG_H(":authority", "a"), RIG_H(":authority", "b"),
                             RIG_H("content-type", "application/grpc")};
    wire_submit(r, nv, 5, BYTES_EMPTY, true);
    rig_run(r);
    EXPECT_LOG(&r->frames, TRAILERS_400("13", "num values of :authority: 2, num values of host: "
                                              "0, both must only have 1 value as per HTTP/2 spec"));
    rig_free(r);
}

static void hands_metadata_over(void **state)
{
    struct rig *r = rig_new();
    wire_call(r, "/t.S/Echo", "token", "secret.1", framed(room, 0, "", 0), true);
    rig_run(r);
    EXPECT_LOG(&r->seen, "call /t.S/Echo\n  token=secret.1\nmsg Echo \n");
    rig_free(r);
}

static void bounds_header_lists(void **state)
{
    struct rig *r = malloc(sizeof *r);
    rig_init_opts(r);
    r->opts.header_bytes_max = 400;
    rig_open(r);
    char big[300];
    memset(big, 'x', sizeof big);
    big[sizeof big - 1] = 0;
    wire_call(r, "/t.S/Echo", "token", big, framed(room, 0, "", 0), true);
    rig_run(r);
    EXPECT_LOG(&r->frames, "SETTINGS\n  5=16384\nSETTINGS ack\nRST 1 6\n");
    EXPECT_LOG(&r->seen, "");
    rig_free(r);
}

static void gathers_a_large_message(void **state)
{
    const size_t len = 1572864;
    struct rig *r = rig_new();
    uint8_t *big = malloc(len + 5);
    uint8_t *msg = calloc(1, len);
    wire_call(r, "/t.S/Later", NULL, NULL, framed(big, 0, msg, len), true);
    rig_run(r);
    EXPECT_LOG(&r->seen, "call /t.S/Later\nmsg Later of 1572864\n");
    rig_free(r);
    free(big);
    free(msg);
}

static void cancels_once_when_the_client_resets(void **state)
{
    struct rig *r = rig_new();
    int32_t id = wire_call(r, "/t.S/Later", NULL, NULL, framed(room, 0, "a", 1), true);
    rig_run(r);
    assert_int_equal(nghttp2_submit_rst_stream(r->wire, 0, id, NGHTTP2_CANCEL), 0);
    rig_run(r);
    EXPECT_LOG(&r->seen, "call /t.S/Later\nmsg Later a\ncancel Later peer\n");
    assert_int_equal(grpc_conn_call_count(r->conn), 0);
    rig_free(r);
}

static void cancels_open_calls_when_freed(void **state)
{
    struct rig *r = rig_new();
    wire_call(r, "/t.S/Later", NULL, NULL, framed(room, 0, "a", 1), true);
    rig_run(r);
    rig_close(r);
    EXPECT_LOG(&r->seen, "call /t.S/Later\nmsg Later a\ncancel Later conn\n");
    free(r);
}

static void expires_calls(void **state)
{
    struct rig *r = rig_new();
    wire_call(r, "/t.S/Later", "grpc-timeout", "2S", framed(room, 0, "a", 1), true);
    rig_run(r);
    assert_true(grpc_call_deadline_ns(r->last) == RIG_START_NS + 2 * RIG_SECOND);
    assert_true(grpc_conn_tick(r->conn, r->now_ns) == RIG_START_NS + 2 * RIG_SECOND);
    r->now_ns += 2 * RIG_SECOND - 1;
    rig_run(r);
    EXPECT_LOG(&r->frames, "");
    r->now_ns += 1;
    rig_run(r);
    EXPECT_LOG(&r->frames, "RST 1 8\n");
    EXPECT_LOG(&r->seen, "call /t.S/Later\nmsg Later a\ncancel Later deadline\n");
    rig_free(r);
}

static void a_finished_call_does_not_expire(void **state)
{
    struct rig *r = rig_new();
    wire_call(r, "/t.S/Later", "grpc-timeout", "2S", framed(room, 0, "a", 1), true);
    rig_run(r);
    grpc_call_finish(r->last, GRPC_OK, BYTES_EMPTY);
    r->now_ns += 3 * RIG_SECOND;
    (void)grpc_conn_tick(r->conn, r->now_ns);
    rig_run(r);
    EXPECT_LOG(&r->frames, TRAILERS_ONLY("0", ""));
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(answers_a_unary_call),
        RIG_TEST(takes_bytes_one_at_a_time),
        RIG_TEST(answers_before_the_client_ends_its_side),
        RIG_TEST(ignores_what_follows_the_first_message),
        RIG_TEST(encodes_status_texts),
        RIG_TEST(refuses_what_is_wrong),
        RIG_TEST(resets_after_an_early_error),
        RIG_TEST(demands_post),
        RIG_TEST(demands_a_grpc_content_type),
        RIG_TEST(repeats_the_suffix),
        RIG_TEST(refuses_two_authorities),
        RIG_TEST(hands_metadata_over),
        RIG_TEST(bounds_header_lists),
        RIG_TEST(gathers_a_large_message),
        RIG_TEST(cancels_once_when_the_client_resets),
        RIG_TEST(cancels_open_calls_when_freed),
        RIG_TEST(expires_calls),
        RIG_TEST(a_finished_call_does_not_expire),
    };
    return cmocka_run_group_tests_name("grpc unary", tests, NULL, NULL);
}

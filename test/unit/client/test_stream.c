/* Streams: order, back-pressure, both directions, and ends of every kind. */
#include "kit.h"

static struct client_stream *open_stream(struct kit *k, const char *path, struct bytes body,
                                         bool send_body)
{
    struct client_request r = {.path = path, .body = body};
    struct client_stream *s = NULL;
    int rc = client_stream_open(k->c, &r, send_body, &s, &k->st);
    if (rc < 0) fail_msg("%s: %s", err_text(rc), k->st.text);
    return s;
}

static struct bytes count_request(uint8_t out[12], uint64_t count, uint32_t size)
{
    memcpy(out, &count, sizeof count);
    memcpy(out + sizeof count, &size, sizeof size);
    return bytes_of(out, 12);
}

static void expect_next(struct kit *k, struct client_stream *s, uint64_t number, size_t size)
{
    uint64_t seen = 0;
    assert_int_equal(client_stream_next(s, 0, &k->answer, &k->st), 1);
    assert_int_equal(k->answer.len, size);
    memcpy(&seen, k->answer.data, sizeof seen);
    assert_int_equal(seen, number);
}

static void messages_come_in_order_and_then_the_end(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_of(f->address);
    uint8_t body[12];
    struct client_stream *s = open_stream(k, "/t.T/Count", count_request(body, 1000, 16), true);
    for (uint64_t i = 1000; i > 0; i--)
        expect_next(k, s, i, 16);
    assert_int_equal(client_stream_next(s, 0, &k->answer, &k->st), 0);
    assert_int_equal(client_stream_next(s, 0, &k->answer, &k->st), 0);
    client_stream_close(s);
    kit_free(k);
    fake_stop(f);
}

/* 64 MiB in all, of which only some MiB may wait here while nobody reads. */
static void a_slow_reader_holds_the_server_back(void **state)
{
    enum { COUNT = 64, BYTES = 1024 * 1024 };
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_of(f->address);
    uint8_t body[12];
    struct client_stream *s = open_stream(k, "/t.T/Count", count_request(body, COUNT, BYTES), true);
    expect_next(k, s, COUNT, BYTES);
    /* Other calls on the same connection go on. */
    for (int i = 0; i < 50; i++)
        kit_echo(k, "meanwhile");
    for (uint64_t i = COUNT - 1; i > 0; i--)
        expect_next(k, s, i, BYTES);
    assert_int_equal(client_stream_next(s, 0, &k->answer, &k->st), 0);
    client_stream_close(s);
    kit_free(k);
    fake_stop(f);
}

static void both_sides_talk(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_of(f->address);
    struct client_stream *s = open_stream(k, "/t.T/Chat", BYTES_EMPTY, false);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(client_stream_send(s, bytes_of(&i, sizeof i)), 0);
        assert_int_equal(client_stream_next(s, 0, &k->answer, &k->st), 1);
        assert_memory_equal(k->answer.data, &i, sizeof i);
    }
    client_stream_half_close(s);
    assert_int_equal(client_stream_next(s, 0, &k->answer, &k->st), 0);
    assert_int_equal(client_stream_send(s, bytes_str("late")), E_CLOSED);
    client_stream_close(s);
    kit_free(k);
    fake_stop(f);
}

static void nothing_within_the_time_is_told(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_of(f->address);
    struct client_stream *s = open_stream(k, "/t.T/Chat", BYTES_EMPTY, false);
    assert_int_equal(client_stream_next(s, 20 * MS, &k->answer, &k->st), E_AGAIN);
    assert_int_equal(client_stream_send(s, bytes_str("x")), 0);
    assert_int_equal(client_stream_next(s, 10000 * MS, &k->answer, &k->st), 1);
    client_stream_close(s);
    kit_free(k);
    fake_stop(f);
}

static void an_error_ends_it_with_words(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_of(f->address);
    struct client_stream *s =
        open_stream(k, "/t.T/FailStream",
                    bytes_str("\13etcdserver: mvcc: required revision has been compacted"), true);
    assert_int_equal(client_stream_next(s, 0, &k->answer, &k->st), E_COMPACTED);
    assert_string_equal(k->st.text, "etcdserver: mvcc: required revision has been compacted");
    client_stream_close(s);
    kit_free(k);
    fake_stop(f);
}

static void closing_in_the_middle_leaves_nothing(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_of(f->address);
    uint8_t body[12];
    for (int i = 0; i < 5; i++) {
        struct client_stream *s =
            open_stream(k, "/t.T/Count", count_request(body, 1000000, 1000), true);
        expect_next(k, s, 1000000, 1000);
        client_stream_close(s);
        kit_echo(k, "after");
    }
    assert_int_equal(atomic_load(&f->accepted), 1);
    kit_free(k);
    fake_stop(f);
}

static void a_server_that_goes_ends_it(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_of(f->address);
    struct client_stream *s = open_stream(k, "/t.T/Chat", BYTES_EMPTY, false);
    assert_int_equal(client_stream_send(s, bytes_str("x")), 0);
    assert_int_equal(client_stream_next(s, 0, &k->answer, &k->st), 1);
    fake_stop(f);
    assert_true(client_stream_next(s, 0, &k->answer, &k->st) < 0);
    assert_int_equal(k->st.code, GRPC_UNAVAILABLE);
    client_stream_close(s);
    kit_free(k);
}

static void without_a_server_none_opens(void **state)
{
    struct kit *k = kit_of("unix:/no/such/socket");
    struct client_request r = {.path = "/t.T/Chat", .timeout_ns = 50 * MS};
    struct client_stream *s = NULL;
    assert_int_equal(client_stream_open(k->c, &r, false, &s, &k->st), E_DEADLINE_EXCEEDED);
    assert_null(s);
    kit_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_in_order_and_then_the_end),
        cmocka_unit_test(a_slow_reader_holds_the_server_back),
        cmocka_unit_test(both_sides_talk),
        cmocka_unit_test(nothing_within_the_time_is_told),
        cmocka_unit_test(an_error_ends_it_with_words),
        cmocka_unit_test(closing_in_the_middle_leaves_nothing),
        cmocka_unit_test(a_server_that_goes_ends_it),
        cmocka_unit_test(without_a_server_none_opens),
    };
    return cmocka_run_group_tests_name("client streams", tests, NULL, NULL);
}

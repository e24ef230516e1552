/* Unary calls: endpoints of all kinds, statuses, limits, deadlines. */
#include "kit.h"
#include "tempdir.h"

static void calls_over_tcp(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_of(f->address);
    for (int i = 0; i < 3; i++)
        kit_echo(k, "hello");
    assert_int_equal(atomic_load(&f->accepted), 1);
    kit_free(k);
    fake_stop(f);
}

static void takes_urls_for_endpoints(void **state)
{
    static const char *const ENDS[] = {"", "/", "/any/path"};
    struct fake *f = fake_start("127.0.0.1:0");
    for (size_t i = 0; i < 6; i++) {
        char text[FAKE_ADDRESS_BYTES * 2];
        snprintf(text, sizeof text, "%s%s%s", i < 3 ? "http://" : "", f->address, ENDS[i % 3]);
        struct kit *k = kit_of(text);
        kit_echo(k, text);
        kit_free(k);
    }
    fake_stop(f);
}

static void calls_over_unix_sockets(void **state)
{
    struct tempdir t;
    char path[TEMPDIR_PATH_BYTES_MAX];
    char text[TEMPDIR_PATH_BYTES_MAX + 16];
    tempdir_init(&t);
    snprintf(text, sizeof text, "unix:%.200s", tempdir_path(&t, "s", path));
    struct fake *f = fake_start(text);
    struct kit *k = kit_of(text);
    kit_echo(k, "one");
    kit_free(k);
    snprintf(text, sizeof text, "unix://%.200s", path);
    k = kit_of(text);
    kit_echo(k, "two");
    kit_free(k);
    fake_stop(f);
    tempdir_deinit(&t);
}

static void refuses_tls_endpoints(void **state)
{
    struct kit *k = kit_new("https://127.0.0.1:1", NULL, NULL);
    struct errmsg em = {""};
    assert_int_equal(client_new(&k->opts, &k->c, &em), E_UNSUPPORTED);
    assert_non_null(strstr(em.text, "https://127.0.0.1:1"));
    kit_free(k);
}

static void carries_large_messages(void **state)
{
    enum { BYTES = 5 * 1024 * 1024 };
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_new(f->address, NULL, NULL);
    uint8_t *body = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i++)
        body[i] = (uint8_t)(i * 7 + i / 997);
    k->opts.send_bytes_max = BYTES;
    kit_open(k);
    assert_int_equal(kit_call(k, "/t.T/Echo", WRITE, bytes_of(body, BYTES), 0), 0);
    assert_true(bytes_eq(buf_bytes(&k->answer), bytes_of(body, BYTES)));
    free(body);
    kit_free(k);
    fake_stop(f);
}

static void does_not_send_what_is_too_large(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_new(f->address, NULL, NULL);
    char text[256];
    k->opts.send_bytes_max = 4;
    kit_open(k);
    assert_true(kit_call(k, "/t.T/Echo", READ, bytes_str("12345"), 0) < 0);
    client_status_text(&k->st, text, sizeof text);
    assert_string_equal(text, "rpc error: code = ResourceExhausted desc = "
                              "trying to send message larger than max (5 vs. 4)");
    assert_int_equal(kit_call(k, "/t.T/Echo", READ, bytes_str("1234"), 0), 0);
    kit_free(k);
    fake_stop(f);
}

static void refuses_answers_that_are_too_large(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_new(f->address, NULL, NULL);
    char text[256];
    k->opts.recv_bytes_max = 4;
    kit_open(k);
    assert_true(kit_call(k, "/t.T/Echo", READ, bytes_str("12345"), 0) < 0);
    client_status_text(&k->st, text, sizeof text);
    assert_string_equal(text, "rpc error: code = ResourceExhausted desc = "
                              "grpc: received message larger than max (5 vs. 4)");
    assert_int_equal(k->answer.len, 0);
    kit_free(k);
    fake_stop(f);
}

static void an_empty_answer_is_one(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_of(f->address);
    kit_echo(k, "");
    kit_free(k);
    fake_stop(f);
}

static void knows_etcds_own_errors(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_of(f->address);
    char text[256];
    assert_int_equal(
        kit_call(k, "/t.T/Fail", WRITE, bytes_str("\3etcdserver: key is not provided"), 0),
        E_EMPTY_KEY);
    assert_int_equal(k->st.code, GRPC_INVALID_ARGUMENT);
    client_status_text(&k->st, text, sizeof text);
    assert_string_equal(text, "etcdserver: key is not provided");
    kit_free(k);
    fake_stop(f);
}

static void names_the_code_of_other_errors(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_of(f->address);
    char text[256];
    assert_int_equal(kit_call(k, "/t.T/Fail", WRITE, bytes_str("\12something else"), 0), E_PROTO);
    client_status_text(&k->st, text, sizeof text);
    assert_string_equal(text, "rpc error: code = Aborted desc = something else");
    (void)kit_call(k, "/t.T/None", WRITE, bytes_str(""), 0);
    client_status_text(&k->st, text, sizeof text);
    assert_string_equal(
        text, "rpc error: code = Unimplemented desc = unknown method None for service t.T");
    assert_string_equal(client_code_name((enum grpc_code)99), "Unknown");
    kit_free(k);
    fake_stop(f);
}

static void keeps_to_the_deadline_and_goes_on(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_of(f->address);
    char text[256];
    for (int i = 0; i < 2; i++) {
        uint64_t start = fake_now();
        assert_int_equal(kit_call(k, "/t.T/Hang", READ, bytes_str(""), 50 * MS),
                         E_DEADLINE_EXCEEDED);
        assert_true(fake_now() - start >= 50 * MS);
        client_status_text(&k->st, text, sizeof text);
        assert_string_equal(text, "context deadline exceeded");
    }
    kit_echo(k, "still here");
    assert_int_equal(atomic_load(&f->accepted), 1);
    kit_free(k);
    fake_stop(f);
}

static void sends_metadata(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_of(f->address);
    struct client_request r = {.path = "/t.T/Head", .require_leader = true};
    assert_true(client_unary(k->c, &r, &k->answer, &k->st) < 0);
    assert_string_equal(k->st.text, "client-api-version=3.7;token=;hasleader=true;");
    r.require_leader = false;
    assert_true(client_unary(k->c, &r, &k->answer, &k->st) < 0);
    assert_string_equal(k->st.text, "client-api-version=3.7;token=;hasleader=;");
    kit_free(k);
    k = kit_new(f->address, NULL, NULL);
    k->opts.token = "given";
    kit_open(k);
    assert_true(client_unary(k->c, &r, &k->answer, &k->st) < 0);
    assert_string_equal(k->st.text, "client-api-version=3.7;token=given;hasleader=;");
    kit_free(k);
    fake_stop(f);
}

static void an_interrupt_ends_a_wait(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_of(f->address);
    char text[64];
    f->interrupts = k->c;
    assert_int_equal(kit_call(k, "/t.T/Interrupt", READ, bytes_str(""), 0), E_INTR);
    client_status_text(&k->st, text, sizeof text);
    assert_string_equal(text, "context canceled");
    kit_echo(k, "after");
    kit_free(k);
    fake_stop(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_over_tcp),
        cmocka_unit_test(takes_urls_for_endpoints),
        cmocka_unit_test(calls_over_unix_sockets),
        cmocka_unit_test(refuses_tls_endpoints),
        cmocka_unit_test(carries_large_messages),
        cmocka_unit_test(does_not_send_what_is_too_large),
        cmocka_unit_test(refuses_answers_that_are_too_large),
        cmocka_unit_test(an_empty_answer_is_one),
        cmocka_unit_test(knows_etcds_own_errors),
        cmocka_unit_test(names_the_code_of_other_errors),
        cmocka_unit_test(keeps_to_the_deadline_and_goes_on),
        cmocka_unit_test(sends_metadata),
        cmocka_unit_test(an_interrupt_ends_a_wait),
    };
    return cmocka_run_group_tests_name("client unary", tests, NULL, NULL);
}

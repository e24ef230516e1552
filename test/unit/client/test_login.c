/* Tokens: got by a login, sent, got anew when they are refused. */
#include "kit.h"

static struct kit *user(const struct fake *f, const char *name, const char *password)
{
    struct kit *k = kit_new(f->address, NULL, NULL);
    k->opts.user = name;
    k->opts.password = password;
    kit_open(k);
    return k;
}

static void a_login_gives_the_token_that_is_sent(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = user(f, "root", "secret");
    assert_int_equal(client_login(k->c, &k->st), 0);
    assert_true(kit_call(k, "/t.T/Head", WRITE, bytes_str(""), 0) < 0);
    assert_string_equal(k->st.text, "client-api-version=3.7;token=token-1;hasleader=;");
    kit_free(k);
    fake_stop(f);
}

static void a_wrong_password_is_told(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = user(f, "root", "guess");
    char text[128];
    assert_int_equal(client_login(k->c, &k->st), E_AUTH_FAILED);
    client_status_text(&k->st, text, sizeof text);
    assert_string_equal(text, "etcdserver: authentication failed, invalid user ID or password");
    kit_free(k);
    fake_stop(f);
}

static void a_server_without_auth_lets_go_on_without(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = user(f, "root", "secret");
    atomic_store(&f->auth_off, true);
    assert_int_equal(client_login(k->c, &k->st), 0);
    assert_true(kit_call(k, "/t.T/Head", WRITE, bytes_str(""), 0) < 0);
    assert_string_equal(k->st.text, "client-api-version=3.7;token=;hasleader=;");
    kit_free(k);
    fake_stop(f);
}

static void without_name_or_password_nobody_is_asked(void **state)
{
    static const char *const PAIRS[][2] = {
        {NULL, "secret"}, {"root", NULL}, {"", "secret"}, {"root", ""}};
    struct fake *f = fake_start("127.0.0.1:0");
    for (size_t i = 0; i < 4; i++) {
        struct kit *k = user(f, PAIRS[i][0], PAIRS[i][1]);
        assert_int_equal(client_login(k->c, &k->st), 0);
        kit_free(k);
    }
    assert_int_equal(atomic_load(&f->logins), 0);
    fake_stop(f);
}

static void a_given_token_beats_a_login(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_new(f->address, NULL, NULL);
    k->opts.user = "root";
    k->opts.password = "secret";
    k->opts.token = "given";
    kit_open(k);
    assert_int_equal(client_login(k->c, &k->st), 0);
    assert_int_equal(atomic_load(&f->logins), 0);
    kit_free(k);
    fake_stop(f);
}

static void a_refused_token_is_got_anew_once(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = user(f, "root", "secret");
    assert_int_equal(client_login(k->c, &k->st), 0);
    assert_int_equal(kit_call(k, "/t.T/Guarded", WRITE, bytes_str("in"), 0), 0);
    atomic_store(&f->logins, 7); /* the token of before counts no more */
    assert_int_equal(kit_call(k, "/t.T/Guarded", WRITE, bytes_str("again"), 0), 0);
    assert_int_equal(atomic_load(&f->logins), 8);
    kit_free(k);
    k = kit_new(f->address, NULL, NULL);
    k->opts.token = "given";
    kit_open(k);
    assert_int_equal(kit_call(k, "/t.T/Guarded", WRITE, bytes_str("in"), 0), E_INVALID_AUTH_TOKEN);
    kit_free(k);
    fake_stop(f);
}

static void the_login_has_a_time_of_its_own(void **state)
{
    struct kit *k = kit_new("unix:/no/such/socket", NULL, NULL);
    k->opts.user = "root";
    k->opts.password = "secret";
    k->opts.dial_timeout_ns = 50 * MS;
    kit_open(k);
    assert_int_equal(client_login(k->c, &k->st), E_DEADLINE_EXCEEDED);
    assert_string_equal(k->st.text, "context deadline exceeded");
    kit_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_login_gives_the_token_that_is_sent),
        cmocka_unit_test(a_wrong_password_is_told),
        cmocka_unit_test(a_server_without_auth_lets_go_on_without),
        cmocka_unit_test(without_name_or_password_nobody_is_asked),
        cmocka_unit_test(a_given_token_beats_a_login),
        cmocka_unit_test(a_refused_token_is_got_anew_once),
        cmocka_unit_test(the_login_has_a_time_of_its_own),
    };
    return cmocka_run_group_tests_name("client login", tests, NULL, NULL);
}

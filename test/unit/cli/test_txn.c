/* The grammar of txn: words, literals, comparisons, requests, and what is said about mistakes. */
#include "cli/txn.h"
#include "kit.h"

/* --- words ------------------------------------------------------------------------------------------- */

static void expect_words(const char *line, const char *joined)
{
    struct kit *k = kit_new();
    struct cli_words w;
    char text[256] = "";
    size_t len = 0;
    assert_int_equal(cli_split_words(bytes_str(line), &k->arena, &w), 0);
    for (size_t i = 0; i < w.count; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "[%.*s]", (int)w.items[i].len,
                                cli_text(w.items[i]));
    }
    assert_string_equal(text, joined);
    kit_free(k);
}

static void lines_split_into_words(void **state)
{
    expect_words("", "");
    expect_words("  put  a\tb ", "[put][a][b]");
    expect_words("put \"a b\" 'c \"d'", "[put][a b][c \"d]");
    expect_words("put \"\" ''", "[put][][]");
    expect_words("put \"x\"y 'z'w", "[put][x][y][z][w]");
    expect_words("put x\"y z\"", "[put][x\"y][z\"]");
    expect_words("put a'b c' d", "[put][a'b][c'][d]");
    expect_words("put \"a\\\"b\\\\\" c", "[put][a\"b\\][c]");
    expect_words("put 'a\\'b", "[put][a\\][b]");
    /* A quote without its partner is passed over. */
    expect_words("put \"b c", "[put][b][c]");
    expect_words("put 'b c", "[put][b][c]");
}

static void expect_unquoted(const char *text, const void *data, size_t len, const char *rest)
{
    struct kit *k = kit_new();
    struct bytes in = bytes_str(text);
    struct bytes out;
    assert_int_equal(cli_unquote(&in, &k->arena, &out), 0);
    assert_true(bytes_eq(out, bytes_of(data, len)));
    assert_true(bytes_eq(in, bytes_str(rest)));
    kit_free(k);
}

static void literals_resolve_gos_escapes(void **state)
{
    expect_unquoted("\"\"", "", 0, "");
    expect_unquoted("\"a b\" c", "a b", 3, " c");
    expect_unquoted("\"\\a\\b\\f\\n\\r\\t\\v\\\\\\\"\"", "\a\b\f\n\r\t\v\\\"", 9, "");
    expect_unquoted("\"\\x00\\x7F\\xff\"", "\0\x7f\xff", 3, "");
    expect_unquoted("\"\\101\\000\\377\"", "A\0\xff", 3, "");
    expect_unquoted("\"\\u00e9\\u20ac\\U0001F600\"", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9, "");
    expect_unquoted("`raw \\n \"` x", "raw \\n \"", 8, " x");
}

static void other_literals_are_none(void **state)
{
    static const char *const BAD[] = {
        "",          "abc",       "\"abc",   "`abc",        "\"\\q\"",         "\"\\'\"",
        "\"\\x1\"",  "\"\\400\"", "\"\\8\"", "\"\\ud800\"", "\"\\U00110000\"", "\"\\",
        "\"\\u12\"", "\"a\nb\"",  "'a'"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        struct kit *k = kit_new();
        struct bytes in = bytes_str(BAD[i]);
        struct bytes out;
        assert_int_equal(cli_unquote(&in, &k->arena, &out), E_INVAL);
        kit_free(k);
    }
}

/* --- comparisons ------------------------------------------------------------------------------------- */

struct run {
    struct kit *k;
    struct cli_txn t;
};

static struct run *run_new(void)
{
    struct run *r = calloc(1, sizeof *r);
    r->k = kit_new();
    cli_txn_init(&r->t, &r->k->arena);
    return r;
}

static void run_free(struct run *r)
{
    kit_free(r->k);
    free(r);
}

static int line(struct run *r, const char *text)
{
    return cli_txn_line(&r->t, bytes_str(text), &r->k->em);
}

static void comparisons_have_five_targets(void **state)
{
    static const struct {
        const char *text;
        int target, result;
        int64_t number;
    } CASES[] = {{"ver(\"k\") = \"1\"", 0, 0, 1},
                 {"version(\"k\") > \"-1\"", 0, 1, -1},
                 {"c(\"k\") < \"2\"\n", 1, 2, 2},
                 {"  create( \"k\")  !=   \"3\" and more\r\n", 1, 3, 3},
                 {"m(`k`) = `4`", 2, 0, 4},
                 {"mod(\"k\") = \"9223372036854775807\"", 2, 0, INT64_MAX},
                 {"lease(\"k\") = \"ff\"", 4, 0, 255}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct run *r = run_new();
        assert_int_equal(line(r, CASES[i].text), CLI_OK);
        assert_int_equal(r->t.request.n_compare, 1);
        const Etcdserverpb__Compare *c = r->t.request.compare[0];
        assert_int_equal(c->target, CASES[i].target);
        assert_int_equal(c->result, CASES[i].result);
        assert_int_equal(c->version, CASES[i].number); /* all numbers share their place */
        assert_memory_equal(c->key.data, "k", 1);
        run_free(r);
    }
}

static void values_are_compared_as_they_are(void **state)
{
    struct run *r = run_new();
    assert_int_equal(line(r, "val(\"k\\x00\") < \"a b\""), CLI_OK);
    const Etcdserverpb__Compare *c = r->t.request.compare[0];
    assert_int_equal(c->target_union_case, ETCDSERVERPB__COMPARE__TARGET_UNION_VALUE);
    assert_int_equal(c->key.len, 2);
    assert_int_equal(c->value.len, 3);
    assert_memory_equal(c->value.data, "a b", 3);
    run_free(r);
}

static void expect_mistake(const char *const *lines, int status, const char *text)
{
    struct run *r = run_new();
    while (lines[1] != NULL)
        assert_int_equal(line(r, *lines++), CLI_OK);
    assert_int_equal(line(r, *lines), status);
    assert_string_equal(r->k->em.text, text);
    run_free(r);
}

static void wrong_comparisons_are_told(void **state)
{
    static const struct {
        const char *text, *error;
    } CASES[] = {
        {"mod k > 0", "malformed comparison: mod k > 0"},
        {"mod(k) > \"0\"", "malformed comparison: mod(k) > \"0\"; got mod(\"\")  \"\""},
        {"mod(\"k\")> \"0\"", "malformed comparison: mod(\"k\")> \"0\"; got mod(\"k\")  \"\""},
        {"mod(\"k\" ) = \"0\"", "malformed comparison: mod(\"k\" ) = \"0\"; got mod(\"k\")  \"\""},
        {"mod(\"k\") =\"0\"",
         "malformed comparison: mod(\"k\") =\"0\"; got mod(\"k\") =\"0\" \"\""},
        {"mod(\"k\") > 0", "malformed comparison: mod(\"k\") > 0; got mod(\"k\") > \"\""},
        {"mod(\"k\") =", "malformed comparison: mod(\"k\") =; got mod(\"k\") = \"\""},
        {"mod(\"k", "malformed comparison: mod(\"k; got mod(\"\")  \"\""},
        {"size(\"k\") > \"0\"", "malformed comparison: size(\"k\") > \"0\" (unknown target size)"},
        {"mod (\"k\") = \"0\"", "malformed comparison: mod (\"k\") = \"0\" (unknown target mod )"},
        {"mod(\"k\") = \"x\"", "invalid txn compare request: mod(\"k\") = \"x\""},
        {"lease(\"k\") = \"x\"", "invalid txn compare request: lease(\"k\") = \"x\""},
        {"mod(\"k\") >= \"0\"", "malformed comparison: mod(\"k\") >= \"0\" (unknown operator >=)"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *lines[] = {CASES[i].text, NULL};
        expect_mistake(lines, CLI_BAD_INPUT, CASES[i].error);
    }
}

/* --- requests ------------------------------------------------------------------------------------------ */

static void empty_lines_end_the_parts(void **state)
{
    struct run *r = run_new();
    assert_int_equal(r->t.part, CLI_TXN_COMPARES);
    assert_int_equal(line(r, "\n"), CLI_OK);
    assert_int_equal(r->t.part, CLI_TXN_SUCCESS);
    assert_int_equal(line(r, " \t\r\n"), CLI_OK);
    assert_int_equal(r->t.part, CLI_TXN_FAILURE);
    assert_int_equal(line(r, ""), CLI_OK);
    assert_int_equal(r->t.part, CLI_TXN_DONE);
    run_free(r);
}

static void requests_are_commands_with_their_flags(void **state)
{
    struct run *r = run_new();
    assert_int_equal(line(r, ""), CLI_OK);
    assert_int_equal(line(r, "get k --prefix --rev=5"), CLI_OK);
    assert_int_equal(line(r, "get k"), CLI_OK);
    assert_int_equal(line(r, "put --lease=ff \"\\u00e9\\x00\" \"v w\" --prev-kv"), CLI_OK);
    assert_int_equal(line(r, ""), CLI_OK);
    assert_int_equal(line(r, "del -- -k"), CLI_OK);
    assert_int_equal(line(r, "d k --from-key"), CLI_OK);
    const Etcdserverpb__TxnRequest *t = &r->t.request;
    assert_int_equal(t->n_success, 3);
    assert_int_equal(t->n_failure, 2);
    assert_memory_equal(t->success[0]->request_range->range_end.data, "l", 1);
    assert_int_equal(t->success[0]->request_range->revision, 5);
    assert_int_equal(t->success[1]->request_range->range_end.len, 0);
    assert_int_equal(t->success[1]->request_range->revision, 0);
    assert_int_equal(t->success[2]->request_put->key.len, 3);
    assert_int_equal(t->success[2]->request_put->lease, 255);
    assert_true(t->success[2]->request_put->prev_kv);
    assert_memory_equal(t->failure[0]->request_delete_range->key.data, "-k", 2);
    assert_int_equal(t->failure[1]->request_delete_range->range_end.len, 1);
    run_free(r);
}

static void many_requests_are_kept_in_order(void **state)
{
    struct run *r = run_new();
    assert_int_equal(line(r, ""), CLI_OK);
    for (int i = 0; i < 300; i++) {
        char text[32];
        snprintf(text, sizeof text, "put %03d v", i);
        assert_int_equal(line(r, text), CLI_OK);
    }
    for (int i = 0; i < 300; i++) {
        char key[4];
        snprintf(key, sizeof key, "%03d", i);
        assert_memory_equal(r->t.request.success[i]->request_put->key.data, key, 3);
    }
    run_free(r);
}

static void wrong_requests_are_told(void **state)
{
    static const struct {
        const char *text;
        int status;
        const char *error;
    } CASES[] = {
        {"get", CLI_BAD_INPUT, "invalid txn compare request: get"},
        {"foo k", CLI_BAD_INPUT, "invalid txn request: foo k"},
        {"delete k", CLI_BAD_INPUT, "invalid txn request: delete k"},
        {"'' k", CLI_BAD_INPUT, "invalid txn request: '' k"},
        {"put k \"a\\q\"", CLI_BAD_INPUT, "invalid syntax"},
        {"get k --nope", CLI_BAD_INPUT, "invalid txn request: get k --nope"},
        {"get k --help", CLI_BAD_INPUT, "invalid txn request: get k --help"},
        {"get --prefix", CLI_BAD_ARGS,
         "get command needs one argument as key and an optional argument as range_end"},
        {"put k --prev-kv", CLI_BAD_ARGS,
         "put command needs 1 argument and input from stdin or 2 arguments"},
        {"del a b c", CLI_BAD_ARGS,
         "del command needs one argument as key and an optional argument as range_end"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *lines[] = {"", CASES[i].text, NULL};
        expect_mistake(lines, CASES[i].status, CASES[i].error);
    }
}

static void a_bad_flag_asks_for_the_usage(void **state)
{
    struct run *r = run_new();
    assert_int_equal(line(r, ""), CLI_OK);
    assert_null(r->t.usage_of);
    assert_int_equal(line(r, "put k --nope"), CLI_BAD_INPUT);
    assert_string_equal(r->t.usage_of, "put");
    run_free(r);
}

static void ranges_to_delete_are_risky_unless_said_so(void **state)
{
    struct run *r = run_new();
    assert_int_equal(line(r, ""), CLI_OK);
    assert_int_equal(line(r, "del a b"), CLI_OK);
    assert_true(r->t.risky);
    assert_string_equal(cli_text(r->t.from), "a");
    assert_string_equal(cli_text(r->t.to), "b");
    assert_int_equal(line(r, "del a b --range"), CLI_OK);
    assert_false(r->t.risky);
    assert_int_equal(line(r, "del a b"), CLI_OK);
    assert_int_equal(line(r, "get a b"), CLI_OK);
    assert_false(r->t.risky);
    run_free(r);
}

/* --- memory -------------------------------------------------------------------------------------------- */

static void read_in(struct test_heap *h, void *arg)
{
    static const char *const LINES[] = {
        "mod(\"k\") = \"1\"", "", "put \"a\" 'b'", "del k --prefix", "", "get a b", ""};
    struct arena arena;
    struct cli_txn t;
    struct errmsg em;
    int status = CLI_OK;
    arena_init(&arena, &h->alloc, KIT_ARENA_BYTES);
    cli_txn_init(&t, &arena);
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES && status == CLI_OK; i++)
        status = cli_txn_line(&t, bytes_str(LINES[i]), &em);
    assert_true(status == CLI_OK ? h->failure_count == 0 : status == CLI_ERROR);
    arena_deinit(&arena);
}

static void every_allocation_may_fail(void **state)
{
    assert_true(test_heap_every_failure(read_in, NULL) > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_split_into_words),
        cmocka_unit_test(literals_resolve_gos_escapes),
        cmocka_unit_test(other_literals_are_none),
        cmocka_unit_test(comparisons_have_five_targets),
        cmocka_unit_test(values_are_compared_as_they_are),
        cmocka_unit_test(wrong_comparisons_are_told),
        cmocka_unit_test(empty_lines_end_the_parts),
        cmocka_unit_test(requests_are_commands_with_their_flags),
        cmocka_unit_test(many_requests_are_kept_in_order),
        cmocka_unit_test(wrong_requests_are_told),
        cmocka_unit_test(a_bad_flag_asks_for_the_usage),
        cmocka_unit_test(ranges_to_delete_are_risky_unless_said_so),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("cli txn", tests, NULL, NULL);
}

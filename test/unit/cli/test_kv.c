/* get, put and del: which request comes of which flags, and the order in which mistakes are found. */
#include "cli/kv.h"
#include "kit.h"

struct run {
    struct kit *k;
    struct cli_get_values get;
    struct cli_put_values put;
    struct cli_del_values del;
    Etcdserverpb__RangeRequest range;
    Etcdserverpb__PutRequest set;
    Etcdserverpb__DeleteRangeRequest gone;
    bool risky;
};

static struct run *run_new(void)
{
    struct run *r = calloc(1, sizeof *r);
    r->k = kit_new();
    return r;
}

static void run_free(struct run *r)
{
    kit_free(r->k);
    free(r);
}

static void parse(struct run *r, const char *line, const struct cli_flag *rows, size_t count,
                  void *values)
{
    struct cli_flags f = {.arena = &r->k->arena};
    assert_int_equal(cli_flags_add(&f, rows, count, values), 0);
    if (cli_flags_parse(&f, kit_words(r->k, line), &r->k->em) < 0) fail_msg("%s", r->k->em.text);
}

static int get(struct run *r, const char *line)
{
    memset(&r->get, 0, sizeof r->get);
    parse(r, line, cli_get_rows, CLI_GET_ROWS, &r->get);
    return cli_get_request(&r->get, &r->k->words, &r->k->arena, &r->range, &r->k->em);
}

static int put(struct run *r, const char *line, struct bytes input)
{
    memset(&r->put, 0, sizeof r->put);
    parse(r, line, cli_put_rows, CLI_PUT_ROWS, &r->put);
    return cli_put_request(&r->put, &r->k->words, input, &r->set, &r->k->em);
}

static int del(struct run *r, const char *line)
{
    memset(&r->del, 0, sizeof r->del);
    parse(r, line, cli_del_rows, CLI_DEL_ROWS, &r->del);
    return cli_del_request(&r->del, &r->k->words, &r->k->arena, &r->gone, &r->risky, &r->k->em);
}

static void expect_span(ProtobufCBinaryData d, const void *data, size_t len)
{
    assert_int_equal(d.len, len);
    assert_memory_equal(d.data, data, len);
}

static void ranges_come_of_arguments_and_flags(void **state)
{
    static const struct {
        const char *line, *key;
        size_t key_len;
        const char *end;
        size_t end_len;
    } CASES[] = {
        {"k", "k", 1, "", 0},
        {"a c", "a", 1, "c", 1},
        {"a ''", "a", 1, "", 0},
        {"a c ignored", "a", 1, "c", 1},
        {"ab --prefix", "ab", 2, "ac", 2},
        {"a\xff --prefix", "a\xff", 2, "b", 1},
        {"\xff\xff --prefix", "\xff\xff", 2, "\0", 1},
        {"'' --prefix", "\0", 1, "\0", 1},
        {"k --from-key", "k", 1, "\0", 1},
        {"'' --from-key", "\0", 1, "\0", 1},
        {"''", "", 0, "", 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct run *r = run_new();
        assert_int_equal(get(r, CASES[i].line), CLI_OK);
        expect_span(r->range.key, CASES[i].key, CASES[i].key_len);
        expect_span(r->range.range_end, CASES[i].end, CASES[i].end_len);
        run_free(r);
    }
}

static void flags_of_get_reach_the_request(void **state)
{
    struct run *r = run_new();
    assert_int_equal(get(r, "k --limit=3 --rev=4 --keys-only --consistency=s --min-create-rev=5 "
                            "--max-create-rev=6 --min-mod-rev=7 --max-mod-rev=8"),
                     CLI_OK);
    assert_int_equal(r->range.limit, 3);
    assert_int_equal(r->range.revision, 4);
    assert_true(r->range.keys_only && r->range.serializable && !r->range.count_only);
    assert_int_equal(r->range.min_create_revision, 5);
    assert_int_equal(r->range.max_create_revision, 6);
    assert_int_equal(r->range.min_mod_revision, 7);
    assert_int_equal(r->range.max_mod_revision, 8);
    assert_int_equal(get(r, "k --rev=-4 --min-mod-rev=-7 --max-mod-rev=-8"), CLI_OK);
    assert_int_equal(r->range.revision, 0);
    assert_int_equal(r->range.min_mod_revision, 0);
    assert_int_equal(r->range.max_mod_revision, 0);
    run_free(r);
}

static void orders_and_targets_may_be_of_any_case(void **state)
{
    static const struct {
        const char *line;
        int order, target;
    } CASES[] = {{"k --order=ascend --sort-by=Create", 1, 2},
                 {"k --order=DESCEND", 2, 0},
                 {"k --order=ASCEND", 0, 0}, /* keys come so anyway */
                 {"k --sort-by=value", 0, 4},
                 {"k --sort-by=MODIFY --order=Descend", 2, 3},
                 {"k --sort-by=version", 0, 1}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct run *r = run_new();
        assert_int_equal(get(r, CASES[i].line), CLI_OK);
        assert_int_equal(r->range.sort_order, CASES[i].order);
        assert_int_equal(r->range.sort_target, CASES[i].target);
        run_free(r);
    }
}

/* Each line has the mistakes of those below it as well: the first is told. */
static void mistakes_of_get_are_found_in_order(void **state)
{
    static const struct {
        const char *line;
        int status;
        const char *error;
    } CASES[] = {
        {"--prefix --from-key", CLI_BAD_ARGS,
         "get command needs one argument as key and an optional argument as range_end"},
        {"a b --prefix --from-key --keys-only --count-only", CLI_BAD_ARGS,
         "`--prefix` and `--from-key` cannot be set at the same time, choose one"},
        {"a b --prefix --keys-only --count-only --consistency=x", CLI_BAD_ARGS,
         "`--keys-only` and `--count-only` cannot be set at the same time, choose one"},
        {"a b --prefix --consistency=x --order=y", CLI_BAD_FEATURE,
         "unknown consistency flag \"x\""},
        {"a b --prefix --order=y", CLI_BAD_ARGS,
         "too many arguments, only accept one argument when `--prefix` or `--from-key` is set"},
        {"a --order=y --sort-by=z", CLI_BAD_FEATURE, "bad sort order y"},
        {"a --sort-by=z --min-create-rev=5 --max-create-rev=4", CLI_BAD_FEATURE,
         "bad sort target z"},
        {"a --min-create-rev=5 --max-create-rev=4 --min-mod-rev=5 --max-mod-rev=4", CLI_BAD_FEATURE,
         "getMinCreateRev(=5) > getMaxCreateRev(=4)"},
        {"a --min-mod-rev=5 --max-mod-rev=4", CLI_BAD_FEATURE,
         "getMinModRev(=5) > getMaxModRev(=4)"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct run *r = run_new();
        assert_int_equal(get(r, CASES[i].line), CASES[i].status);
        assert_string_equal(r->k->em.text, CASES[i].error);
        run_free(r);
    }
}

static void values_come_from_arguments_or_input(void **state)
{
    struct run *r = run_new();
    assert_int_equal(put(r, "k v", BYTES_EMPTY), CLI_OK);
    expect_span(r->set.value, "v", 1);
    assert_int_equal(put(r, "k ''", BYTES_EMPTY), CLI_OK);
    assert_int_equal(r->set.value.len, 0);
    assert_int_equal(put(r, "k", bytes_str("in\n")), CLI_OK);
    assert_true(cli_put_wants_input(&r->put, &r->k->words));
    expect_span(r->set.value, "in\n", 3);
    assert_int_equal(put(r, "k --ignore-value", BYTES_EMPTY), CLI_OK);
    assert_false(cli_put_wants_input(&r->put, &r->k->words));
    assert_true(r->set.ignore_value);
    assert_int_equal(put(r, "k v w --lease=7f --prev-kv --ignore-lease", BYTES_EMPTY), CLI_OK);
    assert_int_equal(r->set.lease, 0x7f);
    assert_true(r->set.prev_kv && r->set.ignore_lease);
    run_free(r);
}

static void mistakes_of_put_are_told(void **state)
{
    static const struct {
        const char *line, *error;
    } CASES[] = {
        {"--prev-kv", "put command needs 1 argument and input from stdin or 2 arguments"},
        {"k", "put command needs 1 argument and input from stdin or 2 arguments"},
        {"k v --ignore-value", "put command needs only 1 argument when 'ignore-value' is set"},
        {"k v --lease=xyz", "bad lease ID (strconv.ParseInt: parsing \"xyz\": invalid syntax), "
                            "expecting ID in Hex"},
        {"k v --lease=ffffffffffffffffff",
         "bad lease ID (strconv.ParseInt: parsing \"ffffffffffffffffff\": value out of range), "
         "expecting ID in Hex"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct run *r = run_new();
        assert_int_equal(put(r, CASES[i].line, BYTES_EMPTY), CLI_BAD_ARGS);
        assert_string_equal(r->k->em.text, CASES[i].error);
        run_free(r);
    }
}

static void deletions_are_risky_when_a_range_is_not_meant(void **state)
{
    struct run *r = run_new();
    assert_int_equal(del(r, "a"), CLI_OK);
    assert_false(r->risky);
    assert_int_equal(del(r, "a b"), CLI_OK);
    assert_true(r->risky);
    assert_int_equal(del(r, "a b --range"), CLI_OK);
    assert_false(r->risky);
    assert_int_equal(del(r, "a --prefix --prev-kv"), CLI_OK);
    assert_false(r->risky);
    expect_span(r->gone.range_end, "b", 1);
    assert_true(r->gone.prev_kv);
    assert_int_equal(del(r, "''"), CLI_OK);
    assert_int_equal(del(r, "a b c"), CLI_BAD_ARGS);
    assert_int_equal(del(r, "a b --prefix"), CLI_BAD_ARGS);
    assert_int_equal(del(r, "a --prefix --from-key"), CLI_BAD_ARGS);
    run_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_come_of_arguments_and_flags),
        cmocka_unit_test(flags_of_get_reach_the_request),
        cmocka_unit_test(orders_and_targets_may_be_of_any_case),
        cmocka_unit_test(mistakes_of_get_are_found_in_order),
        cmocka_unit_test(values_come_from_arguments_or_input),
        cmocka_unit_test(mistakes_of_put_are_told),
        cmocka_unit_test(deletions_are_risky_when_a_range_is_not_meant),
    };
    return cmocka_run_group_tests_name("cli get put del", tests, NULL, NULL);
}

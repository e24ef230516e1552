/* The grammar of flags, as pflag has it, and what it says about mistakes. */
#include "cli/env.h"
#include "cli/flag.h"
#include "kit.h"

struct values {
    bool loud, quick;
    int64_t limit, wait_ns;
    struct bytes name, out;
    struct cli_words hosts;
};

static const struct cli_flag ROWS[] = {
    {"hosts", CLI_LIST, 0, offsetof(struct values, hosts), "a,b", "hosts", NULL},
    {"limit", CLI_INT, 'l', offsetof(struct values, limit), NULL, "limit", NULL},
    {"loud", CLI_BOOL, 'v', offsetof(struct values, loud), NULL, "loud", NULL},
    {"name", CLI_STRING, 0, offsetof(struct values, name), "nobody", "name", NULL},
    {"out", CLI_STRING, 'o', offsetof(struct values, out), NULL, "out", NULL},
    {"quick", CLI_BOOL, 'q', offsetof(struct values, quick), "true", "quick", NULL},
    {"wait", CLI_DURATION, 0, offsetof(struct values, wait_ns), "1.5s", "wait", NULL},
};
enum { ROW_COUNT = sizeof ROWS / sizeof *ROWS };

struct run {
    struct kit *k;
    struct values v;
    struct cli_flags f;
};

static struct run *run_new(void)
{
    struct run *r = calloc(1, sizeof *r);
    r->k = kit_new();
    r->f.arena = &r->k->arena;
    assert_int_equal(cli_flags_add(&r->f, ROWS, ROW_COUNT, &r->v), 0);
    return r;
}

static void run_free(struct run *r)
{
    kit_free(r->k);
    free(r);
}

static int parse(struct run *r, const char *line)
{
    return cli_flags_parse(&r->f, kit_words(r->k, line), &r->k->em);
}

static void expect_list(const struct cli_words *list, const char *joined)
{
    char text[256] = "";
    size_t len = 0;
    for (size_t i = 0; i < list->count; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", i == 0 ? "" : "|",
                                cli_text(list->items[i]));
    }
    assert_string_equal(text, joined);
}

static void defaults_stand_until_flags_come(void **state)
{
    struct run *r = run_new();
    assert_int_equal(parse(r, "x y"), 0);
    assert_false(r->v.loud);
    assert_true(r->v.quick);
    assert_int_equal(r->v.wait_ns, 1500000000);
    assert_string_equal(cli_text(r->v.name), "nobody");
    assert_string_equal(cli_text(r->v.out), "");
    expect_list(&r->v.hosts, "a|b");
    expect_list(&r->k->words, "x|y");
    assert_int_equal(r->f.tables[0].changed, 0);
    run_free(r);
}

static void all_ways_to_write_a_flag(void **state)
{
    static const char *const LINES[] = {"--limit=7 a",   "--limit 7 a", "-l7 a",  "-l=7 a",
                                        "-l 7 a",        "a -l 7",      "-vl7 a", "-v -l 7 a",
                                        "--limit 0x7 a", "-l=0b111 a"};
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++) {
        struct run *r = run_new();
        assert_int_equal(parse(r, LINES[i]), 0);
        assert_int_equal(r->v.limit, 7);
        expect_list(&r->k->words, "a");
        assert_true(cli_flag_changed(&r->f.tables[0], &ROWS[1]));
        run_free(r);
    }
}

static void bools_take_a_value_only_behind_an_equals_sign(void **state)
{
    static const struct {
        const char *line;
        bool loud;
        const char *rest;
    } CASES[] = {{"--loud false", true, "false"}, {"--loud=false x", false, "x"},
                 {"--loud=T", true, ""},          {"-v x", true, "x"},
                 {"-v=0 x", false, "x"},          {"--loud --loud=f", false, ""}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct run *r = run_new();
        assert_int_equal(parse(r, CASES[i].line), 0);
        assert_int_equal(r->v.loud, CASES[i].loud);
        expect_list(&r->k->words, CASES[i].rest);
        run_free(r);
    }
}

static void two_dashes_end_flags_and_one_is_an_argument(void **state)
{
    struct run *r = run_new();
    assert_int_equal(parse(r, "- a -- --limit 3 -- -v"), 0);
    expect_list(&r->k->words, "-|a|--limit|3|--|-v");
    assert_int_equal(r->v.limit, 0);
    run_free(r);
}

static void a_value_may_be_empty_or_look_like_a_flag(void **state)
{
    struct run *r = run_new();
    assert_int_equal(parse(r, "--name= --out --loud"), 0);
    assert_string_equal(cli_text(r->v.name), "");
    assert_string_equal(cli_text(r->v.out), "--loud");
    assert_false(r->v.loud);
    run_free(r);
}

static void lists_replace_their_default_and_then_grow(void **state)
{
    static const struct {
        const char *line, *hosts;
    } CASES[] = {{"--hosts x", "x"},
                 {"--hosts x,y --hosts z", "x|y|z"},
                 {"--hosts=", ""},
                 {"--hosts=,", "|"},
                 {"--hosts=\"a,b\",c", "a,b|c"},
                 {"--hosts=\"say\"\"so\"\"\"", "say\"so\""},
                 {"--hosts=x --hosts=", "x"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct run *r = run_new();
        assert_int_equal(parse(r, CASES[i].line), 0);
        expect_list(&r->v.hosts, CASES[i].hosts);
        run_free(r);
    }
}

static void mistakes_are_told_in_pflags_words(void **state)
{
    static const struct {
        const char *line, *error;
    } CASES[] = {
        {"--nope", "unknown flag: --nope"},
        {"--nope=1", "unknown flag: --nope"},
        {"-z", "unknown shorthand flag: 'z' in -z"},
        {"-vzq", "unknown shorthand flag: 'z' in -zq"},
        {"-'", "unknown shorthand flag: '\\'' in -'"},
        {"-\x01", "unknown shorthand flag: '\\x01' in -\x01"},
        {"-\xc3\xa9", "unknown shorthand flag: '\xc3\x83' in -\xc3\xa9"},
        {"--limit", "flag needs an argument: --limit"},
        {"-l", "flag needs an argument: 'l' in -l"},
        {"-vl", "flag needs an argument: 'l' in -l"},
        {"--=x", "bad flag syntax: --=x"},
        {"---x", "bad flag syntax: ---x"},
        {"--limit=a\"b", "invalid argument \"a\\\"b\" for \"-l, --limit\" flag: "
                         "strconv.ParseInt: parsing \"a\\\"b\": invalid syntax"},
        {"--limit=99999999999999999999",
         "invalid argument \"99999999999999999999\" for \"-l, --limit\" flag: "
         "strconv.ParseInt: parsing \"99999999999999999999\": value out of range"},
        {"--loud=maybe", "invalid argument \"maybe\" for \"-v, --loud\" flag: "
                         "strconv.ParseBool: parsing \"maybe\": invalid syntax"},
        {"--wait=5", "invalid argument \"5\" for \"--wait\" flag: "
                     "time: missing unit in duration \"5\""},
        {"--wait=", "invalid argument \"\" for \"--wait\" flag: time: invalid duration \"\""},
        {"--hosts=a\"b", "invalid argument \"a\\\"b\" for \"--hosts\" flag: "
                         "parse error on line 1, column 2: bare \" in non-quoted-field"},
        {"--hosts=x,\"y",
         "invalid argument \"x,\\\"y\" for \"--hosts\" flag: parse error on line 1, "
         "column 5: extraneous or missing \" in quoted-field"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct run *r = run_new();
        assert_int_equal(parse(r, CASES[i].line), E_INVAL);
        assert_string_equal(r->k->em.text, CASES[i].error);
        run_free(r);
    }
}

static void the_nearest_table_has_a_name(void **state)
{
    struct run *r = run_new();
    struct values outer = {0};
    assert_int_equal(cli_flags_add(&r->f, ROWS, ROW_COUNT, &outer), 0);
    assert_int_equal(parse(r, "--limit=3"), 0);
    assert_int_equal(r->v.limit, 3);
    assert_int_equal(outer.limit, 0);
    run_free(r);
}

/* --- environment ------------------------------------------------------------------------------------- */

static int apply(struct run *r, const char *first, const char *second)
{
    char one[128];
    char two[128];
    snprintf(one, sizeof one, "%s", first);
    snprintf(two, sizeof two, "%s", second == NULL ? "" : second);
    char *environ[] = {one, second == NULL ? NULL : two, NULL};
    return cli_env_apply(&r->f, 0, "TOOL", environ, &r->k->em);
}

static void variables_stand_for_flags(void **state)
{
    struct run *r = run_new();
    assert_int_equal(apply(r, "TOOL_LIMIT=9", "TOOL_HOSTS=x,y"), 0);
    assert_int_equal(r->v.limit, 9);
    expect_list(&r->v.hosts, "x|y");
    run_free(r);
}

static void variables_that_are_empty_wrong_or_others_are_passed_over(void **state)
{
    struct run *r = run_new();
    assert_int_equal(apply(r, "TOOL_LIMIT=much", "TOOL_NAME="), 0);
    assert_int_equal(r->v.limit, 0);
    assert_string_equal(cli_text(r->v.name), "nobody");
    assert_int_equal(apply(r, "OTHER_LIMIT=3", "TOOL_LIMITS=3"), 0);
    assert_int_equal(r->v.limit, 0);
    run_free(r);
}

static void a_flag_and_its_variable_do_not_go_together(void **state)
{
    static const char *const VALUES[] = {"TOOL_LIMIT=4", "TOOL_LIMIT=3", "TOOL_LIMIT="};
    for (size_t i = 0; i < 3; i++) {
        struct run *r = run_new();
        assert_int_equal(parse(r, "--limit=3"), 0);
        assert_int_equal(apply(r, VALUES[i], NULL), E_EXIST);
        assert_string_equal(r->k->em.text, "TOOL_LIMIT");
        run_free(r);
    }
}

static void names_of_variables(void **state)
{
    char name[CLI_ENV_BYTES_MAX];
    cli_env_name("ETCDCTL", "max-request-bytes", name);
    assert_string_equal(name, "ETCDCTL_MAX_REQUEST_BYTES");
}

/* --- memory ------------------------------------------------------------------------------------------ */

static void parse_in(struct test_heap *h, void *arg)
{
    struct values v = {0};
    struct arena arena;
    struct errmsg em;
    struct bytes items[] = {bytes_str("--hosts=a,\"b,c\""), bytes_str("--limit=zz"),
                            bytes_str("x")};
    struct cli_words words = {items, 3};
    arena_init(&arena, &h->alloc, KIT_ARENA_BYTES);
    struct cli_flags f = {.arena = &arena};
    int rc = cli_flags_add(&f, ROWS, ROW_COUNT, &v);
    if (rc == 0) rc = cli_flags_parse(&f, &words, &em);
    assert_true(rc == E_NOMEM || rc == E_INVAL);
    arena_deinit(&arena);
}

static void every_allocation_may_fail(void **state)
{
    assert_true(test_heap_every_failure(parse_in, NULL) > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_stand_until_flags_come),
        cmocka_unit_test(all_ways_to_write_a_flag),
        cmocka_unit_test(bools_take_a_value_only_behind_an_equals_sign),
        cmocka_unit_test(two_dashes_end_flags_and_one_is_an_argument),
        cmocka_unit_test(a_value_may_be_empty_or_look_like_a_flag),
        cmocka_unit_test(lists_replace_their_default_and_then_grow),
        cmocka_unit_test(mistakes_are_told_in_pflags_words),
        cmocka_unit_test(the_nearest_table_has_a_name),
        cmocka_unit_test(variables_stand_for_flags),
        cmocka_unit_test(variables_that_are_empty_wrong_or_others_are_passed_over),
        cmocka_unit_test(a_flag_and_its_variable_do_not_go_together),
        cmocka_unit_test(names_of_variables),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("cli flags", tests, NULL, NULL);
}

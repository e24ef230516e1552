/* Words to commands: prefixes, groups, help, suggestions, completion. */
#include "cli/command.h"
#include "kit.h"

struct own {
    bool all;
    struct bytes order;
};
struct shared {
    bool everywhere;
};
struct globals {
    struct bytes server, format;
};

/* Tells what it was called with. */
static int tell(void *arg, struct cli_call *call, struct errmsg *em)
{
    struct kit *k = arg;
    cli_printf(&k->out, "%s%s%s", call->group == NULL ? "" : call->group->name,
               call->group == NULL ? "" : " ", call->command->name);
    for (size_t i = 0; i < call->args.count; i++)
        cli_printf(&k->out, " %s", cli_text(call->args.items[i]));
    cli_put(&k->out, "\n");
    if (call->args.count > 0 && bytes_eq(call->args.items[0], bytes_str("fail")))
        return cli_fail(em, CLI_BAD_ARGS, "told to fail");
    return CLI_OK;
}

static const struct cli_flag OWN[] = {
    {"all", CLI_BOOL, 'a', offsetof(struct own, all), NULL, "all of them", NULL},
    {"order", CLI_STRING, 0, offsetof(struct own, order), "up", "which way", "up down"}};
static const struct cli_flag SHARED[] = {{"everywhere", CLI_BOOL, 0,
                                          offsetof(struct shared, everywhere), NULL,
                                          "no matter where", NULL}};
static const struct cli_flag GLOBALS[] = {
    {"format", CLI_STRING, 'w', offsetof(struct globals, format), "plain", "output", "plain json"},
    {"server", CLI_STRING, 0, offsetof(struct globals, server), NULL, "whom to ask", NULL}};

static const struct cli_command GROUP_SUBS[] = {
    {.name = "list", .brief = "List things", .run = tell},
    {.name = "listen", .brief = "Listen to things", .run = tell},
    {.name = "add",
     .brief = "Add a thing",
     .rows = OWN,
     .row_count = 2,
     .values_bytes = sizeof(struct own),
     .run = tell},
};
static const struct cli_command COMMANDS[] = {
    {.name = "get",
     .usage = "<key>",
     .brief = "Get a thing",
     .rows = OWN,
     .row_count = 2,
     .values_bytes = sizeof(struct own),
     .run = tell},
    {.name = "gather",
     .brief = "Gather things",
     .details = "Gather things.\n\nAll of them.",
     .choices = "wood stone",
     .run = tell},
    {.name = "thing",
     .brief = "Things",
     .group = 1,
     .rows = SHARED,
     .row_count = 1,
     .values_bytes = sizeof(struct shared),
     .subs = GROUP_SUBS,
     .sub_count = 3},
    {.name = "help", .brief = "Help", .group = 1, .run = cli_run_help},
    {.name = "options", .brief = "Options", .group = 1, .run = cli_run_options},
    {.name = "completion", .brief = "Completion", .group = 1, .run = cli_run_completion},
    {.name = "__complete", .brief = "", .hidden = true, .raw = true, .run = cli_run_complete},
    {.name = "__bare", .brief = "", .hidden = true, .raw = true, .run = cli_run_complete_bare},
    {.name = "__manual", .brief = "", .hidden = true, .run = cli_run_manual},
};
static const struct cli_command ROOT = {.name = "",
                                        .brief = "a tool",
                                        .subs = COMMANDS,
                                        .sub_count = sizeof COMMANDS / sizeof *COMMANDS};
static const char *const GROUPS[] = {"Simple things", "Other things"};

static int run(struct kit *k, const char *line)
{
    struct globals g = {0};
    char *argv[KIT_WORDS_MAX];
    const struct cli_words *words = kit_words(k, line);
    for (size_t i = 0; i < words->count; i++)
        argv[i] = (char *)(uintptr_t)cli_text(words->items[i]);
    struct cli_program p = {.name = "tool",
                            .root = &ROOT,
                            .groups = GROUPS,
                            .group_count = 2,
                            .rows = GLOBALS,
                            .row_count = 2,
                            .values = &g,
                            .arg = k,
                            .arena = &k->arena,
                            .out = &k->out,
                            .err = &k->err};
    return cli_run(&p, words->count, argv);
}

static void expect_run(const char *line, int status, const char *out, const char *err)
{
    struct kit *k = kit_new();
    assert_int_equal(run(k, line), status);
    kit_expect(&k->out, out);
    kit_expect(&k->err, err);
    kit_free(k);
}

static void names_and_prefixes_find_commands(void **state)
{
    expect_run("get k", 0, "get k\n", "");
    expect_run("ge k", 0, "get k\n", "");
    expect_run("thing list", 0, "thing list\n", ""); /* exact, though a prefix of listen */
    expect_run("th liste x", 0, "thing listen x\n", "");
    expect_run("--server a thing --everywhere add -a x", 0, "thing add x\n", "");
    expect_run("-w json get k", 0, "get k\n", "");
    expect_run("-wjson get k", 0, "get k\n", "");
    expect_run("get -- -k", 0, "get -k\n", "");
}

static void unknown_commands_get_suggestions(void **state)
{
    expect_run("xyzzy", 1, "",
               "Error: unknown command \"xyzzy\" for \"tool\"\n"
               "Run 'tool --help' for usage.\n");
    expect_run("ga\"t", 1, "",
               "Error: unknown command \"ga\\\"t\" for \"tool\"\n\n"
               "Did you mean this?\n\tget\n\nRun 'tool --help' for usage.\n");
    expect_run("g k", 1, "",
               "Error: unknown command \"g\" for \"tool\"\n\n"
               "Did you mean this?\n\tget\n\tgather\n\nRun 'tool --help' for usage.\n");
    expect_run("THNIG", 1, "",
               "Error: unknown command \"THNIG\" for \"tool\"\n\n"
               "Did you mean this?\n\tthing\n\nRun 'tool --help' for usage.\n");
    expect_run("__comp x", 1, "",
               "Error: unknown command \"__comp\" for \"tool\"\n"
               "Run 'tool --help' for usage.\n");
}

/* What follows an unknown flag before the command is taken for its value. */
static void unknown_flags_hide_the_command(void **state)
{
    struct kit *k = kit_new();
    assert_int_equal(run(k, "--nope get a"), 1);
    assert_non_null(strstr((const char *)k->err.buf.data, "unknown command \"a\""));
    buf_reset(&k->err.buf);
    assert_int_equal(run(k, "--nope get"), 1);
    assert_non_null(strstr((const char *)k->err.buf.data, "Error: unknown flag: --nope\nUsage:\n"));
    kit_free(k);
}

static void failures_are_told_and_have_their_exit_code(void **state)
{
    expect_run("get fail", 128, "get fail\n", "Error: told to fail\n");
}

static const char GET_USAGE[] = "Usage:\n"
                                "  tool get <key> [flags]\n"
                                "\n"
                                "Flags:\n"
                                "  -a, --all            all of them\n"
                                "  -h, --help           help for get\n"
                                "      --order string   which way (default \"up\")\n";

static void flag_errors_come_with_the_usage(void **state)
{
    char err[1024];
    snprintf(err, sizeof err, "Error: unknown flag: --nope\n%s\n", GET_USAGE);
    expect_run("get a --nope", 1, "", err);
}

static void help_has_many_forms(void **state)
{
    static const char *const LINES[] = {"get --help", "get -h", "--help get", "help get",
                                        "get k --order=down -h"};
    char out[1024];
    snprintf(out, sizeof out,
             "Get a thing\n\n%s\nUse \"tool options\" for the flags that every command takes.\n",
             GET_USAGE);
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++)
        expect_run(LINES[i], 0, out, "");
}

static const char ROOT_HELP[] =
    "a tool\n\n"
    "Usage:\n"
    "  tool [command]\n"
    "\n"
    "Simple things\n"
    "  gather      Gather things\n"
    "  get         Get a thing\n"
    "\n"
    "Other things\n"
    "  completion  Completion\n"
    "  help        Help\n"
    "  options     Options\n"
    "  thing       Things\n"
    "\n"
    "Use \"tool [command] --help\" for more information about a command.\n"
    "Use \"tool options\" for the flags that every command takes.\n";

static void no_command_is_a_question_for_help(void **state)
{
    expect_run("", 0, ROOT_HELP, "");
    expect_run("help", 0, ROOT_HELP, "");
    expect_run("-w json", 0, ROOT_HELP, "");
}

static void groups_help_when_their_subcommand_is_missing_or_unknown(void **state)
{
    static const char HELP[] =
        "Things\n\n"
        "Usage:\n"
        "  tool thing [command]\n"
        "\n"
        "Available Commands:\n"
        "  add         Add a thing\n"
        "  list        List things\n"
        "  listen      Listen to things\n"
        "\n"
        "Flags:\n"
        "      --everywhere   no matter where\n"
        "  -h, --help         help for thing\n"
        "\n"
        "Use \"tool thing [command] --help\" for more information about a command.\n"
        "Use \"tool options\" for the flags that every command takes.\n";
    expect_run("thing", 0, HELP, "");
    expect_run("thing remove x", 0, HELP, "");
    expect_run("thing li", 0, HELP, "");
}

static void help_for_an_unknown_topic_goes_to_stderr(void **state)
{
    struct kit *k = kit_new();
    assert_int_equal(run(k, "help foo bar"), 0);
    kit_expect(&k->out, "");
    static const char START[] = "Unknown help topic [`foo` `bar`]\nUsage:\n";
    assert_memory_equal(k->err.buf.data, START, sizeof START - 1);
    kit_free(k);
}

static void options_are_listed(void **state)
{
    expect_run("options", 0,
               "The following options can be passed to any command:\n\n"
               "  -w, --format string   output (default \"plain\")\n"
               "      --server string   whom to ask\n",
               "");
}

#define NO_FILES "Completion ended with directive: ShellCompDirectiveNoFileComp\n"
#define FILES    "Completion ended with directive: ShellCompDirectiveDefault\n"

static void completion_offers_commands_flags_and_values(void **state)
{
    expect_run("__complete g", 0, "get\tGet a thing\ngather\tGather things\n:4\n", NO_FILES);
    expect_run("__bare thing l", 0, "list\nlisten\n:4\n", NO_FILES);
    expect_run("__bare thing add --", 0,
               "--all\n--order\n--everywhere\n--format\n--server\n--help\n:4\n", NO_FILES);
    expect_run("__bare get --order ''", 0, "up\ndown\n:4\n", NO_FILES);
    expect_run("__bare get --order=d", 0, "--order=down\n:4\n", NO_FILES);
    expect_run("__bare get -w j", 0, "json\n:4\n", NO_FILES);
    expect_run("__bare get --server ''", 0, ":0\n", FILES);
    expect_run("__bare gather w", 0, "wood\n:4\n", NO_FILES);
    expect_run("__bare gather wood s", 0, ":4\n", NO_FILES);
    expect_run("__bare get -- --or", 0, ":4\n", NO_FILES);
    expect_run("__bare", 0, "get\ngather\nthing\nhelp\noptions\ncompletion\n:4\n", NO_FILES);
}

static void completion_wants_one_shell(void **state)
{
    static const struct {
        const char *line, *error;
    } CASES[] = {
        {"completion", "Error: accepts 1 arg(s), received 0\nUsage:\n"},
        {"completion bash zsh", "Error: accepts 1 arg(s), received 2\nUsage:\n"},
        {"completion tcsh", "Error: invalid argument \"tcsh\" for \"tool completion\"\nUsage:\n"}};
    for (size_t i = 0; i < 3; i++) {
        struct kit *k = kit_new();
        assert_int_equal(run(k, CASES[i].line), 1);
        assert_memory_equal(k->err.buf.data, CASES[i].error, strlen(CASES[i].error));
        kit_free(k);
    }
    static const char *const SHELLS[] = {"completion bash", "completion zsh", "completion fish",
                                         "completion powershell"};
    for (size_t i = 0; i < 4; i++) {
        struct kit *k = kit_new();
        assert_int_equal(run(k, SHELLS[i]), 0);
        assert_int_equal(buf_put_u8(&k->out.buf, 0), 0);
        assert_null(strstr((const char *)k->out.buf.data, "@N"));
        assert_non_null(strstr((const char *)k->out.buf.data, "tool"));
        kit_free(k);
    }
}

static void the_manual_names_everything(void **state)
{
    struct kit *k = kit_new();
    assert_int_equal(run(k, "__manual"), 0);
    assert_int_equal(buf_put_u8(&k->out.buf, 0), 0);
    const char *text = (const char *)k->out.buf.data;
    assert_memory_equal(text, "tool(1)\n", 8);
    static const char *const PARTS[] = {"## get <key>\n",   "## thing add",
                                        "*-a*, *--all*\n",  "*--order* _string_\n",
                                        "*--everywhere*\n", "*--server* "};
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++) {
        if (strstr(text, PARTS[i]) == NULL) fail_msg("no %s in %s", PARTS[i], text);
    }
    assert_null(strstr(text, "__complete"));
    kit_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_prefixes_find_commands),
        cmocka_unit_test(unknown_commands_get_suggestions),
        cmocka_unit_test(unknown_flags_hide_the_command),
        cmocka_unit_test(failures_are_told_and_have_their_exit_code),
        cmocka_unit_test(flag_errors_come_with_the_usage),
        cmocka_unit_test(help_has_many_forms),
        cmocka_unit_test(no_command_is_a_question_for_help),
        cmocka_unit_test(groups_help_when_their_subcommand_is_missing_or_unknown),
        cmocka_unit_test(help_for_an_unknown_topic_goes_to_stderr),
        cmocka_unit_test(options_are_listed),
        cmocka_unit_test(completion_offers_commands_flags_and_values),
        cmocka_unit_test(completion_wants_one_shell),
        cmocka_unit_test(the_manual_names_everything),
    };
    return cmocka_run_group_tests_name("cli commands", tests, NULL, NULL);
}

/* Settings: syntax and precedence of flags, variables and file, and upstream's words for what is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "os/heap.h"
#include "server/config.h"

enum { WORDS_MAX = 8 };

struct outcome {
    struct config c;
    enum config_result result;
    int rc;
    struct errmsg em;
};

/* main() gets its words without const; nobody writes to them. */
static char *const *mutable(const char *const *words)
{
    return (char *const *)(uintptr_t)words;
}

static void parse(struct outcome *o, const char *const *flags, const char *const *envp)
{
    const char *argv[WORDS_MAX + 1] = {"etcd-server"};
    int argc = 1;
    for (; flags[argc - 1] != NULL; argc++)
        argv[argc] = flags[argc - 1];
    o->em.text[0] = '\0';
    o->result = CONFIG_RUN;
    o->rc = config_parse(&o->c, &os_heap, argc, mutable(argv), mutable(envp), &o->result, &o->em);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_WORDS   ((const char *const[]){NULL})

static void expect_error(const char *const *flags, const char *const *envp, int rc,
                         const char *text)
{
    struct outcome o;
    parse(&o, flags, envp);
    assert_string_equal(o.em.text, text);
    assert_int_equal(o.rc, rc);
    config_deinit(&o.c);
}

static void defaults_are_upstreams(void **state)
{
    (void)state;
    struct outcome o;
    parse(&o, NO_WORDS, NO_WORDS);
    assert_int_equal(o.rc, 0);
    assert_string_equal(o.c.data_dir, "default.etcd");
    assert_string_equal(o.c.initial_cluster, "default=http://localhost:2380");
    assert_int_equal(o.c.snapshot_count, 10000);
    assert_int_equal(o.c.grpc_keepalive_interval, 7200LL * 1000000000);
    assert_int_equal(o.c.listen_client_urls.count, 1);
    assert_true(o.c.pre_vote);
    config_deinit(&o.c);
}

static void flags_take_all_forms(void **state)
{
    (void)state;
    struct outcome o;
    parse(&o, WORDS("-name", "n1", "--snapshot-count=7", "-pre-vote=false", "--socket-reuse-port"),
          NO_WORDS);
    assert_int_equal(o.rc, 0);
    assert_string_equal(o.c.name, "n1");
    assert_string_equal(o.c.data_dir, "n1.etcd");
    assert_string_equal(o.c.initial_cluster, "n1=http://localhost:2380");
    assert_int_equal(o.c.snapshot_count, 7);
    assert_false(o.c.pre_vote);
    assert_true(o.c.socket_reuse_port);
    config_deinit(&o.c);
}

static void bad_flags_get_gos_words(void **state)
{
    (void)state;
    expect_error(WORDS("--nope"), NO_WORDS, E_NOTFOUND, "flag provided but not defined: -nope");
    expect_error(WORDS("--name"), NO_WORDS, E_INVAL, "flag needs an argument: -name");
    expect_error(WORDS("--snapshot-count=x"), NO_WORDS, E_INVAL,
                 "invalid value \"x\" for flag -snapshot-count: parse error");
    expect_error(WORDS("--pre-vote=maybe"), NO_WORDS, E_INVAL,
                 "invalid boolean value \"maybe\" for -pre-vote: parse error");
    expect_error(WORDS("word"), NO_WORDS, E_INVAL, "\"word\" is not a valid flag");
    expect_error(
        WORDS("--max-concurrent-streams=4294967296"), NO_WORDS, E_INVAL,
        "invalid value \"4294967296\" for flag -max-concurrent-streams: strconv.ParseUint: parsing "
        "\"4294967296\": value out of range");
}

static void a_variable_sets_what_no_flag_sets(void **state)
{
    (void)state;
    struct outcome o;
    parse(&o, NO_WORDS,
          ((const char *const[]){"ETCD_NAME=env", "ETCD_DATA_DIR=", "ETCD_STRANGE=1", "HOME=/",
                                 NULL}));
    assert_int_equal(o.rc, 0);
    assert_string_equal(o.c.name, "env");
    assert_string_equal(o.c.data_dir, "env.etcd");
    assert_int_equal(o.c.warnings.count, 1);
    assert_string_equal(o.c.warnings.items[0], "unrecognized environment variable: ETCD_STRANGE=1");
    config_deinit(&o.c);
}

static void flag_and_variable_together_are_refused(void **state)
{
    (void)state;
    expect_error(WORDS("--name=a"), ((const char *const[]){"ETCD_NAME=a", NULL}), E_CONFIG,
                 "conflicting environment variable is shadowed by corresponding command-line flag "
                 "(either unset "
                 "environment variable or disable flag)): ETCD_NAME");
}

static void parse_file(struct outcome *o, const char *text)
{
    char path[] = "/tmp/etcd-config-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    parse(o, WORDS("--config-file", path, "--snapshot-count=3"), NO_WORDS);
    unlink(path);
}

static void a_file_replaces_everything(void **state)
{
    (void)state;
    struct outcome o;
    parse_file(&o, "name: filed\nheartbeat-interval: 50\nbackend-batch-interval: 5000000\n"
                   "socket-options:\n  reuse-port: true\nlog-outputs: [stderr, /tmp/x]\nwhat: 1\n");
    assert_string_equal(o.em.text, "");
    assert_int_equal(o.rc, 0);
    assert_string_equal(o.c.name, "filed");
    assert_int_equal(o.c.heartbeat_interval, 50);
    assert_int_equal(o.c.backend_batch_interval, 5000000);
    assert_true(o.c.socket_reuse_port);
    assert_int_equal(o.c.log_outputs.count, 2);
    assert_int_equal(o.c.snapshot_count, 10000);
    assert_int_equal(o.c.warnings.count, 1);
    config_deinit(&o.c);
}

static void bad_files_name_the_line(void **state)
{
    (void)state;
    struct outcome o;
    parse_file(&o, "name: a\nsnapshot-count: many\n");
    assert_int_equal(o.rc, E_CONFIG);
    assert_non_null(strstr(o.em.text, ":2: invalid value \"many\" for flag -snapshot-count"));
    config_deinit(&o.c);
    parse_file(&o, "name: [a\n");
    assert_int_equal(o.rc, E_CONFIG);
    config_deinit(&o.c);
    expect_error(WORDS("--config-file=/nonexistent"), NO_WORDS, E_CONFIG,
                 "open /nonexistent: no such file or directory");
}

static void meaning_is_checked(void **state)
{
    (void)state;
    expect_error(
        WORDS("--election-timeout=100"), NO_WORDS, E_CONFIG,
        "--election-timeout[100ms] should be at least as 5 times as --heartbeat-interval[100ms]");
    expect_error(WORDS("--heartbeat-interval=0"), NO_WORDS, E_CONFIG,
                 "--heartbeat-interval must be >0 (set to 0ms)");
    expect_error(WORDS("--listen-client-urls=http://127.0.0.1:1"), NO_WORDS, E_CONFIG,
                 "--advertise-client-urls is required when --listen-client-urls is set explicitly");
    expect_error(WORDS("--listen-peer-urls=http://example.com:1"), NO_WORDS, E_CONFIG,
                 "expected IP in URL for binding (http://example.com:1)");
    expect_error(WORDS("--listen-peer-urls=ftp://127.0.0.1:1"), NO_WORDS, E_INVAL,
                 "invalid value \"ftp://127.0.0.1:1\" for flag -listen-peer-urls: URL scheme must "
                 "be http, https, "
                 "unix, or unixs: ftp://127.0.0.1:1");
    expect_error(WORDS("--v2-deprecation=not-yet"), NO_WORDS, E_INVAL,
                 "invalid value \"not-yet\" for flag -v2-deprecation: invalid value \"not-yet\"");
    expect_error(WORDS("--feature-gates=Odd=true"), NO_WORDS, E_CONFIG,
                 "unrecognized feature gate: Odd");
    expect_error(WORDS("--feature-gates=LeaseCheckpointPersist=true"), NO_WORDS, E_CONFIG,
                 "enabling feature gate LeaseCheckpointPersist requires enabling feature gate "
                 "LeaseCheckpoint");
    expect_error(WORDS("--feature-gates=LeaseCheckpoint"), NO_WORDS, E_CONFIG,
                 "missing bool value for LeaseCheckpoint");
}

static void the_last_word_on_a_gate_counts(void **state)
{
    (void)state;
    struct outcome o;
    parse(&o, WORDS("--feature-gates=LeaseCheckpoint=false,AllBeta=true,LeaseCheckpoint=true"),
          NO_WORDS);
    assert_int_equal(o.rc, 0);
    assert_true(config_gate(&o.c, "LeaseCheckpoint"));
    assert_false(config_gate(&o.c, "PriorityRequest"));
    config_deinit(&o.c);
}

static void what_is_not_there_is_refused_not_ignored(void **state)
{
    (void)state;
    struct outcome o;
    parse(&o, WORDS("--client-cert-auth=false", "--auth-token=simple"), NO_WORDS);
    assert_int_equal(o.rc, 0);
    config_deinit(&o.c);
    expect_error(
        WORDS("--force-new-cluster"), NO_WORDS, E_CONFIG,
        "--force-new-cluster: this server cannot do that yet; leave it at its default 'false'");
}

static void help_names_every_flag(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, &os_heap, 1 << 20);
    assert_int_equal(config_usage(&out), 0);
    assert_int_equal(buf_put_u8(&out, 0), 0);
    for (int i = 0; i < CONFIG_COUNT; i++) {
        char line[128];
        snprintf(line, sizeof line, "  --%s ", config_flags()[i].name);
        assert_non_null(strstr((const char *)out.data, line));
    }
    buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_upstreams),
        cmocka_unit_test(flags_take_all_forms),
        cmocka_unit_test(bad_flags_get_gos_words),
        cmocka_unit_test(a_variable_sets_what_no_flag_sets),
        cmocka_unit_test(flag_and_variable_together_are_refused),
        cmocka_unit_test(a_file_replaces_everything),
        cmocka_unit_test(bad_files_name_the_line),
        cmocka_unit_test(meaning_is_checked),
        cmocka_unit_test(the_last_word_on_a_gate_counts),
        cmocka_unit_test(what_is_not_there_is_refused_not_ignored),
        cmocka_unit_test(help_names_every_flag),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}

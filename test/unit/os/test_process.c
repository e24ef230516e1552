/* Signals, sd_notify, process figures, clocks, randomness, failpoints. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "os/clock.h"
#include "os/failpoint.h"
#include "os/heap.h"
#include "os/proc.h"
#include "os/rand.h"
#include "os/sdnotify.h"
#include "os/signal.h"
#include "tempdir.h"
#include "test_heap.h"

/* --- signals ---------------------------------------------------------------------------------- */

struct caught {
    struct loop *loop;
    int signums[4];
    unsigned count;
};

static void on_signal(void *arg, int signum)
{
    struct caught *c = arg;
    c->signums[c->count++] = signum;
    loop_stop(c->loop);
}

static void signals_become_calls_in_the_loop(void **state)
{
    (void)state;
    struct caught c = {.count = 0};
    struct signals *s = NULL;
    assert_int_equal(loop_new(&os_heap, &c.loop, NULL), 0);
    assert_int_equal(signals_open(c.loop, on_signal, &c, &s, NULL), 0);
    assert_int_equal(kill(getpid(), SIGTERM), 0);
    assert_int_equal(c.count, 0);
    loop_run(c.loop);
    assert_int_equal(kill(getpid(), SIGINT), 0);
    loop_run(c.loop);
    assert_int_equal(c.count, 2);
    assert_int_equal(c.signums[0], SIGTERM);
    assert_int_equal(c.signums[1], SIGINT);
    signals_close(s);
    loop_free(c.loop);
}

static void a_broken_pipe_kills_nobody(void **state)
{
    (void)state;
    int fds[2];
    signals_ignore_pipe();
    assert_int_equal(pipe(fds), 0);
    (void)close(fds[0]);
    assert_int_equal(write(fds[1], "x", 1), -1);
    (void)close(fds[1]);
}

/* --- sd_notify -------------------------------------------------------------------------------- */

static int receiver(const char *name)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    memcpy(un.sun_path, name, len);
    if (name[0] == '@') un.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    socklen_t un_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    assert_int_equal(bind(fd, (const struct sockaddr *)&un, un_len), 0);
    return fd;
}

static void expect_datagram(int fd, const char *expected)
{
    char text[64] = "";
    ssize_t n = recv(fd, text, sizeof text - 1, 0);
    assert_int_equal(n, strlen(expected));
    assert_string_equal(text, expected);
}

static void readiness_is_told_to_a_path_or_an_abstract_name(void **state)
{
    (void)state;
    struct tempdir dir;
    char path[TEMPDIR_PATH_BYTES_MAX];
    char name[64];
    tempdir_init(&dir);
    tempdir_path(&dir, "notify", path);
    (void)snprintf(name, sizeof name, "@etcd-notify-%d", (int)getpid());
    int by_path = receiver(path);
    int by_name = receiver(name);
    assert_int_equal(setenv("NOTIFY_SOCKET", path, 1), 0);
    assert_int_equal(sdnotify("READY=1", NULL), 0);
    expect_datagram(by_path, "READY=1");
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
    assert_int_equal(sdnotify("STOPPING=1", NULL), 0);
    expect_datagram(by_name, "STOPPING=1");
    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
    assert_int_equal(sdnotify("READY=1", NULL), 0);
    (void)close(by_path);
    (void)close(by_name);
    tempdir_deinit(&dir);
}

static void a_bad_notify_socket_is_an_error(void **state)
{
    (void)state;
    struct errmsg em = {""};
    assert_int_equal(sdnotify_to("relative", "READY=1", &em), E_INVAL);
    assert_string_equal(em.text, "cannot notify \"relative\": neither a path nor an abstract name");
    assert_int_equal(sdnotify_to("/nonexistent/socket", "READY=1", &em), E_NOENT);
}

/* --- figures ---------------------------------------------------------------------------------- */

static void process_figures_are_plausible(void **state)
{
    (void)state;
    struct proc_stats before;
    struct proc_stats after;
    assert_int_equal(proc_stats_read(&before), 0);
    int fd = dup(STDIN_FILENO);
    assert_true(fd >= 0);
    assert_int_equal(proc_stats_read(&after), 0);
    assert_int_equal(after.open_fds, before.open_fds + 1);
    (void)close(fd);
    double now = (double)os_clock.wall_ns(NULL) / 1e9;
    assert_true(before.start_time_s > now - 3600 && before.start_time_s < now + 2);
    assert_true(before.cpu_s >= 0 && before.cpu_s < 3600);
    assert_in_range(before.resident_bytes, 1 << 18, before.virtual_bytes);
    assert_true(before.max_fds > before.open_fds);
    assert_true(proc_cpu_count() >= 1);
    assert_true(proc_raise_fd_limit() >= before.max_fds);
}

static void clocks_go_forward_in_nanoseconds(void **state)
{
    (void)state;
    uint64_t a = os_clock.mono_ns(os_clock.arg);
    uint64_t b = os_clock.mono_ns(os_clock.arg);
    assert_true(b >= a && b - a < 10000000000);
    assert_true(os_clock.wall_ns(os_clock.arg) > (int64_t)1600000000 * 1000000000);
}

static void random_bytes_differ(void **state)
{
    (void)state;
    uint8_t a[16] = {0};
    uint8_t b[16] = {0};
    assert_int_equal(os_rand_init(), 0);
    os_rand.fill(os_rand.arg, a, sizeof a);
    os_rand.fill(os_rand.arg, b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a);
}

static void the_heap_grows_shrinks_and_frees(void **state)
{
    (void)state;
    char *p = alloc_zero(&os_heap, 10);
    assert_non_null(p);
    assert_int_equal(p[9], 0);
    memcpy(p, "0123456789", 10);
    p = os_heap.resize(os_heap.arg, p, 10, 1000);
    assert_memory_equal(p, "0123456789", 10);
    assert_null(os_heap.resize(os_heap.arg, p, 1000, 0));
    alloc_free(&os_heap, NULL, 0);
}

/* --- failpoints ------------------------------------------------------------------------------- */

#ifdef FAILPOINTS

static void expect_hit(const char *name, const char *expected)
{
    const char *got = FAILPOINT_TEXT(name);
    if (expected == NULL) {
        assert_null(got);
    } else {
        assert_non_null(got);
        assert_string_equal(got, expected);
    }
}

static void failpoints_obey_their_terms(void **state)
{
    (void)state;
    expect_hit("a", NULL);
    assert_int_equal(failpoint_set("a", "return(\"text )x\")", NULL), 0);
    expect_hit("a", "text )x");
    expect_hit("a", "text )x");
    assert_int_equal(failpoint_set("a", "2*return(\"x\")->1*off->return(5)", NULL), 0);
    expect_hit("a", "x");
    expect_hit("a", "x");
    expect_hit("a", NULL);
    expect_hit("a", "5");
    assert_int_equal(failpoint_set("a", "0%return", NULL), 0);
    expect_hit("a", NULL);
    assert_int_equal(failpoint_set("a", "sleep(1)", NULL), 0);
    uint64_t before = os_clock.mono_ns(NULL);
    FAILPOINT("a");
    assert_true(os_clock.mono_ns(NULL) - before >= 1000000);
    assert_int_equal(failpoint_set("a", "sleep(\"2ms\")", NULL), 0);
    FAILPOINT("a");
    assert_true(os_clock.mono_ns(NULL) - before >= 3000000);
    assert_int_equal(failpoint_unset("a"), 0);
    assert_int_equal(failpoint_unset("a"), E_NOENT);
    expect_hit("a", NULL);
}

static void bad_terms_change_nothing(void **state)
{
    (void)state;
    static const char *const bad[] = {"",           "jump",    "return(", "return(\"x)", "sleep",
                                      "sleep(abc)", "panic->", "2*",      "panic x"};
    assert_int_equal(failpoint_set("b", "return(1)", NULL), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct errmsg em = {""};
        assert_int_equal(failpoint_set("b", bad[i], &em), E_INVAL);
        assert_string_equal(em.text, "failpoint: could not parse terms");
    }
    expect_hit("b", "1");
    assert_int_equal(failpoint_unset("b"), 0);
}

static void failpoints_are_listed_by_name(void **state)
{
    (void)state;
    struct test_heap h;
    struct buf b;
    test_heap_init(&h);
    buf_init(&b, &h.alloc, 4096);
    assert_int_equal(failpoint_set_all("zz=panic;yy=2*sleep(5)->off", NULL), 0);
    assert_int_equal(failpoint_list(&b), 0);
    assert_int_equal(buf_put_u8(&b, 0), 0);
    assert_non_null(strstr((const char *)b.data, "yy=2*sleep(5)->off\nzz=panic\n"));
    buf_reset(&b);
    assert_int_equal(failpoint_terms("yy", &b), 0);
    assert_true(bytes_eq(buf_bytes(&b), bytes_str("2*sleep(5)->off")));
    assert_int_equal(failpoint_terms("none", &b), E_NOENT);
    assert_int_equal(failpoint_set_all("novalue", NULL), E_INVAL);
    buf_deinit(&b);
}

#else

static void a_normal_build_has_no_failpoints(void **state)
{
    (void)state;
    FAILPOINT("anything");
    assert_null(FAILPOINT_TEXT("anything"));
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_become_calls_in_the_loop),
        cmocka_unit_test(a_broken_pipe_kills_nobody),
        cmocka_unit_test(readiness_is_told_to_a_path_or_an_abstract_name),
        cmocka_unit_test(a_bad_notify_socket_is_an_error),
        cmocka_unit_test(process_figures_are_plausible),
        cmocka_unit_test(clocks_go_forward_in_nanoseconds),
        cmocka_unit_test(random_bytes_differ),
        cmocka_unit_test(the_heap_grows_shrinks_and_frees),
#ifdef FAILPOINTS
        cmocka_unit_test(failpoints_obey_their_terms),
        cmocka_unit_test(bad_terms_change_nothing),
        cmocka_unit_test(failpoints_are_listed_by_name),
#else
        cmocka_unit_test(a_normal_build_has_no_failpoints),
#endif
    };
    return cmocka_run_group_tests_name("os/process", tests, NULL, NULL);
}

/* More than one endpoint, and endpoints in trouble: balancing, retries, reconnecting. */
#include "kit.h"
#include "test_heap.h"

/* An address where nobody listens: that of a server that has gone. */
static void dead_address(char out[FAKE_ADDRESS_BYTES])
{
    struct fake *f = fake_start("127.0.0.1:0");
    memcpy(out, f->address, FAKE_ADDRESS_BYTES);
    fake_stop(f);
}

static void without_endpoints_nothing_is_available(void **state)
{
    struct kit *k = kit_new(NULL, NULL, NULL);
    kit_open(k);
    assert_true(kit_call(k, "/t.T/Echo", READ, bytes_str(""), 0) < 0);
    assert_string_equal(k->st.text, "etcdclient: no available endpoints");
    kit_free(k);
}

static void a_dead_endpoint_takes_all_the_time_there_is(void **state)
{
    char dead[FAKE_ADDRESS_BYTES];
    dead_address(dead);
    static const char *const OTHERS[] = {"", "unix:/no/such/socket", "no.such.host.invalid:1",
                                         ":x"};
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++) {
        struct kit *k = kit_new(dead, OTHERS[i], NULL);
        kit_open(k);
        uint64_t start = fake_now();
        assert_int_equal(kit_call(k, "/t.T/Echo", READ, bytes_str(""), 150 * MS),
                         E_DEADLINE_EXCEEDED);
        assert_true(fake_now() - start >= 150 * MS);
        assert_string_equal(k->st.text, "context deadline exceeded");
        kit_free(k);
    }
}

static void live_endpoints_are_used_in_turn(void **state)
{
    char dead[FAKE_ADDRESS_BYTES];
    dead_address(dead);
    struct fake *a = fake_start("127.0.0.1:0");
    struct fake *b = fake_start("127.0.0.1:0");
    struct kit *k = kit_new(a->address, dead, b->address);
    kit_open(k);
    /* The first calls go to whoever answered first; from then on each has its turn. */
    while (atomic_load(&a->calls) == 0 || atomic_load(&b->calls) == 0)
        kit_echo(k, "x");
    int before[2] = {atomic_load(&a->calls), atomic_load(&b->calls)};
    for (int i = 0; i < 100; i++)
        kit_echo(k, "x");
    assert_int_equal(atomic_load(&a->calls) - before[0], 50);
    assert_int_equal(atomic_load(&b->calls) - before[1], 50);
    kit_free(k);
    fake_stop(a);
    fake_stop(b);
}

static void reads_are_tried_again_when_the_connection_breaks(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_of(f->address);
    assert_int_equal(kit_call(k, "/t.T/Drop", READ, bytes_str(""), 200 * MS), E_DEADLINE_EXCEEDED);
    assert_true(atomic_load(&f->calls) > 1);
    kit_echo(k, "after");
    kit_free(k);
    fake_stop(f);
}

static void writes_are_not(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_of(f->address);
    assert_true(kit_call(k, "/t.T/Drop", WRITE, bytes_str(""), 10000 * MS) < 0);
    assert_int_equal(k->st.code, GRPC_UNAVAILABLE);
    assert_int_equal(atomic_load(&f->calls), 1);
    kit_echo(k, "after");
    kit_free(k);
    fake_stop(f);
}

static void reads_wait_for_a_member_in_trouble(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_of(f->address);
    atomic_store(&f->failures_left, 3);
    assert_int_equal(kit_call(k, "/t.T/Busy", READ, bytes_str("x"), 10000 * MS), 0);
    assert_int_equal(atomic_load(&f->calls), 4);
    atomic_store(&f->failures_left, 3);
    assert_true(kit_call(k, "/t.T/Busy", WRITE, bytes_str("x"), 10000 * MS) < 0);
    assert_string_equal(k->st.text, "etcdserver: no leader");
    assert_int_equal(atomic_load(&f->calls), 5);
    kit_free(k);
    fake_stop(f);
}

static void the_deadline_holds_between_tries(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_of(f->address);
    atomic_store(&f->failures_left, 1000000);
    assert_int_equal(kit_call(k, "/t.T/Busy", READ, bytes_str("x"), 120 * MS), E_DEADLINE_EXCEEDED);
    assert_string_equal(k->st.text, "context deadline exceeded");
    kit_free(k);
    fake_stop(f);
}

static void a_learner_is_passed_over(void **state)
{
    static const char BODY[] = "\11etcdserver: rpc not supported for learner";
    struct fake *a = fake_start("127.0.0.1:0");
    struct kit *k = kit_of(a->address);
    assert_int_equal(kit_call(k, "/t.T/Fail", READ, bytes_str(BODY), 0),
                     E_NOT_SUPPORTED_FOR_LEARNER);
    assert_int_equal(atomic_load(&a->calls), 1);
    kit_free(k);
    struct fake *b = fake_start("127.0.0.1:0");
    k = kit_new(a->address, b->address, NULL);
    kit_open(k);
    assert_true(kit_call(k, "/t.T/Fail", WRITE, bytes_str(BODY), 100 * MS) < 0);
    assert_true(atomic_load(&a->calls) + atomic_load(&b->calls) > 2);
    kit_free(k);
    fake_stop(a);
    fake_stop(b);
}

static void connects_anew_after_goaway(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    struct kit *k = kit_of(f->address);
    kit_echo(k, "before");
    fake_drain_all(f);
    for (int i = 0; i < 50 && atomic_load(&f->accepted) < 2; i++)
        kit_echo(k, "x");
    assert_int_equal(atomic_load(&f->accepted), 2);
    kit_free(k);
    fake_stop(f);
}

static void finds_a_server_that_comes_back(void **state)
{
    char address[FAKE_ADDRESS_BYTES];
    struct fake *f = fake_start("127.0.0.1:0");
    memcpy(address, f->address, sizeof address);
    struct kit *k = kit_of(address);
    kit_echo(k, "before");
    fake_stop(f);
    assert_int_equal(kit_call(k, "/t.T/Echo", READ, bytes_str("x"), 50 * MS), E_DEADLINE_EXCEEDED);
    f = fake_start(address);
    kit_echo(k, "after");
    kit_free(k);
    fake_stop(f);
}

/* One life of a client in which the n-th allocation fails: it ends in an answer or an error, with nothing left. */
static void live(struct test_heap *h, void *arg)
{
    struct fake *f = arg;
    struct client *c = NULL;
    struct buf answer;
    struct client_status st;
    struct errmsg em = {""};
    const char *endpoints[] = {f->address};
    struct client_opts o = {
        .endpoints = endpoints, .endpoint_count = 1, .user_agent = "test", .alloc = &h->alloc};
    struct client_request r = {
        .path = "/t.T/Echo", .body = bytes_str("x"), .timeout_ns = 5000 * MS};
    buf_init(&answer, &h->alloc, SIZE_MAX / 2);
    if (client_new(&o, &c, &em) == 0) {
        int rc = client_unary(c, &r, &answer, &st);
        assert_true(rc == 0 || st.code != GRPC_OK);
        client_free(c);
    }
    buf_deinit(&answer);
}

static void every_allocation_may_fail(void **state)
{
    struct fake *f = fake_start("127.0.0.1:0");
    assert_true(test_heap_every_failure(live, f) > 10);
    fake_stop(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_endpoints_nothing_is_available),
        cmocka_unit_test(a_dead_endpoint_takes_all_the_time_there_is),
        cmocka_unit_test(live_endpoints_are_used_in_turn),
        cmocka_unit_test(reads_are_tried_again_when_the_connection_breaks),
        cmocka_unit_test(writes_are_not),
        cmocka_unit_test(reads_wait_for_a_member_in_trouble),
        cmocka_unit_test(the_deadline_holds_between_tries),
        cmocka_unit_test(a_learner_is_passed_over),
        cmocka_unit_test(connects_anew_after_goaway),
        cmocka_unit_test(finds_a_server_that_comes_back),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("client endpoints", tests, NULL, NULL);
}

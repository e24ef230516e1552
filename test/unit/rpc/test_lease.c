/* The lease service as a client sees it: requests of one connection against a member whose answers the test gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/err.h"
#include "etcdserverpb.pb-c.h"
#include "fake_backend.h"
#include "grpc/grpc_client.h"
#include "os/clock.h"
#include "pb/wire.h"
#include "rpc/rpc.h"
#include "test_heap.h"

enum { ASKED_MAX = 16, ANSWERS_MAX = 16384, MANY = 10000, BUFFER_BYTES = 64 * 1024 };

/* What a client was told. */
struct ended {
    struct grpc_client_call *call;
    uint64_t ids[ANSWERS_MAX];
    size_t count;
    bool over;
    enum grpc_code code;
    uint8_t last[256];
    size_t last_len;
};

struct world {
    struct test_heap heap;
    struct fake_backend store;
    struct mvcc *mvcc;
    struct rpc_member member;
    struct loop *loop;
    struct rpc_thread *thread;
    struct grpc_conn *conn;
    struct grpc_pool *client_pool;
    struct grpc_client_conn *client;
    struct rpc_wait *asked[ASKED_MAX];
    size_t asked_count;
};

static void no_lock(void *arg)
{
    (void)arg;
}

static const struct rwlock NO_LOCK = {no_lock, no_lock, no_lock, no_lock, NULL};

/* --- the member -------------------------------------------------------------------------------------- */

static uint64_t next_request_id(void *arg)
{
    (void)arg;
    return 7;
}

static void submit(void *arg, struct rpc_wait *chain)
{
    struct world *w = arg;
    for (; chain != NULL; chain = chain->next) {
        assert_in_range(w->asked_count, 0, ASKED_MAX - 1);
        w->asked[w->asked_count++] = chain;
    }
}

static void status(void *arg, struct rpc_status *out)
{
    (void)arg;
    *out = (struct rpc_status){.term = 2, .leader = 9};
}

static uint64_t term(void *arg)
{
    (void)arg;
    return 2;
}

static void on_output(void *arg, struct grpc_conn *conn)
{
    (void)arg;
    (void)conn;
}

static struct node_lease_question *question(struct world *w, size_t i)
{
    assert_in_range(i, 0, w->asked_count - 1);
    assert_int_equal(w->asked[i]->ask, RPC_ASK_LEASE);
    return w->asked[i]->lease;
}

/* Gives a wait back; answers are seen after the next exchange(). */
static void give_back(struct world *w, size_t i, int rc)
{
    struct rpc_wait *wait = w->asked[i];
    w->asked_count--;
    memmove(w->asked + i, w->asked + i + 1, (w->asked_count - i) * sizeof(struct rpc_wait *));
    wait->rc = rc;
    loop_post(wait->loop, &wait->task);
    loop_run_once(w->loop);
}

/* Renews the first `done` leases of a question: those with even ids live. */
static void renew(struct world *w, size_t i, size_t done)
{
    struct node_lease_question *q = question(w, i);
    assert_int_equal(q->ask, NODE_LEASE_RENEW);
    for (size_t k = 0; k < done; k++)
        q->renewals[k].ttl_s = q->renewals[k].id % 2 == 0 ? 60 : 0;
    q->done = done;
    give_back(w, i, 0);
}

/* --- the wire ------------------------------------------------------------------------------------------ */

/* Moves bytes both ways until neither side has any. */
static void exchange(struct world *w)
{
    static uint8_t buffer[BUFFER_BYTES];
    size_t n;
    bool moved = true;
    while (moved) {
        moved = false;
        while ((n = grpc_client_conn_pull(w->client, buffer, sizeof buffer, 1)) > 0) {
            moved = true;
            assert_int_equal(grpc_conn_feed(w->conn, buffer, n, 1), 0);
            rpc_thread_submit(w->thread);
        }
        while ((n = grpc_conn_pull(w->conn, buffer, sizeof buffer, 1)) > 0) {
            moved = true;
            assert_int_equal(grpc_client_conn_feed(w->client, buffer, n, 1), 0);
        }
        loop_run_once(w->loop);
    }
}

static void on_message(void *arg, struct grpc_client_call *call, struct bytes msg)
{
    struct ended *e = arg;
    (void)call;
    e->last_len = msg.len < sizeof e->last ? msg.len : sizeof e->last;
    memcpy(e->last, msg.data, e->last_len);
    Etcdserverpb__LeaseKeepAliveResponse *r =
        etcdserverpb__lease_keep_alive_response__unpack(NULL, msg.len, msg.data);
    if (r == NULL) return; /* an answer of another kind: only its bytes are looked at */
    assert_in_range(e->count, 0, ANSWERS_MAX - 1);
    e->ids[e->count++] = (uint64_t)r->id << 8 | (uint64_t)r->ttl;
    etcdserverpb__lease_keep_alive_response__free_unpacked(r, NULL);
}

static void on_end(void *arg, struct grpc_client_call *call, const struct grpc_status *st)
{
    struct ended *e = arg;
    (void)call;
    e->call = NULL;
    e->over = true;
    e->code = st->code;
}

static const struct grpc_client_events EVENTS = {.on_message = on_message, .on_end = on_end};

static void start(struct world *w, struct ended *e, const char *method, enum grpc_kind kind)
{
    char path[64];
    memset(e, 0, sizeof *e);
    (void)snprintf(path, sizeof path, "/etcdserverpb.Lease/%s", method);
    const struct grpc_client_call_opts o = {
        .path = path, .deadline_ns = GRPC_NEVER, .kind = kind, .events = &EVENTS, .arg = e};
    assert_int_equal(grpc_client_start(w->client, &o, 1, &e->call), 0);
}

static void send_id(struct ended *e, int64_t id)
{
    uint8_t body[16];
    size_t len = id == 0 ? 0 : (size_t)(pb_write_uint(body, 1, (uint64_t)id) - body);
    assert_int_equal(grpc_client_send(e->call, bytes_of(body, len)), 0);
}

static void begin(struct world *w)
{
    struct errmsg em = {""};
    memset(w, 0, sizeof *w);
    test_heap_init(&w->heap);
    fake_backend_init(&w->store);
    const struct mvcc_opts mo = {
        .alloc = &w->heap.alloc, .index_lock = &NO_LOCK, .backend = &w->store.face};
    assert_int_equal(mvcc_open(&mo, &w->mvcc, &em), 0);
    assert_int_equal(loop_new(&w->heap.alloc, &w->loop, &em), 0);
    w->member = (struct rpc_member){.arg = w,
                                    .cluster_id = 5,
                                    .member_id = 9,
                                    .mvcc = w->mvcc,
                                    .clock = &os_clock,
                                    .next_request_id = next_request_id,
                                    .submit = submit,
                                    .status = status,
                                    .term = term,
                                    .request_bytes_max = 1 << 20};
    assert_int_equal(
        rpc_thread_new(&w->member, w->loop, &w->heap.alloc, on_output, NULL, &w->thread), 0);
    struct grpc_conn_opts so = grpc_conn_opts_default();
    so.pool = rpc_thread_pool(w->thread);
    w->conn = grpc_conn_new(&so, rpc_thread_grpc(w->thread), 1);
    struct grpc_client_opts co = grpc_client_opts_default();
    w->client_pool = grpc_pool_new(&w->heap.alloc, 1 << 20);
    co.pool = w->client_pool;
    co.authority = "test";
    co.user_agent = "test";
    co.scheme = "http";
    co.call_queue_bytes = 1 << 20;
    w->client = grpc_client_conn_new(&co, 1);
    assert_non_null(w->conn);
    assert_non_null(w->client);
    exchange(w);
}

static void end(struct world *w)
{
    grpc_client_conn_free(w->client);
    grpc_conn_free(w->conn);
    while (w->asked_count > 0)
        give_back(w, 0, E_STOPPED);
    assert_int_equal(rpc_thread_pending(w->thread), 0);
    rpc_thread_free(w->thread);
    grpc_pool_free(w->client_pool);
    loop_free(w->loop);
    mvcc_free(w->mvcc);
    fake_backend_deinit(&w->store);
    test_heap_check_empty(&w->heap);
}

/* --- keepalive ------------------------------------------------------------------------------------------ */

static struct ended one, two; /* large */

static void one_read_is_one_question(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    start(&w, &one, "LeaseKeepAlive", GRPC_BIDI);
    for (int64_t id = 1; id <= 6; id++)
        send_id(&one, id);
    exchange(&w);
    assert_int_equal(w.asked_count, 1);
    assert_int_equal(question(&w, 0)->count, 6);
    renew(&w, 0, 6);
    exchange(&w);
    assert_int_equal(one.count, 6);
    for (uint64_t id = 1; id <= 6; id++)
        assert_int_equal(one.ids[id - 1], id << 8 | (id % 2 == 0 ? 60 : 0));
    assert_int_equal(w.asked_count, 0);
    assert_false(one.over);
    end(&w);
}

static void what_is_not_answered_is_asked_again_before_the_rest(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    start(&w, &one, "LeaseKeepAlive", GRPC_BIDI);
    for (int64_t id = 1; id <= 3; id++)
        send_id(&one, id);
    exchange(&w);
    send_id(&one, 4);
    exchange(&w);
    assert_int_equal(w.asked_count, 1); /* one question at a time */
    renew(&w, 0, 2);
    exchange(&w);
    assert_int_equal(one.count, 2);
    assert_int_equal(question(&w, 0)->count, 1);
    assert_int_equal(question(&w, 0)->renewals[0].id, 3);
    renew(&w, 0, 1);
    exchange(&w);
    assert_int_equal(question(&w, 0)->renewals[0].id, 4);
    renew(&w, 0, 1);
    exchange(&w);
    assert_int_equal(one.count, 4);
    assert_int_equal(one.ids[3] >> 8, 4);
    end(&w);
}

static void the_end_of_the_requests_ends_the_answers(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    start(&w, &one, "LeaseKeepAlive", GRPC_BIDI);
    send_id(&one, 2);
    grpc_client_half_close(one.call);
    start(&w, &two, "LeaseKeepAlive", GRPC_BIDI);
    grpc_client_half_close(two.call);
    exchange(&w);
    assert_true(two.over); /* nothing was asked */
    assert_int_equal(two.code, GRPC_OK);
    assert_false(one.over);
    renew(&w, 0, 1);
    exchange(&w);
    assert_true(one.over);
    assert_int_equal(one.code, GRPC_OK);
    assert_int_equal(one.count, 1);
    end(&w);
}

static void a_client_that_leaves_is_waited_for_by_nobody(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    start(&w, &one, "LeaseKeepAlive", GRPC_BIDI);
    send_id(&one, 2);
    exchange(&w);
    grpc_client_cancel(one.call);
    exchange(&w);
    assert_true(one.over);
    renew(&w, 0, 1); /* the answer is dropped */
    exchange(&w);
    assert_int_equal(one.count, 0);
    start(&w, &one, "LeaseKeepAlive", GRPC_BIDI);
    send_id(&one, 2);
    exchange(&w);
    end(&w); /* and a connection may go while a question is out */
}

static void an_error_ends_the_stream(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    start(&w, &one, "LeaseKeepAlive", GRPC_BIDI);
    send_id(&one, 2);
    exchange(&w);
    give_back(&w, 0, E_NO_LEADER);
    exchange(&w);
    assert_true(one.over);
    assert_int_equal(one.code, GRPC_UNAVAILABLE);
    end(&w);
}

static void many_ahead_are_held_back_and_all_answered(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    start(&w, &one, "LeaseKeepAlive", GRPC_BIDI);
    for (int64_t id = 1; id <= MANY; id++)
        send_id(&one, id);
    grpc_client_half_close(one.call);
    exchange(&w);
    while (w.asked_count > 0) {
        assert_in_range(question(&w, 0)->count, 1, 4096);
        renew(&w, 0, question(&w, 0)->count);
        exchange(&w);
    }
    assert_int_equal(one.count, MANY);
    for (uint64_t id = 1; id <= MANY; id++)
        assert_int_equal(one.ids[id - 1] >> 8, id);
    assert_true(one.over);
    assert_int_equal(one.code, GRPC_OK);
    end(&w);
}

static void a_stop_ends_streams_after_their_answers(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    start(&w, &one, "LeaseKeepAlive", GRPC_BIDI);
    send_id(&one, 2);
    exchange(&w);
    start(&w, &two, "LeaseKeepAlive", GRPC_BIDI);
    send_id(&two, 4);
    exchange(&w);
    renew(&w, 1, 1);
    exchange(&w);
    rpc_thread_drain(w.thread);
    exchange(&w);
    assert_true(two.over);
    assert_int_equal(two.code, GRPC_UNAVAILABLE);
    assert_false(one.over);
    renew(&w, 0, 1);
    exchange(&w);
    assert_int_equal(one.count, 1);
    assert_true(one.over);
    assert_int_equal(one.code, GRPC_UNAVAILABLE);
    end(&w);
}

/* --- time to live and the list ------------------------------------------------------------------------ */

static void what_is_left_is_told(void **state)
{
    (void)state;
    static const uint8_t KEYS[] = {0x2a, 1, 'k'};
    struct world w;
    begin(&w);
    start(&w, &one, "LeaseTimeToLive", GRPC_UNARY);
    send_id(&one, 2);
    grpc_client_half_close(one.call);
    exchange(&w);
    struct node_lease_question *q = question(&w, 0);
    assert_int_equal(q->ask, NODE_LEASE_LEFT);
    assert_int_equal(q->id, 2);
    q->left_s = 8;
    q->granted_s = 10;
    assert_int_equal(buf_put(&q->list, KEYS, sizeof KEYS), 0);
    give_back(&w, 0, 0);
    exchange(&w);
    assert_true(one.over);
    static const uint8_t EXPECTED[] = {0x0a, 8, 8,    5, 0x10, 9,  0x18, 1, 0x20, 2,
                                       0x10, 2, 0x18, 8, 0x20, 10, 0x2a, 1, 'k'};
    assert_int_equal(one.last_len, sizeof EXPECTED);
    assert_memory_equal(one.last, EXPECTED, sizeof EXPECTED);
    end(&w);
}

static void the_list_has_the_soonest_first(void **state)
{
    (void)state;
    static const struct node_lease_item ITEMS[] = {{3, 30}, {1, 10}, {2, 10}};
    struct world w;
    begin(&w);
    start(&w, &one, "LeaseLeases", GRPC_UNARY);
    send_id(&one, 0);
    grpc_client_half_close(one.call);
    exchange(&w);
    assert_int_equal(question(&w, 0)->ask, NODE_LEASE_LIST);
    assert_int_equal(buf_put(&question(&w, 0)->list, ITEMS, sizeof ITEMS), 0);
    give_back(&w, 0, 0);
    exchange(&w);
    assert_true(one.over);
    static const uint8_t TAIL[] = {0x12, 2, 8, 1, 0x12, 2, 8, 2, 0x12, 2, 8, 3};
    assert_in_range(one.last_len, sizeof TAIL, sizeof one.last);
    assert_memory_equal(one.last + one.last_len - sizeof TAIL, TAIL, sizeof TAIL);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_read_is_one_question),
        cmocka_unit_test(what_is_not_answered_is_asked_again_before_the_rest),
        cmocka_unit_test(the_end_of_the_requests_ends_the_answers),
        cmocka_unit_test(a_client_that_leaves_is_waited_for_by_nobody),
        cmocka_unit_test(an_error_ends_the_stream),
        cmocka_unit_test(many_ahead_are_held_back_and_all_answered),
        cmocka_unit_test(a_stop_ends_streams_after_their_answers),
        cmocka_unit_test(what_is_left_is_told),
        cmocka_unit_test(the_list_has_the_soonest_first),
    };
    return cmocka_run_group_tests_name("rpc/lease", tests, NULL, NULL);
}

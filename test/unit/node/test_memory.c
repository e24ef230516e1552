/* The n-th allocation fails, for every n: no request is lost or answered twice, and nothing leaks. */
#include "member.h"

#define INSIST(call)                                                                               \
    for (int tries_ = 0; (call) < 0; tries_++) {                                                   \
        if (tries_ > 5) fail_msg("never succeeds: %s", #call);                                     \
    }

struct half {
    struct test_heap *heap;
    struct node_raft *n;
    struct node_ids ids;
    struct node_status status;
    raft_index applied;
    unsigned registered;
    unsigned read_ok;
    unsigned errors;
};

static void on_note(struct half *h, struct node_to_apply *note)
{
    if (note->kind == NODE_REGISTER) h->registered++;
    if (note->kind == NODE_READ_OK) h->read_ok += note->waiter != NULL;
    raft_index applied = 0;
    if (note->kind == NODE_SPAN) applied = note->entries[note->entry_count - 1].index;
    node_to_apply_deinit(note, &h->heap->alloc);
    if (applied == 0) return;
    struct node_to_raft back = {.kind = NODE_APPLIED, .index = applied, .ack = true};
    INSIST(node_raft_note(h->n, &back));
    h->applied = applied;
}

static void outputs(struct half *h)
{
    struct node_raft_output o;
    /* Twice: what found no memory is tried again at the next loop. */
    for (int loops = 0; loops < 3; loops++) {
        while (node_raft_take(h->n, &o) > 0) {
            if (o.kind == NODE_RAFT_PERSIST) {
                uint64_t seq = o.u.persist.seq;
                node_persist_deinit(&o.u.persist, &h->heap->alloc);
                INSIST(node_raft_persisted(h->n, seq));
            }
            if (o.kind == NODE_RAFT_NOTE) on_note(h, &o.u.note);
            if (o.kind == NODE_RAFT_REPLY) h->errors++;
        }
    }
}

static int make(struct half *h)
{
    struct bytes url = bytes_str("http://localhost:2380");
    const struct member m = {.id = MEMBER_ID, .peer_urls = &url, .peer_url_count = 1};
    struct raft_entry *first = NULL;
    int rc = node_first_entries(&h->heap->alloc, &m, 1, &first);
    if (rc < 0) return rc;
    struct raft_restored in = {.snapshot.conf = {.voters = {MEMBER_ID}, .voter_count = 1}};
    const struct node_raft_opts o = {.id = MEMBER_ID,
                                     .election_ticks = 10,
                                     .tick_ns = MEMBER_TICK_NS,
                                     .pre_vote = true,
                                     .ids = &h->ids,
                                     .status = &h->status,
                                     .alloc = &h->heap->alloc};
    struct errmsg em = {""};
    rc = node_raft_new(&o, &in, first, 1, &h->n, &em);
    raft_entries_free(&h->heap->alloc, first, 1);
    return rc;
}

static void raft_half(struct test_heap *heap, void *arg)
{
    (void)arg;
    struct half h = {.heap = heap};
    struct node_waiter waiters[12] = {{.no_limit = false}};
    node_ids_init(&h.ids, MEMBER_ID, 1);
    if (make(&h) < 0) return;
    outputs(&h);
    INSIST(node_raft_tick(h.n, MEMBER_TICK_NS));
    outputs(&h);
    for (int i = 0; i < 12; i++) {
        waiters[i].request_id = node_ids_next(&h.ids);
        if (i % 3 == 2) {
            INSIST(node_raft_read(h.n, &waiters[i]));
            continue;
        }
        struct rcbuf *data = NULL;
        for (int k = 0; k < 3 && data == NULL; k++)
            data = rcbuf_new(&heap->alloc, 8);
        assert_non_null(data);
        const struct node_request req = {.data = data, .waiter = &waiters[i]};
        INSIST(node_raft_propose(h.n, &req));
        rcbuf_unref(data);
        if (i % 2 == 0) outputs(&h);
    }
    for (int i = 2; i < 20; i++) {
        INSIST(node_raft_tick(h.n, i * MEMBER_TICK_NS));
        outputs(&h);
    }
    assert_int_equal(h.registered, 8);
    assert_int_equal(h.errors, 0);
    assert_true(h.read_ok > 0);
    INSIST(node_raft_stop(h.n));
    outputs(&h);
    node_raft_free(h.n);
}

static void the_raft_half_survives_every_failure(void **state)
{
    (void)state;
    assert_true(test_heap_every_failure(raft_half, NULL) > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_raft_half_survives_every_failure),
    };
    return cmocka_run_group_tests_name("node memory", tests, NULL, NULL);
}

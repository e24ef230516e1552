/* The leader's side of leases: answers to questions, revocations of what has run out, checkpoints.
 *
 * Revocations are proposed at most NODE__REVOKES_MAX at a time, so that other requests find their place between them; a
 * proposal that was lost is made again when the table hands its lease out once more. Questions that wait are looked
 * at again in every run: what they wait for shows in the tables. */
#include "base/arena.h"
#include "node/node_apply_int.h"
#include "pb/wire.h"

enum {
    SCAN_KEYS = 256,            /* keys or leases listed in one go: far below 200 us */
    RENEWALS_PER_RUN = 1024,    /* likewise */
    CHECKPOINT_ENTRIES_MAX = 8, /* of one scan: enough for several million leases */
    KEYS_FIELD = 5              /* of LeaseTimeToLiveResponse */
};

#define APPLIED_WAIT_NS INT64_C(1000000000)
/* As upstream's limit of a message; a longer list is refused. */
#define LIST_KEY_BYTES_MAX ((size_t)INT32_MAX)

typedef Etcdserverpb__InternalRaftRequest request_msg;

/* --- is this member sure that it leads? ------------------------------------------------------------ */

static bool stalled(const struct node_apply *n)
{
    ASSERT(n->opts.tick_ns > 0);
    int64_t sure_ns = n->tick_last_ns > n->confirmed_ns ? n->tick_last_ns : n->confirmed_ns;
    return n->now_ns - sure_ns > 3 * n->opts.tick_ns;
}

/* A leader that has not ticked for three heartbeats may have been replaced without knowing it: it asks first. */
static void ask_confirmation(struct node_apply *n)
{
    ASSERT(n->lead_term != 0);
    if (n->unconfirmed || node__apply_reserve(n, 1) < 0) return;
    n->unconfirmed = true;
    node__apply_note(n, (struct node_to_raft){.kind = NODE_CONFIRM});
}

static bool surely_primary(struct node_apply *n)
{
    ASSERT(n->leases != NULL);
    if (n->lead_term == 0 || n->promoting || !lease_is_primary(n->leases)) return false;
    if (stalled(n)) ask_confirmation(n);
    return !n->unconfirmed;
}

/* --- proposals ------------------------------------------------------------------------------------- */

static uint64_t propose_revoke(struct node_apply *n, lease_id id)
{
    ASSERT(id != LEASE_NONE);
    Etcdserverpb__LeaseRevokeRequest msg = ETCDSERVERPB__LEASE_REVOKE_REQUEST__INIT;
    msg.id = id;
    request_msg req = ETCDSERVERPB__INTERNAL_RAFT_REQUEST__INIT;
    req.lease_revoke = &msg;
    return node__propose(n, &req);
}

static int pack_checkpoints(struct arena *a, const struct lease_checkpoint *list, size_t count,
                            Etcdserverpb__LeaseCheckpointRequest *out)
{
    ASSERT(count > 0 && count <= LEASE_CHECKPOINTS_PER_ENTRY_MAX);
    Etcdserverpb__LeaseCheckpoint *msgs = arena_new(a, count * sizeof *msgs);
    out->checkpoints = arena_new(a, count * sizeof *out->checkpoints);
    if (msgs == NULL || out->checkpoints == NULL) return E_NOMEM;
    for (size_t i = 0; i < count; i++) {
        etcdserverpb__lease_checkpoint__init(&msgs[i]);
        msgs[i].id = list[i].id;
        msgs[i].remaining_ttl = list[i].remaining_s;
        out->checkpoints[i] = &msgs[i];
    }
    out->n_checkpoints = count;
    return 0;
}

/* One that is lost comes again with the next checkpoint, or renewal. */
static void propose_checkpoints(struct node_apply *n, const struct lease_checkpoint *list,
                                size_t count)
{
    ASSERT(list != NULL);
    struct arena a;
    arena_init(&a, n->alloc, MAX_REQUEST_BYTES_DEFAULT);
    Etcdserverpb__LeaseCheckpointRequest msg = ETCDSERVERPB__LEASE_CHECKPOINT_REQUEST__INIT;
    request_msg req = ETCDSERVERPB__INTERNAL_RAFT_REQUEST__INIT;
    req.lease_checkpoint = &msg;
    if (pack_checkpoints(&a, list, count, &msg) == 0) (void)node__propose(n, &req);
    arena_deinit(&a);
}

/* --- the end of leases ------------------------------------------------------------------------------ */

static void scan_expired(struct node_apply *n)
{
    struct node__revokes *r = &n->revokes;
    ASSERT(r->at <= r->count);
    if (r->at < r->count) return; /* the last scan's are not all proposed yet */
    r->at = 0;
    r->count = lease_expired(n->leases, n->now_ns, r->ids, LEASE_EXPIRED_PER_SCAN_MAX);
}

static void propose_revokes(struct node_apply *n)
{
    struct node__revokes *r = &n->revokes;
    while (r->at < r->count && r->flying < NODE__REVOKES_MAX) {
        lease_id id = r->ids[r->at++];
        if (!lease_find(n->leases, id, NULL)) continue;
        uint64_t request_id = propose_revoke(n, id);
        if (request_id == 0) continue; /* no memory: the table hands it out again */
        r->flight[r->flying++] = (struct node__revoke){request_id, n->now_ns + n->timeout_ns};
    }
    ASSERT(r->flying <= NODE__REVOKES_MAX);
}

/* Lets the places of lost proposals go. */
static void drop_overdue(struct node_apply *n)
{
    struct node__revokes *r = &n->revokes;
    ASSERT(r->flying <= NODE__REVOKES_MAX);
    for (size_t i = r->flying; i > 0; i--) {
        if (r->flight[i - 1].due_ns <= n->now_ns) r->flight[i - 1] = r->flight[--r->flying];
    }
}

static void checkpoint(struct node_apply *n)
{
    struct lease_checkpoint due[LEASE_CHECKPOINTS_PER_ENTRY_MAX];
    size_t count = LEASE_CHECKPOINTS_PER_ENTRY_MAX;
    ASSERT(lease_is_primary(n->leases));
    for (int i = 0; i < CHECKPOINT_ENTRIES_MAX && count == LEASE_CHECKPOINTS_PER_ENTRY_MAX; i++) {
        count = lease_checkpoints_due(n->leases, n->now_ns, due, LEASE_CHECKPOINTS_PER_ENTRY_MAX);
        if (count > 0) propose_checkpoints(n, due, count);
    }
}

void node__lease_tick(struct node_apply *n, int64_t gap_ns)
{
    ASSERT(n->lead_term != 0);
    if (gap_ns > 3 * n->opts.tick_ns) ask_confirmation(n);
    drop_overdue(n);
    if (!surely_primary(n) || n->now_ns < n->lease_due_ns) return;
    n->lease_due_ns = n->now_ns + NODE__LEASE_SCAN_NS;
    scan_expired(n);
    propose_revokes(n);
    checkpoint(n);
}

void node__lease_applied(struct node_apply *n, uint64_t request_id)
{
    struct node__revokes *r = &n->revokes;
    if (r->flying == 0 || request_id == 0) return;
    for (size_t i = 0; i < r->flying; i++) {
        if (r->flight[i].request_id != request_id) continue;
        r->flight[i] = r->flight[--r->flying];
        r->done_total++;
        break;
    }
    ASSERT(n->lead_term != 0);
    if (!n->unconfirmed) propose_revokes(n);
}

void node__lease_lost(struct node_apply *n)
{
    ASSERT(n->leases != NULL);
    n->revokes.at = n->revokes.count = n->revokes.flying = 0;
    lease_demote(n->leases);
}

uint64_t node_apply_leases_expired(const struct node_apply *n)
{
    ASSERT(n != NULL);
    return n->revokes.done_total;
}

/* --- answers ---------------------------------------------------------------------------------------- */

/* What a step of a question came to. */
enum step { STEP_DONE, STEP_MORE, STEP_WAIT };

static enum step fail(struct node_lease_question *q, int error)
{
    ASSERT(error < 0);
    q->error = error;
    return STEP_DONE;
}

/* Waits, for at most `limit_ns` and then with `error`. */
static enum step wait_or(const struct node_apply *n, struct node_lease_question *q,
                         int64_t limit_ns, int error)
{
    ASSERT(q->place.start_ns <= n->now_ns);
    return n->now_ns - q->place.start_ns >= limit_ns ? fail(q, error) : STEP_WAIT;
}

static enum step wait_for_leader(const struct node_apply *n, struct node_lease_question *q)
{
    ASSERT(n->timeout_ns > 0);
    if (n->unconfirmed) return wait_or(n, q, n->timeout_ns, E_NOT_PRIMARY);
    return wait_or(n, q, n->timeout_ns, n->lead == 0 ? E_NO_LEADER : E_TIMEOUT);
}

/* Whether all is applied that was committed when the question came. */
static bool caught_up(const struct node_apply *n, struct node_lease_question *q)
{
    ASSERT(n->opts.status != NULL);
    if (q->place.commit == 0) q->place.commit = atomic_load(&n->opts.status->commit);
    return n->applied >= q->place.commit;
}

/* A renewal after a checkpoint first makes the remaining TTL 0 again, for all of the batch at once. */
static void reset_remaining(struct node_apply *n, struct node_lease_question *q)
{
    struct lease_checkpoint list[LEASE_CHECKPOINTS_PER_ENTRY_MAX];
    size_t count = 0;
    ASSERT(q->done < q->count);
    if (q->place.reset_asked || node__apply_reserve(n, 1) < 0) return;
    for (size_t i = q->done; i < q->count && count < LEASE_CHECKPOINTS_PER_ENTRY_MAX; i++) {
        struct lease_info info;
        if (!lease_find(n->leases, q->renewals[i].id, &info) || info.remaining_s <= 0) continue;
        list[count++] = (struct lease_checkpoint){info.id, 0};
    }
    q->place.reset_asked = true;
    if (count > 0) propose_checkpoints(n, list, count);
}

static enum step renew_one(struct node_apply *n, struct node_lease_question *q)
{
    struct node_renewal *r = &q->renewals[q->done];
    if (!surely_primary(n)) return wait_for_leader(n, q);
    int rc = lease_renew(n->leases, r->id, n->now_ns, &r->ttl_s);
    if (rc == 0) return STEP_DONE;
    r->ttl_s = 0;
    if (rc == E_LEASE_NOT_FOUND) {
        if (caught_up(n, q)) return STEP_DONE;
        return wait_or(n, q, APPLIED_WAIT_NS, E_TIMEOUT_WAIT_APPLIED_INDEX);
    }
    ASSERT(rc == E_AGAIN || rc == E_BUSY);
    if (rc == E_BUSY) reset_remaining(n, q);
    return wait_or(n, q, n->timeout_ns, E_TIMEOUT);
}

static enum step renew(struct node_apply *n, struct node_lease_question *q, size_t *budget)
{
    ASSERT(q->done < q->count);
    while (*budget > 0) {
        (*budget)--;
        enum step s = renew_one(n, q);
        if (s == STEP_WAIT && q->done > 0) return STEP_DONE;
        if (s == STEP_WAIT || q->error < 0) return s;
        q->place = (struct node_lease_place){.start_ns = n->now_ns};
        if (++q->done == q->count) return STEP_DONE;
    }
    return q->done > 0 ? STEP_DONE : STEP_MORE;
}

/* Where listing goes on is the last key of the list itself, so keys may come and go meanwhile. */
static enum step list_keys(struct node_apply *n, struct node_lease_question *q)
{
    struct bytes key = BYTES_EMPTY;
    bool found = q->place.cursor == 0 ? lease_key_first(n->leases, q->id, &key)
                                      : lease_key_after(n->leases, q->id,
                                                        bytes_of(q->list.data + q->place.cursor,
                                                                 q->list.len - q->place.cursor),
                                                        &key);
    for (int i = 0; found; i++) {
        int rc = pb_put_bytes(&q->list, KEYS_FIELD, key);
        if (rc < 0) return fail(q, rc);
        q->place.cursor = q->list.len - key.len;
        if (i == SCAN_KEYS) return STEP_MORE;
        found = lease_key_after(n->leases, q->id, key, &key);
    }
    return STEP_DONE;
}

static enum step tell_left(struct node_apply *n, struct node_lease_question *q)
{
    struct lease_info info;
    if (n->lead_term == 0 || !lease_is_primary(n->leases)) return wait_for_leader(n, q);
    if (!caught_up(n, q)) return wait_or(n, q, APPLIED_WAIT_NS, E_TIMEOUT_WAIT_APPLIED_INDEX);
    int rc = lease_time_to_live(n->leases, q->id, n->now_ns, &q->left_s);
    if (rc < 0) {
        ASSERT(rc == E_LEASE_NOT_FOUND);
        q->left_s = -1;
        q->granted_s = 0;
        buf_reset(&q->list);
        return STEP_DONE;
    }
    bool known = lease_find(n->leases, q->id, &info);
    ASSERT(known);
    q->granted_s = info.ttl_s;
    return q->keys ? list_keys(n, q) : STEP_DONE;
}

static enum step list_leases(struct node_apply *n, struct node_lease_question *q)
{
    struct lease_info info;
    ASSERT(q->list.len % sizeof(struct node_lease_item) == 0);
    for (int i = 0; i < SCAN_KEYS; i++) {
        if (!lease_next(n->leases, &q->place.cursor, &info)) return STEP_DONE;
        const struct node_lease_item item = {info.id, info.expiry_ns};
        int rc = buf_put(&q->list, &item, sizeof item);
        if (rc < 0) return fail(q, rc);
    }
    return STEP_MORE;
}

static enum step step(struct node_apply *n, struct node_lease_question *q, size_t *budget)
{
    ASSERT(q->error == 0);
    if (n->stopping) return fail(q, E_STOPPED);
    switch (q->ask) {
    case NODE_LEASE_RENEW: return renew(n, q, budget);
    case NODE_LEASE_LEFT:
        *budget -= *budget < SCAN_KEYS ? *budget : SCAN_KEYS;
        return tell_left(n, q);
    case NODE_LEASE_LIST:
        *budget -= *budget < SCAN_KEYS ? *budget : SCAN_KEYS;
        return list_leases(n, q);
    }
    return fail(q, E_INVAL);
}

/* Whether those that wait are worth another look. */
static bool moved(struct node_apply *n)
{
    const struct node__lease_sight now = {.applied = n->applied,
                                          .tick_ns = n->tick_last_ns,
                                          .lead = n->lead,
                                          .primary = lease_is_primary(n->leases),
                                          .unconfirmed = n->unconfirmed,
                                          .stopping = n->stopping};
    struct node__lease_sight *last = &n->sight;
    ASSERT(now.applied >= last->applied);
    bool same = now.applied == last->applied && now.tick_ns == last->tick_ns &&
                now.lead == last->lead && now.primary == last->primary &&
                now.unconfirmed == last->unconfirmed && now.stopping == last->stopping;
    *last = now;
    return !same;
}

bool node__lease_answer(struct node_apply *n)
{
    size_t budget = RENEWALS_PER_RUN;
    ASSERT(n->leases != NULL);
    if (!list_empty(&n->waiting) && moved(n)) list_splice_back(&n->questions, &n->waiting);
    struct list again;
    list_init(&again);
    while (!list_empty(&n->questions) && budget > 0) {
        struct list *link = list_pop_front(&n->questions);
        struct node_lease_question *q = LIST_OBJECT(link, struct node_lease_question, link);
        enum step s = step(n, q, &budget);
        struct list *to = s == STEP_DONE ? &n->answers : s == STEP_WAIT ? &n->waiting : &again;
        list_push_back(to, &q->link);
    }
    list_splice_back(&n->questions, &again);
    return !list_empty(&n->questions);
}

void node_apply_ask(struct node_apply *n, struct node_lease_question *q)
{
    ASSERT(q->ask != NODE_LEASE_RENEW || q->count > 0);
    q->error = 0;
    q->done = 0;
    q->left_s = 0;
    q->granted_s = 0;
    q->place = (struct node_lease_place){.start_ns = n->now_ns};
    list_push_back(&n->questions, &q->link);
}

struct node_lease_question *node_apply_answered(struct node_apply *n)
{
    ASSERT(n != NULL);
    struct list *link = list_pop_front(&n->answers);
    return link == NULL ? NULL : LIST_OBJECT(link, struct node_lease_question, link);
}

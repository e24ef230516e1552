/* The apply actor: committed entries and the store's word into node_apply; answers, commits and jobs out. */
#include "server/server_int.h"

#include "alarm/alarm.h"
#include "base/assert.h"
#include "base/err.h"
#include "rpc/rpc_hub.h"

enum {
    STEPS_PER_RUN =
        256 /* keys looked at before the actor's other inputs have their turn: far below 200 us */
};

static int64_t now_ns(const struct server *s)
{
    return (int64_t)s->clock.mono_ns(s->clock.arg);
}

void server__answer(struct server *s, struct rpc_wait *w, int rc, struct apply_result *result)
{
    if (atomic_load(&s->fatal_set)) return; /* the process ends; the wait goes with it */
    if (w->ask == RPC_ASK_PROPOSE || w->ask == RPC_ASK_PROPOSE_REVOKE) {
        atomic_fetch_sub_explicit(&s->counts.proposals_pending, 1, memory_order_relaxed);
        if (rc < 0) atomic_fetch_add_explicit(&s->counts.proposals_failed, 1, memory_order_relaxed);
    } else if (w->ask == RPC_ASK_READ && rc < 0) {
        atomic_fetch_add_explicit(&s->counts.reads_failed, 1, memory_order_relaxed);
    }
    w->rc = rc;
    w->result = result;
    loop_post(w->loop, &w->task);
}

/* --- inputs --------------------------------------------------------------------------------------- */

/* A commit is asked for; the wait stays in the list until everything of this moment is durable. */
static void take_commit_wait(struct server *s, struct rpc_wait *w)
{
    w->waiter.request_id = atomic_load(&s->status.applied);
    w->next = s->commit_waits;
    s->commit_waits = w;
    node_apply_flush(s->apply);
}

static void answer_commit_waits(struct server *s)
{
    struct rpc_wait **at = &s->commit_waits;
    while (*at != NULL) {
        struct rpc_wait *w = *at;
        if (node_apply_durable(s->apply) < w->waiter.request_id) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        server__answer(s, w, 0, NULL);
    }
}

void server__fail_commit_waits(struct server *s)
{
    while (s->commit_waits != NULL) {
        struct rpc_wait *w = s->commit_waits;
        s->commit_waits = w->next;
        server__answer(s, w, E_STOPPED, NULL);
    }
}

static void release_run(struct work *w)
{
    struct store_item *item = LIST_OBJECT(w, struct store_item, release);
    mvcc_run_release(item->run);
    alloc_free(item->s->alloc, item, sizeof *item);
}

/* The run is retired here, but a worker frees it: that takes milliseconds when it is large. */
static void take_committed(struct server *s, struct store_item *item)
{
    if (item->defragment != NULL) {
        if (item->rc == 0) apply_set_store_bytes(node_apply_core(s->apply), item->store_bytes);
        server__answer(s, item->defragment, item->rc, NULL);
        alloc_free(s->alloc, item, sizeof *item);
        return;
    }
    if (!item->storage_version) {
        node_apply_committed(s->apply, item->run, item->portion, item->store_bytes);
    }
    if (item->run == NULL) {
        alloc_free(s->alloc, item, sizeof *item);
        return;
    }
    item->release.run = release_run;
    workers_put(s->workers, &item->release);
}

/* Questions that came together are answered together. */
static void take_lease_questions(struct server *s, struct rpc_wait *w)
{
    while (w != NULL) {
        struct rpc_wait *next = w->next; /* the wait may be answered and gone */
        node_apply_ask(s->apply, w->lease);
        w = next;
    }
}

static void publish_lease_stats(struct server *s)
{
    struct lease_stats st;
    struct server_counts *c = &s->counts;
    lease_get_stats(s->leases, &st);
    atomic_store_explicit(&c->lease_granted, st.granted_total, memory_order_relaxed);
    atomic_store_explicit(&c->lease_renewed, st.renewed_total, memory_order_relaxed);
    atomic_store_explicit(&c->lease_revoked, st.revoked_total, memory_order_relaxed);
    atomic_store_explicit(&c->lease_expired, node_apply_leases_expired(s->apply),
                          memory_order_relaxed);
}

static void answer_lease_questions(struct server *s)
{
    struct node_lease_question *q;
    while ((q = node_apply_answered(s->apply)) != NULL)
        server__answer(s, q->arg, q->error, NULL);
}

static void take_note(struct server *s, struct note_item *item)
{
    if (node_apply_note(s->apply, &item->note.to_apply) < 0) (void)server__need(s, SIZE_MAX);
    alloc_free(s->alloc, item, sizeof *item);
}

static void take_snapshot_done(struct server *s, struct snapshot_item *item)
{
    node_apply_snapshot_done(s->apply, item->index, item->ok);
    node_conf_free(item->conf, s->alloc);
    membership_unref(item->members);
    alloc_free(s->alloc, item, sizeof *item);
}

static void take_portion(struct server *s, struct compact_item *item)
{
    node_apply_portion(s->apply, item->portion);
    alloc_free(s->alloc, item, sizeof *item);
}

static void handle(void *arg, struct actor_input *link)
{
    struct server *s = arg;
    struct rpc_input *in = (struct rpc_input *)(void *)link;
    struct lone_input *lone = (struct lone_input *)(void *)in;
    switch ((enum apply_input)in->kind) {
    case APPLY_IN_NOTE: take_note(s, (struct note_item *)(void *)in); break;
    case APPLY_IN_TICK:
        atomic_store(&lone->queued, false);
        node_apply_tick(s->apply, now_ns(s));
        break;
    case APPLY_IN_CONTINUE: atomic_store(&lone->queued, false); break;
    case APPLY_IN_COMMITTED: take_committed(s, (struct store_item *)(void *)in); break;
    case APPLY_IN_NO_SPACE:
        atomic_store(&lone->queued, false);
        node_apply_no_space(s->apply);
        break;
    case APPLY_IN_PORTION: take_portion(s, (struct compact_item *)(void *)in); break;
    case APPLY_IN_SNAPSHOT: take_snapshot_done(s, (struct snapshot_item *)(void *)in); break;
    case APPLY_IN_COMMIT:
        take_commit_wait(
            s, (struct rpc_wait *)(void *)((char *)in - offsetof(struct rpc_wait, input)));
        break;
    case APPLY_IN_LEASES:
        take_lease_questions(
            s, (struct rpc_wait *)(void *)((char *)in - offsetof(struct rpc_wait, input)));
        break;
    }
}

/* --- outputs -------------------------------------------------------------------------------------- */

static void give_note(struct server *s, const struct node_to_raft *note)
{
    struct note_item *item = server__need(s, sizeof *item);
    item->note.to_raft = *note;
    server__raft_post(s, &item->input, RAFT_IN_NOTE, true);
}

static void give_commit(struct server *s, struct mvcc_run *run, struct mvcc_portion *portion)
{
    struct store_item *item = server__need(s, sizeof *item);
    *item = (struct store_item){.run = run, .portion = portion, .s = s};
    if (run != NULL) mvcc_run_hold(run);
    if (!thread_queue_put(&s->store_queue, &item->link)) alloc_free(s->alloc, item, sizeof *item);
}

static void give_snapshot(struct server *s, const struct node_apply_output *o)
{
    struct snapshot_item *item = server__need(s, sizeof *item);
    *item = (struct snapshot_item){.s = s,
                                   .index = o->u.snapshot.index,
                                   .term = o->u.snapshot.term,
                                   .conf = o->u.snapshot.conf,
                                   .members = o->u.snapshot.members};
    server__snapshot_begin(s, item);
}

/* True when the actor must not go on. */
static bool give(struct server *s, struct node_apply_output *o)
{
    switch (o->kind) {
    case NODE_APPLY_REPLY:
        server__answer(s,
                       (struct rpc_wait *)(void *)((char *)o->u.reply.waiter -
                                                   offsetof(struct rpc_wait, waiter)),
                       o->u.reply.error, o->u.reply.result);
        break;
    case NODE_APPLY_NOTE: give_note(s, &o->u.note); break;
    case NODE_APPLY_COMMIT: give_commit(s, o->u.commit.run, o->u.commit.portion); break;
    case NODE_APPLY_COMPACT: server__compact_begin(s, o->u.job); break;
    case NODE_APPLY_SNAPSHOT: give_snapshot(s, o); break;
    case NODE_APPLY_MEMBERS: server__publish_members(s, o->u.members); break;
    case NODE_APPLY_ALARMS: server__publish_alarms(s, o->u.alarms); break;
    case NODE_APPLY_PEER:
        break; /* no peer can be here: other members come with their own transport */
    case NODE_APPLY_READY: loop_post(s->control, &s->ready_task); break;
    case NODE_APPLY_REMOVED:
    case NODE_APPLY_STOPPED: loop_post(s->control, &s->stopped_task); break;
    case NODE_APPLY_FATAL: server__fatal(s, o->u.fatal); return true;
    }
    return false;
}

/* The control loop's timer stands for when node_apply next wants a tick of its own. */
static void arm_deadline(struct server *s)
{
    int64_t deadline = node_apply_deadline(s->apply);
    if (deadline == atomic_load(&s->deadline_ns)) return;
    atomic_store(&s->deadline_ns, deadline);
    if (deadline != INT64_MAX && !atomic_exchange(&s->arm_queued, true)) {
        loop_post(s->control, &s->arm_deadline);
    }
}

static void flush(void *arg)
{
    struct server *s = arg;
    struct node_apply_output o;
    if (atomic_load(&s->fatal_set)) return;
    bool more = node_apply_run(s->apply, now_ns(s), STEPS_PER_RUN);
    while (node_apply_take(s->apply, &o) > 0) {
        if (give(s, &o)) return;
    }
    rpc_hub_publish(s->member.hub);
    answer_commit_waits(s);
    answer_lease_questions(s);
    publish_lease_stats(s);
    arm_deadline(s);
    if (more) server__lone_post(s, &s->apply_continue, false, APPLY_IN_CONTINUE, false);
}

void server__apply_init(struct server *s)
{
    actor_init(&s->apply_actor, &(struct actor_opts){.handle = handle,
                                                     .flush = flush,
                                                     .arg = s,
                                                     .loop = s->io[s->io_count - 1].loop,
                                                     .clock = &s->clock});
}

void server__apply_post(struct server *s, struct rpc_input *in, int kind, bool may_run)
{
    in->kind = kind;
    actor_post(&s->apply_actor, &in->link, may_run);
}

void server__lone_post(struct server *s, struct lone_input *in, bool raft, int kind, bool may_run)
{
    if (atomic_exchange(&in->queued, true)) return;
    if (raft) {
        server__raft_post(s, &in->input, kind, may_run);
    } else {
        server__apply_post(s, &in->input, kind, may_run);
    }
}

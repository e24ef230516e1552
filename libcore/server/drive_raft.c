/* The raft actor: requests, ticks and the WAL's word into node_raft; what it says out to threads and the apply half. */
#include "server/server_int.h"

#include "base/assert.h"
#include "base/err.h"

static int64_t now_ns(const struct server *s)
{
    return (int64_t)s->clock.mono_ns(s->clock.arg);
}

/* --- inputs --------------------------------------------------------------------------------------- */

static void take_wait(struct server *s, struct rpc_wait *w)
{
    int rc = 0;
    if (w->ask == RPC_ASK_READ) {
        rc = node_raft_read(s->raft, &w->waiter);
    } else {
        struct node_request req = {.kind = w->ask == RPC_ASK_PROPOSE_REVOKE
                                               ? NODE_REQUEST_LEASE_REVOKE
                                               : NODE_REQUEST_NORMAL,
                                   .data = w->entry,
                                   .waiter = &w->waiter};
        atomic_fetch_add_explicit(&s->counts.proposals_pending, 1, memory_order_relaxed);
        rc = node_raft_propose(s->raft, &req);
        rcbuf_unref(w->entry);
        w->entry = NULL;
    }
    if (rc < 0) server__answer(s, w, rc, NULL);
}

static void take_chain(struct server *s, struct rpc_wait *w)
{
    while (w != NULL) {
        struct rpc_wait *next = w->next; /* the wait may be answered and gone */
        take_wait(s, w);
        w = next;
    }
}

static void take_persisted(struct server *s, struct wal_item *item)
{
    uint64_t seq = item->persist.seq;
    node_persist_deinit(&item->persist, s->alloc);
    alloc_free(s->alloc, item, sizeof *item);
    if (node_raft_persisted(s->raft, seq) < 0) (void)server__need(s, SIZE_MAX);
}

static void take_note(struct server *s, struct note_item *item)
{
    if (node_raft_note(s->raft, &item->note.to_raft) < 0) (void)server__need(s, SIZE_MAX);
    alloc_free(s->alloc, item, sizeof *item);
}

static void handle(void *arg, struct actor_input *link)
{
    struct server *s = arg;
    struct rpc_input *in = (struct rpc_input *)(void *)link;
    struct lone_input *lone = (struct lone_input *)(void *)in;
    switch ((enum raft_input)in->kind) {
    case RAFT_IN_CHAIN:
        take_chain(s, (struct rpc_wait *)(void *)((char *)in - offsetof(struct rpc_wait, input)));
        break;
    case RAFT_IN_TICK:
        atomic_store(&lone->queued, false);
        (void)node_raft_tick(s->raft, now_ns(s));
        break;
    case RAFT_IN_PERSISTED: take_persisted(s, (struct wal_item *)(void *)in); break;
    case RAFT_IN_NOTE: take_note(s, (struct note_item *)(void *)in); break;
    case RAFT_IN_STOP:
        if (node_raft_stop(s->raft) < 0) (void)server__need(s, SIZE_MAX);
        break;
    }
}

/* --- outputs -------------------------------------------------------------------------------------- */

static void give_persist(struct server *s, struct node_persist *p)
{
    struct wal_item *item = server__need(s, sizeof *item);
    *item = (struct wal_item){.persist = *p};
    if (thread_queue_put(&s->wal_queue, &item->link)) return;
    node_persist_deinit(&item->persist, s->alloc);
    alloc_free(s->alloc, item, sizeof *item);
}

static void give_note(struct server *s, const struct node_to_apply *note)
{
    struct note_item *item = server__need(s, sizeof *item);
    item->note.to_apply = *note;
    server__apply_post(s, &item->input, APPLY_IN_NOTE, true);
}

static void count_leaders(struct server *s)
{
    uint64_t leader = atomic_load_explicit(&s->status.lead, memory_order_relaxed);
    if (leader == s->counts.leader) return;
    s->counts.leader = leader;
    if (leader != 0) atomic_fetch_add_explicit(&s->counts.leader_changes, 1, memory_order_relaxed);
}

static void flush(void *arg)
{
    struct server *s = arg;
    struct node_raft_output o;
    if (atomic_load(&s->fatal_set)) return;
    count_leaders(s);
    while (node_raft_take(s->raft, &o) > 0) {
        switch (o.kind) {
        case NODE_RAFT_PERSIST: give_persist(s, &o.u.persist); break;
        case NODE_RAFT_SEND:
            raft_message_deinit(&o.u.message, s->alloc);
            break; /* there is nobody else */
        case NODE_RAFT_NOTE: give_note(s, &o.u.note); break;
        case NODE_RAFT_REPLY:
            server__answer(s,
                           (struct rpc_wait *)(void *)((char *)o.u.reply.waiter -
                                                       offsetof(struct rpc_wait, waiter)),
                           o.u.reply.error, o.u.reply.result);
            break;
        case NODE_RAFT_FATAL: server__fatal(s, o.u.fatal); return;
        }
    }
}

void server__raft_init(struct server *s)
{
    actor_init(
        &s->raft_actor,
        &(struct actor_opts){
            .handle = handle, .flush = flush, .arg = s, .loop = s->io[0].loop, .clock = &s->clock});
}

void server__raft_post(struct server *s, struct rpc_input *in, int kind, bool may_run)
{
    in->kind = kind;
    actor_post(&s->raft_actor, &in->link, may_run);
}

/* The raft half: queues around the core, and the loop that moves work through it. */
#include "node/node_raft.h"

#include <inttypes.h>

#include "node/node_raft_int.h"

/* --- outputs ------------------------------------------------------------------------------------- */

int node__out_reserve(struct node_raft *n, size_t more)
{
    ASSERT(n->out_head <= n->out_n);
    if (n->out_head > 0 && n->out_n + more > n->out_cap) {
        memmove(n->out, n->out + n->out_head, (n->out_n - n->out_head) * sizeof *n->out);
        n->out_n -= n->out_head;
        n->out_head = 0;
    }
    void *v = n->out;
    int rc = node__grow(n->alloc, &v, &n->out_cap, n->out_n + more, sizeof *n->out);
    n->out = v;
    return rc;
}

void node__out(struct node_raft *n, struct node_raft_output o)
{
    ASSERT(n->out_n < n->out_cap);
    n->out[n->out_n++] = o;
}

void node__out_note(struct node_raft *n, struct node_to_apply note)
{
    ASSERT(n->out_n < n->out_cap);
    node__out(n, (struct node_raft_output){.kind = NODE_RAFT_NOTE, .u.note = note});
}

void node__out_error(struct node_raft *n, struct node_waiter *w, int error)
{
    ASSERT(error < 0);
    if (w == NULL) return;
    node__out(n, (struct node_raft_output){.kind = NODE_RAFT_REPLY,
                                           .u.reply = {.waiter = w, .error = error}});
}

static void be_fatal(struct node_raft *n, const char *what, const struct errmsg *why)
{
    ASSERT(what != NULL);
    if (n->fatal.text[0] == '\0') errmsg_set(&n->fatal, "%s: %s", what, why->text);
}

/* --- what others see ----------------------------------------------------------------------------- */

static void publish(struct node_raft *n)
{
    struct raft_status st;
    raft_status(n->core, &st);
    ASSERT(st.applied <= st.hard_state.commit);
    struct node_status *s = n->opts.status;
    /* First what forbids, last what allows. */
    if (!raft_reads_alone(n->core)) atomic_store(&s->reads_alone, false);
    atomic_store(&s->term, st.hard_state.term);
    atomic_store(&s->lead, st.lead);
    atomic_store(&s->commit, st.hard_state.commit);
    atomic_store(&s->leader, st.state == RAFT_LEADER);
    const struct raft_conf_state *cs = raft_conf(n->core);
    bool learner = false;
    for (uint32_t i = 0; i < cs->learner_count; i++)
        learner |= cs->learners[i] == n->opts.id;
    atomic_store(&s->learner, learner);
    if (raft_reads_alone(n->core)) atomic_store(&s->reads_alone, true);
}

/* Changes of leadership go to the apply half before anything that was committed under them. */
static int tell_roles(struct node_raft *n)
{
    struct raft_status st;
    raft_status(n->core, &st);
    ASSERT(st.id == n->opts.id);
    int rc = node__out_reserve(n, 3 + n->read_count);
    if (rc < 0) return rc;
    bool leads = st.state == RAFT_LEADER;
    raft_term term = st.hard_state.term;
    if (n->leading && (!leads || term != n->led_term)) {
        node__out_note(n, (struct node_to_apply){.kind = NODE_LOST, .term = n->led_term});
        n->leading = false;
    }
    if (leads && !n->leading) {
        node__out_note(n, (struct node_to_apply){.kind = NODE_LEADER, .term = term});
        n->leading = true;
        n->led_term = term;
    }
    if (st.lead == n->lead_told) return 0;
    node__out_note(n, (struct node_to_apply){.kind = NODE_LEAD, .id = st.lead});
    n->lead_told = st.lead;
    if (st.lead == 0) return 0;
    if (n->had_leader) node__reads_leader_changed(n);
    n->round_resend = true;
    n->had_leader = true;
    return 0;
}

/* --- proposals ----------------------------------------------------------------------------------- */

static int enqueue(struct node_raft *n, struct node__waiting w)
{
    ASSERT(w.data != NULL);
    if (n->waiting_n - n->waiting_head >= NODE_WAITING_MAX) return E_TOO_MANY_REQUESTS;
    if (n->waiting_n == n->waiting_cap && n->waiting_head > 0) {
        size_t used = n->waiting_n - n->waiting_head;
        memmove(n->waiting, n->waiting + n->waiting_head, used * sizeof *n->waiting);
        n->waiting_n = used;
        n->waiting_head = 0;
    }
    void *v = n->waiting;
    int rc = node__grow(n->alloc, &v, &n->waiting_cap, n->waiting_n + 1, sizeof *n->waiting);
    n->waiting = v;
    if (rc < 0) return rc;
    n->waiting[n->waiting_n++] = w;
    return 0;
}

/* Rule 6: the one refusal is upstream's. */
static bool backlog_full(const struct node_raft *n, enum node_request_kind kind)
{
    struct raft_status st;
    raft_status(n->core, &st);
    ASSERT(st.applied <= st.hard_state.commit);
    uint64_t max = kind == NODE_REQUEST_LEASE_REVOKE ? APPLY_BACKLOG_LEASE_REVOKE_MAX
                                                     : APPLY_BACKLOG_MAX;
    return kind != NODE_REQUEST_CONF_CHANGE && st.hard_state.commit - st.applied > max;
}

int node_raft_propose(struct node_raft *n, const struct node_request *req)
{
    ASSERT(req->waiter != NULL && req->waiter->request_id != 0);
    if (n->stopping) return E_STOPPED;
    if (backlog_full(n, req->kind)) return E_TOO_MANY_REQUESTS;
    struct node__waiting w = {req->kind, req->data, req->waiter};
    int rc = enqueue(n, w);
    if (rc < 0) return rc;
    (void)rcbuf_ref(req->data);
    req->waiter->start_ns = n->now_ns;
    req->waiter->read = false;
    req->waiter->held = NULL;
    return 0;
}

static bool leader_known(const struct node_raft *n)
{
    struct raft_status st;
    raft_status(n->core, &st);
    ASSERT(st.id != 0);
    return st.lead != 0 && st.transferee == 0;
}

static int offer(struct node_raft *n, struct raft_entry *entries, size_t count)
{
    ASSERT(count > 0);
    for (size_t i = 0; i < count; i++) {
        const struct node__waiting *w = &n->waiting[n->waiting_head + i];
        entries[i] = (struct raft_entry){.data = w->data};
        if (w->kind == NODE_REQUEST_CONF_CHANGE) entries[i].type = RAFT_ENTRY_CONF_CHANGE;
    }
    return raft_propose(n->core, entries, count);
}

/* Everything that waits becomes one proposal, so one write. */
static void propose_waiting(struct node_raft *n)
{
    size_t count = n->waiting_n - n->waiting_head;
    ASSERT(n->waiting_head <= n->waiting_n);
    if (count == 0 || !leader_known(n)) return;
    if (node__out_reserve(n, count) < 0) return;
    struct raft_entry *entries = alloc_new(n->alloc, count * sizeof *entries);
    if (entries == NULL) return;
    int rc = offer(n, entries, count);
    alloc_free(n->alloc, entries, count * sizeof *entries);
    if (rc < 0) return; /* no leader after all, or no memory: they wait on */
    for (size_t i = 0; i < count; i++) {
        struct node__waiting *w = &n->waiting[n->waiting_head + i];
        if (w->waiter != NULL)
            node__out_note(n, (struct node_to_apply){.kind = NODE_REGISTER, .waiter = w->waiter});
        rcbuf_unref(w->data);
    }
    n->waiting_head = n->waiting_n = 0;
}

/* Takes the i-th out of the queue and answers it. */
static void drop_waiting(struct node_raft *n, size_t i, int error)
{
    ASSERT(i >= n->waiting_head && i < n->waiting_n);
    node__out_error(n, n->waiting[i].waiter, error);
    rcbuf_unref(n->waiting[i].data);
    for (size_t k = i; k > n->waiting_head; k--)
        n->waiting[k] = n->waiting[k - 1];
    n->waiting_head++;
}

/* "Not accepted by raft (no leader): DeadlineExceeded after T." */
static void expire_waiting(struct node_raft *n)
{
    ASSERT(n->timeout_ns > 0);
    for (size_t i = n->waiting_head; i < n->waiting_n; i++) {
        const struct node_waiter *w = n->waiting[i].waiter;
        if (w == NULL || w->no_limit || n->now_ns - w->start_ns < n->timeout_ns) continue;
        if (node__out_reserve(n, 1) < 0) return;
        drop_waiting(n, i, E_DEADLINE_EXCEEDED);
    }
}

int node_raft_cancel(struct node_raft *n, uint64_t request_id, int error)
{
    ASSERT(error < 0);
    int rc = node__out_reserve(n, 1);
    if (rc < 0) return rc;
    for (size_t i = n->waiting_head; i < n->waiting_n; i++) {
        if (n->waiting[i].waiter == NULL || n->waiting[i].waiter->request_id != request_id)
            continue;
        drop_waiting(n, i, error);
        return 0;
    }
    if (!node__reads_cancel(n, request_id, error))
        node__out_note(
            n, (struct node_to_apply){.kind = NODE_CANCEL, .id = request_id, .error = error});
    return 0;
}

/* --- obligations --------------------------------------------------------------------------------- */

static int ticket_reserve(struct node_raft *n)
{
    ASSERT(n->ticket_head <= n->ticket_n);
    if (n->ticket_n == n->ticket_cap && n->ticket_head > 0) {
        size_t used = n->ticket_n - n->ticket_head;
        memmove(n->tickets, n->tickets + n->ticket_head, used * sizeof *n->tickets);
        n->ticket_n = used;
        n->ticket_head = 0;
    }
    void *v = n->tickets;
    int rc = node__grow(n->alloc, &v, &n->ticket_cap, n->ticket_n + 1, sizeof *n->tickets);
    n->tickets = v;
    return rc;
}

static void on_persist(struct node_raft *n, struct raft_persist *p)
{
    ASSERT(n->ticket_n < n->ticket_cap);
    uint64_t seq = n->seq_next++;
    if (p->ack_count > 0)
        n->tickets[n->ticket_n++] = (struct node__ticket){seq, p->acks, p->ack_count};
    const struct node_persist out = {seq,           p->entries,  p->entry_count,
                                     p->hard_state, p->snapshot, p->must_sync};
    node__out(n, (struct node_raft_output){.kind = NODE_RAFT_PERSIST, .u.persist = out});
}

static void on_apply(struct node_raft *n, struct raft_apply *a)
{
    struct raft_status st;
    raft_status(n->core, &st);
    ASSERT(a->entries[a->entry_count - 1].index <= st.stable);
    /* A leader's first entry is in force: rounds that could not begin before can now. */
    for (size_t i = 0; i < a->entry_count; i++)
        if (a->entries[i].type == RAFT_ENTRY_NORMAL && rcbuf_bytes(a->entries[i].data).len == 0)
            n->round_resend = true;
    node__out_note(n, (struct node_to_apply){.kind = NODE_SPAN,
                                             .index = st.stable,
                                             .entries = a->entries,
                                             .entry_count = a->entry_count});
}

static void on_obligation(struct node_raft *n, struct raft_obligation *o)
{
    ASSERT(n->out_n < n->out_cap);
    switch (o->kind) {
    case RAFT_SEND:
        node__out(n, (struct node_raft_output){.kind = NODE_RAFT_SEND, .u.message = o->u.message});
        break;
    case RAFT_PERSIST: on_persist(n, &o->u.persist); break;
    case RAFT_APPLY: on_apply(n, &o->u.apply); break;
    case RAFT_READ_OK:
        node__reads_answered(n, &o->u.read);
        rcbuf_unref(o->u.read.context);
        break;
    }
}

/* False: no memory, or nothing left. */
static bool drain_one(struct node_raft *n)
{
    ASSERT(n->core != NULL);
    struct raft_obligation o;
    if (!raft_has_work(n->core)) return false;
    if (node__out_reserve(n, 1) < 0 || ticket_reserve(n) < 0) return false;
    int rc = raft_take(n->core, &o);
    if (rc > 0) on_obligation(n, &o);
    return rc >= 0;
}

/* A sole voter has nobody to wait for: it campaigns as soon as it may. */
static void campaign_alone(struct node_raft *n)
{
    struct raft_status st;
    raft_status(n->core, &st);
    ASSERT(st.applied <= st.hard_state.commit);
    if (!n->campaign_wanted || !raft_is_sole_voter(n->core)) return;
    if (st.applied < st.hard_state.commit) return;
    if (st.state == RAFT_FOLLOWER && raft_campaign(n->core) < 0) return;
    n->campaign_wanted = false;
}

static void pump(struct node_raft *n)
{
    ASSERT(n->core != NULL);
    if (n->fatal.text[0] != '\0') return;
    campaign_alone(n);
    propose_waiting(n);
    /* The flag goes down before a conf change just appended is sent or persisted. */
    publish(n);
    if (tell_roles(n) < 0) return;
    node__reads_pump(n);
    while (drain_one(n)) {}
}

static int take_fatal(struct node_raft *n, struct node_raft_output *out)
{
    ASSERT(n->out_head == n->out_n || n->fatal.text[0] != '\0');
    if (n->fatal.text[0] == '\0' || n->fatal_told) return 0;
    n->fatal_told = true;
    *out = (struct node_raft_output){.kind = NODE_RAFT_FATAL, .u.fatal = &n->fatal};
    return 1;
}

int node_raft_take(struct node_raft *n, struct node_raft_output *out)
{
    ASSERT(out != NULL);
    if (n->out_head == n->out_n) {
        n->out_head = n->out_n = 0;
        pump(n);
    }
    if (n->out_head == n->out_n) return take_fatal(n, out);
    *out = n->out[n->out_head++];
    return 1;
}

/* --- other inputs -------------------------------------------------------------------------------- */

int node_raft_tick(struct node_raft *n, int64_t now_ns)
{
    ASSERT(now_ns >= n->now_ns);
    /* What came before the first tick has waited since now. */
    for (size_t i = n->waiting_head; n->now_ns == 0 && i < n->waiting_n; i++)
        if (n->waiting[i].waiter != NULL) n->waiting[i].waiter->start_ns = now_ns;
    if (n->now_ns == 0) n->round_start_ns = n->round_sent_ns = now_ns;
    n->now_ns = now_ns;
    int rc = raft_tick(n->core);
    expire_waiting(n);
    node__reads_tick(n);
    return rc;
}

void node_raft_advance(struct node_raft *n, uint32_t ticks)
{
    ASSERT(n->core != NULL);
    raft_skip_ticks(n->core, ticks);
}

int node_raft_message(struct node_raft *n, const struct raft_message *m)
{
    ASSERT(m != NULL);
    return raft_step(n->core, m);
}

void node_raft_unreachable(struct node_raft *n, raft_id id)
{
    ASSERT(id != 0);
    raft_report_unreachable(n->core, id);
}

void node_raft_snapshot_sent(struct node_raft *n, raft_id id, bool ok)
{
    ASSERT(id != 0);
    raft_report_snapshot(n->core, id, ok);
}

int node_raft_transfer(struct node_raft *n, raft_id to)
{
    ASSERT(to != 0);
    return raft_transfer_leader(n->core, to);
}

int node_raft_persisted(struct node_raft *n, uint64_t seq)
{
    ASSERT(seq < n->seq_next);
    while (n->ticket_head < n->ticket_n && n->tickets[n->ticket_head].seq <= seq) {
        struct node__ticket *t = &n->tickets[n->ticket_head];
        int rc = raft_persisted(n->core, t->acks, t->ack_count);
        if (rc < 0) return rc;
        n->ticket_head++;
    }
    if (n->ticket_head == n->ticket_n) n->ticket_head = n->ticket_n = 0;
    return 0;
}

static int on_conf_change(struct node_raft *n, const struct node_to_raft *note)
{
    ASSERT(note->kind == NODE_CONF_CHANGE);
    struct raft_conf_change cc = {.change_count = 1};
    cc.changes[0] = note->conf;
    struct raft_conf_state *now = alloc_new(n->alloc, sizeof *now);
    if (now == NULL) return E_NOMEM;
    struct errmsg em = {""};
    int rc = raft_apply_conf_change(n->core, &cc, now, &em);
    if (rc < 0) {
        alloc_free(n->alloc, now, sizeof *now);
        if (rc == E_NOMEM) return rc;
        be_fatal(n, "a committed configuration change cannot be made", &em);
        return 0;
    }
    node__out_note(
        n, (struct node_to_apply){.kind = NODE_CONF_DONE, .index = note->index, .conf = now});
    return 0;
}

static int on_compact(struct node_raft *n, const struct node_to_raft *note)
{
    struct raft_status st;
    raft_status(n->core, &st);
    ASSERT(note->index <= note->snapshot_index);
    ASSERT(note->snapshot_index <= st.applied);
    int rc = raft_set_snapshot(n->core, note->snapshot_index, raft_conf(n->core), NULL);
    if (rc == 0) raft_compact(n->core, note->index);
    /* A newer snapshot was received meanwhile, and the log begins behind it. */
    return rc == E_NOTFOUND ? 0 : rc;
}

static int on_applied(struct node_raft *n, const struct node_to_raft *note)
{
    ASSERT(note->index > 0);
    int rc = raft_applied(n->core, note->index);
    if (rc == 0 && note->ack)
        node__out_note(n, (struct node_to_apply){.kind = NODE_NOTED, .index = note->index});
    return rc;
}

static int on_own_proposal(struct node_raft *n, struct node_to_raft *note)
{
    ASSERT(note->data != NULL);
    struct node__waiting w = {NODE_REQUEST_NORMAL, note->data, NULL};
    int rc = n->stopping ? E_STOPPED : enqueue(n, w);
    if (rc == E_NOMEM) return rc;
    /* A full queue drops it: whatever the member asks of itself, it asks again. */
    if (rc < 0) rcbuf_unref(note->data);
    note->data = NULL;
    return 0;
}

int node_raft_note(struct node_raft *n, struct node_to_raft *note)
{
    ASSERT(note != NULL);
    int rc = node__out_reserve(n, 1);
    if (rc < 0) return rc;
    switch (note->kind) {
    case NODE_APPLIED: return on_applied(n, note);
    case NODE_CONF_CHANGE: return on_conf_change(n, note);
    case NODE_PROPOSE: return on_own_proposal(n, note);
    case NODE_CONFIRM: n->confirm_wanted = true; return 0;
    case NODE_COMPACT_LOG: return on_compact(n, note);
    }
    return 0;
}

int node_raft_stop(struct node_raft *n)
{
    ASSERT(n->core != NULL);
    if (n->stopping) return 0;
    int rc = node__out_reserve(n, n->waiting_n - n->waiting_head + n->read_count + 1);
    if (rc < 0) return rc;
    n->stopping = true;
    while (n->waiting_head < n->waiting_n)
        drop_waiting(n, n->waiting_head, E_STOPPED);
    node__reads_fail_list(n, &n->round, E_STOPPED);
    node__reads_fail_list(n, &n->next_round, E_STOPPED);
    node__out_note(n, (struct node_to_apply){.kind = NODE_STOPPING});
    atomic_store(&n->opts.status->stopped, true);
    return 0;
}

/* --- birth and death ----------------------------------------------------------------------------- */

static int make_core(struct node_raft *n, const struct raft_restored *restored,
                     const struct raft_entry *first, size_t first_count, struct errmsg *em)
{
    ASSERT(n->core == NULL);
    const struct raft_opts ro = {
        .id = n->opts.id,
        .election_tick = n->opts.election_ticks,
        .heartbeat_tick = 1,
        .pre_vote = n->opts.pre_vote,
        .check_quorum = true,
        .message_bytes_max = (size_t)1024 * 1024,
        .inflight_count_max = 512,
        .applying_bytes_max = NODE__APPLYING_BYTES_MAX,
        .seed = n->opts.seed,
        .alloc = n->opts.alloc,
        .log = n->opts.log,
    };
    int rc = raft_new(&ro, restored, &n->core, em);
    if (rc < 0) return rc;
    return first_count == 0 ? 0 : raft_bootstrap(n->core, first, first_count);
}

int node_raft_new(const struct node_raft_opts *opts, const struct raft_restored *restored,
                  const struct raft_entry *first, size_t first_count, struct node_raft **out,
                  struct errmsg *em)
{
    ASSERT(opts->ids != NULL && opts->status != NULL);
    ASSERT(opts->tick_ns > 0);
    struct node_raft *n = alloc_zero(opts->alloc, sizeof *n);
    if (n == NULL) return E_NOMEM;
    n->opts = *opts;
    n->alloc = opts->alloc;
    n->timeout_ns = node__timeout_ns(opts->timeout_ns, opts->election_ticks, opts->tick_ns);
    n->seq_next = 1;
    n->campaign_wanted = true;
    list_init(&n->round);
    list_init(&n->next_round);
    int rc = make_core(n, restored, first, first_count, em);
    if (rc < 0) {
        node_raft_free(n);
        return rc;
    }
    publish(n);
    *out = n;
    return 0;
}

static void free_output(struct node_raft *n, struct node_raft_output *o)
{
    ASSERT(o->kind != NODE_RAFT_REPLY);
    switch (o->kind) {
    case NODE_RAFT_PERSIST: node_persist_deinit(&o->u.persist, n->alloc); break;
    case NODE_RAFT_SEND: raft_message_deinit(&o->u.message, n->alloc); break;
    case NODE_RAFT_NOTE: node_to_apply_deinit(&o->u.note, n->alloc); break;
    case NODE_RAFT_REPLY:
    case NODE_RAFT_FATAL: break;
    }
}

void node_raft_free(struct node_raft *n)
{
    if (n == NULL) return;
    ASSERT(list_empty(&n->round) && list_empty(&n->next_round));
    for (size_t i = n->out_head; i < n->out_n; i++)
        free_output(n, &n->out[i]);
    for (size_t i = n->waiting_head; i < n->waiting_n; i++)
        rcbuf_unref(n->waiting[i].data);
    for (size_t i = n->ticket_head; i < n->ticket_n; i++)
        raft_messages_free(n->alloc, n->tickets[i].acks, n->tickets[i].ack_count);
    alloc_free(n->alloc, n->out, n->out_cap * sizeof *n->out);
    alloc_free(n->alloc, n->waiting, n->waiting_cap * sizeof *n->waiting);
    alloc_free(n->alloc, n->tickets, n->ticket_cap * sizeof *n->tickets);
    raft_free(n->core);
    alloc_free(n->alloc, n, sizeof *n);
}

void node_persist_deinit(struct node_persist *p, const struct alloc *alloc)
{
    ASSERT(p != NULL);
    raft_entries_free(alloc, p->entries, p->entry_count);
    if (p->snapshot != NULL) {
        rcbuf_unref(p->snapshot->data);
        alloc_free(alloc, p->snapshot, sizeof *p->snapshot);
    }
    *p = (struct node_persist){.seq = p->seq};
}

const struct raft *node_raft_core(const struct node_raft *n)
{
    ASSERT(n->core != NULL);
    return n->core;
}

/* The apply half: notes in, entries through `apply` in slices, answers out. */
#include "node/node_apply.h"

#include "alarm/alarm.h"
#include "node/node_apply_int.h"

/* --- outputs ------------------------------------------------------------------------------------- */

int node__apply_reserve(struct node_apply *n, size_t more)
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

void node__apply_out(struct node_apply *n, struct node_apply_output o)
{
    ASSERT(n->out_n < n->out_cap);
    n->out[n->out_n++] = o;
}

void node__apply_note(struct node_apply *n, struct node_to_raft note)
{
    ASSERT(n->out_n < n->out_cap);
    node__apply_out(n, (struct node_apply_output){.kind = NODE_APPLY_NOTE, .u.note = note});
}

void node__apply_reply(struct node_apply *n, struct node_waiter *w, int error,
                       struct apply_result *result)
{
    ASSERT(w != NULL);
    node__apply_out(
        n, (struct node_apply_output){.kind = NODE_APPLY_REPLY, .u.reply = {w, error, result}});
}

/* --- notes --------------------------------------------------------------------------------------- */

static int on_span(struct node_apply *n, const struct node_to_apply *note)
{
    ASSERT(note->entry_count > 0);
    ASSERT(note->entries[note->entry_count - 1].index <= note->index);
    if (n->span_n == n->span_cap && n->span_head > 0) {
        size_t used = n->span_n - n->span_head;
        memmove(n->spans, n->spans + n->span_head, used * sizeof *n->spans);
        n->span_n = used;
        n->span_head = 0;
    }
    void *v = n->spans;
    int rc = node__grow(n->alloc, &v, &n->span_cap, n->span_n + 1, sizeof *n->spans);
    n->spans = v;
    if (rc < 0) return rc;
    if (note->index > n->wal_durable) n->wal_durable = note->index;
    n->spans[n->span_n++] = (struct node__span){note->entries, note->entry_count, 0};
    return 0;
}

static void on_lost(struct node_apply *n)
{
    ASSERT(n->leases != NULL);
    n->lead_term = 0;
    n->primary = false;
    n->promoting = false;
    n->unconfirmed = false;
    node__lease_lost(n);
}

static void on_lead(struct node_apply *n, raft_id lead)
{
    ASSERT(n->now_ns >= n->lead_elected_ns);
    n->lead = lead;
    if (lead != 0) n->lead_elected_ns = n->now_ns;
}

static struct pb_ids ids_of(const raft_id *ids, uint32_t count)
{
    ASSERT(count <= RAFT_MEMBERS_MAX);
    return (struct pb_ids){ids, count};
}

static void on_conf_done(struct node_apply *n, const struct raft_conf_state *cs)
{
    ASSERT(n->conf_wait);
    const struct pb_conf_state now = {
        .voters = ids_of(cs->voters, cs->voter_count),
        .learners = ids_of(cs->learners, cs->learner_count),
        .voters_outgoing = ids_of(cs->voters_outgoing, cs->voter_outgoing_count),
        .learners_next = ids_of(cs->learners_next, cs->learner_next_count),
        .auto_leave = cs->auto_leave,
    };
    apply_conf_done(n->core, &now);
    n->conf_wait = false;
}

static void on_read_ok(struct node_apply *n, const struct node_to_apply *note)
{
    ASSERT(note->kind == NODE_READ_OK);
    if (note->confirm) {
        n->unconfirmed = false;
        n->confirmed_ns = n->now_ns;
    }
    node__reads_wait(n, note->waiter, note->index);
}

static void on_stopping(struct node_apply *n)
{
    ASSERT(n->opts.status != NULL);
    n->stopping = true;
    n->commit_wanted = true;
    on_lost(n);
}

static int take_note(struct node_apply *n, struct node_to_apply *note)
{
    ASSERT(note != NULL);
    switch (note->kind) {
    case NODE_SPAN: return on_span(n, note);
    case NODE_REGISTER: node__register(n, note->waiter); return 0;
    case NODE_CANCEL: node__cancel(n, note->id, note->error); return 0;
    case NODE_LEADER: n->lead_term = note->term; return 0;
    case NODE_LOST: on_lost(n); return 0;
    case NODE_LEAD: on_lead(n, note->id); return 0;
    case NODE_READ_OK: on_read_ok(n, note); return 0;
    case NODE_CONF_DONE:
        on_conf_done(n, note->conf);
        node_conf_free(note->conf, n->alloc);
        return 0;
    case NODE_NOTED: node__answer_noted(n, note->index); return 0;
    case NODE_STOPPING: on_stopping(n); return 0;
    }
    return 0;
}

int node_apply_note(struct node_apply *n, struct node_to_apply *note)
{
    ASSERT(note != NULL);
    int rc = node__apply_reserve(n, 1);
    if (rc == 0) rc = take_note(n, note);
    if (rc == 0) *note = (struct node_to_apply){.kind = note->kind};
    return rc;
}

/* --- entries ------------------------------------------------------------------------------------- */

static void be_fatal(struct node_apply *n, const char *why)
{
    ASSERT(why != NULL);
    if (n->fatal.text[0] == '\0') errmsg_set(&n->fatal, "%s", why);
}

/* Keeps the answer for what must come first, or gives it. */
static void answer_waiter(struct node_apply *n, struct node_waiter *w,
                          const struct apply_output *out, struct apply_result *result, bool conf)
{
    ASSERT(w->held == NULL);
    if (conf) {
        /* Answered when raft has noted it, or its next change might be refused as pending. */
        w->read_index = out->index;
        node__hold(&n->noted, w, result);
    } else if (out->compact_physical && result != NULL && result->error == 0) {
        node__hold(&n->compacting, w, result);
    } else {
        node__apply_reply(n, w, result == NULL ? E_STOPPED : result->error, result);
    }
}

/* Up to two outputs, which have room. */
static void answer(struct node_apply *n, struct apply_output *out, bool conf)
{
    ASSERT(!out->replayed || out->result == NULL);
    struct apply_result *result = out->result;
    out->result = NULL;
    /* Over the quota: the request took effect, each member asks for the alarm, and the answer comes after it. */
    uint64_t alarm_id = out->raise_nospace ? node__raise_nospace(n) : 0;
    struct node_waiter *w = node__unregister(n, out->request_id);
    if (w == NULL) {
        apply_result_free(result);
        return;
    }
    if (w->held != NULL) {
        /* This entry was the alarm that the answer waited for. */
        apply_result_free(result);
        result = w->held;
        w->held = NULL;
    }
    if (alarm_id == 0) {
        answer_waiter(n, w, out, result, conf);
        return;
    }
    w->request_id = alarm_id;
    w->held = result;
    node__register(n, w);
}

static void tell_versions(struct node_apply *n, const struct apply_output *out)
{
    ASSERT(n->core != NULL);
    struct node_apply_output o;
    if (out->members_changed) {
        o = (struct node_apply_output){.kind = NODE_APPLY_MEMBERS};
        o.u.members = membership_ref(apply_members(n->core));
        node__apply_out(n, o);
    }
    if (out->alarms_changed) {
        o = (struct node_apply_output){.kind = NODE_APPLY_ALARMS};
        o.u.alarms = alarm_ref(apply_alarms(n->core));
        node__apply_out(n, o);
    }
    if (out->peer_action != APPLY_PEER_NONE) {
        o = (struct node_apply_output){.kind = NODE_APPLY_PEER};
        o.u.peer.action = out->peer_action;
        o.u.peer.id = out->peer_id;
        node__apply_out(n, o);
    }
    if (out->removed_self)
        node__apply_out(n, (struct node_apply_output){.kind = NODE_APPLY_REMOVED});
}

static void entry_done(struct node_apply *n, struct apply_output *out)
{
    struct node__span *s = &n->spans[n->span_head];
    const struct raft_entry *e = &s->entries[s->at];
    ASSERT(out->index == e->index && e->index == n->applied + 1);
    n->entry_open = false;
    n->applied = e->index;
    bool conf = e->type != RAFT_ENTRY_NORMAL;
    if (conf) n->applied_ack = true;
    /* The revision is published; from here on others may name it. */
    atomic_store(&n->opts.status->applied, n->applied);
    if (!out->replayed) node__sealed(n, out);
    tell_versions(n, out);
    answer(n, out, conf);
    node__own_applied(n, out);
    if (++s->at < s->count) return;
    raft_entries_free(n->alloc, s->entries, s->count);
    n->span_head++;
    if (n->span_head == n->span_n) n->span_head = n->span_n = 0;
}

/* False: nothing to begin now. */
static bool begin_entry(struct node_apply *n)
{
    ASSERT(!n->entry_open);
    if (n->span_head == n->span_n || n->stopping) return false;
    if (mvcc_run_full(n->mvcc)) {
        /* Rule 6: both runs are full, so entries wait; nothing else does. */
        n->commit_wanted = true;
        return false;
    }
    const struct node__span *s = &n->spans[n->span_head];
    const struct raft_entry *e = &s->entries[s->at];
    const struct apply_entry entry = {e->index, e->term, (int32_t)e->type, rcbuf_bytes(e->data)};
    apply_begin(n->core, &entry);
    n->entry_open = true;
    return true;
}

static void ask_conf_change(struct node_apply *n, const struct apply_output *out)
{
    ASSERT(!n->conf_wait);
    n->conf_wait = true;
    const struct raft_conf_single conf = {(enum raft_conf_change_type)out->conf.type,
                                          out->conf.node_id};
    node__apply_note(
        n, (struct node_to_raft){.kind = NODE_CONF_CHANGE, .index = out->index, .conf = conf});
}

/* One step of the entry in progress. False: no more can be done for now. */
static bool step_entry(struct node_apply *n, uint32_t *budget)
{
    ASSERT(n->entry_open && !n->conf_wait);
    struct apply_output out;
    switch (apply_step(n->core, n->now_ns, budget, &out)) {
    case APPLY_DONE: entry_done(n, &out); return true;
    case APPLY_MORE: return true;
    case APPLY_PAUSED: n->paused = true; return false;
    case APPLY_CONF: ask_conf_change(n, &out); return false;
    case APPLY_FATAL: be_fatal(n, out.fatal); return false;
    }
    return false;
}

/* True: the budget ended it, and more can be done. */
static bool work_on_entries(struct node_apply *n, uint32_t budget)
{
    ASSERT(budget > 0);
    while (!n->conf_wait && !n->paused && n->fatal.text[0] == '\0') {
        if (budget == 0) return n->entry_open || n->span_head < n->span_n;
        /* Whatever a step makes has room before it begins. */
        if (node__apply_reserve(n, NODE__OUTPUTS_PER_STEP) < 0) return false;
        if (!n->entry_open && !begin_entry(n)) return false;
        if (!step_entry(n, &budget)) return false;
        if (!n->entry_open) node__commit_step(n);
    }
    return false;
}

/* Told once per run, so that raft is not woken for each entry. */
static void tell_applied(struct node_apply *n)
{
    ASSERT(n->applied_told <= n->applied);
    if (n->applied_told == n->applied || node__apply_reserve(n, 1) < 0) return;
    node__apply_note(
        n, (struct node_to_raft){.kind = NODE_APPLIED, .index = n->applied, .ack = n->applied_ack});
    n->applied_told = n->applied;
    n->applied_ack = false;
    node__compact_log_step(n);
}

static bool nobody_waits(const struct node_apply *n)
{
    ASSERT(n->stopping);
    return list_empty(&n->limited) && list_empty(&n->unlimited) && list_empty(&n->reads) &&
           list_empty(&n->noted) && list_empty(&n->compacting);
}

/* Everybody is answered, what is applied is committed, nothing is lent out: the end. */
static void stop_step(struct node_apply *n)
{
    ASSERT(n->stopping);
    node__answer_all(n, E_STOPPED);
    if (n->entry_open || n->commit_open || n->stopped_told || !nobody_waits(n)) return;
    if (n->job_listing || n->snapshot.handed_out) return;
    if (n->durable < n->applied) {
        n->commit_wanted = true;
        node__commit_step(n);
        return;
    }
    if (node__apply_reserve(n, 1) < 0) return;
    n->stopped_told = true;
    node__apply_out(n, (struct node_apply_output){.kind = NODE_APPLY_STOPPED});
}

bool node_apply_run(struct node_apply *n, int64_t now_ns, uint32_t budget)
{
    if (now_ns > n->now_ns) n->now_ns = now_ns;
    ASSERT(budget > 0);
    if (n->fatal.text[0] != '\0') return false;
    node__own_start(n);
    bool more = work_on_entries(n, budget);
    more |= node__background_step(n);
    node__snapshot_step(n);
    node__commit_step(n);
    tell_applied(n);
    node__reads_release(n);
    more |= node__lease_answer(n);
    if (n->stopping) stop_step(n);
    return more && n->fatal.text[0] == '\0';
}

void node_apply_tick(struct node_apply *n, int64_t now_ns)
{
    ASSERT(n->mvcc != NULL);
    if (now_ns > n->now_ns) n->now_ns = now_ns;
    if (n->fatal.text[0] != '\0') return;
    mvcc_tick(n->mvcc, n->now_ns / 1000000);
    node__expire(n);
    /* Renewals that came before are served before it is judged what has run out. */
    (void)node__lease_answer(n);
    node__own_tick(n);
    node__commit_step(n);
}

int64_t node_apply_deadline(const struct node_apply *n)
{
    ASSERT(n != NULL);
    if (n->dirty_since_ns < 0 || n->commit_open) return INT64_MAX;
    return n->dirty_since_ns + n->opts.commit_interval_ns;
}

int node_apply_take(struct node_apply *n, struct node_apply_output *out)
{
    ASSERT(n->out_head <= n->out_n);
    if (n->out_head < n->out_n) {
        *out = n->out[n->out_head++];
        if (n->out_head == n->out_n) n->out_head = n->out_n = 0;
        return 1;
    }
    if (n->fatal.text[0] == '\0' || n->fatal_told) return 0;
    n->fatal_told = true;
    *out = (struct node_apply_output){.kind = NODE_APPLY_FATAL, .u.fatal = &n->fatal};
    return 1;
}

raft_index node_apply_durable(const struct node_apply *n)
{
    ASSERT(n != NULL);
    return n->durable;
}

struct apply *node_apply_core(const struct node_apply *n)
{
    ASSERT(n->core != NULL);
    return n->core;
}

/* --- birth and death ----------------------------------------------------------------------------- */

static void init_lists(struct node_apply *n)
{
    ASSERT(n->alloc != NULL);
    map_u64_init(&n->waiters, n->alloc, n->opts.apply.member_id);
    list_init(&n->limited);
    list_init(&n->unlimited);
    list_init(&n->reads);
    list_init(&n->noted);
    list_init(&n->compacting);
    list_init(&n->questions);
    list_init(&n->waiting);
    list_init(&n->answers);
}

int node_apply_new(const struct node_apply_opts *opts, const struct apply_start *start,
                   struct node_apply **out, struct errmsg *em)
{
    const struct alloc *alloc = opts->apply.alloc;
    ASSERT(opts->ids != NULL && opts->status != NULL);
    struct node_apply *n = alloc_zero(alloc, sizeof *n);
    if (n == NULL) return E_NOMEM;
    n->opts = *opts;
    n->alloc = alloc;
    n->mvcc = opts->apply.mvcc;
    n->leases = opts->apply.leases;
    n->timeout_ns = node__timeout_ns(opts->timeout_ns, opts->election_ticks, opts->tick_ns);
    n->dirty_since_ns = -1;
    n->durable = start->consistent_index;
    n->applied = opts->replay_index;
    n->applied_told = opts->replay_index;
    n->log_compact_last = opts->replay_index;
    n->snapshot_last = opts->snapshot_index;
    n->published = opts->ready;
    init_lists(n);
    n->opts.apply.waits = node__waits;
    n->opts.apply.waits_arg = n;
    int rc = apply_new(&n->opts.apply, start, &n->core, em);
    if (rc < 0) {
        node_apply_free(n);
        return rc;
    }
    *out = n;
    return 0;
}

static void free_output(struct node_apply *n, struct node_apply_output *o)
{
    ASSERT(o->kind != NODE_APPLY_REPLY);
    switch (o->kind) {
    case NODE_APPLY_NOTE: node_to_raft_deinit(&o->u.note); break;
    case NODE_APPLY_SNAPSHOT:
        node_conf_free(o->u.snapshot.conf, n->alloc);
        membership_unref(o->u.snapshot.members);
        break;
    case NODE_APPLY_MEMBERS: membership_unref(o->u.members); break;
    case NODE_APPLY_ALARMS: alarm_unref(o->u.alarms); break;
    case NODE_APPLY_COMMIT: mvcc_portion_free(o->u.commit.portion); break;
    case NODE_APPLY_REPLY:
    case NODE_APPLY_COMPACT:
    case NODE_APPLY_PEER:
    case NODE_APPLY_READY:
    case NODE_APPLY_STOPPED:
    case NODE_APPLY_REMOVED:
    case NODE_APPLY_FATAL: break;
    }
}

static void free_spans(struct node_apply *n)
{
    ASSERT(n->span_head <= n->span_n);
    for (size_t i = n->span_head; i < n->span_n; i++)
        raft_entries_free(n->alloc, n->spans[i].entries, n->spans[i].count);
    alloc_free(n->alloc, n->spans, n->span_cap * sizeof *n->spans);
}

void node_apply_free(struct node_apply *n)
{
    if (n == NULL) return;
    ASSERT(n->waiters.count == 0 && list_empty(&n->reads));
    for (size_t i = n->out_head; i < n->out_n; i++)
        free_output(n, &n->out[i]);
    alloc_free(n->alloc, n->out, n->out_cap * sizeof *n->out);
    free_spans(n);
    if (n->portion != NULL && !n->portion_open) mvcc_portion_free(n->portion);
    mvcc_compact_abandon(n->job);
    alloc_free(n->alloc, n->snapshot.conf, sizeof *n->snapshot.conf);
    membership_unref(n->snapshot.members);
    map_u64_deinit(&n->waiters);
    apply_free(n->core);
    alloc_free(n->alloc, n, sizeof *n);
}

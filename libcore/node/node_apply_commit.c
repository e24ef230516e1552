/* When the backend commits, compacts and is snapshotted.
 *
 * One commit is open at a time: a frozen run, a portion of a compaction, or both. Rules 3 to 5 of the design are
 * decided here; the backend thread only does what it is handed. */
#include "node/node_apply_int.h"

static size_t run_bytes_max(const struct node_apply *n)
{
    ASSERT(n->mvcc != NULL);
    return n->opts.run_bytes_max == 0 ? RUN_BYTES_MAX : n->opts.run_bytes_max;
}

void node__sealed(struct node_apply *n, const struct apply_output *out)
{
    ASSERT(out->index == n->applied);
    n->entries_uncommitted++;
    /* Rule 4: index and term alone start no timer. */
    if (n->dirty_since_ns < 0 && !mvcc_active_is_trivial(n->mvcc)) n->dirty_since_ns = n->now_ns;
    if (out->compacted) n->commit_wanted = true;
    if (out->force_snapshot) n->snapshot_forced = true;
    if (n->opts.commit_limit != 0 && n->entries_uncommitted >= n->opts.commit_limit)
        n->commit_wanted = true;
    if (mvcc_active_bytes(n->mvcc) * 2 >= run_bytes_max(n)) n->commit_wanted = true;
}

static bool commit_due(const struct node_apply *n)
{
    ASSERT(!n->commit_open);
    if (n->commit_wanted || n->portion != NULL) return true;
    return n->dirty_since_ns >= 0 && n->now_ns - n->dirty_since_ns >= n->opts.commit_interval_ns;
}

void node__commit_step(struct node_apply *n)
{
    ASSERT(n->mvcc != NULL);
    if (n->commit_open || n->entry_open || !commit_due(n)) return;
    if (node__apply_reserve(n, 1) < 0) return;
    struct mvcc_run *run = NULL;
    if (mvcc_run_swap(n->mvcc, &run) < 0) return; /* no memory: at the next step */
    n->commit_wanted = false;
    n->dirty_since_ns = -1;
    n->entries_uncommitted = 0;
    if (run == NULL && n->portion == NULL) return;
    /* Rule 3: the store is never ahead of the log. */
    ASSERT(run == NULL || mvcc_run_index(run) <= n->wal_durable);
    n->commit_open = true;
    n->portion_open = n->portion != NULL;
    struct node_apply_output o = {.kind = NODE_APPLY_COMMIT};
    o.u.commit.run = run;
    o.u.commit.portion = n->portion;
    node__apply_out(n, o);
}

/* --- compaction ---------------------------------------------------------------------------------- */

static void hand_out_job(struct node_apply *n)
{
    ASSERT(n->job != NULL);
    if (n->job_listing || n->job_listed || n->portion != NULL) return;
    if (node__apply_reserve(n, 1) < 0) return;
    n->job_listing = true;
    node__apply_out(n, (struct node_apply_output){.kind = NODE_APPLY_COMPACT, .u.job = n->job});
}

static void begin_job(struct node_apply *n)
{
    ASSERT(n->job == NULL);
    if (n->stopping || n->entry_open || !mvcc_compact_pending(n->mvcc)) return;
    if (mvcc_compact_begin(n->mvcc, &n->job) < 0 || n->job == NULL) return;
    n->job_listing = false;
    n->job_listed = false;
    n->job_pruned = false;
    n->job_durable = false;
}

static void end_job(struct node_apply *n)
{
    ASSERT(n->job != NULL);
    mvcc_compact_end(n->job);
    n->job = NULL;
    if (!mvcc_compact_pending(n->mvcc)) node__answer_list(n, &n->compacting);
}

bool node__background_step(struct node_apply *n)
{
    ASSERT(n->leases != NULL);
    bool more = false;
    if (n->promoting) {
        n->promoting = !lease_promote_step(n->leases, NODE__SLICE_STEPS);
        more |= n->promoting;
    }
    if (n->job == NULL) begin_job(n);
    if (n->job == NULL) return more;
    if (!n->stopping) hand_out_job(n);
    if (n->job_listed && !n->job_pruned && !n->entry_open) {
        int rc = mvcc_compact_prune(n->job, NODE__SLICE_STEPS);
        n->job_pruned = rc == 0;
        more |= rc > 0;
    }
    if (n->job_pruned && n->job_durable) end_job(n);
    return more;
}

void node_apply_portion(struct node_apply *n, struct mvcc_portion *portion)
{
    ASSERT(n->job_listing);
    ASSERT(n->portion == NULL);
    n->job_listing = false;
    n->job_listed = mvcc_portion_is_last(portion);
    n->portion = portion;
    node__commit_step(n);
}

static void portion_committed(struct node_apply *n, struct mvcc_portion *portion)
{
    ASSERT(n->portion == portion && n->portion_open);
    n->job_durable = mvcc_portion_is_last(portion);
    mvcc_portion_free(portion);
    n->portion = NULL;
    n->portion_open = false;
}

void node_apply_committed(struct node_apply *n, struct mvcc_run *run, struct mvcc_portion *portion,
                          uint64_t store_bytes)
{
    ASSERT(n->commit_open);
    ASSERT(run != NULL || portion != NULL);
    n->commit_open = false;
    n->paused = false;
    if (run != NULL) {
        ASSERT(mvcc_run_index(run) >= n->durable);
        n->durable = mvcc_run_index(run);
        mvcc_run_retire(n->mvcc, run);
    }
    apply_set_store_bytes(n->core, store_bytes);
    if (portion != NULL) portion_committed(n, portion);
    node__snapshot_step(n);
    node__commit_step(n);
}

void node_apply_flush(struct node_apply *n)
{
    ASSERT(n->mvcc != NULL);
    n->commit_wanted = true;
    node__commit_step(n);
}

void node_apply_no_space(struct node_apply *n)
{
    ASSERT(n->core != NULL);
    n->nospace_wanted = true;
}

/* --- snapshots ----------------------------------------------------------------------------------- */

static bool snapshot_due(const struct node_apply *n)
{
    ASSERT(n->snapshot.index <= n->applied);
    /* Behind the newest snapshot while a lost store is built anew from the whole log. */
    if (n->applied < n->snapshot_last) return false;
    if (n->stopping || n->entry_open || n->snapshot.index != 0) return false;
    uint64_t since = n->applied - n->snapshot_last;
    return since > n->opts.snapshot_count || (n->snapshot_forced && since > 0);
}

/* What the file must say is as of this index; the store commits at least up to it before the file is made. */
static void begin_snapshot(struct node_apply *n)
{
    ASSERT(n->snapshot.index == 0);
    struct membership *members = apply_members(n->core);
    struct raft_conf_state *conf = alloc_new(n->alloc, sizeof *conf);
    if (conf == NULL) return;
    if (node_conf_of_members(members, conf) < 0) {
        alloc_free(n->alloc, conf, sizeof *conf);
        return;
    }
    n->snapshot = (struct node__snapshot){.index = n->applied,
                                          .term = apply_term(n->core),
                                          .conf = conf,
                                          .members = membership_ref(members)};
    n->snapshot_forced = false;
    if (n->durable < n->applied) n->commit_wanted = true;
}

void node__snapshot_step(struct node_apply *n)
{
    ASSERT(n->core != NULL);
    if (snapshot_due(n)) begin_snapshot(n);
    struct node__snapshot *s = &n->snapshot;
    if (s->index == 0 || s->handed_out || n->durable < s->index) return;
    if (node__apply_reserve(n, 1) < 0) return;
    struct node_apply_output o = {.kind = NODE_APPLY_SNAPSHOT};
    o.u.snapshot.index = s->index;
    o.u.snapshot.term = s->term;
    o.u.snapshot.conf = s->conf;
    o.u.snapshot.members = s->members;
    s->conf = NULL;
    s->members = NULL;
    s->handed_out = true;
    node__apply_out(n, o);
}

void node_apply_snapshot_done(struct node_apply *n, raft_index index, bool ok)
{
    ASSERT(n->snapshot.handed_out && n->snapshot.index == index);
    n->snapshot = (struct node__snapshot){0};
    /* After a failure the next one is tried when as many entries have come again. */
    if (ok)
        n->snapshot_last = index;
    else
        n->snapshot_last = n->applied;
    node__snapshot_step(n);
}

void node_conf_free(struct raft_conf_state *conf, const struct alloc *alloc)
{
    ASSERT(alloc != NULL);
    alloc_free(alloc, conf, sizeof *conf);
}

/* disk-format.md 3.2: everything up to max(1, applied - catch-up entries) may leave memory. raft must have heard
 * of `applied` before. */
void node__compact_log_step(struct node_apply *n)
{
    ASSERT(n->applied_told <= n->applied);
    if (n->applied_told < n->log_compact_last + NODE__COMPACT_LOG_ENTRIES) return;
    if (node__apply_reserve(n, 1) < 0) return;
    raft_index keep = n->opts.catchup_entries;
    raft_index to = n->applied_told > keep ? n->applied_told - keep : 0;
    n->log_compact_last = n->applied_told;
    node__apply_note(n, (struct node_to_raft){.kind = NODE_COMPACT_LOG,
                                              .index = to == 0 ? 1 : to,
                                              .snapshot_index = n->applied_told});
}

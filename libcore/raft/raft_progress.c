/* What the leader knows about one member's log, and how fast it may be sent to.
 *
 * Probe: one append per round trip until it is known where the logs meet. Replicate: appends are pipelined up
 * to a limit in number and bytes. Snapshot: nothing but heartbeats until the snapshot has been reported. */
#include <inttypes.h>
#include <stdio.h>

#include "raft/raft_int.h"

static raft_index min_index(raft_index a, raft_index b)
{
    return a < b ? a : b;
}

static raft_index max_index(raft_index a, raft_index b)
{
    return a > b ? a : b;
}

static void inflights_reset(struct raft__progress *pr)
{
    pr->inflight_start = 0;
    pr->inflight_count = 0;
    pr->inflight_bytes = 0;
}

void raft__progress_reset(struct raft__progress *pr, raft_index last, bool self)
{
    ASSERT(pr->id != 0);
    pr->match = self ? last : 0;
    pr->next = last + 1;
    pr->sent_commit = 0;
    pr->pending_snapshot = 0;
    pr->read_acked = 0;
    pr->state = RAFT_PROBE;
    pr->flow_paused = false;
    pr->recent_active = false;
    inflights_reset(pr);
}

void raft__progress_deinit(struct raft__progress *pr, const struct alloc *alloc)
{
    ASSERT(alloc != NULL);
    alloc_free(alloc, pr->inflights, pr->inflight_cap * sizeof *pr->inflights);
    pr->inflights = NULL;
    pr->inflight_cap = 0;
}

bool raft__progress_paused(const struct raft__progress *pr)
{
    ASSERT(pr->match < pr->next);
    return pr->state == RAFT_SNAPSHOT || pr->flow_paused;
}

bool raft__progress_full(const struct raft__progress *pr, const struct raft__limits *lim)
{
    ASSERT(lim->inflight_count_max > 0);
    return pr->inflight_count >= lim->inflight_count_max ||
           (lim->inflight_bytes_max != 0 && pr->inflight_bytes >= lim->inflight_bytes_max);
}

static void change_state(struct raft__progress *pr, enum raft_progress_state state)
{
    pr->flow_paused = false;
    pr->pending_snapshot = 0;
    pr->state = state;
    inflights_reset(pr);
}

void raft__progress_probe(struct raft__progress *pr)
{
    ASSERT(pr->match < pr->next);
    raft_index next = pr->match + 1;
    /* A snapshot that arrived is where to go on; pending_snapshot is 0 when it failed. */
    if (pr->state == RAFT_SNAPSHOT) next = max_index(next, pr->pending_snapshot + 1);
    change_state(pr, RAFT_PROBE);
    pr->next = next;
    pr->sent_commit = min_index(pr->sent_commit, pr->next - 1);
}

void raft__progress_replicate(struct raft__progress *pr)
{
    ASSERT(pr->match < pr->next);
    change_state(pr, RAFT_REPLICATE);
    pr->next = pr->match + 1;
}

void raft__progress_snapshot(struct raft__progress *pr, raft_index index)
{
    ASSERT(index > 0);
    change_state(pr, RAFT_SNAPSHOT);
    pr->pending_snapshot = index;
    pr->next = max_index(index, pr->match) + 1;
    pr->sent_commit = index;
}

int raft__progress_reserve(struct raft__progress *pr, const struct alloc *alloc)
{
    ASSERT(pr->inflight_count <= pr->inflight_cap);
    if (pr->inflight_count < pr->inflight_cap) return 0;
    uint32_t cap = pr->inflight_cap == 0 ? 8 : pr->inflight_cap * 2;
    struct raft__inflight *v = alloc_new(alloc, cap * sizeof *v);
    if (v == NULL) return E_NOMEM;
    for (uint32_t i = 0; i < pr->inflight_count; i++)
        v[i] = pr->inflights[(pr->inflight_start + i) % pr->inflight_cap];
    raft__progress_deinit(pr, alloc);
    pr->inflights = v;
    pr->inflight_cap = cap;
    pr->inflight_start = 0;
    return 0;
}

static void inflight_add(struct raft__progress *pr, raft_index index, size_t bytes)
{
    ASSERT(pr->inflight_count < pr->inflight_cap);
    uint32_t at = (pr->inflight_start + pr->inflight_count) % pr->inflight_cap;
    pr->inflights[at] = (struct raft__inflight){index, bytes};
    pr->inflight_count++;
    pr->inflight_bytes += bytes;
}

void raft__progress_sent(struct raft__progress *pr, const struct raft__limits *lim, size_t count,
                         size_t bytes)
{
    ASSERT(pr->state != RAFT_SNAPSHOT);
    if (pr->state == RAFT_PROBE) {
        if (count > 0) pr->flow_paused = true;
        return;
    }
    if (count > 0) {
        pr->next += count;
        inflight_add(pr, pr->next - 1, bytes);
    }
    pr->flow_paused = raft__progress_full(pr, lim);
}

bool raft__progress_update(struct raft__progress *pr, raft_index match)
{
    ASSERT(pr->match < pr->next);
    if (match <= pr->match) return false;
    pr->match = match;
    pr->next = max_index(pr->next, match + 1);
    pr->flow_paused = false;
    return true;
}

bool raft__progress_decrease(struct raft__progress *pr, raft_index rejected, raft_index hint)
{
    ASSERT(pr->match < pr->next);
    if (pr->state == RAFT_REPLICATE) {
        if (rejected <= pr->match) return false; /* stale: it has that entry */
        pr->next = pr->match + 1;
    } else {
        if (pr->next - 1 != rejected) return false; /* stale: not the probe under way */
        pr->next = max_index(min_index(rejected, hint + 1), pr->match + 1);
        pr->flow_paused = false;
    }
    pr->sent_commit = min_index(pr->sent_commit, pr->next - 1);
    return true;
}

bool raft__progress_can_bump_commit(const struct raft__progress *pr, raft_index commit)
{
    ASSERT(pr->next > 0);
    return commit > pr->sent_commit && pr->sent_commit < pr->next - 1;
}

void raft__progress_free_to(struct raft__progress *pr, raft_index index)
{
    ASSERT(pr->inflight_count <= pr->inflight_cap);
    while (pr->inflight_count > 0) {
        const struct raft__inflight *f = &pr->inflights[pr->inflight_start];
        if (f->index > index) break;
        pr->inflight_bytes -= f->bytes;
        pr->inflight_start = (pr->inflight_start + 1) % pr->inflight_cap;
        pr->inflight_count--;
    }
}

const char *raft__progress_text(const struct raft__progress *pr, const struct raft__limits *lim,
                                char out[RAFT__PROGRESS_TEXT_MAX])
{
    static const char *const names[] = {"StateProbe", "StateReplicate", "StateSnapshot"};
    ASSERT((unsigned)pr->state < 3);
    char pending[40] = "";
    char inflight[40] = "";
    if (pr->pending_snapshot > 0)
        (void)snprintf(pending, sizeof pending, " pendingSnap=%" PRIu64, pr->pending_snapshot);
    if (pr->inflight_count > 0)
        (void)snprintf(inflight, sizeof inflight, " inflight=%" PRIu32 "%s", pr->inflight_count,
                       raft__progress_full(pr, lim) ? "[full]" : "");
    (void)snprintf(out, RAFT__PROGRESS_TEXT_MAX, "%s match=%" PRIu64 " next=%" PRIu64 "%s%s%s%s%s",
                   names[pr->state], pr->match, pr->next, pr->learner ? " learner" : "",
                   raft__progress_paused(pr) ? " paused" : "", pending,
                   pr->recent_active ? "" : " inactive", inflight);
    return out;
}

/* How a member comes to be: the first entries of a cluster, and what a restart makes of what disk says. */
#include <inttypes.h>

#include "base/buf.h"
#include "node/node_int.h"
#include "pb/raftpb.h"

/* One AddNode (or AddLearnerNode) entry; its context names the member, its id stays 0: nobody waits. */
static int first_entry(const struct alloc *alloc, const struct member *m, struct rcbuf **out)
{
    ASSERT(m->id != 0);
    struct buf context;
    struct buf data;
    buf_init(&context, alloc, MAX_REQUEST_BYTES_DEFAULT);
    buf_init(&data, alloc, 2 * MAX_REQUEST_BYTES_DEFAULT);
    const struct member_context mc = {.member = *m};
    int rc = member_put_context(&mc, &context);
    if (rc == 0) {
        const struct pb_conf_change cc = {
            .type = m->is_learner ? PB_ADD_LEARNER_NODE : PB_ADD_NODE,
            .node_id = m->id,
            .context = buf_bytes(&context),
        };
        rc = pb_conf_change_put(&cc, &data);
    }
    struct rcbuf *b = rc == 0 ? rcbuf_copy(alloc, buf_bytes(&data)) : NULL;
    buf_deinit(&context);
    buf_deinit(&data);
    if (b == NULL) return rc == 0 ? E_NOMEM : rc;
    *out = b;
    return 0;
}

/* Every member must make the same entries, so the order is by id, not by flag. */
static const struct member *next_by_id(const struct member *members, size_t n, uint64_t above)
{
    const struct member *best = NULL;
    for (size_t i = 0; i < n; i++)
        if (members[i].id > above && (best == NULL || members[i].id < best->id)) best = &members[i];
    ASSERT(best != NULL);
    return best;
}

int node_first_entries(const struct alloc *alloc, const struct member *members, size_t n,
                       struct raft_entry **out)
{
    ASSERT(n > 0 && n <= RAFT_MEMBERS_MAX);
    struct raft_entry *v = alloc_zero(alloc, n * sizeof *v);
    if (v == NULL) return E_NOMEM;
    uint64_t above = 0;
    for (size_t i = 0; i < n; i++) {
        const struct member *m = next_by_id(members, n, above);
        above = m->id;
        v[i] = (struct raft_entry){.term = 1, .index = i + 1, .type = RAFT_ENTRY_CONF_CHANGE};
        int rc = first_entry(alloc, m, &v[i].data);
        if (rc < 0) {
            raft_entries_free(alloc, v, n);
            return rc;
        }
    }
    *out = v;
    return 0;
}

int node_conf_of_members(const struct membership *m, struct raft_conf_state *out)
{
    ASSERT(m != NULL);
    if (membership_count(m) > RAFT_MEMBERS_MAX) return E_TOOBIG;
    *out = (struct raft_conf_state){0};
    for (size_t i = 0; i < membership_count(m); i++) {
        const struct member *member = membership_at(m, i);
        if (member->is_learner)
            out->learners[out->learner_count++] = member->id;
        else
            out->voters[out->voter_count++] = member->id;
    }
    return 0;
}

/* The power went during the very first write: the cluster's first entries are there, their state record is not. They are
 * committed by fiat, so nothing is to be waited for. Only a first boot leaves such a log: a member that joins has a
 * state before any entry. */
static void finish_first_boot(const struct node_disk_state *disk, struct raft_restored *out)
{
    ASSERT(disk->entry_count == 0 || disk->entries != NULL);
    if (!raft_hard_state_empty(disk->hard_state) || disk->snapshot_index != 0) return;
    raft_index n = 0;
    while (n < disk->entry_count && disk->entries[n].term == 1 &&
           disk->entries[n].type == RAFT_ENTRY_CONF_CHANGE)
        n++;
    if (n > 0) out->hard_state = (struct raft_hard_state){.term = 1, .commit = n};
}

int node_restore(const struct node_disk_state *disk, struct raft_restored *out, struct errmsg *em)
{
    ASSERT(disk->conf != NULL);
    raft_index last = disk->snapshot_index;
    if (disk->entry_count > 0) last = disk->entries[disk->entry_count - 1].index;
    raft_index k = disk->consistent_index;
    if (k > last) {
        errmsg_set(em,
                   "the write-ahead log ends at index %" PRIu64
                   " but the store has applied index %" PRIu64
                   ": the log has lost its end, restore the member from a backup or remove it and "
                   "add it anew",
                   last, k);
        return E_CORRUPT;
    }
    *out = (struct raft_restored){
        .hard_state = disk->hard_state,
        .snapshot = {disk->snapshot_index, disk->snapshot_term, *disk->conf},
        .entries = disk->entries,
        .entry_count = disk->entry_count,
        .applied = disk->snapshot_index,
    };
    finish_first_boot(disk, out);
    /* What the store has was committed, though the WAL may not say so: commit is not synced. */
    if (out->hard_state.commit < k) out->hard_state.commit = k;
    if (out->hard_state.commit < disk->snapshot_index)
        out->hard_state.commit = disk->snapshot_index;
    return 0;
}

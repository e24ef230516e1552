/* Conf states between raft's form and that of the codecs. */
#include "wal/wal_conf.h"

#include <string.h>

#include "base/err.h"

struct pb_conf_state wal_conf_view(const struct raft_conf_state *c)
{
    return (struct pb_conf_state){
        .voters = {c->voters, c->voter_count},
        .learners = {c->learners, c->learner_count},
        .voters_outgoing = {c->voters_outgoing, c->voter_outgoing_count},
        .learners_next = {c->learners_next, c->learner_next_count},
        .auto_leave = c->auto_leave,
    };
}

static int copy_ids(struct pb_ids from, raft_id *to, uint32_t *count)
{
    if (from.count > RAFT_MEMBERS_MAX) return E_TOOBIG;
    if (from.count > 0) memcpy(to, from.data, from.count * sizeof *to);
    *count = (uint32_t)from.count;
    return 0;
}

int wal_conf_from(const struct pb_conf_state *p, struct raft_conf_state *out)
{
    struct raft_conf_state c = {.auto_leave = p->auto_leave};
    int rc = copy_ids(p->voters, c.voters, &c.voter_count);
    if (rc == 0) rc = copy_ids(p->learners, c.learners, &c.learner_count);
    if (rc == 0) rc = copy_ids(p->voters_outgoing, c.voters_outgoing, &c.voter_outgoing_count);
    if (rc == 0) rc = copy_ids(p->learners_next, c.learners_next, &c.learner_next_count);
    if (rc == 0) *out = c;
    return rc;
}

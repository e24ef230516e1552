/* Conf changes: judged against the stored members, then raft's turn, then stored.
 *
 * Order (walkthroughs.md 6): validate; hand raft the change, or one with node id 0 if it is
 * refused; put the member rows and the configuration that raft answers into the entry; seal. */
#include "apply/apply_int.h"

static int conf_decode(struct apply *a)
{
    if (pb_conf_change_decode(a->entry.data, &a->conf) < 0) {
        return apply__fatal(a, E_CORRUPT, "its conf change does not parse");
    }
    return 0;
}

int apply__conf_start(struct apply *a)
{
    int rc = conf_decode(a);
    if (rc < 0) return rc;
    a->request.id = a->conf.id;
    struct errmsg em = {{0}};
    rc = membership_conf_change(a->members, &a->conf, a->config.learners_max, &a->change, &em);
    if (rc == E_CORRUPT) return apply__fatal(a, rc, "its conf change is invalid: %s", em.text);
    if (rc == E_NOMEM) return rc;
    if (rc < 0) {
        LOG(a->config.log, LOG_WARN, "refused a conf change",
            LOGF_HEX("member-id", a->conf.node_id), LOGF_STR("error", err_text(rc)));
        a->answer = rc;
        a->change = (struct membership_change){.next = NULL};
        a->conf.node_id = 0;
    }
    return 0;
}

/* What the transport has to do about the member that the change names. */
static void conf_peer(struct apply *a, bool was_member)
{
    struct apply_output *out = a->out;
    bool self = a->conf.node_id == a->config.member_id;
    enum apply_peer_action action = APPLY_PEER_NONE;
    switch ((enum pb_conf_change_type)a->conf.type) {
    case PB_ADD_NODE:
    case PB_ADD_LEARNER_NODE:
        if (!was_member) action = APPLY_PEER_ADD;
        break;
    case PB_UPDATE_NODE: action = APPLY_PEER_UPDATE; break;
    case PB_REMOVE_NODE:
        action = APPLY_PEER_REMOVE;
        out->removed_self = self;
        break;
    }
    if (action == APPLY_PEER_NONE || self) return;
    out->peer_action = action;
    out->peer_id = a->conf.node_id;
}

/* The row meta/confState, when it is another one now. */
static int conf_state_store(struct apply *a)
{
    if (bytes_eq(buf_bytes(&a->conf_json), buf_bytes(&a->conf_json_next))) return 0;
    int rc = mvcc_table_put(a->config.mvcc, TABLE_META, bytes_str("confState"),
                            buf_bytes(&a->conf_json_next));
    if (rc < 0) return rc;
    struct buf old = a->conf_json;
    a->conf_json = a->conf_json_next;
    a->conf_json_next = old;
    return 0;
}

int apply__conf_finish(struct apply *a)
{
    if (a->change.next != NULL) {
        bool was_member = membership_find(a->members, a->conf.node_id) != NULL;
        struct membership_change c = a->change;
        a->change.next = NULL;
        int rc = apply__install_members(a, &c);
        if (rc < 0) return rc;
        conf_peer(a, was_member);
    }
    int rc = conf_state_store(a);
    if (rc < 0 || a->result == NULL || a->answer < 0) return rc;
    rc = apply__result_ops(a->result, 1);
    if (rc < 0) return rc;
    a->result->ops[0].kind = APPLY_OP_CONF_CHANGE;
    a->result->members = membership_ref(a->members);
    return 0;
}

/* The member table has what came after, so only those are named that are still there; an old
 * removal of somebody who never came back is repeated, which does no harm. */
int apply__conf_replay(struct apply *a)
{
    int rc = conf_decode(a);
    if (rc < 0) return rc;
    bool member = membership_find(a->members, a->conf.node_id) != NULL;
    bool removed = membership_is_removed(a->members, a->conf.node_id);
    if (a->conf.type == PB_REMOVE_NODE ? !removed : !member) return 0;
    conf_peer(a, false);
    return 0;
}

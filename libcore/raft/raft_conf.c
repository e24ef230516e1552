/* How a configuration changes: simple changes, and into and out of joint ones (thesis 4.1 to 4.3).
 *
 * A change is tried on a copy, which takes the place of the old tracker when nothing is wrong. Progress of a
 * member survives as long as it is in any list, so that a voter that becomes a learner is not fed anew. */
#include <inttypes.h>
#include <stdio.h>

#include "raft/raft_int.h"

/* A tracker under change. Progress entries are shallow copies: they share the in-flight rings of the old ones. */
struct changer {
    struct raft__tracker t;
    const struct alloc *alloc;
    raft_index last;
    struct errmsg *em;
};

bool raft__ids_have(const raft_id *ids, uint32_t n, raft_id id)
{
    ASSERT(n <= RAFT_MEMBERS_MAX);
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id) return true;
    return false;
}

/* Keeps the list ascending; E_INVAL when it is full. */
static int ids_add(raft_id *ids, uint32_t *n, raft_id id)
{
    ASSERT(id != 0);
    if (raft__ids_have(ids, *n, id)) return 0;
    if (*n == RAFT_MEMBERS_MAX) return E_INVAL;
    uint32_t at = *n;
    for (; at > 0 && ids[at - 1] > id; at--)
        ids[at] = ids[at - 1];
    ids[at] = id;
    (*n)++;
    return 0;
}

static void ids_remove(raft_id *ids, uint32_t *n, raft_id id)
{
    ASSERT(*n <= RAFT_MEMBERS_MAX);
    for (uint32_t i = 0; i < *n; i++) {
        if (ids[i] != id) continue;
        for (uint32_t j = i + 1; j < *n; j++)
            ids[j - 1] = ids[j];
        ids[--*n] = 0;
        return;
    }
}

bool raft__conf_joint(const struct raft_conf_state *cs)
{
    ASSERT(cs != NULL);
    return cs->voter_outgoing_count > 0;
}

bool raft__conf_single(const struct raft_conf_state *cs)
{
    ASSERT(cs != NULL);
    return cs->voter_count == 1 && cs->voter_outgoing_count == 0;
}

bool raft__conf_has_voter(const struct raft_conf_state *cs, raft_id id)
{
    ASSERT(cs != NULL);
    return raft__ids_have(cs->voters, cs->voter_count, id) ||
           raft__ids_have(cs->voters_outgoing, cs->voter_outgoing_count, id);
}

struct raft__progress *raft__tracker_find(const struct raft__tracker *t, raft_id id)
{
    ASSERT(t->count <= t->cap);
    for (uint32_t i = 0; i < t->count; i++)
        if (t->prs[i].id == id) return &t->prs[i];
    return NULL;
}

void raft__tracker_deinit(struct raft__tracker *t, const struct alloc *alloc)
{
    ASSERT(t->count <= t->cap);
    for (uint32_t i = 0; i < t->count; i++)
        raft__progress_deinit(&t->prs[i], alloc);
    alloc_free(alloc, t->prs, t->cap * sizeof *t->prs);
    *t = (struct raft__tracker){0};
}

static int changer_begin(struct changer *c, const struct raft__tracker *t,
                         const struct alloc *alloc, raft_index last, uint32_t more,
                         struct errmsg *em)
{
    ASSERT(more <= 4 * RAFT_MEMBERS_MAX);
    *c = (struct changer){.alloc = alloc, .last = last, .em = em};
    c->t.conf = t->conf;
    c->t.cap = t->count + more + 1;
    c->t.prs = alloc_new(alloc, c->t.cap * sizeof *c->t.prs);
    if (c->t.prs == NULL) return E_NOMEM;
    c->t.count = t->count;
    for (uint32_t i = 0; i < t->count; i++)
        c->t.prs[i] = t->prs[i];
    return 0;
}

static void changer_abort(struct changer *c)
{
    ASSERT(c->alloc != NULL);
    /* In-flight rings belong to the old tracker; new members have none yet. */
    alloc_free(c->alloc, c->t.prs, c->t.cap * sizeof *c->t.prs);
}

static void changer_commit(struct changer *c, struct raft__tracker *t)
{
    ASSERT(c->t.count <= c->t.cap);
    for (uint32_t i = 0; i < t->count; i++) {
        struct raft__progress *kept = raft__tracker_find(&c->t, t->prs[i].id);
        if (kept == NULL || kept->inflights != t->prs[i].inflights)
            raft__progress_deinit(&t->prs[i], c->alloc);
    }
    alloc_free(c->alloc, t->prs, t->cap * sizeof *t->prs);
    *t = c->t;
}

static int changer_end(struct changer *c, struct raft__tracker *t, int rc)
{
    ASSERT(rc <= 0);
    if (rc == 0)
        changer_commit(c, t);
    else
        changer_abort(c);
    return rc;
}

static int refuse(struct changer *c, const char *why)
{
    ASSERT(why != NULL);
    errmsg_set(c->em, "%s", why);
    return E_INVAL;
}

static void drop_progress(struct changer *c, raft_id id)
{
    ASSERT(c->t.count > 0);
    uint32_t at = 0;
    while (at < c->t.count && c->t.prs[at].id != id)
        at++;
    if (at == c->t.count) return;
    for (uint32_t i = at + 1; i < c->t.count; i++)
        c->t.prs[i - 1] = c->t.prs[i];
    c->t.count--;
}

static struct raft__progress *insert_progress(struct changer *c, raft_id id)
{
    ASSERT(c->t.count < c->t.cap);
    uint32_t at = c->t.count;
    for (; at > 0 && c->t.prs[at - 1].id > id; at--)
        c->t.prs[at] = c->t.prs[at - 1];
    c->t.count++;
    c->t.prs[at] = (struct raft__progress){.id = id};
    return &c->t.prs[at];
}

static int add_member(struct changer *c, raft_id id, bool learner)
{
    struct raft_conf_state *cs = &c->t.conf;
    ASSERT(raft__tracker_find(&c->t, id) == NULL);
    int rc = learner ? ids_add(cs->learners, &cs->learner_count, id)
                     : ids_add(cs->voters, &cs->voter_count, id);
    if (rc < 0) return refuse(c, "too many members");
    struct raft__progress *pr = insert_progress(c, id);
    /* Probing begins at the end of our log; the new member most likely answers that it has nothing. It counts as
     * active, so that the next check of the quorum does not count it as lost before it could answer. */
    pr->next = c->last > 1 ? c->last : 1;
    pr->vote = -1;
    pr->learner = learner;
    pr->recent_active = true;
    return 0;
}

static int make_voter(struct changer *c, raft_id id)
{
    ASSERT(id != 0);
    struct raft_conf_state *cs = &c->t.conf;
    struct raft__progress *pr = raft__tracker_find(&c->t, id);
    if (pr == NULL) return add_member(c, id, false);
    pr->learner = false;
    ids_remove(cs->learners, &cs->learner_count, id);
    ids_remove(cs->learners_next, &cs->learner_next_count, id);
    if (ids_add(cs->voters, &cs->voter_count, id) < 0) return refuse(c, "too many members");
    return 0;
}

static void remove_member(struct changer *c, raft_id id)
{
    ASSERT(id != 0);
    struct raft_conf_state *cs = &c->t.conf;
    if (raft__tracker_find(&c->t, id) == NULL) return;
    ids_remove(cs->voters, &cs->voter_count, id);
    ids_remove(cs->learners, &cs->learner_count, id);
    ids_remove(cs->learners_next, &cs->learner_next_count, id);
    /* A voter of the outgoing half is still needed there. */
    if (!raft__ids_have(cs->voters_outgoing, cs->voter_outgoing_count, id)) drop_progress(c, id);
}

static int make_learner(struct changer *c, raft_id id)
{
    ASSERT(id != 0);
    struct raft_conf_state *cs = &c->t.conf;
    struct raft__progress *pr = raft__tracker_find(&c->t, id);
    if (pr == NULL) return add_member(c, id, true);
    if (pr->learner) return 0;
    struct raft__progress kept = *pr;
    remove_member(c, id);
    pr = raft__tracker_find(&c->t, id);
    if (pr == NULL) pr = insert_progress(c, id);
    *pr = kept;
    /* It must not be a learner while it still votes in the outgoing half: it becomes one on leaving. */
    int rc;
    if (raft__ids_have(cs->voters_outgoing, cs->voter_outgoing_count, id)) {
        rc = ids_add(cs->learners_next, &cs->learner_next_count, id);
    } else {
        pr->learner = true;
        rc = ids_add(cs->learners, &cs->learner_count, id);
    }
    return rc < 0 ? refuse(c, "too many members") : 0;
}

static int apply_one(struct changer *c, const struct raft_conf_single *ch)
{
    ASSERT(ch != NULL);
    if (ch->node_id == 0) return 0; /* refused by the application: no effect */
    switch (ch->type) {
    case RAFT_CONF_ADD_NODE: return make_voter(c, ch->node_id);
    case RAFT_CONF_ADD_LEARNER: return make_learner(c, ch->node_id);
    case RAFT_CONF_REMOVE_NODE: remove_member(c, ch->node_id); return 0;
    case RAFT_CONF_UPDATE_NODE: return 0;
    }
    return refuse(c, "unexpected conf type");
}

static int apply_all(struct changer *c, const struct raft_conf_single *ch, uint32_t n)
{
    ASSERT(ch != NULL || n == 0);
    for (uint32_t i = 0; i < n; i++) {
        int rc = apply_one(c, &ch[i]);
        if (rc < 0) return rc;
    }
    if (c->t.conf.voter_count == 0) return refuse(c, "removed all voters");
    return 0;
}

/* How many ids are in exactly one of the two voter lists. */
static uint32_t voter_difference(const struct raft_conf_state *a, const struct raft_conf_state *b)
{
    ASSERT(a->voter_count <= RAFT_MEMBERS_MAX);
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->voter_count; i++)
        n += !raft__ids_have(b->voters, b->voter_count, a->voters[i]);
    for (uint32_t i = 0; i < b->voter_count; i++)
        n += !raft__ids_have(a->voters, a->voter_count, b->voters[i]);
    return n;
}

int raft__conf_simple(struct raft__tracker *t, const struct alloc *alloc, raft_index last,
                      const struct raft_conf_single *ch, uint32_t n, struct errmsg *em)
{
    ASSERT(n <= 4 * RAFT_MEMBERS_MAX);
    struct changer c;
    int rc = changer_begin(&c, t, alloc, last, n, em);
    if (rc < 0) return rc;
    if (raft__conf_joint(&t->conf))
        return changer_end(&c, t, refuse(&c, "can't apply simple config change in joint config"));
    rc = apply_all(&c, ch, n);
    if (rc == 0 && voter_difference(&t->conf, &c.t.conf) > 1)
        rc = refuse(&c, "more than one voter changed without entering joint config");
    return changer_end(&c, t, rc);
}

int raft__conf_enter_joint(struct raft__tracker *t, const struct alloc *alloc, raft_index last,
                           bool auto_leave, const struct raft_conf_single *ch, uint32_t n,
                           struct errmsg *em)
{
    ASSERT(n <= 4 * RAFT_MEMBERS_MAX);
    struct changer c;
    int rc = changer_begin(&c, t, alloc, last, n, em);
    if (rc < 0) return rc;
    struct raft_conf_state *cs = &c.t.conf;
    if (raft__conf_joint(cs)) {
        rc = refuse(&c, "config is already joint");
    } else if (cs->voter_count == 0) {
        /* The first voter of a cluster comes by a simple change: there is no old majority to ask. */
        rc = refuse(&c, "can't make a zero-voter config joint");
    } else {
        memcpy(cs->voters_outgoing, cs->voters, sizeof cs->voters);
        cs->voter_outgoing_count = cs->voter_count;
        rc = apply_all(&c, ch, n);
        cs->auto_leave = auto_leave;
    }
    return changer_end(&c, t, rc);
}

int raft__conf_leave_joint(struct raft__tracker *t, const struct alloc *alloc, struct errmsg *em)
{
    ASSERT(t->count <= t->cap);
    struct changer c;
    int rc = changer_begin(&c, t, alloc, 0, 0, em);
    if (rc < 0) return rc;
    struct raft_conf_state *cs = &c.t.conf;
    if (!raft__conf_joint(cs))
        return changer_end(&c, t, refuse(&c, "can't leave a non-joint config"));
    for (uint32_t i = 0; i < cs->learner_next_count && rc == 0; i++) {
        raft_id id = cs->learners_next[i];
        struct raft__progress *pr = raft__tracker_find(&c.t, id);
        ASSERT(pr != NULL);
        pr->learner = true;
        if (ids_add(cs->learners, &cs->learner_count, id) < 0) rc = refuse(&c, "too many members");
    }
    for (uint32_t i = 0; i < cs->voter_outgoing_count; i++) {
        raft_id id = cs->voters_outgoing[i];
        if (!raft__ids_have(cs->voters, cs->voter_count, id) &&
            !raft__ids_have(cs->learners, cs->learner_count, id))
            drop_progress(&c, id);
    }
    memset(cs->learners_next, 0, sizeof cs->learners_next);
    memset(cs->voters_outgoing, 0, sizeof cs->voters_outgoing);
    cs->learner_next_count = 0;
    cs->voter_outgoing_count = 0;
    cs->auto_leave = false;
    return changer_end(&c, t, rc);
}

int raft__conf_change(struct raft__tracker *t, const struct alloc *alloc, raft_index last,
                      const struct raft_conf_change *cc, struct errmsg *em)
{
    ASSERT(cc->change_count <= RAFT_CONF_CHANGES_MAX);
    if (cc->transition == RAFT_CONF_AUTO && cc->change_count == 0)
        return raft__conf_leave_joint(t, alloc, em);
    if (cc->transition == RAFT_CONF_AUTO && cc->change_count == 1)
        return raft__conf_simple(t, alloc, last, cc->changes, 1, em);
    return raft__conf_enter_joint(t, alloc, last, cc->transition != RAFT_CONF_JOINT_EXPLICIT,
                                  cc->changes, cc->change_count, em);
}

static uint32_t singles(struct raft_conf_single *out, enum raft_conf_change_type type,
                        const raft_id *ids, uint32_t n)
{
    ASSERT(n <= RAFT_MEMBERS_MAX);
    for (uint32_t i = 0; i < n; i++)
        out[i] = (struct raft_conf_single){type, ids[i]};
    return n;
}

static int restore_one_by_one(struct raft__tracker *t, const struct alloc *alloc, raft_index last,
                              const struct raft_conf_single *ch, uint32_t n, struct errmsg *em)
{
    ASSERT(n <= 4 * RAFT_MEMBERS_MAX);
    int rc = 0;
    for (uint32_t i = 0; i < n && rc == 0; i++)
        rc = raft__conf_simple(t, alloc, last, &ch[i], 1, em);
    return rc;
}

int raft__conf_restore(struct raft__tracker *t, const struct alloc *alloc, raft_index last,
                       const struct raft_conf_state *cs, struct errmsg *em)
{
    ASSERT(t->count == 0);
    if (cs->voter_count > RAFT_MEMBERS_MAX || cs->learner_count > RAFT_MEMBERS_MAX ||
        cs->voter_outgoing_count > RAFT_MEMBERS_MAX || cs->learner_next_count > RAFT_MEMBERS_MAX) {
        errmsg_set(em, "conf state has too many members");
        return E_INVAL;
    }
    struct raft_conf_single in[4 * RAFT_MEMBERS_MAX];
    uint32_t n = singles(in, RAFT_CONF_REMOVE_NODE, cs->voters_outgoing, cs->voter_outgoing_count);
    n += singles(in + n, RAFT_CONF_ADD_NODE, cs->voters, cs->voter_count);
    n += singles(in + n, RAFT_CONF_ADD_LEARNER, cs->learners, cs->learner_count);
    n += singles(in + n, RAFT_CONF_ADD_LEARNER, cs->learners_next, cs->learner_next_count);
    int rc;
    if (!raft__conf_joint(cs)) {
        rc = restore_one_by_one(t, alloc, last, in, n, em);
    } else {
        struct raft_conf_single old[RAFT_MEMBERS_MAX];
        uint32_t m =
            singles(old, RAFT_CONF_ADD_NODE, cs->voters_outgoing, cs->voter_outgoing_count);
        rc = restore_one_by_one(t, alloc, last, old, m, em);
        if (rc == 0) rc = raft__conf_enter_joint(t, alloc, last, cs->auto_leave, in, n, em);
    }
    if (rc == 0 && !raft_conf_state_eq(cs, &t->conf)) {
        errmsg_set(em, "conf state contradicts itself");
        rc = E_INVAL;
    }
    return rc;
}

struct text {
    char *out;
    size_t len;
    size_t cap;
};

static void text_put(struct text *t, const char *s)
{
    ASSERT(t->len < t->cap);
    for (; *s != '\0' && t->len + 1 < t->cap; s++)
        t->out[t->len++] = *s;
    t->out[t->len] = '\0';
}

static void text_ids(struct text *t, const char *before, const raft_id *ids, uint32_t n)
{
    ASSERT(n <= RAFT_MEMBERS_MAX);
    text_put(t, before);
    text_put(t, "(");
    for (uint32_t i = 0; i < n; i++) {
        char id[24];
        (void)snprintf(id, sizeof id, "%s%" PRIx64, i == 0 ? "" : " ", ids[i]);
        text_put(t, id);
    }
    text_put(t, ")");
}

const char *raft__conf_text(const struct raft_conf_state *cs, char out[RAFT__CONF_TEXT_MAX])
{
    ASSERT(cs != NULL);
    struct text t = {out, 0, RAFT__CONF_TEXT_MAX};
    text_ids(&t, "voters=", cs->voters, cs->voter_count);
    if (raft__conf_joint(cs)) text_ids(&t, "&&", cs->voters_outgoing, cs->voter_outgoing_count);
    if (cs->learner_count > 0) text_ids(&t, " learners=", cs->learners, cs->learner_count);
    if (cs->learner_next_count > 0)
        text_ids(&t, " learners_next=", cs->learners_next, cs->learner_next_count);
    if (cs->auto_leave) text_put(&t, " autoleave");
    return out;
}

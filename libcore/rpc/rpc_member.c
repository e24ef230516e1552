/* What a member says of itself and its cluster: member list, status, hashes. */
#include "rpc/rpc_int.h"

#include <inttypes.h>
#include <stdio.h>

#include "alarm/alarm.h"
#include "etcdserverpb.pb-c.h"
#include "membership/membership.h"

enum {
    HASH_ROWS_PER_STEP = 65536, /* a worker has nothing else to do: only bounds one call */
    STATUS_ERRORS_MAX = 64
};

/* --- member list ---------------------------------------------------------------------------------- */

static char *text_of(struct arena *a, struct bytes s)
{
    return (char *)(uintptr_t)arena_copy(a, s).data;
}

static char **texts_of(struct arena *a, const struct bytes *list, size_t count)
{
    char **out = arena_new(a, (count + 1) * sizeof *out);
    for (size_t i = 0; out != NULL && i < count; i++) {
        out[i] = text_of(a, list[i]);
        if (out[i] == NULL) return NULL;
    }
    return out;
}

static Etcdserverpb__Member *member_message(struct arena *a, const struct member *m)
{
    Etcdserverpb__Member *out = arena_new(a, sizeof *out);
    if (out == NULL) return NULL;
    etcdserverpb__member__init(out);
    out->id = m->id;
    out->name = text_of(a, m->name);
    out->n_peerurls = m->peer_url_count;
    out->peerurls = texts_of(a, m->peer_urls, m->peer_url_count);
    out->n_clienturls = m->client_url_count;
    out->clienturls = texts_of(a, m->client_urls, m->client_url_count);
    out->islearner = m->is_learner;
    return out->name == NULL || out->peerurls == NULL || out->clienturls == NULL ? NULL : out;
}

static void answer_members(struct rpc_call *c)
{
    const struct rpc_member *m = c->t->member;
    struct arena *a = &c->t->scratch;
    if (c->job.wait.rc < 0) {
        rpc__fail(c, c->job.wait.rc);
        return;
    }
    struct membership *members = m->members(m->arg);
    Etcdserverpb__ResponseHeader header;
    Etcdserverpb__MemberListResponse out;
    etcdserverpb__member_list_response__init(&out);
    rpc__header_fill(c->t, 0, &header);
    out.header = &header;
    out.n_members = membership_count(members);
    out.members = arena_new(a, (out.n_members + 1) * sizeof *out.members);
    int rc = out.members == NULL ? E_NOMEM : 0;
    for (size_t i = 0; i < out.n_members && rc == 0; i++) {
        out.members[i] = member_message(a, membership_at(members, i));
        if (out.members[i] == NULL) rc = E_NOMEM;
    }
    membership_unref(members);
    if (rc < 0) {
        rpc__fail(c, rc);
    } else {
        rpc__reply_pb(c, &out.base);
    }
}

void rpc__member_list(struct rpc_call *c, struct bytes msg)
{
    const struct rpc_member *m = c->t->member;
    Etcdserverpb__MemberListRequest *q =
        rpc__unpack(c, &etcdserverpb__member_list_request__descriptor, msg);
    if (q == NULL) return;
    if (!q->linearizable || m->reads_alone(m->arg)) {
        answer_members(c);
        return;
    }
    rpc__ask(c, RPC_ASK_READ, NULL, m->next_request_id(m->arg), answer_members);
}

/* --- status ----------------------------------------------------------------------------------------- */

const char *rpc__alarm_name(int32_t type)
{
    return type == ALARM_NONE      ? "NONE"
           : type == ALARM_NOSPACE ? "NOSPACE"
           : type == ALARM_CORRUPT ? "CORRUPT"
                                   : NULL;
}

static int alarm_texts(struct rpc_call *c, struct arena *a, char **errors, size_t *count)
{
    const struct rpc_member *m = c->t->member;
    struct alarms *alarms = m->alarms(m->arg);
    int rc = 0;
    for (size_t i = 0; i < alarm_count(alarms) && *count < STATUS_ERRORS_MAX && rc == 0; i++) {
        struct pb_alarm alarm = alarm_at(alarms, i);
        const char *name = rpc__alarm_name(alarm.type);
        char line[96];
        int len = name != NULL ? snprintf(line, sizeof line, "memberID:%" PRIu64 " alarm:%s",
                                          alarm.member_id, name)
                               : snprintf(line, sizeof line, "memberID:%" PRIu64 " alarm:%d",
                                          alarm.member_id, (int)alarm.type);
        errors[*count] = text_of(a, bytes_of(line, (size_t)len));
        if (errors[*count] == NULL) rc = E_NOMEM;
        (*count)++;
    }
    alarm_unref(alarms);
    return rc;
}

static void fill_downgrade(const struct membership *members, struct arena *a,
                           Etcdserverpb__DowngradeInfo *out)
{
    etcdserverpb__downgrade_info__init(out);
    struct membership_downgrade d = membership_downgrade(members);
    out->enabled = d.enabled;
    char *target = text_of(a, d.target);
    if (target != NULL) out->targetversion = target;
}

void rpc__status(struct rpc_call *c, struct bytes msg)
{
    const struct rpc_member *m = c->t->member;
    struct arena *a = &c->t->scratch;
    if (rpc__unpack(c, &etcdserverpb__status_request__descriptor, msg) == NULL) return;
    struct rpc_status s;
    m->status(m->arg, &s);
    char *errors[STATUS_ERRORS_MAX + 1];
    Etcdserverpb__ResponseHeader header;
    Etcdserverpb__DowngradeInfo downgrade;
    Etcdserverpb__StatusResponse out;
    etcdserverpb__status_response__init(&out);
    rpc__header_fill(c->t, mvcc_revision(m->mvcc), &header);
    out.header = &header;
    out.version = (char *)(uintptr_t)RPC_SERVER_VERSION;
    out.dbsize = (int64_t)s.db_bytes;
    out.dbsizeinuse = (int64_t)s.db_in_use_bytes;
    out.dbsizequota = s.quota_bytes;
    out.leader = s.leader;
    out.raftindex = s.committed;
    out.raftappliedindex = s.applied;
    out.raftterm = s.term;
    out.islearner = s.is_learner;
    out.storageversion = s.storage_version;
    out.downgradeinfo = &downgrade;
    out.errors = errors;
    if (s.leader == 0) errors[out.n_errors++] = (char *)(uintptr_t)err_text(E_NO_LEADER);
    struct membership *members = m->members(m->arg);
    fill_downgrade(members, a, &downgrade);
    int rc = alarm_texts(c, a, errors, &out.n_errors);
    membership_unref(members);
    if (rc < 0) {
        rpc__fail(c, rc);
    } else {
        rpc__reply_pb(c, &out.base);
    }
}

/* --- hashes ------------------------------------------------------------------------------------------ */

/* One hash at work, on a worker thread. */
struct hash {
    int64_t revision;
    int rc;
    struct mvcc_hash_answer answer;
    uint32_t all;
};

void rpc__hash_drop(struct rpc_call *c)
{
    if (c->state != NULL) grpc_pool_put(c->t->pool, c->state, sizeof(struct hash));
}

static struct hash *hash_new(struct rpc_call *c, int64_t revision)
{
    struct hash *h = grpc_pool_get(c->t->pool, sizeof *h);
    if (h == NULL) {
        rpc__fail(c, E_NOMEM);
        return NULL;
    }
    *h = (struct hash){.revision = revision};
    c->state = h;
    return h;
}

static void work_hash_kv(struct rpc_job *job)
{
    struct rpc_call *c = (struct rpc_call *)job;
    struct hash *h = c->state;
    struct mvcc_hash run;
    struct errmsg em = {""};
    int rc = mvcc_hash_open(c->t->member->mvcc, h->revision, &run);
    if (rc == 0) {
        do
            rc = mvcc_hash_step(&run, HASH_ROWS_PER_STEP, &em);
        while (rc > 0 && !atomic_load(&job->unwanted));
        h->answer = run.answer;
        mvcc_hash_close(&run);
    }
    h->rc = rc;
}

static void answer_hash_kv(struct rpc_call *c)
{
    const struct hash *h = c->state;
    if (h->rc < 0) {
        rpc__fail(c, h->rc);
        return;
    }
    Etcdserverpb__ResponseHeader header;
    Etcdserverpb__HashKVResponse out;
    etcdserverpb__hash_kvresponse__init(&out);
    rpc__header_fill(c->t, h->answer.current_rev, &header);
    out.header = &header;
    out.hash = h->answer.hash;
    out.compact_revision = h->answer.compact_rev;
    out.hash_revision = h->answer.hash_rev;
    rpc__reply_pb(c, &out.base);
}

void rpc__hash_kv(struct rpc_call *c, struct bytes msg)
{
    const struct rpc_member *m = c->t->member;
    Etcdserverpb__HashKVRequest *q = rpc__unpack(c, &etcdserverpb__hash_kvrequest__descriptor, msg);
    if (q == NULL || hash_new(c, q->revision) == NULL) return;
    rpc__wait(c, answer_hash_kv);
    c->job.work = work_hash_kv;
    m->work(m->arg, &c->job);
}

static void work_hash(struct rpc_job *job)
{
    struct rpc_call *c = (struct rpc_call *)job;
    const struct backend *b = c->t->member->backend;
    struct hash *h = c->state;
    struct backend_read *read = NULL;
    struct errmsg em = {""};
    h->rc = b->read_begin(b->arg, &read, &em);
    if (h->rc < 0) return;
    h->rc = mvcc_hash_all(b, read, &h->all);
    b->read_end(read);
}

static void answer_hash(struct rpc_call *c)
{
    const struct hash *h = c->state;
    if (h->rc < 0) {
        rpc__fail(c, h->rc);
        return;
    }
    Etcdserverpb__ResponseHeader header;
    Etcdserverpb__HashResponse out;
    etcdserverpb__hash_response__init(&out);
    rpc__header_fill(c->t, mvcc_revision(c->t->member->mvcc), &header);
    out.header = &header;
    out.hash = h->all;
    rpc__reply_pb(c, &out.base);
}

static void hash_committed(struct rpc_call *c)
{
    const struct rpc_member *m = c->t->member;
    if (c->job.wait.rc < 0) {
        rpc__fail(c, c->job.wait.rc);
        return;
    }
    rpc__wait(c, answer_hash);
    c->job.work = work_hash;
    m->work(m->arg, &c->job);
}

/* The hash covers what is in the store's tables, so the runs go there first. */
void rpc__hash(struct rpc_call *c, struct bytes msg)
{
    if (rpc__unpack(c, &etcdserverpb__hash_request__descriptor, msg) == NULL) return;
    if (hash_new(c, 0) == NULL) return;
    rpc__ask(c, RPC_ASK_COMMIT, NULL, 0, hash_committed);
}

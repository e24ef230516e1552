/* The member as requests see it (rpc/rpc.h): every function may be called from any io thread. */
#include "server/server_int.h"

#include <stdio.h>

#include "alarm/alarm.h"
#include "base/err.h"
#include "os/heap.h"
#include "pb/wire.h"
#include "rpc/rpc_hub.h"

static uint64_t next_request_id(void *arg)
{
    struct server *s = arg;
    return node_ids_next(&s->ids);
}

/* Commits and questions about leases go to the apply actor, what is left of the chain to the raft actor; leases and the
 * rest each in one piece. */
static void submit(void *arg, struct rpc_wait *chain)
{
    struct server *s = arg;
    struct rpc_wait *raft = NULL;
    struct rpc_wait **end = &raft;
    struct rpc_wait *leases = NULL;
    struct rpc_wait **lease_end = &leases;
    while (chain != NULL) {
        struct rpc_wait *w = chain;
        chain = w->next;
        w->next = NULL;
        if (w->ask == RPC_ASK_COMMIT) {
            server__apply_post(s, &w->input, APPLY_IN_COMMIT, true);
        } else if (w->ask == RPC_ASK_DEFRAGMENT) {
            server__defragment(s, w);
        } else if (w->ask == RPC_ASK_LEASE) {
            *lease_end = w;
            lease_end = &w->next;
        } else {
            *end = w;
            end = &w->next;
        }
    }
    if (leases != NULL) server__apply_post(s, &leases->input, APPLY_IN_LEASES, true);
    if (raft != NULL) server__raft_post(s, &raft->input, RAFT_IN_CHAIN, true);
}

static bool reads_alone(void *arg)
{
    struct server *s = arg;
    return atomic_load(&s->status.reads_alone);
}

static void status(void *arg, struct rpc_status *out)
{
    struct server *s = arg;
    *out = (struct rpc_status){.term = atomic_load(&s->status.term),
                               .leader = atomic_load(&s->status.lead),
                               .committed = atomic_load(&s->status.commit),
                               .applied = atomic_load(&s->status.applied),
                               .db_bytes = atomic_load(&s->db_bytes),
                               .db_in_use_bytes = atomic_load(&s->db_in_use_bytes),
                               .is_learner = atomic_load(&s->status.learner),
                               .stopping = atomic_load(&s->phase) >= SERVER_DRAINING};
    int64_t quota = s->config->quota_backend_bytes;
    out->quota_bytes = quota == 0 ? APPLY_QUOTA_BYTES_DEFAULT : quota;
    bool known = atomic_load(&s->storage_version_known);
    snprintf(out->storage_version, sizeof out->storage_version, "%s", known ? "3.7.0" : "");
}

static uint64_t term(void *arg)
{
    struct server *s = arg;
    return atomic_load_explicit(&s->status.term, memory_order_relaxed);
}

static struct membership *members(void *arg)
{
    struct server *s = arg;
    mutex_lock(&s->versions_mutex);
    struct membership *m = membership_ref(s->members);
    mutex_unlock(&s->versions_mutex);
    return m;
}

static struct alarms *alarms(void *arg)
{
    struct server *s = arg;
    mutex_lock(&s->versions_mutex);
    struct alarms *a = alarm_ref(s->alarms);
    mutex_unlock(&s->versions_mutex);
    return a;
}

/* Once the cluster's version is known the store gets its own version, outside raft (bbolt-format.md 14). */
static void set_storage_version(struct server *s, const struct membership *m)
{
    if (membership_version(m).len == 0 || atomic_load(&s->storage_version_known)) return;
    struct store_item *item = server__need(s, sizeof *item);
    *item = (struct store_item){.storage_version = true};
    if (!thread_queue_put(&s->store_queue, &item->link)) alloc_free(s->alloc, item, sizeof *item);
}

void server__publish_members(struct server *s, struct membership *m)
{
    set_storage_version(s, m);
    mutex_lock(&s->versions_mutex);
    struct membership *old = s->members;
    s->members = m;
    mutex_unlock(&s->versions_mutex);
    membership_unref(old);
}

void server__publish_alarms(struct server *s, struct alarms *a)
{
    mutex_lock(&s->versions_mutex);
    struct alarms *old = s->alarms;
    s->alarms = a;
    mutex_unlock(&s->versions_mutex);
    alarm_unref(old);
}

static void run_job(struct work *w)
{
    struct job_item *item =
        (struct job_item *)(void *)((char *)w - offsetof(struct job_item, work));
    struct rpc_job *job = item->job;
    alloc_free(item->s->alloc, item, sizeof *item);
    job->work(job);
    loop_post(job->wait.loop, &job->wait.task);
}

static void work(void *arg, struct rpc_job *job)
{
    struct server *s = arg;
    struct job_item *item = server__need(s, sizeof *item);
    *item = (struct job_item){.work = {.run = run_job}, .job = job, .s = s};
    workers_put(s->workers, &item->work);
}

/* The alarm's entry has been answered; nobody waits for what it said. */
static void alarm_answered(struct task *task)
{
    struct rpc_wait *w = (struct rpc_wait *)(void *)task;
    apply_result_free(w->result);
    alloc_free(&os_heap, w, sizeof *w);
}

/* InternalRaftRequest{header{ID}, alarm{ACTIVATE, own id, NOSPACE}}, as upstream writes it. */
static struct rcbuf *alarm_entry(const struct server *s, uint64_t id)
{
    size_t alarm_len = pb_uint_size(1, 1) + pb_uint_size(2, s->member_id) +
                       pb_uint_size(3, ALARM_NOSPACE);
    size_t header_len = pb_uint_size(1, id);
    struct rcbuf *entry =
        rcbuf_new(s->alloc, pb_len_size(10, alarm_len) + pb_len_size(100, header_len));
    if (entry == NULL) return NULL;
    uint8_t *at = pb_write_len(entry->data, 10, alarm_len);
    at = pb_write_uint(at, 1, 1);
    at = pb_write_uint(at, 2, s->member_id);
    at = pb_write_uint(at, 3, ALARM_NOSPACE);
    at = pb_write_len(at, 100, header_len);
    (void)pb_write_uint(at, 1, id);
    return entry;
}

static void raise_nospace(void *arg)
{
    struct server *s = arg;
    uint64_t id = node_ids_next(&s->ids);
    struct rpc_wait *w = alloc_zero(&os_heap, sizeof *w);
    struct rcbuf *entry = w == NULL ? NULL : alarm_entry(s, id);
    if (entry == NULL) {
        /* The request was refused all the same, and the next one raises the alarm. */
        alloc_free(&os_heap, w, sizeof *w);
        return;
    }
    w->task.run = alarm_answered;
    w->loop = s->control;
    w->ask = RPC_ASK_PROPOSE;
    w->entry = entry;
    w->waiter.request_id = id;
    submit(s, w);
}

void server__face_init(struct server *s)
{
    const struct config *c = s->config;
    s->member = (struct rpc_member){.arg = s,
                                    .cluster_id = s->cluster_id,
                                    .member_id = s->member_id,
                                    .mvcc = s->mvcc,
                                    .apply = node_apply_core(s->apply),
                                    .backend = &s->backend,
                                    .clock = &s->clock,
                                    .health = &s->health,
                                    .request_bytes_max = (uint32_t)c->max_request_bytes,
                                    .txn_ops_max = (uint32_t)c->max_txn_ops,
                                    .cors = c->cors.items,
                                    .cors_count = c->cors.count,
                                    .hosts = c->host_whitelist.items,
                                    .host_count = c->host_whitelist.count,
                                    .next_request_id = next_request_id,
                                    .submit = submit,
                                    .raise_nospace = raise_nospace,
                                    .reads_alone = reads_alone,
                                    .status = status,
                                    .term = term,
                                    .members = members,
                                    .alarms = alarms,
                                    .work = work,
                                    .metrics = server__metrics,
                                    .watch_progress_ns = c->watch_progress_notify_interval,
                                    .election_ns = (int64_t)c->election_timeout * 1000000};
    if (rpc_hub_new(s->mvcc, s->alloc, &s->member.hub) < 0) (void)server__need(s, SIZE_MAX);
}

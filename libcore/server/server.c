/* The control thread: it makes everything, keeps time, and takes it all down again in order.
 *
 * Down: clients are drained (GOAWAY, running calls may finish, at most T), raft is stopped, apply answers and commits what is
 * left, then the threads end, WAL before store, and last everything is freed. */
#include "server/server.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/limits.h"
#include "os/clock.h"
#include "os/disk.h"
#include "os/heap.h"
#include "os/proc.h"
#include "os/sdnotify.h"
#include "server/server_int.h"

enum { DRAIN_POLL_MS = 20, FINISH_POLL_MS = 5 };

/* --- the end of everything ----------------------------------------------------------------------------- */

void server__fatal(struct server *s, const struct errmsg *em)
{
    if (atomic_exchange(&s->fatal_set, true)) return;
    s->fatal = *em;
    loop_post(s->control, &s->fatal_task);
}

void *server__need(struct server *s, size_t bytes)
{
    void *block = bytes == 0 || bytes == SIZE_MAX ? NULL : alloc_zero(s->alloc, bytes);
    if (block != NULL || bytes == 0) return block;
    LOG(s->log, LOG_FATAL, "out of memory, and what was taken on cannot be dropped");
    assert_failed(__FILE__, __LINE__, "memory for what cannot be refused");
}

static void on_fatal(struct task *t)
{
    struct server *s = (struct server *)(void *)((char *)t - offsetof(struct server, fatal_task));
    s->phase = SERVER_STOPPED;
    loop_stop(s->control);
}

/* --- time ---------------------------------------------------------------------------------------------- */

static void on_tick(void *arg)
{
    struct server *s = arg;
    mvcc_tick(s->mvcc, (int64_t)(s->clock.mono_ns(s->clock.arg) / 1000000));
    server__lone_post(s, &s->raft_tick, true, RAFT_IN_TICK, true);
    server__lone_post(s, &s->apply_tick, false, APPLY_IN_TICK, true);
}

static void on_deadline(void *arg)
{
    struct server *s = arg;
    atomic_store(&s->deadline_ns, INT64_MAX);
    server__lone_post(s, &s->apply_tick, false, APPLY_IN_TICK, true);
}

static void on_arm(struct task *t)
{
    struct server *s = (struct server *)(void *)((char *)t - offsetof(struct server, arm_deadline));
    atomic_store(&s->arm_queued, false);
    int64_t deadline = atomic_load(&s->deadline_ns);
    if (deadline == INT64_MAX) return;
    int64_t now = (int64_t)s->clock.mono_ns(s->clock.arg);
    loop_timer_start(s->deadline_timer,
                     deadline > now ? (uint64_t)(deadline - now) / 1000000 + 1 : 0, 0);
}

/* --- going down ------------------------------------------------------------------------------------------ */

struct io_call {
    struct task task; /* first */
    struct io_thread *io;
    void (*fn)(struct conn_set *s);
};

static void on_io_call(struct task *t)
{
    struct io_call *call = (struct io_call *)(void *)t;
    call->fn(call->io->conns);
    alloc_free(call->io->s->alloc, call, sizeof *call);
}

static void call_io(struct server *s, void (*fn)(struct conn_set *set))
{
    for (unsigned i = 0; i < s->io_count; i++) {
        struct io_call *call = server__need(s, sizeof *call);
        *call = (struct io_call){.task = {.run = on_io_call}, .io = &s->io[i], .fn = fn};
        loop_post(s->io[i].loop, &call->task);
    }
}

static void stop_raft(struct server *s)
{
    s->phase = SERVER_STOPPING;
    loop_timer_stop(s->stop_timer);
    server__lone_post(s, &s->raft_stop, true, RAFT_IN_STOP, true);
}

static bool io_idle(struct server *s)
{
    size_t open = 0;
    for (unsigned i = 0; i < s->io_count; i++)
        open += conn_set_open(s->io[i].conns);
    return open == 0;
}

static void on_drain_poll(void *arg)
{
    struct server *s = arg;
    uint64_t now = s->clock.mono_ns(s->clock.arg);
    uint64_t limit = (5000 + 2 * s->config->election_timeout) * 1000000ULL;
    if (io_idle(s) || now - s->drain_start_ns > limit) stop_raft(s);
}

static void begin_stop(struct server *s, int signum)
{
    if (s->phase >= SERVER_DRAINING) return;
    s->stop_signal = signum;
    LOG(s->log, LOG_INFO, "received signal; shutting down", LOGF_INT("signal", signum));
    (void)sdnotify("STOPPING=1", NULL);
    server__unlisten(s);
    s->phase = SERVER_DRAINING;
    s->drain_start_ns = s->clock.mono_ns(s->clock.arg);
    call_io(s, conn_set_drain);
    loop_timer_start(s->stop_timer, DRAIN_POLL_MS, DRAIN_POLL_MS);
}

static void on_signal(void *arg, int signum)
{
    begin_stop(arg, signum);
}

static void on_stopped(struct task *t)
{
    struct server *s = (struct server *)(void *)((char *)t - offsetof(struct server, stopped_task));
    s->phase = SERVER_STOPPED;
    loop_stop(s->control);
}

static void on_ready(struct task *t)
{
    struct server *s = (struct server *)(void *)((char *)t - offsetof(struct server, ready_task));
    struct errmsg em = {""};
    if (s->phase != SERVER_STARTING) return;
    s->phase = SERVER_SERVING;
    LOG(s->log, LOG_INFO, "published local member to cluster through raft",
        LOGF_HEX("local-member-id", s->member_id), LOGF_HEX("cluster-id", s->cluster_id));
    LOG(s->log, LOG_INFO, "ready to serve client requests");
    if (server__accept(s, true, &em) < 0) server__fatal(s, &em);
    (void)sdnotify("READY=1", NULL);
}

/* --- threads ------------------------------------------------------------------------------------------- */

static void run_io(void *arg)
{
    struct io_thread *io = arg;
    loop_run(io->loop);
}

static int make_loops(struct server *s, struct errmsg *em)
{
    unsigned cores = proc_cpu_count();
    s->io_count = s->config->io_threads > 0 ? (unsigned)s->config->io_threads
                  : cores > 0               ? cores
                                            : 1;
    if (s->io_count > IO_THREADS_MAX) s->io_count = IO_THREADS_MAX;
    for (unsigned i = 0; i < s->io_count; i++) {
        s->io[i].s = s;
        int rc = loop_new(s->alloc, &s->io[i].loop, em);
        if (rc < 0) return rc;
    }
    return 0;
}

static int start_io(struct server *s, struct errmsg *em)
{
    for (unsigned i = 0; i < s->io_count; i++) {
        int rc = conn_set_new(s->io[i].loop, s->alloc, &s->clock, &s->member, &s->limits,
                              &s->io[i].conns);
        if (rc == 0) rc = thread_start(&s->io[i].thread, "io", run_io, &s->io[i], em);
        if (rc < 0) return rc;
        s->io[i].started = true;
    }
    return 0;
}

static void set_limits(struct server *s)
{
    const struct config *c = s->config;
    s->limits.grpc = grpc_conn_opts_default();
    s->limits.http = http1_opts_default();
    s->limits.grpc.recv_bytes_max = (uint32_t)c->max_request_bytes + GRPC_OVERHEAD_BYTES;
    s->limits.grpc.streams_max = (uint32_t)c->max_concurrent_streams;
    s->limits.grpc.keepalive_min_time_ns = (uint64_t)c->grpc_keepalive_min_time;
    s->limits.grpc.keepalive_time_ns =
        c->grpc_keepalive_interval > 0 ? (uint64_t)c->grpc_keepalive_interval : GRPC_NEVER;
    s->limits.grpc.keepalive_timeout_ns = (uint64_t)c->grpc_keepalive_timeout;
}

static int start_control(struct server *s, struct errmsg *em)
{
    s->ready_task.run = on_ready;
    s->stopped_task.run = on_stopped;
    s->fatal_task.run = on_fatal;
    s->arm_deadline.run = on_arm;
    atomic_store(&s->deadline_ns, INT64_MAX);
    int rc = loop_timer_open(s->control, on_tick, s, &s->tick_timer);
    if (rc == 0) rc = loop_timer_open(s->control, on_deadline, s, &s->deadline_timer);
    if (rc == 0) rc = loop_timer_open(s->control, on_drain_poll, s, &s->stop_timer);
    if (rc == 0) rc = signals_open(s->control, on_signal, s, &s->signals, em);
    return rc;
}

static int start(struct server *s, struct errmsg *em)
{
    int rc = server__listen(s, em);
    if (rc == 0) rc = make_loops(s, em);
    if (rc == 0) rc = server__boot(s, em);
    if (rc < 0) return rc;
    server__raft_init(s);
    server__apply_init(s);
    s->actors_ready = true;
    server__face_init(s);
    set_limits(s);
    rc = start_control(s, em);
    if (rc == 0) rc = workers_start(s->alloc, WORKER_COUNT, &s->workers, em);
    if (rc == 0) rc = server__wal_start(s, em);
    if (rc == 0) rc = server__store_start(s, em);
    if (rc == 0) rc = start_io(s, em);
    if (rc == 0) rc = server__accept(s, false, em);
    if (rc < 0) return rc;
    loop_timer_start(s->tick_timer, 0, s->config->heartbeat_interval);
    return 0;
}

/* --- taking down ----------------------------------------------------------------------------------------- */

static void close_timers(struct server *s)
{
    struct loop_timer *const timers[] = {s->tick_timer, s->deadline_timer, s->stop_timer};
    for (size_t i = 0; i < sizeof timers / sizeof *timers; i++) {
        if (timers[i] != NULL) loop_timer_close(timers[i]);
    }
    if (s->signals != NULL) signals_close(s->signals);
}

static void close_conns(struct conn_set *set)
{
    conn_set_close(set);
}

/* Connections close and their last answers come home; then the io threads may end. */
static void stop_io(struct server *s)
{
    call_io(s, close_conns);
    for (unsigned i = 0; i < s->io_count; i++) {
        struct io_thread *io = &s->io[i];
        if (io->started) {
            loop_stop(io->loop);
            thread_join(&io->thread);
        }
        while (io->loop != NULL && io->started) {
            loop_run_once(io->loop);
            if (conn_set_pending(io->conns) == 0 && conn_set_count(io->conns) == 0) break;
        }
        conn_set_free(io->conns);
    }
}

static void take_down(struct server *s)
{
    server__unlisten(s);
    close_timers(s);
    workers_stop(s->workers);
    server__wal_stop(s);
    server__store_stop(s);
    stop_io(s);
    server__unboot(s);
    for (unsigned i = 0; i < s->io_count; i++) {
        if (s->io[i].loop != NULL) loop_free(s->io[i].loop);
    }
}

static int init(struct server *s, const struct config *config, const struct log *log,
                struct errmsg *em)
{
    s->config = config;
    s->alloc = &os_heap;
    s->log = log;
    s->clock = os_clock;
    s->disk = os_disk();
    s->start_ns = s->clock.mono_ns(s->clock.arg);
    s->wal_opts =
        (struct wal_opts){.disk = s->disk, .alloc = s->alloc, .log = log, .clock = &s->clock};
    os_rwlock_init(&s->index_lock);
    mutex_init(&s->versions_mutex);
    thread_queue_init(&s->wal_queue);
    thread_queue_init(&s->store_queue);
    signals_ignore_pipe();
    (void)proc_raise_fd_limit();
    int rc = os_rand_init();
    if (rc == 0) rc = datadir_init(&s->dir, config->data_dir, config->wal_dir);
    return rc < 0 ? rc : loop_new(s->alloc, &s->control, em);
}

static void deinit(struct server *s)
{
    if (s->control != NULL) loop_free(s->control);
    thread_queue_deinit(&s->wal_queue);
    thread_queue_deinit(&s->store_queue);
    mutex_deinit(&s->versions_mutex);
    os_rwlock_deinit(&s->index_lock);
}

static void log_start(const struct server *s)
{
    const struct config *c = s->config;
    LOG(s->log, LOG_INFO, "starting an etcd server", LOGF_STR("etcd-version", RPC_SERVER_VERSION),
        LOGF_STR("name", c->name), LOGF_STR("data-dir", c->data_dir),
        LOGF_STR("wal-dir", c->wal_dir[0] != '\0' ? c->wal_dir : s->dir.wal),
        LOGF_DURATION("heartbeat-interval", (int64_t)c->heartbeat_interval * 1000000),
        LOGF_DURATION("election-timeout", (int64_t)c->election_timeout * 1000000),
        LOGF_UINT("snapshot-count", c->snapshot_count), LOGF_UINT("max-wals", c->max_wals),
        LOGF_UINT("max-snapshots", c->max_snapshots),
        LOGF_UINT("snapshot-catchup-entries", c->snapshot_catchup_entries),
        LOGF_INT("quota-backend-bytes", c->quota_backend_bytes),
        LOGF_UINT("max-request-bytes", c->max_request_bytes), LOGF_BOOL("pre-vote", c->pre_vote),
        LOGF_STR("initial-cluster", c->initial_cluster), LOGF_STR("v2-deprecation", "write-only"));
}

int server_run(const struct config *config, const struct log *log, int *stop_signal,
               struct errmsg *em)
{
    struct server *s = alloc_zero(&os_heap, sizeof *s);
    if (s == NULL) return E_NOMEM;
    int rc = init(s, config, log, em);
    if (rc == 0) log_start(s);
    if (rc == 0) rc = start(s, em);
    if (rc == 0) loop_run(s->control);
    if (rc == 0 && atomic_load(&s->fatal_set)) {
        *em = s->fatal;
        rc = E_IO;
    }
    *stop_signal = s->stop_signal;
    /* After a fatal error nothing may be written any more: memory goes with the process. */
    if (atomic_load(&s->fatal_set)) return rc;
    take_down(s);
    deinit(s);
    alloc_free(&os_heap, s, sizeof *s);
    return rc;
}

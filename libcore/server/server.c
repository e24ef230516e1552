/* The control thread: it makes everything and keeps time; stop.c takes it all down again. */
#include "server/server.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/err.h"
#include "base/limits.h"
#include "os/clock.h"
#include "os/disk.h"
#include "os/heap.h"
#include "os/proc.h"
#include "os/sdnotify.h"
#include "server/server_int.h"

/* --- the end of everything ----------------------------------------------------------------------------- */

void server__fatal(struct server *s, const struct errmsg *em)
{
    mutex_lock(&s->versions_mutex);
    bool first = !atomic_load(&s->fatal_set);
    if (first) s->fatal = *em;
    atomic_store(&s->fatal_set, true);
    mutex_unlock(&s->versions_mutex);
    if (first) loop_post(s->control, &s->fatal_task);
}

static bool take_fatal(struct server *s, struct errmsg *em)
{
    mutex_lock(&s->versions_mutex);
    bool set = atomic_load(&s->fatal_set);
    if (set) *em = s->fatal;
    mutex_unlock(&s->versions_mutex);
    return set;
}

void *server__need(struct server *s, size_t bytes)
{
    void *block = bytes == SIZE_MAX ? NULL : alloc_zero(s->alloc, bytes);
    if (block != NULL) return block;
    LOG(s->log, LOG_FATAL, "out of memory, and what was taken on cannot be dropped");
    assert_failed(__FILE__, __LINE__, "memory for what cannot be refused");
}

static void on_fatal(struct task *t)
{
    struct server *s = (struct server *)(void *)((char *)t - offsetof(struct server, fatal_task));
    atomic_store(&s->phase, SERVER_STOPPED);
    loop_stop(s->control);
}

/* --- time and readiness ---------------------------------------------------------------------------------------------- */

static void on_tick(void *arg)
{
    struct server *s = arg;
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

static void on_ready(struct task *t)
{
    struct server *s = (struct server *)(void *)((char *)t - offsetof(struct server, ready_task));
    struct errmsg em = {""};
    int starting = SERVER_STARTING;
    if (!atomic_compare_exchange_strong(&s->phase, &starting, SERVER_SERVING)) return;
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
    unsigned wanted = s->config->io_threads > 0 ? (unsigned)s->config->io_threads
                      : cores > 0               ? cores
                                                : 1;
    if (wanted > IO_THREADS_MAX) wanted = IO_THREADS_MAX;
    while (s->io_count < wanted) {
        struct io_thread *io = &s->io[s->io_count];
        io->s = s;
        int rc = loop_new(s->alloc, &io->loop, em);
        if (rc < 0) return rc;
        s->io_count++;
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
    s->fatal_task.run = on_fatal;
    s->arm_deadline.run = on_arm;
    atomic_store(&s->deadline_ns, INT64_MAX);
    int rc = loop_timer_open(s->control, on_tick, s, &s->tick_timer);
    if (rc == 0) rc = loop_timer_open(s->control, server__accept_again, s, &s->accept_timer);
    if (rc == 0) rc = loop_timer_open(s->control, on_deadline, s, &s->deadline_timer);
    if (rc == 0) rc = server__stop_init(s);
    if (rc == 0) rc = signals_open(s->control, server__on_signal, s, &s->signals, em);
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

static int init(struct server *s, const struct config *config, const struct log *log,
                struct errmsg *em)
{
    s->config = config;
    s->alloc = &os_heap;
    s->log = log;
    s->clock = os_clock;
    s->disk = os_disk();
    s->start_ns = s->clock.mono_ns(s->clock.arg);
    s->wal_opts = (struct wal_opts){.disk = s->disk,
                                    .alloc = s->alloc,
                                    .log = log,
                                    .clock = &s->clock,
                                    .unsafe_no_sync = config->unsafe_no_fsync};
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

/* What to do next about an error, where the place that met it does not say. */
static const struct {
    int rc;
    const char *text;
} ADVICE[] = {{E_NOSPACE, "free some space and start again"},
              {E_BUSY, "stop what uses it, or choose another address"},
              {E_ACCES, "check owner and mode, and who runs the server"},
              {E_CORRUPT, "restore the member from a backup"},
              {E_EOF, "restore the member from a backup"},
              {E_WAL_CRC, "restore the member from a backup"},
              {E_WAL_FILE_NOT_FOUND, "restore the member from a backup"},
              {E_WAL_SEQUENCE, "restore the member from a backup"},
              {E_WAL_METADATA, "restore the member from a backup"},
              {E_NOT_REGULAR, "restore the member from a backup"},
              {E_UNSUPPORTED, "move it away, or use another --data-dir"},
              {E_EXIST, "move it away, or use another --data-dir"},
              {E_INVAL, "see --help"},
              {E_CONFIG, "see --help"}};

static void add_advice(int rc, struct errmsg *em)
{
    size_t len = strlen(em->text);
    if (strchr(em->text, ';') != NULL) return;
    for (size_t i = 0; i < sizeof ADVICE / sizeof *ADVICE; i++) {
        if (ADVICE[i].rc == rc)
            snprintf(em->text + len, sizeof em->text - len, "; %s", ADVICE[i].text);
    }
}

int server_run(const struct config *config, const struct log *log, struct server_end *end,
               struct errmsg *em)
{
    *end = (struct server_end){0, false};
    struct server *s = alloc_zero(&os_heap, sizeof *s);
    if (s == NULL) return E_NOMEM;
    int rc = init(s, config, log, em);
    if (rc == 0) log_start(s);
    if (rc == 0) rc = start(s, em);
    if (rc < 0) add_advice(rc, em);
    if (rc == 0) loop_run(s->control);
    end->stop_signal = s->stop_signal;
    /* After a fatal error nothing may be written any more: memory goes with the process. */
    bool whole = !take_fatal(s, em) && !s->abandoned && server__take_down(s);
    if (take_fatal(s, em)) rc = rc < 0 ? rc : E_IO;
    end->threads_left = !whole;
    if (!whole) return rc;
    deinit(s);
    alloc_free(&os_heap, s, sizeof *s);
    return rc;
}

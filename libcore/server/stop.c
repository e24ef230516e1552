/* The end of a member, in order.
 *
 * A signal drains the clients (GOAWAY; running calls may finish, at most T; whoever has no call open is waited for a
 * second only), then raft is stopped, apply answers what waits and commits what is left, and the control loop ends. Then
 * the threads end one kind after the other: io threads first, so that nothing new is asked; workers; the WAL's; the
 * store's. What they posted meanwhile is run here, by the one thread that is left, until all is quiet. Only then is
 * memory freed. Whatever does not get quiet is left as it is: a process that ends needs no memory back, and the log
 * holds every acknowledged change. */
#include "base/assert.h"
#include "base/err.h"
#include "os/sdnotify.h"
#include "rpc/rpc_hub.h"
#include "server/server_int.h"

enum {
    POLL_MS = 20,
    IDLE_GRACE_MS = 1000,   /* for clients without a call to see the GOAWAY and leave */
    QUIET_ROUNDS_MAX = 1000 /* each lets every loop run what it has; a stop takes a handful */
};

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
        if (s->io[i].conns == NULL) continue;
        struct io_call *call = server__need(s, sizeof *call);
        *call = (struct io_call){.task = {.run = on_io_call}, .io = &s->io[i], .fn = fn};
        loop_post(s->io[i].loop, &call->task);
    }
}

/* --- by signal -------------------------------------------------------------------------------------------- */

static uint64_t stopping_ns(const struct server *s)
{
    return s->clock.mono_ns(s->clock.arg) - s->stop_start_ns;
}

/* T: what upstream gives a request. */
static uint64_t limit_ns(const struct server *s)
{
    return (5000 + 2 * s->config->election_timeout) * 1000000ULL;
}

static bool io_idle(struct server *s)
{
    size_t open = 0;
    for (unsigned i = 0; i < s->io_count; i++)
        open += conn_set_open(s->io[i].conns);
    return open == 0;
}

static void begin_drain(struct server *s, int signum)
{
    s->stop_signal = signum;
    LOG(s->log, LOG_INFO, "received signal; shutting down", LOGF_INT("signal", signum));
    (void)sdnotify("STOPPING=1", NULL);
    server__unlisten(s);
    atomic_store(&s->phase, SERVER_DRAINING);
    s->stop_start_ns = s->clock.mono_ns(s->clock.arg);
    call_io(s, conn_set_drain);
    loop_timer_start(s->stop_timer, POLL_MS, POLL_MS);
}

static void stop_raft(struct server *s)
{
    atomic_store(&s->phase, SERVER_STOPPING);
    s->stop_start_ns = s->clock.mono_ns(s->clock.arg);
    server__lone_post(s, &s->raft_stop, true, RAFT_IN_STOP, true);
}

/* The store cannot take what is applied (a full disk, say); the log has it, and the next start applies it again. */
static void abandon(struct server *s)
{
    LOG(s->log, LOG_WARN, "stopping before the store has committed; the log holds every change");
    s->abandoned = true;
    atomic_store(&s->phase, SERVER_STOPPED);
    loop_stop(s->control);
}

static void on_poll(void *arg)
{
    struct server *s = arg;
    bool late = stopping_ns(s) > limit_ns(s);
    switch ((enum server_phase)atomic_load(&s->phase)) {
    case SERVER_DRAINING:
        if (!s->idle_closed && stopping_ns(s) > IDLE_GRACE_MS * 1000000ULL) {
            s->idle_closed = true;
            call_io(s, conn_set_close_idle);
        }
        if (late || io_idle(s)) stop_raft(s);
        break;
    case SERVER_STOPPING:
        if (late) abandon(s);
        break;
    case SERVER_STARTING:
    case SERVER_SERVING:
    case SERVER_STOPPED: break;
    }
}

void server__on_signal(void *arg, int signum)
{
    struct server *s = arg;
    switch ((enum server_phase)atomic_load(&s->phase)) {
    case SERVER_STARTING:
    case SERVER_SERVING: begin_drain(s, signum); break;
    case SERVER_DRAINING: stop_raft(s); break;
    case SERVER_STOPPING: abandon(s); break;
    case SERVER_STOPPED: break;
    }
}

static void on_stopped(struct task *t)
{
    struct server *s = (struct server *)(void *)((char *)t - offsetof(struct server, stopped_task));
    atomic_store(&s->phase, SERVER_STOPPED);
    loop_stop(s->control);
}

int server__stop_init(struct server *s)
{
    s->stopped_task.run = on_stopped;
    return loop_timer_open(s->control, on_poll, s, &s->stop_timer);
}

/* --- taking down ------------------------------------------------------------------------------------------ */

static void close_timers(struct server *s)
{
    struct loop_timer *const timers[] = {s->tick_timer, s->deadline_timer, s->stop_timer,
                                         s->accept_timer};
    for (size_t i = 0; i < sizeof timers / sizeof *timers; i++) {
        if (timers[i] != NULL) loop_timer_close(timers[i]);
    }
    if (s->signals != NULL) signals_close(s->signals);
}

/* No request is read after this; what they asked for comes home later. */
static void end_io(struct server *s)
{
    for (unsigned i = 0; i < s->io_count; i++) {
        struct io_thread *io = &s->io[i];
        if (!io->started) continue;
        loop_stop(io->loop);
        thread_join(&io->thread);
    }
    for (unsigned i = 0; i < s->io_count; i++) {
        if (s->io[i].conns == NULL) continue;
        loop_run_once(s->io[i].loop); /* sockets that were on their way */
        conn_set_close(s->io[i].conns);
    }
}

static bool is_quiet(struct server *s)
{
    for (unsigned i = 0; i < s->io_count; i++) {
        struct conn_set *set = s->io[i].conns;
        if (set != NULL && (conn_set_pending(set) > 0 || conn_set_open(set) > 0)) return false;
    }
    return !s->actors_ready || (actor_idle(&s->raft_actor) && actor_idle(&s->apply_actor));
}

/* Runs what the ended threads have left in the queues. */
static bool run_rest(struct server *s)
{
    int round = 0;
    do {
        for (unsigned i = 0; i < s->io_count; i++)
            loop_run_once(s->io[i].loop);
        if (s->control != NULL) loop_run_once(s->control);
        if (s->actors_ready) server__fail_commit_waits(s);
    } while (!is_quiet(s) && ++round < QUIET_ROUNDS_MAX);
    for (unsigned i = 0; i < s->io_count; i++)
        loop_run_once(s->io[i].loop); /* answers to nobody: freed there */
    if (s->control != NULL) loop_run_once(s->control);
    return is_quiet(s);
}

bool server__take_down(struct server *s)
{
    server__unlisten(s);
    close_timers(s);
    if (s->actors_ready) server__lone_post(s, &s->raft_stop, true, RAFT_IN_STOP, true);
    end_io(s);
    workers_stop(s->workers);
    s->workers = NULL;
    server__wal_stop(s);
    server__store_stop(s);
    if (!run_rest(s)) {
        LOG(s->log, LOG_WARN, "something has not ended; its memory is left to the process");
        return false;
    }
    if (s->actors_ready) {
        actor_deinit(&s->raft_actor);
        actor_deinit(&s->apply_actor);
    }
    for (unsigned i = 0; i < s->io_count; i++)
        conn_set_free(s->io[i].conns);
    rpc_hub_free(s->member.hub);
    server__unboot(s);
    for (unsigned i = 0; i < s->io_count; i++)
        loop_free(s->io[i].loop);
    return true;
}

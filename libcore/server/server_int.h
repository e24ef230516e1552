/* Inside the server: one member, its actors, threads and listeners.
 *
 * Who owns what:
 *   raft actor    node_raft; its inputs are `struct rpc_input` of enum raft_input
 *   apply actor   node_apply, mvcc's writer side, leases; inputs of enum apply_input
 *   wal thread    struct wal; its queue holds `struct wal_item`
 *   store thread  the backend's write transaction; its queue holds `struct store_item`
 *   control loop  the main thread: signals, accept, ticks, start and stop
 *   io threads    their connections
 */
#ifndef SERVER_SERVER_INT_H
#define SERVER_SERVER_INT_H

#include <stdatomic.h>

#include "backend/backend.h"
#include "env/failpoint.h"
#include "lease/lease.h"
#include "mvcc/mvcc.h"
#include "node/node_apply.h"
#include "node/node_raft.h"
#include "os/actor.h"
#include "os/rand.h"
#include "os/rwlock.h"
#include "os/signal.h"
#include "os/thread.h"
#include "server/config.h"
#include "server/conn.h"
#include "server/count.h"
#include "server/item.h"
#include "server/server.h"
#include "snap/datadir.h"
#include "wal/wal.h"

enum { IO_THREADS_MAX = 64, LISTENERS_MAX = 64, WORKER_COUNT = 2 };

enum raft_input {
    RAFT_IN_CHAIN,     /* the input of the first rpc_wait of a chain */
    RAFT_IN_TICK,      /* server's own, reused */
    RAFT_IN_PERSISTED, /* a wal_item */
    RAFT_IN_NOTE,      /* a note_item from apply */
    RAFT_IN_STOP       /* server's own */
};

enum apply_input {
    APPLY_IN_NOTE,      /* a note_item from raft */
    APPLY_IN_TICK,      /* server's own, reused */
    APPLY_IN_CONTINUE,  /* server's own, reused */
    APPLY_IN_COMMITTED, /* a store_item */
    APPLY_IN_NO_SPACE,  /* server's own, reused */
    APPLY_IN_PORTION,   /* a compact_item */
    APPLY_IN_SNAPSHOT,  /* a snapshot_item */
    APPLY_IN_COMMIT,    /* the input of an rpc_wait that asks for a commit */
    APPLY_IN_LEASES     /* the input of the first rpc_wait of a chain that asks about leases */
};

struct io_thread {
    struct server *s;
    struct thread thread;
    struct loop *loop;
    struct conn_set *conns;
    bool started;
};

struct listener {
    struct server *s;
    int fd;
    const char *url;
    struct conn_face face;
    struct loop_watch *watch;
    const char *unix_path; /* to be unlinked; NULL */
};

enum server_phase {
    SERVER_STARTING,
    SERVER_SERVING,
    SERVER_DRAINING,
    SERVER_STOPPING,
    SERVER_STOPPED
};

struct server {
    const struct config *config;
    const struct alloc *alloc;
    const struct log *log;
    struct clock clock;
    struct datadir dir;
    const struct disk *disk;

    /* identity */
    uint64_t cluster_id;
    uint64_t member_id;
    struct node_ids ids;

    /* the heart */
    struct os_rwlock index_lock;
    struct backend_lmdb *lmdb;
    struct backend backend;
    struct mvcc *mvcc;
    struct lease_table *leases;
    struct node_raft *raft;
    struct node_apply *apply;
    struct bytes *client_urls; /* lent to the apply half */
    struct node_status status;
    struct actor raft_actor;
    struct actor apply_actor;
    bool actors_ready;
    struct lone_input raft_tick, raft_stop;
    struct lone_input apply_tick, apply_continue, apply_no_space;
    struct rpc_wait *commit_waits; /* apply actor: RPC_ASK_COMMIT, by `next` */
    struct task arm_deadline;      /* control loop: sets the timer for apply's deadline */
    atomic_bool arm_queued;
    _Atomic int64_t deadline_ns;

    /* disk threads */
    struct wal *wal;
    struct wal_opts wal_opts;
    struct thread wal_thread;
    struct thread_queue wal_queue;
    bool wal_started;
    struct thread store_thread;
    struct thread_queue store_queue;
    bool store_started;
    struct workers *workers;
    _Atomic uint64_t db_bytes;
    _Atomic uint64_t db_in_use_bytes;
    atomic_bool storage_version_known;
    struct server_counts counts;

    /* versions that io threads look at */
    struct mutex versions_mutex;
    struct membership *members;
    struct alarms *alarms;

    /* control */
    struct loop *control;
    struct loop_timer *tick_timer;
    struct loop_timer *deadline_timer;
    struct loop_timer *stop_timer;
    struct loop_timer *accept_timer; /* out of descriptors: try again */
    struct signals *signals;
    struct task ready_task, stopped_task, fatal_task;
    atomic_bool fatal_set;
    struct errmsg fatal;
    _Atomic int phase; /* enum server_phase; set by the control thread, looked at by all */
    int stop_signal;
    uint64_t stop_start_ns; /* of the phase DRAINING or STOPPING */
    bool idle_closed;       /* draining: connections without a call were told to go */
    bool abandoned;         /* the store could not commit in time: everything is left as it is */

    /* network */
    struct rpc_member member;
    struct rpc_health_counts health;
    struct conn_limits limits;
    struct io_thread io[IO_THREADS_MAX];
    unsigned io_count;
    unsigned io_next; /* round robin of new connections */
    struct listener listeners[LISTENERS_MAX];
    unsigned listener_count;
    uint64_t start_ns;
};

/* --- boot.c, store_open.c --- */

/* Opens or makes the data directory and everything that lives on it, up to node halves that have run nothing yet. */
int server__boot(struct server *s, struct errmsg *em);
void server__unboot(struct server *s);

/* What the store said at start. */
struct store_start {
    uint64_t consistent_index;
    uint64_t consistent_term;
    struct membership *members;
    struct alarms *alarms;
    bool auth_enabled;
    struct buf conf_state;
    char storage_version[16];
};
void server__store_start_deinit(struct store_start *st);
/* Opens the store, or makes it, and loads every table. `sound(arg)`, unless NULL, is called when a store that is there was
 * read and found sound, before anything in its folder is changed; non-zero ends it.
 * Errors: as backend_lmdb_open(), what `sound` returned; `*out` is then empty. */
int server__store_open(struct server *s, bool create, struct store_start *out,
                       int (*sound)(void *arg), void *arg, struct errmsg *em);
void server__store_close(struct server *s);

/* --- cluster.c: --initial-cluster --- */

struct first_cluster {
    struct member *members; /* ascending id; all in `arena` */
    size_t count;
    uint64_t own_id;
    uint64_t cluster_id;
};
int server__first_cluster(const struct config *c, struct arena *arena, struct first_cluster *out,
                          struct errmsg *em);

/* --- drive_raft.c, drive_apply.c --- */

void server__actors_init(struct server *s);
void server__raft_post(struct server *s, struct rpc_input *in, int kind, bool may_run);
void server__apply_post(struct server *s, struct rpc_input *in, int kind, bool may_run);
void server__lone_post(struct server *s, struct lone_input *in, bool raft, int kind, bool may_run);
void server__raft_init(struct server *s);
void server__apply_init(struct server *s);
/* Lets a wait go back to its requester; after a fatal error nothing leaves any more. */
void server__answer(struct server *s, struct rpc_wait *w, int rc, struct apply_result *result);
/* All threads have ended: answers the commits that nobody will make. */
void server__fail_commit_waits(struct server *s);

/* --- wal_thread.c, store_thread.c --- */

int server__wal_start(struct server *s, struct errmsg *em);
void server__wal_stop(struct server *s);
int server__store_start(struct server *s, struct errmsg *em);
void server__store_stop(struct server *s);
/* Copies the store into a new file; answers `w`. Any thread. */
void server__defragment(struct server *s, struct rpc_wait *w);
void server__snapshot_begin(struct server *s, struct snapshot_item *item);
void server__compact_begin(struct server *s, struct mvcc_compact *job);

/* --- face.c, metrics.c --- */

void server__face_init(struct server *s);
void server__publish_members(struct server *s, struct membership *m); /* takes the reference */
void server__publish_alarms(struct server *s, struct alarms *a);      /* takes the reference */
int server__metrics(void *arg, struct buf *out);

/* --- listen.c --- */

int server__listen(struct server *s, struct errmsg *em);
/* Lets connections in on listeners of this kind. */
int server__accept(struct server *s, bool clients, struct errmsg *em);
/* Of accept_timer: looks again at listeners that were left alone for lack of descriptors. */
void server__accept_again(void *arg);
void server__unlisten(struct server *s);

/* --- stop.c --- */

/* Prepares the control loop's side of a stop. Errors: E_NOMEM. */
int server__stop_init(struct server *s);
void server__on_signal(void *arg, int signum);
/* Ends all threads and frees everything that start() made, from whatever point it reached. False when something did not
 * come home: all threads have ended, and the memory is left as it is. */
bool server__take_down(struct server *s);

/* --- shared --- */

/* Ends the process with this line: no answer leaves from now on. Any thread. */
void server__fatal(struct server *s, const struct errmsg *em);
/* Memory that the server cannot run without; ends the process when there is none, or for SIZE_MAX. */
void *server__need(struct server *s, size_t bytes);

#endif

/* The start, step by step as upstream's (walkthroughs.md 1 and 3): folders, log, store, raft.
 *
 * Everything that can refuse a start is looked at before anything is changed. A lost or damaged store is built anew from the
 * log when the log provably holds all of it: every entry from index 1 on, and no snapshot before the first normal
 * entry (a restored or joined directory has one, and its log alone is not the whole story). */
#include "server/server_int.h"

#include <inttypes.h>
#include <stdio.h>

#include "alarm/alarm.h"
#include "base/err.h"
#include "os/heap.h"
#include "pb/raftpb.h"
#include "wal/wal_read.h"

enum {
    BALLAST_BYTES = 16 * 1024 * 1024 /* enough to write out deletions and a compaction's marks */
};

/* What is known about the directory while starting. */
struct start {
    bool wal_exists;
    bool rebuild;                 /* the store is made anew from the whole log */
    struct wal_snapshot snapshot; /* where reading the log begins */
    raft_index newest_snapshot;   /* of any usable record */
    raft_index log_last;          /* that the log reaches */
    struct wal_contents contents;
    struct store_start store;
    struct raft_conf_state conf;
    struct first_cluster first;
    struct arena arena;
};

/* --- the log ---------------------------------------------------------------------------------------- */

/* How far a log was seen to be whole. */
struct whole {
    uint64_t next; /* index that the next entry may have at most */
    bool normal;   /* a normal entry was met */
};

/* One record; false when the log cannot be the whole story. */
static bool whole_takes(struct whole *w, const struct wal_view *v, struct arena *arena)
{
    struct pb_wal_snapshot snap;
    struct pb_entry e;
    if (v->type == WAL_SNAPSHOT && !w->normal) {
        return pb_wal_snapshot_decode(v->data, arena, &snap) == 0 && snap.index == 0;
    }
    if (v->type != WAL_ENTRY) return true;
    if (pb_entry_decode(v->data, &e) < 0 || e.index == 0 || e.index > w->next) return false;
    w->next = e.index + 1;
    w->normal |= e.type == PB_ENTRY_NORMAL && e.data.len > 0;
    return true;
}

/* Whether the log alone can give the whole store; see the head of this file. One without any entry has nothing to
 * lose. */
static int log_is_whole(struct server *s, struct arena *arena, bool *whole, struct errmsg *em)
{
    struct wal_reader *r = NULL;
    struct whole w = {.next = 1};
    struct wal_view v;
    bool good = true;
    *whole = false;
    int rc = wal_reader_open_all(&s->wal_opts, s->dir.wal, &r, em);
    if (rc < 0) return rc;
    while (good && (rc = wal_reader_next(r, &v, em)) == 0)
        good = whole_takes(&w, &v, arena);
    wal_reader_close(r);
    *whole = good;
    return rc == E_NOTFOUND || rc == E_EOF || !good ? 0 : rc;
}

/* The newest snapshot record that is committed; (0,0) stands in every log. */
static int find_snapshot(struct server *s, struct start *st, struct errmsg *em)
{
    struct wal_snapshot *list = NULL;
    size_t count = 0;
    int rc = wal_survey(&s->wal_opts, s->dir.wal, &list, &count, &st->log_last, em);
    if (rc < 0) {
        errmsg_prefix(em, "cannot read the log in %s", s->dir.wal);
        return rc;
    }
    if (count > 0) st->snapshot = list[count - 1];
    st->newest_snapshot = st->snapshot.index;
    wal_snapshots_free(&s->wal_opts, list, count);
    return 0;
}

static int open_log(struct server *s, struct start *st, struct errmsg *em)
{
    bool repaired = false;
    int rc = wal_open_repair(&s->wal_opts, s->dir.wal, st->snapshot, &st->contents, &repaired,
                             &s->wal, em);
    if (rc == E_LOCKED) {
        errmsg_set(em, "%s is in use by another process; stop it, or use another --data-dir",
                   s->dir.wal);
    }
    if (rc < 0) return rc;
    if (repaired) LOG(s->log, LOG_INFO, "repaired WAL", LOGF_STR("path", s->dir.wal));
    struct pb_metadata meta;
    if (pb_metadata_decode(bytes_of(st->contents.metadata, st->contents.metadata_len), &meta) < 0) {
        errmsg_set(em, "the log in %s has no readable metadata", s->dir.wal);
        return E_CORRUPT;
    }
    s->member_id = meta.node_id;
    s->cluster_id = meta.cluster_id;
    return 0;
}

static int create_log(struct server *s, struct start *st, struct errmsg *em)
{
    s->member_id = st->first.own_id;
    s->cluster_id = st->first.cluster_id;
    struct pb_metadata meta = {.node_id = s->member_id, .cluster_id = s->cluster_id};
    uint8_t bytes[64];
    struct bytes data = bytes_of(bytes, (size_t)(pb_metadata_write(&meta, bytes) - bytes));
    return wal_create(&s->wal_opts, s->dir.wal, data, &s->wal, em);
}

/* --- the store -------------------------------------------------------------------------------------- */

static int set_aside(struct server *s, struct errmsg *em)
{
    char to[DATADIR_PATH_BYTES_MAX + 16];
    snprintf(to, sizeof to, "%s.broken", s->dir.db);
    int rc = s->disk->rename(s->disk->arg, s->dir.db, to);
    if (rc < 0 && rc != E_NOENT)
        errmsg_set(em, "cannot rename %s to %s: %s", s->dir.db, to, err_text(rc));
    return rc == E_NOENT ? 0 : rc;
}

/* The store is absent or of no use: from the log, or not at all. */
static int rebuild_store(struct server *s, struct start *st, struct errmsg *em)
{
    struct errmsg why = *em;
    bool whole = false;
    int rc = log_is_whole(s, &st->arena, &whole, em);
    if (rc < 0) return rc;
    if (!whole) {
        errmsg_set(em,
                   "the store %s is missing or damaged (%s) and the log in %s does not hold every "
                   "change; restore "
                   "a snapshot with etcd-utl snapshot restore",
                   s->dir.db, why.text[0] != '\0' ? why.text : "no such file", s->dir.wal);
        return E_CORRUPT;
    }
    rc = set_aside(s, em);
    if (rc < 0) return rc;
    LOG(s->log, LOG_WARN, "the store is missing or damaged; building it from the log",
        LOGF_STR("path", s->dir.db), LOGF_STR("reason", why.text));
    st->rebuild = true;
    st->snapshot = (struct wal_snapshot){0, 0};
    return server__store_open(s, true, &st->store, NULL, NULL, em);
}

/* A store without a log is only fit to start with when nothing was ever written to it: what a crash between the making
 * of the two leaves. */
static int open_new_store(struct server *s, struct start *st, struct errmsg *em)
{
    int rc = server__store_open(s, true, &st->store, NULL, NULL, em);
    if (rc < 0) return rc;
    bool used = st->store.consistent_index > 0 || mvcc_revision(s->mvcc) > 1 ||
                membership_count(st->store.members) > 0;
    if (!used) return 0;
    errmsg_set(em,
               "%s holds data, but there is no log in %s; move the data dir away, or restore it",
               s->dir.db, s->dir.wal);
    return E_EXIST;
}

/* The search for the snapshot to begin with, in a thread. */
struct scan {
    struct server *s;
    struct start *st;
    struct thread thread;
    bool running;
    int rc;
    struct errmsg em;
};

static void run_scan(void *arg)
{
    struct scan *scan = arg;
    scan->rc = find_snapshot(scan->s, scan->st, &scan->em);
}

static int end_scan(void *arg)
{
    struct scan *scan = arg;
    if (scan->running) thread_join(&scan->thread);
    scan->running = false;
    return scan->rc;
}

/* A log and a store that are there. Each is read from end to end, which is most of what a start takes, so each is read by
 * a thread of its own. What is wrong with the log is told first, and before anything is changed. */
static int open_old_store(struct server *s, struct start *st, const struct snap_opts *so,
                          struct errmsg *em)
{
    struct scan scan = {.s = s, .st = st};
    int rc = thread_start(&scan.thread, "scan", run_scan, &scan, em);
    if (rc < 0) return rc;
    scan.running = true;
    int store_rc = server__store_open(s, false, &st->store, end_scan, &scan, em);
    rc = end_scan(&scan);
    if (rc < 0) {
        *em = scan.em;
        return rc;
    }
    bool lost = store_rc == E_NOENT || store_rc == E_EOF || store_rc == E_CORRUPT;
    if (store_rc < 0 && !lost) return store_rc;
    struct errmsg why = *em;
    rc = datadir_prepare(&s->dir, so, em);
    if (rc < 0 || !lost) return rc;
    *em = why;
    return rebuild_store(s, st, em);
}

static int open_store(struct server *s, struct start *st, struct errmsg *em)
{
    struct snap_opts so = {s->disk, s->alloc, s->log};
    if (st->wal_exists) return open_old_store(s, st, &so, em);
    int rc = datadir_prepare(&s->dir, &so, em);
    return rc < 0 ? rc : open_new_store(s, st, em);
}

/* Versions that this server can open: 3.5 (no storage version), 3.6, 3.7; and no newer cluster. */
static int check_versions(const struct server *s, const struct start *st, struct errmsg *em)
{
    const char *v = st->store.storage_version;
    (void)s;
    if (v[0] != '\0' && strncmp(v, "3.5.", 4) != 0 && strncmp(v, "3.6.", 4) != 0 &&
        strncmp(v, "3.7.", 4) != 0) {
        errmsg_set(em, "version \"%s\" is not supported", v);
        return E_UNSUPPORTED;
    }
    struct bytes cluster = membership_version(st->store.members);
    unsigned major = 0;
    unsigned minor = 0;
    char text[32];
    snprintf(text, sizeof text, "%.*s", (int)cluster.len, (const char *)cluster.data);
    if (sscanf(text, "%u.%u", &major, &minor) == 2 && (major > 3 || (major == 3 && minor > 7))) {
        errmsg_set(em, "invalid downgrade: the cluster has version %s and this server speaks 3.7",
                   text);
        return E_UNSUPPORTED;
    }
    return 0;
}

static int check_index(const struct server *s, const struct start *st, struct errmsg *em)
{
    if (st->rebuild) return 0;
    if (st->log_last < st->store.consistent_index) {
        errmsg_set(em,
                   "the write-ahead log ends at index %" PRIu64
                   " but the store has applied index %" PRIu64
                   ": the log has lost its end; restore the member from a backup, or remove it and "
                   "add it anew",
                   st->log_last, st->store.consistent_index);
        return E_CORRUPT;
    }
    if (st->snapshot.index <= st->store.consistent_index) return 0;
    errmsg_set(em,
               "failed to find database snapshot file (snap: snapshot file doesn't exist): %s is "
               "at index %" PRIu64 " but the log begins at the snapshot of index %" PRIu64,
               s->dir.db, st->store.consistent_index, st->snapshot.index);
    return E_NOENT;
}

/* --- the heart -------------------------------------------------------------------------------------- */

/* The log was made, but a crash came before its first entry: still a first boot, of the same member. */
static bool log_is_bare(const struct start *st)
{
    return st->wal_exists && st->contents.entry_count == 0 && st->contents.last_index == 0 &&
           st->snapshot.index == 0 && raft_hard_state_empty(st->contents.hard_state) &&
           st->store.consistent_index == 0;
}

static int check_same_member(const struct server *s, struct start *st, struct errmsg *em)
{
    int rc = server__first_cluster(s->config, &st->arena, &st->first, em);
    if (rc < 0) return rc;
    if (st->first.own_id == s->member_id && st->first.cluster_id == s->cluster_id) return 0;
    errmsg_set(em,
               "the log in %s was made for member %" PRIx64
               " and holds nothing yet, but the flags name member "
               "%" PRIx64 "; start with the flags it was made with, or remove it",
               s->dir.wal, s->member_id, st->first.own_id);
    return E_CONFIG;
}

static int raft_new_half(struct server *s, struct start *st, struct errmsg *em)
{
    const struct config *c = s->config;
    struct raft_restored restored = {0};
    struct raft_entry *first = NULL;
    size_t first_count = 0;
    bool bare = log_is_bare(st);
    int rc = bare ? check_same_member(s, st, em) : 0;
    if (rc < 0) return rc;
    if (st->wal_exists && !bare) {
        struct node_disk_state disk = {.hard_state = st->contents.hard_state,
                                       .snapshot_index = st->snapshot.index,
                                       .snapshot_term = st->snapshot.term,
                                       .entries = st->contents.entries,
                                       .entry_count = st->contents.entry_count,
                                       .consistent_index = st->store.consistent_index,
                                       .conf = &st->conf};
        rc = node_restore(&disk, &restored, em);
    } else {
        first_count = st->first.count;
        rc = node_first_entries(s->alloc, st->first.members, first_count, &first);
    }
    struct node_raft_opts o = {
        .id = s->member_id,
        .election_ticks = (uint32_t)(c->election_timeout / c->heartbeat_interval),
        .tick_ns = (int64_t)c->heartbeat_interval * 1000000,
        .pre_vote = c->pre_vote,
        .ids = &s->ids,
        .status = &s->status,
        .alloc = s->alloc,
        .log = s->log};
    os_rand.fill(os_rand.arg, &o.seed, sizeof o.seed);
    if (rc == 0) rc = node_raft_new(&o, &restored, first, first_count, &s->raft, em);
    raft_entries_free(s->alloc, first, first_count);
    return rc;
}

static int apply_new_half(struct server *s, struct start *st, struct errmsg *em)
{
    const struct config *c = s->config;
    struct bytes *kept = alloc_new(s->alloc, (c->advertise_client_urls.count + 1) * sizeof *kept);
    if (kept == NULL) return E_NOMEM;
    for (size_t i = 0; i < c->advertise_client_urls.count; i++)
        kept[i] = bytes_str(c->advertise_client_urls.items[i]);
    s->client_urls = kept;
    struct apply_start start = {.consistent_index = st->store.consistent_index,
                                .consistent_term = st->store.consistent_term,
                                .conf_state_json = buf_bytes(&st->store.conf_state),
                                .members = st->store.members,
                                .alarms = st->store.alarms};
    int64_t interval = c->backend_batch_interval == 0 ? 100 * 1000000LL : c->backend_batch_interval;
    struct node_apply_opts o = {
        .apply = {.member_id = s->member_id,
                  .mvcc = s->mvcc,
                  .leases = s->leases,
                  .quota_bytes = c->quota_backend_bytes,
                  .learners_max = c->max_learners > 0 ? (size_t)c->max_learners : 0,
                  .server_version = "3.7.0",
                  .auth_enabled = st->store.auth_enabled,
                  .alloc = s->alloc,
                  .log = s->log},
        .tick_ns = (int64_t)c->heartbeat_interval * 1000000,
        .election_ticks = (uint32_t)(c->election_timeout / c->heartbeat_interval),
        .commit_interval_ns = interval,
        .commit_limit = c->backend_batch_limit > 0 ? (uint64_t)c->backend_batch_limit : 0,
        .snapshot_count = c->snapshot_count,
        .catchup_entries = c->snapshot_catchup_entries,
        .snapshot_index = st->newest_snapshot,
        .replay_index = st->snapshot.index,
        .name = bytes_str(c->name),
        .client_urls = kept,
        .client_url_count = c->advertise_client_urls.count,
        .ids = &s->ids,
        .status = &s->status};
    int rc = node_apply_new(&o, &start, &s->apply, em);
    if (rc == 0) apply_set_store_bytes(node_apply_core(s->apply), atomic_load(&s->db_bytes));
    return rc;
}

static int make_heart(struct server *s, struct start *st, struct errmsg *em)
{
    uint64_t start_ms = (uint64_t)(s->clock.wall_ns(s->clock.arg) / 1000000);
    node_ids_init(&s->ids, s->member_id, start_ms);
    int rc = node_conf_of_members(st->store.members, &st->conf);
    if (rc == 0) rc = raft_new_half(s, st, em);
    if (rc == 0) rc = apply_new_half(s, st, em);
    if (rc < 0) return rc;
    s->members = membership_ref(st->store.members);
    s->alarms = alarm_ref(st->store.alarms);
    atomic_store(&s->storage_version_known, strncmp(st->store.storage_version, "3.7.", 4) == 0);
    return 0;
}

/* --- in order ---------------------------------------------------------------------------------------- */

static int look(struct server *s, struct start *st, struct errmsg *em)
{
    int rc = wal_exists(&s->wal_opts, s->dir.wal, &st->wal_exists, em);
    if (rc < 0) return rc;
    if (st->wal_exists) return 0;
    if (strcmp(s->config->initial_cluster_state, "existing") == 0) {
        errmsg_set(em, "--initial-cluster-state=existing: this server cannot join a cluster yet");
        return E_UNSUPPORTED;
    }
    return server__first_cluster(s->config, &st->arena, &st->first, em);
}

static int boot(struct server *s, struct start *st, struct errmsg *em)
{
    char ballast[DATADIR_PATH_BYTES_MAX + 16];
    int rc = look(s, st, em);
    if (rc == 0) rc = open_store(s, st, em);
    if (rc == 0) rc = check_versions(s, st, em);
    if (rc == 0 && st->wal_exists) rc = check_index(s, st, em);
    if (rc == 0) rc = st->wal_exists ? open_log(s, st, em) : create_log(s, st, em);
    if (rc < 0) return rc;
    snprintf(ballast, sizeof ballast, "%s/ballast", s->dir.member);
    struct errmsg why = {""};
    if (backend_ballast_create(s->disk, ballast, BALLAST_BYTES, &why) < 0) {
        LOG(s->log, LOG_WARN, "cannot keep space in reserve", LOGF_STR("error", why.text));
    }
    return make_heart(s, st, em);
}

int server__boot(struct server *s, struct errmsg *em)
{
    struct start st = {.wal_exists = false};
    arena_init(&st.arena, s->alloc, 16 * 1024 * 1024);
    int rc = boot(s, &st, em);
    wal_contents_deinit(&st.contents);
    server__store_start_deinit(&st.store);
    arena_deinit(&st.arena);
    return rc;
}

void server__unboot(struct server *s)
{
    if (s->raft != NULL) node_raft_free(s->raft);
    if (s->apply != NULL) node_apply_free(s->apply);
    /* Whatever was acknowledged was synced before; a failure here is worth a line, and no more. */
    struct errmsg em = {""};
    if (wal_close(s->wal, &em) < 0)
        LOG(s->log, LOG_ERROR, "cannot close the log", LOGF_STR("error", em.text));
    server__store_close(s);
    membership_unref(s->members);
    alarm_unref(s->alarms);
    alloc_free(s->alloc, s->client_urls,
               (s->config->advertise_client_urls.count + 1) * sizeof *s->client_urls);
}

/* The WAL thread: gathers all that waits, writes it, and lets one fdatasync stand for it.
 *
 * Only after that do the items go back to the raft actor, so no answer can leave before the sync that covers it. A failed
 * write or sync ends the process; nothing is tried again. */
#include "server/server_int.h"

#include "base/buf.h"
#include "base/err.h"
#include "snap/snap.h"
#include "snap/snap_v2.h"

enum { SNAP_JSON_BYTES_MAX = 16 * 1024 * 1024 };

static struct wal_item *item_of(struct list *link)
{
    return (struct wal_item *)(void *)((char *)link - offsetof(struct wal_item, link));
}

static int write_snapshot_record(struct server *s, const struct snapshot_item *item,
                                 struct errmsg *em)
{
    FAILPOINT("raftBeforeWALSaveSnaphot");
    struct wal_snapshot snap = {item->index, item->term};
    return wal_save_snapshot(s->wal, snap, item->conf, em);
}

static int write_items(struct server *s, struct list *batch, bool *sync, struct errmsg *em)
{
    for (struct list *at = batch->next; at != batch; at = at->next) {
        const struct wal_item *item = item_of(at);
        int rc = item->snapshot != NULL
                     ? write_snapshot_record(s, item->snapshot, em)
                     : wal_save(s->wal, &item->persist.hard_state, item->persist.entries,
                                item->persist.entry_count, em);
        if (rc < 0) return rc;
        if (item->snapshot != NULL || item->persist.must_sync) *sync = true;
    }
    return 0;
}

static int write_batch(struct server *s, struct list *batch, struct errmsg *em)
{
    bool sync = false;
    FAILPOINT("raftBeforeSave");
    uint64_t start_ns = s->clock.mono_ns(s->clock.arg);
    int rc = write_items(s, batch, &sync, em);
    uint64_t written_ns = s->clock.mono_ns(s->clock.arg);
    histogram_add(&s->counts.wal_write, written_ns - start_ns);
    if (rc < 0 || (!sync && !wal_sync_due(s->wal))) return rc;
    FAILPOINT("walBeforeSync");
    rc = wal_sync(s->wal, em);
    histogram_add(&s->counts.wal_fsync, s->clock.mono_ns(s->clock.arg) - written_ns);
    FAILPOINT("walAfterSync");
    FAILPOINT("raftAfterSave");
    return rc;
}

/* The record is durable: older segments may go, and whoever waits for the snapshot is told. */
static void finish_snapshot(struct server *s, struct wal_item *item)
{
    struct snapshot_item *snapshot = item->snapshot;
    wal_release(s->wal, snapshot->index);
    snapshot->ok = true;
    alloc_free(s->alloc, item, sizeof *item);
    server__apply_post(s, &snapshot->input, APPLY_IN_SNAPSHOT, false);
    (void)wal_purge(&s->wal_opts, s->dir.wal, s->config->max_wals, NULL, NULL);
}

static void give_back(struct server *s, struct list *batch)
{
    while (!list_empty(batch)) {
        struct wal_item *item = item_of(list_pop_front(batch));
        bool last = list_empty(batch);
        if (item->snapshot != NULL) {
            finish_snapshot(s, item);
        } else {
            /* With nothing waiting this thread runs the actors itself: the answer is on its way without another hop. */
            bool idle = last && thread_queue_count(&s->wal_queue) == 0;
            server__raft_post(s, &item->input, RAFT_IN_PERSISTED, idle);
        }
    }
}

static void drop(struct server *s, struct list *batch)
{
    while (!list_empty(batch)) {
        struct wal_item *item = item_of(list_pop_front(batch));
        if (item->snapshot == NULL) node_persist_deinit(&item->persist, s->alloc);
        alloc_free(s->alloc, item, sizeof *item);
    }
}

static void run(void *arg)
{
    struct server *s = arg;
    struct list batch;
    bool failed = false;
    list_init(&batch);
    while (thread_queue_take(&s->wal_queue, &batch) > 0) {
        struct errmsg em = {""};
        if (!failed && write_batch(s, &batch, &em) < 0) {
            failed = true;
            errmsg_prefix(&em,
                          "cannot write the log, and what is not in it must not be acknowledged");
            server__fatal(s, &em);
        }
        if (failed) {
            drop(s, &batch);
            continue;
        }
        give_back(s, &batch);
        if (thread_queue_count(&s->wal_queue) == 0) (void)wal_prepare_next(s->wal, NULL);
    }
}

int server__wal_start(struct server *s, struct errmsg *em)
{
    int rc = thread_start(&s->wal_thread, "wal", run, s, em);
    s->wal_started = rc == 0;
    return rc;
}

void server__wal_stop(struct server *s)
{
    if (!s->wal_started) return;
    thread_queue_close(&s->wal_queue);
    thread_join(&s->wal_thread);
    s->wal_started = false;
}

/* --- local snapshots: the .snap file on a worker, then its record here --------------------------------- */

static int write_snap_file(struct server *s, const struct snapshot_item *item, struct errmsg *em)
{
    struct snap_opts o = {s->disk, s->alloc, s->log};
    struct buf json;
    buf_init(&json, s->alloc, SNAP_JSON_BYTES_MAX);
    int rc = snap_v2_encode_membership(item->members, &json);
    if (rc == 0) {
        struct snap_content content = {
            .index = item->index, .term = item->term, .conf = item->conf, .data = buf_bytes(&json)};
        FAILPOINT("raftBeforeSaveSnap");
        uint64_t start_ns = s->clock.mono_ns(s->clock.arg);
        rc = snap_write(&o, s->dir.snap, &content, em);
        histogram_add(&s->counts.snap_save, s->clock.mono_ns(s->clock.arg) - start_ns);
        FAILPOINT("raftAfterSaveSnap");
    }
    buf_deinit(&json);
    if (rc == 0) (void)snap_purge(&o, s->dir.snap, ".snap", s->config->max_snapshots, NULL, NULL);
    return rc;
}

static void work_snapshot(struct work *w)
{
    struct snapshot_item *item =
        (struct snapshot_item *)(void *)((char *)w - offsetof(struct snapshot_item, work));
    struct server *s = item->s;
    struct errmsg em = {""};
    int rc = write_snap_file(s, item, &em);
    if (rc < 0) {
        LOG(s->log, LOG_WARN, "failed to save snapshot", LOGF_STR("error", em.text));
        server__apply_post(s, &item->input, APPLY_IN_SNAPSHOT, false);
        return;
    }
    LOG(s->log, LOG_INFO, "saved snapshot", LOGF_UINT("snapshot-index", item->index));
    struct wal_item *record = server__need(s, sizeof *record);
    *record = (struct wal_item){.snapshot = item};
    if (!thread_queue_put(&s->wal_queue, &record->link)) {
        alloc_free(s->alloc, record, sizeof *record);
        server__apply_post(s, &item->input, APPLY_IN_SNAPSHOT, false);
    }
}

void server__snapshot_begin(struct server *s, struct snapshot_item *item)
{
    item->work.run = work_snapshot;
    workers_put(s->workers, &item->work);
}

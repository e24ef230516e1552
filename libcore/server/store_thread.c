/* The store thread: the one write transaction of the backend.
 *
 * A commit that finds no space is tried again in a new transaction from the same run, after the ballast was given up and
 * NOSPACE raised; any other failure ends the process (design, rule 8). */
#include "server/server_int.h"

#include <stdio.h>

#include "base/err.h"
#include "os/clock.h"

enum {
    RETRY_MS = 500,          /* between two tries while the disk is full */
    COMPACT_LIST_ROWS = 8192 /* rows of one portion: a few ms of a commit */
};

#define STORAGE_VERSION "3.7.0"

static struct store_item *item_of(struct list *link)
{
    return (struct store_item *)(void *)((char *)link - offsetof(struct store_item, link));
}

static int write_item(struct server *s, const struct store_item *item, struct backend_tx *tx,
                      struct errmsg *em)
{
    const struct backend *b = &s->backend;
    int rc = 0;
    if (item->storage_version) {
        rc = b->put(tx, TABLE_META, bytes_str("storageVersion"), bytes_str(STORAGE_VERSION), em);
    }
    if (rc == 0 && item->run != NULL) rc = mvcc_run_write(item->run, b, tx, em);
    if (rc == 0 && item->portion != NULL) rc = mvcc_portion_write(item->portion, b, tx, em);
    return rc;
}

static int commit_once(struct server *s, const struct store_item *item, struct errmsg *em)
{
    struct backend_tx *tx = NULL;
    int rc = s->backend.begin(s->backend.arg, &tx, em);
    if (rc < 0) return rc;
    rc = write_item(s, item, tx, em);
    if (rc < 0) {
        s->backend.abort(tx);
        return rc;
    }
    FAILPOINT("beforeCommit");
    rc = s->backend.commit(tx, em);
    FAILPOINT("afterCommit");
    return rc;
}

static void note_size(struct server *s, struct store_item *item)
{
    struct backend_size size = {0, 0};
    (void)s->backend.size(s->backend.arg, &size);
    item->store_bytes = size.total_bytes;
    atomic_store(&s->db_bytes, size.total_bytes);
    atomic_store(&s->db_in_use_bytes, size.in_use_bytes);
}

/* Waits for space, looking at the queue's end so that a stop is not held up. */
static bool wait_for_space(struct server *s, struct list *more)
{
    char path[DATADIR_PATH_BYTES_MAX + 16];
    bool closed = false;
    snprintf(path, sizeof path, "%s/ballast", s->dir.member);
    (void)backend_ballast_release(s->disk, path, NULL);
    server__lone_post(s, &s->apply_no_space, false, APPLY_IN_NO_SPACE, false);
    (void)thread_queue_take_for(&s->store_queue, RETRY_MS * 1000000ULL, more, &closed);
    return !closed;
}

static bool commit(struct server *s, struct store_item *item, struct list *more)
{
    struct errmsg em = {""};
    for (;;) {
        uint64_t start_ns = s->clock.mono_ns(s->clock.arg);
        int rc = commit_once(s, item, &em);
        histogram_add(&s->counts.commit, s->clock.mono_ns(s->clock.arg) - start_ns);
        if (rc == 0) break;
        if (rc != E_NOSPACE) {
            errmsg_prefix(&em, "cannot commit the store %s", s->dir.db);
            server__fatal(s, &em);
            return false;
        }
        LOG(s->log, LOG_WARN, "no space to commit the store, trying again",
            LOGF_STR("error", em.text));
        if (!wait_for_space(s, more)) return false;
    }
    note_size(s, item);
    if (item->storage_version) atomic_store(&s->storage_version_known, true);
    return true;
}

/* --- defragmentation ------------------------------------------------------------------------------------ */

/* Commits wait meanwhile, and so in the end does applying; reads go on. False: the process must end. */
static bool defragment(struct server *s, struct store_item *item)
{
    struct errmsg em = {""};
    bool must_end = false;
    uint64_t before = atomic_load(&s->db_bytes);
    uint64_t start_ns = s->clock.mono_ns(s->clock.arg);
    LOG(s->log, LOG_INFO, "defragmenting", LOGF_STR("path", s->dir.db));
    atomic_store(&s->counts.defragmenting, true);
    int rc = backend_lmdb_compact(s->lmdb, &must_end, &em);
    atomic_store(&s->counts.defragmenting, false);
    if (rc < 0) {
        LOG(s->log, LOG_ERROR, "failed to defragment", LOGF_STR("path", s->dir.db),
            LOGF_STR("error", em.text));
    } else {
        note_size(s, item);
        LOG(s->log, LOG_INFO, "finished defragmenting directory", LOGF_STR("path", s->dir.db),
            LOGF_INT("current-db-size-bytes-diff", (int64_t)(item->store_bytes - before)),
            LOGF_UINT("current-db-size-bytes", item->store_bytes),
            LOGF_DURATION("took", (int64_t)(s->clock.mono_ns(s->clock.arg) - start_ns)));
    }
    item->rc = rc;
    if (must_end) server__fatal(s, &em);
    return !must_end;
}

void server__defragment(struct server *s, struct rpc_wait *w)
{
    struct store_item *item = server__need(s, sizeof *item);
    *item = (struct store_item){.defragment = w, .s = s};
    if (thread_queue_put(&s->store_queue, &item->link)) return;
    alloc_free(s->alloc, item, sizeof *item);
    server__answer(s, w, E_STOPPED, NULL);
}

/* --- the thread ----------------------------------------------------------------------------------------- */

static void run(void *arg)
{
    struct server *s = arg;
    struct list batch;
    bool failed = false;
    list_init(&batch);
    while (!list_empty(&batch) || thread_queue_take(&s->store_queue, &batch) > 0) {
        struct store_item *item = item_of(list_pop_front(&batch));
        if (!failed)
            failed = !(item->defragment != NULL ? defragment(s, item) : commit(s, item, &batch));
        if (failed) {
            alloc_free(s->alloc, item, sizeof *item);
        } else {
            server__apply_post(s, &item->input, APPLY_IN_COMMITTED, false);
        }
    }
}

int server__store_start(struct server *s, struct errmsg *em)
{
    int rc = thread_start(&s->store_thread, "store", run, s, em);
    s->store_started = rc == 0;
    return rc;
}

void server__store_stop(struct server *s)
{
    if (!s->store_started) return;
    thread_queue_close(&s->store_queue);
    thread_join(&s->store_thread);
    s->store_started = false;
}

/* --- compaction: lists on a worker --------------------------------------------------------------------- */

static void work_compact(struct work *w)
{
    struct compact_item *item =
        (struct compact_item *)(void *)((char *)w - offsetof(struct compact_item, work));
    struct server *s = item->s;
    struct errmsg em = {""};
    int rc = 1;
    while (rc > 0 && item->portion == NULL) {
        rc = mvcc_compact_list(item->job, COMPACT_LIST_ROWS, &item->portion, &em);
    }
    if (rc < 0) {
        errmsg_prefix(&em, "cannot list what a compaction removes");
        server__fatal(s, &em);
        return;
    }
    server__apply_post(s, &item->input, APPLY_IN_PORTION, false);
}

void server__compact_begin(struct server *s, struct mvcc_compact *job)
{
    struct compact_item *item = server__need(s, sizeof *item);
    *item = (struct compact_item){.s = s, .job = job, .work = {.run = work_compact}};
    workers_put(s->workers, &item->work);
}

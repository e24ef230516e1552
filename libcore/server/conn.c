#include "server/conn.h"

#include <stdatomic.h>

#include "base/assert.h"
#include "base/err.h"
#include "base/map.h"
#include "grpc/grpc_pool.h"
#include "http1/sniff.h"
#include "os/sock.h"

enum {
    READ_BYTES = 256 * 1024,      /* one buffer per io thread: large puts arrive in few reads */
    READS_PER_EVENT = 4,          /* then other connections have their turn */
    SNIFF_TIMEOUT_MS = 10 * 1000, /* for the bytes that tell the protocol */
    LINGER_MS = 10 * 1000 /* for a client to take the last bytes of a connection that is over */
};

struct conn {
    struct list link;       /* in the set */
    struct list dirty_link; /* in the set's dirty list, when `dirty` */
    struct heap_item timer; /* in the set's heap, by due_ns */
    struct conn_set *set;
    struct conn_face face;
    struct loop_watch *watch;
    struct grpc_conn *grpc;
    struct http1_conn *http;
    uint64_t due_ns;
    uint64_t linger_ns; /* over, but not all is sent: closed then at the latest; GRPC_NEVER */
    int fd;
    unsigned events; /* what the watch asks for now */
    bool dirty;
    bool in_event; /* it is written when the event was handled: no need to mark it */
    bool closing;  /* feed said that it is over: send what is left, then close */
    bool eof;      /* the client has ended its side */
    uint8_t first[SNIFF_BYTES_MAX];
    size_t first_len;
    uint8_t *out; /* pulled from grpc but not yet taken by the socket; GRPC_PULL_BYTES long */
    size_t out_len, out_at;
};

struct conn_set {
    struct loop *loop;
    const struct alloc *alloc;
    const struct clock *clock;
    struct conn_limits limits;
    struct rpc_thread *rpc;
    struct list conns;
    struct list dirty;
    struct task flush;
    bool flush_posted;
    bool draining;
    size_t count;
    atomic_size_t open; /* the same as count, for other threads */
    struct heap timers;
    struct loop_timer *timer;
    struct map_u64 by_http; /* http1_conn pointer to its conn */
    uint8_t *read_buffer;
    uint8_t *pull_buffer; /* lent to the connection being written */
};

static void conn_close(struct conn *c);
static void conn_write(struct conn *c);

/* --- timers -------------------------------------------------------------------------------------- */

static struct conn *conn_of_timer(const struct heap_item *item)
{
    return (struct conn *)(uintptr_t)((const char *)item - offsetof(struct conn, timer));
}

static bool due_before(const struct heap_item *a, const struct heap_item *b)
{
    return conn_of_timer(a)->due_ns < conn_of_timer(b)->due_ns;
}

static void arm_timer(struct conn_set *s)
{
    const struct heap_item *first = heap_first(&s->timers);
    if (first == NULL || conn_of_timer(first)->due_ns == GRPC_NEVER) {
        loop_timer_stop(s->timer);
        return;
    }
    uint64_t now = s->clock->mono_ns(s->clock->arg);
    uint64_t due = conn_of_timer(first)->due_ns;
    loop_timer_start(s->timer, due > now ? (due - now) / 1000000 + 1 : 1, 0);
}

/* Notes when the connection's protocol next wants to be called. */
static void set_due(struct conn *c, uint64_t due_ns)
{
    if (c->linger_ns < due_ns) due_ns = c->linger_ns;
    if (due_ns == c->due_ns) return;
    const struct heap_item *before = heap_first(&c->set->timers);
    uint64_t earliest = conn_of_timer(before)->due_ns;
    c->due_ns = due_ns;
    heap_update(&c->set->timers, &c->timer);
    if (due_ns < earliest || before == &c->timer) arm_timer(c->set);
}

static void conn_tick(struct conn *c, uint64_t now)
{
    if (c->grpc != NULL) {
        set_due(c, grpc_conn_tick(c->grpc, now));
    } else if (c->http != NULL) {
        set_due(c, http1_conn_tick(c->http, now));
    }
}

static void on_timer(void *arg)
{
    struct conn_set *s = arg;
    uint64_t now = s->clock->mono_ns(s->clock->arg);
    for (;;) {
        struct heap_item *first = heap_first(&s->timers);
        if (first == NULL || conn_of_timer(first)->due_ns > now) break;
        struct conn *c = conn_of_timer(first);
        if ((c->grpc == NULL && c->http == NULL) || c->linger_ns <= now) {
            conn_close(c); /* it never said what it speaks, or does not take our last words */
            continue;
        }
        c->due_ns = GRPC_NEVER;
        heap_update(&s->timers, &c->timer);
        conn_tick(c, now);
        conn_write(c);
    }
    arm_timer(s);
    rpc_thread_submit(s->rpc);
}

/* --- life ------------------------------------------------------------------------------------------ */

static void conn_close(struct conn *c)
{
    struct conn_set *s = c->set;
    loop_watch_close(c->watch);
    sock_close(c->fd);
    grpc_conn_free(c->grpc);
    if (c->http != NULL) {
        (void)map_u64_remove(&s->by_http, (uint64_t)(uintptr_t)c->http);
        http1_conn_free(c->http);
    }
    if (c->dirty) list_remove(&c->dirty_link);
    heap_remove(&s->timers, &c->timer);
    list_remove(&c->link);
    alloc_free(s->alloc, c->out, GRPC_PULL_BYTES);
    alloc_free(s->alloc, c, sizeof *c);
    s->count--;
    atomic_store(&s->open, s->count);
}

static void watch_for(struct conn *c, unsigned events)
{
    if (events == c->events) return;
    c->events = events;
    loop_watch_set(c->watch, events);
}

/* --- writing -------------------------------------------------------------------------------------- */

/* Writes what grpc makes. True when the socket took all there was. */
static bool write_grpc(struct conn *c, bool *broken)
{
    struct conn_set *s = c->set;
    uint8_t *lent = c->out != NULL ? c->out : s->pull_buffer;
    for (;;) {
        if (c->out_at == c->out_len) {
            c->out_at = 0;
            c->out_len =
                grpc_conn_pull(c->grpc, lent, GRPC_PULL_BYTES, s->clock->mono_ns(s->clock->arg));
            if (c->out_len == 0) break;
        }
        size_t done = 0;
        int rc = sock_write(c->fd, bytes_of(lent + c->out_at, c->out_len - c->out_at), &done);
        if (rc == 0) {
            c->out_at += done;
            continue;
        }
        *broken = rc != E_AGAIN;
        if (*broken || c->out != NULL) return false;
        /* The buffer was only lent: what is left gets a home. */
        c->out = alloc_new(s->alloc, GRPC_PULL_BYTES);
        *broken = c->out == NULL;
        if (c->out != NULL) memcpy(c->out, lent, c->out_len);
        return false;
    }
    alloc_free(s->alloc, c->out, GRPC_PULL_BYTES);
    c->out = NULL;
    return true;
}

static bool write_http(struct conn *c, bool *broken)
{
    for (;;) {
        struct bytes out = http1_conn_out(c->http);
        if (out.len == 0) return true;
        size_t done = 0;
        int rc = sock_write(c->fd, out, &done);
        if (rc < 0) {
            *broken = rc != E_AGAIN;
            return false;
        }
        http1_conn_sent(c->http, done);
    }
}

static bool is_done(const struct conn *c)
{
    if (c->closing) return true;
    if (c->grpc != NULL) return grpc_conn_done(c->grpc);
    return c->http != NULL && http1_conn_done(c->http);
}

static bool may_read(const struct conn *c)
{
    if (c->eof || c->closing) return false;
    if (c->grpc != NULL) return grpc_conn_want_read(c->grpc);
    return c->http == NULL || http1_conn_want_read(c->http);
}

/* Sends what there is, then asks the loop for what is wanted next, or closes. `c` may be gone afterwards. */
static void conn_write(struct conn *c)
{
    bool broken = false;
    bool all = true;
    if (c->dirty) list_remove(&c->dirty_link);
    c->dirty = false;
    if (c->grpc != NULL) all = write_grpc(c, &broken);
    if (c->http != NULL) all = write_http(c, &broken);
    if (broken || (all && is_done(c))) {
        conn_close(c);
        return;
    }
    uint64_t now = c->set->clock->mono_ns(c->set->clock->arg);
    if (is_done(c) && c->linger_ns == GRPC_NEVER) c->linger_ns = now + LINGER_MS * 1000000ULL;
    watch_for(c, (may_read(c) ? LOOP_READABLE : 0U) | (all ? 0U : LOOP_WRITABLE));
    if (c->grpc != NULL) {
        set_due(c, grpc_conn_tick(c->grpc, now));
    } else {
        set_due(c, c->due_ns);
    }
}

static void on_flush(struct task *task)
{
    struct conn_set *s =
        (struct conn_set *)(void *)((char *)task - offsetof(struct conn_set, flush));
    s->flush_posted = false;
    while (!list_empty(&s->dirty)) {
        struct list *at = list_pop_front(&s->dirty);
        struct conn *c = (struct conn *)(void *)((char *)at - offsetof(struct conn, dirty_link));
        c->dirty = false; /* popped above */
        conn_write(c);
    }
    rpc_thread_submit(s->rpc); /* requests that were pipelined behind an answer */
}

static void mark_dirty(struct conn *c)
{
    struct conn_set *s = c->set;
    if (c->dirty || c->in_event) return;
    c->dirty = true;
    list_push_back(&s->dirty, &c->dirty_link);
    if (s->flush_posted) return;
    s->flush_posted = true;
    loop_post(s->loop, &s->flush);
}

static void on_grpc_output(void *arg, struct grpc_conn *g)
{
    (void)arg;
    mark_dirty(grpc_conn_data(g));
}

static void on_http_output(void *arg, struct http1_conn *h)
{
    struct conn_set *s = arg;
    struct conn *c = map_u64_get(&s->by_http, (uint64_t)(uintptr_t)h);
    if (c != NULL) mark_dirty(c);
}

/* --- reading -------------------------------------------------------------------------------------- */

static int begin_grpc(struct conn *c, uint64_t now)
{
    struct conn_set *s = c->set;
    if (!c->face.grpc) return E_PROTO;
    struct grpc_conn_opts opts = s->limits.grpc;
    opts.pool = rpc_thread_pool(s->rpc);
    c->grpc = grpc_conn_new(&opts, rpc_thread_grpc(s->rpc), now);
    if (c->grpc == NULL) return E_NOMEM;
    grpc_conn_set_data(c->grpc, c);
    if (s->draining) grpc_conn_drain(c->grpc, now);
    return 0;
}

static int begin_http(struct conn *c, uint64_t now)
{
    struct conn_set *s = c->set;
    if (!c->face.http) return E_PROTO;
    int rc = map_u64_reserve(&s->by_http, 1);
    if (rc < 0) return rc;
    c->http =
        http1_conn_new(s->alloc, &s->limits.http, rpc_thread_http(s->rpc, c->face.http_kind), now);
    if (c->http == NULL) return E_NOMEM;
    if (s->draining) http1_conn_drain(c->http);
    return map_u64_put(&s->by_http, (uint64_t)(uintptr_t)c->http, c);
}

/* Gathers the first bytes until they tell the protocol, then hands them on. */
static int sniff(struct conn *c, struct bytes data, uint64_t now)
{
    size_t room = sizeof c->first - c->first_len;
    size_t n = data.len < room ? data.len : room;
    memcpy(c->first + c->first_len, data.data, n);
    c->first_len += n;
    int rc = 0;
    switch (sniff_bytes(bytes_of(c->first, c->first_len))) {
    case SNIFF_MORE: return 0;
    case SNIFF_TLS: return E_PROTO;
    case SNIFF_HTTP2: rc = begin_grpc(c, now); break;
    case SNIFF_HTTP1: rc = begin_http(c, now); break;
    }
    if (rc < 0) return rc;
    if (c->grpc != NULL) rc = grpc_conn_feed(c->grpc, c->first, c->first_len, now);
    if (c->http != NULL) rc = http1_conn_feed(c->http, c->first, c->first_len, now);
    c->closing = rc < 0;
    data = bytes_of(data.data + n, data.len - n);
    if (data.len == 0 || c->closing) return 0;
    if (c->grpc != NULL) rc = grpc_conn_feed(c->grpc, data.data, data.len, now);
    if (c->http != NULL) rc = http1_conn_feed(c->http, data.data, data.len, now);
    c->closing = rc < 0;
    return 0;
}

static int feed(struct conn *c, struct bytes data)
{
    uint64_t now = c->set->clock->mono_ns(c->set->clock->arg);
    int rc = 0;
    if (c->grpc != NULL) {
        rc = grpc_conn_feed(c->grpc, data.data, data.len, now);
        c->closing = rc < 0;
    } else if (c->http != NULL) {
        rc = http1_conn_feed(c->http, data.data, data.len, now);
        c->closing = rc < 0;
    } else {
        return sniff(c, data, now);
    }
    return 0;
}

/* Reads while there is something, within bounds; negative when the connection is to be closed now. */
static int conn_read(struct conn *c)
{
    struct conn_set *s = c->set;
    for (int i = 0; i < READS_PER_EVENT && may_read(c); i++) {
        size_t got = 0;
        int rc = sock_read(c->fd, s->read_buffer, READ_BYTES, &got);
        if (rc == E_AGAIN) return 0;
        if (rc == E_EOF && c->http != NULL) {
            c->eof = true;
            http1_conn_eof(c->http);
            return 0;
        }
        if (rc < 0) return rc;
        rc = feed(c, bytes_of(s->read_buffer, got));
        if (rc < 0) return rc;
        if (got < READ_BYTES) return 0;
    }
    return 0;
}

/* What the connection's requests ask for leaves together, whatever becomes of the connection. */
static void on_event(void *arg, unsigned events)
{
    struct conn *c = arg;
    struct rpc_thread *rpc = c->set->rpc;
    c->in_event = true;
    bool broken = (events & (LOOP_READABLE | LOOP_HANGUP)) != 0 && conn_read(c) < 0;
    rpc_thread_submit(rpc);
    if (broken) {
        conn_close(c);
        return;
    }
    if (c->http != NULL) conn_tick(c, c->set->clock->mono_ns(c->set->clock->arg));
    c->in_event = false; /* what comes up while writing needs another round */
    conn_write(c);
    rpc_thread_submit(rpc);
}

/* --- the set ---------------------------------------------------------------------------------------- */

void conn_set_add(struct conn_set *s, int fd, struct conn_face face)
{
    struct conn *c = s->draining ? NULL : alloc_zero(s->alloc, sizeof *c);
    if (c == NULL || heap_reserve(&s->timers, 1) < 0 ||
        loop_watch_open(s->loop, fd, on_event, c, &c->watch) < 0) {
        alloc_free(s->alloc, c, sizeof *c);
        sock_close(fd);
        return;
    }
    c->set = s;
    c->fd = fd;
    c->face = face;
    c->due_ns = s->clock->mono_ns(s->clock->arg) + SNIFF_TIMEOUT_MS * 1000000ULL;
    c->linger_ns = GRPC_NEVER;
    list_push_back(&s->conns, &c->link);
    (void)heap_push(&s->timers, &c->timer);
    if (heap_first(&s->timers) == &c->timer) arm_timer(s);
    s->count++;
    atomic_store(&s->open, s->count);
    watch_for(c, LOOP_READABLE);
}

static int set_init(struct conn_set *s, const struct rpc_member *member)
{
    int rc = rpc_thread_new(member, s->loop, s->alloc, on_grpc_output, s, &s->rpc);
    if (rc < 0) return rc;
    rpc_thread_on_http_output(s->rpc, on_http_output, s);
    s->read_buffer = alloc_new(s->alloc, READ_BYTES);
    s->pull_buffer = alloc_new(s->alloc, GRPC_PULL_BYTES);
    if (s->read_buffer == NULL || s->pull_buffer == NULL) return E_NOMEM;
    return loop_timer_open(s->loop, on_timer, s, &s->timer);
}

int conn_set_new(struct loop *loop, const struct alloc *alloc, const struct clock *clock,
                 const struct rpc_member *member, const struct conn_limits *limits,
                 struct conn_set **out)
{
    struct conn_set *s = alloc_zero(alloc, sizeof *s);
    if (s == NULL) return E_NOMEM;
    s->loop = loop;
    s->alloc = alloc;
    s->clock = clock;
    s->limits = *limits;
    s->flush.run = on_flush;
    list_init(&s->conns);
    list_init(&s->dirty);
    heap_init(&s->timers, alloc, due_before);
    map_u64_init(&s->by_http, alloc, 0);
    int rc = set_init(s, member);
    if (rc < 0) {
        conn_set_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

void conn_set_drain(struct conn_set *s)
{
    uint64_t now = s->clock->mono_ns(s->clock->arg);
    s->draining = true;
    rpc_thread_drain(s->rpc);
    struct list *next = NULL;
    for (struct list *at = s->conns.next; at != &s->conns; at = next) {
        next = at->next;
        struct conn *c = (struct conn *)(void *)at;
        if (c->grpc != NULL) grpc_conn_drain(c->grpc, now);
        if (c->http != NULL) http1_conn_drain(c->http);
        if (c->grpc == NULL && c->http == NULL) c->closing = true;
        mark_dirty(c);
    }
}

static bool is_idle(const struct conn *c)
{
    return c->grpc != NULL && grpc_conn_call_count(c->grpc) == 0 &&
           grpc_conn_queued_bytes(c->grpc) == 0;
}

void conn_set_close_idle(struct conn_set *s)
{
    struct list *next = NULL;
    for (struct list *at = s->conns.next; at != &s->conns; at = next) {
        next = at->next;
        struct conn *c = (struct conn *)(void *)at;
        if (is_idle(c)) conn_close(c);
    }
}

void conn_set_close(struct conn_set *s)
{
    s->draining = true;
    while (!list_empty(&s->conns))
        conn_close((struct conn *)(void *)s->conns.next);
}

size_t conn_set_pending(const struct conn_set *s)
{
    return rpc_thread_pending(s->rpc);
}

size_t conn_set_open(const struct conn_set *s)
{
    return atomic_load(&s->open);
}

const struct rpc_thread *conn_set_rpc(const struct conn_set *s)
{
    return s->rpc;
}

void conn_set_free(struct conn_set *s)
{
    if (s == NULL) return;
    ASSERT(s->count == 0);
    if (s->timer != NULL) loop_timer_close(s->timer);
    heap_deinit(&s->timers);
    map_u64_deinit(&s->by_http);
    alloc_free(s->alloc, s->read_buffer, READ_BYTES);
    alloc_free(s->alloc, s->pull_buffer, GRPC_PULL_BYTES);
    rpc_thread_free(s->rpc);
    alloc_free(s->alloc, s, sizeof *s);
}

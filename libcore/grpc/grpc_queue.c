/* Messages to bytes of DATA frames: a list of segments, each a copy, a shared span or a source.
 *
 * Small copies share a segment, so a burst of events leaves as one DATA frame. A source is asked for bytes
 * only when a frame is being made: a range of a gigabyte costs what its source costs. */
#include "grpc/grpc_int.h"

#include "base/assert.h"
#include "base/endian.h"

enum {
    SEG_BYTES_SMALL = 512,  /* the first segment: one small answer with its prefix */
    SEG_BYTES_LARGE = 4096, /* what follows in a burst */
    SHARE_BYTES_MIN = 1024  /* copying less is cheaper than a segment of its own */
};

enum seg_kind { SEG_COPY, SEG_SHARED, SEG_SOURCE };

struct grpc__seg {
    struct grpc__seg *next;
    enum seg_kind kind;
    size_t room; /* bytes allocated, this struct included */
    size_t off;  /* sent of it */
    size_t len;  /* SEG_COPY, SEG_SHARED: bytes in it; SEG_SOURCE: the length promised */
    union {
        struct {
            struct rcbuf *ref;
            const uint8_t *data;
        } shared;
        struct grpc_source source;
    } u;
    uint8_t data[];
};

static struct grpc__seg *seg_new(struct grpc_pool *pool, enum seg_kind kind, size_t room)
{
    struct grpc__seg *s = grpc_pool_get(pool, room);
    if (s == NULL) return NULL;
    memset(s, 0, sizeof *s);
    s->kind = kind;
    s->room = room;
    return s;
}

static void seg_free(struct grpc__seg *s, struct grpc_pool *pool)
{
    if (s->kind == SEG_SHARED) rcbuf_unref(s->u.shared.ref);
    if (s->kind == SEG_SOURCE && s->u.source.release != NULL) {
        s->u.source.release(s->u.source.arg);
    }
    grpc_pool_put(pool, s, s->room);
}

static size_t seg_space(const struct grpc__seg *s)
{
    if (s == NULL || s->kind != SEG_COPY) return 0;
    return s->room - sizeof *s - s->len;
}

static void queue_append(struct grpc__queue *q, struct grpc__seg *s)
{
    if (q->tail != NULL)
        q->tail->next = s;
    else
        q->head = s;
    q->tail = s;
    if (s->kind == SEG_SOURCE)
        q->source_count++;
    else
        q->bytes += s->len;
}

bool grpc__queue_empty(const struct grpc__queue *q)
{
    return q->head == NULL;
}

/* Room for a copy of `n` bytes in one segment: the tail, or a new one that is not yet in the list. */
static struct grpc__seg *queue_room(struct grpc__queue *q, struct grpc_pool *pool, size_t n)
{
    if (seg_space(q->tail) >= n) return q->tail;
    size_t room = q->tail == NULL ? SEG_BYTES_SMALL : SEG_BYTES_LARGE;
    if (room < sizeof(struct grpc__seg) + n) room = sizeof(struct grpc__seg) + n;
    return seg_new(pool, SEG_COPY, room);
}

static void seg_put(struct grpc__queue *q, struct grpc__seg *s, const void *data, size_t n)
{
    if (n == 0) return;
    memcpy(s->data + s->len, data, n);
    s->len += n;
    if (s == q->tail) q->bytes += n;
}

int grpc__queue_put(struct grpc__queue *q, struct grpc_pool *pool, struct bytes bytes)
{
    struct grpc__seg *s = queue_room(q, pool, bytes.len);
    if (s == NULL) return E_NOMEM;
    seg_put(q, s, bytes.data, bytes.len);
    if (s != q->tail) queue_append(q, s);
    return 0;
}

static bool part_shared(const struct grpc_part *p)
{
    return p->shared != NULL && p->bytes.len >= SHARE_BYTES_MIN;
}

static void prefix_make(uint8_t out[GRPC_PREFIX_BYTES], uint8_t flag, size_t len)
{
    out[0] = flag;
    endian_store_be32(out + 1, (uint32_t)len);
}

static int put_copied(struct grpc__queue *q, struct grpc_pool *pool, const uint8_t *prefix,
                      const struct grpc_part *parts, size_t count, size_t total)
{
    struct grpc__seg *s = queue_room(q, pool, GRPC_PREFIX_BYTES + total);
    if (s == NULL) return E_NOMEM;
    seg_put(q, s, prefix, GRPC_PREFIX_BYTES);
    for (size_t i = 0; i < count; i++)
        seg_put(q, s, parts[i].bytes.data, parts[i].bytes.len);
    if (s != q->tail) queue_append(q, s);
    return 0;
}

static int put_shared(struct grpc__queue *q, struct grpc_pool *pool, const struct grpc_part *p)
{
    struct grpc__seg *s = seg_new(pool, SEG_SHARED, sizeof *s);
    if (s == NULL) return E_NOMEM;
    s->len = p->bytes.len;
    s->u.shared.ref = rcbuf_ref(p->shared);
    s->u.shared.data = p->bytes.data;
    queue_append(q, s);
    return 0;
}

static void queue_splice(struct grpc__queue *q, struct grpc__queue *more)
{
    if (more->head == NULL) return;
    if (q->tail != NULL)
        q->tail->next = more->head;
    else
        q->head = more->head;
    q->tail = more->tail;
    q->bytes += more->bytes;
    q->source_count += more->source_count;
    *more = (struct grpc__queue){0};
}

/* The pieces go to a list of their own first, so that running out of memory leaves nothing behind. */
static int put_mixed(struct grpc__queue *q, struct grpc_pool *pool, const uint8_t *prefix,
                     const struct grpc_part *parts, size_t count)
{
    struct grpc__queue own = {0};
    int rc = grpc__queue_put(&own, pool, bytes_of(prefix, GRPC_PREFIX_BYTES));
    for (size_t i = 0; i < count && rc == 0; i++) {
        if (parts[i].bytes.len == 0) continue;
        rc = part_shared(&parts[i]) ? put_shared(&own, pool, &parts[i])
                                    : grpc__queue_put(&own, pool, parts[i].bytes);
    }
    if (rc == 0) queue_splice(q, &own);
    grpc__queue_deinit(&own, pool);
    return rc;
}

int grpc__queue_put_message(struct grpc__queue *q, struct grpc_pool *pool, uint8_t flag,
                            const struct grpc_part *parts, size_t count, size_t total)
{
    uint8_t prefix[GRPC_PREFIX_BYTES];
    prefix_make(prefix, flag, total);
    for (size_t i = 0; i < count; i++) {
        if (part_shared(&parts[i])) return put_mixed(q, pool, prefix, parts, count);
    }
    return put_copied(q, pool, prefix, parts, count, total);
}

int grpc__queue_put_source(struct grpc__queue *q, struct grpc_pool *pool,
                           const struct grpc_source *source)
{
    struct grpc__seg *s = seg_new(pool, SEG_SOURCE, sizeof *s);
    if (s == NULL) return E_NOMEM;
    uint8_t prefix[GRPC_PREFIX_BYTES];
    prefix_make(prefix, 0, (size_t)source->len);
    if (grpc__queue_put(q, pool, bytes_of(prefix, sizeof prefix)) < 0) {
        grpc_pool_put(pool, s, s->room);
        return E_NOMEM;
    }
    s->len = (size_t)source->len;
    s->u.source = *source;
    queue_append(q, s);
    return 0;
}

/* Moves bytes of the first segment; returns how many, or an error of its source. */
static int seg_read(struct grpc__queue *q, struct grpc__seg *s, uint8_t *out, size_t cap)
{
    size_t n = s->len - s->off < cap ? s->len - s->off : cap;
    if (n == 0) return 0;
    if (s->kind == SEG_SOURCE) {
        int rc = s->u.source.pull(s->u.source.arg, out, n);
        if (rc == 0 || rc > (int)n) return E_IO; /* a source that breaks its promise */
        if (rc < 0) return rc;
        n = (size_t)rc;
    } else {
        memcpy(out, (s->kind == SEG_COPY ? s->data : s->u.shared.data) + s->off, n);
        q->bytes -= n;
    }
    s->off += n;
    return (int)n;
}

static void queue_drop_head(struct grpc__queue *q, struct grpc_pool *pool)
{
    struct grpc__seg *s = q->head;
    q->head = s->next;
    if (q->head == NULL) q->tail = NULL;
    if (s->kind == SEG_SOURCE) q->source_count--;
    seg_free(s, pool);
}

int grpc__queue_read(struct grpc__queue *q, struct grpc_pool *pool, uint8_t *out, size_t cap)
{
    ASSERT(cap <= INT32_MAX);
    size_t done = 0;
    while (q->head != NULL && done < cap) {
        struct grpc__seg *s = q->head;
        int n = seg_read(q, s, out + done, cap - done);
        if (n == E_AGAIN && done > 0) break;
        if (n < 0) return n;
        done += (size_t)n;
        if (s->off == s->len) queue_drop_head(q, pool);
    }
    return done == 0 ? E_AGAIN : (int)done;
}

void grpc__queue_deinit(struct grpc__queue *q, struct grpc_pool *pool)
{
    while (q->head != NULL) {
        if (q->head->kind != SEG_SOURCE) q->bytes -= q->head->len - q->head->off;
        queue_drop_head(q, pool);
    }
    ASSERT(q->bytes == 0);
    ASSERT(q->source_count == 0);
}

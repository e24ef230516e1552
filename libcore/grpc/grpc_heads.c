/* A header list while it arrives: nghttp2's own buffers, referenced rather than copied.
 *
 * Fields that repeat from request to request sit in the HPACK table, so keeping one costs two
 * counters. Header blocks of different streams never interleave (RFC 9113, 4.3), so a connection
 * needs one list only. */
#include "grpc/grpc_int.h"

#include "base/assert.h"

enum {
    HEADS_CAP_MIN = 16,
    HEADS_FIELD_BYTES = 32 /* RFC 9113, 6.5.2: SETTINGS_MAX_HEADER_LIST_SIZE */
};

void grpc__heads_init(struct grpc__heads *h, struct grpc_pool *pool, size_t bytes_max)
{
    *h = (struct grpc__heads){.pool = pool, .bytes_max = bytes_max};
}

void grpc__heads_reset(struct grpc__heads *h)
{
    for (size_t i = 0; i < h->ref_count; i++)
        nghttp2_rcbuf_decref(h->refs[i]);
    h->ref_count = 0;
    h->count = 0;
    h->bytes = 0;
}

void grpc__heads_deinit(struct grpc__heads *h)
{
    grpc__heads_reset(h);
    grpc_pool_put(h->pool, h->fields, h->cap * sizeof *h->fields);
    grpc_pool_put(h->pool, h->refs, h->ref_cap * sizeof *h->refs);
    *h = (struct grpc__heads){.pool = h->pool, .bytes_max = h->bytes_max};
}

/* Doubles an array of the pool. Errors: E_NOMEM. */
static int grow(struct grpc_pool *pool, void **array, size_t *cap, size_t item_bytes)
{
    size_t more = *cap == 0 ? HEADS_CAP_MIN : 2 * *cap;
    const struct alloc *a = grpc_pool_alloc(pool);
    void *grown = a->resize(a->arg, *array, *cap * item_bytes, more * item_bytes);
    if (grown == NULL) return E_NOMEM;
    *array = grown;
    *cap = more;
    return 0;
}

static int heads_ref(struct grpc__heads *h, nghttp2_rcbuf *b)
{
    if (h->ref_count == h->ref_cap) {
        void *refs = h->refs;
        int rc = grow(h->pool, &refs, &h->ref_cap, sizeof *h->refs);
        if (rc < 0) return rc;
        h->refs = refs;
    }
    nghttp2_rcbuf_incref(b);
    h->refs[h->ref_count++] = b;
    return 0;
}

static int heads_count(struct grpc__heads *h, size_t name_bytes, size_t value_bytes)
{
    size_t bytes = name_bytes + value_bytes + HEADS_FIELD_BYTES;
    if (bytes > h->bytes_max - h->bytes) return E_TOOBIG;
    h->bytes += bytes;
    return 0;
}

int grpc__heads_add_own(struct grpc__heads *h, nghttp2_rcbuf *name, nghttp2_rcbuf *value)
{
    int rc = heads_count(h, grpc__rcbuf_bytes(name).len, grpc__rcbuf_bytes(value).len);
    return rc < 0 ? rc : heads_ref(h, value);
}

int grpc__heads_add(struct grpc__heads *h, nghttp2_rcbuf *name, nghttp2_rcbuf *value)
{
    struct grpc_field f = {grpc__rcbuf_bytes(name), grpc__rcbuf_bytes(value)};
    int rc = heads_count(h, f.name.len, f.value.len);
    if (rc == 0) rc = heads_ref(h, name);
    if (rc == 0) rc = heads_ref(h, value);
    if (rc < 0) return rc;
    if (h->count == h->cap) {
        void *fields = h->fields;
        rc = grow(h->pool, &fields, &h->cap, sizeof *h->fields);
        if (rc < 0) return rc;
        h->fields = fields;
    }
    h->fields[h->count++] = f;
    return 0;
}

struct bytes grpc__rcbuf_bytes(nghttp2_rcbuf *b)
{
    nghttp2_vec v = nghttp2_rcbuf_get_buf(b);
    return bytes_of(v.base, v.len);
}

struct bytes grpc_head_get(const struct grpc_head *head, const char *name)
{
    for (size_t i = 0; i < head->field_count; i++) {
        if (grpc__is(head->fields[i].name, name)) return head->fields[i].value;
    }
    return BYTES_EMPTY;
}

/* The bytes of a normal entry to a request.
 *
 * A put, by far the most frequent one, is decoded by hand: InternalRaftRequest {put = 4, header =
 * 100} without a copy and without a message tree. Whatever is not exactly that shape goes through
 * pb_unpack(). Both give the same for the same bytes (a test compares them). */
#include "apply/apply_int.h"
#include "pb/unpack.h"
#include "pb/wire.h"

/* Fields of an InternalRaftRequest that are looked at by number. */
enum { FIELD_ID = 1, FIELD_V2 = 2, FIELD_PUT = 4, FIELD_HEADER = 100 };

/* A committed request is never refused for its size: these bounds are those of memory. */
static const struct pb_bounds committed_bounds = {
    .depth_max = PB_DEPTH_MAX,
    .count_max = UINT32_MAX,
    .memory_max = APPLY_ARENA_BYTES_MAX / 2,
};

void apply__put_from(const Etcdserverpb__PutRequest *p, struct apply__put *out)
{
    *out = (struct apply__put){
        .key = apply__bytes(p->key),
        .value = apply__bytes(p->value),
        .lease = p->lease,
        .prev_kv = p->prev_kv,
        .ignore_value = p->ignore_value,
        .ignore_lease = p->ignore_lease,
    };
}

/* ---- the short way: puts --------------------------------------------------------------------- */

/* One field of a PutRequest; false when it is not of the type that it should have. */
static bool put_field(const struct pb_field *f, struct apply__put *out)
{
    enum pb_wire want = f->number <= 2 ? PB_WIRE_LEN : PB_WIRE_VARINT;
    if (f->number > 6) return true; /* unknown: skipped */
    if (f->wire != want) return false;
    switch (f->number) {
    case 1: out->key = f->data; break;
    case 2: out->value = f->data; break;
    case 3: out->lease = (lease_id)f->value; break;
    case 4: out->prev_kv = f->value != 0; break;
    case 5: out->ignore_value = f->value != 0; break;
    default: out->ignore_lease = f->value != 0; break;
    }
    return true;
}

static bool put_decode(struct bytes in, struct apply__put *out)
{
    struct pb_reader r = pb_reader_of(in);
    struct pb_field f;
    int rc;
    *out = (struct apply__put){0};
    while ((rc = pb_next(&r, &f)) == 1) {
        if (!put_field(&f, out)) return false;
    }
    return rc == 0;
}

/* RequestHeader {ID = 1, username = 2, auth_revision = 3}. */
static bool header_decode(struct bytes in, uint64_t *id)
{
    struct pb_reader r = pb_reader_of(in);
    struct pb_field f;
    int rc;
    *id = 0;
    while ((rc = pb_next(&r, &f)) == 1) {
        enum pb_wire want = f.number == 2 ? PB_WIRE_LEN : PB_WIRE_VARINT;
        if (f.number <= 3 && f.wire != want) return false;
        if (f.number == 1) *id = f.value;
        if (f.number == 2 && !pb_utf8_valid(f.data)) return false;
    }
    return rc == 0;
}

/* True when the entry is one put and one header and nothing else. */
static bool request_is_put(struct bytes data, struct apply__request *out)
{
    struct pb_reader r = pb_reader_of(data);
    struct pb_field f;
    bool put = false;
    bool header = false;
    int rc;
    while ((rc = pb_next(&r, &f)) == 1) {
        if (f.wire != PB_WIRE_LEN) return false;
        if (f.number == FIELD_PUT && !put) {
            put = put_decode(f.data, &out->put);
            if (!put) return false;
        } else if (f.number == FIELD_HEADER && !header) {
            header = header_decode(f.data, &out->id);
            if (!header) return false;
        } else {
            return false;
        }
    }
    return rc == 0 && put && header;
}

/* ---- the long way ---------------------------------------------------------------------------- */

static bool has_v2(struct bytes data)
{
    struct pb_reader r = pb_reader_of(data);
    struct pb_field f;
    while (pb_next(&r, &f) == 1) {
        if (f.number == FIELD_V2) return true;
    }
    return false;
}

static const void *message_at(const Etcdserverpb__InternalRaftRequest *m, size_t offset)
{
    const void *msg;
    memcpy(&msg, (const char *)m + offset, sizeof msg);
    return msg;
}

static int request_find_kind(const Etcdserverpb__InternalRaftRequest *m, struct apply__request *out)
{
    for (const struct apply__kind *k = apply__kinds; k->name != NULL; k++) {
        const void *msg = message_at(m, k->offset);
        if (msg == NULL) continue;
        out->kind = k;
        out->msg = msg;
        if (k == apply__kind_put) {
            apply__put_from(m->put, &out->put);
            out->msg = &out->put;
        }
        return 0;
    }
    return E_NOTFOUND;
}

int apply__request_decode(struct bytes data, struct arena *arena, struct apply__request *out,
                          struct errmsg *em)
{
    if (request_is_put(data, out)) {
        out->kind = apply__kind_put;
        out->msg = &out->put;
        return 0;
    }
    if (has_v2(data)) {
        errmsg_set(em, "it holds a request of the v2 API, which this version cannot read");
        return E_CORRUPT;
    }
    ProtobufCMessage *base = NULL;
    int rc = pb_unpack_opts(&etcdserverpb__internal_raft_request__descriptor, data,
                            &(struct pb_unpack_opts){.bounds = &committed_bounds, .alias = true},
                            arena, &base, em);
    if (rc < 0) return rc == E_NOMEM ? rc : E_CORRUPT;
    const Etcdserverpb__InternalRaftRequest *m = (const Etcdserverpb__InternalRaftRequest *)base;
    if (m->id == 0 && m->header == NULL) {
        errmsg_set(em, "its request has neither an id nor a header");
        return E_CORRUPT;
    }
    out->id = m->id != 0 ? m->id : m->header->id;
    out->kind = NULL;
    out->msg = NULL;
    /* Without a known kind it is the caller's to judge: below the consistent index that is no
     * error. */
    (void)request_find_kind(m, out);
    return 0;
}

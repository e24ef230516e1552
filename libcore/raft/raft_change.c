/* The little of ConfChange and ConfChangeV2 that raft itself must understand (disk-format.md 4).
 *
 * raft stands below the module that knows protobuf, and needs three numbers of a message with two levels, so
 * it reads them itself: fields in any order, unknown ones skipped, nothing recursive. */
#include <inttypes.h>
#include <stdio.h>

#include "raft/raft_int.h"

struct reader {
    const uint8_t *at;
    const uint8_t *end;
};

struct field {
    uint64_t number;
    uint64_t value;      /* of a varint */
    struct reader bytes; /* of a length-delimited one */
    bool delimited;
};

static int read_varint(struct reader *in, uint64_t *out)
{
    ASSERT(in->at <= in->end);
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (in->at == in->end) return E_PROTO;
        uint8_t b = *in->at++;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) {
            *out = v;
            return 0;
        }
    }
    return E_PROTO;
}

static int skip_bytes(struct reader *in, uint64_t n, struct reader *out)
{
    ASSERT(in->at <= in->end);
    if (n > (uint64_t)(in->end - in->at)) return E_PROTO;
    *out = (struct reader){in->at, in->at + n};
    in->at += n;
    return 0;
}

static int read_field(struct reader *in, struct field *f)
{
    ASSERT(in->at < in->end);
    uint64_t tag;
    int rc = read_varint(in, &tag);
    if (rc < 0) return rc;
    *f = (struct field){.number = tag >> 3};
    uint64_t len = 0;
    switch (tag & 7) {
    case 0: return read_varint(in, &f->value);
    case 1: return skip_bytes(in, 8, &f->bytes);
    case 2:
        f->delimited = true;
        rc = read_varint(in, &len);
        return rc < 0 ? rc : skip_bytes(in, len, &f->bytes);
    case 5: return skip_bytes(in, 4, &f->bytes);
    default: return E_PROTO;
    }
}

/* Type and node id at the numbers that this message has them. */
static int read_single(struct reader in, uint64_t type_no, uint64_t node_no,
                       struct raft_conf_single *out)
{
    ASSERT(type_no != node_no);
    *out = (struct raft_conf_single){0};
    while (in.at < in.end) {
        struct field f;
        int rc = read_field(&in, &f);
        if (rc < 0) return rc;
        if (f.delimited) continue;
        if (f.number == type_no) {
            if (f.value > RAFT_CONF_ADD_LEARNER) return E_PROTO;
            out->type = (enum raft_conf_change_type)f.value;
        }
        if (f.number == node_no) out->node_id = f.value;
    }
    return 0;
}

static int read_v2(struct reader in, struct raft_conf_change *out)
{
    ASSERT(out->change_count == 0);
    while (in.at < in.end) {
        struct field f;
        int rc = read_field(&in, &f);
        if (rc < 0) return rc;
        if (f.number == 1 && !f.delimited) {
            if (f.value > RAFT_CONF_JOINT_EXPLICIT) return E_PROTO;
            out->transition = (enum raft_conf_transition)f.value;
        }
        if (f.number != 2 || !f.delimited) continue;
        if (out->change_count == RAFT_CONF_CHANGES_MAX) return E_TOOBIG;
        rc = read_single(f.bytes, 1, 2, &out->changes[out->change_count++]);
        if (rc < 0) return rc;
    }
    return 0;
}

int raft_conf_change_decode(const struct raft_entry *e, struct raft_conf_change *out)
{
    ASSERT(e != NULL && out != NULL);
    struct bytes data = rcbuf_bytes(e->data);
    static const uint8_t none;
    const uint8_t *at = data.len == 0 ? &none : data.data;
    struct reader in = {at, at + data.len};
    struct raft_conf_change cc = {0};
    int rc = E_PROTO;
    switch (e->type) {
    case RAFT_ENTRY_NORMAL: break;
    case RAFT_ENTRY_CONF_CHANGE:
        cc.change_count = 1;
        rc = read_single(in, 2, 3, &cc.changes[0]);
        break;
    case RAFT_ENTRY_CONF_CHANGE_V2: rc = read_v2(in, &cc); break;
    }
    if (rc == 0) *out = cc;
    return rc;
}

const char *raft__conf_change_text(const struct raft_entry *e, char out[RAFT__CHANGE_TEXT_MAX])
{
    static const char *const transitions[] = {"ConfChangeTransitionAuto",
                                              "ConfChangeTransitionJointImplicit",
                                              "ConfChangeTransitionJointExplicit"};
    static const char *const types[] = {"ConfChangeAddNode", "ConfChangeRemoveNode",
                                        "ConfChangeUpdateNode", "ConfChangeAddLearnerNode"};
    ASSERT(e->type != RAFT_ENTRY_NORMAL);
    struct raft_conf_change cc = {0};
    if (raft_conf_change_decode(e, &cc) < 0) {
        (void)snprintf(out, RAFT__CHANGE_TEXT_MAX, "(malformed)");
        return out;
    }
    int n = snprintf(out, RAFT__CHANGE_TEXT_MAX, "transition:%s", transitions[cc.transition]);
    size_t len = n < 0 ? 0 : (size_t)n;
    for (uint32_t i = 0; i < cc.change_count && len < RAFT__CHANGE_TEXT_MAX; i++) {
        n = snprintf(out + len, RAFT__CHANGE_TEXT_MAX - len,
                     " changes:{type:%s node_id:%" PRIu64 "}", types[cc.changes[i].type],
                     cc.changes[i].node_id);
        len += n < 0 ? 0 : (size_t)n;
    }
    return out;
}

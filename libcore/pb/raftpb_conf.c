/* ConfState and the messages around it: Snapshot, and the snapshot record of a WAL. */
#include "base/assert.h"
#include "base/err.h"
#include "pb/pb_int.h"
#include "pb/raftpb.h"
#include "pb/wire.h"

/* ---- raftpb.ConfState --------------------------------------------------------------------------- */

static size_t ids_size(uint32_t number, struct pb_ids ids)
{
    size_t size = 0;
    for (size_t i = 0; i < ids.count; i++) {
        size += pb_uint_size(number, ids.data[i]);
    }
    return size;
}

static uint8_t *write_ids(uint8_t *at, uint32_t number, struct pb_ids ids)
{
    for (size_t i = 0; i < ids.count; i++) {
        at = pb_write_uint(at, number, ids.data[i]);
    }
    return at;
}

size_t pb_conf_state_size(const struct pb_conf_state *cs)
{
    return ids_size(1, cs->voters) + ids_size(2, cs->learners) + ids_size(3, cs->voters_outgoing) +
           ids_size(4, cs->learners_next) + (cs->auto_leave_unset ? 0 : 2);
}

uint8_t *pb_conf_state_write(const struct pb_conf_state *cs, uint8_t *at)
{
    at = write_ids(at, 1, cs->voters);
    at = write_ids(at, 2, cs->learners);
    at = write_ids(at, 3, cs->voters_outgoing);
    at = write_ids(at, 4, cs->learners_next);
    return cs->auto_leave_unset ? at : pb_write_uint(at, 5, cs->auto_leave);
}

int pb_conf_state_put(const struct pb_conf_state *cs, struct buf *out)
{
    size_t size = pb_conf_state_size(cs);
    int rc = buf_reserve(out, size);
    if (rc < 0 || size == 0) return rc;
    pb__put_done(out, pb_conf_state_write(cs, out->data + out->len), size);
    return 0;
}

enum { LISTS = 4 }; /* fields 1 to 4 */

/* Takes the ids of one field, packed or not: only counts them while `at` is NULL. */
static int take_ids(const struct pb_field *f, uint64_t *at, size_t *count)
{
    struct pb_reader r = pb_reader_of(f->data);
    uint64_t id = f->value;
    if (f->wire == PB_WIRE_VARINT) {
        if (at != NULL) at[*count] = id;
        (*count)++;
        return 0;
    }
    while (f->wire == PB_WIRE_LEN && r.at < r.end) {
        if (pb_read_varint(&r, &id) < 0) return E_PROTO;
        if (at != NULL) at[*count] = id;
        (*count)++;
    }
    return 0;
}

/* One walk over the message. The lists are counted, and stored when there is a place for them. */
static int walk_conf_state(struct bytes in, uint64_t *const place[LISTS], size_t counts[LISTS],
                           struct pb_conf_state *cs)
{
    struct pb_reader r = pb_reader_of(in);
    struct pb_field f;
    int rc;
    while ((rc = pb_next(&r, &f)) > 0) {
        if (f.number <= LISTS && take_ids(&f, place[f.number - 1], &counts[f.number - 1]) < 0) {
            return E_PROTO;
        }
        if (f.number == 5 && f.wire == PB_WIRE_VARINT) {
            cs->auto_leave = f.value != 0;
            cs->auto_leave_unset = false;
        }
    }
    return rc;
}

int pb_conf_state_decode(struct bytes in, struct arena *arena, struct pb_conf_state *out)
{
    struct pb_conf_state cs = {.auto_leave_unset = true};
    struct pb_ids *lists[LISTS] = {&cs.voters, &cs.learners, &cs.voters_outgoing,
                                   &cs.learners_next};
    uint64_t *place[LISTS] = {NULL};
    size_t counts[LISTS] = {0};
    int rc = walk_conf_state(in, place, counts, &cs);
    if (rc < 0) return rc;
    for (size_t i = 0; i < LISTS; i++) {
        if (counts[i] == 0) continue;
        place[i] = arena_new(arena, counts[i] * sizeof *place[i]);
        if (place[i] == NULL) return E_NOMEM;
        *lists[i] = (struct pb_ids){place[i], counts[i]};
        counts[i] = 0;
    }
    rc = walk_conf_state(in, place, counts, &cs);
    ASSERT(rc == 0);
    *out = cs;
    return 0;
}

/* ---- raftpb.Snapshot ---------------------------------------------------------------------------- */

static size_t snapshot_metadata_size(const struct pb_snapshot *s)
{
    return pb_len_size(1, pb_conf_state_size(&s->conf_state)) + pb_uint_size(2, s->index) +
           pb_uint_size(3, s->term);
}

size_t pb_snapshot_size(const struct pb_snapshot *s)
{
    size_t data = s->data.len == 0 ? 0 : pb_len_size(1, s->data.len);
    return data + pb_len_size(2, snapshot_metadata_size(s));
}

uint8_t *pb_snapshot_write(const struct pb_snapshot *s, uint8_t *at)
{
    if (s->data.len > 0) at = pb_write_bytes(at, 1, s->data);
    at = pb_write_len(at, 2, snapshot_metadata_size(s));
    at = pb_write_len(at, 1, pb_conf_state_size(&s->conf_state));
    at = pb_conf_state_write(&s->conf_state, at);
    at = pb_write_uint(at, 2, s->index);
    return pb_write_uint(at, 3, s->term);
}

int pb_snapshot_put(const struct pb_snapshot *s, struct buf *out)
{
    size_t size = pb_snapshot_size(s);
    int rc = buf_reserve(out, size);
    if (rc < 0) return rc;
    pb__put_done(out, pb_snapshot_write(s, out->data + out->len), size);
    return 0;
}

/* Go merges two occurrences of a conf state; here the later one wins as a whole. No writer makes two. */
static int snapshot_metadata(struct bytes in, struct arena *arena, struct pb_snapshot *out)
{
    struct pb_reader r = pb_reader_of(in);
    struct pb_field f;
    int rc;
    while ((rc = pb_next(&r, &f)) > 0) {
        if (f.wire == PB_WIRE_LEN && f.number == 1) {
            rc = pb_conf_state_decode(f.data, arena, &out->conf_state);
            if (rc < 0) return rc;
        }
        if (f.wire != PB_WIRE_VARINT) continue;
        if (f.number == 2) out->index = f.value;
        if (f.number == 3) out->term = f.value;
    }
    return rc;
}

int pb_snapshot_decode(struct bytes in, struct arena *arena, struct pb_snapshot *out)
{
    struct pb_snapshot s = {.conf_state.auto_leave_unset = true};
    struct pb_reader r = pb_reader_of(in);
    struct pb_field f;
    int rc;
    while ((rc = pb_next(&r, &f)) > 0) {
        if (f.wire != PB_WIRE_LEN) continue;
        if (f.number == 1) s.data = f.data;
        if (f.number == 2 && (rc = snapshot_metadata(f.data, arena, &s)) < 0) return rc;
    }
    if (rc == 0) *out = s;
    return rc;
}

/* ---- walpb.Snapshot ----------------------------------------------------------------------------- */

size_t pb_wal_snapshot_size(const struct pb_wal_snapshot *s)
{
    size_t conf = s->has_conf_state ? pb_len_size(3, pb_conf_state_size(&s->conf_state)) : 0;
    return pb_uint_size(1, s->index) + pb_uint_size(2, s->term) + conf;
}

uint8_t *pb_wal_snapshot_write(const struct pb_wal_snapshot *s, uint8_t *at)
{
    at = pb_write_uint(at, 1, s->index);
    at = pb_write_uint(at, 2, s->term);
    if (!s->has_conf_state) return at;
    at = pb_write_len(at, 3, pb_conf_state_size(&s->conf_state));
    return pb_conf_state_write(&s->conf_state, at);
}

int pb_wal_snapshot_put(const struct pb_wal_snapshot *s, struct buf *out)
{
    size_t size = pb_wal_snapshot_size(s);
    int rc = buf_reserve(out, size);
    if (rc < 0) return rc;
    pb__put_done(out, pb_wal_snapshot_write(s, out->data + out->len), size);
    return 0;
}

int pb_wal_snapshot_decode(struct bytes in, struct arena *arena, struct pb_wal_snapshot *out)
{
    struct pb_wal_snapshot s = {.conf_state.auto_leave_unset = true};
    struct pb_reader r = pb_reader_of(in);
    struct pb_field f;
    int rc;
    while ((rc = pb_next(&r, &f)) > 0) {
        if (f.wire == PB_WIRE_LEN && f.number == 3) {
            rc = pb_conf_state_decode(f.data, arena, &s.conf_state);
            if (rc < 0) return rc;
            s.has_conf_state = true;
        }
        if (f.wire != PB_WIRE_VARINT) continue;
        if (f.number == 1) s.index = f.value;
        if (f.number == 2) s.term = f.value;
    }
    if (rc == 0) *out = s;
    return rc;
}

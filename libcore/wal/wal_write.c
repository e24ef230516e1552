/* Records into the buffer, the buffer to the disk, and the one sync.
 *
 * The buffer takes 128 KiB. When a record would overflow it, it is first filled up to a page boundary of the file
 * and written, then whole pages go directly from the record, and the rest stays: so what is handed to the disk before
 * a sync ends on a page, and a large entry is copied only at its ends. A record is put as the pieces it has
 * (length word and head, the entry's fields, the shared bytes, padding), never joined first. */
#include "base/assert.h"
#include "base/crc32c.h"
#include "base/endian.h"
#include "base/err.h"
#include "base/limits.h"
#include "pb/wire.h"
#include "wal/wal_conf.h"
#include "wal/wal_int.h"

/* The fields of an entry before its data bytes: type, term, index, tag and length. */
enum { ENTRY_HEAD_BYTES_MAX = 4 * (1 + PB_VARINT_BYTES_MAX) };

uint64_t wal__segment_bytes(const struct wal_opts *o)
{
    return o->segment_bytes == 0 ? WAL_SEGMENT_BYTES : o->segment_bytes;
}

struct wal__segment *wal__tail(struct wal *w)
{
    ASSERT(w->segs.count > 0);
    return &w->segs.v[w->segs.count - 1];
}

int wal__fail(struct wal *w, int rc, const char *what, struct errmsg *em)
{
    ASSERT(rc < 0);
    w->failed = true;
    errmsg_set(em, "cannot %s WAL segment \"%s/%s\": %s", what, w->dir.text, wal__tail(w)->name,
               err_text(rc));
    return rc;
}

static int usable(const struct wal *w, struct errmsg *em)
{
    if (!w->failed) return 0;
    errmsg_set(em, "the WAL in \"%s\" has failed before and takes no more", w->dir.text);
    return E_IO;
}

/* ---- the buffer ------------------------------------------------------------------------------------- */

static int hand_over(struct wal *w, struct bytes data, struct errmsg *em)
{
    int rc = w->o.disk->write(w->o.disk->arg, wal__tail(w)->file, w->offset, data);
    if (rc < 0) return wal__fail(w, rc, "write", em);
    w->offset += data.len;
    w->written_bytes += data.len;
    return 0;
}

int wal__flush(struct wal *w, struct errmsg *em)
{
    if (w->buffered == 0) return 0;
    int rc = hand_over(w, bytes_of(w->buffer, w->buffered), em);
    if (rc == 0) w->buffered = 0;
    return rc;
}

static void copy_in(struct wal *w, struct bytes s)
{
    ASSERT(w->buffered + s.len <= WAL__BUFFER_BYTES + WAL__PAGE_BYTES);
    if (s.len > 0) memcpy(w->buffer + w->buffered, s.data, s.len);
    w->buffered += s.len;
}

static struct bytes tail_of(struct bytes s, size_t from)
{
    return bytes_of(s.data + from, s.len - from);
}

/* One piece of a record that overflows the buffer. */
static int put_through(struct wal *w, struct bytes s, struct errmsg *em)
{
    if (s.len == 0) return 0;
    size_t slack = (size_t)(WAL__PAGE_BYTES - (w->offset + w->buffered) % WAL__PAGE_BYTES);
    if (slack != WAL__PAGE_BYTES) {
        size_t n = slack < s.len ? slack : s.len;
        copy_in(w, bytes_of(s.data, n));
        s = tail_of(s, n);
        if (n < slack) return 0;
    }
    int rc = wal__flush(w, em);
    size_t pages = s.len - s.len % WAL__PAGE_BYTES;
    if (rc == 0 && pages > 0) rc = hand_over(w, bytes_of(s.data, pages), em);
    if (rc == 0) copy_in(w, tail_of(s, pages));
    return rc;
}

static int put_pieces(struct wal *w, const struct bytes *pieces, size_t n, struct errmsg *em)
{
    size_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += pieces[i].len;
    w->unsynced = true;
    bool fits = w->buffered + total <= WAL__BUFFER_BYTES;
    for (size_t i = 0; i < n; i++) {
        if (fits) {
            copy_in(w, pieces[i]);
            continue;
        }
        int rc = put_through(w, pieces[i], em);
        if (rc < 0) return rc;
    }
    return 0;
}

/* ---- records ---------------------------------------------------------------------------------------- */

static int put_framed(struct wal *w, enum wal_type type, struct bytes a, struct bytes b,
                      struct errmsg *em)
{
    static const uint8_t zeros[8] = {0};
    uint8_t head[WAL__FRAME_BYTES + PB_WAL_RECORD_HEAD_BYTES_MAX];
    struct pb_wal_record rec = {(int64_t)type, w->crc, bytes_of(NULL, a.len + b.len)};
    uint8_t *end = pb_wal_record_write_head(&rec, head + WAL__FRAME_BYTES);
    size_t head_bytes = (size_t)(end - head);
    ASSERT(head_bytes <= sizeof head);
    uint64_t pad;
    uint64_t word = wal__frame_encode(head_bytes - WAL__FRAME_BYTES + a.len + b.len, &pad);
    endian_store_le64(head, word);
    const struct bytes pieces[] = {bytes_of(head, head_bytes), a, b, bytes_of(zeros, (size_t)pad)};
    return put_pieces(w, pieces, sizeof pieces / sizeof *pieces, em);
}

int wal__put_record(struct wal *w, enum wal_type type, struct bytes a, struct bytes b,
                    struct errmsg *em)
{
    ASSERT(!w->failed);
    ASSERT(a.len + b.len <= WAL_RECORD_BYTES_MAX);
    if (type != WAL_CRC) {
        w->crc = crc32c_update(w->crc, a.data, a.len);
        w->crc = crc32c_update(w->crc, b.data, b.len);
    }
    return put_framed(w, type, a, b, em);
}

int wal__put_state(struct wal *w, struct raft_hard_state s, struct errmsg *em)
{
    uint8_t data[PB_HARD_STATE_BYTES_MAX];
    struct pb_hard_state p = {s.term, s.vote, s.commit};
    uint8_t *end = pb_hard_state_write(&p, data);
    return wal__put_record(w, WAL_STATE, bytes_of(data, (size_t)(end - data)), BYTES_EMPTY, em);
}

int wal__put_head(struct wal *w, struct errmsg *em)
{
    int rc = wal__put_record(w, WAL_CRC, BYTES_EMPTY, BYTES_EMPTY, em);
    if (rc < 0) return rc;
    rc = wal__put_record(w, WAL_METADATA, bytes_of(w->metadata, w->metadata_len), BYTES_EMPTY, em);
    if (rc < 0 || raft_hard_state_empty(w->state)) return rc;
    return wal__put_state(w, w->state, em);
}

static int put_entry(struct wal *w, const struct raft_entry *e, struct errmsg *em)
{
    uint8_t head[ENTRY_HEAD_BYTES_MAX];
    struct bytes data = rcbuf_bytes(e->data);
    struct pb_entry p = {(int32_t)e->type, e->term, e->index, BYTES_EMPTY};
    uint8_t *end = pb_entry_write(&p, head);
    if (data.len > 0) end = pb_write_len(end, 4, data.len);
    ASSERT((size_t)(end - head) <= sizeof head);
    int rc = wal__put_record(w, WAL_ENTRY, bytes_of(head, (size_t)(end - head)), data, em);
    if (rc == 0) w->last_index = e->index;
    return rc;
}

/* ---- the face --------------------------------------------------------------------------------------- */

static int too_big(struct errmsg *em, size_t bytes)
{
    errmsg_set(em, "a WAL record of %zu bytes is over the limit of %d", bytes,
               WAL_RECORD_BYTES_MAX);
    return E_TOOBIG;
}

/* Keeps account of a record that came in encoded form. E_CORRUPT: it does not parse. */
static int note_record(struct wal *w, const struct wal_record *rec, bool apply)
{
    struct pb_entry e;
    struct pb_hard_state s;
    if (rec->type == WAL_ENTRY) {
        if (pb_entry_decode(rec->data, &e) < 0) return E_CORRUPT;
        if (apply) w->last_index = e.index;
    }
    if (rec->type == WAL_STATE) {
        if (pb_hard_state_decode(rec->data, &s) < 0) return E_CORRUPT;
        if (apply) w->state = (struct raft_hard_state){s.term, s.vote, s.commit};
    }
    if (rec->type == WAL_SNAPSHOT) {
        struct pb_reader in = pb_reader_of(rec->data);
        struct pb_field f;
        int rc;
        while ((rc = pb_next(&in, &f)) == 1)
            if (apply && f.number == 1 && f.value > w->last_index) w->last_index = f.value;
        if (rc < 0) return E_CORRUPT;
    }
    return 0;
}

int wal_append(struct wal *w, const struct wal_record *rec, size_t n, struct errmsg *em)
{
    int rc = usable(w, em);
    if (rc < 0) return rc;
    for (size_t i = 0; i < n; i++) {
        ASSERT(rec[i].type != WAL_CRC);
        ASSERT(rec[i].type != WAL_METADATA);
        if (rec[i].data.len > WAL_RECORD_BYTES_MAX) return too_big(em, rec[i].data.len);
        if (note_record(w, &rec[i], false) < 0) {
            errmsg_set(em, "a record for the WAL does not parse");
            return E_CORRUPT;
        }
    }
    for (size_t i = 0; i < n; i++) {
        rc = wal__put_record(w, rec[i].type, rec[i].data, BYTES_EMPTY, em);
        if (rc < 0) return rc;
        (void)note_record(w, &rec[i], true);
        w->sync_due = true;
    }
    return 0;
}

static int check_entries(const struct raft_entry *entries, size_t n, struct errmsg *em)
{
    for (size_t i = 0; i < n; i++) {
        size_t bytes = rcbuf_bytes(entries[i].data).len;
        if (bytes > WAL_RECORD_BYTES_MAX - ENTRY_HEAD_BYTES_MAX) return too_big(em, bytes);
        ASSERT(entries[i].index > 0);
        ASSERT(i == 0 || entries[i].index == entries[i - 1].index + 1);
    }
    return 0;
}

int wal_save(struct wal *w, const struct raft_hard_state *state, const struct raft_entry *entries,
             size_t n, struct errmsg *em)
{
    int rc = usable(w, em);
    if (rc < 0) return rc;
    struct raft_hard_state s = {0};
    if (state != NULL) s = *state;
    if (n == 0 && raft_hard_state_empty(s)) return 0;
    rc = check_entries(entries, n, em);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = put_entry(w, &entries[i], em);
    if (rc < 0) return rc;
    if (n > 0) w->sync_due = true;
    if (!raft_hard_state_empty(s)) {
        if (s.term != w->state.term || s.vote != w->state.vote) w->sync_due = true;
        w->state = s;
        rc = wal__put_state(w, s, em);
        if (rc < 0) return rc;
    }
    return w->offset < wal__segment_bytes(&w->o) ? 0 : wal__cut(w, em);
}

int wal_save_snapshot(struct wal *w, struct wal_snapshot snap, const struct raft_conf_state *conf,
                      struct errmsg *em)
{
    ASSERT(conf != NULL || snap.index == 0);
    int rc = usable(w, em);
    if (rc < 0) return rc;
    struct pb_wal_snapshot p = {.index = snap.index, .term = snap.term};
    p.has_conf_state = conf != NULL;
    if (conf != NULL) p.conf_state = wal_conf_view(conf);
    struct buf data;
    buf_init(&data, w->o.alloc, WAL_RECORD_BYTES_MAX);
    rc = pb_wal_snapshot_put(&p, &data);
    if (rc == 0) rc = wal__put_record(w, WAL_SNAPSHOT, buf_bytes(&data), BYTES_EMPTY, em);
    buf_deinit(&data);
    if (rc < 0) return rc;
    if (snap.index > w->last_index) w->last_index = snap.index;
    w->sync_due = true;
    return 0;
}

bool wal_sync_due(const struct wal *w)
{
    return w->sync_due;
}

int wal_sync(struct wal *w, struct errmsg *em)
{
    int rc = usable(w, em);
    if (rc < 0) return rc;
    rc = wal__flush(w, em);
    if (rc < 0) return rc;
    if (w->unsynced && !w->o.unsafe_no_sync) {
        rc = w->o.disk->datasync(w->o.disk->arg, wal__tail(w)->file);
        if (rc < 0) return wal__fail(w, rc, "sync", em);
    }
    w->unsynced = false;
    w->sync_due = false;
    return 0;
}

raft_index wal_last_index(const struct wal *w)
{
    return w->last_index;
}

uint64_t wal_offset(const struct wal *w)
{
    return w->offset + w->buffered;
}

uint64_t wal_segment_seq(const struct wal *w)
{
    return w->segs.v[w->segs.count - 1].seq;
}

uint64_t wal_written_bytes(const struct wal *w)
{
    return w->written_bytes;
}

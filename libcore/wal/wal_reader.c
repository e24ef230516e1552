/* A stream of records over one or more segments, in memory bounded by the largest record.
 *
 * One window of the file is kept; it is refilled only when a record reaches over its end. At a zero length word or at
 * the end of a file the next segment follows; behind the last one is the end of the log, which may move while a
 * server is writing, so the window is forgotten there and the next call looks again. */
#include "base/assert.h"
#include "base/crc32c.h"
#include "base/endian.h"
#include "base/err.h"
#include "base/limits.h"
#include "wal/wal_int.h"

/* A Record message around the largest data. */
#define RECORD_BYTES_MAX ((uint64_t)WAL_RECORD_BYTES_MAX + PB_WAL_RECORD_HEAD_BYTES_MAX)
#define WINDOW_BYTES_MAX ((size_t)RECORD_BYTES_MAX + WAL__BUFFER_BYTES + WAL__PAGE_BYTES)

/* ---- birth and end ---------------------------------------------------------------------------------- */

static int reader_new(const struct wal_opts *o, const char *dir, struct wal_reader **out,
                      struct errmsg *em)
{
    struct wal_reader *r = alloc_zero(o->alloc, sizeof *r);
    if (r == NULL) return E_NOMEM;
    size_t len = strlen(dir);
    if (len >= sizeof r->dir.text) {
        alloc_free(o->alloc, r, sizeof *r);
        return wal_fs_fail(em, E_TOOBIG, "open", dir);
    }
    memcpy(r->dir.text, dir, len + 1);
    r->o = *o;
    r->segs.alloc = o->alloc;
    buf_init(&r->window, o->alloc, WINDOW_BYTES_MAX);
    *out = r;
    return 0;
}

void wal_reader_close(struct wal_reader *r)
{
    if (r == NULL) return;
    if (!r->borrowed && r->file != NULL) r->o.disk->close(r->o.disk->arg, r->file);
    wal__segments_deinit(&r->segs);
    buf_deinit(&r->window);
    alloc_free(r->o.alloc, r, sizeof *r);
}

static int open_listed(const struct wal_opts *o, const char *dir, bool select, raft_index from,
                       struct wal_reader **out, struct errmsg *em)
{
    struct wal_reader *r;
    int rc = reader_new(o, dir, &r, em);
    if (rc < 0) return rc;
    rc = wal__segments_list(o, dir, &r->segs, em);
    if (rc == 0 && r->segs.count == 0) {
        errmsg_set(em, "no WAL segment in \"%s\"", dir);
        rc = E_WAL_FILE_NOT_FOUND;
    }
    if (rc == 0 && select) rc = wal__segments_select(&r->segs, from, em);
    if (rc < 0) {
        wal_reader_close(r);
        return rc;
    }
    *out = r;
    return 0;
}

int wal_reader_open(const struct wal_opts *o, const char *dir, raft_index from,
                    struct wal_reader **out, struct errmsg *em)
{
    return open_listed(o, dir, true, from, out, em);
}

int wal_reader_open_all(const struct wal_opts *o, const char *dir, struct wal_reader **out,
                        struct errmsg *em)
{
    return open_listed(o, dir, false, 0, out, em);
}

int wal_reader_open_file(const struct wal_opts *o, const char *path, struct wal_reader **out,
                         struct errmsg *em)
{
    struct wal_path parent;
    int rc = wal_fs_parent(path, &parent, em);
    if (rc < 0) return rc;
    struct wal_reader *r;
    rc = reader_new(o, parent.text, &r, em);
    if (rc < 0) return rc;
    const char *slash = strrchr(path, '/');
    const char *base = slash == NULL ? path : slash + 1;
    struct wal__segment one = {0};
    (void)wal__name_parse(base, &one);
    size_t shown = strlen(base); /* the name is for messages and views only: a long one is cut */
    if (shown >= sizeof one.name) shown = sizeof one.name - 1;
    memcpy(one.name, base, shown);
    rc = wal__segments_reserve(&r->segs);
    if (rc == 0) {
        r->segs.v[r->segs.count++] = one;
        rc = r->o.disk->open(r->o.disk->arg, path, DISK_READ, 0, &r->file);
        if (rc < 0) wal_fs_fail(em, rc, "open", path);
    }
    if (rc < 0) {
        wal_reader_close(r);
        return rc;
    }
    *out = r;
    return 0;
}

int wal__reader_over(const struct wal_opts *o, const char *dir, const struct wal__segments *segs,
                     struct wal_reader **out)
{
    struct wal_reader *r;
    int rc = reader_new(o, dir, &r, NULL);
    if (rc < 0) return rc;
    r->borrowed = true;
    for (size_t i = 0; i < segs->count && rc == 0; i++) {
        ASSERT(segs->v[i].file != NULL);
        rc = wal__segments_reserve(&r->segs);
        if (rc == 0) r->segs.v[r->segs.count++] = segs->v[i];
    }
    if (rc < 0) {
        wal_reader_close(r);
        return rc;
    }
    *out = r;
    return 0;
}

/* ---- files and window ------------------------------------------------------------------------------- */

static bool is_last(const struct wal_reader *r)
{
    return r->at + 1 == r->segs.count;
}

static int say(struct errmsg *em, int rc, const struct wal_reader *r, const char *what)
{
    errmsg_set(em, "%s: in file '%s' at position: %llu", what, r->segs.v[r->at].name,
               (unsigned long long)r->offset);
    return rc;
}

static int file_open(struct wal_reader *r, struct errmsg *em)
{
    const struct wal__segment *s = &r->segs.v[r->at];
    if (s->file != NULL) {
        r->file = s->file;
        return 0;
    }
    struct wal_path path;
    int rc = wal_fs_join(r->dir.text, s->name, &path, em);
    if (rc < 0) return rc;
    struct disk_file *f;
    rc = r->o.disk->open(r->o.disk->arg, path.text, DISK_READ, 0, &f);
    if (rc < 0) return wal_fs_fail(em, rc, "open", path.text);
    r->file = f;
    return 0;
}

/* Opens the segment at hand if need be, and learns its size: at first, and again at the end of the log. */
static int file_ready(struct wal_reader *r, struct errmsg *em)
{
    if (r->sized) return 0;
    int rc = r->file == NULL ? file_open(r, em) : 0;
    if (rc < 0) return rc;
    struct disk_stat st;
    rc = r->o.disk->file_stat(r->o.disk->arg, r->file, &st);
    if (rc < 0) return say(em, rc, r, err_text(rc));
    r->size_bytes = st.size_bytes;
    r->sized = true;
    return 0;
}

static void file_next(struct wal_reader *r)
{
    ASSERT(!is_last(r));
    if (!r->borrowed) r->o.disk->close(r->o.disk->arg, r->file);
    r->file = NULL;
    r->sized = false;
    r->at++;
    r->offset = 0;
    r->window.len = 0;
    r->window_at = 0;
}

/* The end of the log as it is now: what was read of it and its size are forgotten. */
static int at_end(struct wal_reader *r)
{
    r->sized = false;
    r->window.len = 0;
    r->window_at = r->offset;
    return E_NOTFOUND;
}

static int window_fill(struct wal_reader *r, size_t need, struct errmsg *em)
{
    size_t stale = (size_t)(r->offset - r->window_at);
    if (stale > r->window.len) stale = r->window.len;
    buf_consume(&r->window, stale);
    r->window_at = r->offset;
    uint64_t left = r->size_bytes - r->offset;
    size_t want = need > WAL__BUFFER_BYTES ? need : WAL__BUFFER_BYTES;
    if (want > left) want = (size_t)left;
    size_t more = want - r->window.len;
    int rc = buf_reserve(&r->window, more);
    if (rc < 0) return rc;
    size_t got = 0;
    rc = r->o.disk->read(r->o.disk->arg, r->file, r->offset + r->window.len,
                         r->window.data + r->window.len, more, &got);
    if (rc < 0) return say(em, rc, r, err_text(rc));
    r->window.len += got;
    return r->window.len < need ? say(em, E_EOF, r, err_text(E_EOF)) : 0;
}

/* The `need` bytes at r->offset, which the file has. */
static int window_at(struct wal_reader *r, size_t need, const uint8_t **out, struct errmsg *em)
{
    ASSERT(r->offset >= r->window_at);
    ASSERT(need <= r->size_bytes - r->offset);
    if (r->offset - r->window_at + need > r->window.len) {
        int rc = window_fill(r, need, em);
        if (rc < 0) return rc;
    }
    *out = r->window.data + (size_t)(r->offset - r->window_at);
    return 0;
}

/* ---- records ---------------------------------------------------------------------------------------- */

/* The frame at r->offset. E_NOTFOUND: no more in this file. */
static int frame_next(struct wal_reader *r, struct wal__frame *out, struct errmsg *em)
{
    uint64_t left = r->size_bytes > r->offset ? r->size_bytes - r->offset : 0;
    if (left == 0) return E_NOTFOUND;
    if (left < WAL__FRAME_BYTES) return say(em, E_EOF, r, err_text(E_EOF));
    const uint8_t *p;
    int rc = window_at(r, WAL__FRAME_BYTES, &p, em);
    if (rc < 0) return rc;
    uint64_t word = endian_load_le64(p);
    if (word == 0) return E_NOTFOUND;
    struct wal__frame f = wal__frame_decode(word);
    if (f.record_bytes + f.pad_bytes > left - WAL__FRAME_BYTES)
        return say(em, E_EOF, r, err_text(E_EOF));
    if (f.record_bytes > RECORD_BYTES_MAX) return say(em, E_TOOBIG, r, "record is too large");
    *out = f;
    return 0;
}

/* What a record that cannot be right is: torn when it is the last thing written, else `rc`. */
static int judge(const struct wal_reader *r, struct bytes behind, int rc)
{
    if (is_last(r) && wal__torn(behind, r->offset + WAL__FRAME_BYTES)) return E_EOF;
    return rc;
}

static int crc_fail(struct wal_reader *r, struct errmsg *em, uint32_t stored, uint32_t computed)
{
    errmsg_set(em, "%s: expected: %x computed: %x: in file '%s' at position: %llu",
               err_text(E_WAL_CRC), (unsigned)stored, (unsigned)computed, r->segs.v[r->at].name,
               (unsigned long long)r->offset);
    return E_WAL_CRC;
}

/* Follows the chain through one record. E_WAL_CRC: the record does not fit; E_EOF: because it is torn. */
static int chain(struct wal_reader *r, const struct pb_wal_record *rec, struct bytes behind,
                 struct errmsg *em)
{
    if (rec->type == WAL_CRC) {
        uint32_t before = r->crc;
        r->crc = rec->crc;
        return before != 0 && before != rec->crc ? crc_fail(r, em, rec->crc, before) : 0;
    }
    uint32_t computed = crc32c_update(r->crc, rec->data.data, rec->data.len);
    if (computed == rec->crc) {
        r->crc = computed;
        return 0;
    }
    if (judge(r, behind, E_WAL_CRC) == E_EOF) return say(em, E_EOF, r, err_text(E_EOF));
    r->crc = rec->crc;
    return crc_fail(r, em, rec->crc, computed);
}

static int record_next(struct wal_reader *r, struct wal_view *out, struct errmsg *em)
{
    struct wal__frame f = {0};
    int rc = frame_next(r, &f, em);
    if (rc < 0) return rc;
    size_t behind_bytes = (size_t)(f.record_bytes + f.pad_bytes);
    const uint8_t *p;
    rc = window_at(r, WAL__FRAME_BYTES + behind_bytes, &p, em);
    if (rc < 0) return rc;
    struct bytes behind = bytes_of(p + WAL__FRAME_BYTES, behind_bytes);
    struct pb_wal_record rec;
    if (pb_wal_record_decode(bytes_of(behind.data, (size_t)f.record_bytes), &rec) < 0) {
        rc = judge(r, behind, E_CORRUPT);
        return say(em, rc, r, rc == E_EOF ? err_text(E_EOF) : "record does not parse");
    }
    rc = chain(r, &rec, behind, em);
    if (rc < 0 && rc != E_WAL_CRC) return rc;
    const struct wal__segment *s = &r->segs.v[r->at];
    uint64_t end = r->offset + WAL__FRAME_BYTES + behind_bytes;
    *out = (struct wal_view){rec.type, rec.crc, rec.data, s->name, s->seq, r->offset, end};
    r->offset = end;
    return rc;
}

int wal_reader_next(struct wal_reader *r, struct wal_view *out, struct errmsg *em)
{
    for (;;) {
        int rc = file_ready(r, em);
        if (rc == 0) rc = record_next(r, out, em);
        if (rc != E_NOTFOUND) return rc;
        if (is_last(r)) return at_end(r);
        file_next(r);
    }
}

uint64_t wal_reader_offset(const struct wal_reader *r)
{
    return r->offset;
}

uint64_t wal_reader_seq(const struct wal_reader *r)
{
    return r->segs.v[r->at].seq;
}

uint32_t wal_reader_crc(const struct wal_reader *r)
{
    return r->crc;
}

size_t wal_reader_segment_count(const struct wal_reader *r)
{
    return r->segs.count;
}

/* Reading: names, frames, the chain, what is an end and what is damage, the stream as tools use it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "base/endian.h"
#include "base/err.h"
#include "pb/raftpb.h"
#include "simdisk.h"
#include "test_heap.h"
#include "wal/wal.h"
#include "wal/wal_int.h"
#include "wal/wal_read.h"

#define DIR  "wal"
#define SEG0 "wal/0000000000000000-0000000000000000.wal"
#define SEG1 "wal/0000000000000001-0000000000000002.wal"
#define SEG2 "wal/0000000000000002-0000000000000003.wal"

struct world {
    struct test_heap heap;
    struct simdisk *disk;
    struct wal_opts o;
    struct buf file; /* the segment being made */
    uint32_t crc;    /* its chain */
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    test_heap_init(&w->heap);
    w->disk = simdisk_new();
    w->o = (struct wal_opts){.disk = simdisk_face(w->disk), .alloc = &w->heap.alloc};
    buf_init(&w->file, &w->heap.alloc, 1 << 24);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    buf_deinit(&w->file);
    test_heap_check_empty(&w->heap);
    simdisk_free(w->disk);
    free(w);
    return 0;
}

/* ---- making segments -------------------------------------------------------------------------------- */

static size_t put_raw(struct world *w, int64_t type, struct bytes data, uint32_t crc)
{
    static const uint8_t zeros[8] = {0};
    struct pb_wal_record rec = {type, crc, data};
    uint8_t word[8];
    uint64_t pad;
    size_t at = w->file.len;
    endian_store_le64(word, wal__frame_encode(pb_wal_record_size(&rec), &pad));
    assert_int_equal(buf_put(&w->file, word, sizeof word), 0);
    assert_int_equal(pb_wal_record_put(&rec, &w->file), 0);
    assert_int_equal(buf_put(&w->file, zeros, (size_t)pad), 0);
    return at;
}

static size_t put(struct world *w, int64_t type, struct bytes data)
{
    if (type != WAL_CRC) w->crc = crc32c_update(w->crc, data.data, data.len);
    return put_raw(w, type, data, w->crc);
}

static size_t put_text(struct world *w, int64_t type, const char *data, size_t len)
{
    return put(w, type, bytes_of(data, len));
}

static size_t put_entry(struct world *w, raft_term term, raft_index index, size_t bytes)
{
    uint8_t payload[4096];
    uint8_t data[4096 + 64];
    memset(payload, (int)index, sizeof payload);
    struct pb_entry e = {0, term, index, bytes_of(payload, bytes)};
    uint8_t *end = pb_entry_write(&e, data);
    return put(w, WAL_ENTRY, bytes_of(data, (size_t)(end - data)));
}

static void put_head(struct world *w)
{
    put(w, WAL_CRC, BYTES_EMPTY);
    put_text(w, WAL_METADATA, "\x08\x01\x10\x02", 4);
}

static void put_first_head(struct world *w)
{
    put_head(w);
    put_text(w, WAL_SNAPSHOT, "\x08\x00\x10\x00", 4);
}

/* Puts the segment in place, with `zeros` bytes behind it, and starts another. */
static void done(struct world *w, const char *path, size_t zeros)
{
    for (size_t i = 0; i < zeros; i++)
        assert_int_equal(buf_put_u8(&w->file, 0), 0);
    simdisk_put_file(w->disk, path, buf_bytes(&w->file));
    buf_reset(&w->file);
}

static const struct wal_snapshot zero = {0, 0};

/* Reads from the start, read-only and as a restart would; both must give `rc`, but that the first one takes a torn
 * end for the end. */
static void expect_both(struct world *w, int rc, size_t entries)
{
    struct wal_contents c = WAL_CONTENTS_EMPTY;
    struct wal *log = NULL;
    struct errmsg em = {0};
    int seen = wal_read(&w->o, DIR, zero, &c, &em);
    assert_int_equal(seen, rc == E_EOF ? 0 : rc);
    assert_int_equal(c.torn, rc == E_EOF);
    assert_int_equal(c.entry_count, entries);
    wal_contents_deinit(&c);
    seen = wal_open(&w->o, DIR, zero, &c, &log, &em);
    assert_int_equal(seen, rc);
    if (rc < 0) assert_string_not_equal(em.text, "");
    wal_contents_deinit(&c);
    wal_abandon(log);
}

/* ---- names ------------------------------------------------------------------------------------------ */

static void test_names(void **state)
{
    struct wal__segment s;
    char name[WAL__NAME_BYTES_MAX];
    wal__name_format(0x1f, UINT64_MAX, name);
    assert_string_equal(name, "000000000000001f-ffffffffffffffff.wal");
    assert_true(wal__name_parse(name, &s));
    assert_int_equal(s.seq, 0x1f);
    assert_int_equal(s.first, UINT64_MAX);
    assert_true(wal__name_parse("1-A.wal", &s));
    assert_int_equal(s.first, 10);
    static const char *const none[] = {"0.tmp",  "junk",  ".wal",   "-.wal",          "1-.wal",
                                       "-1.wal", "1.wal", "1-2.wa", "1-2.wal.broken", "1_2.wal"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_false(wal__name_parse(none[i], &s));
}

static void test_segments_are_chosen_by_index(void **state)
{
    struct world *w = *state;
    struct errmsg em;
    struct wal_reader *r;
    done(w, SEG0, 8);
    done(w, SEG1, 8);
    done(w, SEG2, 8);
    static const struct {
        raft_index from;
        size_t count;
    } cases[] = {{0, 3}, {1, 3}, {2, 2}, {3, 1}, {99, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(wal_reader_open(&w->o, DIR, cases[i].from, &r, &em), 0);
        assert_int_equal(wal_reader_segment_count(r), cases[i].count);
        wal_reader_close(r);
    }
}

static void test_missing_segments(void **state)
{
    struct world *w = *state;
    struct errmsg em;
    struct wal_reader *r;
    assert_int_equal(wal_reader_open(&w->o, DIR, 0, &r, &em), E_NOENT);
    done(w, SEG0, 8);
    done(w, SEG2, 8);
    assert_int_equal(wal_reader_open(&w->o, DIR, 0, &r, &em), E_WAL_SEQUENCE);
    assert_int_equal(wal_reader_open(&w->o, DIR, 9, &r, &em), 0);
    wal_reader_close(r);
    const struct disk *d = w->o.disk;
    assert_int_equal(d->unlink(d->arg, SEG0), 0);
    assert_int_equal(wal_reader_open(&w->o, DIR, 0, &r, &em), E_WAL_FILE_NOT_FOUND);
    assert_int_equal(d->unlink(d->arg, SEG2), 0);
    assert_int_equal(wal_reader_open_all(&w->o, DIR, &r, &em), E_WAL_FILE_NOT_FOUND);
}

/* ---- frames ----------------------------------------------------------------------------------------- */

static void test_length_word(void **state)
{
    for (uint64_t n = 1; n <= 64; n++) {
        uint64_t pad;
        struct wal__frame f = wal__frame_decode(wal__frame_encode(n, &pad));
        assert_int_equal(f.record_bytes, n);
        assert_int_equal(f.pad_bytes, pad);
        assert_int_equal((n + pad) % 8, 0);
    }
    struct wal__frame f = wal__frame_decode(UINT64_C(0x8300000000000005));
    assert_int_equal(f.record_bytes, 5);
    assert_int_equal(f.pad_bytes, 3);
    f = wal__frame_decode(UINT64_C(0x0300000000000005));
    assert_int_equal(f.pad_bytes, 0); /* no flag, no padding */
}

static void test_torn_is_a_zero_piece_of_a_sector(void **state)
{
    uint8_t data[1600];
    memset(data, 1, sizeof data);
    assert_false(wal__torn(bytes_of(data, sizeof data), 8));
    data[0] = 0;
    assert_false(wal__torn(bytes_of(data, sizeof data), 8));
    memset(data + 512 - 8, 0, 512); /* the second sector */
    assert_true(wal__torn(bytes_of(data, sizeof data), 8));
    assert_false(wal__torn(bytes_of(data, sizeof data), 16));
    memset(data, 1, sizeof data);
    data[sizeof data - 1] = 0; /* the last byte alone in its sector */
    assert_true(wal__torn(bytes_of(data, sizeof data), 512 * 4 - (sizeof data - 1)));
}

static void test_ends_that_are_clean(void **state)
{
    struct world *w = *state;
    put_first_head(w);
    put_entry(w, 1, 1, 10);
    done(w, SEG0, 0);
    expect_both(w, 0, 1);
    w->crc = 0;
    put_first_head(w);
    put_entry(w, 1, 1, 10);
    done(w, SEG0, 4096);
    expect_both(w, 0, 1);
}

static void test_one_to_seven_bytes_left(void **state)
{
    struct world *w = *state;
    for (size_t left = 1; left < 8; left++) {
        w->crc = 0;
        put_first_head(w);
        put_entry(w, 1, 1, 10);
        done(w, SEG0, left);
        expect_both(w, E_EOF, 1);
    }
}

static void test_record_cut_at_each_byte(void **state)
{
    struct world *w = *state;
    put_first_head(w);
    put_entry(w, 1, 1, 10);
    size_t last = put_entry(w, 1, 2, 30);
    struct bytes whole = buf_bytes(&w->file);
    for (size_t len = last + 1; len < whole.len; len++) {
        simdisk_put_file(w->disk, SEG0, bytes_of(whole.data, len));
        expect_both(w, E_EOF, 1);
    }
    simdisk_put_file(w->disk, SEG0, bytes_of(whole.data, last));
    expect_both(w, 0, 1);
}

static void test_absurd_length(void **state)
{
    static const uint64_t words[] = {UINT64_MAX, (UINT64_C(1) << 56) - 1, 1 << 20};
    struct world *w = *state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        uint8_t word[8];
        w->crc = 0;
        put_first_head(w);
        endian_store_le64(word, words[i]);
        assert_int_equal(buf_put(&w->file, word, sizeof word), 0);
        done(w, SEG0, 4096);
        expect_both(w, E_EOF, 0);
    }
}

static void test_wrong_crc(void **state)
{
    struct world *w = *state;
    put_first_head(w);
    put_raw(w, WAL_ENTRY, bytes_of("\x10\x01\x18\x01", 4), 12345);
    done(w, SEG0, 512);
    expect_both(w, E_WAL_CRC, 0);
}

/* The same damage is a torn write only in the last segment. */
static void test_zero_sector(void **state)
{
    struct world *w = *state;
    put_first_head(w);
    size_t at = put_entry(w, 1, 1, 2000);
    memset(w->file.data + (at / 512 + 2) * 512, 0, 512);
    done(w, SEG0, 0);
    expect_both(w, E_EOF, 0);
    put_head(w);
    done(w, SEG1, 64);
    expect_both(w, E_WAL_CRC, 0);
}

static void test_record_that_does_not_parse(void **state)
{
    struct world *w = *state;
    put_first_head(w);
    const uint8_t frame[16] = {5, 0, 0, 0, 0, 0, 0, 0x83, 0xff, 0xff, 0xff, 0xff, 0xff};
    assert_int_equal(buf_put(&w->file, frame, sizeof frame), 0);
    done(w, SEG0, 64);
    expect_both(w, E_CORRUPT, 0);
}

static void test_unknown_types(void **state)
{
    struct world *w = *state;
    put_first_head(w);
    put_text(w, 6, "x", 1);
    done(w, SEG0, 64);
    expect_both(w, E_CORRUPT, 0);
    w->crc = 0;
    put_first_head(w);
    put_text(w, WAL_ENTRY, "\x08\x07\x10\x01\x18\x01", 6); /* entry type 7 */
    done(w, SEG0, 64);
    expect_both(w, E_CORRUPT, 0);
}

static void test_content_that_does_not_parse(void **state)
{
    struct world *w = *state;
    static const int types[] = {WAL_ENTRY, WAL_STATE, WAL_SNAPSHOT};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        w->crc = 0;
        put_first_head(w);
        put_text(w, types[i], "\xff", 1);
        done(w, SEG0, 64);
        expect_both(w, E_CORRUPT, 0);
    }
}

/* ---- what records amount to ------------------------------------------------------------------------- */

static void test_later_entries_override(void **state)
{
    struct world *w = *state;
    struct errmsg em;
    struct wal_contents c;
    put_first_head(w);
    for (raft_index i = 1; i <= 5; i++)
        put_entry(w, 1, i, 10);
    put_entry(w, 2, 3, 20);
    put_text(w, WAL_STATE, "\x08\x02\x10\x01\x18\x02", 6);
    put_text(w, WAL_STATE, "\x08\x02\x10\x00\x18\x03", 6);
    done(w, SEG0, 64);
    assert_int_equal(wal_read(&w->o, DIR, zero, &c, &em), 0);
    assert_int_equal(c.entry_count, 3);
    assert_int_equal(c.entries[2].term, 2);
    assert_int_equal(c.entries[2].index, 3);
    assert_int_equal(c.entry_bytes, 40);
    assert_int_equal(c.last_index, 3);
    assert_int_equal(c.hard_state.commit, 3);
    assert_int_equal(c.hard_state.vote, 0);
    wal_contents_deinit(&c);
}

static void test_entries_up_to_the_start_are_skipped(void **state)
{
    struct world *w = *state;
    struct errmsg em;
    struct wal_contents c;
    put_first_head(w);
    for (raft_index i = 1; i <= 5; i++)
        put_entry(w, 1, i, 10);
    put_text(w, WAL_SNAPSHOT, "\x08\x05\x10\x01", 4);
    done(w, SEG0, 64);
    assert_int_equal(wal_read(&w->o, DIR, (struct wal_snapshot){5, 1}, &c, &em), 0);
    assert_int_equal(c.entry_count, 0);
    assert_int_equal(c.last_index, 5);
    assert_true(c.start_found);
    wal_contents_deinit(&c);
}

static void test_hole(void **state)
{
    struct world *w = *state;
    struct errmsg em;
    struct wal_contents c;
    struct raft_hard_state s;
    put_first_head(w);
    put_entry(w, 1, 1, 10);
    put_entry(w, 1, 3, 10);
    done(w, SEG0, 64);
    expect_both(w, E_WAL_HOLE, 1);
    assert_int_equal(wal_verify(&w->o, DIR, zero, &s, &em), 0); /* does not look at entries */
    assert_int_equal(wal_read(&w->o, DIR, zero, &c, &em), E_WAL_HOLE);
    assert_int_equal(c.entries[0].index, 1);
    wal_contents_deinit(&c);
}

static void test_start_snapshot(void **state)
{
    struct world *w = *state;
    struct errmsg em;
    struct wal_contents c;
    struct wal *log;
    put_first_head(w);
    put_entry(w, 2, 1, 10);
    put_text(w, WAL_SNAPSHOT, "\x08\x01\x10\x02", 4);
    done(w, SEG0, 64);
    assert_int_equal(wal_read(&w->o, DIR, (struct wal_snapshot){1, 9}, &c, &em),
                     E_WAL_SNAPSHOT_MISMATCH);
    wal_contents_deinit(&c);
    assert_int_equal(wal_read(&w->o, DIR, (struct wal_snapshot){7, 2}, &c, &em),
                     E_WAL_SNAPSHOT_NOT_FOUND);
    wal_contents_deinit(&c);
    /* A restart goes on, as upstream's does. */
    assert_int_equal(wal_open(&w->o, DIR, (struct wal_snapshot){7, 2}, &c, &log, &em), 0);
    assert_false(c.start_found);
    wal_contents_deinit(&c);
    wal_abandon(log);
}

static void test_metadata_conflict(void **state)
{
    struct world *w = *state;
    put_first_head(w);
    put_text(w, WAL_METADATA, "\x08\x01\x10\x03", 4);
    done(w, SEG0, 64);
    expect_both(w, E_WAL_METADATA, 0);
}

static void test_entries_are_bounded(void **state)
{
    struct world *w = *state;
    put_first_head(w);
    put_entry(w, 1, 1, 1000);
    put_entry(w, 1, 2, 1000);
    done(w, SEG0, 64);
    w->o.contents_bytes_max = 1999;
    expect_both(w, E_TOOBIG, 0);
    w->o.contents_bytes_max = 2000;
    expect_both(w, 0, 2);
}

static void test_usable_snapshots_are_committed_ones(void **state)
{
    struct world *w = *state;
    struct errmsg em;
    struct wal_snapshot *list;
    size_t n;
    put_first_head(w);
    put_text(w, WAL_SNAPSHOT, "\x08\x03\x10\x01", 4);
    put_text(w, WAL_SNAPSHOT, "\x08\x05\x10\x01", 4);
    put_text(w, WAL_STATE, "\x08\x02\x10\x01\x18\x04", 6);
    done(w, SEG0, 3); /* a torn end is fine */
    assert_int_equal(wal_snapshots(&w->o, DIR, &list, &n, &em), 0);
    assert_int_equal(n, 2);
    assert_int_equal(list[0].index, 0);
    assert_int_equal(list[1].index, 3);
    wal_snapshots_free(&w->o, list, n);
}

/* ---- the chain -------------------------------------------------------------------------------------- */

static void test_chain_across_segments(void **state)
{
    struct world *w = *state;
    put_first_head(w);
    put_entry(w, 1, 1, 10);
    done(w, SEG0, 0);
    put_head(w);
    put_entry(w, 1, 2, 10);
    done(w, SEG1, 64);
    expect_both(w, 0, 2);
    w->crc ^= 1;
    put_head(w);
    done(w, SEG2, 64);
    expect_both(w, E_WAL_CRC, 0);
}

static void test_reader_may_start_at_any_segment(void **state)
{
    struct world *w = *state;
    struct errmsg em;
    struct wal_reader *r;
    struct wal_view v;
    w->crc = 0xabcdef;
    put_head(w);
    put_entry(w, 1, 2, 10);
    done(w, SEG1, 64);
    assert_int_equal(wal_reader_open(&w->o, DIR, 2, &r, &em), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(wal_reader_next(r, &v, &em), 0);
    assert_int_equal(wal_reader_crc(r), w->crc);
    assert_int_equal(wal_reader_seq(r), 1);
    assert_int_equal(wal_reader_next(r, &v, &em), E_NOTFOUND);
    wal_reader_close(r);
}

/* ---- as a tool reads -------------------------------------------------------------------------------- */

static void test_reading_goes_on_behind_a_wrong_crc(void **state)
{
    struct world *w = *state;
    struct errmsg em;
    struct wal_reader *r;
    struct wal_view v;
    put_first_head(w);
    size_t bad = put_raw(w, WAL_ENTRY, bytes_of("\x10\x01\x18\x01", 4), 777);
    w->crc = 777;
    put_entry(w, 1, 2, 10);
    done(w, SEG0, 64);
    assert_int_equal(wal_reader_open_all(&w->o, DIR, &r, &em), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(wal_reader_next(r, &v, &em), 0);
    assert_int_equal(wal_reader_next(r, &v, &em), E_WAL_CRC);
    assert_int_equal(v.offset, bad);
    assert_int_equal(v.data.len, 4);
    assert_non_null(strstr(em.text, "crc mismatch: expected: 309 computed: "));
    assert_int_equal(wal_reader_next(r, &v, &em), 0);
    assert_int_equal(wal_reader_next(r, &v, &em), E_NOTFOUND);
    wal_reader_close(r);
}

static void test_following_a_log_that_grows(void **state)
{
    struct world *w = *state;
    struct errmsg em;
    struct wal_reader *r;
    struct wal_view v;
    const struct disk *d = w->o.disk;
    struct disk_file *f;
    put_first_head(w);
    size_t at = w->file.len;
    done(w, SEG0, 64);
    assert_int_equal(wal_reader_open_all(&w->o, DIR, &r, &em), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(wal_reader_next(r, &v, &em), 0);
    assert_int_equal(wal_reader_next(r, &v, &em), E_NOTFOUND);
    assert_int_equal(wal_reader_next(r, &v, &em), E_NOTFOUND);
    put_entry(w, 1, 1, 500);
    assert_int_equal(d->open(d->arg, SEG0, DISK_WRITE, 0, &f), 0);
    assert_int_equal(d->write(d->arg, f, at, buf_bytes(&w->file)), 0);
    assert_int_equal(wal_reader_next(r, &v, &em), 0);
    assert_int_equal(v.type, WAL_ENTRY);
    assert_int_equal(v.end_offset, wal_reader_offset(r));
    assert_int_equal(wal_reader_next(r, &v, &em), E_NOTFOUND);
    d->close(d->arg, f);
    wal_reader_close(r);
}

static void test_one_file_alone(void **state)
{
    struct world *w = *state;
    struct errmsg em;
    struct wal_reader *r;
    struct wal_view v;
    put_first_head(w);
    done(w, "some/copy.bin", 64);
    assert_int_equal(wal_reader_open_file(&w->o, "some/none", &r, &em), E_NOENT);
    assert_int_equal(wal_reader_open_file(&w->o, "some/copy.bin", &r, &em), 0);
    assert_int_equal(wal_reader_next(r, &v, &em), 0);
    assert_string_equal(v.segment, "copy.bin");
    wal_reader_close(r);
}

/* Many records over many windows, with sizes that meet every alignment. */
static void test_window_is_refilled(void **state)
{
    struct world *w = *state;
    struct errmsg em;
    struct wal_contents c;
    put_first_head(w);
    for (raft_index i = 1; i <= 400; i++)
        put_entry(w, 1, i, i * 9 % 4096);
    done(w, SEG0, 4096);
    assert_int_equal(wal_read(&w->o, DIR, zero, &c, &em), 0);
    assert_int_equal(c.entry_count, 400);
    for (size_t i = 0; i < c.entry_count; i++) {
        struct bytes data = rcbuf_bytes(c.entries[i].data);
        assert_int_equal(data.len, (i + 1) * 9 % 4096);
        assert_true(data.len == 0 || data.data[data.len - 1] == (uint8_t)(i + 1));
    }
    wal_contents_deinit(&c);
}

/* ---- failing disk and memory ------------------------------------------------------------------------ */

static void read_with(struct test_heap *heap, void *arg)
{
    struct world *w = arg;
    struct errmsg em;
    struct wal_opts o = w->o;
    struct wal_contents c;
    struct wal_snapshot *list;
    size_t n;
    o.alloc = &heap->alloc;
    int rc = wal_read(&o, DIR, zero, &c, &em);
    assert_true(rc == 0 || rc == E_NOMEM);
    wal_contents_deinit(&c);
    rc = wal_snapshots(&o, DIR, &list, &n, &em);
    assert_true(rc == 0 || rc == E_NOMEM);
    if (rc == 0) wal_snapshots_free(&o, list, n);
}

static void test_memory_fails(void **state)
{
    struct world *w = *state;
    put_first_head(w);
    put_entry(w, 1, 1, 10);
    put_text(w, WAL_STATE, "\x08\x02\x10\x01\x18\x04", 6);
    done(w, SEG0, 64);
    assert_true(test_heap_every_failure(read_with, w) > 10);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_names),
        TEST(test_segments_are_chosen_by_index),
        TEST(test_missing_segments),
        TEST(test_length_word),
        TEST(test_torn_is_a_zero_piece_of_a_sector),
        TEST(test_ends_that_are_clean),
        TEST(test_one_to_seven_bytes_left),
        TEST(test_record_cut_at_each_byte),
        TEST(test_absurd_length),
        TEST(test_wrong_crc),
        TEST(test_zero_sector),
        TEST(test_record_that_does_not_parse),
        TEST(test_unknown_types),
        TEST(test_content_that_does_not_parse),
        TEST(test_later_entries_override),
        TEST(test_entries_up_to_the_start_are_skipped),
        TEST(test_hole),
        TEST(test_start_snapshot),
        TEST(test_metadata_conflict),
        TEST(test_entries_are_bounded),
        TEST(test_usable_snapshots_are_committed_ones),
        TEST(test_chain_across_segments),
        TEST(test_reader_may_start_at_any_segment),
        TEST(test_reading_goes_on_behind_a_wrong_crc),
        TEST(test_following_a_log_that_grows),
        TEST(test_one_file_alone),
        TEST(test_window_is_refilled),
        TEST(test_memory_fails),
    };
    return cmocka_run_group_tests_name("wal/reader", tests, NULL, NULL);
}

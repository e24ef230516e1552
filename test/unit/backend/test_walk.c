/* The walker: it accepts all that LMDB writes, gives its rows, and refuses what is damaged. */
#include "fixture.h"
#include "memfile.h"

#include <lmdb.h>

enum { PAGE = 4096 };

/* --- helpers -------------------------------------------------------------------------------------------- */

static uint8_t *read_whole(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *len = (size_t)ftell(f);
    rewind(f);
    uint8_t *data = malloc(*len + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *len, f), *len);
    (void)fclose(f);
    return data;
}

static void write_whole(const char *path, const uint8_t *data, size_t len)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    (void)fclose(f);
}

static int walk_data(uint8_t *data, size_t len, struct walk_stats *stats, struct errmsg *em)
{
    struct memfile m;
    struct test_heap heap;
    test_heap_init(&heap);
    memfile_init(&m, data, len);
    int rc = backend_walk(&m.disk, "db", &heap.alloc, NULL, stats, em);
    test_heap_check_empty(&heap);
    return rc;
}

/* A store with one of everything: several levels, long values, a long key, free pages. */
static void fill_varied(struct store *s, unsigned row_count)
{
    uint8_t key[17], value[9000] = {0};
    struct backend_tx *tx = tx_begin(s);
    for (unsigned i = 0; i < row_count; i++) {
        size_t len = i % 50 == 7 ? 6000 : 40;
        tx_put(s, tx, TABLE_KEY, revision(key, i + 2, 0), bytes_of(value, len));
    }
    memset(value, 'u', sizeof value);
    tx_put(s, tx, TABLE_AUTH_USERS, bytes_of(value, 600), bytes_str("long name"));
    tx_put(s, tx, TABLE_META, bytes_str("term"), bytes_str("12345678"));
    tx_put(s, tx, TABLE_ALARM, BYTES_EMPTY, BYTES_EMPTY);
    tx_commit(s, tx);
    tx = tx_begin(s);
    for (unsigned i = 0; i < row_count; i += 3)
        tx_del(s, tx, TABLE_KEY, revision(key, i + 2, 0));
    tx_commit(s, tx);
    put_text(s, TABLE_META, "term", "87654321");
}

/* The file of such a store. */
static uint8_t *varied_file(unsigned row_count, size_t *len)
{
    struct store s;
    store_init(&s, KIND_LMDB);
    fill_varied(&s, row_count);
    store_close(&s);
    uint8_t *data = read_whole(s.path, len);
    store_deinit(&s);
    return data;
}

/* --- rows ------------------------------------------------------------------------------------------------- */

struct seen {
    struct model model;
    enum table before;
    bool tables_in_order;
};

static int see_row(void *arg, enum table t, struct bytes key, struct bytes value)
{
    struct seen *s = arg;
    if (s->before == TABLE_KEY && t != TABLE_KEY) s->tables_in_order = false;
    s->before = t;
    model_put(&s->model, t, key, value);
    return 0;
}

static void rows_are_those_of_the_store(void **state)
{
    struct store s;
    (void)state;
    store_init(&s, KIND_LMDB);
    fill_varied(&s, 300);
    struct seen seen = {.tables_in_order = true};
    struct walk_opts opts = {.row = see_row, .arg = &seen, .tables = UINT32_MAX};
    struct walk_stats stats;
    assert_int_equal(backend_walk(realdisk(), s.path, &s.heap.alloc, &opts, &stats, &s.em), 0);
    struct backend_read *r = read_begin(&s);
    assert_true(model_equals(&seen.model, &s, r));
    s.face.read_end(r);
    assert_true(seen.tables_in_order);
    assert_int_equal(stats.row_count[TABLE_KEY], 200);
    assert_int_equal(stats.row_count[TABLE_ALARM], 1);
    struct backend_size size;
    assert_int_equal(s.face.size(s.face.arg, &size), 0);
    assert_int_equal(size.total_bytes, stats.page_count * stats.page_bytes);
    assert_int_equal(size.in_use_bytes, (stats.page_count - stats.free_count) * stats.page_bytes);
    model_clear(&seen.model);
    store_deinit(&s);
}

static int stop_at_third(void *arg, enum table t, struct bytes key, struct bytes value)
{
    (void)t;
    (void)key;
    (void)value;
    int *count = arg;
    return ++*count == 3 ? 77 : 0;
}

static void only_chosen_tables_are_given(void **state)
{
    (void)state;
    size_t len;
    uint8_t *data = varied_file(100, &len);
    struct memfile m;
    struct test_heap heap;
    test_heap_init(&heap);
    memfile_init(&m, data, len);
    struct seen seen = {.tables_in_order = true};
    struct walk_opts opts = {.row = see_row, .arg = &seen, .tables = 1u << TABLE_META};
    assert_int_equal(backend_walk(&m.disk, "db", &heap.alloc, &opts, NULL, NULL), 0);
    assert_int_equal(seen.model.count, 1);
    assert_int_equal(seen.model.row[0]->table, TABLE_META);
    model_clear(&seen.model);
    int count = 0;
    opts = (struct walk_opts){.row = stop_at_third, .arg = &count, .tables = UINT32_MAX};
    assert_int_equal(backend_walk(&m.disk, "db", &heap.alloc, &opts, NULL, NULL), 77);
    assert_int_equal(count, 3);
    test_heap_check_empty(&heap);
    free(data);
}

/* --- what LMDB writes is accepted ------------------------------------------------------------------------- */

/* Ranges come and go, values of all sizes, readers that hold old states, transactions larger than LMDB keeps in
 * memory: whatever moves pages between trees and the free list. */
static void accept_history(uint64_t seed, unsigned commit_count, unsigned ops_max)
{
    struct store s;
    store_init(&s, KIND_LMDB);
    struct prng p;
    prng_init(&p, seed);
    static uint8_t value[40000];
    uint8_t key[17];
    struct backend_read *held = NULL;
    uint64_t next = 1;
    for (unsigned i = 0; i < commit_count; i++) {
        struct backend_tx *tx = tx_begin(&s);
        uint64_t from = prng_below(&p, next), mode = prng_below(&p, 4);
        for (uint64_t n = prng_below(&p, ops_max); n > 0; n--) {
            size_t len = prng_below(&p, 20) == 0 ? prng_below(&p, sizeof value)
                                                 : prng_below(&p, 300);
            if (mode == 0) tx_del(&s, tx, TABLE_KEY, revision(key, from++, 0));
            if (mode == 1)
                tx_put(&s, tx, TABLE_KEY, revision(key, prng_below(&p, next), 0),
                       bytes_of(value, len));
            if (mode == 2)
                tx_put(&s, tx, TABLE_LEASE, revision(key, prng_next(&p), 0), bytes_of(value, len));
            if (mode >= 2)
                tx_put(&s, tx, TABLE_KEY, revision(key, next++, 0), bytes_of(value, len));
        }
        tx_commit(&s, tx);
        if (held == NULL && prng_below(&p, 4) == 0) {
            held = read_begin(&s);
        } else if (held != NULL && prng_below(&p, 4) == 0) {
            s.face.read_end(held);
            held = NULL;
        }
        struct walk_stats stats;
        int rc = backend_walk(realdisk(), s.path, &s.heap.alloc, NULL, &stats, &s.em);
        if (rc != 0) fail_msg("seed %llu, commit %u: %s", (unsigned long long)seed, i, s.em.text);
    }
    if (held != NULL) s.face.read_end(held);
    store_deinit(&s);
}

static void histories_are_accepted(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++)
        accept_history(seed, 40, 400);
}

static void large_transactions_are_accepted(void **state)
{
    (void)state;
    accept_history(99, 8, 12000);
}

static void new_file_is_accepted(void **state)
{
    (void)state;
    struct store s;
    store_init(&s, KIND_LMDB);
    store_close(&s);
    struct walk_stats stats;
    assert_int_equal(backend_walk(realdisk(), s.path, &s.heap.alloc, NULL, &stats, &s.em), 0);
    assert_int_equal(stats.row_count[TABLE_KEY], 0);
    store_deinit(&s);
}

/* --- files of others --------------------------------------------------------------------------------------- */

static void absent_and_empty_files(void **state)
{
    (void)state;
    struct test_heap heap;
    test_heap_init(&heap);
    struct errmsg em;
    int rc = backend_walk(realdisk(), "/nonexistent/db", &heap.alloc, NULL, NULL, &em);
    assert_int_equal(rc, E_NOENT);
    assert_non_null(strstr(em.text, "/nonexistent/db"));
    uint8_t none[1];
    assert_int_equal(walk_data(none, 0, NULL, &em), E_EOF);
}

static void bbolt_file_is_named(void **state)
{
    (void)state;
    uint8_t page[2 * PAGE] = {0};
    page[8] = 4;
    endian_store_le32(page + 16, 0xED0CDAED);
    struct errmsg em;
    assert_int_equal(walk_data(page, sizeof page, NULL, &em), E_UNSUPPORTED);
    assert_non_null(strstr(em.text, "etcd-utl migrate"));
}

static void foreign_files(void **state)
{
    (void)state;
    struct errmsg em;
    uint8_t page[2 * PAGE];
    memset(page, '#', sizeof page);
    assert_int_equal(walk_data(page, sizeof page, NULL, &em), E_UNSUPPORTED);
    assert_int_equal(walk_data(page, 100, NULL, &em), E_CORRUPT);
    memset(page, 0, sizeof page);
    assert_int_equal(walk_data(page, sizeof page, NULL, &em), E_CORRUPT);
}

static void lmdb_of_another_program(void **state)
{
    (void)state;
    char folder[REALDISK_PATH_BYTES_MAX], path[REALDISK_PATH_BYTES_MAX + 16];
    realdisk_folder("backend", folder);
    (void)snprintf(path, sizeof path, "%s/db", folder);
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_val one = {1, path};
    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_open(env, path, MDB_NOSUBDIR, 0600), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, NULL, 0, &dbi), 0);
    assert_int_equal(mdb_put(txn, dbi, &one, &one, 0), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
    struct test_heap heap;
    test_heap_init(&heap);
    struct errmsg em;
    assert_int_equal(backend_walk(realdisk(), path, &heap.alloc, NULL, NULL, &em), E_UNSUPPORTED);
    realdisk_remove(folder);
}

/* --- damage -------------------------------------------------------------------------------------------------- */

/* Where things stand in a file, found by looking. */
struct places {
    uint8_t *data;
    size_t len, meta, leaf, branch, overflow, users_record;
};

static size_t find_page(const struct places *p, uint16_t flags)
{
    for (size_t at = 2 * PAGE; at + PAGE <= p->len; at += PAGE) {
        if (endian_load_le16(p->data + at + 10) == flags &&
            endian_load_le64(p->data + at) == at / PAGE)
            return at;
    }
    fail_msg("no page of kind %u", flags);
    return 0;
}

/* Only pages of the newest state matter: a leaf that the branch names. */
static void find_places(struct places *p)
{
    uint64_t t0 = endian_load_le64(p->data + 144), t1 = endian_load_le64(p->data + PAGE + 144);
    p->meta = t0 > t1 ? 0 : PAGE;
    size_t main_root = (size_t)endian_load_le64(p->data + p->meta + 128) * PAGE;
    const uint8_t *root = p->data + main_root;
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        const uint8_t *node = root + endian_load_le16(root + 16 + 2 * i);
        size_t key_bytes = endian_load_le16(node + 6);
        size_t record = (size_t)(node + 8 + key_bytes - p->data);
        if (key_bytes == 3) p->branch = (size_t)endian_load_le64(p->data + record + 40) * PAGE;
        if (key_bytes == 9 && node[8 + 4] == 'U') p->users_record = record;
    }
    const uint8_t *first = p->data + p->branch + endian_load_le16(p->data + p->branch + 16);
    p->leaf = (size_t)endian_load_le32(first) * PAGE;
    p->overflow = find_page(p, 4);
}

typedef void (*damage_fn)(struct places *p);

static uint8_t *node_of(struct places *p, size_t page, unsigned i)
{
    return p->data + page + endian_load_le16(p->data + page + 16 + 2 * i);
}

static void d_magic(struct places *p)
{
    p->data[PAGE + 16] ^= 1;
}
static void d_page_size(struct places *p)
{
    endian_store_le32(p->data + 40, 1 << 20);
}
static void d_both_same_txn(struct places *p)
{
    memcpy(p->data + 144, p->data + PAGE + 144, 8);
}
static void d_root(struct places *p)
{
    endian_store_le64(p->data + p->meta + 128, 1 << 20);
}
static void d_root_is_meta(struct places *p)
{
    endian_store_le64(p->data + p->meta + 128, 1);
}
static void d_last_page_huge(struct places *p)
{
    endian_store_le64(p->data + p->meta + 136, UINT64_MAX / PAGE);
}
static void d_last_page_small(struct places *p)
{
    endian_store_le64(p->data + p->meta + 136, 3);
}
static void d_free_flags(struct places *p)
{
    p->data[p->meta + 44] |= 4;
}
static void d_page_number(struct places *p)
{
    p->data[p->leaf] ^= 1;
}
static void d_leaf_is_branch(struct places *p)
{
    p->data[p->leaf + 10] = 1;
}
static void d_leaf_is_dirty(struct places *p)
{
    p->data[p->leaf + 10] |= 0x10;
}
static void d_lower(struct places *p)
{
    p->data[p->leaf + 13] = 0xff;
}
static void d_lower_odd(struct places *p)
{
    p->data[p->leaf + 12] ^= 1;
}
static void d_upper(struct places *p)
{
    p->data[p->leaf + 14] ^= 2;
}
static void d_pointer(struct places *p)
{
    endian_store_le16(p->data + p->leaf + 16, 0xfffe);
}
static void d_pointer_low(struct places *p)
{
    endian_store_le16(p->data + p->leaf + 16, 0);
}
static void d_pointer_twice(struct places *p)
{
    memcpy(p->data + p->leaf + 16, p->data + p->leaf + 18, 2);
}
static void d_order(struct places *p)
{
    uint8_t first[2];
    memcpy(first, p->data + p->leaf + 16, 2);
    memcpy(p->data + p->leaf + 16, p->data + p->leaf + 18, 2);
    memcpy(p->data + p->leaf + 18, first, 2);
}
static void d_key_len(struct places *p)
{
    endian_store_le16(node_of(p, p->leaf, 0) + 6, 600);
}
static void d_key_empty(struct places *p)
{
    endian_store_le16(node_of(p, p->leaf, 0) + 6, 0);
}
static void d_value_len(struct places *p)
{
    node_of(p, p->leaf, 0)[1] ^= 0x40;
}
static void d_value_len_huge(struct places *p)
{
    node_of(p, p->leaf, 0)[3] = 0xff;
}
static void d_row_is_table(struct places *p)
{
    node_of(p, p->leaf, 0)[4] = 2;
}
static void d_row_is_big(struct places *p)
{
    node_of(p, p->leaf, 0)[4] = 1;
}
static void d_row_has_duplicates(struct places *p)
{
    node_of(p, p->leaf, 0)[4] = 4;
}
static void d_child(struct places *p)
{
    node_of(p, p->branch, 1)[0] ^= 0x40;
}
static void d_child_twice(struct places *p)
{
    memcpy(node_of(p, p->branch, 1), node_of(p, p->branch, 0), 6);
}
static void d_child_is_self(struct places *p)
{
    endian_store_le32(node_of(p, p->branch, 1), (uint32_t)(p->branch / PAGE));
}
static void d_child_high(struct places *p)
{
    node_of(p, p->branch, 1)[5] = 1;
}
static void d_separator(struct places *p)
{
    memset(node_of(p, p->branch, 1) + 8, 0xff, 17);
}
static void d_overflow_kind(struct places *p)
{
    p->data[p->overflow + 10] = 2;
}
static void d_overflow_number(struct places *p)
{
    p->data[p->overflow] ^= 4;
}
static void d_overflow_short(struct places *p)
{
    endian_store_le32(p->data + p->overflow + 12, 1);
}
static void d_overflow_long(struct places *p)
{
    endian_store_le32(p->data + p->overflow + 12, 0x7fffffff);
}
static void d_rows_lost(struct places *p)
{
    endian_store_le64(p->data + p->users_record + 40, UINT64_MAX); /* the table's root: none */
}
static void d_table_emptied(struct places *p)
{
    memset(p->data + p->users_record, 0, 40);
    endian_store_le64(p->data + p->users_record + 40, UINT64_MAX);
    endian_store_le64(p->data + p->users_record + 32, 1);
}
static void d_row_count(struct places *p)
{
    p->data[p->users_record + 32]++;
}
static void d_depth(struct places *p)
{
    p->data[p->users_record + 6]++;
}
static void d_depth_huge(struct places *p)
{
    p->data[p->users_record + 7] = 0x40;
}
static void d_leaf_count(struct places *p)
{
    p->data[p->users_record + 16]++;
}
static void d_table_flags(struct places *p)
{
    p->data[p->users_record + 4] = 4;
}
static void d_long_key(struct places *p)
{
    size_t page = (size_t)endian_load_le64(p->data + p->users_record + 40) * PAGE;
    node_of(p, page, 0)[8 + 500] ^= 1;
}
static size_t free_leaf(struct places *p)
{
    return (size_t)endian_load_le64(p->data + p->meta + 80) * PAGE;
}
static void d_free_order(struct places *p)
{
    uint8_t *node = node_of(p, free_leaf(p), 0), *list = node + 8 + endian_load_le16(node + 6) + 8;
    uint64_t a = endian_load_le64(list), b = endian_load_le64(list + 8);
    endian_store_le64(list, b);
    endian_store_le64(list + 8, a);
}
static void d_free_in_use(struct places *p)
{
    uint8_t *node = node_of(p, free_leaf(p), 0), *list = node + 8 + endian_load_le16(node + 6) + 8;
    uint64_t count = endian_load_le64(list - 8);
    endian_store_le64(list, p->leaf / PAGE);
    for (uint64_t i = 1; i < count; i++)
        endian_store_le64(list + 8 * i, 0); /* and no longer falling */
}
static void d_free_count(struct places *p)
{
    uint8_t *node = node_of(p, free_leaf(p), 0);
    endian_store_le64(node + 8 + endian_load_le16(node + 6), UINT64_MAX / 8);
}
static void d_free_outside(struct places *p)
{
    uint8_t *node = node_of(p, free_leaf(p), 0);
    endian_store_le64(node + 8 + endian_load_le16(node + 6) + 8, 1 << 30);
}
static void d_free_future(struct places *p)
{
    uint8_t *node = node_of(p, free_leaf(p), 0);
    endian_store_le64(node + 8, UINT64_MAX);
}
static void d_table_gone(struct places *p)
{
    memset(p->data + p->users_record, 0, 40); /* all its numbers agree, but its pages are left */
    endian_store_le64(p->data + p->users_record + 40, UINT64_MAX);
}
static void d_cut(struct places *p)
{
    p->len = p->leaf;
}
static void d_cut_to_meta(struct places *p)
{
    p->len = PAGE;
}

static const struct planted {
    const char *name;
    damage_fn fn;
} planted[] = {
#define PLANT(f)                                                                                   \
    {                                                                                              \
#f, f                                                                                      \
    }
    PLANT(d_magic),
    PLANT(d_page_size),
    PLANT(d_both_same_txn),
    PLANT(d_root),
    PLANT(d_root_is_meta),
    PLANT(d_last_page_huge),
    PLANT(d_last_page_small),
    PLANT(d_free_flags),
    PLANT(d_page_number),
    PLANT(d_leaf_is_branch),
    PLANT(d_leaf_is_dirty),
    PLANT(d_lower),
    PLANT(d_lower_odd),
    PLANT(d_upper),
    PLANT(d_pointer),
    PLANT(d_pointer_low),
    PLANT(d_pointer_twice),
    PLANT(d_order),
    PLANT(d_key_len),
    PLANT(d_key_empty),
    PLANT(d_value_len),
    PLANT(d_value_len_huge),
    PLANT(d_row_is_table),
    PLANT(d_row_is_big),
    PLANT(d_row_has_duplicates),
    PLANT(d_child),
    PLANT(d_child_twice),
    PLANT(d_child_is_self),
    PLANT(d_child_high),
    PLANT(d_separator),
    PLANT(d_overflow_kind),
    PLANT(d_overflow_number),
    PLANT(d_overflow_short),
    PLANT(d_overflow_long),
    PLANT(d_rows_lost),
    PLANT(d_table_emptied),
    PLANT(d_row_count),
    PLANT(d_depth),
    PLANT(d_depth_huge),
    PLANT(d_leaf_count),
    PLANT(d_table_flags),
    PLANT(d_long_key),
    PLANT(d_free_order),
    PLANT(d_free_in_use),
    PLANT(d_free_count),
    PLANT(d_free_outside),
    PLANT(d_free_future),
    PLANT(d_table_gone),
    PLANT(d_cut),
    PLANT(d_cut_to_meta),
#undef PLANT
};

static void planted_damage_is_refused(void **state)
{
    (void)state;
    size_t len;
    uint8_t *sound = varied_file(300, &len), *copy = malloc(len);
    assert_non_null(copy);
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
        memcpy(copy, sound, len);
        struct places p = {.data = copy, .len = len};
        find_places(&p);
        planted[i].fn(&p);
        struct errmsg em = {0};
        int rc = walk_data(copy, p.len, NULL, &em);
        if (rc != E_CORRUPT) fail_msg("%s: %d %s", planted[i].name, rc, em.text);
        if (strstr(em.text, "db is damaged: page ") == NULL)
            fail_msg("%s: %s", planted[i].name, em.text);
    }
    free(copy);
    free(sound);
}

/* What the walk lets pass must be safe for LMDB: read all, change much, walk again. */
static void use_damaged(struct store *s, const uint8_t *data, size_t len)
{
    write_whole(s->path, data, len);
    if (store_open(s) != 0) return; /* LMDB itself may refuse */
    struct backend_read *r = read_begin(s);
    for (unsigned t = 0; t < TABLE_COUNT; t++) {
        struct backend_cursor *c = NULL;
        assert_int_equal(s->face.cursor_open(r, (enum table)t, &c), 0);
        struct bytes k, v;
        for (int rc = s->face.seek(c, BYTES_EMPTY, &k, &v); rc == 0; rc = s->face.next(c, &k, &v)) {
        }
        s->face.cursor_close(c);
    }
    s->face.read_end(r);
    uint8_t key[17];
    struct backend_tx *tx = tx_begin(s);
    for (unsigned i = 0; i < 60; i++) {
        tx_del(s, tx, TABLE_KEY, revision(key, i, 0));
        tx_put(s, tx, TABLE_KEY, revision(key, 1000 + i, 0), bytes_of(data, 500));
    }
    tx_commit(s, tx);
    store_close(s);
    int rc = backend_walk(realdisk(), s->path, &s->heap.alloc, NULL, NULL, &s->em);
    if (rc != 0) fail_msg("after use: %s", s->em.text);
}

/* `step` is odd, so that all places within words come in turn. */
static void flip_all(uint8_t xor, size_t step, unsigned use_every)
{
    size_t len;
    uint8_t *data = varied_file(60, &len);
    struct store s;
    store_prepare(&s, KIND_LMDB);
    unsigned passed = 0;
    size_t refused = 0;
    for (size_t i = 0; i < len; i += step) {
        data[i] ^= xor;
        struct errmsg em;
        int rc = walk_data(data, len, NULL, &em);
        if (rc != 0) refused++;
        if (rc == 0 && ++passed % use_every == 0) use_damaged(&s, data, len);
        data[i] ^= xor;
    }
    assert_true(refused > 500 / step); /* the rest is values, free pages and the older meta page */
    store_deinit(&s);
    free(data);
}

static void every_byte_flipped_is_safe(void **state)
{
    (void)state;
    flip_all(0xff, 1, 211);
    flip_all(0x01, 5, 61);
}

static void every_length_is_safe(void **state)
{
    (void)state;
    size_t len;
    uint8_t *data = varied_file(60, &len);
    struct errmsg em;
    for (size_t cut = 0; cut < len; cut += cut < 3 * PAGE ? 61 : 1021)
        (void)walk_data(data, cut, NULL, &em);
    assert_int_equal(walk_data(data, len, NULL, &em), 0);
    free(data);
}

/* --- failures ---------------------------------------------------------------------------------------------- */

static void walk_in_heap(struct test_heap *h, void *arg)
{
    struct memfile *m = arg;
    struct errmsg em;
    int rc = backend_walk(&m->disk, "db", &h->alloc, NULL, NULL, &em);
    assert_true(rc == 0 || rc == E_NOMEM);
    assert_int_equal(rc == 0, h->failure_count == 0);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    size_t len;
    uint8_t *data = varied_file(60, &len);
    struct memfile m;
    memfile_init(&m, data, len);
    assert_true(test_heap_every_failure(walk_in_heap, &m) > 5);
    free(data);
}

static void every_read_may_fail(void **state)
{
    (void)state;
    size_t len;
    uint8_t *data = varied_file(300, &len);
    struct memfile m;
    struct test_heap heap;
    test_heap_init(&heap);
    int rc = E_IO;
    for (size_t n = 1; rc != 0; n++) {
        memfile_init(&m, data, len);
        m.fail_read_at = n;
        struct errmsg em = {0};
        rc = backend_walk(&m.disk, "db", &heap.alloc, NULL, NULL, &em);
        assert_true(rc == 0 || (rc == E_IO && strstr(em.text, "db") != NULL));
        assert_true(n < 1000);
    }
    test_heap_check_empty(&heap);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_the_store),
        cmocka_unit_test(only_chosen_tables_are_given),
        cmocka_unit_test(histories_are_accepted),
        cmocka_unit_test(large_transactions_are_accepted),
        cmocka_unit_test(new_file_is_accepted),
        cmocka_unit_test(absent_and_empty_files),
        cmocka_unit_test(bbolt_file_is_named),
        cmocka_unit_test(foreign_files),
        cmocka_unit_test(lmdb_of_another_program),
        cmocka_unit_test(planted_damage_is_refused),
        cmocka_unit_test(every_byte_flipped_is_safe),
        cmocka_unit_test(every_length_is_safe),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(every_read_may_fail),
    };
    return cmocka_run_group_tests_name("backend walk", tests, NULL, NULL);
}

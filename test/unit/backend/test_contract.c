/* The contract of env/backend.h, run against both implementations. */
#include "fixture.h"

static void row_is_there_after_commit(void **state)
{
    struct store *s = *state;
    expect_none(s, TABLE_META, bytes_str("term"));
    put_text(s, TABLE_META, "term", "7");
    expect_text(s, TABLE_META, "term", "7");
    store_reopen(s);
    expect_text(s, TABLE_META, "term", "7");
}

static void put_replaces(void **state)
{
    struct store *s = *state;
    put_text(s, TABLE_AUTH, "k", "old");
    put_text(s, TABLE_AUTH, "k", "a longer new one");
    expect_text(s, TABLE_AUTH, "k", "a longer new one");
}

static void tables_are_apart(void **state)
{
    struct store *s = *state;
    for (unsigned t = 0; t < TABLE_COUNT; t++)
        put_text(s, (enum table)t, "same", table_name((enum table)t));
    for (unsigned t = 0; t < TABLE_COUNT; t++)
        expect_text(s, (enum table)t, "same", table_name((enum table)t));
}

static void delete_of_absent_key_is_no_error(void **state)
{
    struct store *s = *state;
    put_text(s, TABLE_LEASE, "a", "1");
    struct backend_tx *tx = tx_begin(s);
    tx_del(s, tx, TABLE_LEASE, bytes_str("b"));
    tx_del(s, tx, TABLE_LEASE, bytes_str("a"));
    tx_del(s, tx, TABLE_LEASE, bytes_str("a"));
    tx_commit(s, tx);
    expect_none(s, TABLE_LEASE, bytes_str("a"));
}

static void abort_leaves_nothing(void **state)
{
    struct store *s = *state;
    put_text(s, TABLE_META, "a", "1");
    struct backend_tx *tx = tx_begin(s);
    tx_put(s, tx, TABLE_META, bytes_str("a"), bytes_str("2"));
    tx_put(s, tx, TABLE_META, bytes_str("b"), bytes_str("2"));
    s->face.abort(tx);
    expect_text(s, TABLE_META, "a", "1");
    expect_none(s, TABLE_META, bytes_str("b"));
}

static void empty_commit_is_allowed(void **state)
{
    struct store *s = *state;
    tx_commit(s, tx_begin(s));
    put_text(s, TABLE_META, "a", "1");
    tx_commit(s, tx_begin(s));
    expect_text(s, TABLE_META, "a", "1");
}

static void value_may_be_empty(void **state)
{
    struct store *s = *state;
    put_one(s, TABLE_ALARM, bytes_str("k"), BYTES_EMPTY);
    expect_text(s, TABLE_ALARM, "k", "");
}

static void value_may_be_large(void **state)
{
    struct store *s = *state;
    size_t len = (size_t)3 << 20;
    uint8_t *big = malloc(len);
    assert_non_null(big);
    for (size_t i = 0; i < len; i++)
        big[i] = (uint8_t)(i * 7 >> 3);
    put_one(s, TABLE_KEY, bytes_str("big"), bytes_of(big, len));
    store_reopen(s);
    struct backend_read *r = read_begin(s);
    expect_row(s, r, TABLE_KEY, bytes_str("big"), bytes_of(big, len));
    s->face.read_end(r);
    free(big);
}

static void reader_keeps_its_state(void **state)
{
    struct store *s = *state;
    put_text(s, TABLE_META, "a", "1");
    struct backend_read *old = read_begin(s);
    struct backend_tx *tx = tx_begin(s);
    tx_put(s, tx, TABLE_META, bytes_str("a"), bytes_str("2"));
    expect_row(s, old, TABLE_META, bytes_str("a"), bytes_str("1"));
    expect_text(s, TABLE_META, "a", "1");
    tx_commit(s, tx);
    for (int i = 0; i < 20; i++)
        put_text(s, TABLE_META, "b", "x");
    expect_row(s, old, TABLE_META, bytes_str("a"), bytes_str("1"));
    struct bytes v;
    assert_int_equal(s->face.get(old, TABLE_META, bytes_str("b"), &v), E_NOTFOUND);
    s->face.read_end(old);
    expect_text(s, TABLE_META, "a", "2");
}

/* --- cursors ------------------------------------------------------------------------------------------ */

static void expect_seek(struct store *s, struct backend_cursor *c, const char *from,
                        const char *found)
{
    struct bytes k = BYTES_EMPTY, v = BYTES_EMPTY;
    int rc = s->face.seek(c, bytes_str(from), &k, &v);
    if (found == NULL) {
        assert_int_equal(rc, E_NOTFOUND);
        assert_int_equal(s->face.next(c, &k, &v), E_NOTFOUND);
        return;
    }
    assert_int_equal(rc, 0);
    assert_true(bytes_eq(k, bytes_str(found)));
    assert_true(bytes_eq(v, bytes_str(found)));
}

static void seek_finds_first_not_less(void **state)
{
    struct store *s = *state;
    const char *keys[] = {"b", "bb", "d"};
    for (size_t i = 0; i < 3; i++)
        put_text(s, TABLE_MEMBERS, keys[i], keys[i]);
    struct backend_read *r = read_begin(s);
    struct backend_cursor *c = NULL;
    assert_int_equal(s->face.cursor_open(r, TABLE_MEMBERS, &c), 0);
    expect_seek(s, c, "", "b");
    expect_seek(s, c, "a", "b");
    expect_seek(s, c, "b", "b");
    expect_seek(s, c, "b\x01", "bb");
    expect_seek(s, c, "c", "d");
    expect_seek(s, c, "d", "d");
    expect_seek(s, c, "e", NULL);
    expect_seek(s, c, "b", "b"); /* usable after the end */
    assert_int_equal(s->face.next(c, NULL, NULL), 0);
    struct bytes v;
    assert_int_equal(s->face.next(c, NULL, &v), 0);
    assert_true(bytes_eq(v, bytes_str("d")));
    assert_int_equal(s->face.next(c, NULL, NULL), E_NOTFOUND);
    assert_int_equal(s->face.next(c, NULL, NULL), E_NOTFOUND);
    s->face.cursor_close(c);
    s->face.read_end(r);
}

static void empty_table_has_no_row(void **state)
{
    struct store *s = *state;
    struct backend_read *r = read_begin(s);
    struct backend_cursor *c = NULL;
    assert_int_equal(s->face.cursor_open(r, TABLE_KEY, &c), 0);
    expect_seek(s, c, "", NULL);
    expect_seek(s, c, "a", NULL);
    s->face.cursor_close(c);
    s->face.read_end(r);
}

static void cursors_of_one_reader_are_apart(void **state)
{
    struct store *s = *state;
    put_text(s, TABLE_AUTH, "a", "a");
    put_text(s, TABLE_AUTH, "b", "b");
    for (int round = 0; round < 3; round++) { /* kept cursors come back */
        struct backend_read *r = read_begin(s);
        struct backend_cursor *x = NULL, *y = NULL;
        assert_int_equal(s->face.cursor_open(r, TABLE_AUTH, &x), 0);
        assert_int_equal(s->face.cursor_open(r, TABLE_AUTH, &y), 0);
        expect_seek(s, x, "a", "a");
        expect_seek(s, y, "b", "b");
        struct bytes k;
        assert_int_equal(s->face.next(x, &k, NULL), 0);
        assert_true(bytes_eq(k, bytes_str("b")));
        assert_int_equal(s->face.next(y, &k, NULL), E_NOTFOUND);
        s->face.cursor_close(x);
        s->face.cursor_close(y);
        s->face.read_end(r);
    }
}

static void revisions_come_back_in_order(void **state)
{
    struct store *s = *state;
    enum { COUNT = 5000 };
    uint8_t key[17];
    struct backend_tx *tx = tx_begin(s);
    for (uint64_t i = 0; i < COUNT; i++)
        tx_put(s, tx, TABLE_KEY, revision(key, i / 3 + 2, i % 3), bytes_str("value"));
    /* Neither growing nor new: the slow way, then growing again. */
    tx_put(s, tx, TABLE_KEY, revision(key, 5, 0), bytes_str("again"));
    tx_put(s, tx, TABLE_KEY, revision(key, 1, 9), bytes_str("first"));
    tx_del(s, tx, TABLE_KEY, revision(key, 6, 0));
    tx_put(s, tx, TABLE_KEY, revision(key, COUNT, 0), bytes_str("last"));
    tx_commit(s, tx);
    struct backend_read *r = read_begin(s);
    struct backend_cursor *c = NULL;
    assert_int_equal(s->face.cursor_open(r, TABLE_KEY, &c), 0);
    struct bytes k, v, before = BYTES_EMPTY;
    size_t count = 0;
    for (int rc = s->face.seek(c, BYTES_EMPTY, &k, &v); rc == 0; rc = s->face.next(c, &k, &v)) {
        assert_true(bytes_cmp(before, k) < 0);
        before = k; /* valid until read_end */
        count++;
    }
    assert_int_equal(count, COUNT + 1);
    s->face.cursor_close(c);
    expect_row(s, r, TABLE_KEY, revision(key, 5, 0), bytes_str("again"));
    s->face.read_end(r);
}

/* --- keys that LMDB cannot hold ------------------------------------------------------------------------ */

static void empty_key_comes_first(void **state)
{
    struct store *s = *state;
    put_one(s, TABLE_ALARM, bytes_of("\0", 1), bytes_str("zero"));
    put_one(s, TABLE_ALARM, BYTES_EMPTY, bytes_str("nothing"));
    struct backend_read *r = read_begin(s);
    expect_row(s, r, TABLE_ALARM, BYTES_EMPTY, bytes_str("nothing"));
    struct backend_cursor *c = NULL;
    assert_int_equal(s->face.cursor_open(r, TABLE_ALARM, &c), 0);
    struct bytes k, v;
    assert_int_equal(s->face.seek(c, BYTES_EMPTY, &k, &v), 0);
    assert_int_equal(k.len, 0);
    assert_true(bytes_eq(v, bytes_str("nothing")));
    assert_int_equal(s->face.next(c, &k, &v), 0);
    assert_int_equal(k.len, 1);
    assert_int_equal(s->face.next(c, &k, &v), E_NOTFOUND);
    s->face.cursor_close(c);
    s->face.read_end(r);
    struct backend_tx *tx = tx_begin(s);
    tx_del(s, tx, TABLE_ALARM, BYTES_EMPTY);
    tx_commit(s, tx);
    expect_none(s, TABLE_ALARM, BYTES_EMPTY);
}

static void long_keys_are_kept_whole(void **state)
{
    struct store *s = *state;
    const size_t lens[] = {1, 478, 479, 480, 509, 510, 511, 512, 600, 100000};
    uint8_t *name = malloc(100000);
    assert_non_null(name);
    memset(name, 'n', 100000);
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++)
        put_one(s, TABLE_AUTH_USERS, bytes_of(name, lens[i]), bytes_of(&lens[i], sizeof lens[i]));
    store_reopen(s);
    struct backend_read *r = read_begin(s);
    struct backend_cursor *c = NULL;
    assert_int_equal(s->face.cursor_open(r, TABLE_AUTH_USERS, &c), 0);
    struct bytes k, v;
    int rc = s->face.seek(c, BYTES_EMPTY, &k, &v);
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++, rc = s->face.next(c, &k, &v)) {
        assert_int_equal(rc, 0);
        assert_int_equal(k.len, lens[i]);
        assert_memory_equal(k.data, name, k.len);
        assert_memory_equal(v.data, &lens[i], sizeof lens[i]);
    }
    assert_int_equal(rc, E_NOTFOUND);
    struct bytes got;
    assert_int_equal(s->face.get(r, TABLE_AUTH_USERS, bytes_of(name, 700), &got), E_NOTFOUND);
    s->face.cursor_close(c);
    s->face.read_end(r);
    free(name);
}

/* --- size ---------------------------------------------------------------------------------------------- */

static struct backend_size size_of_store(struct store *s)
{
    struct backend_size size = {0};
    assert_int_equal(s->face.size(s->face.arg, &size), 0);
    assert_true(size.in_use_bytes <= size.total_bytes);
    assert_true(size.in_use_bytes > 0);
    return size;
}

static void size_grows_and_free_pages_are_taken_off(void **state)
{
    struct store *s = *state;
    struct backend_size fresh = size_of_store(s);
    uint8_t value[1000] = {1}, key[17];
    struct backend_tx *tx = tx_begin(s);
    for (uint64_t i = 0; i < 1000; i++)
        tx_put(s, tx, TABLE_KEY, revision(key, i, 0), bytes_of(value, sizeof value));
    tx_commit(s, tx);
    struct backend_size full = size_of_store(s);
    assert_true(full.total_bytes > fresh.total_bytes + 1000000);
    tx = tx_begin(s);
    for (uint64_t i = 0; i < 1000; i++)
        tx_del(s, tx, TABLE_KEY, revision(key, i, 0));
    tx_commit(s, tx);
    struct backend_size emptied = size_of_store(s);
    assert_true(emptied.total_bytes >= full.total_bytes);
    assert_true(emptied.in_use_bytes < full.in_use_bytes - 900000);
    struct backend_size again = size_of_store(s);
    assert_memory_equal(&again, &emptied, sizeof again);
}

/* --- against the model ---------------------------------------------------------------------------------- */

static struct bytes random_key(struct prng *p, uint8_t *out, enum table t)
{
    if (t == TABLE_KEY) return revision(out, prng_below(p, 60), prng_below(p, 2));
    size_t len = prng_below(p, 4);
    if (prng_below(p, 8) == 0) len = 474 + prng_below(p, 60);
    for (size_t i = 0; i < len; i++)
        out[i] = i < 470 ? 'k' : (uint8_t)prng_below(p, 2);
    if (len > 0 && len < 470) out[0] = (uint8_t)prng_below(p, 8);
    return bytes_of(out, len);
}

static struct bytes random_value(struct prng *p, uint8_t *out)
{
    size_t len = prng_below(p, 200);
    if (prng_below(p, 10) == 0) len = prng_below(p, MODEL_VALUE_BYTES_MAX);
    memset(out, (int)prng_below(p, 256), len);
    return bytes_of(out, len);
}

static void random_ops(struct store *s, struct prng *p, struct backend_tx *tx, struct model *m)
{
    uint8_t key[MODEL_KEY_BYTES_MAX], value[MODEL_VALUE_BYTES_MAX];
    for (size_t n = prng_below(p, 40); n > 0; n--) {
        enum table t = prng_below(p, 2) == 0 ? TABLE_KEY : TABLE_AUTH_USERS;
        struct bytes k = random_key(p, key, t);
        if (prng_below(p, 3) == 0) {
            tx_del(s, tx, t, k);
            model_del(m, t, k);
        } else {
            struct bytes v = random_value(p, value);
            tx_put(s, tx, t, k, v);
            model_put(m, t, k, v);
        }
    }
}

static void one_history(struct store *s, uint64_t seed)
{
    struct prng p;
    prng_init(&p, seed);
    struct model now = {0}, held = {0};
    struct backend_read *old = NULL;
    for (int round = 0; round < 40; round++) {
        struct model next = {0};
        model_copy(&next, &now);
        struct backend_tx *tx = tx_begin(s);
        random_ops(s, &p, tx, &next);
        if (prng_below(&p, 6) == 0) {
            s->face.abort(tx);
            model_clear(&next);
        } else {
            tx_commit(s, tx);
            model_clear(&now);
            now = next;
        }
        struct backend_read *r = read_begin(s);
        assert_true(model_equals(&now, s, r));
        s->face.read_end(r);
        if (old == NULL) {
            old = read_begin(s);
            model_copy(&held, &now);
        } else if (prng_below(&p, 5) == 0) {
            assert_true(model_equals(&held, s, old));
            s->face.read_end(old);
            old = NULL;
            model_clear(&held);
            if (prng_below(&p, 2) == 0) store_reopen(s);
        }
    }
    if (old != NULL) s->face.read_end(old);
    model_clear(&held);
    struct backend_tx *tx = tx_begin(s); /* for the next history */
    for (size_t i = 0; i < now.count; i++)
        tx_del(s, tx, now.row[i]->table, bytes_of(now.row[i]->key, now.row[i]->key_bytes));
    tx_commit(s, tx);
    model_clear(&now);
}

static void histories_equal_the_model(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++)
        one_history(*state, seed);
}

/* --- both kinds ------------------------------------------------------------------------------------------ */

static struct store shared_store;

static int setup_lmdb(void **state)
{
    store_init(&shared_store, KIND_LMDB);
    *state = &shared_store;
    return 0;
}

static int setup_memory(void **state)
{
    store_init(&shared_store, KIND_MEMORY);
    *state = &shared_store;
    return 0;
}

static int teardown(void **state)
{
    store_deinit(*state);
    return 0;
}

#define BOTH(f)                                                                                    \
    {"lmdb: " #f, f, setup_lmdb, teardown, NULL},                                                  \
    {                                                                                              \
        "memory: " #f, f, setup_memory, teardown, NULL                                             \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(row_is_there_after_commit),
        BOTH(put_replaces),
        BOTH(tables_are_apart),
        BOTH(delete_of_absent_key_is_no_error),
        BOTH(abort_leaves_nothing),
        BOTH(empty_commit_is_allowed),
        BOTH(value_may_be_empty),
        BOTH(value_may_be_large),
        BOTH(reader_keeps_its_state),
        BOTH(seek_finds_first_not_less),
        BOTH(empty_table_has_no_row),
        BOTH(cursors_of_one_reader_are_apart),
        BOTH(revisions_come_back_in_order),
        BOTH(empty_key_comes_first),
        BOTH(long_keys_are_kept_whole),
        BOTH(size_grows_and_free_pages_are_taken_off),
        BOTH(histories_equal_the_model),
    };
    return cmocka_run_group_tests_name("backend contract", tests, NULL, NULL);
}

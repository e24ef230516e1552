/* Defragmentation of the LMDB store: what is kept, what becomes smaller, who may read meanwhile, and what failures leave. */
#include "fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROWS = 400, VALUE_BYTES = 3000 };

static void fill(struct store *s)
{
    static uint8_t value[VALUE_BYTES];
    uint8_t key[17];
    struct backend_tx *tx = tx_begin(s);
    for (uint64_t i = 1; i <= ROWS; i++) {
        memset(value, (int)i, sizeof value);
        tx_put(s, tx, TABLE_KEY, revision(key, i, 0), bytes_of(value, sizeof value));
    }
    tx_commit(s, tx);
}

/* Leaves every tenth row. */
static void thin_out(struct store *s)
{
    uint8_t key[17];
    struct backend_tx *tx = tx_begin(s);
    for (uint64_t i = 1; i <= ROWS; i++) {
        if (i % 10 != 0) tx_del(s, tx, TABLE_KEY, revision(key, i, 0));
    }
    tx_commit(s, tx);
}

static struct backend_size size_of(struct store *s)
{
    struct backend_size size = {0, 0};
    assert_int_equal(s->face.size(s->face.arg, &size), 0);
    return size;
}

static void compact(struct store *s)
{
    bool must_end = true;
    int rc = backend_lmdb_compact(s->lmdb, &must_end, &s->em);
    if (rc != 0) fail_msg("compact: %s", s->em.text);
    assert_false(must_end);
}

static size_t row_count(struct store *s, struct backend_read *r)
{
    struct backend_cursor *c = NULL;
    struct bytes k;
    struct bytes v;
    size_t count = 0;
    assert_int_equal(s->face.cursor_open(r, TABLE_KEY, &c), 0);
    for (int rc = s->face.seek(c, BYTES_EMPTY, &k, &v); rc == 0; rc = s->face.next(c, &k, &v)) {
        assert_int_equal(v.len, VALUE_BYTES);
        count++;
    }
    s->face.cursor_close(c);
    return count;
}

static size_t rows_now(struct store *s)
{
    struct backend_read *r = read_begin(s);
    size_t count = row_count(s, r);
    s->face.read_end(r);
    return count;
}

/* --- tests ------------------------------------------------------------------------------------------- */

static void rows_stay_and_pages_go(void **state)
{
    (void)state;
    struct store s;
    store_init(&s, KIND_LMDB);
    fill(&s);
    thin_out(&s);
    put_text(&s, TABLE_META, "name", "value");
    struct backend_size before = size_of(&s);
    compact(&s);
    struct backend_size after = size_of(&s);
    assert_true(after.total_bytes < before.total_bytes / 4);
    assert_int_equal(after.total_bytes, after.in_use_bytes);
    assert_int_equal(rows_now(&s), ROWS / 10);
    expect_text(&s, TABLE_META, "name", "value");
    store_reopen(&s);
    assert_int_equal(rows_now(&s), ROWS / 10);
    assert_int_equal(size_of(&s).total_bytes, after.total_bytes);
    store_deinit(&s);
}

static void writes_go_on_in_the_new_file(void **state)
{
    (void)state;
    struct store s;
    store_init(&s, KIND_LMDB);
    for (int round = 0; round < 5; round++) {
        char name[16];
        (void)snprintf(name, sizeof name, "%d", round);
        put_text(&s, TABLE_META, name, "before");
        compact(&s);
        put_text(&s, TABLE_META, name, "behind");
        expect_text(&s, TABLE_META, name, "behind");
    }
    store_reopen(&s);
    expect_text(&s, TABLE_META, "0", "behind");
    expect_text(&s, TABLE_META, "4", "behind");
    store_deinit(&s);
}

static void a_read_goes_on_in_its_own_state(void **state)
{
    (void)state;
    struct store s;
    bool must_end = false;
    store_init(&s, KIND_LMDB);
    fill(&s);
    struct backend_read *old = read_begin(&s);
    thin_out(&s);
    compact(&s);
    put_text(&s, TABLE_META, "new", "1");
    assert_int_equal(row_count(&s, old), ROWS);
    assert_int_equal(rows_now(&s), ROWS / 10);
    struct bytes got;
    assert_int_equal(s.face.get(old, TABLE_META, bytes_str("new"), &got), E_NOTFOUND);
    /* The next one needs that one to have ended. */
    assert_int_equal(backend_lmdb_compact(s.lmdb, &must_end, &s.em), E_BUSY);
    assert_false(must_end);
    s.face.read_end(old);
    compact(&s);
    assert_int_equal(rows_now(&s), ROWS / 10);
    store_deinit(&s);
}

static void all_readers_may_be_in_use(void **state)
{
    (void)state;
    struct store s;
    struct backend_read *r[4];
    store_prepare(&s, KIND_LMDB);
    s.reader_count_max = 6;
    assert_int_equal(store_open(&s), 0);
    fill(&s);
    for (int i = 0; i < 4; i++)
        r[i] = read_begin(&s);
    compact(&s);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(row_count(&s, r[i]), ROWS);
        s.face.read_end(r[i]);
    }
    for (int i = 0; i < 4; i++)
        r[i] = read_begin(&s);
    for (int i = 0; i < 4; i++)
        s.face.read_end(r[i]);
    compact(&s);
    assert_int_equal(rows_now(&s), ROWS);
    store_deinit(&s);
}

static void the_file_stays_private_and_locked(void **state)
{
    (void)state;
    struct store s;
    struct backend_lmdb *other = NULL;
    struct stat st;
    char name[sizeof s.path + 32];
    store_init(&s, KIND_LMDB);
    compact(&s);
    assert_int_equal(stat(s.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    struct backend_lmdb_opts o = {.alloc = &s.heap.alloc, .disk = realdisk(), .path = s.path};
    assert_int_equal(backend_lmdb_open(&o, &other, &s.em), E_LOCKED);
    (void)snprintf(name, sizeof name, "%s-lock", s.path);
    assert_int_equal(stat(name, &st), 0);
    (void)snprintf(name, sizeof name, "%s.tmp.defrag", s.path);
    assert_int_equal(stat(name, &st), -1);
    (void)snprintf(name, sizeof name, "%s.tmp.defrag-lock", s.path);
    assert_int_equal(stat(name, &st), -1);
    store_deinit(&s);
}

static void what_a_crash_left_is_no_hindrance(void **state)
{
    (void)state;
    struct store s;
    char name[sizeof s.path + 32];
    store_init(&s, KIND_LMDB);
    fill(&s);
    (void)snprintf(name, sizeof name, "%s.tmp.defrag", s.path);
    int fd = open(name, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "half a copy", 11), 11);
    assert_int_equal(close(fd), 0);
    compact(&s);
    assert_int_equal(rows_now(&s), ROWS);
    store_deinit(&s);
}

/* A folder in the way of the copy stands for any failure before the rename. */
static void a_failure_leaves_the_store_as_it_was(void **state)
{
    (void)state;
    struct store s;
    bool must_end = false;
    char name[sizeof s.path + 32];
    store_init(&s, KIND_LMDB);
    fill(&s);
    (void)snprintf(name, sizeof name, "%s.tmp.defrag", s.path);
    assert_int_equal(mkdir(name, 0700), 0);
    assert_true(backend_lmdb_compact(s.lmdb, &must_end, &s.em) < 0);
    assert_false(must_end);
    assert_int_equal(rows_now(&s), ROWS);
    put_text(&s, TABLE_META, "still", "here");
    assert_int_equal(rmdir(name), 0);
    compact(&s);
    expect_text(&s, TABLE_META, "still", "here");
    store_deinit(&s);
}

/* --- readers beside it --------------------------------------------------------------------------------- */

struct racer {
    struct store *s;
    atomic_bool stop;
    atomic_size_t rounds;
    atomic_bool wrong;
};

/* Every state that a reader meets has both rows equal. */
static void *race(void *arg)
{
    struct racer *x = arg;
    const struct backend *b = &x->s->face;
    struct errmsg em = {""};
    while (!x->stop) {
        struct backend_read *r = NULL;
        struct bytes one = BYTES_EMPTY;
        struct bytes two = BYTES_EMPTY;
        if (b->read_begin(b->arg, &r, &em) < 0) {
            x->wrong = true;
            break;
        }
        if (b->get(r, TABLE_META, bytes_str("one"), &one) < 0) x->wrong = true;
        if (b->get(r, TABLE_META, bytes_str("two"), &two) < 0) x->wrong = true;
        if (!bytes_eq(one, two)) x->wrong = true;
        b->read_end(r);
        x->rounds++;
    }
    return NULL;
}

static void put_both(struct store *s, int round)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%d", round);
    struct backend_tx *tx = tx_begin(s);
    tx_put(s, tx, TABLE_META, bytes_str("one"), bytes_str(text));
    tx_put(s, tx, TABLE_META, bytes_str("two"), bytes_str(text));
    tx_commit(s, tx);
}

static void readers_never_notice(void **state)
{
    (void)state;
    struct store s;
    struct racer x = {.s = &s};
    pthread_t threads[3];
    store_prepare(&s, KIND_LMDB);
    s.reader_count_max = 5; /* few: the writer takes free ones out while others look for one */
    assert_int_equal(store_open(&s), 0);
    put_both(&s, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, race, &x), 0);
    for (int round = 1; round <= 60; round++) {
        bool must_end = false;
        int rc = backend_lmdb_compact(s.lmdb, &must_end, &s.em);
        assert_true(rc == 0 || rc == E_BUSY);
        put_both(&s, round);
    }
    while (x.rounds < 100 && !x.wrong) {}
    x.stop = true;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_false(x.wrong);
    store_deinit(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_stay_and_pages_go),
        cmocka_unit_test(writes_go_on_in_the_new_file),
        cmocka_unit_test(a_read_goes_on_in_its_own_state),
        cmocka_unit_test(all_readers_may_be_in_use),
        cmocka_unit_test(the_file_stays_private_and_locked),
        cmocka_unit_test(what_a_crash_left_is_no_hindrance),
        cmocka_unit_test(a_failure_leaves_the_store_as_it_was),
        cmocka_unit_test(readers_never_notice),
    };
    return cmocka_run_group_tests_name("backend/compact", tests, NULL, NULL);
}

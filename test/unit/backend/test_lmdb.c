/* What only the LMDB store promises: one opener, bounded readers, a full map, a whole new file, the ballast. */
#include "fixture.h"

#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static int open_again(struct store *s, bool create, struct backend_lmdb **out)
{
    struct backend_lmdb_opts o = {.alloc = &s->heap.alloc,
                                  .disk = realdisk(),
                                  .path = s->path,
                                  .create = create,
                                  .map_bytes = s->map_bytes};
    return backend_lmdb_open(&o, out, &s->em);
}

/* --- opening ---------------------------------------------------------------------------------------------- */

static void absent_file_needs_create(void **state)
{
    (void)state;
    struct store s;
    store_prepare(&s, KIND_LMDB);
    struct backend_lmdb *b = NULL;
    assert_int_equal(open_again(&s, false, &b), E_NOENT);
    assert_null(b);
    assert_non_null(strstr(s.em.text, s.path));
    struct disk_stat st;
    assert_int_equal(realdisk()->stat(NULL, s.path, &st), E_NOENT);
    store_deinit(&s);
}

static void second_opener_is_locked_out(void **state)
{
    (void)state;
    struct store s;
    store_init(&s, KIND_LMDB);
    struct backend_lmdb *b = NULL;
    assert_int_equal(open_again(&s, true, &b), E_LOCKED);
    assert_non_null(strstr(s.em.text, "in use"));
    put_text(&s, TABLE_META, "a", "1"); /* the first one is unharmed */
    expect_text(&s, TABLE_META, "a", "1");
    store_deinit(&s);
}

static void damaged_file_is_refused_unchanged(void **state)
{
    (void)state;
    struct store s;
    store_init(&s, KIND_LMDB);
    put_text(&s, TABLE_META, "a", "1");
    store_close(&s);
    struct disk_file *f = NULL;
    assert_int_equal(realdisk()->open(NULL, s.path, DISK_WRITE, 0, &f), 0);
    assert_int_equal(realdisk()->write(NULL, f, 16, bytes_str("????")), 0);
    struct backend_lmdb *b = NULL;
    assert_int_equal(open_again(&s, true, &b), E_CORRUPT);
    char got[4];
    size_t len;
    assert_int_equal(realdisk()->read(NULL, f, 16, got, sizeof got, &len), 0);
    assert_memory_equal(got, "????", 4);
    realdisk()->close(NULL, f);
    store_deinit(&s);
}

static int count_name(void *arg, const char *name)
{
    (void)name;
    ++*(int *)arg;
    return 0;
}

static void leftovers_of_a_cut_creation_are_removed(void **state)
{
    (void)state;
    struct store s;
    store_prepare(&s, KIND_LMDB);
    char left[sizeof s.path + 16];
    (void)snprintf(left, sizeof left, "%s.tmp.new", s.path);
    FILE *f = fopen(left, "wb");
    assert_non_null(f);
    (void)fputs("half a page", f);
    (void)fclose(f);
    assert_int_equal(store_open(&s), 0);
    int count = 0;
    assert_int_equal(realdisk()->list(NULL, s.folder, count_name, &count), 0);
    assert_int_equal(count, 2); /* db, db-lock */
    store_deinit(&s);
}

static void map_follows_the_quota(void **state)
{
    (void)state;
    assert_true(backend_map_bytes(0) == BACKEND_MAP_BYTES_MIN);
    assert_true(backend_map_bytes((uint64_t)2 << 30) == BACKEND_MAP_BYTES_MIN);
    assert_true(backend_map_bytes((uint64_t)100 << 30) == (uint64_t)800 << 30);
    assert_true(backend_map_bytes(UINT64_MAX) > (uint64_t)1 << 60);
}

static void open_in_heap(struct test_heap *h, void *arg)
{
    struct store *s = arg;
    struct backend_lmdb_opts o = {.alloc = &h->alloc,
                                  .disk = realdisk(),
                                  .path = s->path,
                                  .create = true,
                                  .map_bytes = s->map_bytes,
                                  .reader_count_max = 4};
    struct backend_lmdb *b = NULL;
    int rc = backend_lmdb_open(&o, &b, &s->em);
    assert_true(rc == 0 || rc == E_NOMEM);
    backend_lmdb_close(b);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct store s;
    store_prepare(&s, KIND_LMDB);
    assert_true(test_heap_every_failure(open_in_heap, &s) > 5);
    store_deinit(&s);
}

/* --- readers ---------------------------------------------------------------------------------------------- */

static void too_many_readers_are_turned_away(void **state)
{
    (void)state;
    struct store s;
    store_prepare(&s, KIND_LMDB);
    s.reader_count_max = 3;
    assert_int_equal(store_open(&s), 0);
    struct backend_read *r[3], *more = NULL;
    for (int i = 0; i < 3; i++)
        r[i] = read_begin(&s);
    assert_int_equal(s.face.read_begin(s.face.arg, &more, &s.em), E_BUSY);
    s.face.read_end(r[1]);
    r[1] = read_begin(&s);
    for (int i = 0; i < 3; i++)
        s.face.read_end(r[i]);
    store_deinit(&s);
}

static void cursor_without_memory(void **state)
{
    (void)state;
    struct store s;
    store_init(&s, KIND_LMDB);
    struct backend_read *r = read_begin(&s);
    struct backend_cursor *c = NULL;
    s.heap.fail_at = s.heap.allocation_count + 1;
    assert_int_equal(s.face.cursor_open(r, TABLE_KEY, &c), E_NOMEM);
    assert_int_equal(s.face.cursor_open(r, TABLE_KEY, &c), 0);
    s.face.cursor_close(c);
    s.face.read_end(r);
    store_deinit(&s);
}

/* --- a full map ------------------------------------------------------------------------------------------- */

/* Puts until it is refused; the number of rows that were committed, one per transaction. */
static uint64_t fill_up(struct store *s, uint64_t from)
{
    static uint8_t value[20000];
    uint8_t key[17];
    for (uint64_t i = from; i < from + 10000; i++) {
        struct backend_tx *tx = tx_begin(s);
        int rc =
            s->face.put(tx, TABLE_KEY, revision(key, i, 0), bytes_of(value, sizeof value), &s->em);
        if (rc == 0) {
            rc = s->face.commit(tx, &s->em);
        } else {
            s->face.abort(tx);
        }
        if (rc == E_NOSPACE) return i;
        if (rc != 0) fail_msg("%s", s->em.text);
    }
    fail_msg("the map is never full");
    return 0;
}

static void full_map_is_no_space_and_deletes_go_on(void **state)
{
    (void)state;
    struct store s;
    store_prepare(&s, KIND_LMDB);
    s.map_bytes = 1 << 20;
    assert_int_equal(store_open(&s), 0);
    uint64_t full_at = fill_up(&s, 1);
    assert_true(full_at > 20);
    uint8_t key[17];
    for (uint64_t i = 1; i < full_at; i++) { /* what was acknowledged is there */
        struct backend_read *r = read_begin(&s);
        struct bytes v;
        assert_int_equal(s.face.get(r, TABLE_KEY, revision(key, i, 0), &v), 0);
        s.face.read_end(r);
    }
    for (uint64_t i = 1; i < full_at / 2; i++) {
        struct backend_tx *tx = tx_begin(&s);
        tx_del(&s, tx, TABLE_KEY, revision(key, i, 0));
        tx_commit(&s, tx);
    }
    assert_true(fill_up(&s, full_at) > full_at);
    store_reopen(&s);
    store_deinit(&s);
}

/* --- threads ---------------------------------------------------------------------------------------------- */

enum { READER_THREADS = 3, THREAD_COMMITS = 200 };

struct threads {
    struct store *store;
    atomic_bool stop;
    atomic_uint reads;
};

/* Each commit writes one number to two tables; a reader must find the same in both, and never an older one. */
static void *read_pairs(void *arg)
{
    struct threads *t = arg;
    const struct backend *f = &t->store->face;
    uint64_t before = 0;
    while (!atomic_load(&t->stop)) {
        struct backend_read *r = NULL;
        if (f->read_begin(f->arg, &r, NULL) != 0) abort();
        struct bytes a, b;
        struct backend_cursor *c = NULL;
        if (f->cursor_open(r, TABLE_KEY, &c) != 0 || f->seek(c, BYTES_EMPTY, NULL, &a) != 0)
            abort();
        f->cursor_close(c);
        if (f->get(r, TABLE_META, bytes_str("n"), &b) != 0 || !bytes_eq(a, b)) abort();
        uint64_t now = endian_load_le64(a.data);
        if (now < before) abort();
        before = now;
        f->read_end(r);
        struct backend_size size;
        if (f->size(f->arg, &size) != 0 || size.in_use_bytes > size.total_bytes) abort();
        atomic_fetch_add(&t->reads, 1);
    }
    return NULL;
}

static void write_pair(struct store *s, uint64_t n)
{
    struct backend_tx *tx = tx_begin(s);
    uint8_t v[8];
    endian_store_le64(v, n);
    tx_put(s, tx, TABLE_KEY, bytes_str("n"), bytes_of(v, sizeof v));
    tx_put(s, tx, TABLE_META, bytes_str("n"), bytes_of(v, sizeof v));
    tx_commit(s, tx);
}

static void *thread_resize(void *arg, void *old, size_t old_bytes, size_t new_bytes)
{
    (void)arg;
    (void)old_bytes;
    if (new_bytes != 0) return realloc(old, new_bytes);
    free(old);
    return NULL;
}

static void readers_see_whole_commits(enum kind kind)
{
    struct store s;
    store_prepare(&s, kind);
    s.heap.alloc =
        (struct alloc){.resize = thread_resize}; /* the counting heap is for one thread */
    assert_int_equal(store_open(&s), 0);
    write_pair(&s, 0);
    struct threads t = {.store = &s};
    pthread_t thread[READER_THREADS];
    for (int i = 0; i < READER_THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, read_pairs, &t), 0);
    for (uint64_t n = 1; n <= THREAD_COMMITS || atomic_load(&t.reads) < 1000; n++)
        write_pair(&s, n);
    atomic_store(&t.stop, true);
    for (int i = 0; i < READER_THREADS; i++)
        (void)pthread_join(thread[i], NULL);
    store_deinit(&s);
}

static void lmdb_readers_see_whole_commits(void **state)
{
    (void)state;
    readers_see_whole_commits(KIND_LMDB);
}

static void memory_readers_see_whole_commits(void **state)
{
    (void)state;
    readers_see_whole_commits(KIND_MEMORY);
}

/* --- ballast ---------------------------------------------------------------------------------------------- */

static void ballast_holds_space_until_released(void **state)
{
    (void)state;
    char folder[REALDISK_PATH_BYTES_MAX], path[REALDISK_PATH_BYTES_MAX + 16];
    realdisk_folder("backend", folder);
    (void)snprintf(path, sizeof path, "%s/ballast", folder);
    struct errmsg em;
    struct disk_stat st;
    assert_int_equal(backend_ballast_create(realdisk(), path, 1 << 20, &em), 0);
    assert_int_equal(backend_ballast_create(realdisk(), path, 1 << 20, &em), 0);
    assert_int_equal(realdisk()->stat(NULL, path, &st), 0);
    assert_int_equal(st.size_bytes, 1 << 20);
    assert_int_equal(backend_ballast_create(realdisk(), path, 1 << 16, &em), 0);
    assert_int_equal(realdisk()->stat(NULL, path, &st), 0);
    assert_int_equal(st.size_bytes, 1 << 16);
    assert_int_equal(backend_ballast_release(realdisk(), path, &em), 0);
    assert_int_equal(realdisk()->stat(NULL, path, &st), E_NOENT);
    assert_int_equal(backend_ballast_release(realdisk(), path, &em), 0);
    realdisk_remove(folder);
}

static void ballast_on_a_full_disk_leaves_nothing(void **state)
{
    (void)state;
    char folder[REALDISK_PATH_BYTES_MAX], path[REALDISK_PATH_BYTES_MAX + 16];
    realdisk_folder("backend", folder);
    (void)snprintf(path, sizeof path, "%s/ballast", folder);
    struct errmsg em;
    struct disk_stat st;
    assert_true(backend_ballast_create(realdisk(), path, (uint64_t)1 << 50, &em) < 0);
    assert_int_equal(realdisk()->stat(NULL, path, &st), E_NOENT);
    realdisk_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_file_needs_create),
        cmocka_unit_test(second_opener_is_locked_out),
        cmocka_unit_test(damaged_file_is_refused_unchanged),
        cmocka_unit_test(leftovers_of_a_cut_creation_are_removed),
        cmocka_unit_test(map_follows_the_quota),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(too_many_readers_are_turned_away),
        cmocka_unit_test(cursor_without_memory),
        cmocka_unit_test(full_map_is_no_space_and_deletes_go_on),
        cmocka_unit_test(lmdb_readers_see_whole_commits),
        cmocka_unit_test(memory_readers_see_whole_commits),
        cmocka_unit_test(ballast_holds_space_until_released),
        cmocka_unit_test(ballast_on_a_full_disk_leaves_nothing),
    };
    return cmocka_run_group_tests_name("backend lmdb", tests, NULL, NULL);
}

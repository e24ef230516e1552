/* One writer, one backend thread, several readers at once: for the thread sanitizer, and for what only real threads
 * show. Every transaction sets all keys to one value, so any view must find them equal. */
#include <pthread.h>
#include <stdatomic.h>

#include "kit.h"

enum { READERS = 3, ENTRIES = 400, KEYS = 20 };

struct shared {
    struct kit k;
    pthread_rwlock_t lock;
    atomic_bool done;
    atomic_int wrong;
    atomic_int reads;
};

static void lock_read(void *arg)
{
    pthread_rwlock_rdlock(arg);
}

static void lock_write(void *arg)
{
    pthread_rwlock_wrlock(arg);
}

static void lock_done(void *arg)
{
    pthread_rwlock_unlock(arg);
}

static bool view_is_whole(struct mvcc_view *v)
{
    struct mvcc_range_opts o = {.key = ALL_KEYS, .end = ALL_KEYS};
    struct mvcc_range r;
    struct bytes stored;
    struct pb_kv kv, first = {0};
    int rc;
    mvcc_range_init(&r, v, &o);
    while ((rc = mvcc_range_step(&r, 7, NULL)) == 1) {}
    bool ok = rc == 0 && r.row_count == KEYS;
    for (size_t i = 0; ok && i < r.row_count; i++) {
        rc = mvcc_view_kv(v, mvcc_range_row(&r, i), &stored, NULL);
        ok = rc == 0 && pb_kv_decode(stored, &kv) == 0;
        if (i == 0) first = kv;
        ok = ok && bytes_eq(kv.value, first.value);
    }
    mvcc_range_deinit(&r);
    return ok;
}

static void *reader(void *arg)
{
    struct shared *s = arg;
    for (int i = 0; !atomic_load(&s->done); i++) {
        struct mvcc_view v;
        int64_t rev = i % 3 == 0 ? mvcc_revision(s->k.m) - 5 : 0;
        int rc = mvcc_view_open(s->k.m, rev < 2 ? 0 : rev, &v);
        if (rc == E_COMPACTED && rev > 0) continue;
        if (rc < 0) {
            atomic_fetch_add(&s->wrong, 1);
            continue;
        }
        if (i % 4 == 0) {
            mvcc_view_suspend(&v);
            if (mvcc_view_resume(&v) < 0) atomic_fetch_add(&s->wrong, 1);
        }
        if (!view_is_whole(&v)) atomic_fetch_add(&s->wrong, 1);
        mvcc_view_close(&v);
        atomic_fetch_add(&s->reads, 1);
    }
    return NULL;
}

static void *hasher(void *arg)
{
    struct shared *s = arg;
    while (!atomic_load(&s->done)) {
        struct mvcc_hash h;
        int rc = mvcc_hash_open(s->k.m, 0, &h);
        if (rc == 0) {
            while ((rc = mvcc_hash_step(&h, 100, NULL)) == 1) {}
            mvcc_hash_close(&h);
        }
        if (rc < 0) atomic_fetch_add(&s->wrong, 1);
    }
    return NULL;
}

/* The backend thread: stores the frozen run. */
static void *storer(void *arg)
{
    kit_store(arg, NULL);
    return NULL;
}

static void entry(struct shared *s, int n)
{
    char value[16];
    snprintf(value, sizeof value, "%d", n);
    mvcc_entry_begin(s->k.m);
    if (n % 5 == 4) kit_erase(&s->k, bytes_str("k"), bytes_str("l"));
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        kit_write(&s->k, key, value);
    }
    kit_seal(&s->k);
}

static void write_all(struct shared *s)
{
    for (int n = 1; n < ENTRIES; n++) {
        entry(s, n);
        if (n % 8 == 0 && mvcc_revision(s->k.m) > 12)
            kit_compact(&s->k, mvcc_revision(s->k.m) - 10);
        if (n % 4 != 0) continue;
        pthread_t t;
        kit_swap(&s->k);
        assert_int_equal(pthread_create(&t, NULL, storer, &s->k), 0);
        entry(s, n);
        pthread_join(t, NULL);
        kit_retire(&s->k);
        kit_work(&s->k);
    }
}

static void readers_beside_a_writer_see_whole_transactions(void **state)
{
    (void)state;
    struct shared *s = calloc(1, sizeof *s);
    pthread_rwlock_init(&s->lock, NULL);
    kit_prepare(&s->k);
    s->k.lock = (struct rwlock){lock_read, lock_done, lock_write, lock_done, &s->lock};
    kit_open(&s->k);
    entry(s, 0);
    pthread_t threads[READERS + 1];
    for (int i = 0; i <= READERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, i < READERS ? reader : hasher, s), 0);
    }
    write_all(s);
    atomic_store(&s->done, true);
    for (int i = 0; i <= READERS; i++) {
        pthread_join(threads[i], NULL);
    }
    print_message("%d reads beside %d entries\n", atomic_load(&s->reads), ENTRIES);
    assert_int_equal(atomic_load(&s->wrong), 0);
    kit_deinit(&s->k);
    pthread_rwlock_destroy(&s->lock);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_beside_a_writer_see_whole_transactions)};
    return cmocka_run_group_tests_name("mvcc threads", tests, NULL, NULL);
}

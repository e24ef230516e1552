/* The index with thousands of keys that come and go: leaves and branches split, share, merge and vanish, and after each
 * round the keys, their order and the counts are those of a plain array. */
#include "kit.h"

enum { KEYS = 6000, ROUNDS = 60 };

struct world {
    struct kit k;
    bool now[KEYS];
    bool before[KEYS]; /* at revision `old` */
    int64_t old;
    uint64_t rand;
};

static uint64_t draw(struct world *w, uint64_t below)
{
    w->rand ^= w->rand << 13;
    w->rand ^= w->rand >> 7;
    w->rand ^= w->rand << 17;
    return (w->rand >> 11) % below;
}

static const char *key_of(int i, char out[16])
{
    snprintf(out, 16, "key%06d", i);
    return out;
}

/* Keys from `from` on, in order, and how many; once with rows and once without. */
static void check(struct world *w, int64_t rev, const bool *has, int from)
{
    struct mvcc_view v;
    struct mvcc_range r;
    char key[16];
    assert_int_equal(mvcc_view_open(w->k.m, rev, &v), 0);
    struct mvcc_range_opts o = {.key = bytes_str(key_of(from, key)), .end = ALL_KEYS};
    mvcc_range_init(&r, &v, &o);
    kit_range_run(&w->k, &r, 100);
    size_t n = 0;
    for (int i = from; i < KEYS; i++) {
        char name[16];
        struct mvcc_row one;
        if (!has[i]) continue;
        assert_true(n < r.row_count);
        assert_int_equal(mvcc_view_get(&v, bytes_str(key_of(i, name)), &one), 0);
        assert_int_equal(mvcc_range_row(&r, n)->mod, one.mod);
        assert_int_equal(mvcc_range_row(&r, n)->sub, one.sub);
        n++;
    }
    assert_int_equal(n, r.row_count);
    mvcc_range_deinit(&r);
    o.limit = 3;
    o.count_only = draw(w, 2) == 0;
    mvcc_range_init(&r, &v, &o);
    kit_range_run(&w->k, &r, 100);
    assert_int_equal(n, r.count);
    mvcc_range_deinit(&r);
    mvcc_view_close(&v);
}

/* `share` of 100 draws puts; the others delete stretches. */
static void change(struct world *w, uint64_t share)
{
    char key[16], end[16];
    mvcc_entry_begin(w->k.m);
    for (int i = 0; i < 500; i++) {
        int at = (int)draw(w, KEYS);
        if (draw(w, 100) < share) {
            kit_write(&w->k, key_of(at, key), "v");
            w->now[at] = true;
            continue;
        }
        int to = at + (int)draw(w, 60);
        if (to > KEYS) to = KEYS;
        kit_erase(&w->k, bytes_str(key_of(at, key)), bytes_str(key_of(to, end)));
        for (; at < to; at++) {
            w->now[at] = false;
        }
    }
    kit_seal(&w->k);
}

static void compact(struct world *w)
{
    kit_put(&w->k, "key", "below all others"); /* so that deletions are below the mark */
    assert_int_equal(kit_compact(&w->k, mvcc_revision(w->k.m)), 0);
    kit_commit(&w->k);
    assert_true(kit_work(&w->k));
    w->old = mvcc_revision(w->k.m);
    memcpy(w->before, w->now, sizeof w->now);
    size_t live = 1;
    for (int i = 0; i < KEYS; i++) {
        live += w->now[i];
    }
    assert_int_equal(mvcc_key_count(w->k.m), live);
}

/* To the last leaf, and to an empty tree. */
static void erase_all(struct world *w)
{
    char key[16];
    mvcc_entry_begin(w->k.m);
    kit_erase(&w->k, bytes_str(key_of(0, key)), ALL_KEYS);
    kit_seal(&w->k);
    memset(w->now, 0, sizeof w->now);
    compact(w);
    check(w, 0, w->now, 0);
    kit_del(&w->k, "key");
    mvcc_entry_begin(w->k.m);
    kit_seal(&w->k);
    kit_compact(&w->k, mvcc_revision(w->k.m));
    kit_commit(&w->k);
    assert_true(kit_work(&w->k));
    assert_int_equal(mvcc_key_count(w->k.m), 1); /* a deletion at the mark stays */
    kit_put(&w->k, "zzz", "");
    kit_del(&w->k, "zzz");
    kit_compact(&w->k, mvcc_revision(w->k.m) - 1);
    kit_commit(&w->k);
    assert_true(kit_work(&w->k));
    kit_put(&w->k, "zzz", "1");
    assert_int_equal(mvcc_key_count(w->k.m), 1);
}

static void keys_come_and_go(void **state)
{
    (void)state;
    struct world *w = calloc(1, sizeof *w);
    kit_init(&w->k);
    w->rand = 88172645463325252u;
    w->old = 1;
    for (int round = 0; round < ROUNDS; round++) {
        change(w, round % 20 < 12 ? 98 : 20); /* grows, then shrinks */
        if (round % 3 == 0) compact(w);
        int from = (int)draw(w, KEYS);
        check(w, 0, w->now, from);
        check(w, w->old, w->before, from);
        if (round % 10 == 9) kit_commit(&w->k);
        if (round % 10 == 9) kit_crash(&w->k);
    }
    erase_all(w);
    kit_deinit(&w->k);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys_come_and_go)};
    return cmocka_run_group_tests_name("mvcc tree", tests, NULL, NULL);
}

/* The index against looking at every watcher. */
#include "../mvcc/kit.h"

#include "base/prng.h"
#include "watch/watch_int.h"

enum { COUNT = 200, ROUNDS = 20000 };

struct one {
    struct watch_watcher w; /* first */
    char key[4], end[4];
    bool in;
};

static bool covers(const struct watch_watcher *w, struct bytes key)
{
    if (w->end.len == 0) return bytes_eq(w->key, key);
    bool from = w->end.len == 1 && w->end.data[0] == 0;
    return bytes_cmp(w->key, key) <= 0 && (from || bytes_cmp(key, w->end) < 0);
}

static void name(struct prng *p, struct one *o)
{
    uint64_t from = prng_below(p, 90);
    o->w = (struct watch_watcher){.start = 0};
    snprintf(o->key, sizeof o->key, "%02d", (int)from);
    snprintf(o->end, sizeof o->end, "%02d", (int)(from + 1 + prng_below(p, 9)));
    o->w.key = bytes_str(o->key);
    uint64_t kind = prng_below(p, 4);
    o->w.end = kind == 0 ? BYTES_EMPTY : kind == 1 ? ALL_KEYS : bytes_str(o->end);
}

/* Counts those that cover the key, each once, and nobody else. */
static void check(const struct watch_index *ix, const struct one *all, const char *text)
{
    struct bytes key = bytes_str(text);
    struct watch__cover c;
    size_t want = 0;
    size_t got = 0;
    for (size_t i = 0; i < COUNT; i++)
        want += all[i].in && covers(&all[i].w, key);
    struct watch_watcher *first = watch__cover_first(ix, key, &c);
    for (; first != NULL; first = watch__cover_next(ix, &c)) {
        for (const struct watch_watcher *w = first; w != NULL; w = w->same_next) {
            assert_true(covers(w, key));
            got++;
        }
    }
    assert_int_equal(got, want);
}

static void test_random(void **state)
{
    static struct one all[COUNT];
    struct kit k = {.alloc = {.resize = plain_resize}};
    struct watch_index ix;
    struct prng p;
    (void)state;
    prng_init(&p, 11);
    watch__index_init(&ix, &k.alloc, 3);
    for (int i = 0; i < ROUNDS; i++) {
        struct one *o = &all[prng_below(&p, COUNT)];
        char key[4];
        if (o->in) {
            watch__index_remove(&ix, &o->w);
        } else {
            name(&p, o);
            assert_int_equal(watch__index_add(&ix, &o->w), 0);
        }
        o->in = !o->in;
        snprintf(key, sizeof key, "%02d", (int)prng_below(&p, 99));
        check(&ix, all, key);
    }
    for (size_t i = 0; i < COUNT; i++) {
        if (all[i].in) watch__index_remove(&ix, &all[i].w);
    }
    watch__index_deinit(&ix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
    return cmocka_run_group_tests_name("watch index", tests, NULL, NULL);
}

/* What only the in-memory store promises: its crash model and its faults. */
#include "fixture.h"

static void crash_keeps_what_was_committed(void **state)
{
    struct store *s = *state;
    put_text(s, TABLE_META, "a", "1");
    put_text(s, TABLE_META, "a", "2");
    backend_memory_crash(s->memory, BACKEND_CRASH_KEEP);
    expect_text(s, TABLE_META, "a", "2");
    assert_int_equal(backend_memory_commit_count(s->memory), 2);
}

static void crash_in_commit_may_lose_the_last(void **state)
{
    struct store *s = *state;
    put_text(s, TABLE_META, "a", "1");
    put_text(s, TABLE_META, "a", "2");
    backend_memory_crash(s->memory, BACKEND_CRASH_LOSE);
    expect_text(s, TABLE_META, "a", "1");
    assert_int_equal(backend_memory_commit_count(s->memory), 1);
    backend_memory_crash(s->memory, BACKEND_CRASH_LOSE); /* what a restart found stays */
    expect_text(s, TABLE_META, "a", "1");
    put_text(s, TABLE_META, "a", "3");
    expect_text(s, TABLE_META, "a", "3");
}

static void crash_ends_the_open_transaction(void **state)
{
    struct store *s = *state;
    put_text(s, TABLE_META, "a", "1");
    struct backend_tx *tx = tx_begin(s);
    tx_put(s, tx, TABLE_META, bytes_str("a"), bytes_str("2"));
    backend_memory_crash(s->memory, BACKEND_CRASH_KEEP);
    expect_text(s, TABLE_META, "a", "1");
    put_text(s, TABLE_META, "a", "3"); /* a new one may begin */
}

static void reader_outlives_a_crash(void **state)
{
    struct store *s = *state;
    put_text(s, TABLE_META, "a", "1");
    put_text(s, TABLE_META, "a", "2");
    struct backend_read *r = read_begin(s);
    backend_memory_crash(s->memory, BACKEND_CRASH_LOSE);
    expect_row(s, r, TABLE_META, bytes_str("a"), bytes_str("2"));
    s->face.read_end(r);
}

struct fault {
    enum backend_memory_op op;
    int rc;
};

static int strike(void *arg, enum backend_memory_op op)
{
    const struct fault *f = arg;
    return f->op == op ? f->rc : 0;
}

static void failed_commit_changes_nothing(void **state)
{
    struct store *s = *state;
    put_text(s, TABLE_META, "a", "1");
    struct fault f = {BACKEND_MEMORY_COMMIT, E_NOSPACE};
    backend_memory_set_fault(s->memory, strike, &f);
    struct backend_tx *tx = tx_begin(s);
    tx_put(s, tx, TABLE_META, bytes_str("a"), bytes_str("2"));
    assert_int_equal(s->face.commit(tx, &s->em), E_NOSPACE);
    expect_text(s, TABLE_META, "a", "1");
    backend_memory_set_fault(s->memory, NULL, NULL);
    put_text(s, TABLE_META, "a", "2");
    expect_text(s, TABLE_META, "a", "2");
}

static void failed_put_can_only_be_aborted(void **state)
{
    struct store *s = *state;
    struct fault f = {BACKEND_MEMORY_PUT, E_IO};
    backend_memory_set_fault(s->memory, strike, &f);
    struct backend_tx *tx = tx_begin(s);
    assert_int_equal(s->face.put(tx, TABLE_META, bytes_str("a"), BYTES_EMPTY, &s->em), E_IO);
    s->face.abort(tx);
    expect_none(s, TABLE_META, bytes_str("a"));
}

static void full_store_refuses_puts_but_not_deletes(void **state)
{
    struct store *s = *state;
    put_text(s, TABLE_META, "a", "0123456789");
    put_text(s, TABLE_META, "b", "0123456789");
    backend_memory_set_bytes_max(s->memory, 60);
    struct backend_tx *tx = tx_begin(s);
    assert_int_equal(s->face.put(tx, TABLE_META, bytes_str("c"), bytes_str("0123456789"), &s->em),
                     E_NOSPACE);
    s->face.abort(tx);
    put_text(s, TABLE_META, "a", "9876543210"); /* no larger than before */
    tx = tx_begin(s);
    tx_del(s, tx, TABLE_META, bytes_str("b"));
    tx_put(s, tx, TABLE_META, bytes_str("c"), bytes_str("0123456789"));
    tx_commit(s, tx);
}

/* --- memory ------------------------------------------------------------------------------------------------- */

/* One transaction that splits leaves and removes some; the old state must be whole when it fails. */
static int change_much(struct store *s, struct backend_tx *tx)
{
    uint8_t key[17];
    for (uint64_t i = 0; i < 200; i++) {
        int rc = s->face.put(tx, TABLE_KEY, revision(key, i * 37 % 200, 0), bytes_str("v"), &s->em);
        if (rc == 0 && i % 3 == 0) rc = s->face.del(tx, TABLE_KEY, revision(key, i, 0), &s->em);
        if (rc < 0) return rc;
    }
    return 0;
}

static void run_in_heap(struct test_heap *h, void *arg)
{
    (void)arg;
    struct store s = {.kind = KIND_MEMORY};
    s.memory = backend_memory_new(&h->alloc);
    if (s.memory == NULL) return;
    s.face = backend_memory_face(s.memory);
    struct backend_tx *tx = tx_begin(&s);
    int rc = change_much(&s, tx);
    if (rc == 0) {
        rc = s.face.commit(tx, &s.em);
    } else {
        s.face.abort(tx);
    }
    assert_true(rc == 0 || rc == E_NOMEM);
    assert_int_equal(backend_memory_commit_count(s.memory), rc == 0);
    struct backend_read *r = NULL;
    struct backend_cursor *c = NULL;
    if (s.face.read_begin(s.face.arg, &r, &s.em) == 0) {
        if (s.face.cursor_open(r, TABLE_KEY, &c) == 0) {
            assert_int_equal(s.face.seek(c, BYTES_EMPTY, NULL, NULL), rc == 0 ? 0 : E_NOTFOUND);
            s.face.cursor_close(c);
        }
        s.face.read_end(r);
    }
    backend_memory_free(s.memory);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(test_heap_every_failure(run_in_heap, NULL) > 200);
}

static struct store shared_store;

static int setup(void **state)
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

#define WITH_STORE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(crash_keeps_what_was_committed),
        WITH_STORE(crash_in_commit_may_lose_the_last),
        WITH_STORE(crash_ends_the_open_transaction),
        WITH_STORE(reader_outlives_a_crash),
        WITH_STORE(failed_commit_changes_nothing),
        WITH_STORE(failed_put_can_only_be_aborted),
        WITH_STORE(full_store_refuses_puts_but_not_deletes),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("backend memory", tests, NULL, NULL);
}

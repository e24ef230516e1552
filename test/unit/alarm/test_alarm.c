/* The alarm table: what is up, how it changes, what a store remembers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alarm/alarm.h"
#include "assert_failed.h"
#include "base/err.h"
#include "fake_backend.h"
#include "test_heap.h"

struct fixture {
    struct test_heap heap;
    struct fake_backend store;
    struct alarms *now;
};

static int set_up(void **state)
{
    static struct fixture f;
    test_heap_init(&f.heap);
    fake_backend_init(&f.store);
    assert_int_equal(0, alarm_new(&f.heap.alloc, &f.now));
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    alarm_unref(f->now);
    fake_backend_deinit(&f->store);
    test_heap_check_empty(&f->heap);
    return 0;
}

/* Takes the next version in place of the present one; returns whether it differs. */
static bool raise_alarm(struct fixture *f, uint64_t member_id, int32_t type)
{
    struct alarm_change c;
    assert_int_equal(0, alarm_raise(f->now, (struct pb_alarm){member_id, type}, &c));
    assert_false(c.del);
    alarm_unref(f->now);
    f->now = c.next;
    return c.changed;
}

static bool clear_alarm(struct fixture *f, uint64_t member_id, int32_t type)
{
    struct alarm_change c;
    assert_int_equal(0, alarm_clear(f->now, (struct pb_alarm){member_id, type}, &c));
    assert_int_equal(c.changed, c.del);
    alarm_unref(f->now);
    f->now = c.next;
    return c.changed;
}

static void test_nothing_is_up_at_first(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(0, alarm_count(f->now));
    assert_false(alarm_has(f->now, ALARM_NOSPACE));
    assert_false(alarm_has(f->now, ALARM_NONE));
    assert_false(clear_alarm(f, 1, ALARM_NOSPACE));
}

static void test_an_alarm_is_raised_once(void **state)
{
    struct fixture *f = *state;
    assert_true(raise_alarm(f, 1, ALARM_NOSPACE));
    assert_false(raise_alarm(f, 1, ALARM_NOSPACE));
    assert_int_equal(1, alarm_count(f->now));
    assert_true(alarm_has(f->now, ALARM_NOSPACE));
    assert_false(alarm_has(f->now, ALARM_CORRUPT));
}

static void test_one_of_two_members_keeps_it_up(void **state)
{
    struct fixture *f = *state;
    assert_true(raise_alarm(f, 1, ALARM_NOSPACE));
    assert_true(raise_alarm(f, 2, ALARM_NOSPACE));
    assert_true(clear_alarm(f, 1, ALARM_NOSPACE));
    assert_true(alarm_has(f->now, ALARM_NOSPACE));
    assert_true(clear_alarm(f, 2, ALARM_NOSPACE));
    assert_false(alarm_has(f->now, ALARM_NOSPACE));
    assert_int_equal(0, alarm_count(f->now));
}

static void test_the_list_goes_by_type_then_member(void **state)
{
    struct fixture *f = *state;
    assert_true(raise_alarm(f, 9, ALARM_CORRUPT));
    assert_true(raise_alarm(f, UINT64_MAX, ALARM_NOSPACE));
    assert_true(raise_alarm(f, 3, 77)); /* a type of the future */
    assert_true(raise_alarm(f, 0, ALARM_NOSPACE));
    const struct pb_alarm want[] = {
        {0, ALARM_NOSPACE}, {UINT64_MAX, ALARM_NOSPACE}, {9, ALARM_CORRUPT}, {3, 77}};
    assert_int_equal(4, alarm_count(f->now));
    for (size_t i = 0; i < 4; i++) {
        struct pb_alarm seen = alarm_at(f->now, i);
        assert_true(seen.member_id == want[i].member_id && seen.type == want[i].type);
        assert_true(alarm_find(f->now, seen));
    }
    assert_false(alarm_find(f->now, (struct pb_alarm){3, ALARM_NOSPACE}));
}

static void test_a_version_never_changes(void **state)
{
    struct fixture *f = *state;
    assert_true(raise_alarm(f, 1, ALARM_NOSPACE));
    struct alarms *old = alarm_ref(f->now);
    assert_true(raise_alarm(f, 2, ALARM_CORRUPT));
    assert_true(clear_alarm(f, 1, ALARM_NOSPACE));
    assert_int_equal(1, alarm_count(old));
    assert_true(alarm_has(old, ALARM_NOSPACE));
    assert_false(alarm_has(old, ALARM_CORRUPT));
    alarm_unref(old);
}

static void test_the_row_is_the_message(void **state)
{
    struct fixture *f = *state;
    struct alarm_change c;
    assert_int_equal(0, alarm_raise(f->now, (struct pb_alarm){300, ALARM_CORRUPT}, &c));
    const uint8_t want[] = {0x08, 0xac, 0x02, 0x10, 0x02};
    assert_int_equal(sizeof want, c.key_len);
    assert_memory_equal(want, c.key_data, sizeof want);
    alarm_unref(c.next);
}

static void load(struct fixture *f, int want_rc, struct alarms **out)
{
    struct backend_read *read = NULL;
    struct errmsg em = {{0}};
    const struct backend *be = &f->store.face;
    assert_int_equal(0, be->read_begin(be->arg, &read, &em));
    assert_int_equal(want_rc, alarm_load(&f->heap.alloc, be, read, out, &em));
    if (want_rc == E_CORRUPT) assert_string_equal("row 1 of table alarm is corrupt", em.text);
    be->read_end(read);
}

static void test_a_store_gives_back_what_was_raised(void **state)
{
    struct fixture *f = *state;
    const struct pb_alarm alarms[] = {{5, ALARM_CORRUPT}, {7, ALARM_NOSPACE}, {5, ALARM_NOSPACE}};
    for (size_t i = 0; i < 3; i++) {
        struct alarm_change c;
        assert_int_equal(0, alarm_raise(f->now, alarms[i], &c));
        fake_backend_set(&f->store, TABLE_ALARM, bytes_of(c.key_data, c.key_len), BYTES_EMPTY);
        alarm_unref(f->now);
        f->now = c.next;
    }
    struct alarms *loaded = NULL;
    load(f, 0, &loaded);
    assert_int_equal(3, alarm_count(loaded));
    for (size_t i = 0; i < 3; i++) {
        struct pb_alarm a = alarm_at(f->now, i);
        struct pb_alarm b = alarm_at(loaded, i);
        assert_true(a.member_id == b.member_id && a.type == b.type);
    }
    alarm_unref(loaded);
}

static void test_an_empty_store_has_none(void **state)
{
    struct fixture *f = *state;
    struct alarms *loaded = NULL;
    load(f, 0, &loaded);
    assert_int_equal(0, alarm_count(loaded));
    alarm_unref(loaded);
}

static void test_a_corrupt_row_is_named(void **state)
{
    struct fixture *f = *state;
    fake_backend_set(&f->store, TABLE_ALARM, bytes_of("\x08\x01", 2), BYTES_EMPTY);
    fake_backend_set(&f->store, TABLE_ALARM, bytes_of("\x08\xff", 2), BYTES_EMPTY);
    struct alarms *loaded = NULL;
    load(f, E_CORRUPT, &loaded);
    assert_null(loaded);
}

static void raise_and_clear(struct test_heap *h, void *arg)
{
    (void)arg;
    struct alarms *a = NULL;
    struct alarm_change up = {0};
    struct alarm_change down = {0};
    int rc = alarm_new(&h->alloc, &a);
    if (rc == 0) rc = alarm_raise(a, (struct pb_alarm){1, ALARM_NOSPACE}, &up);
    if (rc == 0) rc = alarm_clear(up.next, (struct pb_alarm){1, ALARM_NOSPACE}, &down);
    assert_int_equal(h->failure_count > 0 ? E_NOMEM : 0, rc);
    alarm_unref(a);
    alarm_unref(up.next);
    alarm_unref(down.next);
}

static void load_again(struct test_heap *h, void *arg)
{
    struct fixture *f = arg;
    const struct backend *be = &f->store.face;
    struct backend_read *read = NULL;
    struct alarms *a = NULL;
    assert_int_equal(0, be->read_begin(be->arg, &read, NULL));
    int rc = alarm_load(&h->alloc, be, read, &a, NULL);
    assert_int_equal(h->failure_count > 0 ? E_NOMEM : 0, rc);
    be->read_end(read);
    alarm_unref(a);
}

static void test_every_failing_allocation_is_an_answer(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(4, test_heap_every_failure(raise_and_clear, NULL));
    fake_backend_set(&f->store, TABLE_ALARM, bytes_of("\x08\x01\x10\x01", 4), BYTES_EMPTY);
    assert_int_equal(2, test_heap_every_failure(load_again, f));
}

static void test_misuse_is_caught(void **state)
{
    struct fixture *f = *state;
    struct alarm_change c;
    EXPECT_ASSERT((void)alarm_at(f->now, 0));
    EXPECT_ASSERT((void)alarm_raise(f->now, (struct pb_alarm){1, ALARM_NONE}, &c));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_nothing_is_up_at_first),
        CASE(test_an_alarm_is_raised_once),
        CASE(test_one_of_two_members_keeps_it_up),
        CASE(test_the_list_goes_by_type_then_member),
        CASE(test_a_version_never_changes),
        CASE(test_the_row_is_the_message),
        CASE(test_a_store_gives_back_what_was_raised),
        CASE(test_an_empty_store_has_none),
        CASE(test_a_corrupt_row_is_named),
        CASE(test_every_failing_allocation_is_an_answer),
        CASE(test_misuse_is_caught),
    };
    return cmocka_run_group_tests_name("alarm", tests, NULL, NULL);
}

/* The conf state as JSON, and rows of upstream's data dirs read and written again. */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/text.h"
#include "membership/membership.h"
#include "shared.h"
#include "test_heap.h"

struct fixture {
    struct test_heap heap;
    struct buf out;
    struct buf raw;
    struct arena arena;
    size_t compared;
};

static int set_up(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof f);
    test_heap_init(&f.heap);
    buf_init(&f.out, &f.heap.alloc, 1 << 20);
    buf_init(&f.raw, &f.heap.alloc, 1 << 20);
    arena_init(&f.arena, &f.heap.alloc, 1 << 24);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    buf_deinit(&f->out);
    buf_deinit(&f->raw);
    arena_deinit(&f->arena);
    test_heap_check_empty(&f->heap);
    return 0;
}

static void check_put(struct fixture *f, const struct pb_conf_state *cs, const char *want)
{
    buf_reset(&f->out);
    assert_int_equal(0, membership_conf_state_put(cs, &f->out));
    assert_int_equal(0, buf_put_u8(&f->out, 0));
    assert_string_equal(want, (const char *)f->out.data);
}

static void test_empty_lists_are_left_out(void **state)
{
    struct fixture *f = *state;
    const uint64_t ids[] = {1, UINT64_MAX};
    struct pb_conf_state cs = {.voters = {ids, 2}};
    check_put(f, &cs, "{\"voters\":[1,18446744073709551615],\"auto_leave\":false}");
    cs.learners = (struct pb_ids){ids, 1};
    cs.voters_outgoing = (struct pb_ids){ids, 1};
    cs.learners_next = (struct pb_ids){ids, 2};
    cs.auto_leave = true;
    check_put(f, &cs,
              "{\"voters\":[1,18446744073709551615],\"learners\":[1],\"voters_outgoing\":[1],"
              "\"learners_next\":[1,18446744073709551615],\"auto_leave\":true}");
}

static void test_auto_leave_may_be_absent(void **state)
{
    struct fixture *f = *state;
    const uint64_t ids[] = {1};
    struct pb_conf_state cs = {.voters = {ids, 1}, .auto_leave_unset = true};
    check_put(f, &cs, "{\"voters\":[1]}");
    check_put(f, &(struct pb_conf_state){.auto_leave_unset = true}, "{}");
}

static void test_what_was_written_is_read(void **state)
{
    struct fixture *f = *state;
    const char *const texts[] = {
        "{}",
        "{\"auto_leave\":true}",
        "{\"voters\":[1,18446744073709551615],\"learners\":[7],\"auto_leave\":false}",
        "{\"voters_outgoing\":[3],\"learners_next\":[4,5],\"auto_leave\":false}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct pb_conf_state cs;
        assert_int_equal(0, membership_conf_state_decode(bytes_str(texts[i]), &f->arena, &cs));
        check_put(f, &cs, texts[i]);
    }
}

static void test_what_is_no_conf_state_is_corrupt(void **state)
{
    struct fixture *f = *state;
    const char *const bad[] = {"",
                               "[]",
                               "{\"voters\":1}",
                               "{\"voters\":[\"1\"]}",
                               "{\"voters\":[-1]}",
                               "{\"voters\":[1}",
                               "{\"auto_leave\":1}",
                               "{}{}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pb_conf_state cs = {.voters = {NULL, 77}};
        assert_int_equal(E_CORRUPT,
                         membership_conf_state_decode(bytes_str(bad[i]), &f->arena, &cs));
        assert_int_equal(77, cs.voters.count);
    }
}

static void test_unknown_names_and_nulls_are_passed_over(void **state)
{
    struct fixture *f = *state;
    struct pb_conf_state cs;
    struct bytes in =
        bytes_str("{\"x\":{\"voters\":[9]},\"voters\":null,\"auto_leave\":null,\"LEARNERS\":[2]}");
    assert_int_equal(0, membership_conf_state_decode(in, &f->arena, &cs));
    assert_int_equal(0, cs.voters.count);
    assert_int_equal(1, cs.learners.count);
    assert_true(cs.auto_leave_unset);
}

static void decode_once(struct test_heap *h, void *arg)
{
    struct arena arena;
    struct pb_conf_state cs;
    arena_init(&arena, &h->alloc, 1 << 20);
    int rc = membership_conf_state_decode(bytes_str(arg), &arena, &cs);
    assert_int_equal(h->failure_count > 0 ? E_NOMEM : 0, rc);
    arena_deinit(&arena);
}

static void test_every_failing_allocation_is_an_answer(void **state)
{
    (void)state;
    char text[] = "{\"voters\":[1,2],\"auto_leave\":false}";
    assert_int_equal(2, test_heap_every_failure(decode_once, text));
}

/* ---- rows of upstream: table, key, bytes of the value, value ------------------------------------------ */

static void check_same(struct fixture *f, const char *line)
{
    if (!bytes_eq(buf_bytes(&f->raw), buf_bytes(&f->out))) fail_msg("other bytes for %s", line);
    f->compared++;
}

static void check_golden_row(struct fixture *f, const char *table, const char *key,
                             const char *value)
{
    buf_reset(&f->raw);
    buf_reset(&f->out);
    arena_reset(&f->arena);
    if (strcmp(table, "members") == 0) {
        struct member_context c = {0};
        assert_int_equal(0, text_get_hex(&f->raw, bytes_str(value)));
        assert_int_equal(0, member_decode(buf_bytes(&f->raw), &f->arena, &c, NULL));
        assert_int_equal(0, member_put_json(&c.member, &f->out));
        check_same(f, value);
        char id[MEMBER_ID_TEXT_BYTES];
        buf_reset(&f->raw);
        buf_reset(&f->out);
        assert_int_equal(0, text_get_hex(&f->raw, bytes_str(key)));
        assert_int_equal(0, buf_put(&f->out, id, member_id_text(c.member.id, id)));
        check_same(f, key);
    } else if (strcmp(table, "meta") == 0 && strcmp(key, "636f6e665374617465") == 0) {
        struct pb_conf_state cs;
        assert_int_equal(0, text_get_hex(&f->raw, bytes_str(value)));
        assert_int_equal(0, membership_conf_state_decode(buf_bytes(&f->raw), &f->arena, &cs));
        assert_int_equal(0, membership_conf_state_put(&cs, &f->out));
        check_same(f, value);
    }
}

static void check_golden_file(struct fixture *f, const char *path)
{
    size_t len = 0;
    char *text = shared_read(path, &len);
    assert_non_null(text);
    for (char *rest = text; rest != NULL && *rest != 0;) {
        char *line = strsep(&rest, "\n");
        const char *table = strsep(&line, "\t");
        const char *key = strsep(&line, "\t");
        (void)strsep(&line, "\t");
        if (line != NULL) check_golden_row(f, table, key, line);
    }
    free(text);
}

static void test_upstreams_rows_come_out_as_they_went_in(void **state)
{
    struct fixture *f = *state;
    char path[SHARED_PATH_BYTES_MAX];
    SHARED_OR_SKIP("golden/datadir/v37-basic/db.tsv", path);
    const char *const patterns[] = {"golden/datadir/v3*/db.tsv", "golden/datadir/v3*/*/db.tsv"};
    for (size_t p = 0; p < 2; p++) {
        glob_t found;
        const char *root = getenv("SHARED");
        snprintf(path, sizeof path, "%s/%s", root == NULL ? "../shared" : root, patterns[p]);
        if (glob(path, 0, NULL, &found) != 0) continue;
        for (size_t i = 0; i < found.gl_pathc; i++) {
            check_golden_file(f, found.gl_pathv[i]);
        }
        globfree(&found);
    }
    assert_true(f->compared > 50);
    print_message("compared %zu keys and values\n", f->compared);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_empty_lists_are_left_out),
        CASE(test_auto_leave_may_be_absent),
        CASE(test_what_was_written_is_read),
        CASE(test_what_is_no_conf_state_is_corrupt),
        CASE(test_unknown_names_and_nulls_are_passed_over),
        CASE(test_every_failing_allocation_is_an_answer),
        CASE(test_upstreams_rows_come_out_as_they_went_in),
    };
    return cmocka_run_group_tests_name("membership: conf state", tests, NULL, NULL);
}

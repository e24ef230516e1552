/* The member table: what committed changes do to it, what they are refused for, what a store remembers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "assert_failed.h"
#include "base/err.h"
#include "fake_backend.h"
#include "membership/membership.h"
#include "test_heap.h"

/* Three members: 1 and 2 are voters that have started, 3 is a learner; 9 was removed. */
static const struct bytes url_1 = {(const uint8_t *)"http://h1:2380", 14};
static const struct bytes url_2 = {(const uint8_t *)"http://h2:2380", 14};
static const struct bytes url_3 = {(const uint8_t *)"http://h3:2380", 14};

struct fixture {
    struct test_heap heap;
    struct fake_backend store;
    struct membership *now;
    struct membership_change c; /* the last change; its version is `now` */
    struct errmsg em;
};

static struct membership *make_three(const struct alloc *alloc)
{
    const struct member members[] = {
        {.id = 3, .peer_urls = &url_3, .peer_url_count = 1, .is_learner = true},
        {.id = 1, .name = bytes_str("m1"), .peer_urls = &url_1, .peer_url_count = 1},
        {.id = 2, .name = bytes_str("m2"), .peer_urls = &url_2, .peer_url_count = 1},
    };
    const uint64_t removed[] = {9};
    const struct membership_content content = {.members = members,
                                               .member_count = 3,
                                               .removed = removed,
                                               .removed_count = 1,
                                               .version = bytes_str("3.7.0")};
    struct membership *m = NULL;
    assert_int_equal(0, membership_new(alloc, &content, &m));
    return m;
}

static int set_up(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof f);
    test_heap_init(&f.heap);
    fake_backend_init(&f.store);
    f.now = make_three(&f.heap.alloc);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    membership_unref(f->now);
    fake_backend_deinit(&f->store);
    test_heap_check_empty(&f->heap);
    return 0;
}

/* Makes the version of the last change the present one. */
static void install(struct fixture *f)
{
    membership_unref(f->now);
    f->now = f->c.next;
}

static int try_change(struct fixture *f, int32_t type, uint64_t id, const char *context)
{
    struct pb_conf_change cc = {.type = type, .node_id = id, .context = bytes_str(context)};
    return membership_conf_change(f->now, &cc, MEMBERSHIP_LEARNERS_MAX_DEFAULT, &f->c, &f->em);
}

static void change(struct fixture *f, int32_t type, uint64_t id, const char *context)
{
    int rc = try_change(f, type, id, context);
    if (rc < 0) fail_msg("%s: %s", err_symbol(rc), f->em.text);
    install(f);
}

static void check_row(const struct fixture *f, size_t i, enum table table, const char *key,
                      const char *value)
{
    assert_true(i < f->c.row_count);
    const struct membership_row *row = &f->c.rows[i];
    assert_int_equal(table, row->table);
    assert_int_equal(value == NULL, row->del);
    assert_true(bytes_eq(bytes_str(key), row->key));
    if (value == NULL) return;
    assert_int_equal(strlen(value), row->value.len);
    assert_memory_equal(value, row->value.data, row->value.len);
}

/* ---- versions --------------------------------------------------------------------------------------- */

static void test_members_stand_in_order_of_ids(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(3, membership_count(f->now));
    for (size_t i = 0; i < 3; i++) {
        assert_true(membership_at(f->now, i)->id == i + 1);
    }
    assert_int_equal(2, membership_voter_count(f->now));
    assert_null(membership_find(f->now, 4));
    assert_true(bytes_eq(url_2, membership_find(f->now, 2)->peer_urls[0]));
    assert_true(membership_is_removed(f->now, 9));
    assert_false(membership_is_removed(f->now, 1));
    assert_int_equal(1, membership_removed_count(f->now));
    assert_true(membership_removed_at(f->now, 0) == 9);
    assert_true(bytes_eq(bytes_str("3.7.0"), membership_version(f->now)));
    assert_false(membership_downgrade(f->now).stored);
}

static void test_two_members_with_one_id_are_refused(void **state)
{
    struct fixture *f = *state;
    const struct member twins[] = {{.id = 1}, {.id = 1}};
    const struct membership_content content = {.members = twins, .member_count = 2};
    struct membership *m = NULL;
    assert_int_equal(E_INVAL, membership_new(&f->heap.alloc, &content, &m));
    assert_null(m);
}

static void test_the_cluster_id_is_that_of_the_format_page(void **state)
{
    struct fixture *f = *state;
    const struct member members[] = {
        {.id = 7135781855441868016u}, {.id = 11427897810101880175u}, {.id = 7562143637537945398u}};
    const struct membership_content content = {.members = members, .member_count = 3};
    struct membership *m = NULL;
    assert_int_equal(0, membership_new(&f->heap.alloc, &content, &m));
    assert_true(membership_cluster_id(m) == 13025966124242316322u);
    membership_unref(m);
}

static void test_a_version_never_changes(void **state)
{
    struct fixture *f = *state;
    struct membership *old = membership_ref(f->now);
    change(f, PB_REMOVE_NODE, 2, "");
    change(f, PB_ADD_NODE, 3, "{\"id\":3,\"peerURLs\":null,\"isPromote\":true}");
    assert_int_equal(3, membership_count(old));
    assert_true(membership_find(old, 3)->is_learner);
    assert_false(membership_is_removed(old, 2));
    membership_unref(old);
}

/* ---- changes ---------------------------------------------------------------------------------------- */

static void test_add(void **state)
{
    struct fixture *f = *state;
    change(f, PB_ADD_NODE, 0xab, "{\"id\":171,\"peerURLs\":[\"http://h4:2380\"]}");
    assert_int_equal(1, f->c.row_count);
    check_row(f, 0, TABLE_MEMBERS, "ab", "{\"id\":171,\"peerURLs\":[\"http://h4:2380\"]}");
    assert_int_equal(4, membership_count(f->now));
    assert_int_equal(3, membership_voter_count(f->now));
    assert_int_equal(0, membership_find(f->now, 0xab)->name.len);
}

static void test_add_with_a_name_at_bootstrap(void **state)
{
    struct fixture *f = *state;
    const char *json = "{\"id\":4,\"peerURLs\":[\"http://h4:2380\"],\"name\":\"m4\"}";
    change(f, PB_ADD_NODE, 4, json);
    check_row(f, 0, TABLE_MEMBERS, "4", json);
    assert_true(bytes_eq(bytes_str("m4"), membership_find(f->now, 4)->name));
}

static void test_promote(void **state)
{
    struct fixture *f = *state;
    change(f, PB_ADD_NODE, 3, "{\"id\":3,\"peerURLs\":null,\"isPromote\":true}");
    check_row(f, 0, TABLE_MEMBERS, "3", "{\"id\":3,\"peerURLs\":[\"http://h3:2380\"]}");
    assert_false(membership_find(f->now, 3)->is_learner);
}

static void test_remove(void **state)
{
    struct fixture *f = *state;
    change(f, PB_REMOVE_NODE, 2, "");
    assert_int_equal(2, f->c.row_count);
    check_row(f, 0, TABLE_MEMBERS, "2", NULL);
    check_row(f, 1, TABLE_MEMBERS_REMOVED, "2", "removed");
    assert_null(membership_find(f->now, 2));
    assert_true(membership_is_removed(f->now, 2));
    assert_true(membership_removed_at(f->now, 0) == 2);
}

static void test_update_changes_peer_urls_only(void **state)
{
    struct fixture *f = *state;
    change(f, PB_UPDATE_NODE, 2,
           "{\"id\":2,\"peerURLs\":[\"http://x\",\"http://"
           "h2:2380\"],\"isLearner\":true,\"name\":\"no\"}");
    check_row(f, 0, TABLE_MEMBERS, "2",
              "{\"id\":2,\"peerURLs\":[\"http://x\",\"http://h2:2380\"],\"name\":\"m2\"}");
    assert_false(membership_find(f->now, 2)->is_learner);
}

static void test_refusals_are_upstreams(void **state)
{
    struct fixture *f = *state;
    const struct {
        int32_t type;
        uint64_t id;
        const char *context;
        int want;
    } cases[] = {
        {PB_ADD_NODE, 9, "{\"id\":9,\"peerURLs\":[\"http://n\"]}", E_MEMBER_NOT_FOUND},
        {PB_REMOVE_NODE, 9, "", E_MEMBER_NOT_FOUND},
        {PB_UPDATE_NODE, 9, "{\"id\":9,\"peerURLs\":[\"http://n\"]}", E_MEMBER_NOT_FOUND},
        {PB_ADD_NODE, 1, "{\"id\":1,\"peerURLs\":[\"http://n\"]}", E_MEMBER_EXIST},
        {PB_ADD_LEARNER_NODE, 3, "{\"id\":3,\"peerURLs\":[\"http://n\"]}", E_MEMBER_EXIST},
        {PB_ADD_NODE, 4, "{\"id\":4,\"peerURLs\":[\"http://n\",\"http://h3:2380\"]}",
         E_PEER_URL_EXIST},
        {PB_ADD_LEARNER_NODE, 4, "{\"id\":4,\"peerURLs\":[\"http://n\"],\"isLearner\":true}",
         E_TOO_MANY_LEARNERS},
        {PB_ADD_NODE, 4, "{\"id\":4,\"peerURLs\":null,\"isPromote\":true}", E_MEMBER_NOT_FOUND},
        {PB_ADD_NODE, 1, "{\"id\":1,\"peerURLs\":null,\"isPromote\":true}", E_MEMBER_NOT_LEARNER},
        {PB_REMOVE_NODE, 4, "", E_MEMBER_NOT_FOUND},
        {PB_UPDATE_NODE, 4, "{\"id\":4,\"peerURLs\":[\"http://n\"]}", E_MEMBER_NOT_FOUND},
        {PB_UPDATE_NODE, 1, "{\"id\":1,\"peerURLs\":[\"http://h2:2380\"]}", E_PEER_URL_EXIST},
        {PB_ADD_NODE, 4, "not json", E_CORRUPT},
        {PB_ADD_NODE, 4, "{\"id\":5,\"peerURLs\":[\"http://n\"]}", E_CORRUPT},
        {PB_ADD_NODE, 4, "", E_CORRUPT},
        {4, 1, "{}", E_CORRUPT},
        {-1, 1, "{}", E_CORRUPT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int rc = try_change(f, cases[i].type, cases[i].id, cases[i].context);
        if (rc != cases[i].want) fail_msg("case %zu: %s", i, err_symbol(rc));
        assert_null(f->c.next);
    }
    assert_int_equal(3, membership_count(f->now));
}

static void test_words_for_what_must_stop_a_member(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(E_CORRUPT, try_change(f, PB_ADD_NODE, 0xab, "{\"id\":5,\"peerURLs\":[]}"));
    assert_string_equal("a configuration change of node ab holds member 5", f->em.text);
    assert_int_equal(E_CORRUPT, try_change(f, 77, 4, "{}"));
    assert_string_equal("a configuration change of unknown type 77", f->em.text);
}

static void test_a_learner_is_added_while_there_is_room(void **state)
{
    struct fixture *f = *state;
    change(f, PB_REMOVE_NODE, 3, "");
    change(f, PB_ADD_LEARNER_NODE, 4,
           "{\"id\":4,\"peerURLs\":[\"http://h3:2380\"],\"isLearner\":true}");
    assert_true(membership_find(f->now, 4)->is_learner);
}

static void test_a_member_publishes_its_attributes(void **state)
{
    struct fixture *f = *state;
    const struct bytes clients[] = {bytes_str("http://h3:2379")};
    assert_int_equal(0, membership_set_attributes(f->now, 3, bytes_str("m3"), clients, 1, &f->c));
    install(f);
    check_row(f, 0, TABLE_MEMBERS, "3",
              "{\"id\":3,\"peerURLs\":[\"http://h3:2380\"],\"isLearner\":true,\"name\":\"m3\","
              "\"clientURLs\":[\"http://h3:2379\"]}");
    assert_true(bytes_eq(bytes_str("m3"), membership_find(f->now, 3)->name));
}

static void test_attributes_of_who_is_not_there(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(E_NOTFOUND,
                     membership_set_attributes(f->now, 4, bytes_str("x"), NULL, 0, &f->c));
    assert_int_equal(0, membership_set_attributes(f->now, 9, bytes_str("x"), NULL, 0, &f->c));
    assert_int_equal(0, f->c.row_count);
    assert_ptr_equal(f->now, f->c.next);
    membership_unref(f->c.next);
}

static void test_version_and_downgrade(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(0, membership_set_version(f->now, bytes_str("3.6.0"), &f->c));
    install(f);
    check_row(f, 0, TABLE_CLUSTER, "clusterVersion", "3.6.0");
    assert_true(bytes_eq(bytes_str("3.6.0"), membership_version(f->now)));
    assert_int_equal(0, membership_set_downgrade(f->now, true, bytes_str("3.6.0"), &f->c));
    install(f);
    check_row(f, 0, TABLE_CLUSTER, "downgrade", "{\"target-version\":\"3.6.0\",\"enabled\":true}");
    assert_true(membership_downgrade(f->now).enabled);
    assert_int_equal(0, membership_set_downgrade(f->now, false, bytes_str("3.6.0"), &f->c));
    install(f);
    check_row(f, 0, TABLE_CLUSTER, "downgrade", "{\"target-version\":\"\",\"enabled\":false}");
    assert_true(membership_downgrade(f->now).stored);
    assert_int_equal(0, membership_downgrade(f->now).target.len);
}

/* ---- judging ---------------------------------------------------------------------------------------- */

/* `started` of `voters` have a name. */
static struct membership *voters(const struct alloc *alloc, size_t count, size_t started)
{
    struct member members[9] = {{0}};
    for (size_t i = 0; i < count; i++) {
        members[i].id = i + 1;
        if (i < started) members[i].name = bytes_str("m");
    }
    const struct membership_content content = {.members = members, .member_count = count};
    struct membership *m = NULL;
    assert_int_equal(0, membership_new(alloc, &content, &m));
    return m;
}

static void test_enough_voters_must_have_started(void **state)
{
    struct fixture *f = *state;
    const struct {
        size_t voters;
        size_t started;
        bool add;
        bool remove_last; /* the one with the highest id */
        bool promote;
    } cases[] = {
        {1, 1, true, false, true}, {2, 2, true, true, true},  {2, 1, false, true, true},
        {3, 3, true, true, true},  {3, 2, false, true, true}, {3, 1, false, false, false},
        {4, 3, true, true, true},  {4, 2, false, true, true}, {5, 3, false, true, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct membership *m = voters(&f->heap.alloc, cases[i].voters, cases[i].started);
        int no = E_MEMBER_NOT_ENOUGH_STARTED;
        assert_int_equal(cases[i].add ? 0 : no, membership_may_add_voter(m));
        assert_int_equal(cases[i].remove_last ? 0 : no, membership_may_remove(m, cases[i].voters));
        assert_int_equal(cases[i].promote ? 0 : no, membership_may_promote(m));
        membership_unref(m);
    }
}

static void test_learners_may_always_go(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(0, membership_may_remove(f->now, 3));
}

/* ---- the store -------------------------------------------------------------------------------------- */

static void write_rows(struct fixture *f)
{
    for (size_t i = 0; i < f->c.row_count; i++) {
        const struct membership_row *row = &f->c.rows[i];
        if (!row->del) fake_backend_set(&f->store, row->table, row->key, row->value);
    }
}

static int load(const struct alloc *alloc, struct fixture *f, struct membership **out)
{
    struct backend_read *read = NULL;
    const struct backend *be = &f->store.face;
    assert_int_equal(0, be->read_begin(be->arg, &read, &f->em));
    int rc = membership_load(alloc, be, read, out, &f->em);
    be->read_end(read);
    return rc;
}

static void fill_store(struct fixture *f)
{
    change(f, PB_ADD_NODE, 0xab, "{\"id\":171,\"peerURLs\":[\"http://h4:2380\"],\"name\":\"<>\"}");
    write_rows(f);
    change(f, PB_ADD_NODE, 0x1000, "{\"id\":4096,\"peerURLs\":[\"http://h5:2380\"]}");
    write_rows(f);
    change(f, PB_REMOVE_NODE, 2, "");
    write_rows(f);
    assert_int_equal(0, membership_set_version(f->now, bytes_str("3.7.0"), &f->c));
    install(f);
    write_rows(f);
    assert_int_equal(0, membership_set_downgrade(f->now, true, bytes_str("3.6.0"), &f->c));
    install(f);
    write_rows(f);
}

static void test_a_store_gives_back_what_was_written(void **state)
{
    struct fixture *f = *state;
    struct membership *m = NULL;
    fill_store(f);
    assert_int_equal(0, load(&f->heap.alloc, f, &m));
    assert_int_equal(2, membership_count(m));
    assert_true(membership_at(m, 0)->id == 0xab);
    assert_true(bytes_eq(bytes_str("<>"), membership_at(m, 0)->name));
    assert_true(membership_at(m, 1)->id == 0x1000);
    assert_true(membership_is_removed(m, 2));
    assert_true(bytes_eq(bytes_str("3.7.0"), membership_version(m)));
    assert_true(membership_downgrade(m).enabled);
    assert_true(bytes_eq(bytes_str("3.6.0"), membership_downgrade(m).target));
    membership_unref(m);
}

static void test_a_new_store_is_empty(void **state)
{
    struct fixture *f = *state;
    struct membership *m = NULL;
    assert_int_equal(0, load(&f->heap.alloc, f, &m));
    assert_int_equal(0, membership_count(m));
    assert_int_equal(0, membership_version(m).len);
    membership_unref(m);
}

static void test_corrupt_rows_are_named(void **state)
{
    static const struct {
        enum table table;
        const char *key;
        const char *value;
        const char *text;
    } cases[] = {
        {TABLE_MEMBERS, "xyz", "{}", "row \"xyz\" of table members is corrupt"},
        {TABLE_MEMBERS, "ab", "{", "row \"ab\" of table members is corrupt"},
        {TABLE_MEMBERS, "ab", "{\"id\":1}", "row \"ab\" of table members is corrupt"},
        {TABLE_MEMBERS_REMOVED, "", "removed", "row \"\" of table members_removed is corrupt"},
        {TABLE_CLUSTER, "clusterVersion", "3.7",
         "row \"clusterVersion\" of table cluster is corrupt"},
        {TABLE_CLUSTER, "clusterVersion", "", "row \"clusterVersion\" of table cluster is corrupt"},
        {TABLE_CLUSTER, "downgrade", "[]", "row \"downgrade\" of table cluster is corrupt"},
        {TABLE_CLUSTER, "downgrade", "{\"enabled\":true}",
         "row \"downgrade\" of table cluster is corrupt"},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct membership *m = NULL;
        fake_backend_deinit(&f->store);
        fake_backend_init(&f->store);
        fake_backend_set(&f->store, cases[i].table, bytes_str(cases[i].key),
                         bytes_str(cases[i].value));
        assert_int_equal(E_CORRUPT, load(&f->heap.alloc, f, &m));
        assert_string_equal(cases[i].text, f->em.text);
        assert_null(m);
    }
}

static void test_rows_of_others_in_the_cluster_table_are_left(void **state)
{
    struct fixture *f = *state;
    struct membership *m = NULL;
    fake_backend_set(&f->store, TABLE_CLUSTER, bytes_str("more"), bytes_str("?"));
    fake_backend_set(&f->store, TABLE_CLUSTER, bytes_str("clusterVersion"),
                     bytes_str("3.7.0-rc.1"));
    assert_int_equal(0, load(&f->heap.alloc, f, &m));
    assert_true(bytes_eq(bytes_str("3.7.0-rc.1"), membership_version(m)));
    membership_unref(m);
}

/* ---- failures --------------------------------------------------------------------------------------- */

static void load_once(struct test_heap *h, void *arg)
{
    struct membership *m = NULL;
    int rc = load(&h->alloc, arg, &m);
    assert_int_equal(h->failure_count > 0 ? E_NOMEM : 0, rc);
    membership_unref(m);
}

/* Makes the three members with a heap that does not fail yet, then does `type` with one that does. */
static void change_once(struct test_heap *h, void *arg)
{
    const struct pb_conf_change *cc = arg;
    size_t fail_at = h->fail_at;
    h->fail_at = 0;
    struct membership *m = make_three(&h->alloc);
    h->fail_at = fail_at + h->allocation_count;
    struct membership_change c = {0};
    int rc = membership_conf_change(m, cc, 2, &c, NULL);
    if (rc == 0) {
        membership_unref(m);
        m = c.next;
        rc = membership_set_downgrade(m, true, bytes_str("3.6.0"), &c);
        if (rc == 0) membership_unref(c.next);
    }
    assert_int_equal(h->failure_count > 0 ? E_NOMEM : 0, rc);
    membership_unref(m);
}

static void test_every_failing_allocation_is_an_answer(void **state)
{
    struct fixture *f = *state;
    struct pb_conf_change cases[] = {
        {.type = PB_ADD_NODE,
         .node_id = 4,
         .context = bytes_str("{\"id\":4,\"peerURLs\":[\"x\"]}")},
        {.type = PB_UPDATE_NODE,
         .node_id = 1,
         .context = bytes_str("{\"id\":1,\"peerURLs\":[\"x\"]}")},
        {.type = PB_REMOVE_NODE, .node_id = 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(test_heap_every_failure(change_once, &cases[i]) > 3);
    }
    fill_store(f);
    assert_true(test_heap_every_failure(load_once, f) > 2);
}

static void test_misuse_is_caught(void **state)
{
    struct fixture *f = *state;
    EXPECT_ASSERT((void)membership_at(f->now, 3));
    EXPECT_ASSERT((void)membership_removed_at(f->now, 1));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_members_stand_in_order_of_ids),
        CASE(test_two_members_with_one_id_are_refused),
        CASE(test_the_cluster_id_is_that_of_the_format_page),
        CASE(test_a_version_never_changes),
        CASE(test_add),
        CASE(test_add_with_a_name_at_bootstrap),
        CASE(test_promote),
        CASE(test_remove),
        CASE(test_update_changes_peer_urls_only),
        CASE(test_refusals_are_upstreams),
        CASE(test_words_for_what_must_stop_a_member),
        CASE(test_a_learner_is_added_while_there_is_room),
        CASE(test_a_member_publishes_its_attributes),
        CASE(test_attributes_of_who_is_not_there),
        CASE(test_version_and_downgrade),
        CASE(test_enough_voters_must_have_started),
        CASE(test_learners_may_always_go),
        CASE(test_a_store_gives_back_what_was_written),
        CASE(test_a_new_store_is_empty),
        CASE(test_corrupt_rows_are_named),
        CASE(test_rows_of_others_in_the_cluster_table_are_left),
        CASE(test_every_failing_allocation_is_an_answer),
        CASE(test_misuse_is_caught),
    };
    return cmocka_run_group_tests_name("membership", tests, NULL, NULL);
}

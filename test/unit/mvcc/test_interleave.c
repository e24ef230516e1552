/* Every interleaving of a reader with the server around it, one thread, step by step; and faults planted into this copy
 * of the module, each of which some interleaving has to catch.
 *
 * The server is a script of steps: parts of an entry, seal, swap of the runs, commit, retirement, compaction. The reader calls its
 * functions; wherever it takes or has left the index lock, and around the beginning of its backend transaction, the script may
 * go on by some steps. All ways to spread the script over these places are tried. The store holds two keys that every transaction
 * sets to one value, so a reader knows what it must see; hashes must depend on their two revisions only. */
#define MVCC_PLANTS 1

/* clang-format off */
#include "mvcc/mvcc_rev.c"
#include "mvcc/mvcc_item.c"
#include "mvcc/mvcc_tree.c"
#include "mvcc/mvcc_sort.c"
#include "mvcc/mvcc_run.c"
#include "mvcc/mvcc_pin.c"
#include "mvcc/mvcc_store.c"
#include "mvcc/mvcc_load.c"
#include "mvcc/mvcc_write.c"
#include "mvcc/mvcc_view.c"
#include "mvcc/mvcc_range.c"
#include "mvcc/mvcc_history.c"
#include "mvcc/mvcc_compact.c"
#include "mvcc/mvcc_hash.c"
/* clang-format on */

#include "kit.h"

enum mvcc_plant_kind mvcc_plant = PLANT_NONE;

enum step {
    STEP_BEGIN_A, /* begins an entry, puts a */
    STEP_B,       /* puts b */
    STEP_SEAL,
    STEP_SWAP,
    STEP_STORE,
    STEP_RETIRE,
    STEP_COMMIT, /* the three in one */
    STEP_MARK,   /* an entry that compacts at the current revision */
    STEP_LIST,   /* begins a job if it may, and lists */
    STEP_REMOVE,
    STEP_FINISH,
    STEP_END
};

enum reader { READ_NOW, READ_OLD, READ_HASH, READ_WAITING, READER_COUNT };

enum { PLACES = 13, SCRIPT_MAX = 16, HASHES_MAX = 64 };

struct rig {
    struct kit k;
    struct backend real; /* the fake backend's own functions */
    const enum step *script;
    size_t script_len, next;
    size_t at[SCRIPT_MAX]; /* the place where each step is made */
    size_t place;
    bool in_reader;
    int value;
    struct mvcc_compact *job;
    struct mvcc_portion *portion;
    struct mvcc_hash_answer hashes[HASHES_MAX]; /* all that were ever seen, by revisions */
    size_t hash_count;
    const char *wrong; /* what was seen that must not be */
};

static struct rig rig;

/* --- the server --- */

static void put_value(const char *key)
{
    char text[16];
    snprintf(text, sizeof text, "%d", rig.value);
    kit_write(&rig.k, key, text);
}

static void step_list(void)
{
    if (rig.job != NULL) return;
    assert_int_equal(mvcc_compact_begin(rig.k.m, &rig.job), 0);
    int rc = rig.job == NULL ? 0 : 1;
    while (rc == 1) {
        rc = mvcc_compact_list(rig.job, 100, &rig.portion, &rig.k.em);
    }
    assert_int_equal(rc, 0);
}

static void step_remove(void)
{
    struct mvcc_run *run = rig.k.run;
    rig.k.run = NULL;
    if (rig.portion != NULL) kit_store(&rig.k, rig.portion);
    rig.k.run = run;
    mvcc_portion_free(rig.portion);
    rig.portion = NULL;
}

static void step_finish(void)
{
    if (rig.job == NULL || rig.portion != NULL) return;
    assert_int_equal(mvcc_compact_prune(rig.job, 100), 0);
    mvcc_compact_end(rig.job);
    rig.job = NULL;
}

static void step_make(enum step s)
{
    struct kit *k = &rig.k;
    switch (s) {
    case STEP_BEGIN_A:
        mvcc_entry_begin(k->m);
        rig.value++;
        put_value("a");
        break;
    case STEP_B: put_value("b"); break;
    case STEP_SEAL: kit_seal(k); break;
    case STEP_SWAP:
        if (k->run == NULL) kit_swap(k);
        break;
    case STEP_STORE:
        if (k->run != NULL) kit_store(k, NULL);
        break;
    case STEP_RETIRE: kit_retire(k); break;
    case STEP_COMMIT: kit_commit(k); break;
    case STEP_MARK: assert_int_equal(kit_compact(k, mvcc_revision(k->m)), 0); break;
    case STEP_LIST: step_list(); break;
    case STEP_REMOVE: step_remove(); break;
    case STEP_FINISH: step_finish(); break;
    case STEP_END: break;
    }
}

/* A place in the reader: the script goes on as far as it is spread to here. */
static void place(void)
{
    if (!rig.in_reader) return;
    rig.in_reader = false;
    while (rig.next < rig.script_len && rig.at[rig.next] <= rig.place) {
        step_make(rig.script[rig.next++]);
    }
    rig.place++;
    rig.in_reader = true;
}

static void lock_place(void *arg)
{
    (void)arg;
    place();
}

static int begin_place(void *arg, struct backend_read **out, struct errmsg *em)
{
    place();
    int rc = rig.real.read_begin(arg, out, em);
    place();
    return rc;
}

/* --- the reader --- */

static void wrong(const char *what)
{
    if (rig.wrong == NULL) rig.wrong = what;
}

/* Revision 2 has value 1, and so on. */
static void check_view(struct mvcc_view *v, size_t slice)
{
    struct mvcc_range_opts o = {.key = bytes_str("a"), .end = bytes_str("c")};
    struct mvcc_range r;
    char want[16];
    snprintf(want, sizeof want, "%d", (int)v->rev - 1);
    mvcc_range_init(&r, v, &o);
    int rc;
    while ((rc = mvcc_range_step(&r, slice, NULL)) == 1) {}
    if (rc < 0 || r.row_count != 2) wrong("rows are missing");
    for (size_t i = 0; rc == 0 && i < r.row_count; i++) {
        struct bytes stored;
        struct pb_kv kv;
        rc = mvcc_view_kv(v, mvcc_range_row(&r, i), &stored, NULL);
        if (rc < 0) {
            wrong("a row cannot be read");
        } else if (pb_kv_decode(stored, &kv) < 0 || !bytes_eq(kv.value, bytes_str(want))) {
            wrong("a value of another transaction");
        }
    }
    mvcc_range_deinit(&r);
}

static void check_hash(int64_t rev)
{
    struct mvcc_hash_answer a;
    int rc = kit_hash(&rig.k, rev, &a);
    if (rc == E_COMPACTED || rc == E_FUTURE_REV) return;
    if (rc < 0) {
        wrong("no hash");
        return;
    }
    for (size_t i = 0; i < rig.hash_count; i++) {
        const struct mvcc_hash_answer *b = &rig.hashes[i];
        if (b->hash_rev != a.hash_rev || b->compact_rev != a.compact_rev) continue;
        if (b->hash != a.hash) wrong("a hash differs");
        return;
    }
    assert_true(rig.hash_count < HASHES_MAX);
    rig.hashes[rig.hash_count++] = a;
}

static void read_at(int64_t rev, bool waits)
{
    struct mvcc_view v;
    int rc = mvcc_view_open(rig.k.m, rev, &v);
    if (rev > 0 && rc == E_COMPACTED) return;
    if (rc < 0) {
        wrong("a view is refused");
        return;
    }
    if (waits) {
        mvcc_view_suspend(&v);
        place();
        if (mvcc_view_resume(&v) < 0) wrong("a view cannot be resumed");
    }
    if (rig.wrong == NULL) check_view(&v, rev > 0 && !waits ? 9 : 1);
    mvcc_view_close(&v);
}

static void read_as(enum reader who)
{
    rig.in_reader = true;
    place();
    switch (who) {
    case READ_NOW: read_at(0, false); break;
    case READ_OLD: read_at(2, false); break;
    case READ_WAITING: read_at(2, true); break;
    case READ_HASH: check_hash(0); break;
    case READER_COUNT: break;
    }
    rig.in_reader = false;
}

/* --- one run --- */

/* Revision 2 is durable, revision 3 is in the active run. */
static void rig_start(void)
{
    struct kit *k = &rig.k;
    kit_prepare(k);
    rig.real = k->backend.face;
    k->backend.face.read_begin = begin_place;
    k->lock.read = lock_place;
    k->lock.read_done = lock_place;
    kit_open(k);
    rig.value = 0;
    for (int i = 0; i < 2; i++) {
        step_make(STEP_BEGIN_A);
        step_make(STEP_B);
        step_make(STEP_SEAL);
        if (i == 0) kit_commit(k);
    }
    rig.next = 0;
    rig.place = 0;
    rig.wrong = NULL;
    rig.job = NULL;
    rig.portion = NULL;
}

static void rig_stop(void)
{
    mvcc_portion_free(rig.portion);
    mvcc_compact_abandon(rig.job);
    kit_deinit(&rig.k);
}

/* What is there after a crash: whole transactions, nothing that a compaction took away unannounced. */
static void crash_and_look(void)
{
    mvcc_compact_abandon(rig.job);
    rig.job = NULL;
    kit_crash(&rig.k);
    int64_t current = mvcc_revision(rig.k.m), compacted = mvcc_compacted(rig.k.m);
    for (int64_t rev = compacted < 2 ? 2 : compacted; rev <= current; rev++) {
        read_at(rev, false);
        check_hash(rev);
    }
}

/* The next way to spread the steps: a sequence that does not fall. False behind the last. */
static bool spread_next(void)
{
    size_t i = rig.script_len;
    while (i > 0 && rig.at[i - 1] == PLACES) {
        i--;
    }
    if (i == 0) return false;
    size_t v = rig.at[i - 1] + 1;
    for (i--; i < rig.script_len; i++) {
        rig.at[i] = v;
    }
    return true;
}

/* Steps that the reader ended too early for were not made: where behind its end they stand is all the same. */
static void spread_skip(void)
{
    for (size_t i = rig.next; i < rig.script_len; i++) {
        rig.at[i] = PLACES;
    }
}

static void report(enum reader who)
{
    print_error("reader %d: %s; steps at", (int)who, rig.wrong);
    for (size_t i = 0; i < rig.script_len; i++) {
        print_error(" %zu", rig.at[i]);
    }
    print_error("\n");
}

/* Tries all up to the first that goes wrong; returns how many did. */
static size_t try_script(const enum step *script, enum reader who, size_t *runs)
{
    size_t bad = 0;
    rig.script = script;
    for (rig.script_len = 0; script[rig.script_len] != STEP_END; rig.script_len++) {}
    memset(rig.at, 0, sizeof rig.at);
    do {
        rig_start();
        read_as(who);
        ++*runs;
        if (rig.wrong != NULL) {
            if (mvcc_plant == PLANT_NONE) report(who);
            bad++;
        }
        rig_stop();
        spread_skip();
    } while (bad == 0 && spread_next());
    return bad;
}

/* A crash behind each step. */
static size_t try_crashes(const enum step *script)
{
    size_t bad = 0;
    for (size_t n = 0; script[n] != STEP_END; n++) {
        rig_start();
        for (size_t i = 0; i <= n; i++) {
            step_make(script[i]);
        }
        rig.in_reader = false;
        crash_and_look();
        if (rig.wrong != NULL) {
            if (mvcc_plant == PLANT_NONE)
                print_error("%s after a crash behind step %zu\n", rig.wrong, n);
            bad++;
        }
        rig_stop();
    }
    return bad;
}

/* The life of a run, with an entry beside it. */
static const enum step run_life[] = {STEP_SWAP,   STEP_BEGIN_A, STEP_STORE, STEP_B,
                                     STEP_RETIRE, STEP_SEAL,    STEP_END};
static const enum step two_runs[] = {STEP_BEGIN_A, STEP_B,      STEP_SEAL, STEP_SWAP,
                                     STEP_STORE,   STEP_RETIRE, STEP_END};
/* Commits are tried in the middle of an entry. */
static const enum step mid_entry[] = {STEP_BEGIN_A, STEP_SWAP, STEP_STORE, STEP_RETIRE,
                                      STEP_B,       STEP_SEAL, STEP_END};
/* Removal is tried too early, and in time. */
static const enum step compaction[] = {STEP_SWAP, STEP_STORE,  STEP_RETIRE, STEP_MARK,
                                       STEP_LIST, STEP_SWAP,   STEP_STORE,  STEP_RETIRE,
                                       STEP_LIST, STEP_REMOVE, STEP_FINISH, STEP_END};
static const enum step early[] = {STEP_MARK, STEP_LIST,   STEP_REMOVE, STEP_COMMIT,
                                  STEP_LIST, STEP_REMOVE, STEP_FINISH, STEP_END};

static const enum step *const scripts[] = {run_life, two_runs, mid_entry, early};

static size_t try_all(size_t *runs)
{
    size_t bad = try_crashes(compaction);
    rig.hash_count = 0;
    for (size_t s = 0; s < sizeof scripts / sizeof *scripts; s++) {
        bad += try_crashes(scripts[s]);
        for (int who = 0; who < READER_COUNT; who++) {
            bad += try_script(scripts[s], (enum reader)who, runs);
        }
    }
    return bad;
}

static void all_interleavings_read_right(void **state)
{
    (void)state;
    size_t runs = 0;
    mvcc_plant = PLANT_NONE;
    assert_int_equal(try_all(&runs), 0);
    print_message("%zu interleavings\n", runs);
}

static void is_caught(enum mvcc_plant_kind kind)
{
    size_t runs = 0;
    mvcc_plant = kind;
    size_t bad = try_all(&runs);
    mvcc_plant = PLANT_NONE;
    assert_true(bad > 0);
}

static void a_pair_taken_before_the_pin_is_caught(void **state)
{
    (void)state;
    is_caught(PLANT_PAIR_BEFORE_PIN);
}

static void a_transaction_begun_before_the_pair_is_caught(void **state)
{
    (void)state;
    is_caught(PLANT_BACKEND_BEFORE_PAIR);
}

static void rows_removed_before_the_mark_is_durable_are_caught(void **state)
{
    (void)state;
    is_caught(PLANT_REMOVE_BEFORE_MARK);
}

static void a_revision_published_before_its_entry_is_done_is_caught(void **state)
{
    (void)state;
    is_caught(PLANT_PUBLISH_EARLY);
}

static void a_batch_split_in_mid_entry_is_caught(void **state)
{
    (void)state;
    is_caught(PLANT_SPLIT_ENTRY);
}

static void a_compaction_that_ignores_pins_is_caught(void **state)
{
    (void)state;
    is_caught(PLANT_IGNORE_PINS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_interleavings_read_right),
        cmocka_unit_test(a_pair_taken_before_the_pin_is_caught),
        cmocka_unit_test(a_transaction_begun_before_the_pair_is_caught),
        cmocka_unit_test(rows_removed_before_the_mark_is_durable_are_caught),
        cmocka_unit_test(a_revision_published_before_its_entry_is_done_is_caught),
        cmocka_unit_test(a_batch_split_in_mid_entry_is_caught),
        cmocka_unit_test(a_compaction_that_ignores_pins_is_caught),
    };
    return cmocka_run_group_tests_name("mvcc interleavings", tests, NULL, NULL);
}

/* The model over random runs: 100,000 events, or as many as WATCH_EVENTS says (the long form has 1,000,000). */
#include "model.h"

static size_t events_wanted(void)
{
    const char *text = getenv("WATCH_EVENTS");
    return text == NULL ? 100000 : (size_t)strtoull(text, NULL, 10);
}

static void test_random_runs(void **state)
{
    enum { SEEDS = 10 };
    static struct model m;
    (void)state;
    size_t sent = 0;
    size_t overtaken = 0;
    size_t progress = 0;
    size_t blocked = 0;
    size_t prevs = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        model_init(&m, seed);
        model_run(&m, events_wanted() / SEEDS);
        if (m.fault[0] != '\0') print_error("seed %d: %s\n", (int)seed, m.fault);
        assert_string_equal(m.fault, "");
        sent += m.sent;
        overtaken += m.overtaken;
        progress += m.progress;
        blocked += m.blocked;
        prevs += m.prevs;
        model_deinit(&m);
    }
    print_message("sent %zu, overtaken %zu, progress %zu, woken %zu, previous values %zu\n", sent,
                  overtaken, progress, blocked, prevs);
    assert_true(sent > events_wanted() && overtaken > 100 && progress > 100 && blocked > 100 &&
                prevs > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_runs)};
    return cmocka_run_group_tests_name("watch model", tests, NULL, NULL);
}

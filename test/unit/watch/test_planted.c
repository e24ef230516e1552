/* The model against a copy of the module with faults in it: each must be found. */
#define WATCH_PLANTED 1

/* clang-format off */
#include "watch/batch.c"
#include "watch/watch_index.c"
#include "watch/watch_group.c"
#include "watch/watch_give.c"
#include "watch/watch_sweep.c"
#include "watch/watch_shard.c"
/* clang-format on */

#include "model.h"

enum watch_plant_kind watch_plant = PLANT_NONE;

/* What the model says of up to 20 runs. */
static void run(enum watch_plant_kind plant, char *found, size_t cap)
{
    static struct model m;
    watch_plant = plant;
    found[0] = '\0';
    for (uint64_t seed = 100; seed < 120 && found[0] == '\0'; seed++) {
        model_init(&m, seed);
        model_run(&m, 2000);
        snprintf(found, cap, "%s", m.fault);
        model_deinit(&m);
    }
    watch_plant = PLANT_NONE;
}

static void is_caught(enum watch_plant_kind plant)
{
    char found[256];
    run(plant, found, sizeof found);
    print_message("%s\n", found);
    assert_string_not_equal(found, "");
}

static void test_without_a_fault(void **state)
{
    char found[256];
    (void)state;
    run(PLANT_NONE, found, sizeof found);
    assert_string_equal(found, "");
}

static void test_event_before_publication(void **state)
{
    (void)state;
    is_caught(PLANT_EARLY);
}

static void test_gap_at_join(void **state)
{
    (void)state;
    is_caught(PLANT_GAP_AT_JOIN);
}

static void test_repeat_at_join(void **state)
{
    (void)state;
    is_caught(PLANT_REPEAT_AT_JOIN);
}

static void test_gap_at_park(void **state)
{
    (void)state;
    is_caught(PLANT_GAP_AT_PARK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_a_fault), cmocka_unit_test(test_event_before_publication),
        cmocka_unit_test(test_gap_at_join),     cmocka_unit_test(test_repeat_at_join),
        cmocka_unit_test(test_gap_at_park),
    };
    return cmocka_run_group_tests_name("watch planted", tests, NULL, NULL);
}

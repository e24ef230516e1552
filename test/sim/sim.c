/* One seed decides a whole member's life: time, clients, the order in which disk and store get their turn, power cuts and
 * what of the unsynced log survives them. Every run is checked: nothing acknowledged is lost, nothing invented is
 * there, no reply leaves before its sync, the store is never ahead of the log, reads are not stale.
 *
 * sim [first-seed [count]]: one line per failing seed, then a total; exit code 1 when one failed. */
#include "../unit/node/member.h"

#include <errno.h>

enum { STEPS_MAX = 1500, LIVES_MAX = 6 };

static struct member_world w; /* large */

static void client_step(void)
{
    unsigned key = (unsigned)prng_below(&w.prng, MEMBER_KEYS);
    switch (prng_below(&w.prng, 8)) {
    case 0: (void)member_read(&w, key); break;
    case 1:
        if (prng_below(&w.prng, 10) == 0)
            (void)member_compaction(
                &w, 1 + (int64_t)prng_below(&w.prng, (uint64_t)mvcc_revision(w.mvcc)));
        break;
    case 2: {
        uint64_t id = w.clients[prng_below(&w.prng, MEMBER_CLIENTS_MAX)].waiter.request_id;
        if (id != 0) MEMBER_MUST(node_raft_cancel(w.raft, id, E_CANCELED) == 0);
        break;
    }
    default: (void)member_put(&w, key); break;
    }
}

static void random_step(void)
{
    switch (prng_below(&w.prng, 16)) {
    case 0:
    case 1: client_step(); break;
    case 2: member_tick(&w, 1 + (int64_t)prng_below(&w.prng, MEMBER_TICK_NS)); break;
    case 3:
    case 4: member_wal_write(&w); break;
    case 5:
    case 6: member_wal_sync(&w); break;
    case 7: member_commit(&w); break;
    case 8: member_compact(&w); break;
    case 9: member_snapshot(&w); break;
    case 10: node_apply_flush(w.apply); break;
    case 11:
    case 12:
    case 13: member_raft_outputs(&w); break;
    default: member_apply_outputs(&w); break;
    }
}

static bool start(void)
{
    struct errmsg em = {""};
    int rc = member_up(&w, &em);
    if (rc == 0) return true;
    (void)fprintf(stderr, "start: %s %s\n", err_symbol(rc), em.text);
    member_violation(&w, "the member does not start");
    member_down(&w);
    return false;
}

/* The options of a run are dice too: small runs and few entries between snapshots bring rare paths near. */
static void draw_options(void)
{
    static const size_t run_bytes[] = {0, 128, 1024, 65536};
    w.snapshot_count = 3 + prng_below(&w.prng, 200);
    w.catchup_entries = prng_below(&w.prng, 50);
    w.run_bytes_max = run_bytes[prng_below(&w.prng, 4)];
}

static bool run_seed(uint64_t seed)
{
    member_world_init(&w, seed);
    draw_options();
    bool running = start();
    for (int life = 0; running && life < LIVES_MAX; life++) {
        uint64_t steps = prng_below(&w.prng, STEPS_MAX);
        for (uint64_t s = 0; s < steps && w.fatal[0] == '\0'; s++)
            random_step();
        if (prng_below(&w.prng, 4) == 0 && life > 0 && w.ready) {
            member_stop(&w);
        } else {
            member_crash(&w, prng_below(&w.prng, 4));
        }
        running = start();
        if (!running) break;
        member_recover(&w);
        member_check_values(&w);
    }
    if (w.fatal[0] != '\0') member_violation(&w, w.fatal);
    bool ok = w.violations == 0;
    member_world_deinit(&w);
    return ok;
}

static uint64_t number(const char *text, uint64_t otherwise)
{
    if (text == NULL) return otherwise;
    errno = 0;
    char *end = NULL;
    uint64_t v = strtoull(text, &end, 10);
    return errno != 0 || *end != '\0' ? otherwise : v;
}

int main(int argc, char **argv)
{
    uint64_t first = number(argc > 1 ? argv[1] : NULL, 1);
    uint64_t count = number(argc > 2 ? argv[2] : NULL, 200);
    uint64_t failed = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (run_seed(seed)) continue;
        failed++;
        (void)printf("seed %llu failed; replay: sim %llu 1\n", (unsigned long long)seed,
                     (unsigned long long)seed);
    }
    (void)printf("sim: %llu seeds passed, %llu failed\n", (unsigned long long)(count - failed),
                 (unsigned long long)failed);
    return failed == 0 ? 0 : 1;
}

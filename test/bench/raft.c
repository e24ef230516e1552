/* raft [SECONDS]: raft alone: entries a second through three members in one process, with no disk and no network.
 *
 * Each proposal goes the whole way: appended and sent by the leader, written (at once) and acknowledged by each member,
 * committed, applied everywhere, and dropped from memory behind that. One line for each size of batch: entries a second,
 * and bytes of memory for an entry in flight beside its data. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/assert.h"
#include "raft/raft.h"

enum { MEMBERS = 3, BATCH_MAX = 64, DATA_BYTES = 128, KEPT_ENTRIES = 1000, IN_FLIGHT = 10000 };

static size_t live_bytes;

static void *heap_resize(void *arg, void *old, size_t old_bytes, size_t new_bytes)
{
    (void)arg;
    live_bytes += new_bytes - old_bytes;
    if (new_bytes == 0) {
        free(old);
        return NULL;
    }
    void *p = realloc(old, new_bytes);
    if (p == NULL) abort();
    return p;
}

static const struct alloc heap = {heap_resize, NULL};

struct cluster {
    struct raft *members[MEMBERS];
    struct rcbuf *data;
    raft_index applied[MEMBERS];
    bool deaf; /* followers hear nothing */
};

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void check(int rc)
{
    if (rc >= 0) return;
    fprintf(stderr, "raft refused: %d\n", rc);
    exit(1);
}

static void begin(struct cluster *c)
{
    struct raft_restored in = {.snapshot = {.conf = {.voters = {1, 2, 3}, .voter_count = MEMBERS}}};
    struct errmsg em = {""};
    *c = (struct cluster){.data = rcbuf_new(&heap, DATA_BYTES)};
    for (raft_id id = 1; id <= MEMBERS; id++) {
        const struct raft_opts o = {.id = id,
                                    .election_tick = 10,
                                    .heartbeat_tick = 1,
                                    .message_bytes_max = 512 << 10,
                                    .inflight_count_max = 512,
                                    .seed = id,
                                    .alloc = &heap};
        check(raft_new(&o, &in, &c->members[id - 1], &em));
    }
}

static void end(struct cluster *c)
{
    for (size_t i = 0; i < MEMBERS; i++)
        raft_free(c->members[i]);
    rcbuf_unref(c->data);
}

static void execute(struct cluster *c, size_t i, struct raft_obligation *o)
{
    struct raft *r = c->members[i];
    switch (o->kind) {
    case RAFT_SEND:
        if (!c->deaf) check(raft_step(c->members[o->u.message.to - 1], &o->u.message));
        break;
    case RAFT_PERSIST:
        check(raft_persisted(r, o->u.persist.acks, o->u.persist.ack_count));
        o->u.persist.acks = NULL;
        o->u.persist.ack_count = 0;
        break;
    case RAFT_APPLY:
        c->applied[i] = o->u.apply.entries[o->u.apply.entry_count - 1].index;
        check(raft_applied(r, c->applied[i]));
        if (c->applied[i] % KEPT_ENTRIES < BATCH_MAX && c->applied[i] > KEPT_ENTRIES)
            raft_compact(r, c->applied[i] - KEPT_ENTRIES);
        break;
    case RAFT_READ_OK: break;
    }
    raft_obligation_deinit(o, &heap);
}

static bool drain(struct cluster *c, size_t i)
{
    struct raft_obligation o;
    bool any = false;
    int rc;
    while ((rc = raft_take(c->members[i], &o)) > 0) {
        execute(c, i, &o);
        any = true;
    }
    check(rc);
    return any;
}

static void settle(struct cluster *c)
{
    for (bool any = true; any;) {
        any = false;
        for (size_t i = 0; i < MEMBERS; i++)
            any |= drain(c, i);
    }
}

static void propose(struct cluster *c, size_t batch)
{
    struct raft_entry e[BATCH_MAX];
    ASSERT(batch <= BATCH_MAX);
    for (size_t i = 0; i < batch; i++)
        e[i] = (struct raft_entry){.data = c->data};
    check(raft_propose(c->members[0], e, batch));
}

static void measure_speed(size_t batch, double seconds)
{
    struct cluster c;
    begin(&c);
    check(raft_campaign(c.members[0]));
    settle(&c);
    uint64_t entries = 0;
    double from = now_s();
    double until = from;
    for (; until - from < seconds; until = now_s()) {
        for (int i = 0; i < 100; i++) {
            propose(&c, batch);
            settle(&c);
            entries += batch;
        }
    }
    for (size_t i = 0; i < MEMBERS; i++)
        ASSERT(c.applied[i] == entries + 1);
    printf("batches of %zu: %.0f entries/s\n", batch, (double)entries / (until - from));
    end(&c);
}

/* What entries cost that are sent and not answered, beside their data, and what a follower costs. */
static void measure_memory(void)
{
    struct cluster c;
    begin(&c);
    check(raft_campaign(c.members[0]));
    settle(&c);
    size_t before = live_bytes;
    c.deaf = true;
    for (int i = 0; i < IN_FLIGHT; i++) {
        propose(&c, 1);
        (void)drain(&c, 0);
    }
    printf("memory: %.0f bytes for each of %d entries in flight to two followers, data apart\n",
           (double)(live_bytes - before) / IN_FLIGHT, IN_FLIGHT);
    end(&c);
    ASSERT(live_bytes == 0);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 2;
    measure_speed(1, seconds);
    measure_speed(BATCH_MAX, seconds);
    measure_memory();
    return 0;
}

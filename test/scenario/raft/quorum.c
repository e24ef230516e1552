/* Directives of the quorum files: what is committed and who is elected, with a picture of the acknowledgements.
 *
 * A result is computed in all ways that must agree; a difference becomes a line of output, as it does upstream. */
#include <inttypes.h>

#include "tables.h"

enum { VOTERS_MAX = 2 * RAFT_MEMBERS_MAX };

struct answers {
    struct raft_conf_state conf; /* both halves, each ascending */
    bool joint;
    raft_id order[VOTERS_MAX]; /* distinct voters in the order of the arguments */
    uint64_t value[VOTERS_MAX];
    bool known[VOTERS_MAX];
    size_t count;
};

static size_t find(const struct answers *a, raft_id id)
{
    size_t i = 0;
    while (i < a->count && a->order[i] != id)
        i++;
    return i;
}

static void add_voter(struct answers *a, raft_id *ids, uint32_t *n, raft_id id)
{
    uint32_t at = 0;
    while (at < *n && ids[at] < id)
        at++;
    if (at < *n && ids[at] == id) return;
    memmove(ids + at + 1, ids + at, (*n - at) * sizeof *ids);
    ids[at] = id;
    (*n)++;
    if (find(a, id) == a->count) a->order[a->count++] = id;
}

static bool add_half(struct answers *a, const struct dd_arg *arg, raft_id *ids, uint32_t *n)
{
    for (size_t i = 0; arg != NULL && i < arg->value_count; i++) {
        uint64_t id;
        if (arg->values[i][0] == '\0' || strcmp(arg->values[i], "zero") == 0) continue;
        if (!dd_u64(arg->values[i], &id) || *n == RAFT_MEMBERS_MAX) return false;
        add_voter(a, ids, n, id);
    }
    return true;
}

static bool set_value(struct answers *a, size_t i, const char *text)
{
    a->known[i] = strcmp(text, "_") != 0;
    if (!a->known[i]) return true;
    if (strcmp(text, "y") == 0 || strcmp(text, "n") == 0) {
        a->value[i] = *text == 'y';
        return true;
    }
    return dd_u64(text, &a->value[i]);
}

static bool parse(const struct dd_case *c, const char *values, struct answers *a)
{
    *a = (struct answers){.joint = dd_arg(c, "cfgj") != NULL};
    if (!add_half(a, dd_arg(c, "cfg"), a->conf.voters, &a->conf.voter_count)) return false;
    if (!add_half(a, dd_arg(c, "cfgj"), a->conf.voters_outgoing, &a->conf.voter_outgoing_count))
        return false;
    const struct dd_arg *arg = dd_arg(c, values);
    size_t n = 0;
    for (size_t i = 0; arg != NULL && i < arg->value_count; i++) {
        if (arg->values[i][0] == '\0') continue;
        if (n == a->count || !set_value(a, n++, arg->values[i])) return false;
    }
    return n == a->count;
}

/* The same voters with the halves exchanged. */
static struct raft_conf_state swapped(const struct raft_conf_state *cs)
{
    struct raft_conf_state out = *cs;
    memcpy(out.voters, cs->voters_outgoing, sizeof out.voters);
    memcpy(out.voters_outgoing, cs->voters, sizeof out.voters_outgoing);
    out.voter_count = cs->voter_outgoing_count;
    out.voter_outgoing_count = cs->voter_count;
    return out;
}

/* --- votes --------------------------------------------------------------------------------------- */

static int vote_of(const void *arg, raft_id id)
{
    const struct answers *a = arg;
    size_t i = find(a, id);
    return a->known[i] ? (int)a->value[i] : -1;
}

static void run_vote(const struct answers *a, struct buf *out)
{
    static const char *const names[] = {[RAFT__VOTE_PENDING] = "VotePending",
                                        [RAFT__VOTE_WON] = "VoteWon",
                                        [RAFT__VOTE_LOST] = "VoteLost"};
    const struct raft_conf_state other = swapped(&a->conf);
    enum raft__vote v = raft__joint_vote(&a->conf, vote_of, a);
    enum raft__vote w = raft__joint_vote(&other, vote_of, a);
    if (w != v) (void)buf_printf(out, "%s <-- via symmetry\n", names[w]);
    if (!a->joint && raft__majority_vote(a->conf.voters, a->conf.voter_count, vote_of, a) != v)
        (void)buf_put_str(out, "<-- differs as a single majority\n");
    (void)buf_printf(out, "%s\n", names[v]);
}

/* --- commits ------------------------------------------------------------------------------------- */

static uint64_t index_of(const void *arg, raft_id id)
{
    const struct answers *a = arg;
    size_t i = find(a, id);
    return a->known[i] ? a->value[i] : 0;
}

/* How far to the right the bar of a voter goes: its place by (index, id), or that of its equals. */
static size_t bar(const struct answers *a, size_t voter)
{
    size_t below = 0;
    for (size_t i = 0; i < a->count; i++)
        below += index_of(a, a->order[i]) < index_of(a, a->order[voter]);
    return below;
}

static void put_repeated(struct buf *out, char c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void)buf_put_u8(out, (uint8_t)c);
}

static void put_row(struct buf *out, const struct answers *a, size_t voter)
{
    size_t length = bar(a, voter);
    if (!a->known[voter]) {
        (void)buf_put_u8(out, '?');
        put_repeated(out, ' ', a->count);
    } else {
        put_repeated(out, 'x', length);
        (void)buf_put_u8(out, '>');
        put_repeated(out, ' ', a->count - length);
    }
    (void)buf_printf(out, " %5" PRIu64 "    (id=%" PRIx64 ")\n", index_of(a, a->order[voter]),
                     a->order[voter]);
}

static void put_picture(struct buf *out, const struct answers *a)
{
    if (a->count == 0) {
        (void)buf_put_str(out, "<empty majority quorum>");
        return;
    }
    put_repeated(out, ' ', a->count);
    (void)buf_put_str(out, "    idx\n");
    raft_id done = 0;
    for (size_t row = 0; row < a->count; row++) {
        size_t next = a->count;
        for (size_t i = 0; i < a->count; i++)
            if (a->order[i] > done && (next == a->count || a->order[i] < a->order[next])) next = i;
        done = a->order[next];
        put_row(out, a, next);
    }
}

static void put_index(struct buf *out, uint64_t index)
{
    if (index == UINT64_MAX)
        (void)buf_put_str(out, "\xe2\x88\x9e");
    else
        (void)buf_printf(out, "%" PRIu64, index);
}

static void expect_index(struct buf *out, uint64_t index, uint64_t other, const char *how)
{
    if (index == other) return;
    put_index(out, other);
    (void)buf_printf(out, " <-- via %s\n", how);
}

/* The largest acknowledged index that a majority has, found by trying each. */
static uint64_t index_by_counting(const struct answers *a)
{
    uint64_t best = a->count == 0 ? UINT64_MAX : 0;
    for (size_t i = 0; i < a->count; i++) {
        size_t have = 0;
        for (size_t k = 0; k < a->count; k++)
            have += index_of(a, a->order[k]) >= index_of(a, a->order[i]);
        uint64_t v = index_of(a, a->order[i]);
        if (have > a->count / 2 && v > best) best = v;
    }
    return best;
}

/* What lies below the committed index may sink further without changing it. */
static void expect_same_lowered(struct buf *out, const struct answers *a, uint64_t index)
{
    for (size_t i = 0; i < a->count; i++) {
        uint64_t v = a->value[i];
        if (!a->known[i] || v == 0 || v >= index) continue;
        for (uint64_t low = 0; low < v; low = low == v - 1 ? v : v - 1) {
            struct answers changed = *a;
            changed.value[i] = low;
            expect_index(
                out, index,
                raft__majority_index(a->conf.voters, a->conf.voter_count, index_of, &changed),
                "overlaying");
        }
    }
}

static void run_committed(const struct answers *a, struct buf *out)
{
    const struct raft_conf_state *cs = &a->conf;
    put_picture(out, a);
    uint64_t index = raft__joint_index(cs, index_of, a);
    const struct raft_conf_state other = swapped(cs);
    expect_index(out, index, raft__joint_index(&other, index_of, a), "symmetry");
    if (!a->joint) {
        struct raft_conf_state twice = *cs;
        memcpy(twice.voters_outgoing, cs->voters, sizeof twice.voters_outgoing);
        twice.voter_outgoing_count = cs->voter_count;
        expect_index(out, index, raft__majority_index(cs->voters, cs->voter_count, index_of, a),
                     "zero-joint quorum");
        expect_index(out, index, raft__joint_index(&twice, index_of, a), "self-joint quorum");
        expect_index(out, index, index_by_counting(a), "alternative computation");
        expect_same_lowered(out, a, index);
    }
    put_index(out, index);
    (void)buf_put_u8(out, '\n');
}

void quorum_run(const struct dd_case *c, struct buf *out)
{
    struct answers a;
    bool vote = strcmp(c->command, "vote") == 0;
    if (!vote && strcmp(c->command, "committed") != 0) {
        (void)buf_put_str(out, "unknown command");
        return;
    }
    if (!parse(c, vote ? "votes" : "idx", &a)) {
        (void)buf_put_str(out, "error: mismatched input");
        return;
    }
    if (vote)
        run_vote(&a, out);
    else
        run_committed(&a, out);
}

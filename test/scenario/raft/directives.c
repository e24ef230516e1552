/* The directives of the interaction files: a table of names and what each does. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "interaction.h"

typedef const char *(*directive_fn)(struct env *env, const struct dd_case *c);

/* --- arguments ----------------------------------------------------------------------------------- */

/* The member that the n-th bare argument names; NULL: none. */
static struct node *node_arg(struct env *env, const struct dd_case *c, size_t nth)
{
    for (size_t i = 0; i < c->arg_count; i++) {
        uint64_t id;
        if (c->args[i].value_count > 0 || nth-- > 0) continue;
        if (!dd_u64(c->args[i].key, &id) || id == 0 || id > env->node_count) return NULL;
        return &env->nodes[id - 1];
    }
    return NULL;
}

static const char no_node[] = "no such node";

static bool value_u64(const struct dd_case *c, const char *key, uint64_t *out)
{
    const struct dd_arg *a = dd_arg(c, key);
    return a != NULL && a->value_count == 1 && dd_u64(a->values[0], out);
}

/* --- members ------------------------------------------------------------------------------------- */

static bool set_flag(struct node_opts *o, const char *key, const char *value)
{
    const struct {
        const char *name;
        bool *flag;
    } flags[] = {
        {"async-storage-writes", &o->async},
        {"prevote", &o->raft.pre_vote},
        {"checkquorum", &o->raft.check_quorum},
        {"disable-conf-change-validation", &o->raft.disable_conf_change_checks},
        {"step-down-on-removal", &o->raft.step_down_on_removal},
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(key, flags[i].name) == 0) return dd_bool(value, flags[i].flag);
    return false;
}

static bool set_number(struct node_opts *o, const char *key, const char *value)
{
    uint64_t v;
    struct raft_conf_state *cs = &o->snapshot.conf;
    if (!dd_u64(value, &v)) return false;
    if (strcmp(key, "voters") == 0 && cs->voter_count < RAFT_MEMBERS_MAX)
        cs->voters[cs->voter_count++] = v;
    else if (strcmp(key, "learners") == 0 && cs->learner_count < RAFT_MEMBERS_MAX)
        cs->learners[cs->learner_count++] = v;
    else if (strcmp(key, "index") == 0)
        o->snapshot.index = v;
    else if (strcmp(key, "inflight") == 0 && v > 0 && v <= INT32_MAX)
        o->raft.inflight_count_max = (uint32_t)v;
    else if (strcmp(key, "max-committed-size-per-ready") == 0)
        o->raft.applying_bytes_max = v;
    else
        return false;
    return true;
}

static bool set_option(struct node_opts *o, const char *key, const char *value)
{
    if (strcmp(key, "content") == 0) {
        o->content = bytes_str(value);
        return true;
    }
    if (strcmp(key, "read-only") == 0) {
        o->raft.lease_based_reads = strcmp(value, "lease-based") == 0;
        return o->raft.lease_based_reads || strcmp(value, "safe") == 0;
    }
    return set_flag(o, key, value) || set_number(o, key, value);
}

static const char *add_nodes(struct env *env, const struct dd_case *c)
{
    struct node_opts o = {.raft = {.election_tick = 3,
                                   .heartbeat_tick = 1,
                                   .message_bytes_max = SIZE_MAX,
                                   .inflight_count_max = INT32_MAX}};
    uint64_t count;
    if (c->arg_count == 0 || !dd_u64(c->args[0].key, &count)) return "how many nodes?";
    for (size_t i = 1; i < c->arg_count; i++)
        for (size_t k = 0; k < c->args[i].value_count; k++)
            if (!set_option(&o, c->args[i].key, c->args[i].values[k])) return "invalid option";
    const struct raft_conf_state *cs = &o.snapshot.conf;
    if (o.snapshot.index != 0 || cs->voter_count > 0 || cs->learner_count > 0 ||
        o.content.len > 0) {
        if (o.snapshot.index <= 1) return "index must be specified as > 1 due to bootstrap";
        o.snapshot.term = 1;
    }
    const char *error = NULL;
    for (uint64_t i = 0; i < count && error == NULL; i++)
        error = env_add_node(env, &o);
    return error;
}

static const char *print_log(struct env *env, const struct dd_case *c)
{
    const struct node *n = node_arg(env, c, 0);
    if (n == NULL) return no_node;
    const struct storage *s = &n->storage;
    if (s->entry_count == 0) {
        env_print(env, "log is empty: first index=%" PRIu64 ", last index=%" PRIu64, s->before + 1,
                  storage_last(s));
        return NULL;
    }
    struct buf text;
    buf_init(&text, &scenario_heap, SIZE_MAX);
    describe_entries(&text, s->entries, s->entry_count);
    env_put(env, &text);
    buf_deinit(&text);
    return NULL;
}

static const char *compact(struct env *env, const struct dd_case *c)
{
    struct node *n = node_arg(env, c, 0);
    uint64_t index;
    struct raft_status st;
    if (n == NULL || c->arg_count != 2 || !dd_u64(c->args[1].key, &index)) return no_node;
    raft_status(n->raft, &st);
    if (index > st.applied) return "an entry that is not applied is needed";
    const char *error = storage_compact(&n->storage, index);
    if (error != NULL) return error;
    raft_compact(n->raft, index);
    return print_log(env, c);
}

/* --- state --------------------------------------------------------------------------------------- */

static bool has(const raft_id *ids, uint32_t n, raft_id id)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id) return true;
    return false;
}

static bool is_voter(const struct raft_conf_state *cs, raft_id id)
{
    return has(cs->voters, cs->voter_count, id) ||
           has(cs->voters_outgoing, cs->voter_outgoing_count, id);
}

static const char *print_state(struct env *env, const struct dd_case *c)
{
    (void)c;
    for (size_t i = 0; i < env->node_count; i++) {
        const struct raft *r = env->nodes[i].raft;
        struct raft_status st;
        raft_status(r, &st);
        env_print(env, "%" PRIu64 ": %s (%s) Term:%" PRIu64 " Lead:%" PRIu64 "\n", st.id,
                  describe_state(st.state), is_voter(raft_conf(r), st.id) ? "Voter" : "Non-Voter",
                  st.hard_state.term, st.lead);
    }
    return NULL;
}

static const char *print_progress(struct env *env, const struct dd_case *c)
{
    const struct node *n = node_arg(env, c, 0);
    if (n == NULL) return no_node;
    struct raft_status st;
    raft_status(n->raft, &st);
    if (st.state != RAFT_LEADER) return NULL;
    struct buf text;
    buf_init(&text, &scenario_heap, SIZE_MAX);
    for (raft_id id = 1; id <= ENV_NODES_MAX; id++) {
        struct raft_progress_status p;
        if (raft_progress(n->raft, id, &p) == 0) describe_progress(&text, &p);
    }
    env_put(env, &text);
    buf_deinit(&text);
    return NULL;
}

/* --- inputs -------------------------------------------------------------------------------------- */

static const char *campaign(struct env *env, const struct dd_case *c)
{
    struct node *n = node_arg(env, c, 0);
    return n == NULL ? no_node : raft_error_text(raft_campaign(n->raft));
}

static const char *forget_leader(struct env *env, const struct dd_case *c)
{
    struct node *n = node_arg(env, c, 0);
    return n == NULL ? no_node : raft_error_text(raft_forget_leader(n->raft));
}

static const char *tick(struct node *n, uint32_t times)
{
    int rc = 0;
    for (uint32_t i = 0; i < times && rc == 0; i++)
        rc = raft_tick(n->raft);
    return raft_error_text(rc);
}

static const char *tick_election(struct env *env, const struct dd_case *c)
{
    struct node *n = node_arg(env, c, 0);
    return n == NULL ? no_node : tick(n, n->election_tick);
}

static const char *tick_heartbeat(struct env *env, const struct dd_case *c)
{
    struct node *n = node_arg(env, c, 0);
    return n == NULL ? no_node : tick(n, n->heartbeat_tick);
}

static const char *set_timeout(struct env *env, const struct dd_case *c)
{
    struct node *n = node_arg(env, c, 0);
    uint64_t ticks;
    if (n == NULL || !value_u64(c, "timeout", &ticks) || ticks == 0 || ticks > UINT32_MAX)
        return "a node and timeout=TICKS are needed";
    raft_set_election_timeout(n->raft, (uint32_t)ticks);
    return NULL;
}

static const char *transfer(struct env *env, const struct dd_case *c)
{
    uint64_t from;
    uint64_t to;
    if (!value_u64(c, "from", &from) || !value_u64(c, "to", &to) || from == 0 || to == 0 ||
        from > env->node_count || to > env->node_count)
        return "from=NODE and to=NODE are needed";
    return raft_error_text(raft_transfer_leader(env->nodes[from - 1].raft, to));
}

static const char *report_unreachable(struct env *env, const struct dd_case *c)
{
    struct node *on = node_arg(env, c, 0);
    struct node *who = node_arg(env, c, 1);
    if (on == NULL || who == NULL) return no_node;
    raft_report_unreachable(on->raft, node_id(env, who));
    return NULL;
}

static const char *propose_entry(struct node *n, enum raft_entry_type type, struct bytes data)
{
    struct rcbuf *buf = rcbuf_copy(&scenario_heap, data);
    const struct raft_entry e = {.type = type, .data = buf};
    int rc = raft_propose(n->raft, &e, 1);
    rcbuf_unref(buf);
    return raft_error_text(rc);
}

static const char *propose(struct env *env, const struct dd_case *c)
{
    struct node *n = node_arg(env, c, 0);
    if (n == NULL || c->arg_count != 2) return "a node and data are needed";
    const char *data = c->args[1].key;
    return propose_entry(n, RAFT_ENTRY_NORMAL, bytes_str(data));
}

/* Beside upstream's directives: `read-index NODE CONTEXT`. Without a leader nothing comes of it. */
static const char *read_index(struct env *env, const struct dd_case *c)
{
    struct node *n = node_arg(env, c, 0);
    if (n == NULL || c->arg_count != 2) return "a node and a context are needed";
    struct rcbuf *context = rcbuf_copy(&scenario_heap, bytes_str(c->args[1].key));
    int rc = raft_read_index(n->raft, context);
    rcbuf_unref(context);
    return rc == E_AGAIN ? NULL : raft_error_text(rc);
}

static const char *send_snapshot(struct env *env, const struct dd_case *c)
{
    const struct node *from = node_arg(env, c, 0);
    const struct node *to = node_arg(env, c, 1);
    if (from == NULL || to == NULL) return no_node;
    struct raft_status st;
    raft_status(from->raft, &st);
    struct raft_snapshot *s = alloc_new(&scenario_heap, sizeof *s);
    *s = from->history[from->history_count - 1];
    (void)rcbuf_ref(s->data);
    const struct packet p = {.message = {.type = RAFT_MSG_SNAP,
                                         .from = st.id,
                                         .to = node_id(env, to),
                                         .term = st.hard_state.term,
                                         .snapshot = s}};
    struct buf text;
    buf_init(&text, &scenario_heap, SIZE_MAX);
    describe_packet(&text, &p);
    env_put(env, &text);
    buf_deinit(&text);
    packets_put(&env->messages, p);
    return NULL;
}

/* --- configuration changes ----------------------------------------------------------------------- */

static void put_varint(struct buf *out, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        (void)buf_put_u8(out, (uint8_t)(v | 0x80));
    (void)buf_put_u8(out, (uint8_t)v);
}

/* `types[k]` and `nodes[k]` as the protobuf of ConfChange or ConfChangeV2 (disk-format.md 4). */
static void put_single(struct buf *out, uint8_t type_tag, uint64_t type, uint64_t node)
{
    (void)buf_put_u8(out, type_tag);
    put_varint(out, type);
    (void)buf_put_u8(out, (uint8_t)(type_tag + 8));
    put_varint(out, node);
}

static const char *encode_changes(struct buf *out, const char *input, bool v1)
{
    static const char letters[] = "vrul"; /* by number of the type */
    for (const char *at = input; *at != '\0';) {
        const char *letter = strchr(letters, *at);
        size_t len = strcspn(at, " ");
        char number[24];
        uint64_t node;
        if (letter == NULL || len < 2 || len > sizeof number) return "unknown input";
        (void)snprintf(number, sizeof number, "%.*s", (int)(len - 1), at + 1);
        if (!dd_u64(number, &node)) return "unknown input";
        struct buf single;
        buf_init(&single, &scenario_heap, 64);
        put_single(&single, v1 ? 0x10 : 0x08, (uint64_t)(letter - letters), node);
        if (!v1) {
            (void)buf_put_u8(out, 0x12);
            put_varint(out, single.len);
        }
        (void)buf_put_bytes(out, buf_bytes(&single));
        buf_deinit(&single);
        at += len;
        at += strspn(at, " ");
    }
    return NULL;
}

static bool transition_arg(const struct dd_case *c, uint8_t *out)
{
    static const char *const names[] = {"auto", "implicit", "explicit"};
    const struct dd_arg *a = dd_arg(c, "transition");
    *out = 0;
    if (a == NULL) return true;
    for (uint8_t i = 0; i < 3; i++) {
        *out = i;
        if (a->value_count == 1 && strcmp(a->values[0], names[i]) == 0) return true;
    }
    return false;
}

static const char *propose_conf_change(struct env *env, const struct dd_case *c)
{
    struct node *n = node_arg(env, c, 0);
    const struct dd_arg *one = dd_arg(c, "v1");
    bool v1 = false;
    uint8_t transition;
    if (n == NULL) return no_node;
    if (!transition_arg(c, &transition)) return "unknown transition";
    if (one != NULL && (one->value_count != 1 || !dd_bool(one->values[0], &v1)))
        return "v1 is true or false";
    if (v1 && (transition != 0 || strchr(c->input, ' ') != NULL))
        return "v1 conf change can only have one operation and no transition";
    struct buf data;
    buf_init(&data, &scenario_heap, DD_INPUT_BYTES_MAX * 8);
    if (!v1) {
        (void)buf_put_u8(&data, 0x08);
        (void)buf_put_u8(&data, transition);
    }
    const char *error = encode_changes(&data, c->input, v1);
    if (error == NULL)
        error = propose_entry(n, v1 ? RAFT_ENTRY_CONF_CHANGE : RAFT_ENTRY_CONF_CHANGE_V2,
                              buf_bytes(&data));
    buf_deinit(&data);
    return error;
}

/* --- progress of the whole ----------------------------------------------------------------------- */

static const char *for_each_node(struct env *env, const struct dd_case *c, const char *what,
                                 node_fn fn)
{
    struct node *n;
    bool many = node_arg(env, c, 1) != NULL;
    const char *error = NULL;
    for (size_t i = 0; error == NULL && (n = node_arg(env, c, i)) != NULL; i++) {
        if (many) env_print(env, "> %" PRIu64 " %s\n", node_id(env, n), what);
        error = many ? env_indented(env, fn, n) : fn(env, n);
    }
    return error;
}

static const char *process_ready(struct env *env, const struct dd_case *c)
{
    return for_each_node(env, c, "handling Ready", node_ready);
}

static const char *process_append(struct env *env, const struct dd_case *c)
{
    return for_each_node(env, c, "processing append thread", node_append_step);
}

static const char *process_apply(struct env *env, const struct dd_case *c)
{
    return for_each_node(env, c, "processing apply thread", node_apply_step);
}

static int type_arg(const struct dd_case *c)
{
    const struct dd_arg *a = dd_arg(c, "type");
    if (a == NULL || a->value_count != 1) return -1;
    for (int t = 0; t < RAFT_MSG_COUNT; t++)
        if (strcmp(raft_message_name((enum raft_message_type)t), a->values[0]) == 0) return t;
    return -1;
}

static const char *deliver(struct env *env, const struct dd_case *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->arg_count; i++) {
        const struct dd_arg *a = &c->args[i];
        uint64_t id;
        if (a->value_count == 0 && dd_u64(a->key, &id))
            n += env_deliver(env, id, type_arg(c), false);
        for (size_t k = 0; strcmp(a->key, "drop") == 0 && k < a->value_count; k++)
            if (dd_u64(a->values[k], &id)) n += env_deliver(env, id, type_arg(c), true);
    }
    if (n == 0) env_print(env, "no messages\n");
    return NULL;
}

/* Beside upstream's directives: `duplicate-msgs NODE`. What is in flight to it is there a second time, as a network or
 * a storage thread may have it; only who applies never says the same twice. */
static const char *duplicate(struct env *env, const struct dd_case *c)
{
    const struct node *n = node_arg(env, c, 0);
    if (n == NULL) return no_node;
    size_t count = env->messages.n;
    for (size_t i = 0; i < count; i++) {
        const struct raft_message *m = &env->messages.v[i].message;
        if (m->to != node_id(env, n) || m->type == RAFT_MSG_STORAGE_APPLY_RESP) continue;
        packets_put(&env->messages, (struct packet){.message = copy_message(m)});
    }
    return NULL;
}

static bool has_ready(const struct env *env, const struct node *n)
{
    (void)env;
    return raft_has_work(n->raft);
}

static bool has_messages(const struct env *env, const struct node *n)
{
    return env_count_for(env, node_id(env, n)) > 0;
}

static bool has_append_work(const struct env *env, const struct node *n)
{
    (void)env;
    return n->append_work.n > 0;
}

static bool has_apply_work(const struct env *env, const struct node *n)
{
    (void)env;
    return n->apply_work.n > 0;
}

/* What one round of stabilize does, in this order. */
static const struct {
    bool (*due)(const struct env *env, const struct node *n);
    node_fn run;
    const char *what;
    bool all; /* until no more is due, under one heading */
} stages[] = {
    {has_ready, node_ready, "handling Ready", false},
    {has_messages, node_receive, "receiving messages", false},
    {has_append_work, node_append_step, "processing append thread", true},
    {has_apply_work, node_apply_step, "processing apply thread", true},
};

static const char *run_stage(struct env *env, const struct dd_case *c, size_t stage, bool *done)
{
    const char *error = NULL;
    bool chosen = node_arg(env, c, 0) != NULL;
    for (size_t i = 0; error == NULL; i++) {
        struct node *n = chosen ? node_arg(env, c, i) : &env->nodes[i];
        if (n == NULL || (!chosen && i == env->node_count)) break;
        if (!stages[stage].due(env, n)) continue;
        *done = false;
        env_print(env, "> %" PRIu64 " %s\n", node_id(env, n), stages[stage].what);
        do {
            error = env_indented(env, stages[stage].run, n);
        } while (error == NULL && stages[stage].all && stages[stage].due(env, n));
    }
    return error;
}

static const char *set_level(struct env *env, const char *name)
{
    static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR", "FATAL", "NONE"};
    for (int i = 0; i <= LEVEL_NONE; i++) {
        if (strcasecmp(name, names[i]) != 0) continue;
        env->level = i;
        return NULL;
    }
    return "log levels must be either of [DEBUG INFO WARN ERROR FATAL NONE]";
}

static const char *stabilize(struct env *env, const struct dd_case *c)
{
    int old = env->level;
    const struct dd_arg *level = dd_arg(c, "log-level");
    const char *error = level == NULL ? NULL : set_level(env, level->values[0]);
    for (bool done = false; !done && error == NULL;) {
        done = true;
        for (size_t s = 0; s < sizeof stages / sizeof *stages && error == NULL; s++)
            error = run_stage(env, c, s, &done);
    }
    env->level = old;
    return error;
}

static const char *log_level(struct env *env, const struct dd_case *c)
{
    return set_level(env, c->arg_count == 0 ? "" : c->args[0].key);
}

static const struct {
    const char *name;
    directive_fn run;
} directives[] = {
    {"add-nodes", add_nodes},
    {"campaign", campaign},
    {"compact", compact},
    {"deliver-msgs", deliver},
    {"duplicate-msgs", duplicate},
    {"forget-leader", forget_leader},
    {"log-level", log_level},
    {"process-append-thread", process_append},
    {"process-apply-thread", process_apply},
    {"process-ready", process_ready},
    {"propose", propose},
    {"propose-conf-change", propose_conf_change},
    {"raft-log", print_log},
    {"raft-state", print_state},
    {"read-index", read_index},
    {"report-unreachable", report_unreachable},
    {"send-snapshot", send_snapshot},
    {"set-randomized-election-timeout", set_timeout},
    {"stabilize", stabilize},
    {"status", print_progress},
    {"tick-election", tick_election},
    {"tick-heartbeat", tick_heartbeat},
    {"transfer-leadership", transfer},
};

void env_run(struct env *env, const struct dd_case *c)
{
    const char *error = "unknown command";
    buf_reset(&env->out);
    for (size_t i = 0; i < sizeof directives / sizeof *directives; i++)
        if (strcmp(c->command, directives[i].name) == 0) error = directives[i].run(env, c);
    /* Errors are told at any level. */
    if (error != NULL) (void)buf_put_str(&env->out, error);
    if (env->out.len == 0) (void)buf_put_str(&env->out, "ok");
}

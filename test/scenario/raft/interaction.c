/* Members and messages of a scenario: birth, obligations, delivery. */
#include "interaction.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { OUT_BYTES_MAX = 16 << 20, PRINT_BYTES_MAX = 4096 };

/* --- output -------------------------------------------------------------------------------------- */

bool env_quiet(const struct env *env)
{
    return env->level == LEVEL_NONE;
}

void env_put(struct env *env, const struct buf *text)
{
    if (!env_quiet(env)) (void)buf_put_bytes(&env->out, buf_bytes(text));
}

void env_print(struct env *env, const char *format, ...)
{
    char text[PRINT_BYTES_MAX];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    if (!env_quiet(env)) (void)buf_put_str(&env->out, text);
}

static void log_line(void *arg, const struct log_event *event)
{
    static const char *const names[] = {[LOG_DEBUG] = "DEBUG",
                                        [LOG_INFO] = "INFO",
                                        [LOG_WARN] = "WARN",
                                        [LOG_ERROR] = "ERROR",
                                        [LOG_FATAL] = "FATAL"};
    struct env *env = arg;
    if (env->level <= (int)event->level) env_print(env, "%s %s\n", names[event->level], event->msg);
}

void env_init(struct env *env)
{
    *env = (struct env){.level = LOG_DEBUG};
    env->log = (struct log){log_line, env};
    buf_init(&env->out, &scenario_heap, OUT_BYTES_MAX);
}

static void copy_indented(struct buf *to, const struct buf *from)
{
    const char *at = (const char *)from->data;
    const char *end = at + from->len;
    while (at < end) {
        const char *nl = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((nl == NULL ? end : nl) - at);
        (void)buf_put_str(to, "  ");
        (void)buf_put(to, at, len);
        (void)buf_put_u8(to, '\n');
        at += len + (nl != NULL);
    }
}

const char *env_indented(struct env *env, node_fn fn, struct node *n)
{
    struct buf outer = env->out;
    buf_init(&env->out, &scenario_heap, OUT_BYTES_MAX);
    const char *error = fn(env, n);
    if (env->out.len > 0) copy_indented(&outer, &env->out);
    buf_deinit(&env->out);
    env->out = outer;
    return error;
}

const char *raft_error_text(int rc)
{
    switch (rc) {
    case E_AGAIN: return "raft proposal dropped";
    case E_NOTFOUND: return "raft: cannot step as peer not found";
    case E_INVAL: return "raft: cannot step raft local message";
    default: return rc < 0 ? "raft: unexpected error" : NULL;
    }
}

/* --- queues -------------------------------------------------------------------------------------- */

void packets_put(struct packets *q, struct packet p)
{
    if (q->n == q->cap) {
        size_t cap = q->cap == 0 ? 16 : q->cap * 2;
        q->v = scenario_heap.resize(NULL, q->v, q->cap * sizeof *q->v, cap * sizeof *q->v);
        q->cap = cap;
    }
    q->v[q->n++] = p;
}

struct packet packets_pop(struct packets *q)
{
    struct packet p = q->v[0];
    q->n--;
    memmove(q->v, q->v + 1, q->n * sizeof *q->v);
    return p;
}

void packets_deinit(struct packets *q)
{
    for (size_t i = 0; i < q->n; i++)
        packet_deinit(&q->v[i]);
    alloc_free(&scenario_heap, q->v, q->cap * sizeof *q->v);
    *q = (struct packets){0};
}

/* --- members ------------------------------------------------------------------------------------- */

raft_id node_id(const struct env *env, const struct node *n)
{
    return (raft_id)(n - env->nodes) + 1;
}

static void history_add(struct node *n, struct raft_snapshot s)
{
    size_t bytes = n->history_count * sizeof s;
    n->history = scenario_heap.resize(NULL, n->history, bytes, bytes + sizeof s);
    n->history[n->history_count++] = s;
}

static const char *history_offer(struct node *n)
{
    const struct raft_snapshot *s = &n->history[n->history_count - 1];
    if (s->meta.index == 0) return NULL;
    int rc = raft_set_snapshot(n->raft, s->meta.index, &s->meta.conf, s->data);
    return rc == E_NOTFOUND ? NULL : raft_error_text(rc);
}

const char *env_add_node(struct env *env, const struct node_opts *opts)
{
    if (env->node_count == ENV_NODES_MAX) return "too many nodes";
    struct node *n = &env->nodes[env->node_count];
    struct raft_opts o = opts->raft;
    *n = (struct node){
        .async = opts->async, .election_tick = o.election_tick, .heartbeat_tick = o.heartbeat_tick};
    o.id = env->node_count + 1;
    o.seed = o.id;
    o.alloc = &scenario_heap;
    o.log = &env->log;
    o.apply_unstable = !opts->async;
    if (opts->snapshot.index != 0) (void)storage_restore(&n->storage, opts->snapshot.index);
    /* Upstream starts with the commit index of the snapshot as known. */
    const struct raft_restored in = {.hard_state.commit = opts->snapshot.index,
                                     .snapshot = opts->snapshot,
                                     .applied = opts->snapshot.index};
    struct errmsg em = {""};
    if (raft_new(&o, &in, &n->raft, &em) < 0) return "raft: this member cannot be";
    env->node_count++;
    history_add(n,
                (struct raft_snapshot){opts->snapshot, rcbuf_copy(&scenario_heap, opts->content)});
    return history_offer(n);
}

static void node_deinit(struct node *n)
{
    raft_free(n->raft);
    storage_deinit(&n->storage);
    packets_deinit(&n->append_work);
    packets_deinit(&n->apply_work);
    for (size_t i = 0; i < n->history_count; i++)
        rcbuf_unref(n->history[i].data);
    alloc_free(&scenario_heap, n->history, n->history_count * sizeof *n->history);
}

void env_deinit(struct env *env)
{
    for (size_t i = 0; i < env->node_count; i++)
        node_deinit(&env->nodes[i]);
    packets_deinit(&env->messages);
    buf_deinit(&env->out);
}

/* --- one Ready ----------------------------------------------------------------------------------- */

struct ready {
    struct packets sends; /* with those for the storage in asynchronous mode */
    struct raft_persist persist;
    struct raft_apply apply;
    struct raft_read *reads;
    size_t read_count;
    bool soft; /* leader or state changed */
};

static void ready_deinit(struct ready *rd)
{
    struct raft_obligation persist = {.kind = RAFT_PERSIST, .u.persist = rd->persist};
    struct raft_obligation apply = {.kind = RAFT_APPLY, .u.apply = rd->apply};
    raft_obligation_deinit(&persist, &scenario_heap);
    raft_obligation_deinit(&apply, &scenario_heap);
    packets_deinit(&rd->sends);
    for (size_t i = 0; i < rd->read_count; i++)
        rcbuf_unref(rd->reads[i].context);
    alloc_free(&scenario_heap, rd->reads, rd->read_count * sizeof *rd->reads);
}

static void add_read(struct ready *rd, struct raft_read read)
{
    size_t bytes = rd->read_count * sizeof read;
    rd->reads = scenario_heap.resize(NULL, rd->reads, bytes, bytes + sizeof read);
    rd->reads[rd->read_count++] = read;
}

static const char *ready_take(struct node *n, struct ready *rd)
{
    struct raft_status st;
    raft_status(n->raft, &st);
    rd->soft = st.lead != n->shown_lead || st.state != n->shown_state;
    n->shown_lead = st.lead;
    n->shown_state = st.state;
    struct raft_obligation o;
    int rc;
    while ((rc = raft_take(n->raft, &o)) > 0) {
        switch (o.kind) {
        case RAFT_SEND: packets_put(&rd->sends, (struct packet){.message = o.u.message}); break;
        case RAFT_PERSIST: rd->persist = o.u.persist; break;
        case RAFT_APPLY: rd->apply = o.u.apply; break;
        case RAFT_READ_OK: add_read(rd, o.u.read); break;
        }
    }
    return raft_error_text(rc);
}

struct raft_message copy_message(const struct raft_message *m)
{
    struct raft_message copy = *m;
    (void)raft_entries_copy(&scenario_heap, m->entries, m->entry_count, &copy.entries);
    if (m->snapshot == NULL) return copy;
    copy.snapshot = alloc_new(&scenario_heap, sizeof *copy.snapshot);
    *copy.snapshot = *m->snapshot;
    (void)rcbuf_ref(copy.snapshot->data);
    return copy;
}

/* The write as upstream's message to the append thread. */
static struct packet append_packet(raft_id id, const struct raft_persist *p)
{
    struct raft_snapshot *s = p->snapshot;
    const struct raft_message m = {.type = RAFT_MSG_STORAGE_APPEND,
                                   .from = id,
                                   .to = RAFT_ID_APPEND_THREAD,
                                   .term = p->hard_state.term,
                                   .vote = p->hard_state.vote,
                                   .commit = p->hard_state.commit,
                                   .entries = p->entries,
                                   .entry_count = p->entry_count,
                                   .snapshot = s};
    struct packet out = {.message = copy_message(&m), .response_count = p->ack_count};
    if (p->ack_count == 0) return out;
    out.responses = alloc_new(&scenario_heap, p->ack_count * sizeof *out.responses);
    for (size_t i = 0; i < p->ack_count; i++)
        out.responses[i] = copy_message(&p->acks[i]);
    return out;
}

static struct packet apply_packet(raft_id id, const struct raft_apply *a)
{
    const struct raft_message m = {.type = RAFT_MSG_STORAGE_APPLY,
                                   .from = id,
                                   .to = RAFT_ID_APPLY_THREAD,
                                   .entries = a->entries,
                                   .entry_count = a->entry_count};
    const struct raft_message done = {.type = RAFT_MSG_STORAGE_APPLY_RESP,
                                      .from = RAFT_ID_APPLY_THREAD,
                                      .to = id,
                                      .entries = a->entries,
                                      .entry_count = a->entry_count};
    struct packet out = {.message = copy_message(&m), .response_count = 1};
    out.responses = alloc_new(&scenario_heap, sizeof done);
    out.responses[0] = copy_message(&done);
    return out;
}

static bool persist_asked(const struct raft_persist *p)
{
    return p->entry_count > 0 || p->snapshot != NULL || p->ack_count > 0 ||
           !raft_hard_state_empty(p->hard_state);
}

/* Adds what upstream's Ready lists as messages beside those that may leave at once. */
static void ready_add_messages(struct node *n, raft_id id, struct ready *rd)
{
    if (n->async) {
        if (persist_asked(&rd->persist)) packets_put(&rd->sends, append_packet(id, &rd->persist));
        if (rd->apply.entry_count > 0) packets_put(&rd->sends, apply_packet(id, &rd->apply));
        return;
    }
    for (size_t i = 0; i < rd->persist.ack_count; i++) {
        const struct raft_message *m = &rd->persist.acks[i];
        if (m->to != id) packets_put(&rd->sends, (struct packet){.message = copy_message(m)});
    }
}

/* "ReadStates [{12 [97 98]} {13 [99]}]": the index and the bytes of the context. */
static void describe_reads(struct buf *out, const struct ready *rd)
{
    (void)buf_put_str(out, "ReadStates [");
    for (size_t i = 0; i < rd->read_count; i++) {
        struct bytes context = rcbuf_bytes(rd->reads[i].context);
        (void)buf_printf(out, "%s{%" PRIu64 " [", i == 0 ? "" : " ", rd->reads[i].index);
        for (size_t k = 0; k < context.len; k++)
            (void)buf_printf(out, "%s%u", k == 0 ? "" : " ", context.data[k]);
        (void)buf_put_str(out, "]}");
    }
    (void)buf_put_str(out, "]\n");
}

static void describe_ready_body(struct buf *out, const struct node *n, const struct ready *rd)
{
    if (rd->soft)
        (void)buf_printf(out, "Lead:%" PRIu64 " State:%s\n", n->shown_lead,
                         describe_state(n->shown_state));
    if (!raft_hard_state_empty(rd->persist.hard_state)) {
        (void)buf_put_str(out, "HardState ");
        describe_hard_state(out, rd->persist.hard_state);
        (void)buf_put_u8(out, '\n');
    }
    if (rd->read_count > 0) describe_reads(out, rd);
    if (rd->persist.entry_count > 0) (void)buf_put_str(out, "Entries:\n");
    describe_entries(out, rd->persist.entries, rd->persist.entry_count);
    if (rd->persist.snapshot != NULL) {
        (void)buf_put_str(out, "Snapshot ");
        describe_snapshot(out, &rd->persist.snapshot->meta);
        (void)buf_put_u8(out, '\n');
    }
    if (rd->apply.entry_count > 0) (void)buf_put_str(out, "CommittedEntries:\n");
    describe_entries(out, rd->apply.entries, rd->apply.entry_count);
    if (rd->sends.n > 0) (void)buf_put_str(out, "Messages:\n");
    for (size_t i = 0; i < rd->sends.n; i++) {
        describe_packet(out, &rd->sends.v[i]);
        (void)buf_put_u8(out, '\n');
    }
}

static void describe_ready(struct env *env, const struct node *n, const struct ready *rd)
{
    struct buf body;
    buf_init(&body, &scenario_heap, OUT_BYTES_MAX);
    describe_ready_body(&body, n, rd);
    if (body.len == 0)
        env_print(env, "<empty Ready>");
    else
        env_print(env, "Ready MustSync=%s:\n", rd->persist.must_sync ? "true" : "false");
    env_put(env, &body);
    buf_deinit(&body);
}

static const char *store(struct node *n, const struct raft_snapshot *s, const struct raft_entry *e,
                         size_t count)
{
    if (s == NULL) return storage_append(&n->storage, e, count);
    if (count > 0) return "can't apply snapshot and entries at the same time";
    return storage_restore(&n->storage, s->meta.index);
}

static struct rcbuf *joined(struct rcbuf *a, struct rcbuf *b)
{
    size_t an = rcbuf_bytes(a).len;
    size_t bn = rcbuf_bytes(b).len;
    struct rcbuf *out = rcbuf_new(&scenario_heap, an + bn);
    if (an > 0) memcpy(out->data, a->data, an);
    if (bn > 0) memcpy(out->data + an, b->data, bn);
    return out;
}

/* The state machine of the scenarios: it puts the data of all entries one behind the other. */
static const char *apply_entry(struct node *n, const struct raft_entry *e)
{
    const struct raft_snapshot *last = &n->history[n->history_count - 1];
    struct raft_snapshot s = {.meta = {e->index, e->term, last->meta.conf}};
    if (e->type == RAFT_ENTRY_NORMAL) {
        s.data = joined(last->data, e->data);
    } else {
        struct raft_conf_change cc;
        struct errmsg em = {""};
        int rc = raft_conf_change_decode(e, &cc);
        if (rc == 0) rc = raft_apply_conf_change(n->raft, &cc, &s.meta.conf, &em);
        if (rc < 0) return "a configuration change cannot be applied";
        s.data = rcbuf_ref(last->data);
    }
    history_add(n, s);
    return history_offer(n);
}

static const char *apply_all(struct node *n, const struct raft_entry *e, size_t count)
{
    const char *error = NULL;
    for (size_t i = 0; i < count && error == NULL; i++)
        error = apply_entry(n, &e[i]);
    return error;
}

static void post(struct env *env, struct node *n, struct ready *rd)
{
    for (size_t i = 0; i < rd->sends.n; i++) {
        struct packet p = rd->sends.v[i];
        raft_id to = p.message.to;
        packets_put(to == RAFT_ID_APPEND_THREAD  ? &n->append_work
                    : to == RAFT_ID_APPLY_THREAD ? &n->apply_work
                                                 : &env->messages,
                    p);
    }
    rd->sends.n = 0;
}

/* The end of a synchronous step: the own acknowledgements of the write, then that of the application. */
static const char *advance(struct node *n, raft_id id, struct ready *rd)
{
    struct raft_persist *p = &rd->persist;
    size_t own = 0;
    for (size_t i = 0; i < p->ack_count; i++)
        own += p->acks[i].to == id;
    struct raft_message *acks = own == 0 ? NULL : alloc_new(&scenario_heap, own * sizeof *acks);
    own = 0;
    for (size_t i = 0; i < p->ack_count; i++)
        if (p->acks[i].to == id) acks[own++] = copy_message(&p->acks[i]);
    int rc = raft_persisted(n->raft, acks, own);
    if (rc == 0 && rd->apply.entry_count > 0)
        rc = raft_applied(n->raft, rd->apply.entries[rd->apply.entry_count - 1].index);
    return raft_error_text(rc);
}

const char *node_ready(struct env *env, struct node *n)
{
    struct ready rd = {0};
    const struct raft_persist *p = &rd.persist;
    raft_id id = node_id(env, n);
    const char *error = ready_take(n, &rd);
    ready_add_messages(n, id, &rd);
    describe_ready(env, n, &rd);
    if (!n->async) {
        if (error == NULL) error = store(n, p->snapshot, p->entries, p->entry_count);
        if (error == NULL) error = apply_all(n, rd.apply.entries, rd.apply.entry_count);
    }
    /* After an error the member is left as it is, with what it asked for undone. */
    if (error == NULL) post(env, n, &rd);
    if (error == NULL && !n->async) error = advance(n, id, &rd);
    ready_deinit(&rd);
    return error;
}

/* --- the storage's threads ----------------------------------------------------------------------- */

static void print_packet(struct env *env, const struct packet *p)
{
    struct buf text;
    buf_init(&text, &scenario_heap, OUT_BYTES_MAX);
    describe_packet(&text, p);
    (void)buf_put_u8(&text, '\n');
    env_put(env, &text);
    buf_deinit(&text);
}

static const char *work_step(struct env *env, struct node *n, struct packets *q)
{
    struct packet p = packets_pop(q);
    const struct raft_message *m = &p.message;
    const struct packet asked = {.message = *m};
    env_print(env, "Processing:\n");
    print_packet(env, &asked);
    const char *error = m->type == RAFT_MSG_STORAGE_APPEND
                            ? store(n, m->snapshot, m->entries, m->entry_count)
                            : apply_all(n, m->entries, m->entry_count);
    if (error == NULL) {
        env_print(env, "Responses:\n");
        for (size_t i = 0; i < p.response_count; i++) {
            const struct packet response = {.message = p.responses[i]};
            print_packet(env, &response);
            packets_put(&env->messages, (struct packet){.message = copy_message(&p.responses[i])});
        }
    }
    packet_deinit(&p);
    return error;
}

const char *node_append_step(struct env *env, struct node *n)
{
    if (n->append_work.n > 0) return work_step(env, n, &n->append_work);
    env_print(env, "no append work to perform");
    return NULL;
}

const char *node_apply_step(struct env *env, struct node *n)
{
    if (n->apply_work.n > 0) return work_step(env, n, &n->apply_work);
    env_print(env, "no apply work to perform");
    return NULL;
}

/* --- delivery ------------------------------------------------------------------------------------ */

/* What one part of a member tells another is never lost. */
static bool is_local(const struct raft_message *m)
{
    return m->from == m->to || m->from >= RAFT_ID_APPLY_THREAD || m->to >= RAFT_ID_APPLY_THREAD;
}

static int step(struct node *n, const struct raft_message *m)
{
    if (m->type != RAFT_MSG_STORAGE_APPLY_RESP) {
        int rc = raft_step(n->raft, m);
        /* Upstream says nothing about a read that nobody can answer now. */
        return m->type == RAFT_MSG_READ_INDEX && rc == E_AGAIN ? 0 : rc;
    }
    return raft_applied(n->raft, m->entries[m->entry_count - 1].index);
}

static void deliver_one(struct env *env, struct packet *p, bool drop)
{
    const struct raft_message *m = &p->message;
    if (drop) env_print(env, "dropped: ");
    print_packet(env, p);
    if (drop) return;
    const char *error = "no such node";
    if (m->to <= env->node_count) error = raft_error_text(step(&env->nodes[m->to - 1], m));
    if (error != NULL) env_print(env, "%s\n", error);
}

size_t env_deliver(struct env *env, raft_id to, int type, bool drop)
{
    struct packets all = env->messages;
    struct packets taken = {0};
    env->messages = (struct packets){0};
    for (size_t i = 0; i < all.n; i++) {
        const struct raft_message *m = &all.v[i].message;
        bool mine = m->to == to && !(drop && is_local(m)) && (type < 0 || (int)m->type == type);
        packets_put(mine ? &taken : &env->messages, all.v[i]);
    }
    all.n = 0;
    packets_deinit(&all);
    size_t n = taken.n;
    for (size_t i = 0; i < n; i++)
        deliver_one(env, &taken.v[i], drop);
    packets_deinit(&taken);
    return n;
}

size_t env_count_for(const struct env *env, raft_id to)
{
    size_t n = 0;
    for (size_t i = 0; i < env->messages.n; i++)
        n += env->messages.v[i].message.to == to;
    return n;
}

const char *node_receive(struct env *env, struct node *n)
{
    (void)env_deliver(env, node_id(env, n), -1, false);
    return NULL;
}

/* A cluster whose every step is a directive: members with a log and snapshots, messages in flight, one output.
 *
 * raft has one mode, asynchronous storage writes. Members of synchronous files are the same core driven otherwise: one
 * batch of obligations is written, applied and acknowledged at once (upstream's "Ready" and "Advance"). */
#ifndef SCENARIO_RAFT_INTERACTION_H
#define SCENARIO_RAFT_INTERACTION_H

#include "base/err.h"
#include "base/log.h"
#include "datadriven.h"
#include "describe.h"
#include "storage.h"

enum { ENV_NODES_MAX = 32, LEVEL_NONE = LOG_FATAL + 1 };

struct packets {
    struct packet *v;
    size_t n;
    size_t cap;
};

struct node {
    struct raft *raft;
    bool async;
    uint32_t election_tick;
    uint32_t heartbeat_tick;
    raft_id shown_lead; /* as the last Ready said */
    enum raft_state shown_state;
    struct storage storage;
    struct packets append_work;
    struct packets apply_work;
    struct raft_snapshot *history; /* newest last; at least one */
    size_t history_count;
};

struct env {
    struct node nodes[ENV_NODES_MAX];
    size_t node_count;
    struct packets messages; /* in flight */
    struct buf out;
    int level; /* enum log_level or LEVEL_NONE */
    struct log log;
};

void env_init(struct env *env);
void env_deinit(struct env *env);

/* Runs one directive; its output is in `env->out`. */
void env_run(struct env *env, const struct dd_case *c);

/* --- for the directives: texts are of the caller's or static, NULL is success --------------------------- */

/* Printf-like; nothing at level NONE. */
void env_print(struct env *env, const char *format, ...) __attribute__((format(printf, 2, 3)));
void env_put(struct env *env, const struct buf *text);
bool env_quiet(const struct env *env);

void packets_put(struct packets *q, struct packet p); /* takes its contents */
struct packet packets_pop(struct packets *q);
void packets_deinit(struct packets *q);
/* A deep copy, of the scenario's heap. */
struct raft_message copy_message(const struct raft_message *m);

struct node_opts {
    struct raft_opts raft;
    bool async;
    struct raft_snapshot_meta snapshot; /* index 0: none */
    struct bytes content;
};
const char *env_add_node(struct env *env, const struct node_opts *opts);

/* Runs `fn` with what it prints moved to the right. */
typedef const char *(*node_fn)(struct env *env, struct node *n);
const char *env_indented(struct env *env, node_fn fn, struct node *n);

const char *node_ready(struct env *env, struct node *n);
const char *node_append_step(struct env *env, struct node *n);
const char *node_apply_step(struct env *env, struct node *n);
/* Delivers all that is in flight to this member. */
const char *node_receive(struct env *env, struct node *n);
raft_id node_id(const struct env *env, const struct node *n);

/* Delivers or drops what is for `to`, of one type or of all (-1). Returns how many. */
size_t env_deliver(struct env *env, raft_id to, int type, bool drop);
size_t env_count_for(const struct env *env, raft_id to);

/* The text that upstream has for an error of raft. */
const char *raft_error_text(int rc);

#endif

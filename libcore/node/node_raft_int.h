/* Inside of the raft half. */
#ifndef NODE_RAFT_INT_H
#define NODE_RAFT_INT_H

#include "node/node_int.h"
#include "node/node_raft.h"

/* How long a round of reads waits before it asks again (server-behaviour.md 12). */
#define NODE__READ_RESEND_NS INT64_C(500000000)
/* Payload proposed but not applied, above which further requests wait here: as much as two runs hold. */
#define NODE__UNAPPLIED_BYTES_MAX ((size_t)2 * RUN_BYTES_MAX)
/* Entries of one span and of what apply holds at a time. */
#define NODE__APPLYING_BYTES_MAX ((size_t)16 * 1024 * 1024)

/* A request that raft has not taken yet. */
struct node__waiting {
    enum node_request_kind kind;
    struct rcbuf *data;
    struct node_waiter *waiter; /* NULL: the member's own */
};

/* What waits for one write. */
struct node__ticket {
    uint64_t seq;
    struct raft_message *acks;
    size_t ack_count;
};

struct node_raft {
    struct node_raft_opts opts;
    const struct alloc *alloc;
    struct raft *core;
    int64_t now_ns;
    int64_t timeout_ns;

    /* Queues: taken at head, put at n. */
    struct node_raft_output *out;
    size_t out_head, out_n, out_cap;
    struct node__waiting *waiting;
    size_t waiting_head, waiting_n, waiting_cap;
    struct node__ticket *tickets;
    size_t ticket_head, ticket_n, ticket_cap;
    uint64_t seq_next;

    /* Reads: those of the running round, and those of the next. */
    struct list round;
    struct list next_round;
    size_t read_count;
    uint64_t round_id; /* 0: no round runs */
    int64_t round_start_ns;
    int64_t round_sent_ns;
    bool round_confirm; /* the round also answers the apply half */
    bool confirm_wanted;
    bool round_resend;

    bool campaign_wanted; /* a sole voter does not wait for its timeout */
    bool leading;         /* as told to the apply half */
    raft_term led_term;
    raft_id lead_told;
    bool had_leader;
    bool stopping;
    bool fatal_told;
    struct errmsg fatal; /* "": none */
};

/* Room for `more` outputs. Errors: E_NOMEM. */
int node__out_reserve(struct node_raft *n, size_t more);
/* These three must have room. */
void node__out(struct node_raft *n, struct node_raft_output o);
void node__out_note(struct node_raft *n, struct node_to_apply note);
void node__out_error(struct node_raft *n, struct node_waiter *w, int error);

/* Reads. */
void node__reads_tick(struct node_raft *n);
void node__reads_pump(struct node_raft *n);
void node__reads_leader_changed(struct node_raft *n);
void node__reads_answered(struct node_raft *n, const struct raft_read *read);
bool node__reads_cancel(struct node_raft *n, uint64_t request_id, int error);
void node__reads_fail_list(struct node_raft *n, struct list *head, int error);

#endif

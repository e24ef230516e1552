/* Values of raft as text, in the form of the scenario files. */
#ifndef SCENARIO_RAFT_DESCRIBE_H
#define SCENARIO_RAFT_DESCRIBE_H

#include "base/buf.h"
#include "raft/raft.h"

/* A message with those to be let go once the local storage has done what it asks (empty for other members'). */
struct packet {
    struct raft_message message;
    struct raft_message *responses;
    size_t response_count;
};

/* The one heap of the program, which ends it when there is no memory. */
extern const struct alloc scenario_heap;

void packet_deinit(struct packet *p);

void describe_entry(struct buf *out, const struct raft_entry *e);
/* One a line. */
void describe_entries(struct buf *out, const struct raft_entry *e, size_t n);
void describe_hard_state(struct buf *out, struct raft_hard_state s);
void describe_snapshot(struct buf *out, const struct raft_snapshot_meta *s);
/* Without a newline at its end. */
void describe_packet(struct buf *out, const struct packet *p);
/* "1: StateProbe match=0 next=1" and a newline. */
void describe_progress(struct buf *out, const struct raft_progress_status *p);
const char *describe_state(enum raft_state s);

#endif

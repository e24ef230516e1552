/* A member's log on "disk": entries behind a snapshot, in memory. */
#ifndef SCENARIO_RAFT_STORAGE_H
#define SCENARIO_RAFT_STORAGE_H

#include "raft/raft.h"

struct storage {
    raft_index before; /* the entry before the first one */
    raft_index snapshot_index;
    struct raft_entry *entries;
    size_t entry_count;
};

/* NULL, or why not (static text). */
const char *storage_restore(struct storage *s, raft_index index);
const char *storage_append(struct storage *s, const struct raft_entry *e, size_t n);
/* Drops entries up to `index`. */
const char *storage_compact(struct storage *s, raft_index index);
raft_index storage_last(const struct storage *s);
void storage_deinit(struct storage *s);

#endif

/* What the server counts for /metrics beside what others count. */
#ifndef SERVER_COUNT_H
#define SERVER_COUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Durations in buckets from a millisecond to eight seconds, each twice the one before. Any thread adds. */
enum { HISTOGRAM_BUCKETS = 14, HISTOGRAM_FIRST_NS = 1000000 };

struct histogram {
    _Atomic uint64_t
        bucket[HISTOGRAM_BUCKETS + 1]; /* not yet added up; the last: longer than all */
    _Atomic uint64_t sum_ns;
};

void histogram_add(struct histogram *h, uint64_t ns);

struct server_counts {
    struct histogram wal_fsync, wal_write, commit, snap_save;
    _Atomic uint64_t proposals_pending, proposals_failed, reads_failed, leader_changes;
    _Atomic uint64_t lease_granted, lease_renewed, lease_revoked, lease_expired;
    atomic_bool defragmenting;
    uint64_t leader; /* of the raft actor: the last one seen */
};

#endif

/* Every bound on queues, buffers, retries and loops over outside data, with its reason. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

/* Upstream's default for --max-request-bytes: one marshalled raft request. */
#define MAX_REQUEST_BYTES_DEFAULT 1572864
/* What a request may weigh on the wire above that (upstream's overhead allowance). */
#define GRPC_OVERHEAD_BYTES 524288
/* Upstream's default for --max-txn-ops. */
#define MAX_TXN_OPS_DEFAULT 128
/* Nesting of any protobuf message or txn that we look into; the format itself has no bound. */
#define PB_DEPTH_MAX 100
/* A WAL record: the largest request, its entry frame, and room for what followers forward. */
#define WAL_RECORD_BYTES_MAX (64 * 1024 * 1024)
/* Committed but not yet applied entries before proposals are refused, as upstream. */
#define APPLY_BACKLOG_MAX              5000
#define APPLY_BACKLOG_LEASE_REVOKE_MAX 10000
/* One run of applied, uncommitted revisions; two of them exist. */
#define RUN_BYTES_MAX (32 * 1024 * 1024)
/* How long a read may hold back a compaction below its revision before its answer is reset. */
#define READ_PIN_MAX_MS 60000

/* Reads that wait for a round in raft, own and forwarded ones; members batch theirs, so this is ample. */
#define RAFT_READS_MAX 65536
/* Proposals that wait for a leader, and reads that wait for a round, in one member; above it clients hear "too many
 * requests". Each client connection has its own, smaller bound on what it may have open. */
#define NODE_WAITING_MAX 65536

#endif

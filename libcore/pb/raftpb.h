/* What the log and the snapshot files hold, byte for byte as 3.7 writes it.
 *
 * Both 3.6 and 3.7 forms are read (absent means zero). Written is the form of 3.7, which depends on who sets
 * what: an entry has no type when it is normal, no data when it has none; a conf change no id when nobody
 * waits for it; all else is written even when zero. Repeated numbers are not packed (proto2). These are
 * plain values: module raft has types of its own, and who may see both converts.
 *
 * All decoders: spans point into `in`; E_PROTO when malformed, `*out` is then untouched. All `put`:
 * append, errors as buf_reserve(). Pure, any thread. */
#ifndef PB_RAFTPB_H
#define PB_RAFTPB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"

enum pb_entry_type { PB_ENTRY_NORMAL = 0, PB_ENTRY_CONF_CHANGE = 1, PB_ENTRY_CONF_CHANGE_V2 = 2 };

struct pb_entry {
    int32_t type; /* enum pb_entry_type; others come from a newer member */
    uint64_t term;
    uint64_t index;
    struct bytes data;
};

size_t pb_entry_size(const struct pb_entry *e);
uint8_t *pb_entry_write(const struct pb_entry *e, uint8_t *at);
int pb_entry_put(const struct pb_entry *e, struct buf *out);
int pb_entry_decode(struct bytes in, struct pb_entry *out);

struct pb_hard_state {
    uint64_t term;
    uint64_t vote;
    uint64_t commit;
};

enum { PB_HARD_STATE_BYTES_MAX = 3 * 11 };

uint8_t *pb_hard_state_write(const struct pb_hard_state *s, uint8_t *at);
int pb_hard_state_put(const struct pb_hard_state *s, struct buf *out);
int pb_hard_state_decode(struct bytes in, struct pb_hard_state *out);

/* A list of node ids; borrowed. */
struct pb_ids {
    const uint64_t *data;
    size_t count;
};

struct pb_conf_state {
    struct pb_ids voters;
    struct pb_ids learners;
    struct pb_ids voters_outgoing;
    struct pb_ids learners_next;
    bool auto_leave;
    bool auto_leave_unset; /* not on the wire: a conf state made by `snapshot restore` */
};

size_t pb_conf_state_size(const struct pb_conf_state *cs);
uint8_t *pb_conf_state_write(const struct pb_conf_state *cs, uint8_t *at);
int pb_conf_state_put(const struct pb_conf_state *cs, struct buf *out);
/* Lists live in `arena`. Also E_NOMEM. */
int pb_conf_state_decode(struct bytes in, struct arena *arena, struct pb_conf_state *out);

enum pb_conf_change_type {
    PB_ADD_NODE = 0, /* a new voter, or the promotion of a learner */
    PB_REMOVE_NODE = 1,
    PB_UPDATE_NODE = 2,
    PB_ADD_LEARNER_NODE = 3
};

struct pb_conf_change {
    uint64_t id;  /* of the request that waits; 0: none, not written */
    int32_t type; /* enum pb_conf_change_type */
    uint64_t node_id;
    struct bytes context; /* a member as JSON; empty: not written */
};

size_t pb_conf_change_size(const struct pb_conf_change *cc);
uint8_t *pb_conf_change_write(const struct pb_conf_change *cc, uint8_t *at);
int pb_conf_change_put(const struct pb_conf_change *cc, struct buf *out);
int pb_conf_change_decode(struct bytes in, struct pb_conf_change *out);

/* raftpb.Snapshot with its SnapshotMetadata. */
struct pb_snapshot {
    struct bytes data; /* the v2 store as JSON */
    struct pb_conf_state conf_state;
    uint64_t index;
    uint64_t term;
};

size_t pb_snapshot_size(const struct pb_snapshot *s);
uint8_t *pb_snapshot_write(const struct pb_snapshot *s, uint8_t *at);
int pb_snapshot_put(const struct pb_snapshot *s, struct buf *out);
/* Lists live in `arena`. Also E_NOMEM. */
int pb_snapshot_decode(struct bytes in, struct arena *arena, struct pb_snapshot *out);

/* snappb.snapshot: the envelope of a .snap file; data is a raftpb.Snapshot, crc its CRC-32C. */
struct pb_snap_file {
    uint32_t crc;
    struct bytes data;
};

size_t pb_snap_file_size(const struct pb_snap_file *f);
uint8_t *pb_snap_file_write(const struct pb_snap_file *f, uint8_t *at);
int pb_snap_file_put(const struct pb_snap_file *f, struct buf *out);
int pb_snap_file_decode(struct bytes in, struct pb_snap_file *out);

enum pb_wal_type {
    PB_WAL_METADATA = 1,
    PB_WAL_ENTRY = 2,
    PB_WAL_STATE = 3,
    PB_WAL_CRC = 4,
    PB_WAL_SNAPSHOT = 5
};

/* walpb.Record: type and crc always written, data when there is any. */
struct pb_wal_record {
    int64_t type; /* enum pb_wal_type; others are for the reader to refuse */
    uint32_t crc;
    struct bytes data;
};

size_t pb_wal_record_size(const struct pb_wal_record *r);
uint8_t *pb_wal_record_write(const struct pb_wal_record *r, uint8_t *at);
/* All before the data bytes (which the caller writes behind), for records made in place: at most
 * PB_WAL_RECORD_HEAD_BYTES_MAX bytes. */
enum { PB_WAL_RECORD_HEAD_BYTES_MAX = 11 + 6 + 11 };
uint8_t *pb_wal_record_write_head(const struct pb_wal_record *r, uint8_t *at);
int pb_wal_record_put(const struct pb_wal_record *r, struct buf *out);
int pb_wal_record_decode(struct bytes in, struct pb_wal_record *out);

/* walpb.Snapshot. */
struct pb_wal_snapshot {
    uint64_t index;
    uint64_t term;
    bool has_conf_state; /* false for the (0,0) record of a new log */
    struct pb_conf_state conf_state;
};

size_t pb_wal_snapshot_size(const struct pb_wal_snapshot *s);
uint8_t *pb_wal_snapshot_write(const struct pb_wal_snapshot *s, uint8_t *at);
int pb_wal_snapshot_put(const struct pb_wal_snapshot *s, struct buf *out);
/* Lists live in `arena`. Also E_NOMEM. */
int pb_wal_snapshot_decode(struct bytes in, struct arena *arena, struct pb_wal_snapshot *out);

/* etcdserverpb.Metadata: the data of a WAL's metadata record; both always written. */
struct pb_metadata {
    uint64_t node_id;
    uint64_t cluster_id;
};

enum { PB_METADATA_BYTES_MAX = 2 * 11 };

uint8_t *pb_metadata_write(const struct pb_metadata *m, uint8_t *at);
int pb_metadata_put(const struct pb_metadata *m, struct buf *out);
int pb_metadata_decode(struct bytes in, struct pb_metadata *out);

#endif

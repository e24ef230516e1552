/* Conf states between raft's form and that of the codecs. */
#ifndef WAL_WAL_CONF_H
#define WAL_WAL_CONF_H

#include "pb/raftpb.h"
#include "raft/raft_types.h"

/* The same lists, borrowed from `c`. */
struct pb_conf_state wal_conf_view(const struct raft_conf_state *c);

/* Copies what a codec has read. E_TOOBIG: a list is longer than RAFT_MEMBERS_MAX, `*out` is untouched. */
int wal_conf_from(const struct pb_conf_state *p, struct raft_conf_state *out);

#endif

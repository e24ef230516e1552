/* The scenario files of configuration changes and of quorums: the parts of raft by themselves. */
#ifndef SCENARIO_RAFT_TABLES_H
#define SCENARIO_RAFT_TABLES_H

#include "datadriven.h"
#include "describe.h"
#include "raft/raft_int.h"

struct conf_env {
    struct raft__tracker trk;
    raft_index last; /* grows with every directive */
};

void conf_env_deinit(struct conf_env *env);
/* simple, enter-joint, leave-joint. */
void conf_run(struct conf_env *env, const struct dd_case *c, struct buf *out);

/* committed, vote. */
void quorum_run(const struct dd_case *c, struct buf *out);

#endif

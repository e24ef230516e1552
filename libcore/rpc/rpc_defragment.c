/* Defragment: the store thread copies the store into a new file without holes. Nothing goes through raft. */
#include "rpc/rpc_int.h"

#include "etcdserverpb.pb-c.h"

static void defragmented(struct rpc_call *c)
{
    if (c->job.wait.rc < 0) {
        rpc__fail(c, c->job.wait.rc);
    } else {
        rpc__reply(c, BYTES_EMPTY);
    }
}

void rpc__defragment(struct rpc_call *c, struct bytes msg)
{
    if (rpc__unpack(c, &etcdserverpb__defragment_request__descriptor, msg) == NULL) return;
    rpc__ask(c, RPC_ASK_DEFRAGMENT, NULL, 0, defragmented);
}

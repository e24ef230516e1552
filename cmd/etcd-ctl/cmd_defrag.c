/* defrag: one endpoint after the other, each by a client of its own. */
#include "base/err.h"
#include "base/text.h"
#include "ctl.h"
#include "os/clock.h"

static const struct ctl_rpc DEFRAGMENT = {.path = "/etcdserverpb.Maintenance/Defragment",
                                          .answer = &etcdserverpb__defragment_response__descriptor};

/* Says at once how it went, for the next one may take long. */
static void tell(struct ctl *ctl, struct bytes endpoint, int64_t took_ns, const char *why)
{
    char took[TEXT_DURATION_BYTES_MAX];
    struct cli_out *to = why == NULL ? &ctl->out : &ctl->err;
    (void)text_duration(took_ns, took);
    cli_put(to, why == NULL ? "Finished defragmenting" : "Failed to defragment");
    cli_put(to, " etcd member[");
    cli_put_bytes(to, endpoint);
    cli_printf(to, "]. took %s", took);
    if (why != NULL) {
        cli_put(to, ". (");
        cli_put(to, why);
        cli_put(to, ")");
    }
    cli_put(to, "\n");
    (void)cli_out_flush(to);
}

/* Returns an exit code: one of ctl_dial()'s ends the command; `*failed`: this endpoint's part went wrong. */
static int defragment(struct ctl *ctl, struct bytes *endpoint, bool *failed, struct errmsg *em)
{
    const Etcdserverpb__DefragmentRequest request = ETCDSERVERPB__DEFRAGMENT_REQUEST__INIT;
    const struct cli_words one = {endpoint, 1};
    struct client *c = NULL;
    ProtobufCMessage *answer = NULL;
    struct errmsg why = {""};
    int status = ctl_dial(ctl, &one, &c, em);
    if (status != CLI_OK) return status;
    uint64_t start_ns = os_clock.mono_ns(os_clock.arg);
    *failed = ctl_call(ctl, c, &DEFRAGMENT, &request.base, &ctl->arena, &answer, &why, NULL) !=
              CLI_OK;
    tell(ctl, *endpoint, (int64_t)(os_clock.mono_ns(os_clock.arg) - start_ns),
         *failed ? why.text : NULL);
    client_free(c);
    return CLI_OK;
}

int ctl_defrag(void *arg, struct cli_call *call, struct errmsg *em)
{
    struct ctl *ctl = arg;
    const struct ctl_endpoint_values *v = call->values;
    struct cli_words endpoints;
    bool any_failed = false;
    int status = ctl_endpoints(ctl, call, &v->cluster, &endpoints, em);
    for (size_t i = 0; i < endpoints.count && status == CLI_OK; i++) {
        bool failed = false;
        status = defragment(ctl, &endpoints.items[i], &failed, em);
        any_failed = any_failed || failed;
    }
    /* What went wrong was said above, so nothing more is. */
    return status == CLI_OK && any_failed ? (int)CLI_ERROR : status;
}

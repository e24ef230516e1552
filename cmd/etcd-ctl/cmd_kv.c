/* get, put, del, compaction. */
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "cli/kv.h"
#include "ctl.h"
#include "pb/unpack.h"

/* --- get ---------------------------------------------------------------------------------------- */

static const struct ctl_rpc RANGE = {.path = "/etcdserverpb.KV/Range",
                                     .answer = &etcdserverpb__range_response__descriptor,
                                     .read = true};

/* Which formats two of the flags go with is looked at after the answer, as upstream does. */
static int check_format(const struct ctl *ctl, const struct cli_get_values *v, struct errmsg *em)
{
    if (v->count_only && ctl->printer.format != CLI_FIELDS)
        return cli_fail(em, CLI_BAD_ARGS, "--count-only is only for `--write-out=fields`");
    if (v->value_only && ctl->printer.format != CLI_SIMPLE)
        return cli_fail(em, CLI_BAD_ARGS, "print-value-only is only for `--write-out=simple`");
    return CLI_OK;
}

int ctl_get(void *arg, struct cli_call *call, struct errmsg *em)
{
    struct ctl *ctl = arg;
    const struct cli_get_values *v = call->values;
    Etcdserverpb__RangeRequest request;
    ProtobufCMessage *answer = NULL;
    int status = cli_get_request(v, &call->args, &ctl->arena, &request, em);
    if (status == CLI_OK) status = ctl_connect(ctl, call, em);
    if (status == CLI_OK && v->stream) {
        status = ctl_range_stream(ctl, &request, &answer, em);
    } else if (status == CLI_OK) {
        status = ctl_call(ctl, ctl->client, &RANGE, &request.base, &ctl->arena, &answer, em, NULL);
    }
    if (status == CLI_OK) status = check_format(ctl, v, em);
    if (status != CLI_OK) return status;
    ctl->printer.value_only = v->value_only;
    return cli_print_range(&ctl->printer, (const void *)answer, em);
}

/* --- put ---------------------------------------------------------------------------------------- */

static const struct ctl_rpc PUT = {.path = "/etcdserverpb.KV/Put",
                                   .answer = &etcdserverpb__put_response__descriptor};

int ctl_put(void *arg, struct cli_call *call, struct errmsg *em)
{
    struct ctl *ctl = arg;
    const struct cli_put_values *v = call->values;
    struct bytes input = BYTES_EMPTY;
    Etcdserverpb__PutRequest request;
    ProtobufCMessage *answer = NULL;
    int status = CLI_OK;
    if (cli_put_wants_input(v, &call->args)) status = ctl_read_input(ctl, &input, em);
    if (status == CLI_OK) status = cli_put_request(v, &call->args, input, &request, em);
    if (status == CLI_OK) status = ctl_connect(ctl, call, em);
    if (status == CLI_OK)
        status = ctl_call(ctl, ctl->client, &PUT, &request.base, &ctl->arena, &answer, em, NULL);
    return status == CLI_OK ? cli_print_put(&ctl->printer, (const void *)answer, em) : status;
}

/* --- del ---------------------------------------------------------------------------------------- */

static const struct ctl_rpc DEL = {.path = "/etcdserverpb.KV/DeleteRange",
                                   .answer = &etcdserverpb__delete_range_response__descriptor};

int ctl_del(void *arg, struct cli_call *call, struct errmsg *em)
{
    struct ctl *ctl = arg;
    Etcdserverpb__DeleteRangeRequest request;
    ProtobufCMessage *answer = NULL;
    bool risky = false;
    int status = cli_del_request(call->values, &call->args, &ctl->arena, &request, &risky, em);
    if (risky) ctl_warn_range(ctl, call->args.items[0], call->args.items[1]);
    if (status == CLI_OK) status = ctl_connect(ctl, call, em);
    if (status == CLI_OK)
        status = ctl_call(ctl, ctl->client, &DEL, &request.base, &ctl->arena, &answer, em, NULL);
    return status == CLI_OK ? cli_print_delete(&ctl->printer, (const void *)answer, em) : status;
}

/* --- compaction ----------------------------------------------------------------------------------- */

static const struct ctl_rpc COMPACT = {.path = "/etcdserverpb.KV/Compact",
                                       .answer = &etcdserverpb__compaction_response__descriptor};

int ctl_compaction(void *arg, struct cli_call *call, struct errmsg *em)
{
    struct ctl *ctl = arg;
    const struct ctl_compaction_values *v = call->values;
    Etcdserverpb__CompactionRequest request = ETCDSERVERPB__COMPACTION_REQUEST__INIT;
    ProtobufCMessage *answer = NULL;
    if (call->args.count != 1)
        return cli_fail(em, CLI_BAD_ARGS, "compaction command needs 1 argument");
    if (text_parse_int(call->args.items[0], 10, &request.revision, em) < 0) return CLI_ERROR;
    request.physical = v->physical;
    int status = ctl_connect(ctl, call, em);
    if (status == CLI_OK) {
        status =
            ctl_call(ctl, ctl->client, &COMPACT, &request.base, &ctl->arena, &answer, em, NULL);
    }
    if (status == CLI_OK)
        cli_printf(&ctl->out, "compacted revision %lld\n", (long long)request.revision);
    return status;
}

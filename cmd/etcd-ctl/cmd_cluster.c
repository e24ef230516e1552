/* member list, alarm list, alarm disarm, version. */
#include <string.h>

#include "base/err.h"
#include "cli/kv.h"
#include "ctl.h"

int ctl_version(void *arg, struct cli_call *call, struct errmsg *em)
{
    struct ctl *ctl = arg;
    (void)em;
    cli_printf(&ctl->out, "%s version: %s\nAPI version: %s\n", call->program->name, CTL_VERSION,
               CTL_API_VERSION);
    return CLI_OK;
}

/* --- members ------------------------------------------------------------------------------------- */

static const struct ctl_rpc MEMBER_LIST = {
    .path = "/etcdserverpb.Cluster/MemberList",
    .answer = &etcdserverpb__member_list_response__descriptor,
    .read = true};

int ctl_members(const struct ctl *ctl, struct client *c, bool serializable, struct arena *arena,
                Etcdserverpb__MemberListResponse **out, struct errmsg *em)
{
    Etcdserverpb__MemberListRequest request = ETCDSERVERPB__MEMBER_LIST_REQUEST__INIT;
    ProtobufCMessage *answer = NULL;
    request.linearizable = !serializable;
    int status = ctl_call(ctl, c, &MEMBER_LIST, &request.base, arena, &answer, em, NULL);
    *out = (void *)answer;
    return status;
}

int ctl_member_list(void *arg, struct cli_call *call, struct errmsg *em)
{
    struct ctl *ctl = arg;
    const struct ctl_member_list_values *v = call->values;
    Etcdserverpb__MemberListResponse *answer = NULL;
    bool serializable = false;
    /* Upstream's message quotes the flag of get, whose default this is. */
    int status = cli_consistency(v->consistency, "l", &serializable, em);
    if (status == CLI_OK) status = ctl_connect(ctl, call, em);
    if (status == CLI_OK)
        status = ctl_members(ctl, ctl->client, serializable, &ctl->arena, &answer, em);
    return status == CLI_OK ? cli_print_members(&ctl->printer, answer, em) : status;
}

/* --- alarms -------------------------------------------------------------------------------------- */

static const struct ctl_rpc ALARM = {.path = "/etcdserverpb.Maintenance/Alarm",
                                     .answer = &etcdserverpb__alarm_response__descriptor};

static int call_alarm(const struct ctl *ctl, struct client *c,
                      const Etcdserverpb__AlarmRequest *request, struct arena *arena,
                      Etcdserverpb__AlarmResponse **out, struct errmsg *em)
{
    ProtobufCMessage *answer = NULL;
    int status = ctl_call(ctl, c, &ALARM, &request->base, arena, &answer, em, NULL);
    *out = (void *)answer;
    return status;
}

int ctl_alarms(const struct ctl *ctl, struct client *c, struct arena *arena,
               Etcdserverpb__AlarmResponse **out, struct errmsg *em)
{
    Etcdserverpb__AlarmRequest request = ETCDSERVERPB__ALARM_REQUEST__INIT;
    request.action = ETCDSERVERPB__ALARM_REQUEST__ALARM_ACTION__GET;
    return call_alarm(ctl, c, &request, arena, out, em);
}

int ctl_alarm_list(void *arg, struct cli_call *call, struct errmsg *em)
{
    struct ctl *ctl = arg;
    Etcdserverpb__AlarmResponse *answer = NULL;
    if (call->args.count != 0)
        return cli_fail(em, CLI_BAD_ARGS, "alarm list command accepts no arguments");
    int status = ctl_connect(ctl, call, em);
    if (status == CLI_OK) status = ctl_alarms(ctl, ctl->client, &ctl->arena, &answer, em);
    return status == CLI_OK ? cli_print_alarms(&ctl->printer, answer, em) : status;
}

/* Clears the alarms of `list` one by one and gathers what was cleared in it. */
static int disarm_all(struct ctl *ctl, Etcdserverpb__AlarmResponse *list, struct errmsg *em)
{
    size_t done = 0;
    for (size_t i = 0; i < list->n_alarms; i++) {
        Etcdserverpb__AlarmRequest request = ETCDSERVERPB__ALARM_REQUEST__INIT;
        Etcdserverpb__AlarmResponse *answer = NULL;
        request.action = ETCDSERVERPB__ALARM_REQUEST__ALARM_ACTION__DEACTIVATE;
        request.memberid = list->alarms[i]->memberid;
        request.alarm = list->alarms[i]->alarm;
        int status = call_alarm(ctl, ctl->client, &request, &ctl->arena, &answer, em);
        if (status != CLI_OK) return status;
        /* One was asked for, so at most one comes back. */
        if (answer->n_alarms > 0) list->alarms[done++] = answer->alarms[0];
    }
    list->n_alarms = done;
    list->header = NULL;
    return CLI_OK;
}

int ctl_alarm_disarm(void *arg, struct cli_call *call, struct errmsg *em)
{
    struct ctl *ctl = arg;
    Etcdserverpb__AlarmResponse *list = NULL;
    if (call->args.count != 0)
        return cli_fail(em, CLI_BAD_ARGS, "alarm disarm command accepts no arguments");
    int status = ctl_connect(ctl, call, em);
    if (status == CLI_OK) status = ctl_alarms(ctl, ctl->client, &ctl->arena, &list, em);
    if (status == CLI_OK) status = disarm_all(ctl, list, em);
    return status == CLI_OK ? cli_print_alarms(&ctl->printer, list, em) : status;
}

/* endpoint health, status, hashkv: every endpoint is asked by a client of its own. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "ctl.h"
#include "os/clock.h"
#include "os/heap.h"
#include "os/thread.h"

enum { ANSWER_BYTES_MAX = 64 * 1024 * 1024, HEALTH_TEXT_BYTES_MAX = ERRMSG_BYTES_MAX };

/* --- which endpoints -------------------------------------------------------------------------------- */

static int from_members(struct ctl *ctl, const Etcdserverpb__MemberListResponse *r,
                        struct cli_words *out, struct errmsg *em)
{
    size_t count = 0;
    for (size_t i = 0; i < r->n_members; i++)
        count += r->members[i]->n_clienturls;
    out->items = arena_new(&ctl->arena, (count + 1) * sizeof *out->items);
    if (out->items == NULL) return cli_fail(em, CLI_ERROR, "%s", err_text(E_NOMEM));
    out->count = 0;
    for (size_t i = 0; i < r->n_members; i++) {
        for (size_t k = 0; k < r->members[i]->n_clienturls; k++)
            out->items[out->count++] = bytes_str(r->members[i]->clienturls[k]);
    }
    return CLI_OK;
}

int ctl_endpoints(struct ctl *ctl, struct cli_call *call, const bool *cluster,
                  struct cli_words *out, struct errmsg *em)
{
    int status = ctl_settings(ctl, call, em);
    *out = ctl->globals.endpoints;
    if (status != CLI_OK || !*cluster) return status;
    Etcdserverpb__MemberListResponse *members = NULL;
    status = ctl_credentials(ctl, em);
    if (status == CLI_OK && ctl_dial(ctl, &ctl->globals.endpoints, &ctl->client, em) != CLI_OK)
        status = CLI_ERROR;
    if (status != CLI_OK) return status;
    status = ctl_members(ctl, ctl->client, false, &ctl->arena, &members, em);
    if (status != CLI_OK) {
        errmsg_prefix(em, "failed to fetch endpoints from etcd cluster member list");
        return status;
    }
    return from_members(ctl, members, out, em);
}

static int endpoints_of(struct ctl *ctl, struct cli_call *call, struct cli_words *out,
                        struct errmsg *em)
{
    const struct ctl_endpoint_values *v = call->group_values;
    return ctl_endpoints(ctl, call, &v->cluster, out, em);
}

/* --- one after the other ------------------------------------------------------------------------------ */

/* Asks one endpoint. Returns an exit code: one of ctl_dial()'s ends the command, `*failed` only this endpoint's part. */
static int ask(struct ctl *ctl, struct bytes *endpoint, const struct ctl_rpc *rpc,
               const ProtobufCMessage *request, ProtobufCMessage **answer, bool *failed,
               struct errmsg *em)
{
    const struct cli_words one = {endpoint, 1};
    struct client *c = NULL;
    int status = ctl_dial(ctl, &one, &c, em);
    if (status != CLI_OK) return status;
    *failed = ctl_call(ctl, c, rpc, request, &ctl->arena, answer, em, NULL) != CLI_OK;
    client_free(c);
    return CLI_OK;
}

static void complain(struct ctl *ctl, const char *what, struct bytes endpoint,
                     const struct errmsg *em)
{
    cli_printf(&ctl->err, "Failed to get the %s of endpoint ", what);
    cli_put_bytes(&ctl->err, endpoint);
    cli_put(&ctl->err, " (");
    cli_put(&ctl->err, em->text);
    cli_put(&ctl->err, ")\n");
}

static const struct ctl_rpc STATUS = {.path = "/etcdserverpb.Maintenance/Status",
                                      .answer = &etcdserverpb__status_response__descriptor,
                                      .read = true};

int ctl_endpoint_status(void *arg, struct cli_call *call, struct errmsg *em)
{
    struct ctl *ctl = arg;
    const Etcdserverpb__StatusRequest request = ETCDSERVERPB__STATUS_REQUEST__INIT;
    struct cli_words endpoints;
    bool any_failed = false;
    size_t count = 0;
    int status = endpoints_of(ctl, call, &endpoints, em);
    if (status != CLI_OK) return status;
    struct cli_status *rows = arena_new(&ctl->arena, (endpoints.count + 1) * sizeof *rows);
    if (rows == NULL) return cli_fail(em, CLI_ERROR, "%s", err_text(E_NOMEM));
    for (size_t i = 0; i < endpoints.count; i++) {
        ProtobufCMessage *answer = NULL;
        struct errmsg why = {""};
        bool failed = false;
        status = ask(ctl, &endpoints.items[i], &STATUS, &request.base, &answer, &failed, &why);
        if (status != CLI_OK) return cli_fail(em, (enum cli_exit)status, "%s", why.text);
        if (failed) complain(ctl, "status", endpoints.items[i], &why);
        any_failed = any_failed || failed;
        if (!failed) rows[count++] = (struct cli_status){endpoints.items[i], (void *)answer};
    }
    status = cli_print_status(&ctl->printer, rows, count, em);
    /* What went wrong was said above, so nothing more is. */
    return status == CLI_OK && any_failed ? CLI_ERROR : status;
}

static const struct ctl_rpc HASHKV = {.path = "/etcdserverpb.Maintenance/HashKV",
                                      .answer = &etcdserverpb__hash_kvresponse__descriptor,
                                      .read = true};

int ctl_endpoint_hashkv(void *arg, struct cli_call *call, struct errmsg *em)
{
    struct ctl *ctl = arg;
    const struct ctl_hashkv_values *v = call->values;
    Etcdserverpb__HashKVRequest request = ETCDSERVERPB__HASH_KVREQUEST__INIT;
    struct cli_words endpoints;
    struct errmsg last = {""};
    size_t count = 0;
    request.revision = v->revision;
    int status = endpoints_of(ctl, call, &endpoints, em);
    if (status != CLI_OK) return status;
    struct cli_hash *rows = arena_new(&ctl->arena, (endpoints.count + 1) * sizeof *rows);
    if (rows == NULL) return cli_fail(em, CLI_ERROR, "%s", err_text(E_NOMEM));
    for (size_t i = 0; i < endpoints.count; i++) {
        ProtobufCMessage *answer = NULL;
        struct errmsg why = {""};
        bool failed = false;
        status = ask(ctl, &endpoints.items[i], &HASHKV, &request.base, &answer, &failed, &why);
        if (status != CLI_OK) return cli_fail(em, (enum cli_exit)status, "%s", why.text);
        if (failed) {
            complain(ctl, "hash", endpoints.items[i], &why);
            last = why;
        } else {
            rows[count++] = (struct cli_hash){endpoints.items[i], (void *)answer};
        }
    }
    status = cli_print_hash(&ctl->printer, rows, count, em);
    if (status != CLI_OK || last.text[0] == '\0') return status;
    return cli_fail(em, CLI_ERROR, "%s", last.text);
}

/* --- all at once ----------------------------------------------------------------------------------------- */

/* The check of one endpoint, in a thread of its own. */
struct check {
    const struct ctl *ctl;
    struct bytes endpoint;
    struct thread thread;
    bool started;
    bool healthy;
    int64_t took_ns;
    struct errmsg why; /* "" when healthy */
};

static const struct ctl_rpc RANGE = {.path = "/etcdserverpb.KV/Range",
                                     .answer = &etcdserverpb__range_response__descriptor,
                                     .read = true};

static void name_alarms(struct check *k, const Etcdserverpb__AlarmResponse *r)
{
    size_t len = (size_t)snprintf(k->why.text, sizeof k->why.text, "Active Alarm(s): ");
    for (size_t i = 0; i < r->n_alarms && len < sizeof k->why.text - 16; i++) {
        const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(
            &etcdserverpb__alarm_type__descriptor, (int)r->alarms[i]->alarm);
        len += (size_t)snprintf(k->why.text + len, sizeof k->why.text - len, "%.10s ",
                                v == NULL ? "UNKNOWN" : v->name);
    }
    k->healthy = false;
}

/* A read that needs the whole cluster's consent; being refused it for want of permission is a sign of health as well. */
static void check_with(struct check *k, struct client *c, struct arena *arena)
{
    static uint8_t key[] = "health";
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
    Etcdserverpb__AlarmResponse *alarms = NULL;
    ProtobufCMessage *answer = NULL;
    struct errmsg em = {""};
    int rc = 0;
    request.key = (ProtobufCBinaryData){sizeof key - 1, key};
    uint64_t start = os_clock.mono_ns(os_clock.arg);
    int status = ctl_call(k->ctl, c, &RANGE, &request.base, arena, &answer, &em, &rc);
    k->took_ns = (int64_t)(os_clock.mono_ns(os_clock.arg) - start);
    k->healthy = status == CLI_OK || rc == E_PERMISSION_DENIED;
    if (!k->healthy) {
        k->why = em;
    } else if (ctl_alarms(k->ctl, c, arena, &alarms, &em) != CLI_OK) {
        k->healthy = false;
        errmsg_set(&k->why, "Unable to fetch the alarm list");
    } else if (alarms->n_alarms > 0) {
        name_alarms(k, alarms);
    }
}

static void check_one(void *arg)
{
    struct check *k = arg;
    const struct cli_words one = {&k->endpoint, 1};
    struct client *c = NULL;
    struct arena arena;
    arena_init(&arena, &os_heap, ANSWER_BYTES_MAX);
    if (ctl_dial(k->ctl, &one, &c, &k->why) == CLI_OK) check_with(k, c, &arena);
    client_free(c);
    arena_deinit(&arena);
}

/* The last one, and those no thread could be had for, are checked here. */
static void check_all(struct check *checks, size_t count)
{
    for (size_t i = 0; i + 1 < count; i++) {
        checks[i].started =
            thread_start(&checks[i].thread, "health", check_one, &checks[i], NULL) == 0;
    }
    for (size_t i = count; i-- > 0;) {
        if (!checks[i].started) check_one(&checks[i]);
    }
    for (size_t i = 0; i < count; i++) {
        if (checks[i].started) thread_join(&checks[i].thread);
    }
}

int ctl_endpoint_health(void *arg, struct cli_call *call, struct errmsg *em)
{
    struct ctl *ctl = arg;
    struct cli_words endpoints;
    bool any_failed = false;
    int status = endpoints_of(ctl, call, &endpoints, em);
    if (status != CLI_OK) return status;
    struct check *checks = arena_zero(&ctl->arena, (endpoints.count + 1) * sizeof *checks);
    struct cli_health *rows = arena_new(&ctl->arena, (endpoints.count + 1) * sizeof *rows);
    if (checks == NULL || rows == NULL) return cli_fail(em, CLI_ERROR, "%s", err_text(E_NOMEM));
    for (size_t i = 0; i < endpoints.count; i++)
        checks[i] = (struct check){.ctl = ctl, .endpoint = endpoints.items[i]};
    check_all(checks, endpoints.count);
    for (size_t i = 0; i < endpoints.count; i++) {
        const struct check *k = &checks[i];
        rows[i] = (struct cli_health){k->endpoint, k->healthy, k->took_ns, k->why.text};
        any_failed = any_failed || k->why.text[0] != '\0';
    }
    status = cli_print_health(&ctl->printer, rows, endpoints.count, &ctl->err, em);
    if (status != CLI_OK || !any_failed) return status;
    return cli_fail(em, CLI_ERROR, "unhealthy cluster");
}

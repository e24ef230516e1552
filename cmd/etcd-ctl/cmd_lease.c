/* lease grant, revoke, timetolive, list, keep-alive. */
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/text.h"
#include "ctl.h"
#include "os/clock.h"
#include "pb/pack.h"
#include "pb/unpack.h"

enum { ANSWER_BYTES_MAX = 1024 * 1024 };
#define NS_PER_S UINT64_C(1000000000)
#define RETRY_NS (NS_PER_S / 2)

static int one_id(const struct cli_call *call, const char *lacking, int64_t *id, struct errmsg *em)
{
    struct errmsg cause = {""};
    if (call->args.count != 1) return cli_fail(em, CLI_BAD_ARGS, "%s", lacking);
    if (text_parse_int(call->args.items[0], 16, id, &cause) == 0) return CLI_OK;
    return cli_fail(em, CLI_BAD_ARGS, "bad lease ID arg (%s), expecting ID in Hex", cause.text);
}

/* What upstream reports as a bad connection, whatever it was. */
static int as_bad_connection(int status)
{
    return status == CLI_ERROR ? (int)CLI_BAD_CONNECTION : status;
}

/* Puts `what (` and `)` around the words. */
static int enclose(struct errmsg *em, const char *what)
{
    const struct errmsg why = *em;
    return cli_fail(em, CLI_ERROR, "%s (%s)", what, why.text);
}

/* --- grant and revoke ---------------------------------------------------------------------------------- */

int ctl_lease_grant(void *arg, struct cli_call *call, struct errmsg *em)
{
    static const struct ctl_rpc RPC = {.path = "/etcdserverpb.Lease/LeaseGrant",
                                       .answer = &etcdserverpb__lease_grant_response__descriptor};
    struct ctl *ctl = arg;
    Etcdserverpb__LeaseGrantRequest request = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
    ProtobufCMessage *answer = NULL;
    struct errmsg cause = {""};
    if (call->args.count != 1)
        return cli_fail(em, CLI_BAD_ARGS, "lease grant command needs TTL argument");
    if (text_parse_int(call->args.items[0], 10, &request.ttl, &cause) < 0)
        return cli_fail(em, CLI_BAD_ARGS, "bad TTL (%s)", cause.text);
    int status = ctl_connect(ctl, call, em);
    if (status != CLI_OK) return status;
    status = ctl_call(ctl, ctl->client, &RPC, &request.base, &ctl->arena, &answer, em, NULL);
    if (status != CLI_OK) return enclose(em, "failed to grant lease");
    return cli_print_grant(&ctl->printer, (void *)answer, em);
}

int ctl_lease_revoke(void *arg, struct cli_call *call, struct errmsg *em)
{
    static const struct ctl_rpc RPC = {.path = "/etcdserverpb.Lease/LeaseRevoke",
                                       .answer = &etcdserverpb__lease_revoke_response__descriptor};
    struct ctl *ctl = arg;
    Etcdserverpb__LeaseRevokeRequest request = ETCDSERVERPB__LEASE_REVOKE_REQUEST__INIT;
    ProtobufCMessage *answer = NULL;
    int status = one_id(call, "lease revoke command needs 1 argument", &request.id, em);
    if (status == CLI_OK) status = ctl_connect(ctl, call, em);
    if (status != CLI_OK) return status;
    status = ctl_call(ctl, ctl->client, &RPC, &request.base, &ctl->arena, &answer, em, NULL);
    if (status != CLI_OK) return enclose(em, "failed to revoke lease");
    return cli_print_revoke(&ctl->printer, request.id, (void *)answer, em);
}

/* --- time to live, list ---------------------------------------------------------------------------------- */

int ctl_lease_time_to_live(void *arg, struct cli_call *call, struct errmsg *em)
{
    static const struct ctl_rpc RPC = {
        .path = "/etcdserverpb.Lease/LeaseTimeToLive",
        .answer = &etcdserverpb__lease_time_to_live_response__descriptor,
        .read = true,
        .no_timeout = true};
    struct ctl *ctl = arg;
    const struct ctl_time_to_live_values *v = call->values;
    Etcdserverpb__LeaseTimeToLiveRequest request = ETCDSERVERPB__LEASE_TIME_TO_LIVE_REQUEST__INIT;
    ProtobufCMessage *answer = NULL;
    int status =
        one_id(call, "lease timetolive command needs lease ID as argument", &request.id, em);
    request.keys = v->keys;
    if (status == CLI_OK) status = ctl_connect(ctl, call, em);
    if (status != CLI_OK) return status;
    status = ctl_call(ctl, ctl->client, &RPC, &request.base, &ctl->arena, &answer, em, NULL);
    if (status != CLI_OK) return as_bad_connection(status);
    return cli_print_time_to_live(&ctl->printer, (void *)answer, v->keys, em);
}

int ctl_lease_list(void *arg, struct cli_call *call, struct errmsg *em)
{
    static const struct ctl_rpc RPC = {.path = "/etcdserverpb.Lease/LeaseLeases",
                                       .answer = &etcdserverpb__lease_leases_response__descriptor,
                                       .read = true,
                                       .no_timeout = true};
    struct ctl *ctl = arg;
    const Etcdserverpb__LeaseLeasesRequest request = ETCDSERVERPB__LEASE_LEASES_REQUEST__INIT;
    ProtobufCMessage *answer = NULL;
    int status = ctl_connect(ctl, call, em);
    if (status != CLI_OK) return status;
    status = ctl_call(ctl, ctl->client, &RPC, &request.base, &ctl->arena, &answer, em, NULL);
    if (status != CLI_OK) return as_bad_connection(status);
    return cli_print_leases(&ctl->printer, (void *)answer, em);
}

/* --- keep-alive ------------------------------------------------------------------------------------------- */

/* A stream of renewals of one lease. */
struct keeper {
    struct ctl *ctl;
    int64_t id;
    bool once;
    struct client_stream *stream; /* NULL: to be opened (again) */
    struct client_status st;
    struct arena arena; /* of one answer */
    const Etcdserverpb__LeaseKeepAliveResponse *answer;
};

static int open_stream(struct keeper *k)
{
    const struct client_request req = {.path = "/etcdserverpb.Lease/LeaseKeepAlive",
                                       .require_leader = !k->once};
    return client_stream_open(k->ctl->client, &req, false, &k->stream, &k->st);
}

static int send_request(struct keeper *k)
{
    Etcdserverpb__LeaseKeepAliveRequest request = ETCDSERVERPB__LEASE_KEEP_ALIVE_REQUEST__INIT;
    struct alloc alloc = arena_alloc(&k->arena);
    struct buf body;
    request.id = k->id;
    buf_init(&body, &alloc, ANSWER_BYTES_MAX);
    int rc = pb_pack(&request.base, &body);
    return rc < 0 ? rc : client_stream_send(k->stream, buf_bytes(&body));
}

static int take_answer(struct keeper *k, struct errmsg *em)
{
    struct alloc alloc = arena_alloc(&k->arena);
    ProtobufCMessage *m = NULL;
    struct buf in;
    buf_init(&in, &alloc, ANSWER_BYTES_MAX);
    int rc = client_stream_next(k->stream, 0, &in, &k->st);
    if (rc <= 0) return rc == 0 ? E_CLOSED : rc;
    const struct pb_unpack_opts opts = {.bounds = &pb_bounds_own, .alias = true};
    rc = pb_unpack_opts(&etcdserverpb__lease_keep_alive_response__descriptor, buf_bytes(&in), &opts,
                        &k->arena, &m, em);
    k->answer = (const void *)m;
    return rc;
}

/* One renewal, on a stream that is opened when there is none. */
static int renew(struct keeper *k, struct errmsg *em)
{
    arena_reset(&k->arena);
    int rc = k->stream == NULL ? open_stream(k) : 0;
    if (rc == 0) rc = send_request(k);
    if (rc == 0) rc = take_answer(k, em);
    if (rc == 0) return 0;
    client_stream_close(k->stream);
    k->stream = NULL;
    return rc;
}

static int tell_failure(struct keeper *k, int rc, struct errmsg *em)
{
    if (k->st.code != GRPC_OK) {
        client_status_text(&k->st, em->text, sizeof em->text);
    } else if (em->text[0] == '\0') {
        errmsg_set(em, "%s", err_text(rc));
    }
    return CLI_BAD_CONNECTION;
}

static int keep_once(struct keeper *k, struct errmsg *em)
{
    int rc = renew(k, em);
    if (rc < 0) return tell_failure(k, rc, em);
    if (k->answer->ttl <= 0)
        return cli_fail(em, CLI_BAD_CONNECTION, "%s", err_text(E_LEASE_NOT_FOUND));
    return cli_print_keep_alive(&k->ctl->printer, k->answer, em);
}

static void rest(uint64_t ns)
{
    struct timespec left = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
    while (nanosleep(&left, &left) != 0)
        continue;
}

/* Waits on the stream, so that it is kept up meanwhile. */
static void wait_on_stream(struct keeper *k, uint64_t ns)
{
    struct alloc alloc = arena_alloc(&k->arena);
    struct buf in;
    buf_init(&in, &alloc, ANSWER_BYTES_MAX);
    if (client_stream_next(k->stream, ns, &in, &k->st) == E_AGAIN) return;
    /* Nothing was asked, so this is its end. */
    client_stream_close(k->stream);
    k->stream = NULL;
}

/* Whether the lease may still live although this try failed. */
static bool try_again(struct keeper *k, struct errmsg *em)
{
    bool other = k->st.code != GRPC_OK && k->st.code != GRPC_UNAVAILABLE &&
                 k->st.code != GRPC_UNKNOWN;
    if (other) return false;
    k->st = (struct client_status){GRPC_OK, ""};
    em->text[0] = '\0';
    rest(RETRY_NS);
    return true;
}

/* Ends when the server knows the lease no more, or when nothing was heard of it for its TTL. */
static int keep(struct keeper *k, struct errmsg *em)
{
    const struct ctl_globals *g = &k->ctl->globals;
    struct cli_printer *p = &k->ctl->printer;
    uint64_t dead_ns = os_clock.mono_ns(os_clock.arg) + (uint64_t)g->dial_timeout_ns + NS_PER_S;
    while (os_clock.mono_ns(os_clock.arg) < dead_ns) {
        int rc = renew(k, em);
        if (rc < 0 && try_again(k, em)) continue;
        if (rc < 0) return tell_failure(k, rc, em);
        if (k->answer->ttl <= 0) break;
        uint64_t ttl_ns = (uint64_t)k->answer->ttl * NS_PER_S;
        int status = cli_print_keep_alive(p, k->answer, em);
        if (status != CLI_OK || cli_out_flush(p->out) < 0) return status;
        dead_ns = os_clock.mono_ns(os_clock.arg) + ttl_ns;
        wait_on_stream(k, ttl_ns / 3);
    }
    if (p->format == CLI_SIMPLE) {
        cli_printf(p->out, "lease %016llx expired or revoked.\n", (unsigned long long)k->id);
    }
    return CLI_OK;
}

int ctl_lease_keep_alive(void *arg, struct cli_call *call, struct errmsg *em)
{
    struct ctl *ctl = arg;
    const struct ctl_keep_alive_values *v = call->values;
    struct keeper k = {.ctl = ctl, .once = v->once};
    int status = one_id(call, "lease keep-alive command needs lease ID as argument", &k.id, em);
    if (status == CLI_OK) status = ctl_connect(ctl, call, em);
    if (status != CLI_OK) return status;
    arena_init(&k.arena, ctl->arena.alloc, ANSWER_BYTES_MAX);
    status = v->once ? keep_once(&k, em) : keep(&k, em);
    client_stream_close(k.stream);
    arena_deinit(&k.arena);
    return status;
}

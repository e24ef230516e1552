/* etcd-ctl: what its commands share. */
#ifndef ETCD_CTL_CTL_H
#define ETCD_CTL_CTL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/errmsg.h"
#include "cli/command.h"
#include "cli/out.h"
#include "cli/print.h"
#include "client/client.h"

#define CTL_VERSION     "3.7.1"
#define CTL_API_VERSION "3.7"

/* Values of the flags that every command takes (globals.c). */
struct ctl_globals {
    struct cli_words endpoints;
    bool debug, hex;
    bool insecure_transport, insecure_discovery, insecure_skip_verify;
    struct bytes write_out;
    struct bytes cert, key, cacert;
    struct bytes token, user, password;
    struct bytes discovery_srv, discovery_srv_name;
    int64_t dial_timeout_ns, command_timeout_ns;
    int64_t keepalive_time_ns, keepalive_timeout_ns;
    int64_t max_request_bytes, max_recv_bytes;
};

enum { CTL_GLOBAL_ROWS = 21 };
extern const struct cli_flag ctl_global_rows[CTL_GLOBAL_ROWS];

/* One run of the program. */
struct ctl {
    struct ctl_globals globals;
    struct arena arena;         /* for the run */
    struct cli_out out, err;    /* the standard streams */
    struct cli_printer printer; /* set by ctl_settings() */
    char *const *environ;
    bool timeout_given;          /* --command-timeout, or its variable */
    const char *user, *password; /* of the login, NULL: none; set by ctl_settings() */
    struct client *client;       /* of ctl_connect(); NULL before */
};

extern const struct cli_command ctl_root;
extern const char *const ctl_groups[];
enum { CTL_GROUPS = 5 };

/* --- settings and client (client.c) ------------------------------------------------------------- */

/* Completes the settings: environment, files of TLS, credentials (may ask), output format, in upstream's order. Returns
 * an exit code. */
int ctl_settings(struct ctl *ctl, struct cli_call *call, struct errmsg *em);

/* Asks for the password once more, where upstream does. */
int ctl_credentials(struct ctl *ctl, struct errmsg *em);

/* Gives a client of some endpoints, logged in where credentials were given. Returns an exit code. Any thread may, since
 * nothing of `ctl` is changed. */
int ctl_dial(const struct ctl *ctl, const struct cli_words *endpoints, struct client **out,
             struct errmsg *em);

/* ctl_settings(), and a client of all endpoints in `ctl->client`. */
int ctl_connect(struct ctl *ctl, struct cli_call *call, struct errmsg *em);

/* --- calls ------------------------------------------------------------------------------------------ */

struct ctl_rpc {
    const char *path;
    const ProtobufCMessageDescriptor *answer;
    bool read;       /* may be tried again */
    bool no_timeout; /* --command-timeout counts only when it was given */
};

/* Does one call; `*answer` lives in `arena`. Returns CLI_OK, or CLI_ERROR with the words for the user. `*rc` (may be NULL) is the
 * error itself. */
int ctl_call(const struct ctl *ctl, struct client *c, const struct ctl_rpc *rpc,
             const ProtobufCMessage *request, struct arena *arena, ProtobufCMessage **answer,
             struct errmsg *em, int *rc);

/* Calls that more than one command makes; the answer lives in `arena`. Return an exit code. */
int ctl_members(const struct ctl *ctl, struct client *c, bool serializable, struct arena *arena,
                Etcdserverpb__MemberListResponse **out, struct errmsg *em);
int ctl_alarms(const struct ctl *ctl, struct client *c, struct arena *arena,
               Etcdserverpb__AlarmResponse **out, struct errmsg *em);

/* The settings, and the endpoints they name: those given, or with `*cluster` those of all members. The flag is looked at
 * when the settings are complete, since a variable may have set it. Returns an exit code. */
int ctl_endpoints(struct ctl *ctl, struct cli_call *call, const bool *cluster,
                  struct cli_words *out, struct errmsg *em);

/* The answer to a range, fetched in chunks; lives in the run's arena. Returns an exit code. */
int ctl_range_stream(struct ctl *ctl, const Etcdserverpb__RangeRequest *request,
                     ProtobufCMessage **answer, struct errmsg *em);

/* The rest of standard input, in the run's arena. Returns an exit code. */
int ctl_read_input(struct ctl *ctl, struct bytes *out, struct errmsg *em);

/* Warns of the deletion of a range, and gives two seconds to think again. */
void ctl_warn_range(struct ctl *ctl, struct bytes from, struct bytes to);

/* --- commands: one function each, with the rows in commands.c ---------------------------------------- */

int ctl_get(void *arg, struct cli_call *call, struct errmsg *em);
int ctl_put(void *arg, struct cli_call *call, struct errmsg *em);
int ctl_del(void *arg, struct cli_call *call, struct errmsg *em);
int ctl_txn(void *arg, struct cli_call *call, struct errmsg *em);
int ctl_compaction(void *arg, struct cli_call *call, struct errmsg *em);
int ctl_alarm_list(void *arg, struct cli_call *call, struct errmsg *em);
int ctl_alarm_disarm(void *arg, struct cli_call *call, struct errmsg *em);
int ctl_endpoint_health(void *arg, struct cli_call *call, struct errmsg *em);
int ctl_endpoint_status(void *arg, struct cli_call *call, struct errmsg *em);
int ctl_endpoint_hashkv(void *arg, struct cli_call *call, struct errmsg *em);
int ctl_member_list(void *arg, struct cli_call *call, struct errmsg *em);
int ctl_lease_grant(void *arg, struct cli_call *call, struct errmsg *em);
int ctl_lease_revoke(void *arg, struct cli_call *call, struct errmsg *em);
int ctl_lease_time_to_live(void *arg, struct cli_call *call, struct errmsg *em);
int ctl_lease_list(void *arg, struct cli_call *call, struct errmsg *em);
int ctl_lease_keep_alive(void *arg, struct cli_call *call, struct errmsg *em);
int ctl_defrag(void *arg, struct cli_call *call, struct errmsg *em);
int ctl_version(void *arg, struct cli_call *call, struct errmsg *em);

/* Their flags. */
struct ctl_txn_values {
    bool interactive;
};
struct ctl_compaction_values {
    bool physical;
};
struct ctl_endpoint_values {
    bool cluster;
};
struct ctl_time_to_live_values {
    bool keys;
};
struct ctl_keep_alive_values {
    bool once;
};
struct ctl_hashkv_values {
    int64_t revision;
};
struct ctl_member_list_values {
    struct bytes consistency;
};

#endif

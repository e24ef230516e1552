/* The table of commands: what is not here does not exist. Adding one is a row and its function. */
#include "cli/kv.h"
#include "ctl.h"
#include "watch.h"

enum group { KV, CLUSTER, CONCURRENCY, AUTH, UTILITY };

const char *const ctl_groups[CTL_GROUPS] = {[KV] = "Key-value commands",
                                            [CLUSTER] = "Cluster maintenance commands",
                                            [CONCURRENCY] = "Concurrency commands",
                                            [AUTH] = "Authentication commands",
                                            [UTILITY] = "Utility commands"};

/* --- flags of all commands (ctl_globals), by name, since the environment is read in this order ------ */

#define GLOBAL(field) offsetof(struct ctl_globals, field)

const struct cli_flag ctl_global_rows[CTL_GLOBAL_ROWS] = {
    {"auth-jwt-token", CLI_STRING, 0, GLOBAL(token), NULL,
     "token to send with every request, in place of a login", NULL},
    {"cacert", CLI_STRING, 0, GLOBAL(cacert), NULL, "bundle of CA certificates to trust", NULL},
    {"cert", CLI_STRING, 0, GLOBAL(cert), NULL, "certificate to show to the server", NULL},
    {"command-timeout", CLI_DURATION, 0, GLOBAL(command_timeout_ns), "5s",
     "time for each request of a short command", NULL},
    {"debug", CLI_BOOL, 0, GLOBAL(debug), NULL, "print the settings in effect on standard error",
     NULL},
    {"dial-timeout", CLI_DURATION, 0, GLOBAL(dial_timeout_ns), "2s", "time for the login", NULL},
    {"discovery-srv", CLI_STRING, 'd', GLOBAL(discovery_srv), NULL,
     "domain whose SRV records name the endpoints", NULL},
    {"discovery-srv-name", CLI_STRING, 0, GLOBAL(discovery_srv_name), NULL,
     "name of the service in those records", NULL},
    {"endpoints", CLI_LIST, 0, GLOBAL(endpoints), "127.0.0.1:2379",
     "members to talk to: host:port, http://host:port, unix:PATH", NULL},
    {"hex", CLI_BOOL, 0, GLOBAL(hex), NULL, "print byte strings and ids in hexadecimal", NULL},
    {"insecure-discovery", CLI_BOOL, 0, GLOBAL(insecure_discovery), "true",
     "accept http endpoints from SRV records", NULL},
    {"insecure-skip-tls-verify", CLI_BOOL, 0, GLOBAL(insecure_skip_verify), NULL,
     "do not check the server's certificate", NULL},
    {"insecure-transport", CLI_BOOL, 0, GLOBAL(insecure_transport), "true",
     "no TLS unless something asks for it", NULL},
    {"keepalive-time", CLI_DURATION, 0, GLOBAL(keepalive_time_ns), "2s",
     "silence after which the server is pinged; at least 10 s", NULL},
    {"keepalive-timeout", CLI_DURATION, 0, GLOBAL(keepalive_timeout_ns), "6s",
     "time for the answer to a ping", NULL},
    {"key", CLI_STRING, 0, GLOBAL(key), NULL, "private key of the certificate", NULL},
    {"max-recv-bytes", CLI_INT, 0, GLOBAL(max_recv_bytes), NULL,
     "largest answer to accept; 0 means 2147483647", NULL},
    {"max-request-bytes", CLI_INT, 0, GLOBAL(max_request_bytes), NULL,
     "largest request to send; 0 means 2 MiB", NULL},
    {"password", CLI_STRING, 0, GLOBAL(password), NULL, "password of --user", NULL},
    {"user", CLI_STRING, 0, GLOBAL(user), NULL,
     "name[:password] to log in with; asks for a missing password", NULL},
    {"write-out", CLI_STRING, 'w', GLOBAL(write_out), "simple",
     "output format: fields, json, protobuf, simple or table",
     "fields json protobuf simple table"}};

/* --- the commands' own flags ------------------------------------------------------------------------ */

static const struct cli_flag TXN_ROWS[] = {{"interactive", CLI_BOOL, 'i',
                                            offsetof(struct ctl_txn_values, interactive), NULL,
                                            "say what to type next", NULL}};
static const struct cli_flag COMPACTION_ROWS[] = {
    {"physical", CLI_BOOL, 0, offsetof(struct ctl_compaction_values, physical), NULL,
     "wait until the old revisions are removed from the store", NULL}};
static const struct cli_flag ENDPOINT_ROWS[] = {
    {"cluster", CLI_BOOL, 0, offsetof(struct ctl_endpoint_values, cluster), NULL,
     "take the endpoints from the cluster's member list", NULL}};
static const struct cli_flag HASHKV_ROWS[] = {{"rev", CLI_INT, 0,
                                               offsetof(struct ctl_hashkv_values, revision), NULL,
                                               "newest revision to hash; 0 means all", NULL}};
static const struct cli_flag MEMBER_LIST_ROWS[] = {
    {"consistency", CLI_STRING, 0, offsetof(struct ctl_member_list_values, consistency), "l",
     "ask the cluster first (l), or take what this member has (s)", "l s"}};

static const struct cli_flag TIME_TO_LIVE_ROWS[] = {
    {"keys", CLI_BOOL, 0, offsetof(struct ctl_time_to_live_values, keys), NULL,
     "list the keys that hang on the lease, too", NULL}};
static const struct cli_flag KEEP_ALIVE_ROWS[] = {{"once", CLI_BOOL, 0,
                                                   offsetof(struct ctl_keep_alive_values, once),
                                                   NULL, "renew once and end", NULL}};

/* --- subcommands ------------------------------------------------------------------------------------ */

static const struct cli_command ALARM_SUBS[] = {
    {.name = "disarm", .brief = "Clear all alarms", .run = ctl_alarm_disarm},
    {.name = "list", .brief = "List all alarms", .run = ctl_alarm_list},
};

static const struct cli_command ENDPOINT_SUBS[] = {
    {.name = "hashkv",
     .brief = "Print the hash of each endpoint's history of keys",
     .rows = HASHKV_ROWS,
     .row_count = 1,
     .values_bytes = sizeof(struct ctl_hashkv_values),
     .run = ctl_endpoint_hashkv},
    {.name = "health",
     .brief = "Check whether each endpoint can commit",
     .run = ctl_endpoint_health},
    {.name = "status",
     .brief = "Print the state of each endpoint",
     .details = "Print the state of each endpoint.\n\n"
                "In format simple a line holds, between commas: endpoint, id, version, storage "
                "version, size of\n"
                "the store, size in use, percentage not in use, quota, whether it leads, whether "
                "it is a learner,\n"
                "term, raft index, applied index, errors, downgrade target, whether a downgrade is "
                "enabled.",
     .run = ctl_endpoint_status},
};

static const struct cli_command LEASE_SUBS[] = {
    {.name = "grant",
     .usage = "<ttl>",
     .brief = "Make a lease that runs out after some seconds",
     .run = ctl_lease_grant},
    {.name = "keep-alive",
     .usage = "[options] <leaseID>",
     .brief = "Keep a lease alive",
     .rows = KEEP_ALIVE_ROWS,
     .row_count = 1,
     .values_bytes = sizeof(struct ctl_keep_alive_values),
     .run = ctl_lease_keep_alive},
    {.name = "list", .brief = "List all leases", .run = ctl_lease_list},
    {.name = "revoke",
     .usage = "<leaseID>",
     .brief = "End a lease and delete its keys",
     .run = ctl_lease_revoke},
    {.name = "timetolive",
     .usage = "<leaseID> [options]",
     .brief = "Show how long a lease still lives",
     .rows = TIME_TO_LIVE_ROWS,
     .row_count = 1,
     .values_bytes = sizeof(struct ctl_time_to_live_values),
     .run = ctl_lease_time_to_live},
};

static const struct cli_command MEMBER_SUBS[] = {
    {.name = "list",
     .brief = "List all members of the cluster",
     .details = "List all members of the cluster.\n\n"
                "In format simple a line holds, between commas: id, status, name, peer URLs, "
                "client URLs, whether\n"
                "it is a learner.",
     .rows = MEMBER_LIST_ROWS,
     .row_count = 1,
     .values_bytes = sizeof(struct ctl_member_list_values),
     .run = ctl_member_list},
};

static const char TXN_DETAILS[] =
    "Do all of some requests or none, depending on comparisons read from standard input.\n\n"
    "Three parts are read, each ended by an empty line: comparisons, requests for when all of "
    "them\n"
    "hold, requests for when one does not.\n\n"
    "    comparison   TARGET(\"KEY\") OP \"VALUE\"     TARGET: ver create mod val lease; OP: = != "
    "< "
    ">\n"
    "    request      get|put|del ARGUMENTS       as on the command line, with the same flags\n\n"
    "Example:\n\n"
    "    mod(\"key1\") > \"0\"\n\n"
    "    put key1 \"changed\"\n\n"
    "    put key1 \"created\"\n"
    "    put key2 \"created, too\"\n\n"
    "Words in double quotes may hold the escapes of Go, words in single quotes hold what they "
    "hold.";

/* --- the commands, in the order of suggestions --------------------------------------------------------- */

static const struct cli_command COMMANDS[] = {
    {.name = "get",
     .usage = "[options] <key> [range_end]",
     .brief = "Get a key or a range of keys",
     .group = KV,
     .rows = cli_get_rows,
     .row_count = CLI_GET_ROWS,
     .values_bytes = sizeof(struct cli_get_values),
     .run = ctl_get},
    {.name = "put",
     .usage = "[options] <key> <value> (<value> can also be given from stdin)",
     .brief = "Set a key",
     .details = "Set a key to a value.\n\n"
                "Without <value> all of standard input is the value, byte for byte, the last "
                "newline too.\n"
                "A key or value that begins with a dash needs -- before it: put -- -key -value.",
     .group = KV,
     .rows = cli_put_rows,
     .row_count = CLI_PUT_ROWS,
     .values_bytes = sizeof(struct cli_put_values),
     .run = ctl_put},
    {.name = "del",
     .usage = "[options] <key> [range_end]",
     .brief = "Delete a key or a range of keys [key, range_end)",
     .group = KV,
     .rows = cli_del_rows,
     .row_count = CLI_DEL_ROWS,
     .values_bytes = sizeof(struct cli_del_values),
     .run = ctl_del},
    {.name = "txn",
     .usage = "[options]",
     .brief = "Do all of some requests or none, read from standard input",
     .details = TXN_DETAILS,
     .group = KV,
     .rows = TXN_ROWS,
     .row_count = 1,
     .values_bytes = sizeof(struct ctl_txn_values),
     .run = ctl_txn},
    {.name = "compaction",
     .usage = "[options] <revision>",
     .brief = "Drop the history before a revision",
     .group = KV,
     .rows = COMPACTION_ROWS,
     .row_count = 1,
     .values_bytes = sizeof(struct ctl_compaction_values),
     .run = ctl_compaction},
    {.name = "alarm",
     .brief = "List or clear alarms",
     .group = CLUSTER,
     .subs = ALARM_SUBS,
     .sub_count = sizeof ALARM_SUBS / sizeof *ALARM_SUBS},
    {.name = "defrag",
     .brief = "Give free space of the store back, member by member",
     .group = CLUSTER,
     .rows = ENDPOINT_ROWS,
     .row_count = 1,
     .values_bytes = sizeof(struct ctl_endpoint_values),
     .run = ctl_defrag},
    {.name = "endpoint",
     .brief = "Health, state and hashes of endpoints",
     .group = CLUSTER,
     .rows = ENDPOINT_ROWS,
     .row_count = 1,
     .values_bytes = sizeof(struct ctl_endpoint_values),
     .subs = ENDPOINT_SUBS,
     .sub_count = sizeof ENDPOINT_SUBS / sizeof *ENDPOINT_SUBS},
    {.name = "watch",
     .usage = "[options] [<key> [range_end]] [-- <command> [arguments]]",
     .brief = "Print the events of keys as they happen",
     .details =
         "Print the events of keys as they happen, or run a command for each.\n\n"
         "Key and range may also come from ETCDCTL_WATCH_KEY and ETCDCTL_WATCH_RANGE_END. The "
         "command finds\n"
         "ETCD_WATCH_REVISION, ETCD_WATCH_EVENT_TYPE, ETCD_WATCH_KEY and ETCD_WATCH_VALUE in its "
         "environment,\n"
         "the last three in quotes. With --interactive, lines of standard input are `watch ...` "
         "or `progress`.",
     .group = KV,
     .rows = ctl_watch_rows,
     .row_count = CTL_WATCH_ROWS,
     .values_bytes = sizeof(struct ctl_watch_values),
     .run = ctl_watch},
    {.name = "version", .brief = "Print the version", .group = UTILITY, .run = ctl_version},
    {.name = "lease",
     .brief = "Leases: keys that go when nobody renews them",
     .group = KV,
     .subs = LEASE_SUBS,
     .sub_count = sizeof LEASE_SUBS / sizeof *LEASE_SUBS},
    {.name = "member",
     .brief = "Members of the cluster",
     .group = CLUSTER,
     .subs = MEMBER_SUBS,
     .sub_count = sizeof MEMBER_SUBS / sizeof *MEMBER_SUBS},
    {.name = "completion",
     .usage = "[bash|zsh|fish|powershell]",
     .brief = "Print the script that completes commands in a shell",
     .details = "Print the script that completes commands in a shell. For bash:\n\n"
                "    source <(etcdctl completion bash)",
     .group = UTILITY,
     .choices = "bash zsh fish powershell",
     .run = cli_run_completion},
    {.name = "help",
     .usage = "[command]",
     .brief = "Help about any command",
     .group = UTILITY,
     .run = cli_run_help},
    {.name = "options",
     .brief = "Show the flags that every command takes",
     .group = UTILITY,
     .run = cli_run_options},
    {.name = "__complete", .brief = "", .hidden = true, .raw = true, .run = cli_run_complete},
    {.name = "__completeNoDesc",
     .brief = "",
     .hidden = true,
     .raw = true,
     .run = cli_run_complete_bare},
    {.name = "__manual", .brief = "", .hidden = true, .run = cli_run_manual},
};

const struct cli_command ctl_root = {.name = "",
                                     .brief = "command line client of etcd",
                                     .details = "The command line client of etcd.",
                                     .subs = COMMANDS,
                                     .sub_count = sizeof COMMANDS / sizeof *COMMANDS};

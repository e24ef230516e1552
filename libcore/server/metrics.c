/* The text of /metrics: Prometheus 0.0.4, names and meanings as upstream's.
 *
 * One table for what is a single number; what has labels or buckets has a function each. Numbers look as Go prints
 * them, since dashboards compare `le` as text. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "alarm/alarm.h"
#include "base/err.h"
#include "membership/membership.h"
#include "os/proc.h"
#include "server/server_int.h"

enum { NUMBER_BYTES_MAX = 352, DIGITS_MAX = 17, EXPONENT_MIN = -4, EXPONENT_MAX = 6 };

/* What is looked at once for a whole answer. */
struct scrape {
    struct server *s;
    struct proc_stats process;
    uint64_t received_bytes, sent_bytes;
    struct rpc_watch_counts watch;
};

/* --- numbers and lines -------------------------------------------------------------------------- */

/* As Go's strconv 'g' with the fewest digits: with an exponent below 1e-04 and from 1e+06 on. */
static void number_text(double v, char out[NUMBER_BYTES_MAX])
{
    char e[40];
    int digits = 1;
    do
        snprintf(e, sizeof e, "%.*e", digits - 1, v);
    while (strtod(e, NULL) != v && ++digits <= DIGITS_MAX);
    int exponent = (int)strtol(strchr(e, 'e') + 1, NULL, 10);
    if (exponent < EXPONENT_MIN || exponent >= EXPONENT_MAX) {
        snprintf(out, NUMBER_BYTES_MAX, "%s", e);
        return;
    }
    int decimals = digits - 1 - exponent;
    snprintf(out, NUMBER_BYTES_MAX, "%.*f", decimals > 0 ? decimals : 0, v);
}

static int put_head(struct buf *out, const char *name, const char *help, const char *type)
{
    return buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* One sample; `labels` with their braces, or "". */
static int put_value(struct buf *out, const char *name, const char *labels, double v)
{
    char text[NUMBER_BYTES_MAX];
    number_text(v, text);
    return buf_printf(out, "%s%s %s\n", name, labels, text);
}

/* --- single numbers --------------------------------------------------------------------------------- */

#define STATUS(field) (double)atomic_load(&c->s->status.field)
#define COUNT(field)  (double)atomic_load(&c->s->counts.field)
#define VALUE(name, expression)                                                                    \
    static double name(const struct scrape *c)                                                     \
    {                                                                                              \
        return (double)(expression);                                                               \
    }

VALUE(has_leader, atomic_load(&c->s->status.lead) != 0)
VALUE(is_leader, STATUS(leader))
VALUE(is_learner, STATUS(learner))
VALUE(committed, STATUS(commit))
VALUE(applied, STATUS(applied))
VALUE(pending, COUNT(proposals_pending))
VALUE(failed, COUNT(proposals_failed))
VALUE(reads_failed, COUNT(reads_failed))
VALUE(leader_changes, COUNT(leader_changes))
VALUE(lease_granted, COUNT(lease_granted))
VALUE(lease_renewed, COUNT(lease_renewed))
VALUE(lease_revoked, COUNT(lease_revoked))
VALUE(lease_ran_out, COUNT(lease_expired))
VALUE(defragmenting, COUNT(defragmenting))
VALUE(quota, c->s->config->quota_backend_bytes == 0 ? APPLY_QUOTA_BYTES_DEFAULT
                                                    : c->s->config->quota_backend_bytes)
VALUE(db_bytes, atomic_load(&c->s->db_bytes))
VALUE(db_in_use, atomic_load(&c->s->db_in_use_bytes))
VALUE(keys, mvcc_key_count(c->s->mvcc))
VALUE(revision, mvcc_revision(c->s->mvcc))
VALUE(compacted, mvcc_compacted(c->s->mvcc))
VALUE(watch_events, c->watch.events)
VALUE(watch_streams, c->watch.streams)
VALUE(watchers, c->watch.watchers)
VALUE(watchers_behind, c->watch.behind)
VALUE(watch_pending, 0 * c->watch.events) /* events wait as revisions, never in a queue */
VALUE(received, c->received_bytes)
VALUE(sent, c->sent_bytes)
VALUE(health_good, atomic_load(&c->s->health.good))
VALUE(health_bad, atomic_load(&c->s->health.bad))
VALUE(cpu, c->process.cpu_s)
VALUE(max_fds, c->process.max_fds)
VALUE(open_fds, c->process.open_fds)
VALUE(resident, c->process.resident_bytes)
VALUE(start_time, c->process.start_time_s)
VALUE(virtual_bytes, c->process.virtual_bytes)
VALUE(virtual_max, c->process.virtual_bytes_max)
VALUE(net_received, c->process.network_receive_bytes)
VALUE(net_sent, c->process.network_transmit_bytes)

struct metric {
    const char *name;
    const char *type;
    const char *help;
    double (*value)(const struct scrape *c);
};

static const struct metric METRICS[] = {
    {"etcd_debugging_lease_granted_total", "counter", "The total number of granted leases.",
     lease_granted},
    {"etcd_debugging_lease_renewed_total", "counter",
     "The number of renewed leases seen by the leader.", lease_renewed},
    {"etcd_debugging_lease_revoked_total", "counter", "The total number of revoked leases.",
     lease_revoked},
    {"etcd_debugging_mvcc_compact_revision", "gauge",
     "The revision of the last compaction in store.", compacted},
    {"etcd_debugging_mvcc_current_revision", "gauge", "The current revision of store.", revision},
    {"etcd_debugging_mvcc_events_total", "counter", "Total number of events sent by this member.",
     watch_events},
    {"etcd_debugging_mvcc_keys_total", "gauge", "Total number of keys.", keys},
    {"etcd_debugging_mvcc_pending_events_total", "gauge",
     "Total number of pending events to be sent.", watch_pending},
    {"etcd_debugging_mvcc_slow_watcher_total", "gauge", "Total number of unsynced slow watchers.",
     watchers_behind},
    {"etcd_debugging_mvcc_watch_stream_total", "gauge", "Total number of watch streams.",
     watch_streams},
    {"etcd_debugging_mvcc_watcher_total", "gauge", "Total number of watchers.", watchers},
    {"etcd_debugging_server_lease_expired_total", "counter", "The total number of expired leases.",
     lease_ran_out},
    {"etcd_disk_defrag_inflight", "gauge",
     "Whether or not defrag is active on the member. 1 means active, 0 means not.", defragmenting},
    {"etcd_mvcc_db_total_size_in_bytes", "gauge",
     "Total size of the underlying database physically allocated in bytes.", db_bytes},
    {"etcd_mvcc_db_total_size_in_use_in_bytes", "gauge",
     "Total size of the underlying database logically in use in bytes.", db_in_use},
    {"etcd_network_client_grpc_received_bytes_total", "counter",
     "The total number of bytes received from grpc clients.", received},
    {"etcd_network_client_grpc_sent_bytes_total", "counter",
     "The total number of bytes sent to grpc clients.", sent},
    {"etcd_server_has_leader", "gauge", "Whether or not a leader exists. 1 is existence, 0 is not.",
     has_leader},
    {"etcd_server_health_failures", "counter", "The total number of failed health checks",
     health_bad},
    {"etcd_server_health_success", "counter", "The total number of successful health checks",
     health_good},
    {"etcd_server_is_leader", "gauge",
     "Whether or not this member is a leader. 1 if is, 0 otherwise.", is_leader},
    {"etcd_server_is_learner", "gauge",
     "Whether or not this member is a learner. 1 if is, 0 otherwise.", is_learner},
    {"etcd_server_leader_changes_seen_total", "counter", "The number of leader changes seen.",
     leader_changes},
    {"etcd_server_proposals_applied_total", "gauge",
     "The total number of consensus proposals applied.", applied},
    {"etcd_server_proposals_committed_total", "gauge",
     "The total number of consensus proposals committed.", committed},
    {"etcd_server_proposals_failed_total", "counter", "The total number of failed proposals seen.",
     failed},
    {"etcd_server_proposals_pending", "gauge", "The current number of pending proposals to commit.",
     pending},
    {"etcd_server_quota_backend_bytes", "gauge", "Current backend storage quota size in bytes.",
     quota},
    {"etcd_server_read_indexes_failed_total", "counter",
     "The total number of failed read indexes seen.", reads_failed},
    {"os_fd_limit", "gauge", "The file descriptor limit.", max_fds},
    {"os_fd_used", "gauge", "The number of used file descriptors.", open_fds},
    {"process_cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.",
     cpu},
    {"process_max_fds", "gauge", "Maximum number of open file descriptors.", max_fds},
    {"process_network_receive_bytes_total", "counter",
     "Number of bytes received by the process over the network.", net_received},
    {"process_network_transmit_bytes_total", "counter",
     "Number of bytes sent by the process over the network.", net_sent},
    {"process_open_fds", "gauge", "Number of open file descriptors.", open_fds},
    {"process_resident_memory_bytes", "gauge", "Resident memory size in bytes.", resident},
    {"process_start_time_seconds", "gauge",
     "Start time of the process since unix epoch in seconds.", start_time},
    {"process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", virtual_bytes},
    {"process_virtual_memory_max_bytes", "gauge",
     "Maximum amount of virtual memory available in bytes.", virtual_max},
};

static int put_singles(const struct scrape *c, struct buf *out)
{
    int rc = 0;
    for (size_t i = 0; i < sizeof METRICS / sizeof *METRICS && rc == 0; i++) {
        const struct metric *m = &METRICS[i];
        rc = put_head(out, m->name, m->help, m->type);
        if (rc == 0) rc = put_value(out, m->name, "", m->value(c));
    }
    return rc;
}

/* --- names as labels ---------------------------------------------------------------------------------- */

static int put_named(struct buf *out, const char *name, const char *help, const char *label,
                     const char *value)
{
    int rc = put_head(out, name, help, "gauge");
    return rc < 0 ? rc : buf_printf(out, "%s{%s=\"%s\"} 1\n", name, label, value);
}

/* "3.7.0" shows as "3.7". */
static int put_cluster_version(struct server *s, struct buf *out)
{
    struct membership *m = s->member.members(s);
    struct bytes v = membership_version(m);
    char text[32];
    snprintf(text, sizeof text, "%.*s", (int)(v.len < 31 ? v.len : 31), (const char *)v.data);
    membership_unref(m);
    char *last = strrchr(text, '.');
    if (last == NULL) return 0;
    *last = '\0';
    return put_named(out, "etcd_cluster_version",
                     "Which version is running. 1 for 'cluster_version' label with current cluster "
                     "version",
                     "cluster_version", text);
}

static int put_alarms(struct server *s, struct buf *out)
{
    static const char NAME[] = "etcd_debugging_server_alarms";
    struct alarms *alarms = s->member.alarms(s);
    size_t n = alarm_count(alarms);
    int rc =
        n == 0 ? 0
               : put_head(out, NAME, "Alarms for every member in cluster. 1 for raised.", "gauge");
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct pb_alarm a = alarm_at(alarms, i);
        const char *type = a.type == ALARM_NOSPACE   ? "NOSPACE"
                           : a.type == ALARM_CORRUPT ? "CORRUPT"
                                                     : "NONE";
        rc = buf_printf(out, "%s{alarm_type=\"%s\",server_id=\"%" PRIx64 "\"} 1\n", NAME, type,
                        a.member_id);
    }
    alarm_unref(alarms);
    return rc;
}

static int put_names(struct server *s, struct buf *out)
{
    char id[17];
    snprintf(id, sizeof id, "%" PRIx64, s->member_id);
    int rc = put_named(out, "etcd_server_id",
                       "Server or member ID in hexadecimal format. 1 for 'server_id' label with "
                       "current ID.",
                       "server_id", id);
    if (rc == 0) {
        rc = put_named(
            out, "etcd_server_version",
            "Which version is running. 1 for 'server_version' label with current version.",
            "server_version", RPC_SERVER_VERSION);
    }
    if (rc == 0) {
        rc = put_named(out, "etcd_server_go_version",
                       "Which tool chain built the server. 1 for its label.", "server_go_version",
                       "C17 " __VERSION__);
    }
    if (rc == 0) rc = put_cluster_version(s, out);
    return rc < 0 ? rc : put_alarms(s, out);
}

/* --- histograms ---------------------------------------------------------------------------------------- */

static int put_histogram(struct buf *out, const char *name, const char *help,
                         const struct histogram *h)
{
    uint64_t sum = 0;
    char le[NUMBER_BYTES_MAX];
    int rc = put_head(out, name, help, "histogram");
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS && rc == 0; i++) {
        sum += atomic_load_explicit(&h->bucket[i], memory_order_relaxed);
        number_text((double)((uint64_t)HISTOGRAM_FIRST_NS << i) / 1e9, le);
        rc = buf_printf(out, "%s_bucket{le=\"%s\"} %" PRIu64 "\n", name, le, sum);
    }
    sum += atomic_load_explicit(&h->bucket[HISTOGRAM_BUCKETS], memory_order_relaxed);
    if (rc == 0) rc = buf_printf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, sum);
    if (rc == 0) rc = buf_printf(out, "%s_sum", name);
    if (rc == 0) rc = put_value(out, "", "", (double)atomic_load(&h->sum_ns) / 1e9);
    return rc < 0 ? rc : buf_printf(out, "%s_count %" PRIu64 "\n", name, sum);
}

static int put_histograms(const struct server *s, struct buf *out)
{
    const struct server_counts *c = &s->counts;
    int rc = put_histogram(out, "etcd_disk_wal_fsync_duration_seconds",
                           "The latency distributions of fsync called by WAL.", &c->wal_fsync);
    if (rc == 0) {
        rc = put_histogram(out, "etcd_disk_wal_write_duration_seconds",
                           "The latency distributions of write called by WAL.", &c->wal_write);
    }
    if (rc == 0) {
        rc = put_histogram(out, "etcd_disk_backend_commit_duration_seconds",
                           "The latency distributions of commit called by backend.", &c->commit);
    }
    if (rc == 0) {
        rc = put_histogram(out, "etcd_debugging_snap_save_total_duration_seconds",
                           "The total latency distributions of save called by snapshot.",
                           &c->snap_save);
    }
    return rc;
}

/* --- health checks --------------------------------------------------------------------------------------- */

static const char *const PROBES[RPC_PROBES] = {"livez", "readyz"};

static int put_check(struct buf *out, const struct rpc_health_counts *h, enum rpc_probe p, size_t i,
                     bool last)
{
    uint64_t ok = atomic_load(&h->check[p][i].ok);
    uint64_t failed = atomic_load(&h->check[p][i].failed);
    if (!rpc_check_in(p, i) || ok + failed == 0) return 0;
    const char *name = rpc_check_name(i);
    if (last) {
        return buf_printf(out, "etcd_server_healthcheck{name=\"%s\",type=\"%s\"} %d\n", name,
                          PROBES[p], atomic_load(&h->check[p][i].last) ? 1 : 0);
    }
    int rc = 0;
    const uint64_t counts[] = {failed, ok};
    for (size_t k = 0; k < 2 && rc == 0; k++) {
        if (counts[k] == 0) continue;
        rc = buf_printf(out,
                        "etcd_server_healthchecks_total{name=\"%s\",status=\"%s\",type=\"%s\"} "
                        "%" PRIu64 "\n",
                        name, k == 0 ? "error" : "success", PROBES[p], counts[k]);
    }
    return rc;
}

static int put_checks(const struct server *s, struct buf *out, bool last)
{
    int rc = last ? put_head(out, "etcd_server_healthcheck",
                             "The result of each kind of healthcheck.", "gauge")
                  : put_head(out, "etcd_server_healthchecks_total",
                             "The total number of each kind of healthcheck.", "counter");
    for (int p = 0; p < RPC_PROBES && rc == 0; p++) {
        for (size_t i = 0; i < RPC_CHECKS && rc == 0; i++)
            rc = put_check(out, &s->health, (enum rpc_probe)p, i, last);
    }
    return rc;
}

/* --- requests ---------------------------------------------------------------------------------------------- */

static const char *const CODES[RPC_CODES] = {
    "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
    "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
    "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
    "DataLoss", "Unauthenticated"};

static const char *kind_text(enum grpc_kind kind)
{
    static const char *const TEXTS[] = {[GRPC_UNARY] = "unary",
                                        [GRPC_SERVER_STREAM] = "server_stream",
                                        [GRPC_CLIENT_STREAM] = "client_stream",
                                        [GRPC_BIDI] = "bidi_stream"};
    return TEXTS[kind];
}

static struct rpc_counts counts_of(const struct server *s, size_t method)
{
    struct rpc_counts sum = {0};
    for (unsigned i = 0; i < s->io_count; i++)
        rpc_thread_counts(conn_set_rpc(s->io[i].conns), method, &sum);
    return sum;
}

static int put_handled(struct buf *out, size_t method, const struct rpc_counts *c)
{
    struct rpc_method_name m = rpc_method_name(method);
    int rc = 0;
    for (size_t code = 0; code < RPC_CODES && rc == 0; code++) {
        if (c->handled[code] == 0) continue;
        rc =
            buf_printf(out,
                       "grpc_server_handled_total{grpc_code=\"%s\",grpc_method=\"%s\",grpc_service="
                       "\"%s\",grpc_type=\"%s\"} %" PRIu64 "\n",
                       CODES[code], m.name, m.service, kind_text(m.kind), c->handled[code]);
    }
    return rc;
}

enum column { COLUMN_HANDLED, COLUMN_RECEIVED, COLUMN_SENT, COLUMN_STARTED, COLUMNS };

static int put_methods(const struct server *s, struct buf *out, enum column column)
{
    static const char *const NAMES[COLUMNS] = {
        "grpc_server_handled_total", "grpc_server_msg_received_total", "grpc_server_msg_sent_total",
        "grpc_server_started_total"};
    static const char *const HELPS[COLUMNS] = {
        "Total number of RPCs completed on the server, regardless of success or failure.",
        "Total number of RPC stream messages received on the server.",
        "Total number of gRPC stream messages sent by the server.",
        "Total number of RPCs started on the server."};
    int rc = put_head(out, NAMES[column], HELPS[column], "counter");
    for (size_t i = 0; i < rpc_method_count() && rc == 0; i++) {
        struct rpc_method_name m = rpc_method_name(i);
        struct rpc_counts c = counts_of(s, i);
        const uint64_t values[COLUMNS] = {0, c.received, c.sent, c.started};
        if (column == COLUMN_HANDLED) {
            rc = put_handled(out, i, &c);
            continue;
        }
        rc = buf_printf(out,
                        "%s{grpc_method=\"%s\",grpc_service=\"%s\",grpc_type=\"%s\"} %" PRIu64 "\n",
                        NAMES[column], m.name, m.service, kind_text(m.kind), values[column]);
    }
    return rc;
}

static int put_versions(const struct server *s, struct buf *out)
{
    static const char NAME[] = "etcd_server_client_requests_total";
    struct rpc_version_counts sum[RPC_VERSIONS_MAX];
    size_t count = 0;
    for (unsigned i = 0; i < s->io_count; i++)
        count = rpc_thread_versions(conn_set_rpc(s->io[i].conns), sum, count, RPC_VERSIONS_MAX);
    if (count == 0) return 0;
    int rc =
        put_head(out, NAME, "The total number of client requests per client version.", "counter");
    for (size_t i = 0; i < count && rc == 0; i++) {
        const uint64_t values[] = {sum[i].stream, sum[i].unary};
        for (size_t k = 0; k < 2 && rc == 0; k++) {
            if (values[k] == 0) continue;
            rc = buf_printf(out, "%s{client_api_version=\"%s\",type=\"%s\"} %" PRIu64 "\n", NAME,
                            sum[i].version, k == 0 ? "stream" : "unary", values[k]);
        }
    }
    return rc;
}

/* --- all ------------------------------------------------------------------------------------------------------ */

int server__metrics(void *arg, struct buf *out)
{
    struct server *s = arg;
    struct scrape c = {.s = s};
    for (unsigned i = 0; i < s->io_count; i++) {
        rpc_thread_bytes(conn_set_rpc(s->io[i].conns), &c.received_bytes, &c.sent_bytes);
        rpc_thread_watches(conn_set_rpc(s->io[i].conns), &c.watch);
    }
    (void)proc_stats_read(&c.process); /* what cannot be read is 0 */
    int rc = put_singles(&c, out);
    if (rc == 0) rc = put_names(s, out);
    if (rc == 0) rc = put_histograms(s, out);
    if (rc == 0) rc = put_checks(s, out, true);
    if (rc == 0) rc = put_checks(s, out, false);
    if (rc == 0) rc = put_versions(s, out);
    for (int column = 0; column < COLUMNS && rc == 0; column++)
        rc = put_methods(s, out, (enum column)column);
    return rc;
}

/* The text of /metrics: Prometheus 0.0.4, names and meanings as upstream's. */
#include "server/server_int.h"

#include <inttypes.h>

#include "base/err.h"
#include "os/proc.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE };

static int put(struct buf *out, const char *name, const char *help, enum metric_type type,
               double value)
{
    return buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", name, help, name,
                      type == METRIC_COUNTER ? "counter" : "gauge", name, value);
}

static int put_process(struct buf *out)
{
    struct proc_stats p;
    if (proc_stats_read(&p) < 0) return 0;
    int rc = put(out, "process_cpu_seconds_total",
                 "Total user and system CPU time spent in seconds.", METRIC_COUNTER, p.cpu_s);
    if (rc == 0)
        rc = put(out, "process_max_fds", "Maximum number of open file descriptors.", METRIC_GAUGE,
                 (double)p.max_fds);
    if (rc == 0)
        rc = put(out, "process_open_fds", "Number of open file descriptors.", METRIC_GAUGE,
                 (double)p.open_fds);
    if (rc == 0) {
        rc = put(out, "process_resident_memory_bytes", "Resident memory size in bytes.",
                 METRIC_GAUGE, (double)p.resident_bytes);
    }
    if (rc == 0) {
        rc = put(out, "process_start_time_seconds",
                 "Start time of the process since unix epoch in seconds.", METRIC_GAUGE,
                 p.start_time_s);
    }
    if (rc == 0) {
        rc = put(out, "process_virtual_memory_bytes", "Virtual memory size in bytes.", METRIC_GAUGE,
                 (double)p.virtual_bytes);
    }
    return rc;
}

static int put_server(struct server *s, struct buf *out)
{
    const struct {
        const char *name;
        const char *help;
        enum metric_type type;
        double value;
    } rows[] = {
        {"etcd_server_has_leader", "Whether or not a leader exists. 1 is existence, 0 is not.",
         METRIC_GAUGE, atomic_load(&s->status.lead) != 0},
        {"etcd_server_is_leader", "Whether or not this member is a leader. 1 if is, 0 otherwise.",
         METRIC_GAUGE, atomic_load(&s->status.leader)},
        {"etcd_server_is_learner", "Whether or not this member is a learner. 1 if is, 0 otherwise.",
         METRIC_GAUGE, atomic_load(&s->status.learner)},
        {"etcd_server_proposals_committed_total",
         "The total number of consensus proposals committed.", METRIC_GAUGE,
         (double)atomic_load(&s->status.commit)},
        {"etcd_server_proposals_applied_total", "The total number of consensus proposals applied.",
         METRIC_GAUGE, (double)atomic_load(&s->status.applied)},
        {"etcd_mvcc_db_total_size_in_bytes",
         "Total size of the underlying database physically allocated in bytes.", METRIC_GAUGE,
         (double)atomic_load(&s->db_bytes)},
        {"etcd_mvcc_db_total_size_in_use_in_bytes",
         "Total size of the underlying database logically in use in bytes.", METRIC_GAUGE,
         (double)atomic_load(&s->db_in_use_bytes)},
        {"etcd_debugging_mvcc_keys_total", "Total number of keys.", METRIC_GAUGE,
         (double)mvcc_key_count(s->mvcc)},
        {"etcd_debugging_mvcc_current_revision", "The current revision of store.", METRIC_GAUGE,
         (double)mvcc_revision(s->mvcc)},
        {"etcd_debugging_mvcc_compact_revision", "The revision of the last compaction in store.",
         METRIC_GAUGE, (double)mvcc_compacted(s->mvcc)},
        {"etcd_server_quota_backend_bytes", "Current backend storage quota size in bytes.",
         METRIC_GAUGE,
         (double)(s->config->quota_backend_bytes == 0 ? APPLY_QUOTA_BYTES_DEFAULT
                                                      : s->config->quota_backend_bytes)}};
    int rc = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && rc == 0; i++) {
        rc = put(out, rows[i].name, rows[i].help, rows[i].type, rows[i].value);
    }
    return rc;
}

int server__metrics(void *arg, struct buf *out)
{
    struct server *s = arg;
    int rc = put_server(s, out);
    if (rc == 0) {
        rc = buf_printf(
            out,
            "# HELP etcd_server_id Server or member ID in hexadecimal format. 1 for 'server_id' "
            "label with "
            "current ID.\n# TYPE etcd_server_id gauge\netcd_server_id{server_id=\"%" PRIx64
            "\"} 1\n"
            "# HELP etcd_server_version Which version is running. 1 for 'server_version' label "
            "with current "
            "version.\n# TYPE etcd_server_version "
            "gauge\netcd_server_version{server_version=\"%s\"} 1\n",
            s->member_id, RPC_SERVER_VERSION);
    }
    return rc < 0 ? rc : put_process(out);
}

/* What must hold between flags and inside values, with upstream's words (server-flags.tsv). */
#include "server/config.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/url.h"

enum {
    QUOTA_WARN_GIB = 8, /* upstream never tested more */
    REQUEST_WARN_BYTES = 10 * 1024 * 1024,
    ELECTION_MS_MAX = 50000,
    REQUEST_BYTES_MAX = WAL_RECORD_BYTES_MAX - 1024 * 1024, /* with room for the entry's own head */
    IO_THREADS_FLAG_MAX = 64
};

static bool is_set(const struct config *c, enum config_id id)
{
    return c->origin[id] != CONFIG_FROM_DEFAULT;
}

/* The host of a listening URL must be an address: a name could mean several. */
static bool host_is_address(struct bytes host)
{
    char text[INET6_ADDRSTRLEN + 1];
    unsigned char address[16];
    if (bytes_eq(host, bytes_str("localhost"))) return true;
    if (host.len == 0 || host.len >= sizeof text) return host.len == 0;
    memcpy(text, host.data, host.len);
    text[host.len] = '\0';
    return inet_pton(AF_INET, text, address) == 1 || inet_pton(AF_INET6, text, address) == 1;
}

static int check_urls(const struct config_list *urls, const char *flag, bool listens,
                      struct errmsg *em)
{
    for (size_t i = 0; i < urls->count; i++) {
        struct url u;
        struct errmsg why = {""};
        if (url_parse(&u, bytes_str(urls->items[i]), &why) < 0) {
            errmsg_set(em, "invalid value \"%s\" for flag -%s: %s", urls->items[i], flag, why.text);
            return E_INVAL;
        }
        if (u.unix_socket) continue;
        if (listens && !host_is_address(u.host)) {
            errmsg_set(em, "expected IP in URL for binding (%s)", urls->items[i]);
            return E_CONFIG;
        }
        if (!listens && u.host.len == 0) {
            errmsg_set(em, "--%s [\"%s\"] must be \"host:port\" (unexpected empty host (%s))", flag,
                       urls->items[i], urls->items[i]);
            return E_CONFIG;
        }
    }
    return 0;
}

static int check_all_urls(const struct config *c, struct errmsg *em)
{
    const struct {
        const struct config_list *urls;
        const char *flag;
        bool listens;
        bool needed;
    } rows[] = {{&c->listen_peer_urls, "listen-peer-urls", true, true},
                {&c->listen_client_urls, "listen-client-urls", true, true},
                {&c->listen_client_http_urls, "listen-client-http-urls", true, false},
                {&c->listen_metrics_urls, "listen-metrics-urls", true, false},
                {&c->initial_advertise_peer_urls, "initial-advertise-peer-urls", false, true},
                {&c->advertise_client_urls, "advertise-client-urls", false, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].needed && rows[i].urls->count == 0) {
            errmsg_set(em, "--%s must name at least one URL", rows[i].flag);
            return E_CONFIG;
        }
        int rc = check_urls(rows[i].urls, rows[i].flag, rows[i].listens, em);
        if (rc < 0) return rc;
    }
    return 0;
}

/* There is no TLS listener: a scheme that asks for one is refused, never served in the clear. */
static int check_schemes(const struct config *c, struct errmsg *em)
{
    const struct config_list *lists[] = {&c->listen_peer_urls, &c->listen_client_urls,
                                         &c->listen_client_http_urls, &c->listen_metrics_urls};
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        for (size_t i = 0; i < lists[l]->count; i++) {
            const char *url = lists[l]->items[i];
            if (strncmp(url, "https", 5) != 0 && strncmp(url, "unixs", 5) != 0) continue;
            errmsg_set(
                em,
                "TLS key/cert (--cert-file, --key-file) must be provided for client url %s with "
                "HTTPS scheme",
                url);
            return E_CONFIG;
        }
    }
    return 0;
}

static int check_times(const struct config *c, struct errmsg *em)
{
    uint64_t h = c->heartbeat_interval;
    uint64_t e = c->election_timeout;
    if (h == 0) {
        errmsg_set(em, "--heartbeat-interval must be >0 (set to 0ms)");
    } else if (e == 0) {
        errmsg_set(em, "--election-timeout must be >0 (set to 0ms)");
    } else if (e > ELECTION_MS_MAX) {
        errmsg_set(
            em, "--election-timeout[%" PRIu64 "ms] is too long, and should be set less than %dms",
            e, ELECTION_MS_MAX);
    } else if (h > e / 5) {
        errmsg_set(em,
                   "--election-timeout[%" PRIu64
                   "ms] should be at least as 5 times as --heartbeat-interval[%" PRIu64 "ms]",
                   e, h);
    } else if (c->compact_hash_check_time <= 0) {
        char text[TEXT_DURATION_BYTES_MAX];
        (void)text_duration(c->compact_hash_check_time, text);
        errmsg_set(em, "--compact-hash-check-time must be >0 (set to %s)", text);
    } else {
        return 0;
    }
    return E_CONFIG;
}

static bool one_of(const char *value, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strcmp(value, *words) == 0) return true;
    }
    return false;
}

static int check_words(const struct config *c, struct errmsg *em)
{
    static const char *const STATES[] = {"new", "existing", NULL};
    static const char *const PHASES[] = {"write-only", "write-only-skip-check",
                                         "write-only-drop-data", "gone", NULL};
    static const char *const LEVELS[] = {"debug",  "info",  "warn",  "error",
                                         "dpanic", "panic", "fatal", NULL};
    static const char *const FORMATS[] = {"json", "console", NULL};
    if (!one_of(c->initial_cluster_state, STATES)) {
        bool file = c->origin[CONFIG_initial_cluster_state] == CONFIG_FROM_FILE;
        errmsg_set(em,
                   file ? "unexpected clusterState \"%s\""
                        : "invalid value \"%s\" for flag -initial-cluster-state: invalid value",
                   c->initial_cluster_state);
        return file ? E_CONFIG : E_INVAL;
    }
    if (!one_of(c->v2_deprecation, PHASES)) {
        errmsg_set(em, "invalid value \"%s\" for flag -v2-deprecation: invalid value \"%s\"",
                   c->v2_deprecation, c->v2_deprecation);
        return E_INVAL;
    }
    if (strcmp(c->discovery_fallback, "exit") != 0) {
        errmsg_set(em,
                   "v2 proxy is deprecated, and --discovery-fallback can't be configured as \"%s\"",
                   c->discovery_fallback);
        return E_CONFIG;
    }
    if (strcmp(c->logger, "capnslog") == 0) {
        errmsg_set(em, "--logger=capnslog is removed in v3.5");
    } else if (strcmp(c->logger, "zap") != 0) {
        errmsg_set(em, "unknown logger option \"%s\"", c->logger);
    } else if (!one_of(c->log_level, LEVELS)) {
        errmsg_set(em, "unrecognized level: \"%s\"", c->log_level);
    } else if (!one_of(c->log_format, FORMATS)) {
        errmsg_set(em, "unknown log format: %s, supported values json, console", c->log_format);
    } else {
        return 0;
    }
    return E_CONFIG;
}

static bool is_default(const struct config *c, const struct config_flag *f)
{
    const void *field = (const char *)c + f->offset;
    switch (f->kind) {
    case CONFIG_BOOL: return *(const bool *)field == (strcmp(f->default_text, "true") == 0);
    case CONFIG_STRING: return strcmp(*(const char *const *)field, f->default_text) == 0;
    case CONFIG_LIST:
    case CONFIG_URLS:
        return ((const struct config_list *)field)->count == 0 && f->default_text[0] == '\0';
    case CONFIG_UINT:
    case CONFIG_UINT32:
    case CONFIG_INT: {
        int64_t value = 0;
        return text_parse_int(bytes_str(f->default_text), 10, &value, NULL) == 0 &&
               value == *(const int64_t *)field;
    }
    case CONFIG_DURATION: {
        int64_t value = 0;
        return text_parse_duration(bytes_str(f->default_text), &value, NULL) == 0 &&
               value == *(const int64_t *)field;
    }
    }
    return false;
}

/* A flag whose capability is not there is refused by name, never ignored. */
static int check_default_only(const struct config *c, struct errmsg *em)
{
    for (int i = 0; i < CONFIG_COUNT; i++) {
        const struct config_flag *f = &config_flags()[i];
        if (!f->default_only || !is_set(c, (enum config_id)i) || is_default(c, f)) continue;
        errmsg_set(em, "--%s: this server cannot do that yet; leave it at its default '%s'",
                   f->name, f->default_text);
        return E_CONFIG;
    }
    return 0;
}

/* What numbers may be at most: a request must fit into one record of the log, the rest into 32 bits. */
static int check_sizes(const struct config *c, struct errmsg *em)
{
    const struct {
        const char *flag;
        uint64_t value;
        uint64_t max;
    } rows[] = {{"max-request-bytes", c->max_request_bytes, REQUEST_BYTES_MAX},
                {"max-txn-ops", c->max_txn_ops, INT32_MAX},
                {"io-threads", c->io_threads, IO_THREADS_FLAG_MAX}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].value <= rows[i].max) continue;
        errmsg_set(em, "--%s=%" PRIu64 " is too large; the most is %" PRIu64, rows[i].flag,
                   rows[i].value, rows[i].max);
        return E_CONFIG;
    }
    return 0;
}

static int warn_sizes(struct config *c)
{
    int rc = 0;
    if (c->quota_backend_bytes > ((int64_t)QUOTA_WARN_GIB << 30)) {
        rc = config__warn(c, "quota exceeds the maximum value: %" PRId64 " bytes",
                          c->quota_backend_bytes);
    }
    if (rc == 0 && c->max_request_bytes > REQUEST_WARN_BYTES) {
        rc = config__warn(c, "exceeded recommended request limit: %" PRIu64 " bytes",
                          c->max_request_bytes);
    }
    return rc;
}

/* With only --name given, the member stands in its own cluster under that name. */
static int default_cluster(struct config *c)
{
    if (c->name[0] == '\0' || is_set(c, CONFIG_initial_cluster)) return 0;
    char text[4096];
    size_t len = 0;
    for (size_t i = 0; i < c->initial_advertise_peer_urls.count; i++) {
        int n = snprintf(text + len, sizeof text - len, "%s%s=%s", i > 0 ? "," : "", c->name,
                         c->initial_advertise_peer_urls.items[i]);
        if (n < 0 || (size_t)n >= sizeof text - len) return E_TOOBIG;
        len += (size_t)n;
    }
    struct bytes copy = arena_copy(&c->arena, bytes_of(text, len));
    if (copy.data == NULL) return E_NOMEM;
    c->initial_cluster = (const char *)copy.data;
    return 0;
}

static int default_data_dir(struct config *c)
{
    if (c->data_dir[0] != '\0') return 0;
    char text[4096];
    int n = snprintf(text, sizeof text, "%s.etcd", c->name);
    if (n < 0 || (size_t)n >= sizeof text) return E_TOOBIG;
    struct bytes copy = arena_copy(&c->arena, bytes_of(text, (size_t)n));
    if (copy.data == NULL) return E_NOMEM;
    c->data_dir = (const char *)copy.data;
    return 0;
}

int config__check(struct config *c, struct errmsg *em)
{
    int rc = check_words(c, em);
    if (rc == 0) rc = check_all_urls(c, em);
    if (rc == 0) rc = check_schemes(c, em);
    if (rc == 0) rc = check_times(c, em);
    if (rc == 0 && is_set(c, CONFIG_listen_client_urls) &&
        !is_set(c, CONFIG_advertise_client_urls) &&
        c->origin[CONFIG_listen_client_urls] != CONFIG_FROM_FILE) {
        errmsg_set(
            em, "--advertise-client-urls is required when --listen-client-urls is set explicitly");
        rc = E_CONFIG;
    }
    if (rc == 0) rc = config__check_gates(c, em);
    if (rc == 0) rc = check_default_only(c, em);
    if (rc == 0) rc = check_sizes(c, em);
    if (rc == 0) rc = warn_sizes(c);
    if (rc == 0) rc = default_cluster(c);
    return rc == 0 ? default_data_dir(c) : rc;
}

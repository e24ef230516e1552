/* What endpoints said of themselves: health, status, hashes. */
#include <stdio.h>

#include "base/text.h"
#include "cli/print_int.h"

/* --- sizes -------------------------------------------------------------------------------------------- */

void cli_size_text(uint64_t bytes, char out[CLI_SIZE_BYTES_MAX])
{
    static const char *const UNITS[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    if (bytes < 10) {
        snprintf(out, CLI_SIZE_BYTES_MAX, "%u B", (unsigned)bytes);
        return;
    }
    unsigned unit = 0;
    double whole = 1;
    while ((double)bytes / whole >= 1000 && unit < 6) {
        whole *= 1000;
        unit++;
    }
    /* One decimal, rounded half up; printing then rounds half to even where it shows none. */
    double tenths = (double)(uint64_t)((double)bytes / whole * 10 + 0.5) / 10;
    snprintf(out, CLI_SIZE_BYTES_MAX, tenths < 10 ? "%.1f %s" : "%.0f %s", tenths, UNITS[unit]);
}

/* --- endpoint health -------------------------------------------------------------------------------------- */

static const char *const HEALTH_HEADINGS[] = {"ENDPOINT", "HEALTH", "TOOK", "ERROR"};
enum { HEALTH_COLUMNS = sizeof HEALTH_HEADINGS / sizeof *HEALTH_HEADINGS };

static void simple_health(struct cli_printer *p, const struct cli_health *h, struct cli_out *err)
{
    char took[TEXT_DURATION_BYTES_MAX];
    (void)text_duration(h->took_ns, took);
    struct cli_out *to = *h->error == '\0' ? p->out : err;
    cli_put_bytes(to, h->endpoint);
    if (to == p->out) {
        cli_printf(to, " is healthy: successfully committed proposal: took = %s\n", took);
    } else {
        cli_put(to, " is unhealthy: failed to commit proposal: ");
        cli_put(to, h->error);
        cli_put(to, "\n");
    }
}

static void json_health(struct cli_printer *p, const struct cli_health *rows, size_t count)
{
    cli_put(p->out, count == 0 ? "null" : "[");
    for (size_t i = 0; i < count; i++) {
        char took[TEXT_DURATION_BYTES_MAX];
        (void)text_duration(rows[i].took_ns, took);
        cli_put(p->out, i == 0 ? "" : ",");
        struct json j = json__open(p->out);
        json__name(&j, "endpoint");
        cli_put_json(p->out, rows[i].endpoint);
        json__name(&j, "health");
        cli_put(p->out, rows[i].healthy ? "true" : "false");
        json__name(&j, "took");
        cli_put_json(p->out, bytes_str(took));
        json__text(&j, "error", rows[i].error);
        json__close(&j);
    }
    cli_put(p->out, count == 0 ? "\n" : "]\n");
}

static void fields_health(struct cli_printer *p, const struct cli_health *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char took[TEXT_DURATION_BYTES_MAX];
        (void)text_duration(rows[i].took_ns, took);
        fields__quoted(p, "Endpoint", rows[i].endpoint);
        fields__bool(p, "Health", rows[i].healthy);
        cli_printf(p->out, "\"Took\" : %s\n\"Error\" : ", took);
        cli_put(p->out, rows[i].error);
        cli_put(p->out, "\n\n");
    }
}

static int table_health(struct cli_printer *p, const struct cli_health *rows, size_t count,
                        struct errmsg *em)
{
    struct cells c;
    cells__init(&c, p->out->buf.alloc);
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        char took[TEXT_DURATION_BYTES_MAX];
        (void)text_duration(rows[i].took_ns, took);
        rc = cells__span(&c, rows[i].endpoint);
        if (rc == 0) rc = cells__bool(&c, rows[i].healthy);
        if (rc == 0) rc = cells__text(&c, took);
        if (rc == 0) rc = cells__text(&c, rows[i].error);
    }
    return cells__show(p, &c, HEALTH_HEADINGS, HEALTH_COLUMNS, rc, em);
}

int cli_print_health(struct cli_printer *p, const struct cli_health *rows, size_t count,
                     struct cli_out *err, struct errmsg *em)
{
    switch (p->format) {
    case CLI_SIMPLE:
        for (size_t i = 0; i < count; i++)
            simple_health(p, &rows[i], err);
        return CLI_OK;
    case CLI_JSON: json_health(p, rows, count); return CLI_OK;
    case CLI_FIELDS: fields_health(p, rows, count); return CLI_OK;
    case CLI_TABLE: return table_health(p, rows, count, em);
    case CLI_PROTOBUF: break;
    }
    return cli__unsupported(p, em);
}

/* --- endpoint status ---------------------------------------------------------------------------------------- */

static const char *const STATUS_HEADINGS[] = {"ENDPOINT",
                                              "ID",
                                              "VERSION",
                                              "STORAGE VERSION",
                                              "DB SIZE",
                                              "IN USE",
                                              "PERCENTAGE NOT IN USE",
                                              "QUOTA",
                                              "IS LEADER",
                                              "IS LEARNER",
                                              "RAFT TERM",
                                              "RAFT INDEX",
                                              "RAFT APPLIED INDEX",
                                              "ERRORS",
                                              "DOWNGRADE TARGET VERSION",
                                              "DOWNGRADE ENABLED"};
enum { STATUS_COLUMNS = sizeof STATUS_HEADINGS / sizeof *STATUS_HEADINGS };

static const Etcdserverpb__DowngradeInfo *downgrade_of(const Etcdserverpb__StatusResponse *s)
{
    static char empty[] = "";
    static const Etcdserverpb__DowngradeInfo NONE = {
        .base = PROTOBUF_C_MESSAGE_INIT(&etcdserverpb__downgrade_info__descriptor),
        .targetversion = empty};
    return s->downgradeinfo == NULL ? &NONE : s->downgradeinfo;
}

static uint64_t member_of(const Etcdserverpb__StatusResponse *s)
{
    return s->header == NULL ? 0 : s->header->member_id;
}

static int add_percent_free(struct cells *c, const Etcdserverpb__StatusResponse *s)
{
    int64_t used = s->dbsize > 0 ? s->dbsizeinuse * 100 / s->dbsize : 100;
    return cells__end(c, buf_printf(&c->text, "%lld%%", (long long)(100 - used)));
}

static int status_cells(struct cells *c, const struct cli_status *row)
{
    const Etcdserverpb__StatusResponse *s = row->status;
    int rc = cells__span(c, row->endpoint);
    if (rc == 0) rc = cells__hex(c, member_of(s));
    if (rc == 0) rc = cells__text(c, s->version);
    if (rc == 0) rc = cells__text(c, s->storageversion);
    if (rc == 0) rc = cells__size(c, s->dbsize);
    if (rc == 0) rc = cells__size(c, s->dbsizeinuse);
    if (rc == 0) rc = add_percent_free(c, s);
    if (rc == 0) rc = cells__size(c, s->dbsizequota);
    if (rc == 0) rc = cells__bool(c, s->leader == member_of(s));
    if (rc == 0) rc = cells__bool(c, s->islearner);
    return rc;
}

static int status_cells_raft(struct cells *c, const Etcdserverpb__StatusResponse *s)
{
    int rc = cells__uint(c, s->raftterm);
    if (rc == 0) rc = cells__uint(c, s->raftindex);
    if (rc == 0) rc = cells__uint(c, s->raftappliedindex);
    if (rc == 0) rc = cells__joined(c, s->errors, s->n_errors, ", ");
    if (rc == 0) rc = cells__text(c, downgrade_of(s)->targetversion);
    if (rc == 0) rc = cells__bool(c, downgrade_of(s)->enabled);
    return rc;
}

static int rows_of_status(struct cli_printer *p, const struct cli_status *rows, size_t count,
                          struct errmsg *em)
{
    struct cells c;
    cells__init(&c, p->out->buf.alloc);
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = status_cells(&c, &rows[i]);
        if (rc == 0) rc = status_cells_raft(&c, rows[i].status);
    }
    return cells__show(p, &c, STATUS_HEADINGS, STATUS_COLUMNS, rc, em);
}

static void json_status_body(struct cli_printer *p, const Etcdserverpb__StatusResponse *s)
{
    struct json j = json__open(p->out);
    json__header(&j, s->header, false);
    json__text(&j, "version", s->version);
    json__int(&j, "dbSize", s->dbsize);
    json__uint(&j, "leader", s->leader);
    json__uint(&j, "raftIndex", s->raftindex);
    json__uint(&j, "raftTerm", s->raftterm);
    json__uint(&j, "raftAppliedIndex", s->raftappliedindex);
    json__texts(&j, "errors", s->errors, s->n_errors);
    json__int(&j, "dbSizeInUse", s->dbsizeinuse);
    json__true(&j, "isLearner", s->islearner);
    json__text(&j, "storageVersion", s->storageversion);
    json__int(&j, "dbSizeQuota", s->dbsizequota);
    if (s->downgradeinfo != NULL) {
        json__name(&j, "downgradeInfo");
        struct json in = json__open(p->out);
        json__true(&in, "enabled", s->downgradeinfo->enabled);
        json__text(&in, "targetVersion", s->downgradeinfo->targetversion);
        json__close(&in);
    }
    json__close(&j);
}

static void json_status(struct cli_printer *p, const struct cli_status *rows, size_t count)
{
    cli_put(p->out, count == 0 ? "null" : "[");
    for (size_t i = 0; i < count; i++) {
        cli_put(p->out, i == 0 ? "" : ",");
        struct json j = json__open(p->out);
        json__name(&j, "Endpoint");
        cli_put_json(p->out, rows[i].endpoint);
        json__name(&j, "Status");
        json_status_body(p, rows[i].status);
        json__close(&j);
    }
    cli_put(p->out, count == 0 ? "\n" : "]\n");
}

static void fields_status(struct cli_printer *p, const struct cli_status *row)
{
    const Etcdserverpb__StatusResponse *s = row->status;
    fields__header(p, s->header);
    fields__quoted(p, "Version", bytes_str(s->version));
    fields__quoted(p, "StorageVersion", bytes_str(s->storageversion));
    fields__int(p, "DBSize", s->dbsize);
    fields__int(p, "DBSizeInUse", s->dbsizeinuse);
    fields__int(p, "DBSizeQuota", s->dbsizequota);
    fields__uint(p, "Leader", s->leader);
    fields__bool(p, "IsLearner", s->islearner);
    fields__uint(p, "RaftIndex", s->raftindex);
    fields__uint(p, "RaftTerm", s->raftterm);
    fields__uint(p, "RaftAppliedIndex", s->raftappliedindex);
    cli_put(p->out, "\"Errors\" : [");
    for (size_t i = 0; i < s->n_errors; i++) {
        cli_put(p->out, i == 0 ? "" : " ");
        cli_put(p->out, s->errors[i]);
    }
    cli_put(p->out, "]\n");
    fields__quoted(p, "Endpoint", row->endpoint);
    fields__quoted(p, "DowngradeTargetVersion", bytes_str(downgrade_of(s)->targetversion));
    fields__bool(p, "DowngradeEnabled", downgrade_of(s)->enabled);
    cli_put(p->out, "\n");
}

int cli_print_status(struct cli_printer *p, const struct cli_status *rows, size_t count,
                     struct errmsg *em)
{
    switch (p->format) {
    case CLI_SIMPLE:
    case CLI_TABLE: return rows_of_status(p, rows, count, em);
    case CLI_JSON: json_status(p, rows, count); return CLI_OK;
    case CLI_FIELDS:
        for (size_t i = 0; i < count; i++)
            fields_status(p, &rows[i]);
        return CLI_OK;
    case CLI_PROTOBUF: break;
    }
    return cli__unsupported(p, em);
}

/* --- endpoint hashkv ---------------------------------------------------------------------------------------- */

static const char *const HASH_HEADINGS[] = {"ENDPOINT", "HASH", "HASH REVISION"};
enum { HASH_COLUMNS = sizeof HASH_HEADINGS / sizeof *HASH_HEADINGS };

static int rows_of_hash(struct cli_printer *p, const struct cli_hash *rows, size_t count,
                        struct errmsg *em)
{
    struct cells c;
    cells__init(&c, p->out->buf.alloc);
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = cells__span(&c, rows[i].endpoint);
        if (rc == 0) rc = cells__uint(&c, rows[i].hash->hash);
        if (rc == 0) rc = cells__int(&c, rows[i].hash->hash_revision);
    }
    return cells__show(p, &c, HASH_HEADINGS, HASH_COLUMNS, rc, em);
}

static void json_hash(struct cli_printer *p, const struct cli_hash *rows, size_t count)
{
    cli_put(p->out, count == 0 ? "null" : "[");
    for (size_t i = 0; i < count; i++) {
        cli_put(p->out, i == 0 ? "" : ",");
        struct json j = json__open(p->out);
        json__name(&j, "Endpoint");
        cli_put_json(p->out, rows[i].endpoint);
        json__name(&j, "HashKV");
        struct json in = json__open(p->out);
        json__header(&in, rows[i].hash->header, false);
        json__uint(&in, "hash", rows[i].hash->hash);
        json__int(&in, "compact_revision", rows[i].hash->compact_revision);
        json__int(&in, "hash_revision", rows[i].hash->hash_revision);
        json__close(&in);
        json__close(&j);
    }
    cli_put(p->out, count == 0 ? "\n" : "]\n");
}

int cli_print_hash(struct cli_printer *p, const struct cli_hash *rows, size_t count,
                   struct errmsg *em)
{
    switch (p->format) {
    case CLI_SIMPLE:
    case CLI_TABLE: return rows_of_hash(p, rows, count, em);
    case CLI_JSON: json_hash(p, rows, count); return CLI_OK;
    case CLI_FIELDS:
        for (size_t i = 0; i < count; i++) {
            fields__header(p, rows[i].hash->header);
            fields__quoted(p, "Endpoint", rows[i].endpoint);
            fields__uint(p, "Hash", rows[i].hash->hash);
            fields__int(p, "HashRevision", rows[i].hash->hash_revision);
            cli_put(p->out, "\n");
        }
        return CLI_OK;
    case CLI_PROTOBUF: break;
    }
    return cli__unsupported(p, em);
}

/* Answers about the cluster: members, alarms, endpoints.
 *
 * Simple and table show the same cells, so rows of cells are made first, as text in one buffer. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "cli/print_int.h"

enum { CELL_TEXT_BYTES_MAX = 64 };

/* --- rows of cells -------------------------------------------------------------------------------- */

/* Cells as they are made: each ends at its place in `text`. */
struct cells {
    struct buf text;
    struct buf ends; /* of size_t */
};

static void cells_init(struct cells *c, const struct alloc *alloc)
{
    buf_init(&c->text, alloc, SIZE_MAX / 2);
    buf_init(&c->ends, alloc, SIZE_MAX / 2);
}

static void cells_deinit(struct cells *c)
{
    buf_deinit(&c->text);
    buf_deinit(&c->ends);
}

/* Ends the cell whose text was put; `rc` is how putting it went. */
static int end_cell(struct cells *c, int rc)
{
    return rc < 0 ? rc : buf_put(&c->ends, &c->text.len, sizeof c->text.len);
}

static int add(struct cells *c, const char *text)
{
    return end_cell(c, buf_put_str(&c->text, text));
}

static int add_span(struct cells *c, struct bytes text)
{
    return end_cell(c, buf_put_bytes(&c->text, text));
}

static int add_uint(struct cells *c, uint64_t v)
{
    return end_cell(c, buf_printf(&c->text, "%llu", (unsigned long long)v));
}

static int add_hex(struct cells *c, uint64_t v)
{
    return end_cell(c, buf_printf(&c->text, "%llx", (unsigned long long)v));
}

static int add_size(struct cells *c, int64_t v)
{
    char text[CLI_SIZE_BYTES_MAX];
    cli_size_text((uint64_t)v, text);
    return add(c, text);
}

static int add_bool(struct cells *c, bool v)
{
    return add(c, v ? "true" : "false");
}

static int add_joined(struct cells *c, char *const *texts, size_t count, const char *between)
{
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = i == 0 ? 0 : buf_put_str(&c->text, between);
        if (rc == 0) rc = buf_put_str(&c->text, texts[i]);
    }
    return end_cell(c, rc);
}

static struct bytes cell_at(const struct cells *c, size_t i)
{
    size_t ends[2] = {0, 0};
    if (i > 0) memcpy(&ends[0], c->ends.data + (i - 1) * sizeof *ends, sizeof *ends);
    memcpy(&ends[1], c->ends.data + i * sizeof *ends, sizeof *ends);
    return bytes_of(c->text.data + ends[0], ends[1] - ends[0]);
}

static int show_table(struct cli_printer *p, struct cells *c, const char *const *headings,
                      size_t columns)
{
    size_t count = c->ends.len / sizeof(size_t);
    struct bytes *spans = alloc_zero(c->text.alloc, (count + 1) * sizeof *spans);
    if (spans == NULL) return E_NOMEM;
    for (size_t i = 0; i < count; i++)
        spans[i] = cell_at(c, i);
    cli_print_table(p->out, headings, columns, spans, count / columns);
    alloc_free(c->text.alloc, spans, (count + 1) * sizeof *spans);
    return 0;
}

/* Shows the cells as simple lines or as a table; `rc` is how making them went. */
static int show(struct cli_printer *p, struct cells *c, const char *const *headings, size_t columns,
                int rc, struct errmsg *em)
{
    size_t count = c->ends.len / sizeof(size_t);
    if (rc == 0 && p->format == CLI_TABLE) {
        rc = show_table(p, c, headings, columns);
    } else if (rc == 0) {
        for (size_t i = 0; i < count; i++) {
            cli_put_bytes(p->out, cell_at(c, i));
            cli_put(p->out, (i + 1) % columns == 0 ? "\n" : ", ");
        }
    }
    cells_deinit(c);
    return rc == 0 ? CLI_OK : cli_fail(em, CLI_ERROR, "%s", err_text(rc));
}

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

/* --- members ------------------------------------------------------------------------------------------- */

static const char *const MEMBER_HEADINGS[] = {"ID",         "STATUS",       "NAME",
                                              "PEER ADDRS", "CLIENT ADDRS", "IS LEARNER"};
enum { MEMBER_COLUMNS = sizeof MEMBER_HEADINGS / sizeof *MEMBER_HEADINGS };

static int member_cells(struct cells *c, const Etcdserverpb__Member *m)
{
    int rc = add_hex(c, m->id);
    if (rc == 0) rc = add(c, *m->name == '\0' ? "unstarted" : "started");
    if (rc == 0) rc = add(c, m->name);
    if (rc == 0) rc = add_joined(c, m->peerurls, m->n_peerurls, ",");
    if (rc == 0) rc = add_joined(c, m->clienturls, m->n_clienturls, ",");
    if (rc == 0) rc = add_bool(c, m->islearner);
    return rc;
}

static int rows_of_members(struct cli_printer *p, const Etcdserverpb__MemberListResponse *r,
                           struct errmsg *em)
{
    struct cells c;
    cells_init(&c, p->out->buf.alloc);
    int rc = 0;
    for (size_t i = 0; i < r->n_members && rc == 0; i++)
        rc = member_cells(&c, r->members[i]);
    return show(p, &c, MEMBER_HEADINGS, MEMBER_COLUMNS, rc, em);
}

static void json_member(struct cli_printer *p, const Etcdserverpb__Member *m)
{
    struct json j = json__open(p->out);
    json__id(&j, "ID", m->id, p->hex);
    json__text(&j, "name", m->name);
    json__texts(&j, "peerURLs", m->peerurls, m->n_peerurls);
    json__texts(&j, "clientURLs", m->clienturls, m->n_clienturls);
    json__true(&j, "isLearner", m->islearner);
    json__close(&j);
}

static void json_members(struct cli_printer *p, const Etcdserverpb__MemberListResponse *r)
{
    struct json j = json__open(p->out);
    json__header(&j, r->header, p->hex);
    if (r->n_members > 0) json__name(&j, "members");
    for (size_t i = 0; i < r->n_members; i++) {
        cli_put(p->out, i == 0 ? "[" : ",");
        json_member(p, r->members[i]);
    }
    if (r->n_members > 0) cli_put(p->out, "]");
    json__close(&j);
    cli_put(p->out, "\n");
}

static void fields_members(struct cli_printer *p, const Etcdserverpb__MemberListResponse *r)
{
    fields__header(p, r->header);
    for (size_t i = 0; i < r->n_members; i++) {
        const Etcdserverpb__Member *m = r->members[i];
        fields__id(p, "ID", m->id);
        fields__quoted(p, "Name", bytes_str(m->name));
        for (size_t k = 0; k < m->n_peerurls; k++)
            fields__quoted(p, "PeerURL", bytes_str(m->peerurls[k]));
        for (size_t k = 0; k < m->n_clienturls; k++)
            fields__quoted(p, "ClientURL", bytes_str(m->clienturls[k]));
        fields__bool(p, "IsLearner", m->islearner);
        cli_put(p->out, "\n");
    }
}

int cli_print_members(struct cli_printer *p, const Etcdserverpb__MemberListResponse *r,
                      struct errmsg *em)
{
    switch (p->format) {
    case CLI_SIMPLE:
    case CLI_TABLE: return rows_of_members(p, r, em);
    case CLI_JSON: json_members(p, r); return CLI_OK;
    case CLI_FIELDS: fields_members(p, r); return CLI_OK;
    case CLI_PROTOBUF: break;
    }
    return cli__protobuf(p, &r->base, em);
}

/* --- alarms -------------------------------------------------------------------------------------------- */

static const char *alarm_name(Etcdserverpb__AlarmType type)
{
    const ProtobufCEnumValue *v =
        protobuf_c_enum_descriptor_get_value(&etcdserverpb__alarm_type__descriptor, (int)type);
    return v == NULL ? "UNKNOWN" : v->name;
}

static void json_alarms(struct cli_printer *p, const Etcdserverpb__AlarmResponse *r)
{
    struct json j = json__open(p->out);
    json__header(&j, r->header, false);
    if (r->n_alarms > 0) json__name(&j, "alarms");
    for (size_t i = 0; i < r->n_alarms; i++) {
        cli_put(p->out, i == 0 ? "[" : ",");
        struct json in = json__open(p->out);
        json__uint(&in, "memberID", r->alarms[i]->memberid);
        json__int(&in, "alarm", (int64_t)r->alarms[i]->alarm);
        json__close(&in);
    }
    if (r->n_alarms > 0) cli_put(p->out, "]");
    json__close(&j);
    cli_put(p->out, "\n");
}

static void fields_alarms(struct cli_printer *p, const Etcdserverpb__AlarmResponse *r)
{
    fields__header(p, r->header);
    for (size_t i = 0; i < r->n_alarms; i++) {
        fields__id(p, "MemberID", r->alarms[i]->memberid);
        cli_printf(p->out, "\"AlarmType\" : %s\n\n", alarm_name(r->alarms[i]->alarm));
    }
}

int cli_print_alarms(struct cli_printer *p, const Etcdserverpb__AlarmResponse *r, struct errmsg *em)
{
    switch (p->format) {
    case CLI_SIMPLE:
        for (size_t i = 0; i < r->n_alarms; i++) {
            cli_printf(p->out, "memberID:%llu alarm:%s\n",
                       (unsigned long long)r->alarms[i]->memberid, alarm_name(r->alarms[i]->alarm));
        }
        return CLI_OK;
    case CLI_JSON: json_alarms(p, r); return CLI_OK;
    case CLI_FIELDS: fields_alarms(p, r); return CLI_OK;
    case CLI_PROTOBUF: return cli__protobuf(p, &r->base, em);
    case CLI_TABLE: break;
    }
    return cli__unsupported(p, em);
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
    cells_init(&c, p->out->buf.alloc);
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        char took[TEXT_DURATION_BYTES_MAX];
        (void)text_duration(rows[i].took_ns, took);
        rc = add_span(&c, rows[i].endpoint);
        if (rc == 0) rc = add_bool(&c, rows[i].healthy);
        if (rc == 0) rc = add(&c, took);
        if (rc == 0) rc = add(&c, rows[i].error);
    }
    return show(p, &c, HEALTH_HEADINGS, HEALTH_COLUMNS, rc, em);
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
    return end_cell(c, buf_printf(&c->text, "%lld%%", (long long)(100 - used)));
}

static int status_cells(struct cells *c, const struct cli_status *row)
{
    const Etcdserverpb__StatusResponse *s = row->status;
    int rc = add_span(c, row->endpoint);
    if (rc == 0) rc = add_hex(c, member_of(s));
    if (rc == 0) rc = add(c, s->version);
    if (rc == 0) rc = add(c, s->storageversion);
    if (rc == 0) rc = add_size(c, s->dbsize);
    if (rc == 0) rc = add_size(c, s->dbsizeinuse);
    if (rc == 0) rc = add_percent_free(c, s);
    if (rc == 0) rc = add_size(c, s->dbsizequota);
    if (rc == 0) rc = add_bool(c, s->leader == member_of(s));
    if (rc == 0) rc = add_bool(c, s->islearner);
    return rc;
}

static int status_cells_raft(struct cells *c, const Etcdserverpb__StatusResponse *s)
{
    int rc = add_uint(c, s->raftterm);
    if (rc == 0) rc = add_uint(c, s->raftindex);
    if (rc == 0) rc = add_uint(c, s->raftappliedindex);
    if (rc == 0) rc = add_joined(c, s->errors, s->n_errors, ", ");
    if (rc == 0) rc = add(c, downgrade_of(s)->targetversion);
    if (rc == 0) rc = add_bool(c, downgrade_of(s)->enabled);
    return rc;
}

static int rows_of_status(struct cli_printer *p, const struct cli_status *rows, size_t count,
                          struct errmsg *em)
{
    struct cells c;
    cells_init(&c, p->out->buf.alloc);
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = status_cells(&c, &rows[i]);
        if (rc == 0) rc = status_cells_raft(&c, rows[i].status);
    }
    return show(p, &c, STATUS_HEADINGS, STATUS_COLUMNS, rc, em);
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
    cells_init(&c, p->out->buf.alloc);
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = add_span(&c, rows[i].endpoint);
        if (rc == 0) rc = add_uint(&c, rows[i].hash->hash);
        if (rc == 0) rc = add_uint(&c, (uint64_t)rows[i].hash->hash_revision);
    }
    return show(p, &c, HASH_HEADINGS, HASH_COLUMNS, rc, em);
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

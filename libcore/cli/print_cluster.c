/* Answers about the cluster: members and alarms. */
#include "cli/print_int.h"

/* --- members ------------------------------------------------------------------------------------------- */

static const char *const MEMBER_HEADINGS[] = {"ID",         "STATUS",       "NAME",
                                              "PEER ADDRS", "CLIENT ADDRS", "IS LEARNER"};
enum { MEMBER_COLUMNS = sizeof MEMBER_HEADINGS / sizeof *MEMBER_HEADINGS };

static int member_cells(struct cells *c, const Etcdserverpb__Member *m)
{
    int rc = cells__hex(c, m->id);
    if (rc == 0) rc = cells__text(c, *m->name == '\0' ? "unstarted" : "started");
    if (rc == 0) rc = cells__text(c, m->name);
    if (rc == 0) rc = cells__joined(c, m->peerurls, m->n_peerurls, ",");
    if (rc == 0) rc = cells__joined(c, m->clienturls, m->n_clienturls, ",");
    if (rc == 0) rc = cells__bool(c, m->islearner);
    return rc;
}

static int rows_of_members(struct cli_printer *p, const Etcdserverpb__MemberListResponse *r,
                           struct errmsg *em)
{
    struct cells c;
    cells__init(&c, p->out->buf.alloc);
    int rc = 0;
    for (size_t i = 0; i < r->n_members && rc == 0; i++)
        rc = member_cells(&c, r->members[i]);
    return cells__show(p, &c, MEMBER_HEADINGS, MEMBER_COLUMNS, rc, em);
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

/* What a watch hears, response by response (cli-etcdctl.md 7.5). */
#include "cli/print_int.h"

static const char *type_name(const Mvccpb__Event *e)
{
    return e->type == MVCCPB__EVENT__EVENT_TYPE__DELETE ? "DELETE" : "PUT";
}

static const Mvccpb__KeyValue *kv_of(const Mvccpb__Event *e)
{
    static const Mvccpb__KeyValue NONE = MVCCPB__KEY_VALUE__INIT;
    return e->kv != NULL ? e->kv : &NONE;
}

static void simple_events(struct cli_printer *p, const Etcdserverpb__WatchResponse *r)
{
    for (size_t i = 0; i < r->n_events; i++) {
        const Mvccpb__Event *e = r->events[i];
        cli_put(p->out, type_name(e));
        cli_put(p->out, "\n");
        if (e->prev_kv != NULL) simple__kv(p, e->prev_kv);
        simple__kv(p, kv_of(e));
    }
}

static void json_event(struct cli_out *out, const Mvccpb__Event *e)
{
    struct json j = json__open(out);
    json__int(&j, "type", e->type);
    json__name(&j, "kv");
    json__kv(out, kv_of(e));
    if (e->prev_kv != NULL) {
        json__name(&j, "prev_kv");
        json__kv(out, e->prev_kv);
    }
    json__close(&j);
}

/* The names are capital and nothing is left out: upstream prints its client's own struct. */
static void json_response(struct cli_out *out, const Etcdserverpb__WatchResponse *r)
{
    struct json j = {.out = out};
    cli_put(out, "{\"Header\":");
    struct json header = json__open(out);
    if (r->header != NULL) {
        json__uint(&header, "cluster_id", r->header->cluster_id);
        json__uint(&header, "member_id", r->header->member_id);
        json__int(&header, "revision", r->header->revision);
        json__uint(&header, "raft_term", r->header->raft_term);
    }
    json__close(&header);
    cli_put(out, ",\"Events\":");
    cli_put(out, r->n_events == 0 ? "null" : "[");
    for (size_t i = 0; i < r->n_events; i++) {
        if (i > 0) cli_put(out, ",");
        json_event(out, r->events[i]);
    }
    if (r->n_events > 0) cli_put(out, "]");
    cli_printf(out, ",\"CompactRevision\":%lld,\"Canceled\":%s,\"Created\":%s,\"CancelReason\":",
               (long long)r->compact_revision, r->canceled ? "true" : "false",
               r->created ? "true" : "false");
    cli_put_json(out, bytes_str(r->cancel_reason));
    json__close(&j);
    cli_put(out, "\n");
}

static void fields_response(struct cli_printer *p, const Etcdserverpb__WatchResponse *r)
{
    static const Etcdserverpb__ResponseHeader NONE = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    fields__header(p, r->header != NULL ? r->header : &NONE);
    for (size_t i = 0; i < r->n_events; i++) {
        const Mvccpb__Event *e = r->events[i];
        cli_printf(p->out, "\"Type\" : %s\n", type_name(e));
        if (e->prev_kv != NULL) fields__kv(p, "Prev", e->prev_kv);
        fields__kv(p, "", kv_of(e));
    }
}

/* Without watch_id and cancel_reason, which upstream's client does not hand on. */
static int protobuf_response(struct cli_printer *p, const Etcdserverpb__WatchResponse *r,
                             struct errmsg *em)
{
    Etcdserverpb__WatchResponse out;
    etcdserverpb__watch_response__init(&out);
    out.header = r->header;
    out.n_events = r->n_events;
    out.events = r->events;
    out.compact_revision = r->compact_revision;
    out.canceled = r->canceled;
    out.created = r->created;
    return cli__protobuf(p, &out.base, em);
}

int cli_print_watch(struct cli_printer *p, const Etcdserverpb__WatchResponse *r, struct errmsg *em)
{
    switch (p->format) {
    case CLI_SIMPLE: simple_events(p, r); return CLI_OK;
    case CLI_JSON: json_response(p->out, r); return CLI_OK;
    case CLI_FIELDS: fields_response(p, r); return CLI_OK;
    case CLI_PROTOBUF: return protobuf_response(p, r, em);
    case CLI_TABLE: break;
    }
    return cli__unsupported(p, em);
}

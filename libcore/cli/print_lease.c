/* Answers about leases. In json the header's fields stand in the answer itself, and nothing is left out. */
#include "base/err.h"
#include "cli/print_int.h"

/* --- json --------------------------------------------------------------------------------------------- */

/* An object that begins with the fields of the header. */
static struct json open_flat(struct cli_out *out, const Etcdserverpb__ResponseHeader *h)
{
    struct json j = json__open(out);
    if (h == NULL) return j;
    json__uint(&j, "cluster_id", h->cluster_id);
    json__uint(&j, "member_id", h->member_id);
    json__int(&j, "revision", h->revision);
    json__uint(&j, "raft_term", h->raft_term);
    return j;
}

static void close_line(struct json *j)
{
    json__close(j);
    cli_put(j->out, "\n");
}

/* Also when it is zero. */
static void number(struct json *j, const char *name, int64_t v)
{
    json__name(j, name);
    cli_printf(j->out, "%lld", (long long)v);
}

static void json_keys(struct json *j, const Etcdserverpb__LeaseTimeToLiveResponse *r)
{
    json__name(j, "keys");
    if (r->n_keys == 0) cli_put(j->out, "null");
    for (size_t i = 0; i < r->n_keys; i++) {
        cli_put(j->out, i == 0 ? "[\"" : ",\"");
        cli_put_base64(j->out, cli__bytes(r->keys[i]));
        cli_put(j->out, "\"");
    }
    if (r->n_keys > 0) cli_put(j->out, "]");
}

static void json_leases(struct cli_printer *p, const Etcdserverpb__LeaseLeasesResponse *r)
{
    struct json j = open_flat(p->out, r->header);
    json__name(&j, "leases");
    cli_put(p->out, "[");
    for (size_t i = 0; i < r->n_leases; i++) {
        cli_put(p->out, i == 0 ? "" : ",");
        struct json in = json__open(p->out);
        number(&in, "id", r->leases[i]->id);
        json__close(&in);
    }
    cli_put(p->out, "]");
    close_line(&j);
}

/* --- the answers ---------------------------------------------------------------------------------------- */

/* In protobuf form only the header is written, as a message of its own. */
static int header_only(struct cli_printer *p, const Etcdserverpb__ResponseHeader *h,
                       struct errmsg *em)
{
    return h == NULL ? CLI_OK : cli__protobuf(p, &h->base, em);
}

static void fields_grant(struct cli_printer *p, const Etcdserverpb__ResponseHeader *h, int64_t id,
                         int64_t ttl_s)
{
    fields__header(p, h);
    fields__id(p, "ID", (uint64_t)id);
    fields__int(p, "TTL", ttl_s);
}

static void json_grant(struct cli_printer *p, const Etcdserverpb__ResponseHeader *h, int64_t id,
                       int64_t ttl_s, bool granted)
{
    struct json j = open_flat(p->out, h);
    number(&j, "ID", id);
    number(&j, "TTL", ttl_s);
    if (granted) {
        json__name(&j, "Error");
        cli_put(p->out, "\"\"");
    }
    close_line(&j);
}

int cli_print_grant(struct cli_printer *p, const Etcdserverpb__LeaseGrantResponse *r,
                    struct errmsg *em)
{
    switch (p->format) {
    case CLI_SIMPLE:
        cli_printf(p->out, "lease %016llx granted with TTL(%llds)\n", (unsigned long long)r->id,
                   (long long)r->ttl);
        return CLI_OK;
    case CLI_JSON: json_grant(p, r->header, r->id, r->ttl, true); return CLI_OK;
    case CLI_FIELDS: fields_grant(p, r->header, r->id, r->ttl); return CLI_OK;
    case CLI_PROTOBUF: return header_only(p, r->header, em);
    case CLI_TABLE: break;
    }
    return cli__unsupported(p, em);
}

int cli_print_keep_alive(struct cli_printer *p, const Etcdserverpb__LeaseKeepAliveResponse *r,
                         struct errmsg *em)
{
    switch (p->format) {
    case CLI_SIMPLE:
        cli_printf(p->out, "lease %016llx keepalived with TTL(%lld)\n", (unsigned long long)r->id,
                   (long long)r->ttl);
        return CLI_OK;
    case CLI_JSON: json_grant(p, r->header, r->id, r->ttl, false); return CLI_OK;
    case CLI_FIELDS: fields_grant(p, r->header, r->id, r->ttl); return CLI_OK;
    case CLI_PROTOBUF: return header_only(p, r->header, em);
    case CLI_TABLE: break;
    }
    return cli__unsupported(p, em);
}

int cli_print_revoke(struct cli_printer *p, int64_t id, const Etcdserverpb__LeaseRevokeResponse *r,
                     struct errmsg *em)
{
    switch (p->format) {
    case CLI_SIMPLE:
        cli_printf(p->out, "lease %016llx revoked\n", (unsigned long long)id);
        return CLI_OK;
    case CLI_JSON: {
        struct json j = json__open(p->out);
        json__header(&j, r->header, false);
        close_line(&j);
        return CLI_OK;
    }
    case CLI_FIELDS: fields__header(p, r->header); return CLI_OK;
    case CLI_PROTOBUF:
        return cli_fail(em, CLI_BAD_FEATURE,
                        "marshal unsupported for type *clientv3.LeaseRevokeResponse");
    case CLI_TABLE: break;
    }
    return cli__unsupported(p, em);
}

static void simple_left(struct cli_printer *p, const Etcdserverpb__LeaseTimeToLiveResponse *r,
                        bool keys)
{
    if (r->grantedttl == 0 && r->ttl == -1) {
        cli_printf(p->out, "lease %016llx already expired\n", (unsigned long long)r->id);
        return;
    }
    cli_printf(p->out, "lease %016llx granted with TTL(%llds), remaining(%llds)",
               (unsigned long long)r->id, (long long)r->grantedttl, (long long)r->ttl);
    if (keys) cli_put(p->out, ", attached keys([");
    for (size_t i = 0; keys && i < r->n_keys; i++) {
        cli_put(p->out, i == 0 ? "" : " ");
        cli_put_bytes(p->out, cli__bytes(r->keys[i]));
    }
    cli_put(p->out, keys ? "])\n" : "\n");
}

static void json_left(struct cli_printer *p, const Etcdserverpb__LeaseTimeToLiveResponse *r)
{
    struct json j = open_flat(p->out, r->header);
    number(&j, "id", r->id);
    number(&j, "ttl", r->ttl);
    number(&j, "granted-ttl", r->grantedttl);
    json_keys(&j, r);
    close_line(&j);
}

int cli_print_time_to_live(struct cli_printer *p, const Etcdserverpb__LeaseTimeToLiveResponse *r,
                           bool keys, struct errmsg *em)
{
    switch (p->format) {
    case CLI_SIMPLE: simple_left(p, r, keys); return CLI_OK;
    case CLI_JSON: json_left(p, r); return CLI_OK;
    case CLI_FIELDS:
        fields_grant(p, r->header, r->id, r->ttl);
        fields__int(p, "GrantedTTL", r->grantedttl);
        for (size_t i = 0; i < r->n_keys; i++)
            fields__quoted(p, "Key", cli__bytes(r->keys[i]));
        return CLI_OK;
    case CLI_PROTOBUF: return header_only(p, r->header, em);
    case CLI_TABLE: break;
    }
    return cli__unsupported(p, em);
}

int cli_print_leases(struct cli_printer *p, const Etcdserverpb__LeaseLeasesResponse *r,
                     struct errmsg *em)
{
    switch (p->format) {
    case CLI_SIMPLE:
        cli_printf(p->out, "found %zu leases\n", r->n_leases);
        for (size_t i = 0; i < r->n_leases; i++)
            cli_printf(p->out, "%016llx\n", (unsigned long long)r->leases[i]->id);
        return CLI_OK;
    case CLI_JSON: json_leases(p, r); return CLI_OK;
    case CLI_FIELDS:
        fields__header(p, r->header);
        for (size_t i = 0; i < r->n_leases; i++)
            fields__id(p, "ID", (uint64_t)r->leases[i]->id);
        return CLI_OK;
    case CLI_PROTOBUF: return header_only(p, r->header, em);
    case CLI_TABLE: break;
    }
    return cli__unsupported(p, em);
}

/* What the printers share: formats, JSON members, field lines. */
#include "cli/print.h"

#include <string.h>

#include "base/err.h"
#include "cli/print_int.h"
#include "pb/pack.h"

static const char *const FORMATS[] = {[CLI_SIMPLE] = "simple",
                                      [CLI_JSON] = "json",
                                      [CLI_FIELDS] = "fields",
                                      [CLI_PROTOBUF] = "protobuf",
                                      [CLI_TABLE] = "table"};

int cli_format_parse(struct bytes name, enum cli_format *out)
{
    for (size_t i = 0; i < sizeof FORMATS / sizeof *FORMATS; i++) {
        if (!bytes_eq(name, bytes_str(FORMATS[i]))) continue;
        *out = (enum cli_format)i;
        return 0;
    }
    return E_INVAL;
}

int cli__unsupported(const struct cli_printer *p, struct errmsg *em)
{
    return cli_fail(em, CLI_BAD_FEATURE, "%s not supported as output format", FORMATS[p->format]);
}

int cli__protobuf(struct cli_printer *p, const ProtobufCMessage *m, struct errmsg *em)
{
    int rc = pb_pack(m, &p->out->buf);
    if (rc < 0) return cli_fail(em, CLI_ERROR, "%s", err_text(rc));
    return CLI_OK;
}

/* --- json ---------------------------------------------------------------------------------------- */

struct json json__open(struct cli_out *out)
{
    cli_put(out, "{");
    return (struct json){out, false};
}

void json__close(struct json *j)
{
    cli_put(j->out, "}");
}

void json__name(struct json *j, const char *name)
{
    cli_printf(j->out, j->any ? ",\"%s\":" : "\"%s\":", name);
    j->any = true;
}

void json__int(struct json *j, const char *name, int64_t v)
{
    if (v == 0) return;
    json__name(j, name);
    cli_printf(j->out, "%lld", (long long)v);
}

void json__uint(struct json *j, const char *name, uint64_t v)
{
    json__id(j, name, v, false);
}

void json__id(struct json *j, const char *name, uint64_t v, bool hex)
{
    if (v == 0) return;
    json__name(j, name);
    cli_printf(j->out, hex ? "\"%llx\"" : "%llu", (unsigned long long)v);
}

void json__true(struct json *j, const char *name, bool v)
{
    if (!v) return;
    json__name(j, name);
    cli_put(j->out, "true");
}

void json__text(struct json *j, const char *name, const char *v)
{
    if (*v == '\0') return;
    json__name(j, name);
    cli_put_json(j->out, bytes_str(v));
}

void json__base64(struct json *j, const char *name, ProtobufCBinaryData v)
{
    if (v.len == 0) return;
    json__name(j, name);
    cli_put(j->out, "\"");
    cli_put_base64(j->out, cli__bytes(v));
    cli_put(j->out, "\"");
}

void json__texts(struct json *j, const char *name, char *const *v, size_t count)
{
    if (count == 0) return;
    json__name(j, name);
    for (size_t i = 0; i < count; i++) {
        cli_put(j->out, i == 0 ? "[" : ",");
        cli_put_json(j->out, bytes_str(v[i]));
    }
    cli_put(j->out, "]");
}

void json__header(struct json *j, const Etcdserverpb__ResponseHeader *h, bool hex)
{
    if (h == NULL) return;
    json__name(j, "header");
    struct json in = json__open(j->out);
    json__id(&in, "cluster_id", h->cluster_id, hex);
    json__id(&in, "member_id", h->member_id, hex);
    json__int(&in, "revision", h->revision);
    json__uint(&in, "raft_term", h->raft_term);
    json__close(&in);
}

/* --- fields -------------------------------------------------------------------------------------- */

void fields__int(struct cli_printer *p, const char *name, int64_t v)
{
    cli_printf(p->out, "\"%s\" : %lld\n", name, (long long)v);
}

void fields__uint(struct cli_printer *p, const char *name, uint64_t v)
{
    cli_printf(p->out, "\"%s\" : %llu\n", name, (unsigned long long)v);
}

void fields__id(struct cli_printer *p, const char *name, uint64_t v)
{
    cli_printf(p->out, p->hex ? "\"%s\" : %llx\n" : "\"%s\" : %llu\n", name, (unsigned long long)v);
}

void fields__bool(struct cli_printer *p, const char *name, bool v)
{
    cli_printf(p->out, "\"%s\" : %s\n", name, v ? "true" : "false");
}

void fields__quoted(struct cli_printer *p, const char *name, struct bytes v)
{
    cli_printf(p->out, "\"%s\" : ", name);
    cli_put_quoted(p->out, v);
    cli_put(p->out, "\n");
}

void fields__header(struct cli_printer *p, const Etcdserverpb__ResponseHeader *h)
{
    static const Etcdserverpb__ResponseHeader NONE = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    if (h == NULL) h = &NONE;
    fields__id(p, "ClusterID", h->cluster_id);
    fields__id(p, "MemberID", h->member_id);
    if (h->revision > 0) fields__int(p, "Revision", h->revision);
    fields__uint(p, "RaftTerm", h->raft_term);
}

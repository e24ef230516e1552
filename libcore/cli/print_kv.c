/* Answers about keys: get, put, del, txn. */
#include "cli/print_int.h"

/* --- one pair -------------------------------------------------------------------------------------- */

static void simple_line(struct cli_printer *p, ProtobufCBinaryData d)
{
    if (p->hex) {
        cli_put_escaped(p->out, cli__bytes(d));
    } else {
        cli_put_bytes(p->out, cli__bytes(d));
    }
    cli_put(p->out, "\n");
}

void simple__kv(struct cli_printer *p, const Mvccpb__KeyValue *kv)
{
    if (!p->value_only) simple_line(p, kv->key);
    simple_line(p, kv->value);
}

void json__kv(struct cli_out *out, const Mvccpb__KeyValue *kv)
{
    struct json j = json__open(out);
    json__base64(&j, "key", kv->key);
    json__int(&j, "create_revision", kv->create_revision);
    json__int(&j, "mod_revision", kv->mod_revision);
    json__int(&j, "version", kv->version);
    json__base64(&j, "value", kv->value);
    json__int(&j, "lease", kv->lease);
    json__close(&j);
}

static void json_kvs(struct json *j, const char *name, Mvccpb__KeyValue *const *kvs, size_t count)
{
    if (count == 0) return;
    json__name(j, name);
    for (size_t i = 0; i < count; i++) {
        cli_put(j->out, i == 0 ? "[" : ",");
        json__kv(j->out, kvs[i]);
    }
    cli_put(j->out, "]");
}

void fields__kv(struct cli_printer *p, const char *prefix, const Mvccpb__KeyValue *kv)
{
    struct cli_out *o = p->out;
    cli_printf(o, "\"%sKey\" : ", prefix);
    cli_put_quoted(o, cli__bytes(kv->key));
    cli_printf(o, "\n\"%sCreateRevision\" : %lld\n", prefix, (long long)kv->create_revision);
    cli_printf(o, "\"%sModRevision\" : %lld\n", prefix, (long long)kv->mod_revision);
    cli_printf(o, "\"%sVersion\" : %lld\n\"%sValue\" : ", prefix, (long long)kv->version, prefix);
    cli_put_quoted(o, cli__bytes(kv->value));
    cli_printf(o, p->hex ? "\n\"%sLease\" : %016llx\n" : "\n\"%sLease\" : %lld\n", prefix,
               (long long)kv->lease);
}

/* --- get --------------------------------------------------------------------------------------------- */

static void simple_range(struct cli_printer *p, const Etcdserverpb__RangeResponse *r)
{
    for (size_t i = 0; i < r->n_kvs; i++)
        simple__kv(p, r->kvs[i]);
}

static void json_range(struct cli_printer *p, const Etcdserverpb__RangeResponse *r)
{
    struct json j = json__open(p->out);
    json__header(&j, r->header, false);
    json_kvs(&j, "kvs", r->kvs, r->n_kvs);
    json__true(&j, "more", r->more);
    json__int(&j, "count", r->count);
    json__close(&j);
}

static void fields_range(struct cli_printer *p, const Etcdserverpb__RangeResponse *r)
{
    fields__header(p, r->header);
    for (size_t i = 0; i < r->n_kvs; i++)
        fields__kv(p, "", r->kvs[i]);
    fields__bool(p, "More", r->more);
    fields__int(p, "Count", r->count);
}

int cli_print_range(struct cli_printer *p, const Etcdserverpb__RangeResponse *r, struct errmsg *em)
{
    switch (p->format) {
    case CLI_SIMPLE: simple_range(p, r); return CLI_OK;
    case CLI_JSON:
        json_range(p, r);
        cli_put(p->out, "\n");
        return CLI_OK;
    case CLI_FIELDS: fields_range(p, r); return CLI_OK;
    case CLI_PROTOBUF: return cli__protobuf(p, &r->base, em);
    case CLI_TABLE: break;
    }
    return cli__unsupported(p, em);
}

/* --- put --------------------------------------------------------------------------------------------- */

static void simple_put(struct cli_printer *p, const Etcdserverpb__PutResponse *r)
{
    cli_put(p->out, "OK\n");
    if (r->prev_kv != NULL) simple__kv(p, r->prev_kv);
}

static void json_put(struct cli_printer *p, const Etcdserverpb__PutResponse *r)
{
    struct json j = json__open(p->out);
    json__header(&j, r->header, false);
    if (r->prev_kv != NULL) {
        json__name(&j, "prev_kv");
        json__kv(p->out, r->prev_kv);
    }
    json__close(&j);
}

static void fields_put(struct cli_printer *p, const Etcdserverpb__PutResponse *r)
{
    fields__header(p, r->header);
    if (r->prev_kv != NULL) fields__kv(p, "Prev", r->prev_kv);
}

int cli_print_put(struct cli_printer *p, const Etcdserverpb__PutResponse *r, struct errmsg *em)
{
    switch (p->format) {
    case CLI_SIMPLE: simple_put(p, r); return CLI_OK;
    case CLI_JSON:
        json_put(p, r);
        cli_put(p->out, "\n");
        return CLI_OK;
    case CLI_FIELDS: fields_put(p, r); return CLI_OK;
    case CLI_PROTOBUF: return cli__protobuf(p, &r->base, em);
    case CLI_TABLE: break;
    }
    return cli__unsupported(p, em);
}

/* --- del --------------------------------------------------------------------------------------------- */

static void simple_delete(struct cli_printer *p, const Etcdserverpb__DeleteRangeResponse *r)
{
    cli_printf(p->out, "%lld\n", (long long)r->deleted);
    for (size_t i = 0; i < r->n_prev_kvs; i++)
        simple__kv(p, r->prev_kvs[i]);
}

static void json_delete(struct cli_printer *p, const Etcdserverpb__DeleteRangeResponse *r)
{
    struct json j = json__open(p->out);
    json__header(&j, r->header, false);
    json__int(&j, "deleted", r->deleted);
    json_kvs(&j, "prev_kvs", r->prev_kvs, r->n_prev_kvs);
    json__close(&j);
}

static void fields_delete(struct cli_printer *p, const Etcdserverpb__DeleteRangeResponse *r)
{
    fields__header(p, r->header);
    fields__int(p, "Deleted", r->deleted);
    for (size_t i = 0; i < r->n_prev_kvs; i++)
        fields__kv(p, "Prev", r->prev_kvs[i]);
}

int cli_print_delete(struct cli_printer *p, const Etcdserverpb__DeleteRangeResponse *r,
                     struct errmsg *em)
{
    switch (p->format) {
    case CLI_SIMPLE: simple_delete(p, r); return CLI_OK;
    case CLI_JSON:
        json_delete(p, r);
        cli_put(p->out, "\n");
        return CLI_OK;
    case CLI_FIELDS: fields_delete(p, r); return CLI_OK;
    case CLI_PROTOBUF: return cli__protobuf(p, &r->base, em);
    case CLI_TABLE: break;
    }
    return cli__unsupported(p, em);
}

/* --- txn --------------------------------------------------------------------------------------------- */

/* A txn inside a txn can be sent by other clients only; this one shows that there was one. */
static void simple_op(struct cli_printer *p, const Etcdserverpb__ResponseOp *op)
{
    switch (op->response_case) {
    case ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE:
        simple_range(p, op->response_range);
        return;
    case ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_PUT: simple_put(p, op->response_put); return;
    case ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE:
        simple_delete(p, op->response_delete_range);
        return;
    case ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_TXN:
        cli_put(p->out, op->response_txn->succeeded ? "SUCCESS\n" : "FAILURE\n");
        return;
    case ETCDSERVERPB__RESPONSE_OP__RESPONSE__NOT_SET:
    case _ETCDSERVERPB__RESPONSE_OP__RESPONSE__CASE_IS_INT_SIZE: return;
    }
}

static void fields_op(struct cli_printer *p, const Etcdserverpb__ResponseOp *op)
{
    switch (op->response_case) {
    case ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE:
        fields_range(p, op->response_range);
        return;
    case ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_PUT: fields_put(p, op->response_put); return;
    case ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE:
        fields_delete(p, op->response_delete_range);
        return;
    case ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_TXN:
        fields__bool(p, "Succeeded", op->response_txn->succeeded);
        return;
    case ETCDSERVERPB__RESPONSE_OP__RESPONSE__NOT_SET:
    case _ETCDSERVERPB__RESPONSE_OP__RESPONSE__CASE_IS_INT_SIZE: return;
    }
}

static void json_op(struct cli_printer *p, const Etcdserverpb__ResponseOp *op)
{
    struct json j = json__open(p->out);
    switch (op->response_case) {
    case ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE:
        json__name(&j, "response_range");
        json_range(p, op->response_range);
        break;
    case ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_PUT:
        json__name(&j, "response_put");
        json_put(p, op->response_put);
        break;
    case ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE:
        json__name(&j, "response_delete_range");
        json_delete(p, op->response_delete_range);
        break;
    case ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_TXN: {
        json__name(&j, "response_txn");
        struct json in = json__open(p->out);
        json__true(&in, "succeeded", op->response_txn->succeeded);
        json__close(&in);
        break;
    }
    case ETCDSERVERPB__RESPONSE_OP__RESPONSE__NOT_SET:
    case _ETCDSERVERPB__RESPONSE_OP__RESPONSE__CASE_IS_INT_SIZE: break;
    }
    json__close(&j);
}

static void json_txn(struct cli_printer *p, const Etcdserverpb__TxnResponse *r)
{
    struct json j = json__open(p->out);
    json__header(&j, r->header, false);
    json__true(&j, "succeeded", r->succeeded);
    if (r->n_responses > 0) json__name(&j, "responses");
    for (size_t i = 0; i < r->n_responses; i++) {
        cli_put(p->out, i == 0 ? "[" : ",");
        cli_put(p->out, "{\"Response\":");
        json_op(p, r->responses[i]);
        cli_put(p->out, "}");
    }
    if (r->n_responses > 0) cli_put(p->out, "]");
    json__close(&j);
    cli_put(p->out, "\n");
}

int cli_print_txn(struct cli_printer *p, const Etcdserverpb__TxnResponse *r, struct errmsg *em)
{
    switch (p->format) {
    case CLI_SIMPLE:
        cli_put(p->out, r->succeeded ? "SUCCESS\n" : "FAILURE\n");
        for (size_t i = 0; i < r->n_responses; i++) {
            cli_put(p->out, "\n");
            simple_op(p, r->responses[i]);
        }
        return CLI_OK;
    case CLI_JSON: json_txn(p, r); return CLI_OK;
    case CLI_FIELDS:
        fields__header(p, r->header);
        fields__bool(p, "Succeeded", r->succeeded);
        for (size_t i = 0; i < r->n_responses; i++)
            fields_op(p, r->responses[i]);
        return CLI_OK;
    case CLI_PROTOBUF: return cli__protobuf(p, &r->base, em);
    case CLI_TABLE: break;
    }
    return cli__unsupported(p, em);
}

/* The flags of get, put and del, and the requests they make. */
#include "cli/kv.h"

#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/text.h"

#define GET(field) offsetof(struct cli_get_values, field)
#define PUT(field) offsetof(struct cli_put_values, field)
#define DEL(field) offsetof(struct cli_del_values, field)

const struct cli_flag cli_get_rows[CLI_GET_ROWS] = {
    {"consistency", CLI_STRING, 0, GET(consistency), "l",
     "ask the cluster first (l), or take what this member has (s)", "l s"},
    {"count-only", CLI_BOOL, 0, GET(count_only), NULL, "only count the keys", NULL},
    {"from-key", CLI_BOOL, 0, GET(from_key), NULL, "all keys from the given one on", NULL},
    {"keys-only", CLI_BOOL, 0, GET(keys_only), NULL, "leave the values out", NULL},
    {"limit", CLI_INT, 0, GET(limit), NULL, "at most so many keys; 0 means all", NULL},
    {"max-create-rev", CLI_INT, 0, GET(max_create), NULL, "newest revision of creation", NULL},
    {"max-mod-rev", CLI_INT, 0, GET(max_mod), NULL, "newest revision of change", NULL},
    {"min-create-rev", CLI_INT, 0, GET(min_create), NULL, "oldest revision of creation", NULL},
    {"min-mod-rev", CLI_INT, 0, GET(min_mod), NULL, "oldest revision of change", NULL},
    {"order", CLI_STRING, 0, GET(order), NULL, "ASCEND or DESCEND", "ASCEND DESCEND"},
    {"prefix", CLI_BOOL, 0, GET(prefix), NULL, "all keys that begin with the given one", NULL},
    {"print-value-only", CLI_BOOL, 0, GET(value_only), NULL, "leave the keys out (format simple)",
     NULL},
    {"rev", CLI_INT, 0, GET(revision), NULL, "as it was at this revision; 0 means now", NULL},
    {"sort-by", CLI_STRING, 0, GET(sort_by), NULL, "CREATE, KEY, MODIFY, VALUE or VERSION",
     "CREATE KEY MODIFY VALUE VERSION"},
    {"stream", CLI_BOOL, 0, GET(stream), NULL, "fetch the answer in chunks (RangeStream)", NULL}};

const struct cli_flag cli_put_rows[CLI_PUT_ROWS] = {
    {"ignore-lease", CLI_BOOL, 0, PUT(ignore_lease), NULL, "keep the lease the key has", NULL},
    {"ignore-value", CLI_BOOL, 0, PUT(ignore_value), NULL, "keep the value the key has", NULL},
    {"lease", CLI_STRING, 0, PUT(lease), "0", "lease to attach to the key, hexadecimal", NULL},
    {"prev-kv", CLI_BOOL, 0, PUT(prev_kv), NULL, "print what was there before", NULL}};

const struct cli_flag cli_del_rows[CLI_DEL_ROWS] = {
    {"from-key", CLI_BOOL, 0, DEL(from_key), NULL, "all keys from the given one on", NULL},
    {"prefix", CLI_BOOL, 0, DEL(prefix), NULL, "all keys that begin with the given one", NULL},
    {"prev-kv", CLI_BOOL, 0, DEL(prev_kv), NULL, "print what was deleted", NULL},
    {"range", CLI_BOOL, 0, DEL(range), NULL, "delete a range without the delay of two seconds",
     NULL}};

/* --- ranges ------------------------------------------------------------------------------------------ */

static const uint8_t ZERO[2] = {0, 0};

static ProtobufCBinaryData data_of(struct bytes s)
{
    /* protobuf-c has no const here, and never writes. */
    union {
        const uint8_t *in;
        uint8_t *out;
    } p = {.in = s.data};
    return (ProtobufCBinaryData){s.len, p.out};
}

int cli_prefix_end(struct bytes prefix, struct arena *arena, struct bytes *out)
{
    size_t len = prefix.len;
    while (len > 0 && prefix.data[len - 1] == 0xff)
        len--;
    if (len == 0) {
        *out = bytes_of(ZERO, 1);
        return 0;
    }
    struct bytes end = arena_copy(arena, bytes_of(prefix.data, len));
    if (end.data == NULL) return E_NOMEM;
    uint8_t *last = arena_new(arena, len + 1);
    if (last == NULL) return E_NOMEM;
    memcpy(last, end.data, len);
    last[len - 1]++;
    last[len] = '\0';
    *out = bytes_of(last, len);
    return 0;
}

/* Turns a key and the two flags into the two ends of a range. */
static int widen(struct bytes *key, bool prefix, bool from_key, struct arena *arena,
                 struct bytes *end)
{
    if (!prefix && !from_key) return 0;
    if (prefix && key->len > 0) return cli_prefix_end(*key, arena, end);
    if (key->len == 0) *key = bytes_of(ZERO, 1);
    *end = bytes_of(ZERO, 1);
    return 0;
}

static int out_of_memory(struct errmsg *em)
{
    return cli_fail(em, CLI_ERROR, "%s", err_text(E_NOMEM));
}

static const char BOTH[] = "`--%s` and `--%s` cannot be set at the same time, choose one";
static const char TOO_MANY[] =
    "too many arguments, only accept one argument when `--prefix` or `--from-key` is set";

/* --- get --------------------------------------------------------------------------------------------- */

int cli_consistency(struct bytes value, const char *said, bool *serializable, struct errmsg *em)
{
    *serializable = bytes_eq(value, bytes_str("s"));
    if (*serializable || bytes_eq(value, bytes_str("l"))) return CLI_OK;
    return cli_fail(em, CLI_BAD_FEATURE, "unknown consistency flag \"%s\"", said);
}

static bool same_word(struct bytes a, const char *b)
{
    return strcasecmp(cli_text(a), b) == 0;
}

static int get_sort(const struct cli_get_values *v, Etcdserverpb__RangeRequest *out,
                    struct errmsg *em)
{
    static const struct {
        const char *name;
        Etcdserverpb__RangeRequest__SortTarget target;
    } TARGETS[] = {{"", ETCDSERVERPB__RANGE_REQUEST__SORT_TARGET__KEY},
                   {"CREATE", ETCDSERVERPB__RANGE_REQUEST__SORT_TARGET__CREATE},
                   {"KEY", ETCDSERVERPB__RANGE_REQUEST__SORT_TARGET__KEY},
                   {"MODIFY", ETCDSERVERPB__RANGE_REQUEST__SORT_TARGET__MOD},
                   {"VALUE", ETCDSERVERPB__RANGE_REQUEST__SORT_TARGET__VALUE},
                   {"VERSION", ETCDSERVERPB__RANGE_REQUEST__SORT_TARGET__VERSION}};
    out->sort_order = ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__NONE;
    if (same_word(v->order, "ASCEND")) {
        out->sort_order = ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__ASCEND;
    } else if (same_word(v->order, "DESCEND")) {
        out->sort_order = ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__DESCEND;
    } else if (v->order.len > 0) {
        return cli_fail(em, CLI_BAD_FEATURE, "bad sort order %s", cli_text(v->order));
    }
    size_t i = 0;
    while (i < sizeof TARGETS / sizeof *TARGETS && !same_word(v->sort_by, TARGETS[i].name))
        i++;
    if (i == sizeof TARGETS / sizeof *TARGETS)
        return cli_fail(em, CLI_BAD_FEATURE, "bad sort target %s", cli_text(v->sort_by));
    out->sort_target = TARGETS[i].target;
    /* Keys come in ascending order anyway, and the server is quicker when it need not sort. */
    if (out->sort_target == ETCDSERVERPB__RANGE_REQUEST__SORT_TARGET__KEY &&
        out->sort_order == ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__ASCEND) {
        out->sort_order = ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__NONE;
    }
    return CLI_OK;
}

static int get_revisions(const struct cli_get_values *v, Etcdserverpb__RangeRequest *out,
                         struct errmsg *em)
{
    out->revision = v->revision > 0 ? v->revision : 0;
    out->min_create_revision = v->min_create > 0 ? v->min_create : 0;
    out->max_create_revision = v->max_create > 0 ? v->max_create : 0;
    out->min_mod_revision = v->min_mod > 0 ? v->min_mod : 0;
    out->max_mod_revision = v->max_mod > 0 ? v->max_mod : 0;
    if (v->max_create > 0 && v->min_create > v->max_create) {
        return cli_fail(em, CLI_BAD_FEATURE, "getMinCreateRev(=%lld) > getMaxCreateRev(=%lld)",
                        (long long)v->min_create, (long long)v->max_create);
    }
    if (v->max_mod > 0 && v->min_mod > v->max_mod) {
        return cli_fail(em, CLI_BAD_FEATURE, "getMinModRev(=%lld) > getMaxModRev(=%lld)",
                        (long long)v->min_mod, (long long)v->max_mod);
    }
    return CLI_OK;
}

int cli_get_request(const struct cli_get_values *v, const struct cli_words *args,
                    struct arena *arena, Etcdserverpb__RangeRequest *out, struct errmsg *em)
{
    bool serializable = false;
    etcdserverpb__range_request__init(out);
    if (args->count == 0) {
        return cli_fail(em, CLI_BAD_ARGS,
                        "get command needs one argument as key and an optional argument as "
                        "range_end");
    }
    if (v->prefix && v->from_key) return cli_fail(em, CLI_BAD_ARGS, BOTH, "prefix", "from-key");
    if (v->keys_only && v->count_only)
        return cli_fail(em, CLI_BAD_ARGS, BOTH, "keys-only", "count-only");
    int status = cli_consistency(v->consistency, cli_text(v->consistency), &serializable, em);
    if (status != CLI_OK) return status;
    if (args->count > 1 && (v->prefix || v->from_key)) return cli_fail(em, CLI_BAD_ARGS, TOO_MANY);
    status = get_sort(v, out, em);
    if (status == CLI_OK) status = get_revisions(v, out, em);
    if (status != CLI_OK) return status;
    struct bytes key = args->items[0];
    struct bytes end = args->count > 1 ? args->items[1] : BYTES_EMPTY;
    if (widen(&key, v->prefix, v->from_key, arena, &end) < 0) return out_of_memory(em);
    out->key = data_of(key);
    out->range_end = data_of(end);
    out->limit = v->limit;
    out->serializable = serializable;
    out->keys_only = v->keys_only;
    out->count_only = v->count_only;
    return CLI_OK;
}

/* --- put --------------------------------------------------------------------------------------------- */

bool cli_put_wants_input(const struct cli_put_values *v, const struct cli_words *args)
{
    return args->count == 1 && !v->ignore_value;
}

int cli_put_request(const struct cli_put_values *v, const struct cli_words *args,
                    struct bytes input, Etcdserverpb__PutRequest *out, struct errmsg *em)
{
    static const char NO_VALUE[] =
        "put command needs 1 argument and input from stdin or 2 arguments";
    etcdserverpb__put_request__init(out);
    if (args->count == 0) return cli_fail(em, CLI_BAD_ARGS, NO_VALUE);
    if (v->ignore_value && args->count > 1) {
        return cli_fail(em, CLI_BAD_ARGS,
                        "put command needs only 1 argument when 'ignore-value' is set");
    }
    if (cli_put_wants_input(v, args) && input.len == 0) return cli_fail(em, CLI_BAD_ARGS, NO_VALUE);
    struct errmsg cause;
    if (text_parse_int(v->lease, 16, &out->lease, &cause) < 0) {
        return cli_fail(em, CLI_BAD_ARGS, "bad lease ID (%s), expecting ID in Hex", cause.text);
    }
    out->key = data_of(args->items[0]);
    if (!v->ignore_value) out->value = data_of(args->count > 1 ? args->items[1] : input);
    out->prev_kv = v->prev_kv;
    out->ignore_value = v->ignore_value;
    out->ignore_lease = v->ignore_lease;
    return CLI_OK;
}

/* --- del --------------------------------------------------------------------------------------------- */

int cli_del_request(const struct cli_del_values *v, const struct cli_words *args,
                    struct arena *arena, Etcdserverpb__DeleteRangeRequest *out, bool *risky,
                    struct errmsg *em)
{
    etcdserverpb__delete_range_request__init(out);
    *risky = false;
    if (args->count == 0 || args->count > 2) {
        return cli_fail(em, CLI_BAD_ARGS,
                        "del command needs one argument as key and an optional argument as "
                        "range_end");
    }
    if (v->prefix && v->from_key) return cli_fail(em, CLI_BAD_ARGS, BOTH, "prefix", "from-key");
    if (args->count > 1 && (v->prefix || v->from_key)) return cli_fail(em, CLI_BAD_ARGS, TOO_MANY);
    *risky = args->count > 1 && !v->range;
    struct bytes key = args->items[0];
    struct bytes end = args->count > 1 ? args->items[1] : BYTES_EMPTY;
    if (widen(&key, v->prefix, v->from_key, arena, &end) < 0) return out_of_memory(em);
    out->key = data_of(key);
    out->range_end = data_of(end);
    out->prev_kv = v->prev_kv;
    return CLI_OK;
}

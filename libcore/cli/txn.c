/* The grammar of txn, line by line. */
#include "cli/txn.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/err.h"
#include "base/text.h"
#include "cli/kv.h"

enum { MESSAGE_BYTES_MAX = 64 * 1024 };

void cli_txn_init(struct cli_txn *t, struct arena *arena)
{
    *t = (struct cli_txn){.arena = arena};
    etcdserverpb__txn_request__init(&t->request);
}

/* --- lists ------------------------------------------------------------------------------------------ */

/* Makes room for one more pointer in a list of the arena. */
static int reserve_one(struct arena *arena, void *list_of_pointers, size_t count, size_t *capacity)
{
    void **list = NULL;
    if (count < *capacity) return 0;
    size_t more = *capacity == 0 ? 8 : *capacity * 2;
    void **bigger = arena_new(arena, more * sizeof *bigger);
    if (bigger == NULL) return E_NOMEM;
    memcpy(&list, list_of_pointers, sizeof list);
    if (count > 0) memcpy(bigger, list, count * sizeof *bigger);
    memcpy(list_of_pointers, &bigger, sizeof bigger);
    *capacity = more;
    return 0;
}

static int out_of_memory(struct errmsg *em)
{
    return cli_fail(em, CLI_ERROR, "%s", err_text(E_NOMEM));
}

/* --- comparisons ------------------------------------------------------------------------------------- */

/* One line taken apart; what was not read is empty. */
struct parts {
    struct bytes target, key, op, value;
};

static void skip_blanks(struct bytes *text)
{
    while (text->len > 0 && (text->data[0] == ' ' || text->data[0] == '\t'))
        *text = bytes_of(text->data + 1, text->len - 1);
}

static bool is_blank_next(struct bytes text)
{
    return text.len > 0 && (text.data[0] == ' ' || text.data[0] == '\t');
}

/* KEY ")" blank OP blank VALUE; what follows does not matter. Errors: E_INVAL, with `p` as far as it went; E_NOMEM. */
static int split_compare(struct bytes rest, struct arena *arena, struct parts *p)
{
    skip_blanks(&rest);
    int rc = cli_unquote(&rest, arena, &p->key);
    if (rc < 0) return rc;
    if (rest.len < 2 || rest.data[0] != ')') return E_INVAL;
    rest = bytes_of(rest.data + 1, rest.len - 1);
    if (!is_blank_next(rest)) return E_INVAL;
    skip_blanks(&rest);
    size_t n = 0;
    while (n < rest.len && rest.data[n] != ' ' && rest.data[n] != '\t')
        n++;
    p->op = bytes_of(rest.data, n);
    rest = bytes_of(rest.data + n, rest.len - n);
    if (!is_blank_next(rest)) return E_INVAL;
    skip_blanks(&rest);
    return cli_unquote(&rest, arena, &p->value);
}

static int malformed(struct cli_txn *t, struct bytes line, const struct parts *p, struct errmsg *em)
{
    struct alloc alloc = arena_alloc(t->arena);
    struct buf b;
    buf_init(&b, &alloc, MESSAGE_BYTES_MAX);
    int rc = buf_put_bytes(&b, line);
    if (rc == 0) rc = buf_put_str(&b, "; got ");
    if (rc == 0) rc = buf_put_bytes(&b, p->target);
    if (rc == 0) rc = buf_put_u8(&b, '(');
    if (rc == 0) rc = text_put_quoted(&b, p->key);
    if (rc == 0) rc = buf_put_str(&b, ") ");
    if (rc == 0) rc = buf_put_bytes(&b, p->op);
    if (rc == 0) rc = buf_put_u8(&b, ' ');
    if (rc == 0) rc = text_put_quoted(&b, p->value);
    if (rc == E_NOMEM) return out_of_memory(em);
    return cli_fail(em, CLI_BAD_INPUT, "malformed comparison: %.*s", (int)b.len,
                    b.len == 0 ? "" : (const char *)b.data);
}

static const struct target {
    const char *name;
    Etcdserverpb__Compare__CompareTarget target;
    Etcdserverpb__Compare__TargetUnionCase which;
    unsigned base; /* of the number; 0: a value */
} TARGETS[] = {
    {"ver", ETCDSERVERPB__COMPARE__COMPARE_TARGET__VERSION,
     ETCDSERVERPB__COMPARE__TARGET_UNION_VERSION, 10},
    {"version", ETCDSERVERPB__COMPARE__COMPARE_TARGET__VERSION,
     ETCDSERVERPB__COMPARE__TARGET_UNION_VERSION, 10},
    {"c", ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE,
     ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION, 10},
    {"create", ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE,
     ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION, 10},
    {"m", ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD,
     ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION, 10},
    {"mod", ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD,
     ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION, 10},
    {"val", ETCDSERVERPB__COMPARE__COMPARE_TARGET__VALUE, ETCDSERVERPB__COMPARE__TARGET_UNION_VALUE,
     0},
    {"value", ETCDSERVERPB__COMPARE__COMPARE_TARGET__VALUE,
     ETCDSERVERPB__COMPARE__TARGET_UNION_VALUE, 0},
    {"lease", ETCDSERVERPB__COMPARE__COMPARE_TARGET__LEASE,
     ETCDSERVERPB__COMPARE__TARGET_UNION_LEASE, 16},
};

static const struct target *target_named(struct bytes name)
{
    for (size_t i = 0; i < sizeof TARGETS / sizeof *TARGETS; i++) {
        if (bytes_eq(name, bytes_str(TARGETS[i].name))) return &TARGETS[i];
    }
    return NULL;
}

static int set_result(struct bytes op, Etcdserverpb__Compare *c)
{
    static const struct {
        const char *op;
        Etcdserverpb__Compare__CompareResult result;
    } OPS[] = {{"=", ETCDSERVERPB__COMPARE__COMPARE_RESULT__EQUAL},
               {"!=", ETCDSERVERPB__COMPARE__COMPARE_RESULT__NOT_EQUAL},
               {">", ETCDSERVERPB__COMPARE__COMPARE_RESULT__GREATER},
               {"<", ETCDSERVERPB__COMPARE__COMPARE_RESULT__LESS}};
    for (size_t i = 0; i < sizeof OPS / sizeof *OPS; i++) {
        if (!bytes_eq(op, bytes_str(OPS[i].op))) continue;
        c->result = OPS[i].result;
        return 0;
    }
    return E_INVAL;
}

/* All numbers of the union lie in the same place; which one it is says `target_union_case`. */
static void set_number(Etcdserverpb__Compare *c, const struct target *t, int64_t v)
{
    c->target_union_case = t->which;
    switch (t->target) {
    case ETCDSERVERPB__COMPARE__COMPARE_TARGET__VERSION: c->version = v; return;
    case ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE: c->create_revision = v; return;
    case ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD: c->mod_revision = v; return;
    case ETCDSERVERPB__COMPARE__COMPARE_TARGET__LEASE: c->lease = v; return;
    case ETCDSERVERPB__COMPARE__COMPARE_TARGET__VALUE:
    case _ETCDSERVERPB__COMPARE__COMPARE_TARGET_IS_INT_SIZE: return;
    }
}

static ProtobufCBinaryData data_of(struct bytes s)
{
    union {
        const uint8_t *in;
        uint8_t *out; /* protobuf-c has no const here, and never writes */
    } p = {.in = s.data};
    return (ProtobufCBinaryData){s.len, p.out};
}

static int add_compare(struct cli_txn *t, const Etcdserverpb__Compare *c, struct errmsg *em)
{
    Etcdserverpb__Compare *kept = arena_new(t->arena, sizeof *kept);
    if (kept == NULL || reserve_one(t->arena, &t->request.compare, t->request.n_compare,
                                    &t->capacity[CLI_TXN_COMPARES]) < 0) {
        return out_of_memory(em);
    }
    *kept = *c;
    t->request.compare[t->request.n_compare++] = kept;
    return CLI_OK;
}

static int compare_line(struct cli_txn *t, struct bytes line, struct errmsg *em)
{
    const char *text = cli_text(line);
    struct parts p = {0};
    const uint8_t *open = memchr(line.data, '(', line.len);
    if (open == NULL) return cli_fail(em, CLI_BAD_INPUT, "malformed comparison: %s", text);
    p.target = bytes_of(line.data, (size_t)(open - line.data));
    int rc = split_compare(bytes_of(open + 1, line.len - p.target.len - 1), t->arena, &p);
    if (rc == E_NOMEM) return out_of_memory(em);
    if (rc < 0) return malformed(t, line, &p, em);
    const struct target *target = target_named(p.target);
    if (target == NULL) {
        return cli_fail(em, CLI_BAD_INPUT, "malformed comparison: %s (unknown target %.*s)", text,
                        (int)p.target.len, (const char *)p.target.data);
    }
    Etcdserverpb__Compare c = ETCDSERVERPB__COMPARE__INIT;
    int64_t number = 0;
    if (target->base != 0 && text_parse_int(p.value, target->base, &number, NULL) < 0)
        return cli_fail(em, CLI_BAD_INPUT, "invalid txn compare request: %s", text);
    if (set_result(p.op, &c) < 0) {
        return cli_fail(em, CLI_BAD_INPUT, "malformed comparison: %s (unknown operator %.*s)", text,
                        (int)p.op.len, (const char *)p.op.data);
    }
    c.target = target->target;
    c.key = data_of(p.key);
    set_number(&c, target, number);
    if (target->base == 0) {
        c.target_union_case = target->which;
        c.value = data_of(p.value);
    }
    return add_compare(t, &c, em);
}

/* --- requests ------------------------------------------------------------------------------------------ */

/* A line as one of the three commands: reads its flags and fills `op`. */
struct verb {
    const char *name;
    const struct cli_flag *rows;
    size_t row_count, values_bytes;
    int (*make)(struct cli_txn *t, const void *values, const struct cli_words *args,
                Etcdserverpb__RequestOp *op, struct errmsg *em);
};

static int make_get(struct cli_txn *t, const void *values, const struct cli_words *args,
                    Etcdserverpb__RequestOp *op, struct errmsg *em)
{
    Etcdserverpb__RangeRequest *r = arena_new(t->arena, sizeof *r);
    if (r == NULL) return out_of_memory(em);
    op->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
    op->request_range = r;
    return cli_get_request(values, args, t->arena, r, em);
}

static int make_put(struct cli_txn *t, const void *values, const struct cli_words *args,
                    Etcdserverpb__RequestOp *op, struct errmsg *em)
{
    Etcdserverpb__PutRequest *r = arena_new(t->arena, sizeof *r);
    if (r == NULL) return out_of_memory(em);
    op->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
    op->request_put = r;
    return cli_put_request(values, args, BYTES_EMPTY, r, em);
}

static int make_del(struct cli_txn *t, const void *values, const struct cli_words *args,
                    Etcdserverpb__RequestOp *op, struct errmsg *em)
{
    Etcdserverpb__DeleteRangeRequest *r = arena_new(t->arena, sizeof *r);
    if (r == NULL) return out_of_memory(em);
    op->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
    op->request_delete_range = r;
    int status = cli_del_request(values, args, t->arena, r, &t->risky, em);
    if (t->risky) {
        t->from = args->items[0];
        t->to = args->items[1];
    }
    return status;
}

static const struct verb VERBS[] = {
    {"get", cli_get_rows, CLI_GET_ROWS, sizeof(struct cli_get_values), make_get},
    {"put", cli_put_rows, CLI_PUT_ROWS, sizeof(struct cli_put_values), make_put},
    {"del", cli_del_rows, CLI_DEL_ROWS, sizeof(struct cli_del_values), make_del}};

/* No two of the names begin alike, so any beginning names one, as on the command line. */
static const struct verb *verb_named(struct bytes word)
{
    for (size_t i = 0; i < sizeof VERBS / sizeof *VERBS && word.len > 0; i++) {
        if (word.len <= 3 && memcmp(VERBS[i].name, word.data, word.len) == 0) return &VERBS[i];
    }
    return NULL;
}

static int make_op(struct cli_txn *t, struct bytes line, struct cli_words words,
                   Etcdserverpb__RequestOp *op, struct errmsg *em)
{
    const struct verb *v = verb_named(words.items[0]);
    struct cli_flags flags = {.arena = t->arena};
    void *values = v == NULL ? NULL : arena_zero(t->arena, v->values_bytes);
    if (v == NULL) return cli_fail(em, CLI_BAD_INPUT, "invalid txn request: %s", cli_text(line));
    if (values == NULL || cli_flags_add(&flags, v->rows, v->row_count, values) < 0)
        return out_of_memory(em);
    struct cli_words args = {words.items + 1, words.count - 1};
    struct errmsg cause;
    int rc = cli_flags_parse(&flags, &args, &cause);
    if (rc == E_NOMEM) return out_of_memory(em);
    if (rc < 0) {
        t->usage_of = v->name;
        return cli_fail(em, CLI_BAD_INPUT, "invalid txn request: %s", cli_text(line));
    }
    return v->make(t, values, &args, op, em);
}

static int request_line(struct cli_txn *t, struct bytes line, struct errmsg *em)
{
    struct cli_words words;
    int rc = cli_split_words(line, t->arena, &words);
    if (rc == E_NOMEM) return out_of_memory(em);
    if (rc < 0) return cli_fail(em, CLI_BAD_INPUT, "invalid syntax");
    if (words.count < 2)
        return cli_fail(em, CLI_BAD_INPUT, "invalid txn compare request: %s", cli_text(line));
    Etcdserverpb__RequestOp *op = arena_new(t->arena, sizeof *op);
    if (op == NULL) return out_of_memory(em);
    etcdserverpb__request_op__init(op);
    int status = make_op(t, line, words, op, em);
    if (status != CLI_OK) return status;
    bool success = t->part == CLI_TXN_SUCCESS;
    Etcdserverpb__RequestOp ***list = success ? &t->request.success : &t->request.failure;
    size_t *count = success ? &t->request.n_success : &t->request.n_failure;
    if (reserve_one(t->arena, list, *count, &t->capacity[t->part]) < 0) return out_of_memory(em);
    (*list)[(*count)++] = op;
    return CLI_OK;
}

/* --- lines ---------------------------------------------------------------------------------------------- */

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static struct bytes trim(struct bytes s)
{
    while (s.len > 0 && is_space(s.data[s.len - 1]))
        s.len--;
    while (s.len > 0 && is_space(s.data[0]))
        s = bytes_of(s.data + 1, s.len - 1);
    return s;
}

int cli_txn_line(struct cli_txn *t, struct bytes line, struct errmsg *em)
{
    ASSERT(t->part < CLI_TXN_DONE);
    t->risky = false;
    line = trim(line);
    if (line.len == 0) {
        t->part = (enum cli_txn_part)(t->part + 1);
        return CLI_OK;
    }
    /* Messages quote the line, and the request keeps parts of it. */
    line = arena_copy(t->arena, line);
    if (line.data == NULL) return out_of_memory(em);
    if (t->part == CLI_TXN_COMPARES) return compare_line(t, line, em);
    return request_line(t, line, em);
}

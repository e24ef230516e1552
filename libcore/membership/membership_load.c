/* A version from the rows of a store. */
#include "base/assert.h"
#include "base/err.h"
#include "base/json.h"
#include "membership/membership_int.h"

/* Called for each row of a table; non-zero stops with that value. */
typedef int (*row_fn)(void *arg, struct bytes key, struct bytes value, struct errmsg *em);

static int each_row(const struct backend *be, struct backend_read *read, enum table table,
                    row_fn fn, void *arg, struct errmsg *em)
{
    struct backend_cursor *cursor = NULL;
    struct bytes key;
    struct bytes value;
    int rc = be->cursor_open(read, table, &cursor);
    if (rc < 0) return rc;
    for (rc = be->seek(cursor, BYTES_EMPTY, &key, &value); rc == 0;
         rc = be->next(cursor, &key, &value)) {
        rc = fn(arg, key, value, em);
        if (rc < 0) goto out;
    }
    if (rc == E_NOTFOUND) rc = 0;
out:
    be->cursor_close(cursor);
    return rc;
}

static int bad_row(struct errmsg *em, enum table table, struct bytes key)
{
    errmsg_set(em, "row \"%.*s\" of table %s is corrupt", (int)(key.len < 256 ? key.len : 256),
               (const char *)key.data, table_name(table));
    return E_CORRUPT;
}

static int count_row(void *arg, struct bytes key, struct bytes value, struct errmsg *em)
{
    (void)key;
    (void)value;
    (void)em;
    ++*(size_t *)arg;
    return 0;
}

struct loader {
    struct membership *v;
    struct arena scratch;
};

static int load_member(void *arg, struct bytes key, struct bytes value, struct errmsg *em)
{
    struct loader *l = arg;
    struct member_context context = {0};
    uint64_t id = 0;
    if (member_id_parse(key, &id) < 0) return bad_row(em, TABLE_MEMBERS, key);
    int rc = member_decode(value, &l->scratch, &context, NULL);
    if (rc == E_NOMEM) return rc;
    if (rc < 0 || context.member.id != id) return bad_row(em, TABLE_MEMBERS, key);
    rc = membership__add(l->v, &context.member);
    return rc == E_INVAL ? bad_row(em, TABLE_MEMBERS, key) : rc;
}

static int load_removed(void *arg, struct bytes key, struct bytes value, struct errmsg *em)
{
    struct loader *l = arg;
    uint64_t id = 0;
    (void)value;
    if (member_id_parse(key, &id) < 0) return bad_row(em, TABLE_MEMBERS_REMOVED, key);
    membership__add_removed(l->v, id);
    return 0;
}

/* Skips a number; false when there is none. */
static bool take_number(struct bytes *text)
{
    size_t n = 0;
    while (n < text->len && text->data[n] >= '0' && text->data[n] <= '9') {
        n++;
    }
    *text = bytes_of(text->data + n, text->len - n);
    return n > 0;
}

bool membership__is_version(struct bytes text)
{
    for (int i = 0; i < 3; i++) {
        if (i > 0) {
            if (text.len == 0 || text.data[0] != '.') return false;
            text = bytes_of(text.data + 1, text.len - 1);
        }
        if (text.len == 0 || !take_number(&text)) return false;
    }
    return text.len == 0 || text.data[0] == '-' || text.data[0] == '+';
}

/* Reads {"target-version":"...","enabled":...}; the text is left as it stands in the JSON. */
static int decode_downgrade(struct bytes json, struct membership_downgrade *out)
{
    struct json_reader r;
    struct json_token key;
    struct json_token value;
    json_init(&r, json);
    int rc = json_next(&r, &key);
    if (rc < 0 || key.kind != JSON_OBJECT) return E_INVAL;
    for (;;) {
        rc = json_next(&r, &key);
        if (rc < 0) return rc;
        if (key.kind == JSON_OBJECT_END) break;
        rc = json_next(&r, &value);
        if (rc < 0) return rc;
        if (json_key_is(&key, "target-version") && value.kind == JSON_STRING)
            out->target = value.text;
        if (json_key_is(&key, "enabled") && value.kind == JSON_BOOL) out->enabled = value.truth;
        rc = json_skip(&r, &value);
        if (rc < 0) return rc;
    }
    return json_next(&r, &key);
}

static int load_downgrade(struct membership *v, struct bytes key, struct bytes value,
                          struct errmsg *em)
{
    struct membership_downgrade d = {.stored = true};
    int rc = decode_downgrade(value, &d);
    if (rc < 0 || (d.enabled && !membership__is_version(d.target))) {
        return bad_row(em, TABLE_CLUSTER, key);
    }
    v->downgrade = d;
    return membership__copy_text(v, d.target, &v->downgrade.target);
}

static int load_cluster(void *arg, struct bytes key, struct bytes value, struct errmsg *em)
{
    struct loader *l = arg;
    if (bytes_eq(key, bytes_str(MEMBERSHIP__DOWNGRADE_KEY))) {
        return load_downgrade(l->v, key, value, em);
    }
    if (!bytes_eq(key, bytes_str(MEMBERSHIP__VERSION_KEY))) return 0;
    if (!membership__is_version(value)) return bad_row(em, TABLE_CLUSTER, key);
    return membership__copy_text(l->v, value, &l->v->version);
}

int membership_load(const struct alloc *alloc, const struct backend *be, struct backend_read *read,
                    struct membership **out, struct errmsg *em)
{
    size_t members = 0;
    size_t removed = 0;
    struct loader l = {0};
    arena_init(&l.scratch, alloc, SIZE_MAX / 2);
    int rc = each_row(be, read, TABLE_MEMBERS, count_row, &members, em);
    if (rc == 0) rc = each_row(be, read, TABLE_MEMBERS_REMOVED, count_row, &removed, em);
    if (rc == 0) rc = membership__new(alloc, members, removed, &l.v);
    if (rc == 0) rc = each_row(be, read, TABLE_MEMBERS, load_member, &l, em);
    if (rc == 0) rc = each_row(be, read, TABLE_MEMBERS_REMOVED, load_removed, &l, em);
    if (rc == 0) rc = each_row(be, read, TABLE_CLUSTER, load_cluster, &l, em);
    arena_deinit(&l.scratch);
    if (rc < 0) {
        membership_unref(l.v);
        return rc;
    }
    ASSERT(l.v->member_count == members);
    *out = l.v;
    return 0;
}

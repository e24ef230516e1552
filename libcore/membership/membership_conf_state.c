/* The conf state as JSON: meta["confState"]. */
#include "base/assert.h"
#include "base/err.h"
#include "base/json.h"
#include "membership/membership.h"

enum { LISTS = 4, IDS_MAX = 1 << 16 };

static const char *const names[LISTS] = {"voters", "learners", "voters_outgoing", "learners_next"};

/* ---- writing -------------------------------------------------------------------------------------- */

/* Appends `"name":[1,2],`, or nothing for an empty list. */
static int put_list(struct buf *out, const char *name, struct pb_ids ids)
{
    if (ids.count == 0) return 0;
    int rc = buf_printf(out, "\"%s\":", name);
    for (size_t i = 0; i < ids.count && rc == 0; i++) {
        rc = buf_printf(out, "%c%llu", i == 0 ? '[' : ',', (unsigned long long)ids.data[i]);
    }
    return rc < 0 ? rc : buf_put_str(out, "],");
}

int membership_conf_state_put(const struct pb_conf_state *cs, struct buf *out)
{
    const struct pb_ids *lists[LISTS] = {&cs->voters, &cs->learners, &cs->voters_outgoing,
                                         &cs->learners_next};
    size_t len = out->len;
    int rc = buf_put_u8(out, '{');
    for (size_t i = 0; i < LISTS && rc == 0; i++) {
        rc = put_list(out, names[i], *lists[i]);
    }
    if (rc == 0 && !cs->auto_leave_unset) {
        rc = buf_put_str(out, cs->auto_leave ? "\"auto_leave\":true" : "\"auto_leave\":false");
    } else if (rc == 0 && out->data[out->len - 1] == ',') {
        out->len--;
    }
    if (rc == 0) rc = buf_put_u8(out, '}');
    if (rc < 0) out->len = len;
    return rc;
}

/* ---- reading -------------------------------------------------------------------------------------- */

/* The ids of the array just opened; counts only while `ids` is NULL. */
static int take_ids(struct json_reader *r, uint64_t *ids, size_t *count)
{
    for (*count = 0;; ++*count) {
        struct json_token t;
        uint64_t id = 0;
        int rc = json_next(r, &t);
        if (rc < 0) return rc;
        if (t.kind == JSON_ARRAY_END) return 0;
        if (json_uint(&t, &id) < 0 || *count == IDS_MAX) return E_INVAL;
        if (ids != NULL) ids[*count] = id;
    }
}

static int take_list(struct json_reader *r, const struct json_token *value, struct arena *arena,
                     struct pb_ids *out)
{
    size_t count = 0;
    if (value->kind != JSON_ARRAY) return value->kind == JSON_NULL ? 0 : E_INVAL;
    struct json_reader ahead = *r;
    int rc = take_ids(&ahead, NULL, &count);
    if (rc < 0) return rc;
    uint64_t *ids = arena_new(arena, count * sizeof *ids);
    if (ids == NULL) return E_NOMEM;
    rc = take_ids(r, ids, &count);
    ASSERT(rc == 0);
    *out = (struct pb_ids){ids, count};
    return 0;
}

static int take_field(struct json_reader *r, const struct json_token *key, struct arena *arena,
                      struct pb_conf_state *cs)
{
    struct pb_ids *lists[LISTS] = {&cs->voters, &cs->learners, &cs->voters_outgoing,
                                   &cs->learners_next};
    struct json_token value;
    int rc = json_next(r, &value);
    if (rc < 0) return rc;
    for (size_t i = 0; i < LISTS; i++) {
        if (json_key_is(key, names[i])) return take_list(r, &value, arena, lists[i]);
    }
    if (!json_key_is(key, "auto_leave")) return json_skip(r, &value);
    if (value.kind == JSON_NULL) return 0;
    cs->auto_leave = value.truth;
    cs->auto_leave_unset = false;
    return value.kind == JSON_BOOL ? 0 : E_INVAL;
}

static int take_object(struct json_reader *r, struct arena *arena, struct pb_conf_state *cs)
{
    struct json_token t;
    int rc = json_next(r, &t);
    if (rc < 0) return rc;
    if (t.kind != JSON_OBJECT) return E_INVAL;
    for (;;) {
        rc = json_next(r, &t);
        if (rc < 0) return rc;
        if (t.kind == JSON_OBJECT_END) return json_next(r, &t);
        rc = take_field(r, &t, arena, cs);
        if (rc < 0) return rc;
    }
}

int membership_conf_state_decode(struct bytes json, struct arena *arena, struct pb_conf_state *out)
{
    struct json_reader r;
    struct pb_conf_state cs = {.auto_leave_unset = true};
    json_init(&r, json);
    int rc = take_object(&r, arena, &cs);
    if (rc < 0) return rc == E_NOMEM ? rc : E_CORRUPT;
    *out = cs;
    return 0;
}

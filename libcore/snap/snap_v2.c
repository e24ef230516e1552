/* The v2 store's JSON, written as the store would have come about.
 *
 * A store with the folders /0 and /1; then one step per attribute: each raises the index by one and gives it to the
 * node it makes and to the folders that it has to make on the way (disk-format.md 3.1). The tree is written first,
 * with the step numbers worked out in advance, then the last 1000 steps as events. */
#include "snap/snap_v2.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "base/text.h"

enum {
    EVENTS_MAX = 1000, /* slots of the event ring */
    HEX_BYTES_MAX = 17,
    VALUE_BYTES_MAX = 16 * 1024 * 1024 /* attributes of one member */
};

/* A member or a removed one, with the step that makes it. */
struct slot {
    char hex[HEX_BYTES_MAX];     /* id, lower case, not padded: the key's text */
    const struct member *member; /* NULL: removed */
    uint64_t step;
};

struct enc {
    const struct snap_v2_store *s;
    struct buf *out;
    struct buf value;   /* scratch: a node's value */
    struct slot *slots; /* members, then removed ones, each in order of making */
    size_t slot_count;
    uint64_t step_count;
    uint64_t set_count;
    int rc; /* the first error; nothing is written after it */
};

/* ---- writing, with the error kept ------------------------------------------------------------------------ */

static void put(struct enc *e, const char *text)
{
    if (e->rc == 0) e->rc = buf_put_str(e->out, text);
}

static void put_num(struct enc *e, const char *name, uint64_t v)
{
    if (e->rc == 0) e->rc = buf_printf(e->out, "\"%s\":%llu", name, (unsigned long long)v);
}

static void put_json(struct enc *e, struct bytes s)
{
    if (e->rc == 0) e->rc = text_put_json(e->out, s);
}

/* ---- values ---------------------------------------------------------------------------------------------- */

static int value_urls(struct buf *b, const char *name, const struct bytes *urls, size_t n)
{
    int rc = buf_printf(b, "\"%s\":", name);
    if (rc == 0 && n == 0) return buf_put_str(b, "null");
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = buf_put_u8(b, i == 0 ? '[' : ',');
        if (rc == 0) rc = text_put_json(b, urls[i]);
    }
    return rc == 0 ? buf_put_u8(b, ']') : rc;
}

static int value_raft_attributes(struct buf *b, const struct member *m)
{
    int rc = buf_put_u8(b, '{');
    if (rc == 0) rc = value_urls(b, "peerURLs", m->peer_urls, m->peer_url_count);
    if (rc == 0 && m->is_learner) rc = buf_put_str(b, ",\"isLearner\":true");
    return rc == 0 ? buf_put_u8(b, '}') : rc;
}

static int value_attributes(struct buf *b, const struct member *m)
{
    int rc = buf_put_u8(b, '{');
    if (rc == 0 && m->name.len > 0) {
        rc = buf_put_str(b, "\"name\":");
        if (rc == 0) rc = text_put_json(b, m->name);
        if (rc == 0) rc = buf_put_u8(b, ',');
    }
    if (rc == 0) rc = value_urls(b, "clientURLs", m->client_urls, m->client_url_count);
    return rc == 0 ? buf_put_u8(b, '}') : rc;
}

static bool has_attributes(const struct slot *s)
{
    return s->member != NULL && s->member->client_url_count > 0;
}

/* The value of a slot's node as bytes of the scratch. */
static struct bytes slot_value(struct enc *e, const struct slot *s, bool attributes)
{
    buf_reset(&e->value);
    if (s->member == NULL || e->rc < 0) return BYTES_EMPTY;
    e->rc = attributes ? value_attributes(&e->value, s->member)
                       : value_raft_attributes(&e->value, s->member);
    return buf_bytes(&e->value);
}

/* ---- the tree -------------------------------------------------------------------------------------------- */

/* A node up to its children. */
static void put_node(struct enc *e, const char *key, const char *path, uint64_t step,
                     struct bytes value)
{
    if (e->rc == 0 && key[0] != '\0') e->rc = buf_printf(e->out, "\"%s\":", key);
    if (e->rc == 0)
        e->rc = buf_printf(e->out,
                           "{\"Path\":\"%s\",\"CreatedIndex\":%llu,\"ModifiedIndex\":%llu,"
                           "\"ExpireTime\":\"0001-01-01T00:00:00Z\",\"Value\":",
                           path, (unsigned long long)step, (unsigned long long)step);
    put_json(e, value);
    put(e, ",\"Children\":");
}

static void put_leaf(struct enc *e, const char *key, const char *path, uint64_t step,
                     struct bytes value)
{
    put_node(e, key, path, step, value);
    put(e, "null}");
}

enum { PATH_BYTES_MAX = 64 };

static const char *slot_path(const struct slot *s, const char *below, char out[PATH_BYTES_MAX])
{
    int n = snprintf(out, PATH_BYTES_MAX, "/0/%s/%s%s",
                     s->member == NULL ? "removed_members" : "members", s->hex, below);
    ASSERT(n > 0);
    ASSERT(n < PATH_BYTES_MAX);
    return out;
}

static void put_slot(struct enc *e, const struct slot *s)
{
    char path[PATH_BYTES_MAX];
    if (s->member == NULL) {
        put_leaf(e, s->hex, slot_path(s, "", path), s->step, BYTES_EMPTY);
        return;
    }
    put_node(e, s->hex, slot_path(s, "", path), s->step, BYTES_EMPTY);
    put(e, "{");
    if (has_attributes(s)) {
        put_leaf(e, "attributes", slot_path(s, "/attributes", path), s->step + 1,
                 slot_value(e, s, true));
        put(e, ",");
    }
    put_leaf(e, "raftAttributes", slot_path(s, "/raftAttributes", path), s->step,
             slot_value(e, s, false));
    put(e, "}}");
}

static int slot_cmp(const void *a, const void *b)
{
    return strcmp(((const struct slot *)a)->hex, ((const struct slot *)b)->hex);
}

/* A folder with `n` slots, which are sorted by text for it. */
static void put_folder(struct enc *e, const char *key, const char *path, const struct slot *slots,
                       size_t n)
{
    put_node(e, key, path, slots[0].step, BYTES_EMPTY);
    struct slot *sorted = alloc_new(e->out->alloc, n * sizeof *sorted);
    if (sorted == NULL) {
        if (e->rc == 0) e->rc = E_NOMEM;
        return;
    }
    memcpy(sorted, slots, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, slot_cmp);
    for (size_t i = 0; i < n; i++) {
        put(e, i == 0 ? "{" : ",");
        put_slot(e, &sorted[i]);
    }
    put(e, "}}");
    alloc_free(e->out->alloc, sorted, n * sizeof *sorted);
}

static void put_tree(struct enc *e)
{
    size_t members = e->s->member_count;
    size_t removed = e->s->removed_count;
    bool version = e->s->version.len > 0;
    put(e, "\"Root\":");
    put_node(e, "", "/", 0, BYTES_EMPTY);
    put(e, "{");
    put_node(e, "0", "/0", 0, BYTES_EMPTY);
    put(e, "{");
    if (members > 0) put_folder(e, "members", "/0/members", e->slots, members);
    if (members > 0 && (removed > 0 || version)) put(e, ",");
    if (removed > 0)
        put_folder(e, "removed_members", "/0/removed_members", e->slots + members, removed);
    if (removed > 0 && version) put(e, ",");
    if (version) put_leaf(e, "version", "/0/version", e->step_count, e->s->version);
    put(e, "}},");
    put_node(e, "1", "/1", 0, BYTES_EMPTY);
    put(e, "{}}}}");
}

/* ---- the events ------------------------------------------------------------------------------------------ */

static void put_event(struct enc *e, const char *action, const char *path, struct bytes value,
                      uint64_t step)
{
    if (e->rc == 0)
        e->rc = buf_printf(e->out, "{\"action\":\"%s\",\"node\":{\"key\":\"%s\",\"value\":", action,
                           path);
    put_json(e, value);
    put(e, ",");
    put_num(e, "modifiedIndex", step);
    put(e, ",");
    put_num(e, "createdIndex", step);
    put(e, "}}");
}

/* The event of step `step`; `*at` is the slot to look at first and moves on. */
static void put_step(struct enc *e, uint64_t step, size_t *at)
{
    char path[PATH_BYTES_MAX];
    if (e->s->version.len > 0 && step == e->step_count) {
        put_event(e, "set", "/0/version", e->s->version, step);
        return;
    }
    while (*at + 1 < e->slot_count && e->slots[*at + 1].step <= step)
        (*at)++;
    const struct slot *s = &e->slots[*at];
    bool set = step == s->step + 1;
    ASSERT(set || step == s->step);
    const char *below = set ? "/attributes" : s->member != NULL ? "/raftAttributes" : "";
    put_event(e, set ? "set" : "create", slot_path(s, below, path), slot_value(e, s, set), step);
}

/* Slot i of the ring holds the last step that is i + 1 modulo its size. */
static void put_ring(struct enc *e)
{
    uint64_t n = e->step_count;
    uint64_t wrapped = n > EVENTS_MAX ? n % EVENTS_MAX : 0; /* slots of the newest lap */
    uint64_t lap = n > EVENTS_MAX ? n - wrapped : 0;        /* steps before it */
    size_t at = 0;
    put(e, "[");
    for (uint64_t i = 0; i < EVENTS_MAX; i++) {
        if (i > 0) put(e, ",");
        uint64_t step = i < wrapped ? lap + i + 1 : i + 1;
        if (n > EVENTS_MAX && i >= wrapped) step = lap - EVENTS_MAX + i + 1;
        if (i == wrapped) at = 0;
        if (step > n)
            put(e, "null");
        else
            put_step(e, step, &at);
    }
    put(e, "]");
}

static void put_history(struct enc *e)
{
    uint64_t n = e->step_count;
    bool full = n >= EVENTS_MAX;
    put(e, "\"WatcherHub\":{\"EventHistory\":{\"Queue\":{\"Events\":");
    put_ring(e);
    put(e, ",");
    put_num(e, "Size", full ? EVENTS_MAX : n);
    put(e, ",");
    put_num(e, "Front", full ? n % EVENTS_MAX : 0);
    put(e, ",");
    put_num(e, "Back", n % EVENTS_MAX);
    put(e, ",\"Capacity\":1000},");
    put_num(e, "StartIndex", n == 0 ? 0 : full ? n - EVENTS_MAX + 1 : 1);
    put(e, ",");
    put_num(e, "LastIndex", n);
    put(e, "}}");
}

static void put_stats(struct enc *e)
{
    put(e, "\"Stats\":{\"getsSuccess\":0,\"getsFail\":1,");
    put_num(e, "setsSuccess", e->set_count);
    put(e, ",\"setsFail\":0,\"deleteSuccess\":0,\"deleteFail\":0,"
           "\"updateSuccess\":0,\"updateFail\":0,");
    put_num(e, "createSuccess", e->step_count - e->set_count);
    put(e, ",\"createFail\":0,\"compareAndSwapSuccess\":0,\"compareAndSwapFail\":0,"
           "\"compareAndDeleteSuccess\":0,\"compareAndDeleteFail\":0,"
           "\"expireCount\":0,\"watchers\":0}");
}

/* ---- the whole ------------------------------------------------------------------------------------------- */

static void number_slot(struct enc *e, uint64_t id, const struct member *m)
{
    struct slot *s = &e->slots[e->slot_count++];
    *s = (struct slot){.member = m, .step = ++e->step_count};
    int n = snprintf(s->hex, sizeof s->hex, "%llx", (unsigned long long)id);
    ASSERT(n > 0);
    if (!has_attributes(s)) return;
    e->step_count++;
    e->set_count++;
}

static void number_steps(struct enc *e)
{
    for (size_t i = 0; i < e->s->member_count; i++)
        number_slot(e, e->s->members[i].id, &e->s->members[i]);
    for (size_t i = 0; i < e->s->removed_count; i++)
        number_slot(e, e->s->removed[i], NULL);
    if (e->s->version.len == 0) return;
    e->step_count++;
    e->set_count++;
}

static void put_all(struct enc *e)
{
    put(e, "{");
    put_tree(e);
    put(e, ",");
    put_history(e);
    put(e, ",");
    put_num(e, "CurrentIndex", e->step_count);
    put(e, ",");
    put_stats(e);
    put(e, ",\"CurrentVersion\":2}");
}

int snap_v2_encode(const struct snap_v2_store *s, struct buf *out)
{
    struct enc e = {.s = s, .out = out};
    size_t slots = s->member_count + s->removed_count;
    size_t before = out->len;
    if (slots > 0) {
        e.slots = alloc_new(out->alloc, slots * sizeof *e.slots);
        if (e.slots == NULL) return E_NOMEM;
    }
    buf_init(&e.value, out->alloc, VALUE_BYTES_MAX);
    number_steps(&e);
    put_all(&e);
    buf_deinit(&e.value);
    if (slots > 0) alloc_free(out->alloc, e.slots, slots * sizeof *e.slots);
    if (e.rc < 0) out->len = before;
    return e.rc;
}

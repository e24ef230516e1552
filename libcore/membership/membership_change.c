/* Changes: each copies the version, changes the copy, and makes the rows, all before anybody sees it. */
#include "base/assert.h"
#include "base/err.h"
#include "base/text.h"
#include "membership/membership_int.h"

/* ---- rows ----------------------------------------------------------------------------------------- */

static struct membership_row *add_row(struct membership_change *c, enum table table, bool del)
{
    ASSERT(c->row_count < MEMBERSHIP_ROWS_MAX);
    struct membership_row *row = &c->rows[c->row_count++];
    *row = (struct membership_row){.table = table, .del = del};
    return row;
}

static int set_id_key(struct membership *v, struct membership_row *row, uint64_t id)
{
    char text[MEMBER_ID_TEXT_BYTES];
    size_t len = member_id_text(id, text);
    return membership__copy_text(v, bytes_of(text, len), &row->key);
}

/* The row of a member as it now is. */
static int add_member_row(struct membership *v, struct membership_change *c,
                          const struct member *member)
{
    struct membership_row *row = add_row(c, TABLE_MEMBERS, false);
    int rc = set_id_key(v, row, member->id);
    if (rc < 0) return rc;
    struct alloc alloc = arena_alloc(&v->arena);
    struct buf json;
    buf_init(&json, &alloc, SIZE_MAX / 2);
    rc = member_put_json(member, &json);
    if (rc < 0) return rc;
    row->value = buf_bytes(&json);
    return 0;
}

/* ---- validation (walkthroughs.md 6) --------------------------------------------------------------- */

static bool url_in_use(const struct membership *m, struct bytes url, uint64_t but_of)
{
    for (size_t i = 0; i < m->member_count; i++) {
        const struct member *member = &m->members[i];
        if (member->id == but_of) continue;
        for (size_t j = 0; j < member->peer_url_count; j++) {
            if (bytes_eq(member->peer_urls[j], url)) return true;
        }
    }
    return false;
}

/* Whether a member other than `id` has one of the URLs wanted for `id`. */
static int check_urls(const struct membership *m, const struct member *wanted, uint64_t id)
{
    for (size_t i = 0; i < wanted->peer_url_count; i++) {
        if (url_in_use(m, wanted->peer_urls[i], id)) return E_PEER_URL_EXIST;
    }
    return 0;
}

static int validate_add(const struct membership *m, const struct pb_conf_change *cc,
                        const struct member_context *context, size_t learners_max)
{
    const struct member *old = membership_find(m, cc->node_id);
    if (context->is_promote) {
        if (old == NULL) return E_MEMBER_NOT_FOUND;
        return old->is_learner ? 0 : E_MEMBER_NOT_LEARNER;
    }
    if (old != NULL) return E_MEMBER_EXIST;
    int rc = check_urls(m, &context->member, cc->node_id);
    if (rc < 0) return rc;
    bool learner = context->member.is_learner && cc->type == PB_ADD_LEARNER_NODE;
    size_t learners = membership_count(m) - membership_voter_count(m);
    return learner && learners + 1 > learners_max ? E_TOO_MANY_LEARNERS : 0;
}

static int validate(const struct membership *m, const struct pb_conf_change *cc,
                    const struct member_context *context, size_t learners_max)
{
    if (cc->type == PB_ADD_NODE || cc->type == PB_ADD_LEARNER_NODE) {
        return validate_add(m, cc, context, learners_max);
    }
    if (membership_find(m, cc->node_id) == NULL) return E_MEMBER_NOT_FOUND;
    return cc->type == PB_REMOVE_NODE ? 0 : check_urls(m, &context->member, cc->node_id);
}

/* ---- conf changes --------------------------------------------------------------------------------- */

static int do_remove(struct membership *v, uint64_t id, struct membership_change *c)
{
    membership__remove(v, id);
    int rc = set_id_key(v, add_row(c, TABLE_MEMBERS, true), id);
    if (rc < 0) return rc;
    struct membership_row *row = add_row(c, TABLE_MEMBERS_REMOVED, false);
    row->value = bytes_str("removed");
    return set_id_key(v, row, id);
}

static int do_update(struct membership *v, uint64_t id, const struct member *wanted,
                     struct membership_change *c)
{
    struct member *member = membership__find(v, id);
    int rc =
        membership__copy_urls(v, wanted->peer_urls, wanted->peer_url_count, &member->peer_urls);
    if (rc < 0) return rc;
    member->peer_url_count = wanted->peer_url_count;
    return add_member_row(v, c, member);
}

static int do_add(struct membership *v, const struct member_context *context,
                  struct membership_change *c)
{
    uint64_t id = context->member.id;
    if (context->is_promote) {
        membership__find(v, id)->is_learner = false;
    } else {
        int rc = membership__add(v, &context->member);
        if (rc < 0) return rc;
    }
    return add_member_row(v, c, membership__find(v, id));
}

static int do_change(struct membership *v, const struct pb_conf_change *cc,
                     const struct member_context *context, struct membership_change *c)
{
    if (cc->type == PB_REMOVE_NODE) return do_remove(v, cc->node_id, c);
    if (cc->type == PB_UPDATE_NODE) return do_update(v, cc->node_id, &context->member, c);
    return do_add(v, context, c);
}

/* Ends a change: gives it when all went well, else drops the version. */
static int finish(int rc, struct membership *v, struct membership_change *c,
                  struct membership_change *out)
{
    if (rc < 0) {
        membership_unref(v);
        return rc;
    }
    c->next = v;
    *out = *c;
    return 0;
}

/* What `cc` says, with its context as JSON where its type has one. */
static int read_context(const struct pb_conf_change *cc, struct arena *arena,
                        struct member_context *context, struct errmsg *em)
{
    if (cc->type < PB_ADD_NODE || cc->type > PB_ADD_LEARNER_NODE) {
        errmsg_set(em, "a configuration change of unknown type %d", (int)cc->type);
        return E_CORRUPT;
    }
    if (cc->type == PB_REMOVE_NODE) return 0;
    int rc = member_decode(cc->context, arena, context, em);
    return rc == E_INVAL ? E_CORRUPT : rc;
}

static int check_id(const struct pb_conf_change *cc, const struct member_context *context,
                    struct errmsg *em)
{
    if (cc->type == PB_REMOVE_NODE || context->member.id == cc->node_id) return 0;
    errmsg_set(em, "a configuration change of node %llx holds member %llx",
               (unsigned long long)cc->node_id, (unsigned long long)context->member.id);
    return E_CORRUPT;
}

int membership_conf_change(struct membership *m, const struct pb_conf_change *cc,
                           size_t learners_max, struct membership_change *out, struct errmsg *em)
{
    struct arena scratch;
    struct membership *v = NULL;
    struct member_context context = {0};
    struct membership_change c = {0};
    arena_init(&scratch, m->alloc, SIZE_MAX / 2);
    int rc = membership_is_removed(m, cc->node_id) ? E_MEMBER_NOT_FOUND : 0;
    if (rc == 0) rc = read_context(cc, &scratch, &context, em);
    if (rc == 0) rc = validate(m, cc, &context, learners_max);
    if (rc == 0) rc = check_id(cc, &context, em);
    if (rc == 0) rc = membership__copy(m, &v);
    if (rc == 0) rc = finish(do_change(v, cc, &context, &c), v, &c, out);
    arena_deinit(&scratch);
    return rc;
}

/* ---- the rest ------------------------------------------------------------------------------------- */

int membership_set_attributes(struct membership *m, uint64_t id, struct bytes name,
                              const struct bytes *client_urls, size_t client_url_count,
                              struct membership_change *out)
{
    struct membership_change c = {0};
    if (membership_find(m, id) == NULL) {
        if (!membership_is_removed(m, id)) return E_NOTFOUND;
        *out = (struct membership_change){.next = membership_ref(m)};
        return 0;
    }
    struct membership *v = NULL;
    int rc = membership__copy(m, &v);
    if (rc < 0) return rc;
    struct member *member = membership__find(v, id);
    rc = membership__copy_text(v, name, &member->name);
    if (rc == 0) rc = membership__copy_urls(v, client_urls, client_url_count, &member->client_urls);
    if (rc == 0) {
        member->client_url_count = client_url_count;
        rc = add_member_row(v, &c, member);
    }
    return finish(rc, v, &c, out);
}

int membership_set_version(struct membership *m, struct bytes version,
                           struct membership_change *out)
{
    struct membership_change c = {0};
    struct membership *v = NULL;
    int rc = membership__copy(m, &v);
    if (rc < 0) return rc;
    rc = membership__copy_text(v, version, &v->version);
    struct membership_row *row = add_row(&c, TABLE_CLUSTER, false);
    row->key = bytes_str(MEMBERSHIP__VERSION_KEY);
    row->value = v->version;
    return finish(rc, v, &c, out);
}

/* {"target-version":"3.6.0","enabled":true} */
static int put_downgrade(const struct membership_downgrade *d, struct buf *out)
{
    int rc = buf_put_str(out, "{\"target-version\":");
    if (rc == 0) rc = text_put_json(out, d->target);
    if (rc == 0) rc = buf_put_str(out, ",\"enabled\":");
    return rc < 0 ? rc : buf_put_str(out, d->enabled ? "true}" : "false}");
}

int membership_set_downgrade(struct membership *m, bool enabled, struct bytes target,
                             struct membership_change *out)
{
    struct membership_change c = {0};
    struct membership *v = NULL;
    int rc = membership__copy(m, &v);
    if (rc < 0) return rc;
    v->downgrade = (struct membership_downgrade){.stored = true, .enabled = enabled};
    if (enabled) rc = membership__copy_text(v, target, &v->downgrade.target);
    struct alloc alloc = arena_alloc(&v->arena);
    struct buf json;
    buf_init(&json, &alloc, SIZE_MAX / 2);
    if (rc == 0) rc = put_downgrade(&v->downgrade, &json);
    struct membership_row *row = add_row(&c, TABLE_CLUSTER, false);
    row->key = bytes_str(MEMBERSHIP__DOWNGRADE_KEY);
    row->value = buf_bytes(&json);
    return finish(rc, v, &c, out);
}

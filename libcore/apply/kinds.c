/* What each kind of request does, and the table of them.
 *
 * start() begins, step() goes on in slices; both return an error only for what ends the process.
 * What the request itself is refused for goes into a->answer. */
#include "apply/apply_int.h"
#include "membershippb.pb-c.h"

/* The only op of a result, when somebody waits. */
static int single_op(struct apply *a, struct apply_op **out)
{
    *out = NULL;
    if (a->result == NULL) return 0;
    int rc = apply__result_ops(a->result, 1);
    if (rc < 0) return rc;
    *out = a->result->ops;
    (*out)->kind = a->request.kind->op;
    (*out)->revision = mvcc_entry_revision(a->config.mvcc);
    return 0;
}

static int empty_answer(struct apply *a)
{
    struct apply_op *op;
    return single_op(a, &op);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void txn_init(struct apply *a)
{
    apply__txn_init(&a->txn, a->config.mvcc, a->config.leases, a->config.alloc, &a->arena,
                    a->result);
}

static int program_step(struct apply *a, uint32_t *budget)
{
    int rc = apply__txn_step(&a->txn, budget, &a->em);
    if (rc == 0) a->answer = a->txn.answer;
    return rc;
}

static int put_start(struct apply *a, const void *msg)
{
    const struct apply__put *put = msg;
    if (alarm_has(a->alarms, ALARM_NOSPACE)) {
        a->answer = E_QUOTA;
        return 0;
    }
    a->over_quota = !apply_quota_has_room(a, apply_cost_put(put->key.len, put->value.len));
    txn_init(a);
    return apply__txn_set_op(&a->txn, &(struct apply__prog_op){.kind = APPLY_OP_PUT, .put = put});
}

static int range_start(struct apply *a, const void *msg)
{
    const Etcdserverpb__RangeRequest *r = msg;
    txn_init(a);
    if (r->revision > a->txn.current) a->answer = E_FUTURE_REV;
    if (r->revision > 0 && r->revision < a->txn.compacted) a->answer = E_COMPACTED;
    return apply__txn_set_op(&a->txn, &(struct apply__prog_op){.kind = APPLY_OP_RANGE, .range = r});
}

static int delete_range_start(struct apply *a, const void *msg)
{
    txn_init(a);
    return apply__txn_set_op(&a->txn,
                             &(struct apply__prog_op){.kind = APPLY_OP_DELETE_RANGE, .del = msg});
}

static int txn_start(struct apply *a, const void *msg)
{
    uint64_t cost = apply_cost_txn(msg);
    if (cost > 0 && alarm_has(a->alarms, ALARM_NOSPACE)) {
        a->answer = E_QUOTA;
        return 0;
    }
    a->over_quota = !apply_quota_has_room(a, cost);
    txn_init(a);
    return apply__txn_set(&a->txn, msg);
}

static int compaction_start(struct apply *a, const void *msg)
{
    const Etcdserverpb__CompactionRequest *r = msg;
    int rc = mvcc_write_compact(a->config.mvcc, r->revision);
    if (rc == E_COMPACTED || rc == E_FUTURE_REV) {
        a->answer = rc;
        return 0;
    }
    if (rc < 0) return rc;
    a->out->compacted = true;
    a->out->compact_revision = r->revision;
    a->out->compact_physical = r->physical;
    return empty_answer(a);
}

/* ---- leases ---------------------------------------------------------------------------------- */

static int lease_row_put(struct apply *a, lease_id id)
{
    uint8_t key[8];
    uint8_t raw[PB_LEASE_BYTES_MAX];
    struct lease_info info;
    bool found = lease_find(a->config.leases, id, &info);
    ASSERT(found);
    uint8_t *end = pb_lease_write(
        &(struct pb_lease){.id = id, .ttl_s = info.ttl_s, .remaining_ttl_s = info.remaining_s},
        raw);
    lease_encode_key(id, key);
    return mvcc_table_put(a->config.mvcc, TABLE_LEASE, bytes_of(key, sizeof key),
                          bytes_of(raw, (size_t)(end - raw)));
}

static int lease_grant_start(struct apply *a, const void *msg)
{
    const Etcdserverpb__LeaseGrantRequest *r = msg;
    if (alarm_has(a->alarms, ALARM_NOSPACE)) {
        a->answer = E_QUOTA;
        return 0;
    }
    a->over_quota = !apply_quota_has_room(a, APPLY_COST_LEASE_GRANT);
    int64_t granted_s = 0;
    int rc = lease_grant(a->config.leases, r->id, r->ttl, a->now_ns, &granted_s);
    if (rc == E_NOMEM) return rc;
    if (rc < 0) {
        a->answer = rc;
        return 0;
    }
    rc = lease_row_put(a, r->id);
    struct apply_op *op = NULL;
    if (rc == 0) rc = single_op(a, &op);
    if (rc == 0 && op != NULL) {
        op->lease_id = r->id;
        op->ttl_s = granted_s;
    }
    return rc;
}

static int lease_revoke_start(struct apply *a, const void *msg)
{
    const Etcdserverpb__LeaseRevokeRequest *r = msg;
    if (!lease_find(a->config.leases, r->id, NULL)) a->answer = E_LEASE_NOT_FOUND;
    return 0;
}

/* Deletes one key of the lease; E_NOTFOUND when it has none any more. */
static int lease_revoke_key(struct apply *a, lease_id id)
{
    struct bytes key;
    if (!lease_key_first(a->config.leases, id, &key)) return E_NOTFOUND;
    struct mvcc_delete d;
    mvcc_delete_init(&d, a->config.mvcc, key, BYTES_EMPTY);
    int rc;
    do {
        rc = mvcc_delete_step(&d, 1);
    } while (rc == 1);
    mvcc_delete_deinit(&d);
    if (rc == 0) lease_detach(a->config.leases, key); /* frees `key`: not before the delete's end */
    return rc;
}

static int lease_revoke_step(struct apply *a, uint32_t *budget)
{
    const Etcdserverpb__LeaseRevokeRequest *r = a->request.msg;
    int rc = 0;
    while (rc == 0) {
        if (*budget == 0) return 1;
        (void)apply__spend(budget, 1);
        rc = lease_revoke_key(a, r->id);
    }
    if (rc != E_NOTFOUND) return rc;
    uint8_t key[8];
    lease_encode_key(r->id, key);
    rc = mvcc_table_del(a->config.mvcc, TABLE_LEASE, bytes_of(key, sizeof key));
    if (rc < 0) return rc;
    lease_remove(a->config.leases, r->id);
    return empty_answer(a);
}

/* A cluster version of at least 3.6; false while it is unknown. */
static bool checkpoints_persist(const struct apply *a)
{
    struct apply__version v;
    return apply__version_parse(membership_version(a->members), &v) == 0 &&
           (v.major > 3 || (v.major == 3 && v.minor >= 6));
}

static int lease_checkpoint_step(struct apply *a, uint32_t *budget)
{
    const Etcdserverpb__LeaseCheckpointRequest *r = a->request.msg;
    for (; a->item_at < r->n_checkpoints; a->item_at++) {
        if (*budget == 0) return 1;
        (void)apply__spend(budget, 1);
        const Etcdserverpb__LeaseCheckpoint *c = r->checkpoints[a->item_at];
        bool known = lease_checkpoint(a->config.leases, c->id, c->remaining_ttl, a->now_ns);
        if (!known || !checkpoints_persist(a)) continue;
        int rc = lease_row_put(a, c->id);
        if (rc < 0) return rc;
    }
    return empty_answer(a);
}

/* ---- alarms ---------------------------------------------------------------------------------- */

static int alarm_answer(struct apply *a, const struct pb_alarm *alarms, size_t n)
{
    if (a->result == NULL || n == 0) return 0;
    struct pb_alarm *copy = alloc_new(a->config.alloc, n * sizeof *copy);
    if (copy == NULL) return E_NOMEM;
    memcpy(copy, alarms, n * sizeof *copy);
    a->result->alarms = copy;
    a->result->alarm_count = n;
    return 0;
}

static int alarm_list(struct apply *a, int32_t type)
{
    size_t n = 0;
    struct pb_alarm *list = arena_new(&a->arena, (alarm_count(a->alarms) + 1) * sizeof *list);
    if (list == NULL) return E_NOMEM;
    for (size_t i = 0; i < alarm_count(a->alarms); i++) {
        struct pb_alarm m = alarm_at(a->alarms, i);
        if (type == ALARM_NONE || m.type == type) list[n++] = m;
    }
    return alarm_answer(a, list, n);
}

/* Raises or clears; the answer names the alarm if it was there or is there now. */
static int alarm_set(struct apply *a, struct pb_alarm alarm, bool raise)
{
    if (alarm.type == ALARM_NONE) return 0;
    bool touched = raise || alarm_find(a->alarms, alarm);
    struct alarm_change c;
    int rc = raise ? alarm_raise(a->alarms, alarm, &c) : alarm_clear(a->alarms, alarm, &c);
    if (rc < 0) return rc;
    alarm_unref(a->alarms);
    a->alarms = c.next;
    if (c.changed) {
        struct bytes key = bytes_of(c.key_data, c.key_len);
        rc = c.del ? mvcc_table_del(a->config.mvcc, TABLE_ALARM, key)
                   : mvcc_table_put(a->config.mvcc, TABLE_ALARM, key, BYTES_EMPTY);
        a->out->alarms_changed = true;
    }
    if (rc == 0 && touched) rc = alarm_answer(a, &alarm, 1);
    return rc;
}

static int alarm_start(struct apply *a, const void *msg)
{
    const Etcdserverpb__AlarmRequest *r = msg;
    struct pb_alarm alarm = {.member_id = r->memberid, .type = (int32_t)r->alarm};
    int rc = 0;
    /* An action outside the enum ends upstream's process; here it is answered without alarms. */
    if (r->action == ETCDSERVERPB__ALARM_REQUEST__ALARM_ACTION__GET) {
        rc = alarm_list(a, alarm.type);
    } else if (r->action == ETCDSERVERPB__ALARM_REQUEST__ALARM_ACTION__ACTIVATE) {
        rc = alarm_set(a, alarm, true);
    } else if (r->action == ETCDSERVERPB__ALARM_REQUEST__ALARM_ACTION__DEACTIVATE) {
        rc = alarm_set(a, alarm, false);
    }
    return rc < 0 ? rc : empty_answer(a);
}

/* ---- the cluster ----------------------------------------------------------------------------- */

int apply__version_parse(struct bytes text, struct apply__version *out)
{
    unsigned part[3] = {0};
    size_t n = 0;
    size_t digits = 0;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        if (c == '.' && digits > 0 && n < 2) {
            n++;
            digits = 0;
        } else if (c >= '0' && c <= '9' && digits < 6) {
            part[n] = part[n] * 10 + (unsigned)(c - '0');
            digits++;
        } else {
            return E_INVAL;
        }
    }
    if (n != 2 || digits == 0) return E_INVAL;
    *out = (struct apply__version){part[0], part[1], part[2]};
    return 0;
}

static bool version_minor_below(const struct apply__version *a, const struct apply__version *b)
{
    return a->major < b->major || (a->major == b->major && a->minor < b->minor);
}

static bool version_below(const struct apply__version *a, const struct apply__version *b)
{
    if (version_minor_below(a, b)) return true;
    return a->major == b->major && a->minor == b->minor && a->patch < b->patch;
}

/* In replay only the check is left: the store has the outcome of later entries already. */
static int cluster_version_set_start(struct apply *a, const void *msg)
{
    const Membershippb__ClusterVersionSetRequest *r = msg;
    struct apply__version own;
    struct apply__version next;
    int rc = apply__version_parse(bytes_str(a->config.server_version), &own);
    ASSERT(rc == 0);
    if (apply__version_parse(bytes_str(r->ver), &next) < 0) {
        return apply__fatal(a, E_CORRUPT, "it sets the cluster version to \"%s\"", r->ver);
    }
    if (version_minor_below(&own, &next)) {
        return apply__fatal(a, E_UNSUPPORTED,
                            "it sets the cluster version to %s, above our own %s: start a newer "
                            "etcd-server on this data dir",
                            r->ver, a->config.server_version);
    }
    if (a->out->replayed) return 0;
    struct apply__version before;
    bool known = apply__version_parse(membership_version(a->members), &before) == 0;
    struct membership_change c;
    rc = membership_set_version(a->members, bytes_str(r->ver), &c);
    if (rc == 0) rc = apply__install_members(a, &c);
    if (rc < 0) return rc;
    a->out->force_snapshot = known && version_below(&next, &before);
    return empty_answer(a);
}

static int attributes_change(struct apply *a, const Membershippb__ClusterMemberAttrSetRequest *r,
                             struct membership_change *out)
{
    const Membershippb__Attributes *m = r->member_attributes;
    if (m == NULL) { /* an empty message, which Go may leave out */
        return membership_set_attributes(a->members, r->member_id, BYTES_EMPTY, NULL, 0, out);
    }
    struct bytes *urls = arena_new(&a->arena, (m->n_client_urls + 1) * sizeof *urls);
    if (urls == NULL) return E_NOMEM;
    for (size_t i = 0; i < m->n_client_urls; i++) {
        urls[i] = bytes_str(m->client_urls[i]);
    }
    return membership_set_attributes(a->members, r->member_id, bytes_str(m->name), urls,
                                     m->n_client_urls, out);
}

static int cluster_member_attr_set_start(struct apply *a, const void *msg)
{
    const Membershippb__ClusterMemberAttrSetRequest *r = msg;
    struct membership_change c = {0};
    bool known = membership_find(a->members, r->member_id) != NULL ||
                 membership_is_removed(a->members, r->member_id);
    int rc = known ? 0 : E_NOTFOUND;
    if (known && a->out->replayed) return 0;
    if (known) rc = attributes_change(a, r, &c);
    if (rc == E_NOTFOUND) {
        return apply__fatal(a, E_CORRUPT,
                            "it sets the attributes of member %llx, which is neither a member nor "
                            "a removed one",
                            (unsigned long long)r->member_id);
    }
    if (rc == 0) rc = apply__install_members(a, &c);
    return rc < 0 ? rc : empty_answer(a);
}

static int downgrade_info_set_start(struct apply *a, const void *msg)
{
    const Membershippb__DowngradeInfoSetRequest *r = msg;
    if (a->out->replayed) return 0;
    struct membership_change c;
    int rc = membership_set_downgrade(a->members, r->enabled, bytes_str(r->ver), &c);
    if (rc == 0) rc = apply__install_members(a, &c);
    return rc < 0 ? rc : empty_answer(a);
}

/* For upstream's own tests: does nothing. */
static int nothing_start(struct apply *a, const void *msg)
{
    (void)msg;
    return a->out->replayed ? 0 : empty_answer(a);
}

/* A read of users or roles: until there are any it is refused where somebody waits, and nothing
 * elsewhere. */
static int auth_read_start(struct apply *a, const void *msg)
{
    (void)msg;
    a->answer = E_UNSUPPORTED;
    return 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

#define FIELD(f) #f, offsetof(Etcdserverpb__InternalRaftRequest, f)
#define AUTH(f)                                                                                    \
    {                                                                                              \
        FIELD(f), .auth = true, .op = APPLY_OP_OTHER                                               \
    }
#define AUTH_READ(f)                                                                               \
    {                                                                                              \
        FIELD(f), .read = true, .op = APPLY_OP_OTHER, .start = auth_read_start                     \
    }

enum { KIND_PUT = 5 };

const struct apply__kind apply__kinds[] = {
    {FIELD(cluster_version_set), .replay = true, .op = APPLY_OP_OTHER,
     .start = cluster_version_set_start},
    {FIELD(cluster_member_attr_set), .replay = true, .op = APPLY_OP_OTHER,
     .start = cluster_member_attr_set_start},
    {FIELD(downgrade_info_set), .replay = true, .op = APPLY_OP_OTHER,
     .start = downgrade_info_set_start},
    {FIELD(downgrade_version_test), .replay = true, .op = APPLY_OP_OTHER, .start = nothing_start},
    {FIELD(range), .read = true, .not_corrupt = true, .op = APPLY_OP_RANGE, .start = range_start,
     .step = program_step},
    [KIND_PUT] = {FIELD(put), .not_corrupt = true, .op = APPLY_OP_PUT, .start = put_start,
                  .step = program_step},
    {FIELD(delete_range), .not_corrupt = true, .op = APPLY_OP_DELETE_RANGE,
     .start = delete_range_start, .step = program_step},
    {FIELD(txn), .not_corrupt = true, .op = APPLY_OP_TXN, .start = txn_start, .step = program_step},
    {FIELD(compaction), .not_corrupt = true, .op = APPLY_OP_COMPACTION, .start = compaction_start},
    {FIELD(lease_grant), .not_corrupt = true, .op = APPLY_OP_LEASE_GRANT,
     .start = lease_grant_start},
    {FIELD(lease_revoke), .not_corrupt = true, .op = APPLY_OP_LEASE_REVOKE,
     .start = lease_revoke_start, .step = lease_revoke_step},
    {FIELD(lease_checkpoint), .op = APPLY_OP_LEASE_CHECKPOINT, .step = lease_checkpoint_step},
    {FIELD(alarm), .op = APPLY_OP_ALARM, .start = alarm_start},
    AUTH(authenticate),
    AUTH(auth_enable),
    AUTH(auth_disable),
    AUTH_READ(auth_status),
    AUTH(auth_user_add),
    AUTH(auth_user_delete),
    AUTH(auth_user_change_password),
    AUTH(auth_user_grant_role),
    AUTH_READ(auth_user_get),
    AUTH(auth_user_revoke_role),
    AUTH(auth_role_add),
    AUTH(auth_role_grant_permission),
    AUTH_READ(auth_role_get),
    AUTH(auth_role_revoke_permission),
    AUTH(auth_role_delete),
    AUTH_READ(auth_user_list),
    AUTH_READ(auth_role_list),
    {.name = NULL},
};

const struct apply__kind *const apply__kind_put = &apply__kinds[KIND_PUT];

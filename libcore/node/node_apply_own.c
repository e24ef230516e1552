/* What the member asks of its cluster by itself: publishing its attributes, the cluster's version, alarms (the end of
 * leases stands in node_apply_lease.c). Such requests have an id and nobody who waits; each is asked again until it has
 * happened. */
#include "alarm/alarm.h"
#include "base/arena.h"
#include "base/buf.h"
#include "etcdserverpb.pb-c.h"
#include "node/node_apply_int.h"
#include "pb/pack.h"

typedef Etcdserverpb__InternalRaftRequest request_msg;
typedef Etcdserverpb__RequestHeader header_msg;

uint64_t node__propose(struct node_apply *n, request_msg *req)
{
    ASSERT(n->opts.ids != NULL);
    if (node__apply_reserve(n, 1) < 0) return 0;
    header_msg header;
    etcdserverpb__request_header__init(&header);
    header.id = node_ids_next(n->opts.ids);
    req->header = &header;
    struct buf data;
    buf_init(&data, n->alloc, MAX_REQUEST_BYTES_DEFAULT);
    struct rcbuf *entry = NULL;
    if (pb_pack(&req->base, &data) == 0) entry = rcbuf_copy(n->alloc, buf_bytes(&data));
    buf_deinit(&data);
    req->header = NULL;
    if (entry == NULL) return 0;
    node__apply_note(n, (struct node_to_raft){.kind = NODE_PROPOSE, .data = entry});
    return header.id;
}

/* --- publishing ---------------------------------------------------------------------------------- */

static char *text_copy(struct arena *a, struct bytes s)
{
    ASSERT(s.len < MAX_REQUEST_BYTES_DEFAULT);
    char *t = arena_new(a, s.len + 1);
    if (t == NULL) return NULL;
    if (s.len > 0) memcpy(t, s.data, s.len);
    t[s.len] = '\0';
    return t;
}

static int fill_attributes(const struct node_apply *n, struct arena *a,
                           Membershippb__Attributes *out)
{
    size_t count = n->opts.client_url_count;
    ASSERT(count < SIZE_MAX / sizeof(char *));
    out->name = text_copy(a, n->opts.name);
    out->client_urls = arena_new(a, (count + 1) * sizeof(char *));
    if (out->name == NULL || out->client_urls == NULL) return E_NOMEM;
    for (size_t i = 0; i < count; i++) {
        out->client_urls[i] = text_copy(a, n->opts.client_urls[i]);
        if (out->client_urls[i] == NULL) return E_NOMEM;
    }
    out->n_client_urls = count;
    return 0;
}

static void publish(struct node_apply *n)
{
    ASSERT(!n->published);
    struct arena a;
    arena_init(&a, n->alloc, MAX_REQUEST_BYTES_DEFAULT);
    Membershippb__Attributes attributes;
    membershippb__attributes__init(&attributes);
    if (fill_attributes(n, &a, &attributes) == 0) {
        Membershippb__ClusterMemberAttrSetRequest set =
            MEMBERSHIPPB__CLUSTER_MEMBER_ATTR_SET_REQUEST__INIT;
        set.member_id = n->opts.apply.member_id;
        set.member_attributes = &attributes;
        request_msg req = ETCDSERVERPB__INTERNAL_RAFT_REQUEST__INIT;
        req.cluster_member_attr_set = &set;
        uint64_t id = node__propose(n, &req);
        if (id != 0) {
            n->publish_id = id;
            n->publish_due_ns = n->now_ns + n->timeout_ns;
        }
    }
    arena_deinit(&a);
}

static void publish_step(struct node_apply *n)
{
    ASSERT(n->timeout_ns > 0);
    if (!n->published && (n->publish_id == 0 || n->now_ns >= n->publish_due_ns)) publish(n);
}

/* --- the cluster's version (walkthroughs.md 9) --------------------------------------------------- */

/* "3.7.1" -> "3.7.0". */
static void own_cluster_version(const struct node_apply *n, char out[32])
{
    const char *v = n->opts.apply.server_version;
    ASSERT(v != NULL);
    size_t len = 0;
    int dots = 0;
    for (; v[len] != '\0' && len < 24; len++) {
        if (v[len] == '.' && ++dots == 2) break;
        out[len] = v[len];
    }
    memcpy(out + len, ".0", 3);
}

static bool alone(const struct node_apply *n)
{
    const struct membership *m = apply_members(n->core);
    ASSERT(m != NULL);
    return membership_count(m) == 1 && membership_find(m, n->opts.apply.member_id) != NULL;
}

/* Numbers of "X.Y.Z" as one, for comparing; 0 when it is none. */
static uint64_t version_number(struct bytes v)
{
    uint64_t parts[2] = {0, 0};
    size_t k = 0;
    for (size_t i = 0; i < v.len && k < 2; i++) {
        if (v.data[i] == '.') {
            k++;
        } else if (v.data[i] >= '0' && v.data[i] <= '9' && parts[k] < 1000000) {
            parts[k] = parts[k] * 10 + (uint64_t)(v.data[i] - '0');
        }
    }
    ASSERT(parts[1] <= 10000000);
    return parts[0] * 100000000 + parts[1];
}

/* A cluster of one needs to ask nobody: its version is its member's. With other members the server asks them and
 * proposes. */
static void version_step(struct node_apply *n)
{
    ASSERT(n->lead_term != 0);
    if (n->now_ns < n->version_due_ns || !alone(n)) return;
    struct membership *m = apply_members(n->core);
    struct membership_downgrade down = membership_downgrade(m);
    char own[32];
    own_cluster_version(n, own);
    if (down.enabled || version_number(membership_version(m)) >= version_number(bytes_str(own))) {
        n->version_due_ns = n->now_ns + NODE__VERSION_CHECK_NS;
        return;
    }
    Membershippb__ClusterVersionSetRequest set;
    membershippb__cluster_version_set_request__init(&set);
    set.ver = own;
    request_msg req = ETCDSERVERPB__INTERNAL_RAFT_REQUEST__INIT;
    req.cluster_version_set = &set;
    if (node__propose(n, &req) != 0) n->version_due_ns = n->now_ns + NODE__VERSION_CHECK_NS;
}

/* --- alarms -------------------------------------------------------------------------------------- */

uint64_t node__raise_nospace(struct node_apply *n)
{
    ASSERT(n->opts.apply.member_id != 0);
    Etcdserverpb__AlarmRequest alarm = ETCDSERVERPB__ALARM_REQUEST__INIT;
    alarm.action = ETCDSERVERPB__ALARM_REQUEST__ALARM_ACTION__ACTIVATE;
    alarm.memberid = n->opts.apply.member_id;
    alarm.alarm = ETCDSERVERPB__ALARM_TYPE__NOSPACE;
    request_msg req = ETCDSERVERPB__INTERNAL_RAFT_REQUEST__INIT;
    req.alarm = &alarm;
    return node__propose(n, &req);
}

static void nospace_step(struct node_apply *n)
{
    ASSERT(n->core != NULL);
    if (!n->nospace_wanted) return;
    struct pb_alarm own = {.member_id = n->opts.apply.member_id, .type = ALARM_NOSPACE};
    if (alarm_find(apply_alarms(n->core), own) || node__raise_nospace(n) != 0)
        n->nospace_wanted = false;
}

/* --- the whole ----------------------------------------------------------------------------------- */

/* The first publishing waits for no tick: it is queued before the first election is won. */
void node__own_start(struct node_apply *n)
{
    ASSERT(n->opts.ids != NULL);
    if (n->publish_id == 0 && !n->published && !n->stopping) publish(n);
}

void node__own_tick(struct node_apply *n)
{
    int64_t gap_ns = n->now_ns - n->tick_last_ns;
    ASSERT(gap_ns >= 0);
    n->tick_last_ns = n->now_ns;
    if (n->stopping) return;
    publish_step(n);
    nospace_step(n);
    if (n->lead_term == 0) return;
    if (n->primary) version_step(n);
    node__lease_tick(n, gap_ns);
}

void node__own_applied(struct node_apply *n, const struct apply_output *out)
{
    ASSERT(out->index > 0);
    if (out->request_id != 0 && out->request_id == n->publish_id && !n->published &&
        node__apply_reserve(n, 1) == 0) {
        n->published = true;
        node__apply_out(n, (struct node_apply_output){.kind = NODE_APPLY_READY});
    }
    if (n->lead_term != 0) node__lease_applied(n, out->request_id);
    /* Leases begin to run when all of earlier terms is applied, if nobody took over since (design, "Between the
     * two actors"). */
    if (!out->empty || out->replayed || n->lead_term == 0 || out->term != n->lead_term) return;
    n->primary = true;
    n->promoting = true;
    n->unconfirmed = false;
    n->version_due_ns = n->now_ns;
    lease_promote(n->leases, (int64_t)n->opts.election_ticks * n->opts.tick_ns, n->now_ns);
    if (!n->stopping) version_step(n);
}

/* The life of an entry: begun, worked on in slices, sealed.
 *
 * Everything between mvcc_entry_begin() and mvcc_entry_seal() is one unit. An error in between that
 * is not the request's own ends in APPLY_FATAL, from which there is no way back: the entry is never
 * sealed. */
#include <stdarg.h>
#include <stdio.h>

#include "apply/apply_int.h"

/* ---- birth ----------------------------------------------------------------------------------- */

/* More than any configuration's text. */
#define CONF_JSON_BYTES_MAX ((size_t)16 << 20)

static int start_from(struct apply *a, const struct apply_start *start)
{
    struct buf json;
    buf_init(&json, a->config.alloc, CONF_JSON_BYTES_MAX);
    int rc = buf_put_bytes(&json, start->conf_state_json);
    if (rc < 0) {
        buf_deinit(&json);
        return rc;
    }
    buf_deinit(&a->conf_json);
    a->conf_json = json;
    struct membership *members = membership_ref(start->members); /* which may be the ones we have */
    struct alarms *alarms = alarm_ref(start->alarms);
    membership_unref(a->members);
    alarm_unref(a->alarms);
    a->members = members;
    a->alarms = alarms;
    a->consistent = start->consistent_index;
    a->index = start->consistent_index;
    a->term = start->consistent_term;
    a->last_index = 0;
    return 0;
}

int apply_new(const struct apply_config *config, const struct apply_start *start,
              struct apply **out, struct errmsg *em)
{
    if (config->auth_enabled) {
        errmsg_set(em, "the store has authentication enabled, which this version does not "
                       "support yet");
        return E_UNSUPPORTED;
    }
    struct apply *a = alloc_zero(config->alloc, sizeof *a);
    if (a == NULL) return E_NOMEM;
    a->config = *config;
    atomic_init(&a->store_bytes, 0);
    arena_init(&a->arena, config->alloc, APPLY_ARENA_BYTES_MAX);
    buf_init(&a->conf_json_next, config->alloc, CONF_JSON_BYTES_MAX);
    int rc = start_from(a, start);
    if (rc < 0) {
        apply_free(a);
        return rc;
    }
    *out = a;
    return 0;
}

/* Lets go of what the entry in progress holds. */
static void entry_drop(struct apply *a)
{
    if (a->stage == APPLY__RUNNING) apply__txn_deinit(&a->txn);
    if (a->change.next != NULL) membership_unref(a->change.next);
    a->change = (struct membership_change){.next = NULL};
    apply_result_free(a->result);
    a->result = NULL;
    arena_reset(&a->arena);
}

void apply_free(struct apply *a)
{
    if (a == NULL) return;
    entry_drop(a);
    arena_deinit(&a->arena);
    buf_deinit(&a->conf_json);
    buf_deinit(&a->conf_json_next);
    membership_unref(a->members);
    alarm_unref(a->alarms);
    alloc_free(a->config.alloc, a, sizeof *a);
}

int apply_restart(struct apply *a, const struct apply_start *start)
{
    ASSERT(a->stage == APPLY__IDLE);
    return start_from(a, start);
}

/* ---- what others ask ------------------------------------------------------------------------- */

struct membership *apply_members(const struct apply *a)
{
    return a->members;
}

struct alarms *apply_alarms(const struct apply *a)
{
    return a->alarms;
}

uint64_t apply_index(const struct apply *a)
{
    return a->index;
}

uint64_t apply_term(const struct apply *a)
{
    return a->term;
}

void apply_set_store_bytes(struct apply *a, uint64_t bytes)
{
    atomic_store_explicit(&a->store_bytes, bytes, memory_order_relaxed);
}

uint64_t apply_store_bytes(const struct apply *a)
{
    uint64_t stored = atomic_load_explicit(&a->store_bytes, memory_order_relaxed);
    return stored + mvcc_run_bytes(a->config.mvcc);
}

bool apply_quota_has_room(const struct apply *a, uint64_t cost)
{
    if (cost == 0 || a->config.quota_bytes < 0) return true;
    uint64_t quota = a->config.quota_bytes == 0 ? (uint64_t)APPLY_QUOTA_BYTES_DEFAULT
                                                : (uint64_t)a->config.quota_bytes;
    return apply_store_bytes(a) + cost < quota;
}

/* ---- helpers of the kinds -------------------------------------------------------------------- */

int apply__fatal(struct apply *a, int rc, const char *format, ...)
{
    ASSERT(rc < 0);
    char text[ERRMSG_BYTES_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    errmsg_set(&a->em, "%s", text);
    return rc;
}

int apply__install_members(struct apply *a, struct membership_change *c)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < c->row_count; i++) {
        const struct membership_row *row = &c->rows[i];
        rc = row->del ? mvcc_table_del(a->config.mvcc, row->table, row->key)
                      : mvcc_table_put(a->config.mvcc, row->table, row->key, row->value);
    }
    if (rc < 0) {
        membership_unref(c->next);
        return rc;
    }
    a->out->members_changed = c->next != a->members;
    membership_unref(a->members);
    a->members = c->next;
    return 0;
}

/* ---- an entry -------------------------------------------------------------------------------- */

void apply_begin(struct apply *a, const struct apply_entry *e)
{
    ASSERT(a->stage == APPLY__IDLE);
    ASSERT(e->index > 0);
    ASSERT(a->last_index == 0 || e->index == a->last_index + 1);
    ASSERT(e->index <= a->index + 1);
    a->entry = *e;
    a->request = (struct apply__request){.id = 0};
    a->answer = 0;
    a->over_quota = false;
    a->item_at = 0;
    a->stage = APPLY__BEGUN;
}

static bool is_replay(const struct apply *a)
{
    return a->entry.index <= a->consistent;
}

/* Makes room for the answer, if anybody waits. Errors: E_NOMEM. */
static int result_begin(struct apply *a)
{
    uint64_t id = a->request.id;
    if (id == 0) return 0;
    if (a->config.waits != NULL && !a->config.waits(a->config.waits_arg, id)) return 0;
    a->result = apply__result_new(a->config.alloc, id);
    return a->result == NULL ? E_NOMEM : 0;
}

/* What every request goes through before its own kind sees it. 0, or an error that ends the
 * process. */
static int normal_admit(struct apply *a)
{
    const struct apply__kind *k = a->request.kind;
    if (k == NULL) {
        return apply__fatal(a, E_UNSUPPORTED,
                            "it holds a request that this version does not know: start a newer "
                            "etcd-server on this data dir");
    }
    if (k->auth) {
        return apply__fatal(a, E_UNSUPPORTED,
                            "it holds %s, and this version does not support authentication yet",
                            k->name);
    }
    int rc = result_begin(a);
    if (rc < 0) return rc;
    if (k->read && a->result == NULL) return 0;
    if (k->not_corrupt && alarm_has(a->alarms, ALARM_CORRUPT)) {
        a->answer = E_CLUSTER_CORRUPT;
        return 0;
    }
    return k->start == NULL ? 0 : k->start(a, a->request.msg);
}

/* Whether the kind's step() has to run. */
static bool normal_has_steps(const struct apply *a)
{
    const struct apply__kind *k = a->request.kind;
    return a->answer == 0 && k->step != NULL && !(k->read && a->result == NULL);
}

static int normal_replay(struct apply *a)
{
    int rc = apply__request_decode(a->entry.data, &a->arena, &a->request, &a->em);
    if (rc < 0) return rc;
    const struct apply__kind *k = a->request.kind;
    return k == NULL || !k->replay ? 0 : k->start(a, a->request.msg);
}

static int entry_replay(struct apply *a)
{
    a->out->replayed = true;
    if (a->entry.type == PB_ENTRY_CONF_CHANGE) return apply__conf_replay(a);
    if (a->entry.type != PB_ENTRY_NORMAL) {
        return apply__fatal(a, E_CORRUPT, "its type %d is unknown", (int)a->entry.type);
    }
    a->out->empty = a->entry.data.len == 0;
    return a->out->empty ? 0 : normal_replay(a);
}

/* The first look at an entry beyond the store. Returns 1 with more to do, 0 when it can be sealed.
 */
static int entry_start(struct apply *a)
{
    a->revision_before = mvcc_revision(a->config.mvcc);
    mvcc_entry_begin(a->config.mvcc);
    a->stage = APPLY__RUNNING;
    if (a->entry.type == PB_ENTRY_CONF_CHANGE) {
        int rc = apply__conf_start(a);
        if (rc == 0) rc = result_begin(a);
        return rc < 0 ? rc : 1;
    }
    if (a->entry.type != PB_ENTRY_NORMAL) {
        return apply__fatal(a, E_CORRUPT, "its type %d is unknown", (int)a->entry.type);
    }
    if (a->entry.data.len == 0) {
        a->out->empty = true;
        return 0;
    }
    int rc = apply__request_decode(a->entry.data, &a->arena, &a->request, &a->em);
    if (rc == 0) rc = normal_admit(a);
    if (rc < 0) return rc;
    return normal_has_steps(a) ? 1 : 0;
}

/* ---- the end of an entry --------------------------------------------------------------------- */

/* An entry over the quota takes effect all the same (it did elsewhere); only the caller hears of
 * it. */
static void judge_quota(struct apply *a)
{
    if (!a->over_quota || a->answer < 0) return;
    a->answer = E_QUOTA;
    a->out->raise_nospace = !alarm_has(a->alarms, ALARM_NOSPACE);
    if (a->out->raise_nospace) {
        LOG(a->config.log, LOG_WARN, "message exceeded backend quota; raising alarm",
            LOGF_INT("quota-size-bytes", a->config.quota_bytes));
    }
}

static void result_end(struct apply *a)
{
    struct apply_result *r = a->result;
    if (r == NULL) return;
    r->revision = mvcc_entry_revision(a->config.mvcc);
    r->error = a->answer;
    if (a->answer < 0) apply__result_clear(r);
    a->out->result = r;
    a->result = NULL;
}

static void entry_done(struct apply *a)
{
    a->last_index = a->entry.index;
    if (!is_replay(a)) {
        a->index = a->entry.index;
        a->term = a->entry.term;
    }
    entry_drop(a);
    a->stage = APPLY__IDLE;
}

static void entry_seal(struct apply *a)
{
    struct apply_output *out = a->out;
    out->request_id = a->request.id;
    judge_quota(a);
    result_end(a);
    mvcc_entry_seal(a->config.mvcc, a->entry.index, a->entry.term);
    int64_t revision = mvcc_revision(a->config.mvcc);
    if (revision != a->revision_before) {
        ASSERT(revision == a->revision_before + 1);
        out->published_from = out->published_to = revision;
    }
    entry_done(a);
}

/* ---- the step -------------------------------------------------------------------------------- */

static enum apply_state step_fatal(struct apply *a, int rc)
{
    if (a->em.text[0] == '\0') errmsg_set(&a->em, "%s", err_text(rc));
    errmsg_prefix(&a->em, "cannot apply entry %llu of term %llu",
                  (unsigned long long)a->entry.index, (unsigned long long)a->entry.term);
    entry_drop(a);
    a->stage = APPLY__BROKEN;
    a->out->fatal = a->em.text;
    return APPLY_FATAL;
}

static enum apply_state step_replay(struct apply *a)
{
    int rc = entry_replay(a);
    if (rc < 0) return step_fatal(a, rc);
    entry_done(a);
    return APPLY_DONE;
}

static enum apply_state step_run(struct apply *a, uint32_t *budget)
{
    int rc = a->request.kind->step(a, budget);
    if (rc < 0) return step_fatal(a, rc);
    if (rc == 1) return APPLY_MORE;
    entry_seal(a);
    return APPLY_DONE;
}

static enum apply_state step_begin(struct apply *a, uint32_t *budget)
{
    if (is_replay(a)) return step_replay(a);
    if (mvcc_run_full(a->config.mvcc)) return APPLY_PAUSED;
    int rc = entry_start(a);
    if (rc < 0) return step_fatal(a, rc);
    if (rc == 0) {
        entry_seal(a);
        return APPLY_DONE;
    }
    if (a->entry.type == PB_ENTRY_CONF_CHANGE) {
        a->stage = APPLY__CONF_OUT;
        a->out->conf = a->conf;
        return APPLY_CONF;
    }
    return step_run(a, budget);
}

enum apply_state apply_step(struct apply *a, int64_t now_ns, uint32_t *budget,
                            struct apply_output *out)
{
    ASSERT(a->stage != APPLY__IDLE);
    ASSERT(a->stage != APPLY__CONF_OUT);
    uint32_t least = 1;
    if (*budget == 0) budget = &least;
    *out = (struct apply_output){.index = a->entry.index, .term = a->entry.term};
    a->out = out;
    a->now_ns = now_ns;
    enum apply_state state = APPLY_FATAL;
    if (a->stage == APPLY__BEGUN) {
        state = step_begin(a, budget);
    } else if (a->stage == APPLY__RUNNING) {
        state = step_run(a, budget);
    } else if (a->stage == APPLY__CONF_IN) {
        int rc = a->conf_error < 0 ? a->conf_error : apply__conf_finish(a);
        if (rc == 0) entry_seal(a);
        state = rc < 0 ? step_fatal(a, rc) : APPLY_DONE;
    } else {
        out->fatal = a->em.text;
    }
    a->out = NULL;
    return state;
}

void apply_conf_done(struct apply *a, const struct pb_conf_state *now)
{
    ASSERT(a->stage == APPLY__CONF_OUT);
    buf_reset(&a->conf_json_next);
    a->conf_error = membership_conf_state_put(now, &a->conf_json_next);
    a->stage = APPLY__CONF_IN;
}

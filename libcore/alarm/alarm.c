/* Versions are one block with a sorted list at its end. */
#include "alarm/alarm.h"

#include <stdatomic.h>

#include "base/assert.h"
#include "base/err.h"

struct alarms {
    atomic_uint refs;
    const struct alloc *alloc;
    size_t count;
    size_t room;
    struct pb_alarm list[]; /* by type, then member id; none twice */
};

/* ---- life ----------------------------------------------------------------------------------------- */

static size_t block_bytes(size_t room)
{
    return sizeof(struct alarms) + room * sizeof(struct pb_alarm);
}

static struct alarms *version_new(const struct alloc *alloc, size_t room)
{
    struct alarms *a = alloc_new(alloc, block_bytes(room));
    if (a == NULL) return NULL;
    *a = (struct alarms){.alloc = alloc, .room = room};
    atomic_init(&a->refs, 1);
    return a;
}

int alarm_new(const struct alloc *alloc, struct alarms **out)
{
    struct alarms *a = version_new(alloc, 0);
    if (a == NULL) return E_NOMEM;
    *out = a;
    return 0;
}

struct alarms *alarm_ref(struct alarms *a)
{
    if (a != NULL) {
        unsigned before = atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
        ASSERT(before > 0);
    }
    return a;
}

void alarm_unref(struct alarms *a)
{
    if (a == NULL) return;
    unsigned before = atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel);
    ASSERT(before > 0);
    if (before == 1) alloc_free(a->alloc, a, block_bytes(a->room));
}

/* ---- the list ------------------------------------------------------------------------------------- */

static int alarm_cmp(struct pb_alarm a, struct pb_alarm b)
{
    if (a.type != b.type) return a.type < b.type ? -1 : 1;
    return (a.member_id > b.member_id) - (a.member_id < b.member_id);
}

/* The place of the first that is not before `alarm`. */
static size_t place(const struct alarms *a, struct pb_alarm alarm)
{
    size_t at = 0;
    while (at < a->count && alarm_cmp(a->list[at], alarm) < 0) {
        at++;
    }
    return at;
}

bool alarm_find(const struct alarms *a, struct pb_alarm alarm)
{
    size_t at = place(a, alarm);
    return at < a->count && alarm_cmp(a->list[at], alarm) == 0;
}

bool alarm_has(const struct alarms *a, enum alarm_type type)
{
    size_t at = place(a, (struct pb_alarm){.type = (int32_t)type});
    return at < a->count && a->list[at].type == (int32_t)type;
}

size_t alarm_count(const struct alarms *a)
{
    return a->count;
}

struct pb_alarm alarm_at(const struct alarms *a, size_t i)
{
    ASSERT(i < a->count);
    return a->list[i];
}

static void insert(struct alarms *a, struct pb_alarm alarm)
{
    ASSERT(a->count < a->room);
    size_t at = place(a, alarm);
    memmove(a->list + at + 1, a->list + at, (a->count - at) * sizeof *a->list);
    a->list[at] = alarm;
    a->count++;
}

/* ---- changes -------------------------------------------------------------------------------------- */

/* Gives a copy without `but`, with room for `more`. */
static struct alarms *copy_without(const struct alarms *a, struct pb_alarm but, size_t more)
{
    struct alarms *next = version_new(a->alloc, a->count + more);
    if (next == NULL) return NULL;
    for (size_t i = 0; i < a->count; i++) {
        if (alarm_cmp(a->list[i], but) != 0) next->list[next->count++] = a->list[i];
    }
    return next;
}

static int no_change(struct alarms *a, struct alarm_change *out)
{
    *out = (struct alarm_change){.next = alarm_ref(a)};
    return 0;
}

static int finish(struct alarms *next, struct pb_alarm alarm, bool del, struct alarm_change *out)
{
    *out = (struct alarm_change){.next = next, .changed = true, .del = del};
    out->key_len = (size_t)(pb_alarm_write(&alarm, out->key_data) - out->key_data);
    return 0;
}

int alarm_raise(struct alarms *a, struct pb_alarm alarm, struct alarm_change *out)
{
    ASSERT(alarm.type != ALARM_NONE);
    if (alarm_find(a, alarm)) return no_change(a, out);
    struct alarms *next = copy_without(a, alarm, 1);
    if (next == NULL) return E_NOMEM;
    insert(next, alarm);
    return finish(next, alarm, false, out);
}

int alarm_clear(struct alarms *a, struct pb_alarm alarm, struct alarm_change *out)
{
    if (!alarm_find(a, alarm)) return no_change(a, out);
    struct alarms *next = copy_without(a, alarm, 0);
    if (next == NULL) return E_NOMEM;
    return finish(next, alarm, true, out);
}

/* ---- loading -------------------------------------------------------------------------------------- */

/* Reads all rows: only counts them while `into` is NULL. */
static int each_row(const struct backend *be, struct backend_read *read, struct alarms *into,
                    size_t *count, struct errmsg *em)
{
    struct backend_cursor *cursor = NULL;
    struct bytes key;
    int rc = be->cursor_open(read, TABLE_ALARM, &cursor);
    if (rc < 0) return rc;
    for (rc = be->seek(cursor, BYTES_EMPTY, &key, NULL); rc == 0;
         rc = be->next(cursor, &key, NULL)) {
        struct pb_alarm alarm;
        if (pb_alarm_decode(key, &alarm) < 0) {
            errmsg_set(em, "row %zu of table alarm is corrupt", *count);
            rc = E_CORRUPT;
            break;
        }
        ++*count;
        if (into != NULL && !alarm_find(into, alarm)) insert(into, alarm);
    }
    be->cursor_close(cursor);
    return rc == E_NOTFOUND ? 0 : rc;
}

int alarm_load(const struct alloc *alloc, const struct backend *be, struct backend_read *read,
               struct alarms **out, struct errmsg *em)
{
    size_t count = 0;
    int rc = each_row(be, read, NULL, &count, em);
    if (rc < 0) return rc;
    struct alarms *a = version_new(alloc, count);
    if (a == NULL) return E_NOMEM;
    count = 0;
    rc = each_row(be, read, a, &count, em);
    if (rc < 0) {
        alarm_unref(a);
        return rc;
    }
    *out = a;
    return 0;
}

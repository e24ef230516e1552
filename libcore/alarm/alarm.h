/* The alarms of the cluster: which member has which trouble, as raft entries have made it.
 *
 * Like the member table (membership/membership.h): a `struct alarms` is one immutable version, counted by
 * references; a change makes the next one and the row that makes it durable. Rows of table alarm: key = AlarmMember
 * message, empty value. */
#ifndef ALARM_ALARM_H
#define ALARM_ALARM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/errmsg.h"
#include "env/backend.h"
#include "pb/kv.h"

/* The numbers of etcdserverpb.AlarmType. */
enum alarm_type { ALARM_NONE = 0, ALARM_NOSPACE = 1, ALARM_CORRUPT = 2 };

struct alarms;

/* Gives the version without alarms, one reference. `alloc` must be usable from any thread and outlive it.
 * Errors: E_NOMEM. */
int alarm_new(const struct alloc *alloc, struct alarms **out);

/* Gives what the table holds. Errors: E_NOMEM, those of `be`; E_CORRUPT a row does not parse. */
int alarm_load(const struct alloc *alloc, const struct backend *be, struct backend_read *read,
               struct alarms **out, struct errmsg *em);

/* One more reference; returns `a`. Any thread. NULL is allowed. */
struct alarms *alarm_ref(struct alarms *a);
/* Drops one; the last one frees. Any thread. NULL is allowed. */
void alarm_unref(struct alarms *a);

/* Ordered by type, then member id. */
size_t alarm_count(const struct alarms *a);
struct pb_alarm alarm_at(const struct alarms *a, size_t i); /* i < alarm_count() */
/* Whether any member has it: what refuses requests. */
bool alarm_has(const struct alarms *a, enum alarm_type type);
bool alarm_find(const struct alarms *a, struct pb_alarm alarm);

/* The outcome of a change. */
struct alarm_change {
    struct alarms *next; /* one reference, the caller's; the old version when nothing changed */
    bool changed;
    bool del;                             /* the row goes instead of coming */
    uint8_t key_data[PB_ALARM_BYTES_MAX]; /* of the row; its value is empty */
    size_t key_len;
};

/* Raises an alarm; one that is up stays. Any type but ALARM_NONE, unknown ones too (members of the future).
 * Errors: E_NOMEM, `*out` untouched. */
int alarm_raise(struct alarms *a, struct pb_alarm alarm, struct alarm_change *out);
/* Clears one; not up: no change. */
int alarm_clear(struct alarms *a, struct pb_alarm alarm, struct alarm_change *out);

#endif

/* Names of the tables; see env/backend.h. */
#include "env/backend.h"

#include "base/assert.h"

static const char *const names[TABLE_COUNT] = {
    [TABLE_ALARM] = "alarm",
    [TABLE_AUTH] = "auth",
    [TABLE_AUTH_ROLES] = "authRoles",
    [TABLE_AUTH_USERS] = "authUsers",
    [TABLE_CLUSTER] = "cluster",
    [TABLE_KEY] = "key",
    [TABLE_LEASE] = "lease",
    [TABLE_MEMBERS] = "members",
    [TABLE_MEMBERS_REMOVED] = "members_removed",
    [TABLE_META] = "meta",
};

const char *table_name(enum table t)
{
    ASSERT((unsigned)t < TABLE_COUNT);
    return names[t];
}

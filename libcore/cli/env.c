/* Environment variables that stand for flags. */
#include "cli/env.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"

void cli_env_name(const char *prefix, const char *flag, char out[CLI_ENV_BYTES_MAX])
{
    snprintf(out, CLI_ENV_BYTES_MAX, "%s_%s", prefix, flag);
    for (char *c = out + strlen(prefix); *c != '\0'; c++) {
        if (*c == '-') *c = '_';
        if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
    }
}

/* The variable's value; NULL: it is not there. */
static const char *lookup(char *const *environ, const char *name)
{
    size_t len = strlen(name);
    for (; *environ != NULL; environ++) {
        if (strncmp(*environ, name, len) == 0 && (*environ)[len] == '=') return *environ + len + 1;
    }
    return NULL;
}

static int apply_one(struct cli_flags *f, struct cli_table *t, const struct cli_flag *flag,
                     const char *name, const char *value, struct errmsg *em)
{
    if (cli_flag_changed(t, flag)) {
        errmsg_set(em, "%s", name);
        return E_EXIST;
    }
    if (*value == '\0') return 0;
    struct errmsg ignored;
    int rc = cli_flag_set(f, t, flag, bytes_str(value), &ignored);
    return rc == E_NOMEM ? rc : 0;
}

int cli_env_apply(struct cli_flags *f, size_t table, const char *prefix, char *const *environ,
                  struct errmsg *em)
{
    struct cli_table *t = &f->tables[table];
    for (size_t i = 0; i < t->count; i++) {
        char name[CLI_ENV_BYTES_MAX];
        cli_env_name(prefix, t->rows[i].name, name);
        const char *value = lookup(environ, name);
        int rc = value == NULL ? 0 : apply_one(f, t, &t->rows[i], name, value, em);
        if (rc < 0) return rc;
    }
    return 0;
}

/* Settings of the server: one table of flags makes the command line, environment, YAML file and help.
 *
 * Precedence as upstream: a config file replaces all flags and variables; without one a flag beats its variable,
 * a variable beats the default, and both at once are an error. */
#ifndef SERVER_CONFIG_H
#define SERVER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/errmsg.h"

struct config_list {
    const char **items;
    size_t count;
};

enum config_kind {
    CONFIG_BOOL,
    CONFIG_UINT,
    CONFIG_UINT32,
    CONFIG_INT,
    CONFIG_DURATION, /* nanoseconds */
    CONFIG_STRING,
    CONFIG_LIST,
    CONFIG_URLS
};

enum config_origin {
    CONFIG_FROM_DEFAULT,
    CONFIG_FROM_FLAG,
    CONFIG_FROM_VARIABLE,
    CONFIG_FROM_FILE
};

typedef bool config_type_BOOL;
typedef uint64_t config_type_UINT;
typedef uint64_t config_type_UINT32;
typedef int64_t config_type_INT;
typedef int64_t config_type_DURATION;
typedef const char *config_type_STRING;
typedef struct config_list config_type_LIST;
typedef struct config_list config_type_URLS;

enum config_id {
#define FLAG(field, name, kind, def, yaml, section, support, help) CONFIG_##field,
#include "server/config.def"
#undef FLAG
    CONFIG_COUNT
};

struct config {
#define FLAG(field, name, kind, def, yaml, section, support, help) config_type_##kind field;
#include "server/config.def"
#undef FLAG
    enum config_origin origin[CONFIG_COUNT];
    struct config_list warnings; /* what to log once the log is there */
    struct arena arena;          /* holds every string above */
};

/* One row of the table, for help, man page and completion. */
struct config_flag {
    const char *name;
    enum config_kind kind;
    const char *default_text;
    const char *yaml; /* path with ": " between levels; "" for none */
    const char *section;
    bool default_only; /* any other value is refused for now */
    const char *help;
    size_t offset; /* of the field in struct config */
};

const struct config_flag *config_flags(void); /* CONFIG_COUNT of them, static */

enum config_result { CONFIG_RUN, CONFIG_SHOW_HELP, CONFIG_SHOW_VERSION };

/* Reads the command line, then file or environment, and checks the whole. `*c` must be config_deinit()ed
 * whatever comes out.
 *
 * Owner: `argv` and `envp` are borrowed for the call.   Thread: any.
 * Errors: E_INVAL bad syntax of a flag (a program shows its usage and exits with 2);
 *         E_NOTFOUND a flag that does not exist, likewise;
 *         E_CONFIG anything else that is wrong (exit 1); E_NOMEM. */
int config_parse(struct config *c, const struct alloc *alloc, int argc, char *const *argv,
                 char *const *envp, enum config_result *result, struct errmsg *em);
void config_deinit(struct config *c);

/* The usage text: sections, flags, defaults. Errors: as buf_put(). */
struct buf;
int config_usage(struct buf *out);

/* Splits at commas; items live in `arena`. Errors: E_NOMEM; E_TOOBIG over 1024 items. */
int config_split(struct arena *arena, const char *text, struct config_list *out);

/* Whether a feature gate that is off by default was switched on; `c` has been parsed. */
bool config_gate(const struct config *c, const char *name);

/* --- shared inside the config files ------------------------------------------------------------ */

/* Sets one flag from text; Go's words in `em`. */
int config__set(struct config *c, enum config_id id, const char *text, enum config_origin origin,
                struct errmsg *em);
/* The flag called `name`, or CONFIG_COUNT. */
enum config_id config__find(const char *name, size_t len);
int config__warn(struct config *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Reads the YAML file `path` into `c`. E_CONFIG names the line. */
int config__load_file(struct config *c, const char *path, struct errmsg *em);
/* Everything that concerns more than one flag or the meaning of a value. E_CONFIG. */
int config__check(struct config *c, struct errmsg *em);
int config__check_gates(const struct config *c, struct errmsg *em);

#endif

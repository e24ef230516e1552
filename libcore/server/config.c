/* The command line and the environment of the server, from the table in config.def.
 *
 * Go's flag package decides the syntax: one or two dashes, "-f=v" or "-f v", a boolean takes no separate word. */
#include "server/config.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/err.h"
#include "base/text.h"

enum {
    CONFIG_ARENA_BYTES_MAX = 8 * 1024 * 1024, /* far above any sane command line or file */
    CONFIG_VARIABLE_BYTES_MAX = 128,          /* the longest flag name has 44 */
    CONFIG_LIST_MAX = 1024                    /* URLs, origins, names in one value */
};

#define SUPPORT_LIVE  false
#define SUPPORT_LATER true
static const struct config_flag FLAGS[CONFIG_COUNT] = {
#define FLAG(field, name, kind, def, yaml, section, support, help)                                 \
    {name,    CONFIG_##kind,     def,  yaml,                                                       \
     section, SUPPORT_##support, help, offsetof(struct config, field)},
#include "server/config.def"
#undef FLAG
};

/* Old flags that are taken with a warning and mean nothing. */
static const char *const IGNORED[] = {"cluster-active-size",
                                      "cluster-remove-delay",
                                      "cluster-sync-interval",
                                      "config",
                                      "force",
                                      "max-result-buffer",
                                      "max-retry-attempts",
                                      "peer-heartbeat-interval",
                                      "peer-election-timeout",
                                      "retry-interval",
                                      "snapshot",
                                      "v",
                                      "vv",
                                      "test.coverprofile",
                                      "test.outputdir"};

const struct config_flag *config_flags(void)
{
    return FLAGS;
}

static bool name_is(const char *name, const char *text, size_t len)
{
    return strlen(name) == len && memcmp(name, text, len) == 0;
}

enum config_id config__find(const char *name, size_t len)
{
    for (int i = 0; i < CONFIG_COUNT; i++) {
        if (name_is(FLAGS[i].name, name, len)) return (enum config_id)i;
    }
    return CONFIG_COUNT;
}

static bool is_ignored(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof IGNORED / sizeof *IGNORED; i++) {
        if (name_is(IGNORED[i], name, len)) return true;
    }
    return false;
}

static int list_add(struct arena *arena, struct config_list *list, const char *item)
{
    if (list->count == CONFIG_LIST_MAX) return E_TOOBIG;
    if (list->count % 8 == 0) {
        const char **grown = arena_new(arena, (list->count + 8) * sizeof *grown);
        if (grown == NULL) return E_NOMEM;
        if (list->count > 0) memcpy(grown, list->items, list->count * sizeof *grown);
        list->items = grown;
    }
    list->items[list->count++] = item;
    return 0;
}

int config__warn(struct config *c, const char *format, ...)
{
    char text[ERRMSG_BYTES_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct bytes copy = arena_copy(&c->arena, bytes_str(text));
    if (copy.data == NULL) return E_NOMEM;
    return list_add(&c->arena, &c->warnings, (const char *)copy.data);
}

int config_split(struct arena *arena, const char *text, struct config_list *out)
{
    struct config_list list = {NULL, 0};
    while (*text != '\0') {
        size_t len = strcspn(text, ",");
        struct bytes item = arena_copy(arena, bytes_of(text, len));
        if (item.data == NULL) return E_NOMEM;
        int rc = list_add(arena, &list, (const char *)item.data);
        if (rc < 0) return rc;
        text += len;
        if (*text == ',') text++;
    }
    *out = list;
    return 0;
}

static int set_number(void *field, const struct config_flag *f, const char *text, struct errmsg *em)
{
    struct bytes s = bytes_str(text);
    if (f->kind == CONFIG_INT)
        return text_parse_int(s, 0, (int64_t *)field, NULL) < 0 ? E_INVAL : 0;
    if (f->kind == CONFIG_DURATION) {
        return text_parse_duration(s, (int64_t *)field, NULL) < 0 ? E_INVAL : 0;
    }
    uint64_t value = 0;
    bool narrow = f->kind == CONFIG_UINT32;
    if (text_parse_uint(s, 0, &value, narrow ? em : NULL) < 0) return E_INVAL;
    if (narrow && value > UINT32_MAX) {
        errmsg_set(em, "strconv.ParseUint: parsing \"%s\": value out of range", text);
        return E_INVAL;
    }
    *(uint64_t *)field = value;
    return 0;
}

static int set_text(struct config *c, void *field, const struct config_flag *f, const char *text)
{
    struct bytes copy = arena_copy(&c->arena, bytes_str(text));
    if (copy.data == NULL) return E_NOMEM;
    if (f->kind == CONFIG_STRING) {
        *(const char **)field = (const char *)copy.data;
        return 0;
    }
    return config_split(&c->arena, (const char *)copy.data, field);
}

int config__set(struct config *c, enum config_id id, const char *text, enum config_origin origin,
                struct errmsg *em)
{
    ASSERT(id < CONFIG_COUNT);
    const struct config_flag *f = &FLAGS[id];
    void *field = (char *)c + f->offset;
    struct errmsg why = {"parse error"};
    int rc = 0;
    if (f->kind == CONFIG_BOOL) {
        rc = text_parse_bool(bytes_str(text), field, NULL);
        if (rc < 0)
            errmsg_set(em, "invalid boolean value \"%s\" for -%s: parse error", text, f->name);
    } else if (f->kind <= CONFIG_DURATION) {
        rc = set_number(field, f, text, &why);
        if (rc < 0)
            errmsg_set(em, "invalid value \"%s\" for flag -%s: %s", text, f->name, why.text);
    } else {
        rc = set_text(c, field, f, text);
    }
    if (rc == 0) c->origin[id] = origin;
    return rc;
}

static int set_defaults(struct config *c)
{
    for (int i = 0; i < CONFIG_COUNT; i++) {
        int rc =
            config__set(c, (enum config_id)i, FLAGS[i].default_text, CONFIG_FROM_DEFAULT, NULL);
        if (rc < 0) return rc;
    }
    return 0;
}

/* The next word, which is then used; NULL: there is none. */
static const char *argv_next(int argc, char *const *argv, int *at)
{
    return *at < argc ? argv[(*at)++] : NULL;
}

/* Sets a flag that exists, or (`id` is CONFIG_COUNT) passes over an old one. */
static int take_flag(struct config *c, enum config_id id, struct bytes name, const char *value,
                     struct errmsg *em)
{
    if (value == NULL) {
        errmsg_set(em, "flag needs an argument: -%.*s", (int)name.len, (const char *)name.data);
        return E_INVAL;
    }
    if (id != CONFIG_COUNT) return config__set(c, id, value, CONFIG_FROM_FLAG, em);
    return config__warn(c, "flag -%.*s is no longer used and has no effect", (int)name.len,
                        (const char *)name.data);
}

/* One "-name", "-name=value" or "-name value"; `*at` moves behind what was used. */
static int parse_flag(struct config *c, int argc, char *const *argv, int *at, bool *help,
                      struct errmsg *em)
{
    const char *word = argv[*at];
    const char *name = word + (word[1] == '-' ? 2 : 1);
    size_t len = strcspn(name, "=");
    const char *value = name[len] == '=' ? name + len + 1 : NULL;
    (*at)++;
    if (len == 0) {
        errmsg_set(em, "bad flag syntax: %s", word);
        return E_INVAL;
    }
    if (name_is("h", name, len) || name_is("help", name, len)) {
        *help = true;
        return 0;
    }
    enum config_id id = config__find(name, len);
    if (id == CONFIG_COUNT && !is_ignored(name, len)) {
        errmsg_set(em, "flag provided but not defined: -%.*s", (int)len, name);
        return E_NOTFOUND;
    }
    if (value == NULL && id != CONFIG_COUNT && FLAGS[id].kind == CONFIG_BOOL) value = "true";
    return take_flag(c, id, bytes_of(name, len), value != NULL ? value : argv_next(argc, argv, at),
                     em);
}

static int parse_line(struct config *c, int argc, char *const *argv, bool *help, struct errmsg *em)
{
    int at = 1;
    while (at < argc && !*help) {
        const char *word = argv[at];
        if (strcmp(word, "--") == 0 && ++at == argc) break;
        if (argv[at][0] != '-' || argv[at][1] == '\0' || strcmp(word, "--") == 0) {
            errmsg_set(em, "\"%s\" is not a valid flag", argv[at]);
            return E_INVAL;
        }
        int rc = parse_flag(c, argc, argv, &at, help, em);
        if (rc < 0) return rc;
    }
    return 0;
}

static void variable_name(const char *flag, char out[CONFIG_VARIABLE_BYTES_MAX])
{
    snprintf(out, CONFIG_VARIABLE_BYTES_MAX, "ETCD_%s", flag);
    for (char *p = out + 5; *p != '\0'; p++) {
        if (*p == '-') *p = '_';
        if (*p >= 'a' && *p <= 'z') *p = (char)(*p - 'a' + 'A');
    }
}

static enum config_id variable_find(const char *entry, size_t len)
{
    char name[CONFIG_VARIABLE_BYTES_MAX];
    for (int i = 0; i < CONFIG_COUNT; i++) {
        variable_name(FLAGS[i].name, name);
        if (i != CONFIG_version && name_is(name, entry, len)) return (enum config_id)i;
    }
    return CONFIG_COUNT;
}

static int take_variable(struct config *c, enum config_id id, const char *value, struct errmsg *em)
{
    char name[CONFIG_VARIABLE_BYTES_MAX];
    variable_name(FLAGS[id].name, name);
    if (c->origin[id] == CONFIG_FROM_FLAG) {
        errmsg_set(em,
                   "conflicting environment variable is shadowed by corresponding command-line "
                   "flag (either "
                   "unset environment variable or disable flag)): %s",
                   name);
        return E_CONFIG;
    }
    int rc = config__set(c, id, value, CONFIG_FROM_VARIABLE, em);
    if (rc == E_INVAL) {
        errmsg_prefix(em, "invalid value \"%s\" for %s", value, name);
        return E_CONFIG;
    }
    return rc;
}

static int parse_variables(struct config *c, char *const *envp, struct errmsg *em)
{
    for (; *envp != NULL; envp++) {
        const char *entry = *envp;
        size_t len = strcspn(entry, "=");
        if (strncmp(entry, "ETCD_", 5) != 0 || entry[len] != '=' || entry[len + 1] == '\0')
            continue;
        if (name_is("ETCD_UNSUPPORTED_ARCH", entry, len)) continue;
        enum config_id id = variable_find(entry, len);
        int rc = id == CONFIG_COUNT
                     ? config__warn(c, "unrecognized environment variable: %s", entry)
                     : take_variable(c, id, entry + len + 1, em);
        if (rc < 0) return rc;
    }
    return 0;
}

static const char *file_variable(char *const *envp)
{
    for (; *envp != NULL; envp++) {
        if (strncmp(*envp, "ETCD_CONFIG_FILE=", 17) == 0 && (*envp)[17] != '\0') return *envp + 17;
    }
    return NULL;
}

/* Starts over from the defaults, so that nothing of the command line stays. */
static int load_file_only(struct config *c, const char *path, struct errmsg *em)
{
    memset(c->origin, 0, sizeof c->origin);
    int rc = set_defaults(c);
    return rc < 0 ? rc : config__load_file(c, path, em);
}

int config_parse(struct config *c, const struct alloc *alloc, int argc, char *const *argv,
                 char *const *envp, enum config_result *result, struct errmsg *em)
{
    memset(c, 0, sizeof *c);
    arena_init(&c->arena, alloc, CONFIG_ARENA_BYTES_MAX);
    bool help = false;
    int rc = set_defaults(c);
    if (rc == 0) rc = parse_line(c, argc, argv, &help, em);
    if (rc < 0) return rc;
    *result = help ? CONFIG_SHOW_HELP : c->version ? CONFIG_SHOW_VERSION : CONFIG_RUN;
    if (*result != CONFIG_RUN) return 0;
    const char *file = c->config_file[0] != '\0' ? c->config_file : file_variable(envp);
    rc = file != NULL ? load_file_only(c, file, em) : parse_variables(c, envp, em);
    return rc < 0 ? rc : config__check(c, em);
}

void config_deinit(struct config *c)
{
    arena_deinit(&c->arena);
}

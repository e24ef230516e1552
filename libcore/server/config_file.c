/* The YAML form of the settings: nested maps become paths "a: b", and a path finds its row in the table.
 *
 * JSON is YAML, so a JSON file works as well. Durations are whole nanoseconds in a file, and lists are lists
 * or one comma-separated string. A key that no row has is a warning, never silence. */
#include "server/config.h"

#include <errno.h>
#include <stdio.h>
#include <yaml.h>

#include "base/err.h"
#include "base/text.h"

enum { FILE_DEPTH_MAX = 8, FILE_PATH_BYTES_MAX = 256, FILE_LIST_BYTES_MAX = 64 * 1024 };

struct reader {
    struct config *c;
    const char *path; /* of the file, for messages */
    struct errmsg *em;
    char key[FILE_DEPTH_MAX][FILE_PATH_BYTES_MAX]; /* the full path at each level of maps */
    int depth;                                     /* open maps */
    bool want_value;                               /* a key was read, its value comes next */
    bool in_list;
    char list[FILE_LIST_BYTES_MAX]; /* items so far, comma-separated */
    size_t list_len;
};

static int say(struct reader *r, const yaml_event_t *e, const char *what, const char *about)
{
    errmsg_set(r->em, "%s:%zu: %s \"%s\"", r->path, e->start_mark.line + 1, what, about);
    return E_CONFIG;
}

static enum config_id find_path(const char *path)
{
    for (int i = 0; i < CONFIG_COUNT; i++) {
        const char *yaml = config_flags()[i].yaml;
        if (yaml[0] != '\0' && strcmp(yaml, path) == 0) return (enum config_id)i;
    }
    return CONFIG_COUNT;
}

/* Durations stand in files as nanoseconds without a unit; the command line's form is taken too. */
static const char *as_duration(const char *value, char out[TEXT_DURATION_BYTES_MAX])
{
    int64_t ns = 0;
    if (text_parse_int(bytes_str(value), 10, &ns, NULL) < 0) return value;
    (void)text_duration(ns, out);
    return out;
}

static int set_path(struct reader *r, const yaml_event_t *e, const char *path, const char *value)
{
    enum config_id id = find_path(path);
    if (id == CONFIG_COUNT) {
        return config__warn(r->c, "%s:%zu: unknown key \"%s\" is ignored", r->path,
                            e->start_mark.line + 1, path);
    }
    char duration[TEXT_DURATION_BYTES_MAX];
    if (config_flags()[id].kind == CONFIG_DURATION) value = as_duration(value, duration);
    struct errmsg why = {""};
    int rc = config__set(r->c, id, value, CONFIG_FROM_FILE, &why);
    if (rc == E_INVAL) return say(r, e, why.text, path);
    return rc;
}

static int begin_key(struct reader *r, const yaml_event_t *e, const char *name)
{
    const char *parent = r->depth > 1 ? r->key[r->depth - 2] : "";
    char *key = r->key[r->depth - 1];
    int len =
        snprintf(key, FILE_PATH_BYTES_MAX, "%s%s%s", parent, parent[0] != '\0' ? ": " : "", name);
    if (len >= FILE_PATH_BYTES_MAX) return say(r, e, "key is too long:", name);
    r->want_value = true;
    return 0;
}

static int add_item(struct reader *r, const yaml_event_t *e, const char *item)
{
    size_t len = strlen(item);
    if (r->list_len + len + 2 > sizeof r->list) return say(r, e, "list is too long at", item);
    if (r->list_len > 0) r->list[r->list_len++] = ',';
    memcpy(r->list + r->list_len, item, len + 1);
    r->list_len += len;
    return 0;
}

static int on_scalar(struct reader *r, const yaml_event_t *e)
{
    const char *text = (const char *)e->data.scalar.value;
    if (strlen(text) != e->data.scalar.length) return say(r, e, "zero byte in", text);
    if (r->in_list) return add_item(r, e, text);
    if (r->depth == 0) return say(r, e, "expected keys with values, found", text);
    if (!r->want_value) return begin_key(r, e, text);
    r->want_value = false;
    bool null = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
                (text[0] == '\0' || strcmp(text, "null") == 0 || strcmp(text, "~") == 0);
    return null ? 0 : set_path(r, e, r->key[r->depth - 1], text);
}

static int on_open(struct reader *r, const yaml_event_t *e)
{
    const char *at = r->depth > 0 ? r->key[r->depth - 1] : "";
    if (r->in_list) return say(r, e, "list items must be plain values in", at);
    if (r->depth > 0 && !r->want_value) return say(r, e, "a key must be a plain word in", at);
    if (e->type == YAML_SEQUENCE_START_EVENT) {
        if (r->depth == 0) return say(r, e, "expected keys with values, found a list in", r->path);
        r->in_list = true;
        r->list_len = 0;
        r->list[0] = '\0';
        return 0;
    }
    if (r->depth == FILE_DEPTH_MAX) return say(r, e, "too many levels below", at);
    r->depth++;
    r->want_value = false;
    return 0;
}

static int on_close(struct reader *r, const yaml_event_t *e)
{
    r->want_value = false;
    if (e->type == YAML_MAPPING_END_EVENT) {
        r->depth--;
        return 0;
    }
    r->in_list = false;
    return set_path(r, e, r->key[r->depth - 1], r->list);
}

static int on_event(struct reader *r, const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_SCALAR_EVENT: return on_scalar(r, e);
    case YAML_MAPPING_START_EVENT:
    case YAML_SEQUENCE_START_EVENT: return on_open(r, e);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT: return on_close(r, e);
    case YAML_ALIAS_EVENT: return say(r, e, "aliases are not taken:", r->path);
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_START_EVENT:
    case YAML_DOCUMENT_END_EVENT: return 0;
    }
    return 0;
}

static int read_events(struct reader *r, yaml_parser_t *parser)
{
    for (bool end = false; !end;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event)) {
            errmsg_set(r->em, "%s:%zu: %s", r->path, parser->problem_mark.line + 1,
                       parser->problem != NULL ? parser->problem : "cannot be parsed");
            return E_CONFIG;
        }
        end = event.type == YAML_STREAM_END_EVENT;
        int rc = on_event(r, &event);
        yaml_event_delete(&event);
        if (rc < 0) return rc;
    }
    return 0;
}

int config__load_file(struct config *c, const char *path, struct errmsg *em)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        int rc = err_from_errno(errno);
        errmsg_set(em, "open %s: %s", path, err_text(rc));
        return E_CONFIG;
    }
    yaml_parser_t parser;
    int rc = E_NOMEM;
    struct reader *r = arena_zero(&c->arena, sizeof *r);
    if (r != NULL && yaml_parser_initialize(&parser)) {
        *r = (struct reader){.c = c, .path = path, .em = em};
        yaml_parser_set_input_file(&parser, file);
        rc = read_events(r, &parser);
        yaml_parser_delete(&parser);
    }
    fclose(file);
    return rc;
}

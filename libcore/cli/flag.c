/* Flags by table: values from text, and the words of a command line taken apart as pflag does. */
#include "cli/flag.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"

enum { QUOTED_BYTES_MAX = 64 * 1024 };

/* --- tables --------------------------------------------------------------------------------------- */

static void *value_at(const struct cli_table *t, const struct cli_flag *flag)
{
    return (char *)t->values + flag->at;
}

static uint64_t bit_of(const struct cli_table *t, const struct cli_flag *flag)
{
    return 1ULL << (size_t)(flag - t->rows);
}

bool cli_flag_changed(const struct cli_table *t, const struct cli_flag *flag)
{
    return (t->changed & bit_of(t, flag)) != 0;
}

int cli_flags_add(struct cli_flags *f, const struct cli_flag *rows, size_t count, void *values)
{
    ASSERT(f->table_count < CLI_TABLES_MAX);
    ASSERT(count <= CLI_FLAGS_MAX);
    struct cli_table *t = &f->tables[f->table_count++];
    *t = (struct cli_table){rows, count, values, 0};
    for (size_t i = 0; i < count; i++) {
        struct bytes def = bytes_str(rows[i].def == NULL ? "" : rows[i].def);
        if (rows[i].kind == CLI_STRING) *(struct bytes *)value_at(t, &rows[i]) = def;
        if (rows[i].def == NULL || rows[i].kind == CLI_STRING) continue;
        struct errmsg em;
        int rc = cli_flag_set(f, t, &rows[i], def, &em);
        ASSERT(rc == 0 || rc == E_NOMEM);
        if (rc < 0) return rc;
    }
    t->changed = 0;
    return 0;
}

const struct cli_flag *cli_flags_named(struct cli_flags *f, struct bytes name,
                                       struct cli_table **table)
{
    for (size_t k = 0; k < f->table_count; k++) {
        struct cli_table *t = &f->tables[k];
        for (size_t i = 0; i < t->count; i++) {
            if (!bytes_eq(bytes_str(t->rows[i].name), name)) continue;
            if (table != NULL) *table = t;
            return &t->rows[i];
        }
    }
    return NULL;
}

const struct cli_flag *cli_flags_lettered(struct cli_flags *f, char letter,
                                          struct cli_table **table)
{
    for (size_t k = 0; k < f->table_count; k++) {
        struct cli_table *t = &f->tables[k];
        for (size_t i = 0; i < t->count && letter != '\0'; i++) {
            if (t->rows[i].letter != letter) continue;
            if (table != NULL) *table = t;
            return &t->rows[i];
        }
    }
    return NULL;
}

const char *cli_kind_name(enum cli_kind kind)
{
    static const char *const NAMES[] = {[CLI_BOOL] = "",
                                        [CLI_INT] = "int",
                                        [CLI_STRING] = "string",
                                        [CLI_DURATION] = "duration",
                                        [CLI_LIST] = "strings"};
    return NAMES[kind];
}

/* --- values ----------------------------------------------------------------------------------------- */

/* A CSV record (as RFC 4180, in one line) while its fields are taken. */
struct csv {
    struct bytes text;
    size_t at;
    bool more; /* a field begins at `at` */
};

/* Copies a field in quotes, without them; `at` is then behind the closing one. */
static int csv_quoted(struct csv *c, uint8_t *to, size_t *len, struct errmsg *em)
{
    const struct bytes t = c->text;
    size_t i = c->at + 1;
    for (; i < t.len; i++) {
        bool doubled = t.data[i] == '"' && i + 1 < t.len && t.data[i + 1] == '"';
        if (t.data[i] == '"' && !doubled) break;
        if (doubled) i++;
        to[(*len)++] = t.data[i];
    }
    i++;
    if (i < t.len ? t.data[i] == ',' : i == t.len) {
        c->at = i;
        return 0;
    }
    errmsg_set(em, "parse error on line 1, column %zu: extraneous or missing \" in quoted-field",
               i);
    return E_INVAL;
}

static int csv_plain(struct csv *c, uint8_t *to, size_t *len, struct errmsg *em)
{
    for (; c->at < c->text.len && c->text.data[c->at] != ','; c->at++) {
        if (c->text.data[c->at] == '"') {
            errmsg_set(em, "parse error on line 1, column %zu: bare \" in non-quoted-field",
                       c->at + 1);
            return E_INVAL;
        }
        to[(*len)++] = c->text.data[c->at];
    }
    return 0;
}

/* Takes one field, and the comma behind it. */
static int csv_field(struct csv *c, struct arena *arena, struct bytes *out, struct errmsg *em)
{
    uint8_t *field = arena_new(arena, c->text.len - c->at + 1);
    size_t len = 0;
    if (field == NULL) return E_NOMEM;
    bool quoted = c->at < c->text.len && c->text.data[c->at] == '"';
    int rc = quoted ? csv_quoted(c, field, &len, em) : csv_plain(c, field, &len, em);
    if (rc < 0) return rc;
    field[len] = '\0';
    *out = bytes_of(field, len);
    c->more = c->at < c->text.len;
    c->at++;
    return 0;
}

/* The first use replaces the default, later ones append. */
static int set_list(struct cli_flags *f, struct cli_table *t, const struct cli_flag *flag,
                    struct bytes text, struct errmsg *em)
{
    struct cli_words *list = value_at(t, flag);
    size_t had = cli_flag_changed(t, flag) ? list->count : 0;
    size_t room = had + 1;
    for (size_t i = 0; i < text.len; i++)
        room += text.data[i] == ',';
    struct bytes *items = arena_new(f->arena, room * sizeof *items);
    if (items == NULL) return E_NOMEM;
    if (had > 0) memcpy(items, list->items, had * sizeof *items);
    size_t count = had;
    struct csv csv = {text, 0, text.len > 0};
    while (csv.more) {
        int rc = csv_field(&csv, f->arena, &items[count], em);
        if (rc < 0) return rc;
        count++;
    }
    *list = (struct cli_words){items, count};
    return 0;
}

int cli_flag_set(struct cli_flags *f, struct cli_table *t, const struct cli_flag *flag,
                 struct bytes text, struct errmsg *em)
{
    int rc = 0;
    switch (flag->kind) {
    case CLI_BOOL: rc = text_parse_bool(text, value_at(t, flag), em); break;
    case CLI_INT: rc = text_parse_int(text, 0, value_at(t, flag), em); break;
    case CLI_STRING: *(struct bytes *)value_at(t, flag) = text; break;
    case CLI_DURATION: rc = text_parse_duration(text, value_at(t, flag), em); break;
    case CLI_LIST: rc = set_list(f, t, flag, text, em); break;
    }
    if (rc == 0) t->changed |= bit_of(t, flag);
    return rc;
}

/* --- words -------------------------------------------------------------------------------------------- */

/* The words that are still to be read. */
struct cursor {
    const struct bytes *at;
    const struct bytes *end;
};

/* Go's %q of a text, in the arena. */
static const char *quoted(struct cli_flags *f, struct bytes text)
{
    struct alloc alloc = arena_alloc(f->arena);
    struct buf b;
    buf_init(&b, &alloc, QUOTED_BYTES_MAX);
    if (text_put_quoted(&b, text) < 0 || buf_put_u8(&b, 0) < 0) return "\"...\"";
    return (const char *)b.data;
}

static int assign(struct cli_flags *f, struct cli_table *t, const struct cli_flag *flag,
                  struct bytes text, struct errmsg *em)
{
    struct errmsg cause = {""};
    int rc = cli_flag_set(f, t, flag, text, &cause);
    if (rc != E_INVAL) return rc;
    char letter[5] = "";
    if (flag->letter != '\0') snprintf(letter, sizeof letter, "-%c, ", flag->letter);
    errmsg_set(em, "invalid argument %s for \"%s--%s\" flag: %s", quoted(f, text), letter,
               flag->name, cause.text);
    return E_INVAL;
}

static int parse_long(struct cli_flags *f, struct bytes word, struct cursor *rest,
                      struct errmsg *em)
{
    struct bytes name = bytes_of(word.data + 2, word.len - 2);
    const uint8_t *equals = memchr(name.data, '=', name.len);
    if (name.data[0] == '-' || equals == name.data) {
        errmsg_set(em, "bad flag syntax: %s", cli_text(word));
        return E_INVAL;
    }
    struct bytes text = BYTES_EMPTY;
    if (equals != NULL) {
        text = bytes_of(equals + 1, name.len - 1 - (size_t)(equals - name.data));
        name.len = (size_t)(equals - name.data);
    }
    struct cli_table *t = NULL;
    const struct cli_flag *flag = cli_flags_named(f, name, &t);
    if (flag == NULL) {
        errmsg_set(em, "unknown flag: --%.*s", (int)name.len, (const char *)name.data);
        return E_INVAL;
    }
    if (equals == NULL && flag->kind == CLI_BOOL) {
        text = bytes_str("true");
    } else if (equals == NULL) {
        if (rest->at == rest->end) {
            errmsg_set(em, "flag needs an argument: --%s", flag->name);
            return E_INVAL;
        }
        text = *rest->at++;
    }
    return assign(f, t, flag, text, em);
}

enum { LETTER_BYTES_MAX = 16 };

/* Go's %q of one byte, taken as a character of Latin-1. */
static void quote_letter(uint8_t c, char out[LETTER_BYTES_MAX])
{
    if (c == '\'' || c == '\\') {
        snprintf(out, LETTER_BYTES_MAX, "'\\%c'", c);
    } else if (c >= 0x20 && c < 0x7f) {
        snprintf(out, LETTER_BYTES_MAX, "'%c'", c);
    } else if (c > 0xa0 && c != 0xad) {
        snprintf(out, LETTER_BYTES_MAX, "'%c%c'", 0xc0 | c >> 6, 0x80 | (c & 0x3f));
    } else {
        snprintf(out, LETTER_BYTES_MAX, c < 0x80 ? "'\\x%02x'" : "'\\u%04x'", c);
    }
}

static int short_error(const char *what, struct bytes letters, struct errmsg *em)
{
    char c[LETTER_BYTES_MAX];
    quote_letter(letters.data[0], c);
    errmsg_set(em, "%s: %s in -%.*s", what, c, (int)letters.len, (const char *)letters.data);
    return E_INVAL;
}

/* -x, -xVALUE, -x=VALUE, -x VALUE, and bools in a row. */
static int parse_short(struct cli_flags *f, struct bytes word, struct cursor *rest,
                       struct errmsg *em)
{
    struct bytes letters = bytes_of(word.data + 1, word.len - 1);
    while (letters.len > 0) {
        struct cli_table *t = NULL;
        const struct cli_flag *flag = cli_flags_lettered(f, (char)letters.data[0], &t);
        if (flag == NULL) return short_error("unknown shorthand flag", letters, em);
        struct bytes behind = bytes_of(letters.data + 1, letters.len - 1);
        struct bytes text = bytes_str("true");
        if (letters.len > 2 && behind.data[0] == '=') {
            text = bytes_of(behind.data + 1, behind.len - 1);
            behind.len = 0;
        } else if (flag->kind != CLI_BOOL && behind.len > 0) {
            text = behind;
            behind.len = 0;
        } else if (flag->kind != CLI_BOOL) {
            if (rest->at == rest->end) return short_error("flag needs an argument", letters, em);
            text = *rest->at++;
        }
        int rc = assign(f, t, flag, text, em);
        if (rc < 0) return rc;
        letters = behind;
    }
    return 0;
}

int cli_flags_parse(struct cli_flags *f, struct cli_words *words, struct errmsg *em)
{
    struct cursor rest = {words->items, words->items + words->count};
    size_t count = 0;
    while (rest.at < rest.end) {
        struct bytes word = *rest.at++;
        int rc = 0;
        if (word.len < 2 || word.data[0] != '-') {
            words->items[count++] = word;
        } else if (word.data[1] != '-') {
            rc = parse_short(f, word, &rest, em);
        } else if (word.len > 2) {
            rc = parse_long(f, word, &rest, em);
        } else {
            f->dashed = true;
            f->before_dash = count;
            while (rest.at < rest.end)
                words->items[count++] = *rest.at++;
        }
        if (rc < 0) return rc;
    }
    words->count = count;
    return 0;
}

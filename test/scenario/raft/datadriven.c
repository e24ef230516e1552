/* The reader of directives: one pass over the text, arguments cut in place in a copy of the line. */
#include "datadriven.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct span {
    const char *at;
    size_t len;
};

void dd_init(struct dd_reader *r, const char *text, size_t len)
{
    *r = (struct dd_reader){.at = text, .end = text + len};
}

/* Without its newline. False at the end. */
static bool next_line(struct dd_reader *r, struct span *line)
{
    if (r->at == r->end) return false;
    const char *nl = memchr(r->at, '\n', (size_t)(r->end - r->at));
    const char *stop = nl == NULL ? r->end : nl;
    *line = (struct span){r->at, (size_t)(stop - r->at)};
    r->at = nl == NULL ? r->end : nl + 1;
    r->line_no++;
    return true;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct span trim(struct span s)
{
    while (s.len > 0 && is_space(s.at[0])) {
        s.at++;
        s.len--;
    }
    while (s.len > 0 && is_space(s.at[s.len - 1]))
        s.len--;
    return s;
}

static bool is(struct span s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.at, text, s.len) == 0;
}

static int fail(struct dd_reader *r, const char *why)
{
    r->error = why;
    return -1;
}

static int add(struct dd_reader *r, char *out, size_t *len, size_t cap, struct span s)
{
    if (s.len >= cap - *len) return fail(r, "a line or input is too long");
    memcpy(out + *len, s.at, s.len);
    *len += s.len;
    out[*len] = '\0';
    return 0;
}

/* The directive with its continuation lines, in one line. */
static int join_line(struct dd_reader *r, struct span first, char out[DD_LINE_BYTES_MAX])
{
    size_t len = 0;
    struct span s = first;
    while (s.len > 0 && s.at[s.len - 1] == '\\') {
        s.len--;
        if (add(r, out, &len, DD_LINE_BYTES_MAX, s) < 0) return -1;
        if (add(r, out, &len, DD_LINE_BYTES_MAX, (struct span){" ", 1}) < 0) return -1;
        if (!next_line(r, &s)) return fail(r, "the file ends in a continued line");
        s = trim(s);
    }
    return add(r, out, &len, DD_LINE_BYTES_MAX, s);
}

/* Cuts "(a, b)" or "a" behind a key's sign into values; returns what is behind them. */
static char *cut_values(char *at, struct dd_arg *arg)
{
    bool list = *at == '(';
    if (list) at++;
    int depth = 0;
    arg->values[arg->value_count++] = at;
    for (; *at != '\0'; at++) {
        if (!list && *at == ' ') break;
        if (!list) continue;
        if (*at == '(') depth++;
        if (*at == ')' && depth-- == 0) break;
        if (*at != ',' || depth > 0) continue;
        if (arg->value_count == DD_VALUES_MAX) return NULL;
        *at = '\0';
        while (at[1] == ' ')
            at++;
        arg->values[arg->value_count++] = at + 1;
    }
    if (*at == '\0') return list ? NULL : at;
    *at = '\0';
    return at + 1;
}

static int cut_args(struct dd_reader *r, struct dd_case *c)
{
    char *at = c->line + strcspn(c->line, " ");
    c->command = c->line;
    c->arg_count = 0;
    if (*at != '\0') *at++ = '\0';
    for (;;) {
        while (*at == ' ')
            at++;
        if (*at == '\0') break;
        if (c->arg_count == DD_ARGS_MAX) return fail(r, "too many arguments");
        struct dd_arg *arg = &c->args[c->arg_count++];
        *arg = (struct dd_arg){.key = at};
        at += strcspn(at, " =");
        bool value = *at == '=';
        if (*at != '\0') *at++ = '\0';
        if (value) at = cut_values(at, arg);
        if (at == NULL) return fail(r, "a malformed list of values");
    }
    return 0;
}

static int read_input(struct dd_reader *r, struct dd_case *c)
{
    struct span line;
    const char *from = r->at;
    const char *to = from;
    for (;;) {
        to = r->at;
        if (!next_line(r, &line)) return fail(r, "the file ends before ----");
        if (is(line, "----")) break;
    }
    size_t len = 0;
    c->input[0] = '\0';
    return add(r, c->input, &len, sizeof c->input, trim((struct span){from, (size_t)(to - from)}));
}

/* Behind the second of two ----: up to two more of them. */
static int read_long_output(struct dd_reader *r, struct dd_case *c)
{
    struct span line;
    c->expected = r->at;
    for (;;) {
        const char *before = r->at;
        if (!next_line(r, &line)) return fail(r, "the file ends within an output");
        if (!is(line, "----")) continue;
        struct dd_reader ahead = *r;
        if (!next_line(&ahead, &line) || !is(line, "----")) continue;
        *r = ahead;
        c->expected_len = (size_t)(before - c->expected);
        return 0;
    }
}

static int read_output(struct dd_reader *r, struct dd_case *c)
{
    struct span line;
    c->expected = r->at;
    for (bool first = true;; first = false) {
        const char *before = r->at;
        bool more = next_line(r, &line);
        if (more && first && is(line, "----")) return read_long_output(r, c);
        if (more && trim(line).len > 0) continue;
        c->expected_len = (size_t)(before - c->expected);
        return 0;
    }
}

int dd_next(struct dd_reader *r, struct dd_case *out)
{
    struct span line;
    do {
        if (!next_line(r, &line)) return 0;
        line = trim(line);
    } while (line.len == 0 || line.at[0] == '#');
    out->line_no = r->line_no;
    if (join_line(r, line, out->line) < 0 || cut_args(r, out) < 0) return -1;
    if (read_input(r, out) < 0 || read_output(r, out) < 0) return -1;
    return 1;
}

const struct dd_arg *dd_arg(const struct dd_case *c, const char *key)
{
    for (size_t i = 0; i < c->arg_count; i++)
        if (strcmp(c->args[i].key, key) == 0) return &c->args[i];
    return NULL;
}

bool dd_u64(const char *text, uint64_t *out)
{
    if (*text < '0' || *text > '9') return false;
    char *end = NULL;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0') return false;
    *out = v;
    return true;
}

bool dd_bool(const char *text, bool *out)
{
    *out = strcmp(text, "true") == 0;
    return *out || strcmp(text, "false") == 0;
}

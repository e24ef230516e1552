/* Commands by table: words to a command, its flags, and the way to its end. */
#include "cli/command.h"

#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "base/err.h"

/* Names that are this close to a mistyped one are suggested. */
enum { SUGGEST_DISTANCE_MAX = 2, NAME_BYTES_MAX = 64 };

static const struct cli_flag HELP_ROW[] = {
    {"help", CLI_BOOL, 'h', offsetof(struct cli_call, help), NULL, "", NULL}};

/* --- words ---------------------------------------------------------------------------------------- */

static bool begins(struct bytes word, const char *prefix)
{
    size_t n = strlen(prefix);
    return word.len >= n && memcmp(word.data, prefix, n) == 0;
}

/* Whether `word` is a flag whose value is the next word; an unknown flag is taken for one. */
static bool takes_next(struct cli_flags *f, struct bytes word)
{
    if (!begins(word, "-") || memchr(word.data, '=', word.len) != NULL) return false;
    const struct cli_flag *flag = NULL;
    if (begins(word, "--")) {
        flag = cli_flags_named(f, bytes_of(word.data + 2, word.len - 2), NULL);
    } else if (word.len == 2) {
        flag = cli_flags_lettered(f, (char)word.data[1], NULL);
    } else {
        return false;
    }
    return flag == NULL || flag->kind != CLI_BOOL;
}

/* The first word that is no flag, nor the value of one, nor behind `--`; count when there is none. A flag at the very end,
 * or before the last word, hides what follows it, as in cobra. */
static size_t first_plain(struct cli_flags *f, const struct cli_words *words)
{
    for (size_t i = 0; i < words->count; i++) {
        struct bytes word = words->items[i];
        if (bytes_eq(word, bytes_str("--"))) break;
        if (takes_next(f, word)) {
            if (words->count - i <= 2) break;
            i++;
        } else if (word.len > 0 && word.data[0] != '-') {
            return i;
        }
    }
    return words->count;
}

const struct cli_command *cli_command_find(const struct cli_command *c, struct bytes word)
{
    const struct cli_command *found = NULL;
    size_t count = 0;
    for (size_t i = 0; i < c->sub_count; i++) {
        struct bytes name = bytes_str(c->subs[i].name);
        if (bytes_eq(name, word)) return &c->subs[i];
        bool prefix = name.len > word.len && memcmp(name.data, word.data, word.len) == 0;
        if (!prefix || begins(name, "__")) continue;
        found = &c->subs[i];
        count++;
    }
    return count == 1 ? found : NULL;
}

static void remove_word(struct cli_words *words, size_t at)
{
    memmove(&words->items[at], &words->items[at + 1],
            (words->count - at - 1) * sizeof *words->items);
    words->count--;
}

/* The tables that count while the command is looked for: those of `c` and of the program. Values are not touched. */
static struct cli_flags known_flags(const struct cli_program *p, const struct cli_command *c)
{
    struct cli_flags f = {.table_count = 3};
    f.tables[0] = (struct cli_table){c->rows, c->row_count, NULL, 0};
    f.tables[1] = (struct cli_table){p->rows, p->row_count, NULL, 0};
    f.tables[2] = (struct cli_table){HELP_ROW, 1, NULL, 0};
    return f;
}

void cli_command_resolve(const struct cli_program *p, struct cli_words *words,
                         const struct cli_command **group, const struct cli_command **command)
{
    *group = NULL;
    *command = p->root;
    while ((*command)->sub_count > 0) {
        struct cli_flags f = known_flags(p, *command);
        size_t at = first_plain(&f, words);
        if (at == words->count) break;
        const struct cli_command *sub = cli_command_find(*command, words->items[at]);
        if (sub == NULL) break;
        remove_word(words, at);
        *group = *command == p->root ? NULL : *command;
        *command = sub;
        if (sub->raw) break;
    }
}

/* --- suggestions ------------------------------------------------------------------------------------- */

static uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c - 'A' + 'a') : c;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Levenshtein's distance, letter case ignored; row by row. */
static size_t distance(struct bytes a, const char *name)
{
    size_t row[NAME_BYTES_MAX + 1];
    size_t n = strlen(name);
    ASSERT(n <= NAME_BYTES_MAX);
    for (size_t k = 0; k <= n; k++)
        row[k] = k;
    for (size_t i = 0; i < a.len; i++) {
        size_t corner = row[0];
        row[0] = i + 1;
        for (size_t k = 0; k < n; k++) {
            bool same = lower(a.data[i]) == lower((uint8_t)name[k]);
            size_t best = same ? corner : 1 + least(corner, least(row[k], row[k + 1]));
            corner = row[k + 1];
            row[k + 1] = best;
        }
    }
    return row[n];
}

static bool close_to(struct bytes word, const char *name)
{
    size_t n = strlen(name);
    if (word.len <= n && strncasecmp((const char *)word.data, name, word.len) == 0) return true;
    return word.len <= n + SUGGEST_DISTANCE_MAX && distance(word, name) <= SUGGEST_DISTANCE_MAX;
}

static int unknown_command(const struct cli_program *p, struct bytes word)
{
    struct cli_out *to = p->err;
    bool any = false;
    cli_put(to, "Error: unknown command ");
    cli_put_quoted(to, word);
    cli_printf(to, " for \"%s\"\n", p->name);
    for (size_t i = 0; i < p->root->sub_count; i++) {
        const struct cli_command *c = &p->root->subs[i];
        if (c->hidden || c->run == cli_run_help || !close_to(word, c->name)) continue;
        if (!any) cli_put(to, "\nDid you mean this?\n");
        any = true;
        cli_printf(to, "\t%s\n", c->name);
    }
    if (any) cli_put(to, "\n");
    cli_printf(to, "Run '%s --help' for usage.\n", p->name);
    return CLI_ERROR;
}

/* --- running ------------------------------------------------------------------------------------------ */

static int zeroed(struct arena *arena, size_t bytes, void **out)
{
    *out = arena_zero(arena, bytes == 0 ? 1 : bytes);
    return *out == NULL ? E_NOMEM : 0;
}

int cli_call_init(struct cli_call *call, const struct cli_program *p,
                  const struct cli_command *group, const struct cli_command *command)
{
    static const struct cli_command NONE = {0};
    const struct cli_command *above = group == NULL ? &NONE : group;
    void *own = NULL;
    void *shared = NULL;
    *call = (struct cli_call){.program = p, .group = group, .command = command};
    call->flags.arena = p->arena;
    int rc = zeroed(p->arena, command->values_bytes, &own);
    if (rc == 0) rc = zeroed(p->arena, above->values_bytes, &shared);
    call->values = own;
    call->group_values = shared;
    if (rc == 0) rc = cli_flags_add(&call->flags, command->rows, command->row_count, own);
    if (rc == 0) rc = cli_flags_add(&call->flags, above->rows, above->row_count, shared);
    if (rc == 0) rc = cli_flags_add(&call->flags, p->rows, p->row_count, p->values);
    if (rc == 0) rc = cli_flags_add(&call->flags, HELP_ROW, 1, call);
    return rc;
}

static int end_with(const struct cli_call *call, int status, const struct errmsg *em)
{
    const struct cli_program *p = call->program;
    if (status == CLI_OK || em->text[0] == '\0') return status;
    /* What was printed so far comes before the error, as it did in time. */
    (void)cli_out_flush(p->out);
    cli_put(p->err, "Error: ");
    cli_put(p->err, em->text);
    cli_put(p->err, "\n");
    if (call->show_usage) {
        cli_usage(p, call->group, call->command, p->err);
        cli_put(p->err, "\n");
    }
    return status;
}

static int run_call(struct cli_call *call, struct errmsg *em)
{
    const struct cli_program *p = call->program;
    const struct cli_command *c = call->command;
    if (!c->raw) {
        int rc = cli_flags_parse(&call->flags, &call->args, em);
        if (rc == E_NOMEM) return cli_fail(em, CLI_ERROR, "%s", err_text(rc));
        call->show_usage = rc < 0;
        if (rc < 0) return CLI_ERROR;
    }
    if (call->help || c->run == NULL) {
        cli_help(p, call->group, c, p->out);
        return CLI_OK;
    }
    return c->run(p->arg, call, em);
}

int cli_run(const struct cli_program *p, size_t count, char *const *argv)
{
    struct errmsg em = {""};
    struct cli_call call;
    const struct cli_command *group = NULL;
    const struct cli_command *command = NULL;
    struct cli_words words = {arena_new(p->arena, (count + 1) * sizeof *words.items), count};
    for (size_t i = 0; i < count && words.items != NULL; i++)
        words.items[i] = bytes_str(argv[i]);
    if (words.items != NULL) cli_command_resolve(p, &words, &group, &command);
    if (words.items == NULL || cli_call_init(&call, p, group, command) < 0) {
        cli_printf(p->err, "Error: %s\n", err_text(E_NOMEM));
        return CLI_ERROR;
    }
    if (command == p->root) {
        struct cli_flags f = known_flags(p, command);
        size_t at = first_plain(&f, &words);
        if (at < words.count) return unknown_command(p, words.items[at]);
    }
    call.args = words;
    int status = run_call(&call, &em);
    status = end_with(&call, status, &em);
    int rc = cli_out_flush(p->out);
    if (rc < 0 && status == CLI_OK) {
        cli_printf(p->err, "Error: cannot write the output: %s\n", err_text(rc));
        status = CLI_ERROR;
    }
    return status;
}

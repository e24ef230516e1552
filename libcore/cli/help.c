/* Help, usage and the manual page, all from the tables. */
#include <string.h>

#include "cli/command.h"

enum { ROWS_MAX = CLI_FLAGS_MAX + 1, COMMANDS_MAX = 64, FLAG_TEXT_MAX = 96 };

/* --- flags ------------------------------------------------------------------------------------------- */

/* What stands in the left column: "  -w, --write-out string". */
static int flag_text(const struct cli_flag *row, char out[FLAG_TEXT_MAX])
{
    char letter[8] = "    ";
    if (row->letter != '\0') snprintf(letter, sizeof letter, "-%c, ", row->letter);
    const char *kind = cli_kind_name(row->kind);
    return snprintf(out, FLAG_TEXT_MAX, "  %s--%s%s%s", letter, row->name, *kind == '\0' ? "" : " ",
                    kind);
}

static void put_default(const struct cli_flag *row, struct cli_out *to)
{
    if (row->def == NULL || *row->def == '\0') return;
    if (row->kind == CLI_STRING) {
        cli_put(to, " (default ");
        cli_put_quoted(to, bytes_str(row->def));
        cli_put(to, ")");
    } else {
        cli_printf(to, row->kind == CLI_LIST ? " (default [%s])" : " (default %s)", row->def);
    }
}

static void put_rows(const struct cli_flag *const *rows, size_t count, struct cli_out *to)
{
    char text[FLAG_TEXT_MAX];
    int width = 0;
    for (size_t i = 0; i < count; i++) {
        int len = flag_text(rows[i], text);
        if (len > width) width = len;
    }
    for (size_t i = 0; i < count; i++) {
        (void)flag_text(rows[i], text);
        cli_printf(to, "%-*s   %s", width, text, rows[i]->help);
        put_default(rows[i], to);
        cli_put(to, "\n");
    }
}

/* Puts the flags of a table in the order of their names, and `extra` among them. */
static size_t sorted_rows(const struct cli_flag *rows, size_t count, const struct cli_flag *extra,
                          const struct cli_flag *out[ROWS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < count + (extra != NULL); i++) {
        const struct cli_flag *row = i < count ? &rows[i] : extra;
        size_t at = n++;
        while (at > 0 && strcmp(out[at - 1]->name, row->name) > 0) {
            out[at] = out[at - 1];
            at--;
        }
        out[at] = row;
    }
    return n;
}

static void put_flags(const char *heading, const struct cli_flag *rows, size_t count,
                      const struct cli_flag *extra, struct cli_out *to)
{
    const struct cli_flag *sorted[ROWS_MAX];
    size_t n = sorted_rows(rows, count, extra, sorted);
    if (n == 0) return;
    cli_put(to, heading);
    put_rows(sorted, n, to);
}

/* --- commands ------------------------------------------------------------------------------------------ */

/* The visible subs of `c` in the order of their names. */
static size_t sorted_subs(const struct cli_command *c, const struct cli_command *out[COMMANDS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < c->sub_count && n < COMMANDS_MAX; i++) {
        const struct cli_command *sub = &c->subs[i];
        if (sub->hidden) continue;
        size_t at = n++;
        while (at > 0 && strcmp(out[at - 1]->name, sub->name) > 0) {
            out[at] = out[at - 1];
            at--;
        }
        out[at] = sub;
    }
    return n;
}

/* All groups, or (`group` < 0) all commands. */
static void put_subs(const struct cli_command *c, int group, struct cli_out *to)
{
    const struct cli_command *subs[COMMANDS_MAX];
    size_t n = sorted_subs(c, subs);
    int width = 11;
    for (size_t i = 0; i < n; i++) {
        int len = (int)strlen(subs[i]->name);
        if (len > width) width = len;
    }
    for (size_t i = 0; i < n; i++) {
        if (group < 0 || subs[i]->group == (unsigned)group)
            cli_printf(to, "  %-*s %s\n", width, subs[i]->name, subs[i]->brief);
    }
}

static bool group_has_any(const struct cli_command *c, unsigned group)
{
    for (size_t i = 0; i < c->sub_count; i++) {
        if (!c->subs[i].hidden && c->subs[i].group == group) return true;
    }
    return false;
}

static void put_name(const struct cli_program *p, const struct cli_command *group,
                     const struct cli_command *command, struct cli_out *to)
{
    cli_put(to, p->name);
    if (group != NULL) cli_printf(to, " %s", group->name);
    if (command != p->root) cli_printf(to, " %s", command->name);
}

void cli_usage(const struct cli_program *p, const struct cli_command *group,
               const struct cli_command *command, struct cli_out *to)
{
    cli_put(to, "Usage:\n  ");
    put_name(p, group, command, to);
    if (command->sub_count > 0) {
        cli_put(to, " [command]\n");
    } else {
        if (command->usage != NULL) cli_printf(to, " %s", command->usage);
        cli_put(to, " [flags]\n");
    }
    if (command == p->root) {
        for (unsigned g = 0; g < p->group_count; g++) {
            if (!group_has_any(command, g)) continue;
            cli_printf(to, "\n%s\n", p->groups[g]);
            put_subs(command, (int)g, to);
        }
        return;
    }
    if (command->sub_count > 0) {
        cli_put(to, "\nAvailable Commands:\n");
        put_subs(command, -1, to);
    }
    char text[FLAG_TEXT_MAX];
    snprintf(text, sizeof text, "help for %s", command->name);
    const struct cli_flag help = {"help", CLI_BOOL, 'h', 0, NULL, text, NULL};
    put_flags("\nFlags:\n", command->rows, command->row_count, &help, to);
    if (group != NULL) put_flags("\nGlobal Flags:\n", group->rows, group->row_count, NULL, to);
}

void cli_help(const struct cli_program *p, const struct cli_command *group,
              const struct cli_command *command, struct cli_out *to)
{
    cli_put(to, command->details != NULL ? command->details : command->brief);
    cli_put(to, "\n\n");
    cli_usage(p, group, command, to);
    cli_put(to, "\n");
    if (command->sub_count > 0) {
        cli_put(to, "Use \"");
        put_name(p, group, command, to);
        cli_put(to, " [command] --help\" for more information about a command.\n");
    }
    cli_printf(to, "Use \"%s options\" for the flags that every command takes.\n", p->name);
}

void cli_options(const struct cli_program *p, struct cli_out *to)
{
    cli_put(to, "The following options can be passed to any command:\n");
    put_flags("\n", p->rows, p->row_count, NULL, to);
}

/* --- the manual page ----------------------------------------------------------------------------------- */

/* Text for scdoc, which takes some characters for markup. */
static void put_plain_bytes(struct bytes text, struct cli_out *to)
{
    for (size_t i = 0; i < text.len; i++) {
        if (memchr("_*\\#`", text.data[i], 5) != NULL) cli_put(to, "\\");
        cli_put_bytes(to, bytes_of(text.data + i, 1));
    }
}

static void put_plain(const char *text, struct cli_out *to)
{
    put_plain_bytes(bytes_str(text), to);
}

/* Lines of text; those that are indented are shown as they are. */
static void put_paragraphs(const char *text, struct cli_out *to)
{
    bool literal = false;
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        bool indented = text[0] == ' ';
        if (n > 0 && indented != literal) cli_put(to, literal ? "```\n\n" : "\n```\n");
        if (n > 0) literal = indented;
        if (literal) {
            cli_put_bytes(to, bytes_of(text, n));
        } else {
            put_plain_bytes(bytes_of(text, n), to);
        }
        cli_put(to, "\n");
        text += n + (text[n] == '\n');
    }
    if (literal) cli_put(to, "```\n");
}

static void manual_flags(const struct cli_flag *rows, size_t count, struct cli_out *to)
{
    for (size_t i = 0; i < count; i++) {
        const char *kind = cli_kind_name(rows[i].kind);
        cli_put(to, "\n*");
        if (rows[i].letter != '\0') cli_printf(to, "-%c*, *", rows[i].letter);
        cli_printf(to, "--%s*", rows[i].name);
        if (*kind != '\0') cli_printf(to, " _%s_", kind);
        cli_put(to, "\n\t");
        put_plain(rows[i].help, to);
        put_default(&rows[i], to);
        cli_put(to, "\n");
    }
}

static void manual_command(const struct cli_command *group, const struct cli_command *c,
                           struct cli_out *to)
{
    cli_put(to, "\n## ");
    if (group != NULL) cli_printf(to, "%s ", group->name);
    cli_put(to, c->name);
    cli_put(to, " ");
    put_plain(c->usage == NULL ? "" : c->usage, to);
    cli_put(to, "\n\n");
    put_paragraphs(c->details != NULL ? c->details : c->brief, to);
    manual_flags(c->rows, c->row_count, to);
}

void cli_manual(const struct cli_program *p, struct cli_out *to)
{
    cli_printf(to, "%s(1)\n\n# NAME\n\n%s - %s\n\n# SYNOPSIS\n\n", p->name, p->name,
               p->root->brief);
    cli_printf(to, "*%s* [flags] _command_ [flags] [arguments]\n\n# COMMANDS\n", p->name);
    const struct cli_command *subs[COMMANDS_MAX];
    size_t n = sorted_subs(p->root, subs);
    for (size_t i = 0; i < n; i++) {
        manual_command(NULL, subs[i], to);
        for (size_t k = 0; k < subs[i]->sub_count; k++)
            manual_command(subs[i], &subs[i]->subs[k], to);
    }
    cli_put(to, "\n# FLAGS OF EVERY COMMAND\n");
    manual_flags(p->rows, p->row_count, to);
}

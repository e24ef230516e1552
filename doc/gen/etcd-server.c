/* Prints the server's table of flags in the forms that documents and shells want, at build time.
 *
 *     etcd-server man | bash | zsh | fish | table
 *
 * The Makefile puts each where the template says `@flags@`: doc/man/, completion/. `table` is for tests. */
#include <stdio.h>
#include <string.h>

#include "server/config.h"

/* Values that a shell can offer. A name that is no flag makes the generator fail. */
static const struct {
    const char *flag;
    const char *values;
} CHOICES[] = {
    {"initial-cluster-state", "new existing"},
    {"log-format", "json console"},
    {"log-level", "debug info warn error panic fatal"},
    {"log-outputs", "default stderr stdout"},
};

static const struct config_flag *flag_named(const char *name)
{
    for (int i = 0; i < CONFIG_COUNT; i++) {
        if (strcmp(config_flags()[i].name, name) == 0) return &config_flags()[i];
    }
    return NULL;
}

/* The values of a flag, separated by blanks; NULL: anything. */
static const char *choices(const struct config_flag *f)
{
    for (size_t i = 0; i < sizeof CHOICES / sizeof *CHOICES; i++) {
        if (strcmp(CHOICES[i].flag, f->name) == 0) return CHOICES[i].values;
    }
    return NULL;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static bool takes_file(const struct config_flag *f)
{
    return f->kind == CONFIG_STRING &&
           (ends_with(f->name, "-file") || ends_with(f->name, "-cert") ||
            ends_with(f->name, "-key") || ends_with(f->name, "-cacert"));
}

static const char *kind_name(enum config_kind kind)
{
    switch (kind) {
    case CONFIG_BOOL: return "bool";
    case CONFIG_UINT: return "uint";
    case CONFIG_UINT32: return "uint32";
    case CONFIG_INT: return "int";
    case CONFIG_DURATION: return "duration";
    case CONFIG_STRING: return "string";
    case CONFIG_LIST: return "list";
    case CONFIG_URLS: return "urls";
    }
    return "";
}

/* The environment variable: ETCD_ and the name in capitals, with - as _. */
static void put_variable(const char *name)
{
    fputs("ETCD_", stdout);
    for (; *name != '\0'; name++)
        putchar(*name == '-' ? '_' : 'a' <= *name && *name <= 'z' ? *name - 32 : *name);
}

/* Prints `text` with `mark` before each of the characters in `special`. */
static void put_marked(const char *text, const char *special, const char *mark)
{
    for (; *text != '\0'; text++) {
        if (strchr(special, *text) != NULL) fputs(mark, stdout);
        putchar(*text);
    }
}

/* For a string within '...' of a shell. */
static void put_shell(const char *text, const char *special)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
            continue;
        }
        if (strchr(special, *text) != NULL) putchar('\\');
        putchar(*text);
    }
}

static void man_flag(const struct config_flag *f)
{
    printf("*--%s*", f->name);
    if (f->kind != CONFIG_BOOL) printf(" _%s_", kind_name(f->kind));
    fputs("\n\t", stdout);
    put_marked(f->help, "_*\\#`", "\\");
    if (f->default_only) fputs(" Takes its default only, so far.", stdout);
    fputs("++\nDefault: ", stdout);
    if (f->default_text[0] == '\0') fputs("empty", stdout);
    put_marked(f->default_text, "_*\\#`", "\\");
    if (f->kind != CONFIG_BOOL || strcmp(f->name, "version") != 0) {
        fputs(". Variable: ", stdout);
        put_variable(f->name);
    }
    if (f->yaml[0] != '\0') printf(". In a file: %s", f->yaml);
    fputs(".\n\n", stdout);
}

static void print_man(void)
{
    const char *section = "";
    for (int i = 0; i < CONFIG_COUNT; i++) {
        const struct config_flag *f = &config_flags()[i];
        if (strcmp(section, f->section) != 0) printf("## %s\n\n", f->section);
        section = f->section;
        man_flag(f);
    }
}

/* Lists for the script: all flags, those without a value, and those whose values can be guessed. */
static void print_bash(void)
{
    fputs("    local flags='", stdout);
    for (int i = 0; i < CONFIG_COUNT; i++)
        printf("--%s ", config_flags()[i].name);
    fputs("--help'\n    case $previous in\n", stdout);
    for (int i = 0; i < CONFIG_COUNT; i++) {
        const struct config_flag *f = &config_flags()[i];
        const char *values = choices(f);
        if (values != NULL)
            printf("        --%s) values='%s' ;;\n", f->name, values);
        else if (takes_file(f))
            printf("        --%s) kind=file ;;\n", f->name);
        else if (ends_with(f->name, "-dir"))
            printf("        --%s) kind=folder ;;\n", f->name);
        else if (f->kind != CONFIG_BOOL)
            printf("        --%s) kind=other ;;\n", f->name);
    }
    fputs("    esac\n", stdout);
}

static void zsh_value(const struct config_flag *f)
{
    const char *values = choices(f);
    printf(":%s:", kind_name(f->kind));
    if (values != NULL)
        printf("(%s)", values);
    else if (takes_file(f))
        fputs("_files", stdout);
    else if (ends_with(f->name, "-dir"))
        fputs("_files -/", stdout);
    else
        putchar(' ');
}

static void print_zsh(void)
{
    for (int i = 0; i < CONFIG_COUNT; i++) {
        const struct config_flag *f = &config_flags()[i];
        printf("    '--%s%s[", f->name, f->kind == CONFIG_BOOL ? "" : "=");
        put_shell(f->help, "[]:\\");
        putchar(']');
        if (f->kind != CONFIG_BOOL) zsh_value(f);
        fputs("'\n", stdout);
    }
}

static void print_fish(void)
{
    for (int i = 0; i < CONFIG_COUNT; i++) {
        const struct config_flag *f = &config_flags()[i];
        const char *values = choices(f);
        printf("    complete -c $program -l %s -d '", f->name);
        put_shell(f->help, "\\");
        putchar('\'');
        if (f->kind != CONFIG_BOOL) fputs(" -r", stdout);
        if (values != NULL)
            printf(" -f -a '%s'", values);
        else if (takes_file(f))
            fputs(" -F", stdout);
        else if (ends_with(f->name, "-dir"))
            fputs(" -f -a '(__fish_complete_directories)'", stdout);
        else
            fputs(" -f", stdout);
        putchar('\n');
    }
}

/* name, kind, default, variable, path in a file, section, live or later. */
static void print_table(void)
{
    for (int i = 0; i < CONFIG_COUNT; i++) {
        const struct config_flag *f = &config_flags()[i];
        printf("%s\t%s\t%s\t", f->name, kind_name(f->kind), f->default_text);
        put_variable(f->name);
        printf("\t%s\t%s\t%s\n", f->yaml, f->section, f->default_only ? "later" : "live");
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } forms[] = {{"man", print_man},
                 {"bash", print_bash},
                 {"zsh", print_zsh},
                 {"fish", print_fish},
                 {"table", print_table}};
    for (size_t i = 0; i < sizeof CHOICES / sizeof *CHOICES; i++) {
        if (flag_named(CHOICES[i].flag) != NULL) continue;
        fprintf(stderr, "doc/gen/etcd-server.c: there is no flag --%s\n", CHOICES[i].flag);
        return 1;
    }
    for (size_t i = 0; argc == 2 && i < sizeof forms / sizeof *forms; i++) {
        if (strcmp(forms[i].name, argv[1]) != 0) continue;
        forms[i].print();
        return fflush(stdout) == 0 ? 0 : 1;
    }
    fputs("usage: etcd-server man|bash|zsh|fish|table\n", stderr);
    return 1;
}

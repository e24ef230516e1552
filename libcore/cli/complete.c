/* Completion: the program itself knows what a word could become; the shells' scripts only ask it. */
#include "cli/complete.h"

#include <string.h>

enum { PREFIX_BYTES_MAX = 64 };

/* One search for candidates. */
struct search {
    const struct cli_program *p;
    struct bytes word;  /* what is being completed */
    const char *before; /* goes in front of every candidate: "--write-out=" */
    bool with_help;
};

static void offer(const struct search *s, const char *before, struct bytes text, const char *help)
{
    struct cli_out *to = s->p->out;
    struct bytes start = bytes_of(text.data, s->word.len);
    if (text.len < s->word.len || !bytes_eq(start, s->word)) return;
    cli_put(to, before);
    cli_put_bytes(to, text);
    if (s->with_help && help != NULL && *help != '\0') cli_printf(to, "\t%s", help);
    cli_put(to, "\n");
}

static void offer_choices(const struct search *s, const char *choices)
{
    while (*choices != '\0') {
        size_t n = strcspn(choices, " ");
        offer(s, s->before, bytes_of(choices, n), NULL);
        choices += n;
        choices += strspn(choices, " ");
    }
}

static void offer_flags(struct search *s, const struct cli_call *call)
{
    /* The dashes are typed already. */
    s->word = s->word.len < 2 ? BYTES_EMPTY : bytes_of(s->word.data + 2, s->word.len - 2);
    for (size_t k = 0; k < call->flags.table_count; k++) {
        const struct cli_table *t = &call->flags.tables[k];
        for (size_t i = 0; i < t->count; i++)
            offer(s, "--", bytes_str(t->rows[i].name), t->rows[i].help);
    }
}

static void offer_commands(const struct search *s, const struct cli_command *c)
{
    for (size_t i = 0; i < c->sub_count; i++) {
        if (!c->subs[i].hidden) offer(s, "", bytes_str(c->subs[i].name), c->subs[i].brief);
    }
}

/* The flag that waits for its value when `words` end here; NULL: none does. */
static const struct cli_flag *open_flag(struct cli_flags *f, const struct cli_words *words)
{
    if (words->count == 0) return NULL;
    struct bytes last = words->items[words->count - 1];
    const struct cli_flag *flag = NULL;
    if (last.len > 2 && memcmp(last.data, "--", 2) == 0) {
        flag = cli_flags_named(f, bytes_of(last.data + 2, last.len - 2), NULL);
    } else if (last.len == 2 && last.data[0] == '-') {
        flag = cli_flags_lettered(f, (char)last.data[1], NULL);
    }
    return flag != NULL && flag->kind != CLI_BOOL ? flag : NULL;
}

/* --flag=VALUE that is being typed: the flag, and the part up to "=" in `before`. */
static const struct cli_flag *typed_flag(struct cli_flags *f, struct bytes *word,
                                         char before[PREFIX_BYTES_MAX])
{
    const uint8_t *equals = word->len > 2 ? memchr(word->data, '=', word->len) : NULL;
    if (equals == NULL || memcmp(word->data, "--", 2) != 0) return NULL;
    size_t n = (size_t)(equals - word->data) + 1;
    if (n >= PREFIX_BYTES_MAX) return NULL;
    const struct cli_flag *flag = cli_flags_named(f, bytes_of(word->data + 2, n - 3), NULL);
    if (flag == NULL) return NULL;
    memcpy(before, word->data, n);
    before[n] = '\0';
    *word = bytes_of(word->data + n, word->len - n);
    return flag;
}

static bool has_separator(const struct cli_words *words)
{
    for (size_t i = 0; i < words->count; i++) {
        if (bytes_eq(words->items[i], bytes_str("--"))) return true;
    }
    return false;
}

/* Prints the candidates; false when file names are as good. */
static bool search(struct search *s, struct cli_call *call, const struct cli_words *before)
{
    char prefix[PREFIX_BYTES_MAX];
    struct cli_flags *f = &call->flags;
    bool plain = has_separator(before);
    const struct cli_flag *flag = plain ? NULL : open_flag(f, before);
    if (flag == NULL && !plain) {
        flag = typed_flag(f, &s->word, prefix);
        if (flag != NULL) s->before = prefix;
    }
    if (flag != NULL) {
        if (flag->choices != NULL) offer_choices(s, flag->choices);
        return flag->choices != NULL;
    }
    if (!plain && s->word.len > 0 && s->word.data[0] == '-') {
        offer_flags(s, call);
    } else if (call->command->sub_count > 0) {
        offer_commands(s, call->command);
    } else if (call->command->choices != NULL) {
        struct errmsg em;
        struct cli_words args = *before;
        if (cli_flags_parse(f, &args, &em) == 0 && args.count == 0)
            offer_choices(s, call->command->choices);
    }
    return true;
}

void cli_complete(const struct cli_program *p, struct cli_words words, bool with_help)
{
    struct search s = {.p = p, .before = "", .with_help = with_help};
    struct cli_call call;
    const struct cli_command *group = NULL;
    const struct cli_command *command = NULL;
    struct cli_words before = words;
    if (words.count > 0) {
        s.word = words.items[words.count - 1];
        before.count--;
    }
    cli_command_resolve(p, &before, &group, &command);
    if (cli_call_init(&call, p, group, command) < 0) return;
    bool complete = search(&s, &call, &before);
    cli_put(p->out, complete ? ":4\n" : ":0\n");
    cli_printf(p->err, "Completion ended with directive: %s\n",
               complete ? "ShellCompDirectiveNoFileComp" : "ShellCompDirectiveDefault");
}

/* --- scripts ------------------------------------------------------------------------------------------- */

/* In each @N stands for the program's name and @F for a function's. */
static const struct script {
    const char *shell;
    const char *text;
} SCRIPTS[] = {
    {"bash",
     "# bash completion for @N; needs nothing but bash.\n"
     "_@F_complete() {\n"
     "    local line=${COMP_LINE:0:COMP_POINT} word out directive=0\n"
     "    local -a words=()\n"
     "    read -ra words <<<\"$line\"\n"
     "    [[ $line == *[[:space:]] ]] && words+=(\"\")\n"
     "    word=${words[${#words[@]}-1]}\n"
     "    COMPREPLY=()\n"
     "    while IFS= read -r out; do\n"
     "        if [[ $out == :* ]]; then directive=${out#:}; continue; fi\n"
     "        # An equals sign ends a word for bash, so what stands before it must not be "
     "repeated.\n"
     "        if [[ $word == *=* && $COMP_WORDBREAKS == *=* ]]; then out=${out#*=}; fi\n"
     "        COMPREPLY+=(\"$out\")\n"
     "    done < <(\"${words[0]}\" __completeNoDesc \"${words[@]:1}\" 2>/dev/null)\n"
     "    if (( (directive & 4) == 0 && ${#COMPREPLY[@]} == 0 )); then compopt -o default; fi\n"
     "}\n"
     "complete -F _@F_complete @N\n"},
    {"zsh", "#compdef @N\n"
            "# zsh completion for @N.\n"
            "_@F() {\n"
            "    local out directive=0\n"
            "    local -a found\n"
            "    while IFS= read -r out; do\n"
            "        if [[ $out == :* ]]; then directive=${out#:}; continue; fi\n"
            "        out=${out//:/\\\\:}\n"
            "        found+=(\"${out/$'\\t'/:}\")\n"
            "    done < <(\"${words[1]}\" __complete \"${(@)words[2,CURRENT]}\" 2>/dev/null)\n"
            "    if (( $#found )); then _describe -V 'candidates' found; "
            "elif (( ! (directive & 4) )); then _files; fi\n"
            "}\n"
            "if [ \"$funcstack[1]\" = \"_@F\" ]; then _@F; else compdef _@F @N; fi\n"},
    {"fish", "# fish completion for @N.\n"
             "function __@F_candidates\n"
             "    set -l words (commandline -opc) (commandline -ct)\n"
             "    command $words[1] __complete $words[2..-1] 2>/dev/null | string match -rv '^:'\n"
             "end\n"
             "complete -c @N -f -a '(__@F_candidates)'\n"},
    {"powershell", "# PowerShell completion for @N.\n"
                   "Register-ArgumentCompleter -Native -CommandName '@N' -ScriptBlock {\n"
                   "    param($word, $ast, $position)\n"
                   "    $words = @($ast.CommandElements | ForEach-Object { \"$_\" })\n"
                   "    if ($word -eq '') { $words += '\"\"' }\n"
                   "    & $words[0] __complete @($words | Select-Object -Skip 1) 2>$null |\n"
                   "        Where-Object { $_ -notmatch '^:' } | ForEach-Object {\n"
                   "            $name, $help = $_ -split \"`t\", 2\n"
                   "            if (-not $help) { $help = $name }\n"
                   "            [System.Management.Automation.CompletionResult]::new($name, $name, "
                   "'ParameterValue', $help)\n"
                   "        }\n"
                   "}\n"},
};

/* The name as a part of a function's name: dashes are none. */
static void put_function(struct cli_out *to, const char *name)
{
    for (; *name != '\0'; name++)
        cli_put_bytes(to, *name == '-' ? bytes_str("_") : bytes_of(name, 1));
}

bool cli_completion_script(struct cli_out *to, const char *shell, const char *name)
{
    const struct script *s = NULL;
    for (size_t i = 0; i < sizeof SCRIPTS / sizeof *SCRIPTS; i++) {
        if (strcmp(SCRIPTS[i].shell, shell) == 0) s = &SCRIPTS[i];
    }
    if (s == NULL) return false;
    for (const char *at = s->text; *at != '\0';) {
        size_t n = strcspn(at, "@");
        cli_put_bytes(to, bytes_of(at, n));
        at += n;
        if (at[0] == '@' && at[1] == 'N') {
            cli_put(to, name);
            at += 2;
        } else if (at[0] == '@' && at[1] == 'F') {
            put_function(to, name);
            at += 2;
        } else if (at[0] == '@') {
            cli_put(to, "@");
            at++;
        }
    }
    return true;
}

/* Completion of command lines in shells. */
#ifndef CLI_COMPLETE_H
#define CLI_COMPLETE_H

#include <stdbool.h>

#include "cli/command.h"

/* Prints what the last of `words` could become, one candidate a line, and the line `:4` (`:0` when file names make sense,
 * too). */
void cli_complete(const struct cli_program *p, struct cli_words words, bool with_help);

/* Prints the script that makes `shell` (bash, zsh, fish, powershell) ask the program `name`. False: no such shell. */
bool cli_completion_script(struct cli_out *to, const char *shell, const char *name);

#endif

/* Flags by table, with the syntax of Go's pflag, which users of etcdctl know (cli-etcdctl.md 3.1).
 *
 * A row says what a flag is called, what it takes, where its value goes in a struct of the command's, and what help and
 * completion say about it. A command line is read against a few such tables at once: the command's own, its group's, the
 * program's. */
#ifndef CLI_FLAG_H
#define CLI_FLAG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/errmsg.h"
#include "cli/cli.h"

enum cli_kind {
    CLI_BOOL,     /* bool */
    CLI_INT,      /* int64_t */
    CLI_STRING,   /* struct bytes, with a zero behind it */
    CLI_DURATION, /* int64_t, in ns */
    CLI_LIST      /* struct cli_words */
};

struct cli_flag {
    const char *name;
    enum cli_kind kind;
    char letter;         /* of the short form; 0: none */
    size_t at;           /* of the value, in the table's struct */
    const char *def;     /* as it would be given; NULL: false, 0, empty */
    const char *help;    /* one line */
    const char *choices; /* for completion: the values, separated by blanks; NULL: anything */
};

enum { CLI_FLAGS_MAX = 64, CLI_TABLES_MAX = 4 };

struct cli_table {
    const struct cli_flag *rows;
    size_t count;     /* <= CLI_FLAGS_MAX */
    void *values;     /* the struct that the rows' `at` point into */
    uint64_t changed; /* bit i: row i was given */
};

struct cli_flags {
    struct cli_table tables[CLI_TABLES_MAX]; /* the nearest first */
    size_t table_count;
    struct arena *arena; /* what lists and defaults live in */
    bool dashed;         /* after cli_flags_parse(): the words held "--" ... */
    size_t before_dash;  /* ... and so many arguments stood before it */
};

/* Adds a table and sets its values to their defaults. The values must be a zeroed struct. E_NOMEM. */
int cli_flags_add(struct cli_flags *f, const struct cli_flag *rows, size_t count, void *values);

/* Looks a flag up; NULL: there is none. `*table` (may be NULL) is where it stands. */
const struct cli_flag *cli_flags_named(struct cli_flags *f, struct bytes name,
                                       struct cli_table **table);
const struct cli_flag *cli_flags_lettered(struct cli_flags *f, char letter,
                                          struct cli_table **table);

/* Whether it was given on the command line. */
bool cli_flag_changed(const struct cli_table *t, const struct cli_flag *flag);

/* Sets a value from text. Errors: E_INVAL with Go's words for the cause in `em`; E_NOMEM. */
int cli_flag_set(struct cli_flags *f, struct cli_table *t, const struct cli_flag *flag,
                 struct bytes text, struct errmsg *em);

/* Takes all flags out of `words`; what is left are the arguments, in order. Errors: E_INVAL with pflag's words. */
int cli_flags_parse(struct cli_flags *f, struct cli_words *words, struct errmsg *em);

/* What a flag takes, as help names it: "int", "string", ...; "" for a bool. */
const char *cli_kind_name(enum cli_kind kind);

#endif

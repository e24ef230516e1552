/* raft_data [--shared | --print] [FILE...]: runs scenario files through raft and compares what comes out byte for byte.
 *
 * Each FILE is an interaction file; --shared runs all files of ../shared/raft-testdata before them. One TAP case a
 * file. With --print nothing is compared, and each directive is printed with what it gave. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interaction.h"
#include "shared.h"
#include "tables.h"

enum { OUTPUT_BYTES_MAX = 16 << 20, DIFFERENCE_LINES_MAX = 6 };

/* What one file is run through. */
struct machine {
    void (*begin)(void *state);
    void (*run)(void *state, const struct dd_case *c, struct buf *out);
    void (*end)(void *state);
};

static void interaction_begin(void *state)
{
    env_init(state);
}

static void interaction_run(void *state, const struct dd_case *c, struct buf *out)
{
    struct env *env = state;
    env_run(env, c);
    (void)buf_put_bytes(out, buf_bytes(&env->out));
}

static void interaction_end(void *state)
{
    env_deinit(state);
}

static void conf_begin(void *state)
{
    *(struct conf_env *)state = (struct conf_env){0};
}

static void conf_step(void *state, const struct dd_case *c, struct buf *out)
{
    conf_run(state, c, out);
}

static void conf_end(void *state)
{
    conf_env_deinit(state);
}

static void quorum_step(void *state, const struct dd_case *c, struct buf *out)
{
    (void)state;
    quorum_run(c, out);
}

static void nothing(void *state)
{
    (void)state;
}

static const struct machine interaction = {interaction_begin, interaction_run, interaction_end};

static const struct {
    const char *folder;
    struct machine machine;
} folders[] = {
    {"interaction", {interaction_begin, interaction_run, interaction_end}},
    {"confchange", {conf_begin, conf_step, conf_end}},
    {"quorum", {nothing, quorum_step, nothing}},
};

/* --- one file ------------------------------------------------------------------------------------ */

static void put_lines(const char *mark, const char *text, size_t len)
{
    size_t i = 0;
    for (int line = 0; i < len && line < DIFFERENCE_LINES_MAX; line++) {
        const char *nl = memchr(text + i, '\n', len - i);
        size_t n = nl == NULL ? len - i : (size_t)(nl - text) - i;
        printf("# %s %.*s\n", mark, (int)n, text + i);
        i += n + 1;
    }
}

/* The first lines that differ, with the one before them. */
static void print_difference(const char *path, const struct dd_case *c, const struct buf *seen)
{
    const char *a = c->expected;
    const char *b = (const char *)seen->data;
    size_t an = c->expected_len;
    size_t bn = seen->len;
    size_t same = 0;
    while (same < an && same < bn && a[same] == b[same])
        same++;
    size_t from = same;
    for (int newlines = 0; from > 0; from--)
        if (a[from - 1] == '\n' && ++newlines == 2) break;
    printf("# %s:%zu: %s\n", path, c->line_no, c->command);
    put_lines("expected", a + from, an - from);
    put_lines("seen    ", b + from, bn - from);
}

static void print_arg(const struct dd_arg *a)
{
    printf(" %s%s", a->key, a->value_count == 0 ? "" : "=(");
    for (size_t i = 0; i < a->value_count; i++)
        printf("%s%s", i == 0 ? "" : ",", a->values[i]);
    printf("%s", a->value_count == 0 ? "" : ")");
}

static void print_case(const struct dd_case *c, const struct buf *seen)
{
    printf("%s", c->command);
    for (size_t i = 0; i < c->arg_count; i++)
        print_arg(&c->args[i]);
    printf("\n%s%s----\n%.*s\n", c->input, *c->input == '\0' ? "" : "\n", (int)seen->len,
           (const char *)seen->data);
}

/* Errors: a malformed file or an output that differs, told as TAP comments; false then. */
static bool run_text(const struct machine *machine, const char *path, struct bytes text, bool print)
{
    static struct env state; /* the largest of the states */
    struct dd_reader reader;
    struct dd_case c;
    struct buf seen;
    bool good = true;
    int rc;
    buf_init(&seen, &scenario_heap, OUTPUT_BYTES_MAX);
    dd_init(&reader, (const char *)text.data, text.len);
    machine->begin(&state);
    while (good && (rc = dd_next(&reader, &c)) > 0) {
        buf_reset(&seen);
        machine->run(&state, &c, &seen);
        if (seen.len > 0 && seen.data[seen.len - 1] != '\n') (void)buf_put_u8(&seen, '\n');
        if (print) {
            print_case(&c, &seen);
        } else if (!bytes_eq(buf_bytes(&seen), bytes_of(c.expected, c.expected_len))) {
            print_difference(path, &c, &seen);
            good = false;
        }
    }
    if (good && rc < 0) {
        printf("# %s:%zu: %s\n", path, reader.line_no, reader.error);
        good = false;
    }
    machine->end(&state);
    buf_deinit(&seen);
    return good;
}

static bool run_file(const struct machine *machine, const char *path, bool print)
{
    size_t len;
    char *text = shared_read(path, &len);
    if (text == NULL) {
        printf("# %s cannot be read\n", path);
        return false;
    }
    bool good = run_text(machine, path, bytes_of(text, len), print);
    free(text);
    return good;
}

/* --- all files ----------------------------------------------------------------------------------- */

struct count {
    unsigned done;
    unsigned failed;
};

static void report(struct count *n, bool good, const char *folder, const char *name)
{
    n->done++;
    n->failed += !good;
    printf("%sok %u - %s/%s\n", good ? "" : "not ", n->done, folder, name);
}

static int is_scenario(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return n > 4 && strcmp(d->d_name + n - 4, ".txt") == 0;
}

static void run_folder(const struct machine *machine, const char *folder, struct count *n)
{
    char relative[64];
    char dir[SHARED_PATH_BYTES_MAX];
    struct dirent **list;
    (void)snprintf(relative, sizeof relative, "raft-testdata/%s", folder);
    if (!shared_find(relative, dir)) {
        printf("ok %u - %s # SKIP no ../shared/%s here\n", ++n->done, folder, relative);
        return;
    }
    int files = scandir(dir, &list, is_scenario, alphasort);
    if (files <= 0) report(n, false, folder, "(no files)");
    for (int i = 0; i < files; i++) {
        char path[SHARED_PATH_BYTES_MAX + 300];
        (void)snprintf(path, sizeof path, "%s/%s", dir, list[i]->d_name);
        report(n, run_file(machine, path, false), folder, list[i]->d_name);
        free(list[i]);
    }
    if (files >= 0) free(list);
}

/* The last part of a path. */
static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

int main(int argc, char **argv)
{
    struct count n = {0};
    bool print = argc > 1 && strcmp(argv[1], "--print") == 0;
    bool shared = argc > 1 && strcmp(argv[1], "--shared") == 0;
    for (size_t i = 0; shared && i < sizeof folders / sizeof *folders; i++)
        run_folder(&folders[i].machine, folders[i].folder, &n);
    for (int i = 1 + (print || shared); i < argc; i++) {
        bool good = run_file(&interaction, argv[i], print);
        if (!print) report(&n, good, "scenario", name_of(argv[i]));
    }
    if (!print) printf("1..%u\n", n.done);
    return n.failed > 0;
}

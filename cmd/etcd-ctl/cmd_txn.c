/* txn: reads its grammar from standard input, line by line, so that prompts come when they are due. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/txn.h"
#include "ctl.h"

enum { READ_BYTES = 64 * 1024 };

static const struct ctl_rpc TXN = {.path = "/etcdserverpb.KV/Txn",
                                   .answer = &etcdserverpb__txn_response__descriptor,
                                   .no_timeout = true};

/* Lines of standard input. */
struct lines {
    struct buf have; /* read and not yet taken */
};

/* Takes the next line, its end included; borrowed until the next. E_EOF: there is no further whole line. */
static int next_line(struct lines *in, size_t *taken, struct bytes *out)
{
    buf_consume(&in->have, *taken);
    *taken = 0;
    size_t searched = 0;
    for (;;) {
        const uint8_t *from = in->have.data == NULL ? NULL : in->have.data + searched;
        const uint8_t *end = from == NULL ? NULL : memchr(from, '\n', in->have.len - searched);
        if (end != NULL) {
            *taken = (size_t)(end - in->have.data) + 1;
            *out = bytes_of(in->have.data, *taken);
            return 0;
        }
        searched = in->have.len;
        int rc = buf_reserve(&in->have, READ_BYTES);
        if (rc < 0) return rc;
        ssize_t n = read(STDIN_FILENO, in->have.data + in->have.len, READ_BYTES);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return err_from_errno(errno);
        if (n == 0) return E_EOF;
        in->have.len += (size_t)n;
    }
}

static void prompt(struct ctl *ctl, const struct cli_call *call, enum cli_txn_part part)
{
    static const char *const PROMPTS[] = {
        [CLI_TXN_COMPARES] = "compares:\n",
        [CLI_TXN_SUCCESS] = "success requests (get, put, del):\n",
        [CLI_TXN_FAILURE] = "failure requests (get, put, del):\n",
        [CLI_TXN_DONE] = "",
    };
    const struct ctl_txn_values *v = call->values;
    if (!v->interactive) return;
    cli_put(&ctl->out, PROMPTS[part]);
    (void)cli_out_flush(&ctl->out);
}

/* After a bad flag in a request line: how that request is written. */
static void show_usage_of(struct ctl *ctl, const struct cli_call *call, const char *name)
{
    const struct cli_program *p = call->program;
    cli_usage(p, NULL, cli_command_find(p->root, bytes_str(name)), &ctl->err);
    cli_put(&ctl->err, "\n");
}

static int read_txn(struct ctl *ctl, const struct cli_call *call, struct cli_txn *t,
                    struct errmsg *em)
{
    struct lines in;
    struct bytes line;
    size_t taken = 0;
    int status = CLI_OK;
    buf_init(&in.have, ctl->arena.alloc, SIZE_MAX / 2);
    prompt(ctl, call, t->part);
    while (status == CLI_OK && t->part != CLI_TXN_DONE) {
        enum cli_txn_part part = t->part;
        int rc = next_line(&in, &taken, &line);
        if (rc == E_EOF) {
            status = cli_fail(em, CLI_BAD_INPUT, "EOF");
        } else if (rc < 0) {
            status = cli_fail(em, CLI_BAD_INPUT, "%s", err_text(rc));
        } else {
            status = cli_txn_line(t, line, em);
        }
        if (status == CLI_OK && t->risky) ctl_warn_range(ctl, t->from, t->to);
        if (status == CLI_OK && t->part != part) prompt(ctl, call, t->part);
    }
    if (status != CLI_OK && t->usage_of != NULL) show_usage_of(ctl, call, t->usage_of);
    buf_deinit(&in.have);
    return status;
}

int ctl_txn(void *arg, struct cli_call *call, struct errmsg *em)
{
    struct ctl *ctl = arg;
    struct cli_txn t;
    ProtobufCMessage *answer = NULL;
    if (call->args.count != 0)
        return cli_fail(em, CLI_BAD_ARGS, "txn command does not accept argument");
    cli_txn_init(&t, &ctl->arena);
    int status = ctl_connect(ctl, call, em);
    if (status == CLI_OK) status = read_txn(ctl, call, &t, em);
    if (status == CLI_OK)
        status = ctl_call(ctl, ctl->client, &TXN, &t.request.base, &ctl->arena, &answer, em, NULL);
    return status == CLI_OK ? cli_print_txn(&ctl->printer, (const void *)answer, em) : status;
}

/* From settings to a client, and one call of it. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/env.h"
#include "ctl.h"
#include "os/disk.h"
#include "os/file_util.h"
#include "os/heap.h"
#include "os/tty.h"
#include "pb/pack.h"
#include "pb/unpack.h"

enum { LINE_BYTES_MAX = 64 * 1024, PEM_BYTES_MAX = 16 * 1024 * 1024, GRACE_S = 2 };

static const char ENV_PREFIX[] = "ETCDCTL";

static int fail_rc(struct errmsg *em, int rc)
{
    return cli_fail(em, CLI_ERROR, "%s", err_text(rc));
}

/* --- environment ------------------------------------------------------------------------------------- */

static int apply_environment(struct ctl *ctl, struct cli_call *call, struct errmsg *em)
{
    struct errmsg name = {""};
    /* The command's own flags have no variables; its group's and the program's have. */
    int rc = cli_env_apply(&call->flags, CLI_OF_GROUP, ENV_PREFIX, ctl->environ, &name);
    if (rc == 0) rc = cli_env_apply(&call->flags, CLI_OF_PROGRAM, ENV_PREFIX, ctl->environ, &name);
    if (rc == E_EXIST) {
        cli_put(&ctl->err,
                "{\"level\":\"fatal\",\"msg\":\"conflicting environment variable is shadowed by "
                "corresponding command-line flag (either unset environment variable or "
                "disable flag))\",\"environment-variable\":");
        cli_put_json(&ctl->err, bytes_str(name.text));
        cli_put(&ctl->err, "}\n");
        return CLI_ERROR;
    }
    return rc < 0 ? fail_rc(em, rc) : CLI_OK;
}

static void put_value(struct cli_out *to, const struct cli_table *t, const struct cli_flag *row)
{
    const char *at = (const char *)t->values + row->at;
    switch (row->kind) {
    case CLI_BOOL: cli_put(to, *(const bool *)at ? "true" : "false"); return;
    case CLI_INT: cli_printf(to, "%lld", (long long)*(const int64_t *)(const void *)at); return;
    case CLI_STRING: cli_put_bytes(to, *(const struct bytes *)(const void *)at); return;
    case CLI_DURATION:
        cli_printf(to, "%lldns", (long long)*(const int64_t *)(const void *)at);
        return;
    case CLI_LIST: {
        const struct cli_words *list = (const struct cli_words *)(const void *)at;
        cli_put(to, "[");
        for (size_t i = 0; i < list->count; i++) {
            cli_put(to, i == 0 ? "" : ",");
            cli_put_bytes(to, list->items[i]);
        }
        cli_put(to, "]");
        return;
    }
    }
}

static void show_settings(struct ctl *ctl, const struct cli_call *call)
{
    for (size_t k = CLI_OF_GROUP; k <= CLI_OF_PROGRAM; k++) {
        const struct cli_table *t = &call->flags.tables[k];
        for (size_t i = 0; i < t->count; i++) {
            char name[CLI_ENV_BYTES_MAX];
            cli_env_name(ENV_PREFIX, t->rows[i].name, name);
            bool secret = strcmp(t->rows[i].name, "password") == 0;
            cli_printf(&ctl->err, "%s=", name);
            if (!secret) put_value(&ctl->err, t, &t->rows[i]);
            cli_put(&ctl->err, "\n");
        }
    }
}

static struct bytes trim(struct bytes s)
{
    static const char BLANKS[] = " \t\r\n";
    while (s.len > 0 && memchr(BLANKS, s.data[0], sizeof BLANKS - 1) != NULL)
        s = bytes_of(s.data + 1, s.len - 1);
    while (s.len > 0 && memchr(BLANKS, s.data[s.len - 1], sizeof BLANKS - 1) != NULL)
        s.len--;
    return s;
}

static int trim_endpoints(struct ctl *ctl, struct errmsg *em)
{
    struct cli_words *endpoints = &ctl->globals.endpoints;
    for (size_t i = 0; i < endpoints->count; i++) {
        endpoints->items[i] = arena_copy(&ctl->arena, trim(endpoints->items[i]));
        if (endpoints->items[i].data == NULL) return fail_rc(em, E_NOMEM);
    }
    return CLI_OK;
}

/* --- TLS --------------------------------------------------------------------------------------------- */

static int refuse_empty(struct cli_call *call, const char *name, struct bytes value,
                        struct errmsg *em)
{
    struct cli_table *t = NULL;
    const struct cli_flag *flag = cli_flags_named(&call->flags, bytes_str(name), &t);
    if (value.len > 0 || !cli_flag_changed(t, flag)) return CLI_OK;
    return cli_fail(em, CLI_BAD_ARGS, "empty string is passed to --%s option", name);
}

static int check_tls_flags(struct ctl *ctl, struct cli_call *call, struct errmsg *em)
{
    const struct ctl_globals *g = &ctl->globals;
    int status = refuse_empty(call, "cert", g->cert, em);
    if (status == CLI_OK) status = refuse_empty(call, "key", g->key, em);
    if (status == CLI_OK) status = refuse_empty(call, "cacert", g->cacert, em);
    return status;
}

static int check_readable(struct bytes path, struct errmsg *em)
{
    struct buf content;
    buf_init(&content, &os_heap, PEM_BYTES_MAX);
    int rc = path.len == 0 ? 0 : file_read_all(os_disk(), cli_text(path), &content, em);
    buf_deinit(&content);
    if (rc == E_NOENT) {
        return cli_fail(em, CLI_BAD_ARGS, "open %s: no such file or directory", cli_text(path));
    }
    return rc < 0 ? (int)CLI_BAD_ARGS : CLI_OK;
}

/* Whether TLS is asked for, which this client does not speak. Its files are looked at first, as mistakes there have an exit
 * code of their own. */
static int check_tls(const struct ctl *ctl, struct errmsg *em)
{
    const struct ctl_globals *g = &ctl->globals;
    if ((g->cert.len > 0) != (g->key.len > 0)) {
        return cli_fail(em, CLI_BAD_ARGS,
                        "KeyFile and CertFile must both be present[key: %s, cert: %s]",
                        cli_text(g->key), cli_text(g->cert));
    }
    int status = check_readable(g->cert, em);
    if (status == CLI_OK) status = check_readable(g->key, em);
    if (status == CLI_OK) status = check_readable(g->cacert, em);
    if (status != CLI_OK) return status;
    bool wanted = g->cert.len > 0 || g->cacert.len > 0 || g->insecure_skip_verify ||
                  !g->insecure_transport;
    if (!wanted) return CLI_OK;
    return cli_fail(em, CLI_BAD_CONNECTION, "TLS is not available in this version");
}

/* --- credentials ----------------------------------------------------------------------------------------- */

static int ask_password(struct ctl *ctl, struct bytes *out, struct errmsg *em)
{
    struct alloc alloc = arena_alloc(&ctl->arena);
    struct buf line;
    buf_init(&line, &alloc, LINE_BYTES_MAX);
    cli_put(&ctl->out, "Password: ");
    (void)cli_out_flush(&ctl->out);
    int rc = tty_read_secret(STDIN_FILENO, &line);
    cli_put(&ctl->out, "\n");
    if (rc == 0) rc = buf_put_u8(&line, 0);
    if (rc < 0) return fail_rc(em, rc);
    *out = trim(bytes_of(line.data, line.len - 1));
    return CLI_OK;
}

/* A copy with a zero behind it. */
static const char *copy_text(struct ctl *ctl, struct bytes s)
{
    return (const char *)arena_copy(&ctl->arena, s).data;
}

int ctl_credentials(struct ctl *ctl, struct errmsg *em)
{
    const struct ctl_globals *g = &ctl->globals;
    ctl->user = NULL;
    if (g->token.len > 0 || g->user.len == 0) return CLI_OK;
    struct bytes user = g->user;
    struct bytes password = g->password;
    const uint8_t *colon = memchr(user.data, ':', user.len);
    if (password.len == 0 && colon != NULL) {
        password = bytes_of(colon + 1, user.len - (size_t)(colon - user.data) - 1);
        user.len = (size_t)(colon - user.data);
    } else if (password.len == 0) {
        int status = ask_password(ctl, &password, em);
        if (status != CLI_OK) return status;
    }
    ctl->user = copy_text(ctl, user);
    ctl->password = copy_text(ctl, password);
    return ctl->user == NULL || ctl->password == NULL ? fail_rc(em, E_NOMEM) : CLI_OK;
}

/* --- settings ---------------------------------------------------------------------------------------------- */

int ctl_settings(struct ctl *ctl, struct cli_call *call, struct errmsg *em)
{
    const struct ctl_globals *g = &ctl->globals;
    int status = apply_environment(ctl, call, em);
    if (status != CLI_OK) return status;
    struct cli_table *t = NULL;
    const struct cli_flag *timeout =
        cli_flags_named(&call->flags, bytes_str("command-timeout"), &t);
    ctl->timeout_given = cli_flag_changed(t, timeout);
    if (g->debug) show_settings(ctl, call);
    if (g->discovery_srv.len > 0)
        return cli_fail(em, CLI_ERROR,
                        "discovery of endpoints by DNS is not available in this version");
    status = trim_endpoints(ctl, em);
    if (status == CLI_OK) status = check_tls_flags(ctl, call, em);
    if (status == CLI_OK) status = ctl_credentials(ctl, em);
    if (status != CLI_OK) return status;
    ctl->printer = (struct cli_printer){.out = &ctl->out, .hex = g->hex};
    if (cli_format_parse(g->write_out, &ctl->printer.format) < 0)
        return cli_fail(em, CLI_BAD_FEATURE, "unsupported output format");
    return CLI_OK;
}

static uint64_t at_least_zero(int64_t v)
{
    return v < 0 ? 0 : (uint64_t)v;
}

static uint32_t size_limit(int64_t v)
{
    return v <= 0 ? 0 : v > INT32_MAX ? INT32_MAX : (uint32_t)v;
}

int ctl_dial(const struct ctl *ctl, const struct cli_words *endpoints, struct client **out,
             struct errmsg *em)
{
    const struct ctl_globals *g = &ctl->globals;
    const char **texts =
        os_heap.resize(os_heap.arg, NULL, 0, (endpoints->count + 1) * sizeof *texts);
    int status = check_tls(ctl, em);
    if (status == CLI_OK && texts == NULL) status = fail_rc(em, E_NOMEM);
    if (status != CLI_OK) goto out;
    for (size_t i = 0; i < endpoints->count; i++)
        texts[i] = cli_text(endpoints->items[i]);
    struct client_opts o = {.endpoints = texts,
                            .endpoint_count = endpoints->count,
                            .user_agent = "etcd-ctl/" CTL_VERSION,
                            .token = g->token.len > 0 ? cli_text(g->token) : NULL,
                            .user = ctl->user,
                            .password = ctl->password,
                            .keepalive_time_ns = at_least_zero(g->keepalive_time_ns),
                            .keepalive_timeout_ns = at_least_zero(g->keepalive_timeout_ns),
                            .dial_timeout_ns = at_least_zero(g->dial_timeout_ns),
                            .send_bytes_max = size_limit(g->max_request_bytes),
                            .recv_bytes_max = size_limit(g->max_recv_bytes),
                            .alloc = &os_heap};
    struct client_status st = {GRPC_OK, ""};
    int rc = endpoints->count == 0 ? E_NOTFOUND : client_new(&o, out, em);
    if (endpoints->count == 0) {
        status = cli_fail(em, CLI_BAD_CONNECTION, "etcdclient: no available endpoints");
    } else if (rc < 0) {
        if (em->text[0] == '\0') errmsg_set(em, "%s", err_text(rc));
        status = CLI_BAD_CONNECTION;
    } else if (client_login(*out, &st) < 0) {
        client_status_text(&st, em->text, sizeof em->text);
        client_free(*out);
        *out = NULL;
        status = CLI_BAD_CONNECTION;
    }
out:
    alloc_free(&os_heap, texts, (endpoints->count + 1) * sizeof *texts);
    return status;
}

int ctl_connect(struct ctl *ctl, struct cli_call *call, struct errmsg *em)
{
    int status = ctl_settings(ctl, call, em);
    return status == CLI_OK ? ctl_dial(ctl, &ctl->globals.endpoints, &ctl->client, em) : status;
}

/* --- calls ------------------------------------------------------------------------------------------------ */

static int unpack(const struct ctl_rpc *rpc, struct bytes in, struct arena *arena,
                  ProtobufCMessage **answer, struct errmsg *em)
{
    const struct pb_unpack_opts opts = {.bounds = &pb_bounds_own, .alias = true};
    return pb_unpack_opts(rpc->answer, in, &opts, arena, answer, em);
}

int ctl_call(const struct ctl *ctl, struct client *c, const struct ctl_rpc *rpc,
             const ProtobufCMessage *request, struct arena *arena, ProtobufCMessage **answer,
             struct errmsg *em, int *rc)
{
    struct alloc alloc = arena_alloc(arena);
    struct client_status st = {GRPC_OK, ""};
    struct buf body;
    struct buf in;
    int result = 0;
    if (rc == NULL) rc = &result;
    bool timed = !rpc->no_timeout || ctl->timeout_given;
    int64_t timeout = timed ? ctl->globals.command_timeout_ns : 0;
    if (timed && timeout <= 0) {
        *rc = E_DEADLINE_EXCEEDED;
        return cli_fail(em, CLI_ERROR, "context deadline exceeded");
    }
    buf_init(&body, &alloc, SIZE_MAX / 2);
    buf_init(&in, &alloc, SIZE_MAX / 2);
    *rc = pb_pack(request, &body);
    struct client_request req = {.path = rpc->path,
                                 .body = buf_bytes(&body),
                                 .timeout_ns = (uint64_t)timeout,
                                 .read = rpc->read};
    if (*rc == 0) *rc = client_unary(c, &req, &in, &st);
    if (*rc < 0 && st.code != GRPC_OK) {
        client_status_text(&st, em->text, sizeof em->text);
        return CLI_ERROR;
    }
    if (*rc == 0) *rc = unpack(rpc, buf_bytes(&in), arena, answer, em);
    return *rc < 0 ? fail_rc(em, *rc) : CLI_OK;
}

/* --- input ------------------------------------------------------------------------------------------------ */

int ctl_read_input(struct ctl *ctl, struct bytes *out, struct errmsg *em)
{
    struct alloc alloc = arena_alloc(&ctl->arena);
    struct buf all;
    buf_init(&all, &alloc, SIZE_MAX / 2);
    int rc = file_read_fd(STDIN_FILENO, &all, em);
    *out = buf_bytes(&all);
    return rc < 0 ? fail_rc(em, rc) : CLI_OK;
}

void ctl_warn_range(struct ctl *ctl, struct bytes from, struct bytes to)
{
    cli_put(&ctl->err, "Warning: Keys between ");
    cli_put_quoted(&ctl->err, from);
    cli_put(&ctl->err, " and ");
    cli_put_quoted(&ctl->err, to);
    cli_put(&ctl->err, " will be deleted. Please interrupt the command within next 2 seconds to "
                       "cancel. You can provide `--range` flag to avoid the delay.\n");
    (void)cli_out_flush(&ctl->err);
    struct timespec left = {.tv_sec = GRACE_S};
    while (nanosleep(&left, &left) != 0)
        continue;
}

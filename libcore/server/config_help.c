/* The usage text, section by section in the order of the table. */
#include "base/buf.h"
#include "server/config.h"

static int put_section(struct buf *out, const char *section)
{
    int rc = buf_put_u8(out, '\n');
    if (rc == 0)
        rc = buf_put_u8(out,
                        (uint8_t)(section[0] - ('a' <= section[0] && section[0] <= 'z' ? 32 : 0)));
    if (rc == 0) rc = buf_put_str(out, section + 1);
    return rc == 0 ? buf_put_str(out, ":\n") : rc;
}

static int put_flag(struct buf *out, const struct config_flag *f)
{
    bool quoted = f->kind == CONFIG_STRING || f->kind == CONFIG_LIST || f->kind == CONFIG_URLS;
    int rc = quoted ? buf_printf(out, "  --%s '%s'\n", f->name, f->default_text)
                    : buf_printf(out, "  --%s %s\n", f->name, f->default_text);
    if (rc < 0) return rc;
    return buf_printf(out, "    %s%s\n", f->help,
                      f->default_only ? " Takes its default only, so far." : "");
}

int config_usage(struct buf *out)
{
    int rc = buf_put_str(
        out, "Usage:\n\n  etcd-server [flags]\n    Start a member.\n\n"
             "  etcd-server --version\n    Show the version.\n\n"
             "  etcd-server -h | --help\n    Show this help.\n\n"
             "  etcd-server --config-file FILE\n    Start with the settings of FILE only.\n\n"
             "Every flag NAME is also the environment variable ETCD_NAME, with - as _.\n");
    const char *section = "";
    for (int i = 0; i < CONFIG_COUNT && rc == 0; i++) {
        const struct config_flag *f = &config_flags()[i];
        if (strcmp(f->section, section) != 0) rc = put_section(out, f->section);
        section = f->section;
        if (rc == 0) rc = put_flag(out, f);
    }
    return rc;
}

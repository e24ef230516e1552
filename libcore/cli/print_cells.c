/* Rows of cells, for simple lines and tables alike: text in one buffer, made cell by cell. */
#include <string.h>

#include "base/err.h"
#include "cli/print_int.h"

void cells__init(struct cells *c, const struct alloc *alloc)
{
    buf_init(&c->text, alloc, SIZE_MAX / 2);
    buf_init(&c->ends, alloc, SIZE_MAX / 2);
}

static void cells_deinit(struct cells *c)
{
    buf_deinit(&c->text);
    buf_deinit(&c->ends);
}

int cells__end(struct cells *c, int rc)
{
    return rc < 0 ? rc : buf_put(&c->ends, &c->text.len, sizeof c->text.len);
}

int cells__text(struct cells *c, const char *text)
{
    return cells__end(c, buf_put_str(&c->text, text));
}

int cells__span(struct cells *c, struct bytes text)
{
    return cells__end(c, buf_put_bytes(&c->text, text));
}

int cells__uint(struct cells *c, uint64_t v)
{
    return cells__end(c, buf_printf(&c->text, "%llu", (unsigned long long)v));
}

int cells__int(struct cells *c, int64_t v)
{
    return cells__end(c, buf_printf(&c->text, "%lld", (long long)v));
}

int cells__hex(struct cells *c, uint64_t v)
{
    return cells__end(c, buf_printf(&c->text, "%llx", (unsigned long long)v));
}

int cells__size(struct cells *c, int64_t v)
{
    char text[CLI_SIZE_BYTES_MAX];
    cli_size_text((uint64_t)v, text);
    return cells__text(c, text);
}

int cells__bool(struct cells *c, bool v)
{
    return cells__text(c, v ? "true" : "false");
}

int cells__joined(struct cells *c, char *const *texts, size_t count, const char *between)
{
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = i == 0 ? 0 : buf_put_str(&c->text, between);
        if (rc == 0) rc = buf_put_str(&c->text, texts[i]);
    }
    return cells__end(c, rc);
}

static struct bytes cell_at(const struct cells *c, size_t i)
{
    size_t ends[2] = {0, 0};
    if (i > 0) memcpy(&ends[0], c->ends.data + (i - 1) * sizeof *ends, sizeof *ends);
    memcpy(&ends[1], c->ends.data + i * sizeof *ends, sizeof *ends);
    return bytes_of(c->text.data + ends[0], ends[1] - ends[0]);
}

static int show_table(struct cli_printer *p, struct cells *c, const char *const *headings,
                      size_t columns)
{
    size_t count = c->ends.len / sizeof(size_t);
    struct bytes *spans = alloc_zero(c->text.alloc, (count + 1) * sizeof *spans);
    if (spans == NULL) return E_NOMEM;
    for (size_t i = 0; i < count; i++)
        spans[i] = cell_at(c, i);
    cli_print_table(p->out, headings, columns, spans, count / columns);
    alloc_free(c->text.alloc, spans, (count + 1) * sizeof *spans);
    return 0;
}

int cells__show(struct cli_printer *p, struct cells *c, const char *const *headings, size_t columns,
                int rc, struct errmsg *em)
{
    size_t count = c->ends.len / sizeof(size_t);
    if (rc == 0 && p->format == CLI_TABLE) {
        rc = show_table(p, c, headings, columns);
    } else if (rc == 0) {
        for (size_t i = 0; i < count; i++) {
            cli_put_bytes(p->out, cell_at(c, i));
            cli_put(p->out, (i + 1) % columns == 0 ? "\n" : ", ");
        }
    }
    cells_deinit(c);
    return rc == 0 ? CLI_OK : cli_fail(em, CLI_ERROR, "%s", err_text(rc));
}

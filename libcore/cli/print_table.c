/* Tables in frames of box-drawing lines. */
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "cli/print.h"

enum { COLUMNS_MAX = 16 };

/* Columns on a terminal; every character counts as one. */
static size_t width_of(struct bytes s)
{
    size_t width = 0;
    for (size_t i = 0; i < s.len; width++) {
        size_t size = 1;
        (void)text_rune(bytes_of(s.data + i, s.len - i), &size);
        i += size;
    }
    return width;
}

static void repeat(struct cli_out *o, const char *text, size_t n)
{
    while (n-- > 0)
        cli_put(o, text);
}

static void put_line(struct cli_out *o, const char *left, const char *middle, const char *right,
                     const size_t *widths, size_t count)
{
    for (size_t c = 0; c < count; c++) {
        cli_put(o, c == 0 ? left : middle);
        repeat(o, "─", widths[c] + 2);
    }
    cli_put(o, right);
    cli_put(o, "\n");
}

/* Headings are centred, an odd blank goes to the right. */
static void put_headings(struct cli_out *o, const char *const *headings, const size_t *widths,
                         size_t count)
{
    for (size_t c = 0; c < count; c++) {
        size_t blanks = widths[c] - strlen(headings[c]);
        cli_put(o, "│ ");
        repeat(o, " ", blanks / 2);
        cli_put(o, headings[c]);
        repeat(o, " ", blanks - blanks / 2 + 1);
    }
    cli_put(o, "│\n");
}

static void put_cells(struct cli_out *o, const struct bytes *cells, const size_t *widths,
                      size_t count)
{
    for (size_t c = 0; c < count; c++) {
        cli_put(o, "│ ");
        repeat(o, " ", widths[c] - width_of(cells[c]));
        cli_put_bytes(o, cells[c]);
        cli_put(o, " ");
    }
    cli_put(o, "│\n");
}

void cli_print_table(struct cli_out *o, const char *const *headings, size_t column_count,
                     const struct bytes *cells, size_t row_count)
{
    size_t widths[COLUMNS_MAX] = {0};
    ASSERT(column_count <= COLUMNS_MAX);
    for (size_t c = 0; c < column_count; c++) {
        widths[c] = strlen(headings[c]);
        for (size_t r = 0; r < row_count; r++) {
            size_t w = width_of(cells[r * column_count + c]);
            if (w > widths[c]) widths[c] = w;
        }
    }
    put_line(o, "┌", "┬", "┐", widths, column_count);
    put_headings(o, headings, widths, column_count);
    put_line(o, "├", "┼", "┤", widths, column_count);
    for (size_t r = 0; r < row_count; r++)
        put_cells(o, cells + r * column_count, widths, column_count);
    put_line(o, "└", "┴", "┘", widths, column_count);
}

#include "base/table.h"

#include "base/bug.h"

#include <string.h>

#define GAP 2u            /* blanks between two columns */
#define LEAST_WRAPPED 12u /* a wrapped column does not get narrower */

void pen_table_init(struct pen_table *table, const struct pen_column *columns,
                    size_t num_columns)
{
    PEN_BUG_UNLESS(num_columns > 0 && num_columns <= PEN_TABLE_COLUMNS_MAX);
    *table = (struct pen_table){.columns = columns,
                                .num_columns = num_columns,
                                .cells = PEN_TEXT_EMPTY};
}

void pen_table_release(struct pen_table *table)
{
    pen_text_release(&table->cells);
}

void pen_table_add(struct pen_table *table, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pen_text_add_list(&table->cells, format, args);
    va_end(args);
    pen_text_add_bytes(&table->cells, "", 1);
    table->num_cells++;
}

/* Letters of the first `length` bytes: those that begin a UTF-8 sequence. */
static size_t count_letters(const char *bytes, size_t length)
{
    size_t letters = 0;
    for (size_t i = 0; i < length; i++)
        letters += ((unsigned char)bytes[i] & 0xC0) != 0x80;
    return letters;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void measure(const struct pen_table *table, size_t *widths)
{
    for (size_t c = 0; c < table->num_columns; c++) {
        const char *title = table->columns[c].title;
        widths[c] = count_letters(title, strlen(title));
    }
    const char *cell = table->cells.bytes;
    for (size_t i = 0; i < table->num_cells; i++) {
        size_t length = strlen(cell);
        size_t *width = &widths[i % table->num_columns];
        *width = larger(*width, count_letters(cell, length));
        cell += length + 1;
    }
}

/* Takes letters from the widest column that may wrap until the page fits. */
static void narrow(const struct pen_table *table, size_t page, size_t *widths)
{
    size_t total = GAP * (table->num_columns - 1);
    for (size_t c = 0; c < table->num_columns; c++)
        total += widths[c];
    while (total > page) {
        size_t widest = table->num_columns;
        for (size_t c = 0; c < table->num_columns; c++) {
            if (table->columns[c].may_wrap && widths[c] > LEAST_WRAPPED &&
                (widest == table->num_columns || widths[c] > widths[widest]))
                widest = c;
        }
        if (widest == table->num_columns)
            return;
        widths[widest]--;
        total--;
    }
}

/*
 * Returns the bytes of the cell that fit on this line: up to the last blank
 * that fits, or the whole first word when not even that fits.
 */
static size_t line_length(const char *cell, size_t width)
{
    size_t fits = 0;
    for (size_t at = 0;; at++) {
        if (cell[at] != ' ' && cell[at] != '\0')
            continue;
        if (fits > 0 && count_letters(cell, at) > width)
            return fits;
        fits = at;
        if (cell[at] == '\0')
            return fits;
    }
}

/*
 * Prints one line of a row, and advances the cells. False when all of them have
 * ended.
 */
static bool print_line(const struct pen_table *table, const size_t *widths,
                       const char **cells, struct pen_text *out)
{
    size_t owed = 0; /* blanks, left out at the end of the line */
    bool has_more = false;
    for (size_t c = 0; c < table->num_columns; c++) {
        size_t length = table->columns[c].may_wrap
                            ? line_length(cells[c], widths[c])
                            : strlen(cells[c]);
        size_t letters = count_letters(cells[c], length);
        size_t pad = widths[c] > letters ? widths[c] - letters : 0;
        if (table->columns[c].is_number)
            owed += pad;
        if (length > 0) {
            pen_text_add_repeat(out, ' ', owed);
            pen_text_add_bytes(out, cells[c], length);
            owed = 0;
        }
        owed += GAP + (table->columns[c].is_number ? 0 : pad);
        cells[c] += length;
        while (*cells[c] == ' ')
            cells[c]++;
        has_more = has_more || *cells[c] != '\0';
    }
    pen_text_add_string(out, "\n");
    return has_more;
}

static void print_row(const struct pen_table *table, const size_t *widths,
                      const char **cells, struct pen_text *out)
{
    while (print_line(table, widths, cells, out))
        continue;
}

static void print_head(const struct pen_table *table, const size_t *widths,
                       struct pen_text *out)
{
    const char *titles[PEN_TABLE_COLUMNS_MAX];
    for (size_t c = 0; c < table->num_columns; c++)
        titles[c] = table->columns[c].title;
    print_row(table, widths, titles, out);
    for (size_t c = 0; c < table->num_columns; c++) {
        pen_text_add_repeat(out, ' ', c > 0 ? GAP : 0);
        pen_text_add_repeat(out, '-', widths[c]);
    }
    pen_text_add_string(out, "\n");
}

void pen_table_print(const struct pen_table *table, size_t width,
                     struct pen_text *out)
{
    PEN_BUG_UNLESS(table->num_cells % table->num_columns == 0);
    if (table->cells.has_failed) { /* some cells are not there */
        out->has_failed = 1;
        return;
    }
    size_t widths[PEN_TABLE_COLUMNS_MAX];
    measure(table, widths);
    if (width > 0)
        narrow(table, width, widths);
    print_head(table, widths, out);
    const char *cell = table->cells.bytes;
    const char *cells[PEN_TABLE_COLUMNS_MAX];
    for (size_t i = 0; i < table->num_cells; i++) {
        cells[i % table->num_columns] = cell;
        cell += strlen(cell) + 1;
        if ((i + 1) % table->num_columns == 0)
            print_row(table, widths, cells, out);
    }
}

#ifndef PEN_BASE_TABLE_H
#define PEN_BASE_TABLE_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Aligned tables for people. Cells are added row by row; the widths follow
 * from the cells. A column that may wrap gives way when the table would be
 * wider than the page: its words continue on the next line.
 *
 *   schedule  span  needs
 *   --------  ----  ------------
 *   zb-h1       27  at least p
 *                   micro-batches
 */

struct pen_column {
    const char *title; /* borrowed until the table is released */
    bool is_number;    /* aligned to the right of its column */
    bool may_wrap;
};

#define PEN_TABLE_COLUMNS_MAX 16

struct pen_table {
    const struct pen_column *columns; /* borrowed */
    size_t num_columns;
    struct pen_text cells; /* all cells, each ended by a NUL */
    size_t num_cells;
};

void pen_table_init(struct pen_table *table, const struct pen_column *columns,
                    size_t num_columns);
void pen_table_release(struct pen_table *table);

/* Adds the next cell, one line of UTF-8; a row ends when it is full. */
void pen_table_add(struct pen_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Prints a line of titles, a rule and the rows, which must be full. `width` is
 * that of the page in letters; 0: as wide as it gets, one line per row.
 */
void pen_table_print(const struct pen_table *table, size_t width,
                     struct pen_text *out);

#endif

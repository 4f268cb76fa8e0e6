#ifndef PEN_CLI_PLAN_DEVICES_H
#define PEN_CLI_PLAN_DEVICES_H

#include "base/table.h"
#include "cli/plan/print.h"

/*
 * For several numbers of devices the fastest plan, with its energy and cost, to
 * be compared with the chosen plan: is it worth using more devices?
 */
#define PEN__DEVICE_ROWS 10u

struct pen__device_rows {
    const struct pen_plan_found *rows[PEN__DEVICE_ROWS + 2]; /* most first */
    uint32_t count;
};

/* Makes the rows of a report, each number of devices and step once. */
void pen__device_rows(const struct pen__plan_report *report,
                      struct pen__device_rows *out);

/*
 * Returns whether the rows belong into every answer: a plan with fewer devices
 * takes up to a quarter longer, or saves a tenth of energy or price; or they
 * were asked for.
 */
bool pen__device_rows_matter(const struct pen__plan_report *report,
                             const struct pen__device_rows *rows);

/* Adds the words for what a row is best: "time, cost"; "" for nothing. */
void pen__device_row_merits(const struct pen__device_rows *rows, uint32_t row,
                            struct pen_text *out);

/* Makes the table; release it. */
void pen__device_table(const struct pen__plan_report *report,
                       const struct pen__device_rows *rows,
                       struct pen_table *out);

#endif

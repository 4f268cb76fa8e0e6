#ifndef PEN_CLI_REPORT_H
#define PEN_CLI_REPORT_H

#include "cli/report/run.h"
#include "cli/view/chart_bars.h"

/* Parts of penstock report. Columns of a table are few, and so are runs. */
#define PEN__REPORT_MAX_RUNS ((size_t)12)

/* All runs of a report; borrowed. */
struct pen__report {
    const struct pen__report_run *runs;
    size_t count;
};

/* Prints a page for the browser. */
pen_status pen__report_html(const struct pen__report *report,
                            struct pen_text *out, struct pen_text *why);

/* Prints for the terminal, `width` letters wide; 0: no limit. */
void pen__report_print(const struct pen__report *report, size_t width,
                       struct pen_text *out);

/* Makes the JSON; NULL when memory runs out; drop it with json_decref(). */
json_t *pen__report_json(const struct pen__report *report);

/* ---- tables; release them ---- */

/* Makes the table with one row per run. */
void pen__report_compare_table(const struct pen__report *report,
                               struct pen_table *out);

/*
 * Makes the table of notable findings; with the names of the runs if there are
 * several.
 */
void pen__report_advice_table(const struct pen__report *report,
                              struct pen_table *out);

/* Makes the table of events that interrupted the runs. */
void pen__report_fault_table(const struct pen__report *report,
                             struct pen_table *out);

/* Rounds between islands, of runs that have them. */
void pen__report_round_table(const struct pen__report *report,
                             struct pen_table *out);

/*
 * Makes the table of parts that are missing, and the option that would have
 * recorded each.
 */
void pen__report_missing_table(const struct pen__report *report,
                               struct pen_table *out);

/* Operations of a traced step by kind. */
void pen__report_kind_table(const struct pen_spent *spent,
                            struct pen_table *out);

/*
 * Makes a table of the settings of all runs, a column for each, or only of
 * those that differ. Columns is room for their names and must live as long as
 * the table. False when memory runs out.
 */
bool pen__report_settings_table(
    const struct pen__report *report, bool only_different,
    struct pen_column columns[PEN__REPORT_MAX_RUNS + 1], struct pen_table *out);

/* ---- charts; false when memory runs out; then, too, release ---- */

/* Makes bars of the seconds of the traced step, one for each rank. */
bool pen__report_spent_bars(const struct pen_spent *spent,
                            struct pen__chart_bars *out);

/* Makes bars of the peak of each rank, with its prediction as the limit. */
bool pen__report_memory_bars(const struct pen_run_ranks *ranks,
                             struct pen__chart_bars *out);

/* Loss and speed of all runs over their steps. */
struct pen__report_curves {
    struct pen_report_curves charts[2];
    size_t num_charts; /* that have something to show */
    struct pen_report_curve curves[4 * PEN__REPORT_MAX_RUNS];
    struct pen_text names[4 * PEN__REPORT_MAX_RUNS];
    double *values[PEN__REPORT_MAX_RUNS]; /* of all curves of a run */
    double *faults[PEN__REPORT_MAX_RUNS]; /* of the marks on its loss */
};

bool pen__report_curves_init(struct pen__report_curves *curves,
                             const struct pen__report *report);
void pen__report_curves_release(struct pen__report_curves *curves);

/* ---- figures in words ---- */

/* Milliseconds below a second. */
void pen__add_seconds(struct pen_text *out, double sec);
/* Adds "812.5 MB" or "12.31 GB". */
void pen__add_bytes(struct pen_text *out, uint64_t bytes);

#endif

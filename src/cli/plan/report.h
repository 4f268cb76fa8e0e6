#ifndef PEN_CLI_PLAN_REPORT_H
#define PEN_CLI_PLAN_REPORT_H

#include "cli/plan/print.h"
#include "cli/view/chart_bars.h"

/*
 * Makes the report of `penstock plan --html`: the results as tables, charts and
 * a picture of the step. plan_path is where the plan is written, for the
 * commands in the report; NULL: nowhere yet.
 */
pen_status pen__plan_report_html(const struct pen__plan_report *report,
                                 const char *plan_path, struct pen_text *out,
                                 struct pen_text *why);

/* ---- parts of it ---- */

/*
 * Make one table each: the question, the best plan, the ranking, memory, plans
 * that differ in one setting, and what would help. Release them.
 */
void pen__plan_asked_table(const struct pen__plan_report *report,
                           struct pen_table *out);
void pen__plan_best_table(const struct pen__plan_report *report,
                          struct pen_table *out);
void pen__plan_ranking_table(const struct pen_plan_ranking *ranking,
                             double best_sec, struct pen_table *out);
void pen__plan_memory_table(const struct pen_prediction *prediction,
                            struct pen_table *out);
void pen__plan_neighbour_table(const struct pen__plan_report *report,
                               struct pen_table *out);
void pen__plan_help_table(const struct pen__plan_report *report,
                          struct pen_table *out);

/*
 * Make bars of the seconds of the plans of a ranking, or of the memory of the
 * ranks of one. False when memory runs out; then, too, release.
 */
bool pen__plan_spent_bars(const struct pen_plan_ranking *ranking,
                          struct pen__chart_bars *out);
bool pen__plan_memory_bars(const struct pen_setting *setting,
                           const struct pen_plan_found *found,
                           struct pen__chart_bars *out);

/* Time against memory: the plans that none beats in both, and the others. */
struct pen__plan_front {
    struct pen_report_scatter chart; /* points into what follows */
    struct pen_report_series series[2];
    struct pen_report_point *points; /* owned, as the notes */
    struct pen_text *notes;
    size_t num_points;
    size_t num_front; /* of them, the first ones */
    char (*labels)[16];
};

/* Prepares the front. False when memory runs out; then, too, release. */
bool pen__plan_front_init(const struct pen__plan_report *report,
                          struct pen__plan_front *out);
void pen__plan_front_release(struct pen__plan_front *front);

/* One step of a plan as a picture. */
struct pen__plan_picture {
    struct pen_picture_item item;  /* of what follows */
    struct pen_schedule *schedule; /* owned; NULL: there is none */
    struct pen_timing *timing;     /* owned */
    struct pen_text note;          /* what is not drawn, or why nothing is */
};

/*
 * Makes a picture, with fewer micro-batches for long steps. Release in any
 * case.
 */
void pen__plan_picture_init(const struct pen_setting *setting,
                            const struct pen_plan_found *found,
                            struct pen__plan_picture *out);
void pen__plan_picture_release(struct pen__plan_picture *picture);

/* Adds "2 devices" or "1 device". */
void pen__add_counted(struct pen_text *out, uint64_t count, const char *noun);

#endif

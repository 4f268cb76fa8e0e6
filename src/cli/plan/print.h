#ifndef PEN_CLI_PLAN_PRINT_H
#define PEN_CLI_PLAN_PRINT_H

#include "cli/plan/options.h"
#include "planner/explain.h"
#include "planner/replica_plan.h"

/* The results of `penstock plan`; those not asked for are NULL. */
struct pen__plan_report {
    const struct pen__planning *planning;
    const struct pen_plan_ranking *ranking;
    const struct pen_plan_ranking *front;
    const struct pen_plan_ranking *devices; /* by time, with fewer devices */
    const struct pen_explanation *explanation;
    const struct pen_replica_plan *replicas; /* with what is between them */
    const struct pen_replica_comparison *sync;
    const char *sync_reason; /* why there is none; NULL: not asked for */
    enum pen_objective objective;
    double tolerance; /* of --within */
    double tokens;    /* of --tokens; 0: not given */
    bool allows_stale;
};

/* Tables for people, and the same as JSON (NULL: no memory). */
void pen__plan_report_print(const struct pen__plan_report *report,
                            struct pen_text *out);
json_t *pen__plan_report_json(const struct pen__plan_report *report);

/*
 * Makes the JSON of model, cluster, target, number format and batch; NULL: no
 * memory.
 */
json_t *pen__plan_question_json(const struct pen__planning *planning);

/* Prints "the step is limited by computing". */
void pen__plan_print_limit(const struct pen_explanation *explanation,
                           struct pen_text *out);

/* Returns whether a plan of its tables has the schedule. */
bool pen__plan_has_schedule(const struct pen_plan_ranking *ranking,
                            const struct pen_generator *generator);

/* Prints the question in a line, and an empty one. */
void pen__plan_print_head(const struct pen__planning *planning,
                          struct pen_text *out);

/* Prints one plan with its whole prediction. */
void pen__plan_print(const struct pen_plan *plan,
                     const struct pen_prediction *prediction,
                     struct pen_text *out);
/*
 * Print the days and device-hours of a training of this many tokens; 0:
 * nothing.
 */
void pen__plan_print_run(const struct pen_plan *plan,
                         const struct pen_prediction *prediction, double tokens,
                         struct pen_text *out);
json_t *pen__plan_json(const struct pen_plan *plan,
                       const struct pen_prediction *prediction);

/*
 * Makes the same JSON with the question, and with "run" unless the tokens are
 * 0.
 */
json_t *pen__plan_json_with_run(const struct pen__planning *planning,
                                const struct pen_plan *plan,
                                const struct pen_prediction *prediction,
                                double tokens);

/*
 * Finds the ranks of the pipeline that hold the same bytes: *count of them from
 * `first` on.
 */
uint32_t pen__plan_same_ranks(const struct pen_prediction *prediction,
                              uint32_t first);

#endif

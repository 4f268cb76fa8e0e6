#ifndef PEN_CLI_PLAN_FAILURES_H
#define PEN_CLI_PLAN_FAILURES_H

#include "cli/plan/options.h"

/*
 * The goodput of a plan that fails, with one number of devices or several, as
 * tables, JSON and a picture.
 */

#define PEN__FAILURES_MAX_ROWS 16u

struct pen__failures {
    const char *rate_text; /* as it was given; borrowed */
    struct pen_failure_rate rate;
    struct pen_recovery_wish wish;
    struct pen_recovery rows[PEN__FAILURES_MAX_ROWS];
    bool fits[PEN__FAILURES_MAX_ROWS];
    uint32_t num_rows;
};

/* Whether the output is a picture of goodput, not a plan. */
bool pen__failures_are_drawn(const struct pen__plan_args *args);

/* The plan is predicted; it is the same afterwards. */
pen_status pen__failures_find(const struct pen__plan_args *args,
                              const struct pen__planning *planning,
                              struct pen_plan *plan,
                              const struct pen_prediction *prediction,
                              struct pen__failures *out, struct pen_text *why);

void pen__failures_print(const struct pen__failures *failures,
                         struct pen_text *out);
json_t *pen__failures_json(const struct pen__failures *failures);
pen_status pen__failures_draw(const struct pen__failures *failures,
                              const struct pen__planning *planning,
                              const char *path, struct pen_text *why);

#endif

#ifndef PEN_CLI_PLAN_FAILURES_H
#define PEN_CLI_PLAN_FAILURES_H

#include "cli/plan/options.h"

/*
 * The goodput of plans that fail, as tables, JSON and a picture: of one plan on
 * one number of devices or several, or of the plans of a ranking.
 */

struct pen__failure_row {
    struct pen_recovery recovery;
    double tokens_per_sec; /* without failures */
    bool fits;
};

struct pen__failures {
    const char *rate_text; /* as it was given; borrowed */
    struct pen_failure_rate rate;
    struct pen_recovery_wish wish;
    struct pen__failure_row *rows; /* owned */
    uint32_t num_rows;
    /*
     * For a ranking: the way by which it is ordered, and the best spares of the
     * first plan.
     */
    bool is_ranking;
    enum pen_recovery_way way;
    uint32_t spares;
    struct pen_goodput spared; /* goodput with them */
};

void pen__failures_release(struct pen__failures *failures);

/* Returns whether the output is a picture of goodput, not a plan. */
bool pen__failures_are_drawn(const struct pen__plan_args *args);

/* Orders the ranking by tokens that stay: the speed times the goodput of the
 * way. Release in any case. */
pen_status pen__failures_rank(const struct pen__plan_args *args,
                              const struct pen__planning *planning,
                              struct pen_plan_ranking *ranking,
                              struct pen__failures *out, struct pen_text *why);

/*
 * Finds the failures of a predicted plan, which is the same afterwards. Release
 * in any case.
 */
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

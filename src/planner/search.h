#ifndef PEN_PLANNER_SEARCH_H
#define PEN_PLANNER_SEARCH_H

#include "planner/candidate.h"
#include "planner/objective.h"

/*
 * The best plans of a setting. Candidates are taken in the order of the value
 * that they can reach at best; those that may still win are timed. The first
 * plan to come out is therefore the best of all, unless the work was cut short.
 */

struct pen_plan_search_options {
    struct pen_candidate_filter filter;
    enum pen_objective objective; /* what the best plan has least of */
    /*
     * With a tolerance, as 0.05, the first plan is the one with the fewest
     * devices whose value is at most so much above the best; 0: the best.
     */
    double within;
    uint32_t num_fewer; /* rows of the table of fewer devices, at most */
    /*
     * The table has only plans within a quarter of the best value, unless one
     * may save a tenth of the energy or the price.
     */
    bool has_near_only;
    uint32_t top;     /* plans that are wanted; at least 1 */
    double seconds;   /* of work, counted as below, then it answers; 0: any */
    uint64_t max_ops; /* of schedules that are timed; 0: any number */
};

struct pen_plan_found {
    struct pen_candidate candidate;
    struct pen_plan *plan; /* without names, with its prediction */
    struct pen_prediction prediction;
    double value;      /* of the objective */
    bool is_cut_short; /* the search ended before it had looked at all */
};

struct pen_plan_search_counts {
    uint64_t listed;    /* choices of degrees, micro-batch, recomputation */
    uint64_t too_large; /* with schedule, chunks, sharding: seen at once */
    uint64_t bounded;   /* those that may fit */
    uint64_t unfit;     /* of those: more memory than there is */
    uint64_t refused;   /* their schedule cannot be generated so */
    uint64_t timed;
    uint64_t left_out;    /* not looked at before the work was cut short */
    double least_left;    /* no plan that was left out has a lower value */
    uint64_t least_bytes; /* the fullest device of the leanest candidate */
    /*
     * Seconds of work, counted and not measured: the same on every machine and
     * under every load, about those of a core of 2024.
     */
    double first_sec; /* until the first plan was timed */
    double seconds;   /* in all */
};

struct pen_plan_ranking {
    struct pen_plan_found *found; /* best first */
    uint32_t num_found; /* at most `top`, and one that `within` chose */
    double best_value;  /* of all; that of the first unless `within` is set */
    /*
     * With fewer devices than the best, each the best of at most as many as it
     * has: of all numbers up to eight, above of three quarters, a half, three
     * eighths and so on of the cluster, in whole nodes. Each has fewer devices
     * than the one before it.
     */
    struct pen_plan_found *fewer;
    uint32_t num_fewer;
    bool is_complete; /* nothing was left out that could be better */
    struct pen_plan_search_counts counts;
};

/*
 * On success *out is owned by the caller; free it with pen_plan_ranking_free().
 * INFEASIBLE when no candidate fits: why says what the leanest one needs.
 */
pen_status pen_plan_search(const struct pen_setting *setting,
                           const struct pen_plan_search_options *options,
                           struct pen_plan_ranking **out, struct pen_text *why);
void pen_plan_ranking_free(struct pen_plan_ranking *ranking);

/*
 * Plans of which none is both slower and larger than another: each is the best
 * that fits into less memory than the one before it had. The first is `first`,
 * which pen_plan_search() found; NULL: it is searched for. There are at most
 * `top`.
 */
pen_status pen_plan_search_front(const struct pen_setting *setting,
                                 const struct pen_plan_search_options *options,
                                 const struct pen_plan_found *first,
                                 struct pen_plan_ranking **out,
                                 struct pen_text *why);

#endif

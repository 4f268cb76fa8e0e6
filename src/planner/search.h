#ifndef PEN_PLANNER_SEARCH_H
#define PEN_PLANNER_SEARCH_H

#include "planner/candidate.h"

/*
 * The best plans of a setting. Candidates are taken in the order of what they
 * can reach at best; those that may still win are timed. What comes out first
 * is therefore the best of all, unless the work was cut short.
 */

struct pen_plan_search_options {
    struct pen_candidate_filter filter;
    uint32_t top;     /* plans that are wanted; at least 1 */
    double seconds;   /* of computing, after which it answers; 0: none */
    uint64_t max_ops; /* of schedules that are timed; 0: any number */
};

struct pen_plan_found {
    struct pen_candidate candidate;
    struct pen_plan *plan; /* without names, with its prediction */
    struct pen_prediction prediction;
};

struct pen_plan_search_counts {
    uint64_t listed;    /* choices of degrees, micro-batch, recomputation */
    uint64_t too_large; /* with schedule, chunks, sharding: seen at once */
    uint64_t bounded;   /* those that may fit */
    uint64_t unfit;     /* of those: more memory than there is */
    uint64_t refused;   /* their schedule cannot be generated so */
    uint64_t timed;
    uint64_t left_out;     /* not looked at before the work was cut short */
    double least_left_sec; /* no plan that was left out is quicker */
    uint64_t least_bytes;  /* the fullest device of the leanest candidate */
    double first_sec;      /* until the first plan was timed */
    double seconds;        /* in all */
};

struct pen_plan_ranking {
    struct pen_plan_found *found; /* best first */
    uint32_t num_found;
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
 * that fits into less memory than the one before it had. The first is that of
 * pen_plan_search(); there are at most `top`.
 */
pen_status pen_plan_search_front(const struct pen_setting *setting,
                                 const struct pen_plan_search_options *options,
                                 struct pen_plan_ranking **out,
                                 struct pen_text *why);

/*
 * The best plans of fewer devices than `used`: of at most three quarters, a
 * half, three eighths and so on of the cluster, whole nodes where there are
 * some, as long as the model fits; at most `top`. Each has fewer devices than
 * the one before it.
 */
pen_status pen_plan_search_fewer(const struct pen_setting *setting,
                                 const struct pen_plan_search_options *options,
                                 uint64_t used, struct pen_plan_ranking **out,
                                 struct pen_text *why);

#endif

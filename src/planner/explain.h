#ifndef PEN_PLANNER_EXPLAIN_H
#define PEN_PLANNER_EXPLAIN_H

#include "planner/search.h"

/*
 * Why a plan and not another one: each neighbour, which differs in one choice,
 * with the rule that it breaks or what it costs; what the step of the plan is
 * made of; and what would help.
 */

struct pen_neighbour {
    const char *choice; /* that differs: "tp", "schedule"; a constant */
    struct pen_candidate candidate;
    bool is_allowed;   /* else the reason says which rule it breaks */
    bool is_predicted; /* some that break a rule are, too: what they'd save */
    bool fits;
    double step_sec;
    uint64_t peak_bytes;
    struct pen_text reason; /* of a rule, or of too little memory */
};

/* One thing made twice as large or fast, or an option. */
struct pen_help {
    char what[PEN_CLUSTER_WORD_SIZE + 32]; /* "memory", "--graphs modules" */
    double tokens_per_sec;
    struct pen_candidate candidate; /* the best plan then */
    bool is_cut_short;              /* there may be a better one */
};

#define PEN_EXPLANATION_MAX_HELPS (PEN_CLUSTER_MAX_LEVELS + 3u)
#define PEN_EXPLANATION_MAX_OPTIONS 4u

struct pen_explanation {
    struct pen_neighbour *neighbours;
    uint32_t num_neighbours;
    struct pen_help helps[PEN_EXPLANATION_MAX_HELPS]; /* the best first */
    uint32_t num_helps;
    /* Options of the recipe that make it faster, each alone; best first. */
    struct pen_help options[PEN_EXPLANATION_MAX_OPTIONS];
    uint32_t num_options;
    enum pen_spending limit; /* what most of the step goes into */
    const char *limit_link;  /* the links of it; NULL: none */
    double stale_sec; /* what asynchronous schedules could save at most */
    double local_sec; /* what rare synchronisation could */
};

/*
 * Explains a plan that a search with this filter found. `seconds` of work are
 * for each of the searches that find out what helps; 0: those are left out.
 *
 * On success *out is owned by the caller; free it with pen_explanation_free().
 * Names in it are borrowed from the setting.
 */
pen_status pen_explain(const struct pen_setting *setting,
                       const struct pen_candidate_filter *filter,
                       const struct pen_plan_found *found, double seconds,
                       struct pen_explanation **out, struct pen_text *why);
void pen_explanation_free(struct pen_explanation *explanation);

#endif

#ifndef PEN_PLANNER_PIPER_H
#define PEN_PLANNER_PIPER_H

#include "base/status.h"
#include "base/text.h"
#include "graph/piper_profile.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Piper's planning (Tarnawski et al., NeurIPS 2021): stages of a graph, each
 * with its degrees of tensor and data parallelism and a mode for every node, so
 * that the slowest stage takes as little time per micro-batch as it can and all
 * fit in memory.
 */

struct pen_piper_problem {
    const struct pen_piper_profile *profile;
    uint32_t most_ideals; /* 0: 100,000 */
    uint64_t most_pairs;  /* of ideals that are looked at; 0: four million */
};

struct pen_piper_stage {
    uint32_t tensor_degree;
    uint32_t data_degree;
    uint32_t num_in_flight; /* micro-batches on their way */
    double stage_sec;       /* per micro-batch */
    double bytes;           /* of one device */
};

struct pen_piper_plan {
    double stage_sec;     /* of the slowest stage */
    const char *left_out; /* NULL: nothing, the plan is the optimum */
    uint32_t num_stages;
    struct pen_piper_stage *stages;
    uint32_t *node_stages; /* per node */
    uint32_t *node_modes;  /* per node: which of its modes */
};

/*
 * INFEASIBLE when nothing fits in memory. Where the graph has too many
 * downward-closed sets its nodes are cut in one fixed order; where a choice of
 * modes has too many combinations the best that was met is taken; left_out says
 * so. On success *out is owned by the caller; free it with
 * pen_piper_plan_free().
 */
pen_status pen_piper_solve(const struct pen_piper_problem *problem,
                           struct pen_piper_plan **out, struct pen_text *why);
void pen_piper_plan_free(struct pen_piper_plan *plan);

#endif

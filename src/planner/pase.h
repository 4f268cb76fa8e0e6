#ifndef PEN_PLANNER_PASE_H
#define PEN_PLANNER_PASE_H

#include "base/status.h"
#include "base/text.h"
#include "graph/split_graph.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Each layer is cut on its own, such that a step takes as little time as it can
 * (PaSE: Elango, IPDPS 2021, arXiv 2407.04001). Two simpler ways are here, too:
 * replicas of all layers, and one grid of rows x columns for all of them
 * (Gholami et al., SPAA 2018, arXiv 1712.04432).
 */

/* How many parts each dimension of a layer has; their product divides the
 * number of devices. */
struct pen_pase_split {
    uint32_t parts[PEN_SPLIT_MAX_DIMS];
};

struct pen_pase_problem {
    const struct pen_split_graph *graph;
    uint64_t most_steps; /* of the innermost loop; 0: four billion */
};

struct pen_pase_plan {
    double step_sec;
    double data_parallel_sec; /* the first dimension of each layer is cut */
    double grid_sec;          /* of the best grid */
    uint32_t grid_rows;       /* parts of the last dimension */
    uint32_t grid_columns;    /* parts of the first one */
    uint32_t most_dependent;  /* layers that a table depends on, at most */
    uint32_t most_splits;     /* ways to cut a layer, at most */
    struct pen_pase_split *splits; /* (num_nodes) */
    double *node_sec;              /* (num_nodes), with what each layer reads */
};

/*
 * The optimum. INFEASIBLE where the dependent layers of the graph would make
 * the tables too large. On success *out is owned by the caller; free it with
 * pen_pase_plan_free().
 */
pen_status pen_pase_solve(const struct pen_pase_problem *problem,
                          struct pen_pase_plan **out, struct pen_text *why);
void pen_pase_plan_free(struct pen_pase_plan *plan);

/*
 * Seconds of a layer: its computing, the sums of its outputs, gradients and
 * weights, and the transfers of what it reads.
 */
double pen_pase_node_sec(const struct pen_split_graph *graph,
                         const struct pen_pase_split *splits, uint32_t node);

/* Seconds of a step: the sum over all layers. */
double pen_pase_step_sec(const struct pen_split_graph *graph,
                         const struct pen_pase_split *splits);

#endif

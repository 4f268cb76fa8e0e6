#ifndef PEN_PLANNER_MAX_LOAD_H
#define PEN_PLANNER_MAX_LOAD_H

#include "base/status.h"
#include "base/text.h"
#include "graph/placement_graph.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Places a network on devices and CPUs so that the most loaded one has as
 * little to do as it can (Tarnawski et al., NeurIPS 2020). A device computes
 * and pays for the outputs that it sends or receives, each once; a CPU only
 * computes. The nodes of a device are contiguous in the forward pass, so that
 * devices form a pipeline; backward nodes follow the color of forward ones.
 */

struct pen_max_load_problem {
    const struct pen_placement_graph *graph;
    uint32_t most_ideals; /* 0: a million */
    uint64_t most_pairs;  /* of ideals that are looked at; 0: two billion */
};

struct pen_max_load_stage {
    bool is_cpu;
    double load;
    double bytes;
};

struct pen_max_load_plan {
    double load;
    double bound; /* no placement has less; the load where it is exact */
    const char *left_out; /* NULL: nothing; else why load may exceed bound */
    uint32_t num_ideals;  /* 0 where they were too many */
    uint64_t num_pairs;
    uint32_t num_stages;
    struct pen_max_load_stage *stages;
    uint32_t *node_stages; /* per node of the graph */
};

/*
 * The optimum. Where the graph has too many downward-closed sets, the optimum
 * with all nodes in one fixed order instead, and left_out says so.
 *
 * Nodes that cost nothing and have one neighbour stay with it, as in the
 * program of the paper; no placement is lost by it but through memory.
 *
 * INFEASIBLE when no placement keeps the limits of memory. On success *out is
 * owned by the caller; free it with pen_max_load_plan_free().
 */
pen_status pen_max_load_solve(const struct pen_max_load_problem *problem,
                              struct pen_max_load_plan **out,
                              struct pen_text *why);
void pen_max_load_plan_free(struct pen_max_load_plan *plan);

/*
 * The load of a placement, for example of an expert: node i is on device
 * places[i], or on the CPU where that is num_devices. Colors, order and memory
 * are not looked at.
 */
double pen_max_load_of(const struct pen_placement_graph *graph,
                       const uint32_t *places);

#endif

#ifndef PEN_PLANNER_PASE_COST_H
#define PEN_PLANNER_PASE_COST_H

#include "planner/pase.h"

/* Seconds of a node's computing and sums, with what it reads of itself. */
double pen__pase_inner_sec(const struct pen_split_graph *graph, uint32_t node,
                           const struct pen_pase_split *split);

/* Transfers of one input, forward and backward. */
double pen__pase_transfer_sec(const struct pen_split_graph *graph,
                              uint32_t node,
                              const struct pen_split_input *input,
                              const struct pen_pase_split *from,
                              const struct pen_pase_split *split);

#endif

#ifndef PEN_PLANNER_PARTITION_H
#define PEN_PLANNER_PARTITION_H

#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

/*
 * Cuts a chain of layers into parts that follow each other, none of them empty,
 * so that the most expensive part is as cheap as it can be: a pipeline runs at
 * the pace of its slowest stage.
 */

#define PEN_PARTITION_MAX_LAYERS 65536u

struct pen_partition_problem {
    const double *costs; /* per layer; finite, not negative */
    uint32_t num_layers;
    uint32_t num_parts;
    const uint64_t *bytes;  /* per layer; NULL: nothing is limited */
    const uint64_t *limits; /* per part: most bytes of its layers */
};

/*
 * Sets counts[0] to counts[num_parts - 1], the layers of each part.
 *
 * Among all cuts with the least maximum, this is one with the least sum of
 * squares: the other parts are as even as they can be. Among the cuts that
 * remain, earlier parts have as few layers as possible, for they hold more
 * micro-batches at a time. Costs count in units of 2^-30 of their sum, so that
 * equal layers are equal; costs that differ by a unit per layer count as equal.
 *
 * INFEASIBLE when no cut keeps the limits, INVALID when there are fewer layers
 * than parts or more than PEN_PARTITION_MAX_LAYERS.
 */
pen_status pen_partition(const struct pen_partition_problem *problem,
                         uint32_t *counts, struct pen_text *why);

#endif

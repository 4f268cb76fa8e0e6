#ifndef PEN_PLANNER_CHAIN_CUT_H
#define PEN_PLANNER_CHAIN_CUT_H

#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

/*
 * As pen_partition(), for chains that are long or whose parts lie on unequal
 * devices: the same layer may take another time in each part.
 */
struct pen__chain_cut {
    uint32_t num_layers;
    uint32_t num_parts;
    const double *sums;   /* rows of num_layers + 1: seconds of layers before */
    const uint32_t *rows; /* per part: the row of its device */
    const double *bytes;  /* bytes of layers before; NULL: no limits */
    const double *limits; /* per part: most bytes of its layers */
};

/*
 * Sets counts[0] to counts[num_parts - 1]. The slowest part is as quick as it
 * can be, to 1e-9 of it; the others are about as even as they can be. Each part
 * has a layer at least. INFEASIBLE when no cut keeps the limits. Where layers
 * times parts is more than 2^18, layers stay together in pieces, and the cut is
 * the best of those between pieces, to 1e-3.
 */
pen_status pen__chain_cut(const struct pen__chain_cut *chain, uint32_t *counts,
                          struct pen_text *why);

#endif

#ifndef PEN_PLANNER_RELAX_H
#define PEN_PLANNER_RELAX_H

#include "planner/search.h"

/*
 * Recomputation on some stages only. The first stages of a pipeline hold the
 * most micro-batches, so the last ones may have room for all they keep; they
 * then take more layers.
 *
 *   rank 0   full   5 layers          rank 0   full   4 layers
 *   rank 1   full   5 layers    ->    rank 1   none   6 layers
 *
 * Penstock's own trainer runs such plans; other targets have one mode for all
 * stages.
 */

/*
 * Gives each plan of a ranking that recomputes everywhere the quickest such
 * mix that fits, if it is quicker, and sorts the ranking again. Plans of
 * other targets stay as they are.
 */
void pen_plan_ranking_relax(const struct pen_setting *setting,
                            const struct pen_plan_search_options *options,
                            struct pen_plan_ranking *ranking);

#endif

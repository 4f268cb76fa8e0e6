#ifndef PEN_PLANNER_MODULE_SETS_H
#define PEN_PLANNER_MODULE_SETS_H

#include "planner/predict.h"

/*
 * Sets of modules that selective recomputation may compute again. Modules join
 * in the order of bytes freed per second of computing:
 *
 *   {layernorm, moe_act}  {layernorm, mla_up_proj, moe_act}  {..., moe}
 *
 * so each set frees more than the one before it and takes longer.
 */

#define PEN__MOST_MODULE_SETS 4u

struct pen__module_sets {
    unsigned items[PEN__MOST_MODULE_SETS]; /* bits, as modules of a recipe */
    uint32_t count;
};

/*
 * The sets of modules that a search tries for this recipe: its own modules
 * alone where it has some, or where the target has no choice of modules; none
 * where nothing would be freed.
 */
void pen__module_sets_find(const struct pen_setting *setting,
                           const struct pen_recipe *recipe,
                           struct pen__module_sets *out);

#endif

#ifndef PEN_CORE_PLAN_RECIPE_H
#define PEN_CORE_PLAN_RECIPE_H

#include "core/plan.h"

/*
 * Whether a plan's recipe and its expert degrees go together with the rest of
 * it. The degrees and the stages are right.
 */
pen_status pen__plan_check_recipe(const struct pen_plan *plan,
                                  struct pen_text *why);

#endif

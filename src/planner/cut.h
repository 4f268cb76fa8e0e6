#ifndef PEN_PLANNER_CUT_H
#define PEN_PLANNER_CUT_H

#include "planner/predict.h"

/*
 * Cuts the layers of the setting's model into the stages of a plan whose
 * degrees, micro-batch, sharding and schedule are set: the slowest stage is as
 * quick as it can be on the devices that the stages lie on. All stages get this
 * mode of recomputation.
 */
pen_status pen_cut(const struct pen_setting *setting, struct pen_plan *plan,
                   enum pen_recompute recompute, struct pen_text *why);

/*
 * Cuts again a plan that was predicted and did not fit: no rank gets more
 * layers than that prediction has room for. INFEASIBLE when there is no such
 * cut; the plan is then as it was.
 */
pen_status pen_cut_to_fit(const struct pen_setting *setting,
                          struct pen_plan *plan,
                          const struct pen_prediction *predicted,
                          struct pen_text *why);

/*
 * Cuts again with the mode of recomputation that each stage has: stages that
 * recompute less get more layers.
 */
pen_status pen_cut_by_stage(const struct pen_setting *setting,
                            struct pen_plan *plan, struct pen_text *why);

#endif

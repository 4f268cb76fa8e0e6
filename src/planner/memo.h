#ifndef PEN_PLANNER_MEMO_H
#define PEN_PLANNER_MEMO_H

#include "planner/predict.h"

/*
 * Layers that were predicted before, and cuts that were made before. Most
 * candidates of a search differ in schedule, chunks, sharding or dp, which
 * neither a layer nor an even cut depends on.
 *
 * A memo belongs to one setting: make a new one when anything of it changes.
 */
struct pen__memo *pen__memo_create(void); /* NULL: no memory */
void pen__memo_free(struct pen__memo *memo);

/* As pen_predict_layer(), from the memo of the setting if there is one. */
void pen__layer_recall(const struct pen_setting *setting,
                       const struct pen_plan *plan, uint32_t group,
                       uint32_t index, enum pen_recompute recompute,
                       struct pen_layer_time *time,
                       struct pen_layer_bytes *bytes);

/*
 * The layers of each stage of the plan as they were kept for a plan with the
 * same layers and as many stages; NULL: none were. Borrowed until the next
 * pen__cut_keep().
 */
const uint16_t *pen__cut_recall(const struct pen_setting *setting,
                                const struct pen_plan *plan,
                                enum pen_recompute recompute);
void pen__cut_keep(const struct pen_setting *setting,
                   const struct pen_plan *plan, enum pen_recompute recompute);

#endif

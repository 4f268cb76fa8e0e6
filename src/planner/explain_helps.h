#ifndef PEN_PLANNER_EXPLAIN_HELPS_H
#define PEN_PLANNER_EXPLAIN_HELPS_H

#include "planner/explain.h"

/* Fills in `helps` and `options`: each is a search of these seconds of work. */
void pen__helps_find(const struct pen_setting *setting,
                     const struct pen_candidate_filter *filter,
                     const struct pen_plan_found *found, double seconds,
                     struct pen_explanation *out);

#endif

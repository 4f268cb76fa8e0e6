#ifndef PEN_PLANNER_INTERVAL_H
#define PEN_PLANNER_INTERVAL_H

#include "planner/predict.h"

/*
 * The interval in which 9 of 10 steps of a prediction lie. It was calibrated
 * with rows that may be fitted, by constants that were fitted without the group
 * of each row (bench/fit_constants --leave-out); docs/accuracy.md has the
 * result on the other rows.
 */

/* Sets low_sec, high_sec and step_error of a prediction whose step_sec is
 * known; is_measured: by a profile of the machine. */
void pen__interval_set(const struct pen_setting *setting,
                       const struct pen_plan *plan,
                       const struct pen_device *device, bool is_measured,
                       struct pen_prediction *prediction);

#endif

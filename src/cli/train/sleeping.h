#ifndef PEN_CLI_TRAIN_SLEEPING_H
#define PEN_CLI_TRAIN_SLEEPING_H

#include "cli/train/layout.h"
#include "planner/compute.h"

/*
 * Seconds and messages of tensor-parallel ranks whose operations only wait:
 * they wait for what they would compute and send what they would send. The
 * costs of the layout have the seconds of messages too, so they are counted
 * again here. `compute` has a profile unless sleep_ns > 0.
 */
pen_status pen__train_sleeping_set(struct pen__train_layout *layout,
                                   const struct pen_compute *compute,
                                   int64_t sleep_ns, struct pen_text *why);

/* Every operation of every stage takes as long as it sleeps. */
pen_status pen__train_sleeping_costs(const struct pen_shape *shape,
                                     int64_t sleep_ns, struct pen_costs *out);

void pen__train_sleeping_release(struct pen__train_layout *layout);

#endif

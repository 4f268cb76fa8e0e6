#ifndef PEN_PLANNER_SWARM_PLACE_H
#define PEN_PLANNER_SWARM_PLACE_H

#include "planner/swarm.h"

/* Where the peers of a swarm begin, which are lost, and the bound of its pace;
 * inside of planner/. */

struct pen__swarm_loss {
    double sec;
    uint32_t peer;
};

/* The stage of each peer: the fastest first, each to the slowest stage. */
void pen__swarm_place(const struct pen_swarm_job *job, uint32_t *stages);

/* Which peers are lost, and when: at even distances of the time that all steps
 * take at least without losses. */
void pen__swarm_draw_losses(const struct pen_swarm_job *job, uint64_t seed,
                            struct pen__swarm_loss *losses);

/* Seconds of all steps if peers shared all work as they like. */
double pen__swarm_bound(const struct pen_swarm_job *job,
                        const struct pen__swarm_loss *losses);

#endif

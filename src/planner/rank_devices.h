#ifndef PEN_PLANNER_RANK_DEVICES_H
#define PEN_PLANNER_RANK_DEVICES_H

#include "planner/predict.h"

/*
 * Which devices ranks run on. They are taken in the order of the cluster, rank
 * by rank of the pipeline; the ranks of one pipeline rank lie side by side.
 */
struct pen__rank_devices {
    uint32_t slowest;      /* of their kinds: a group of the cluster */
    uint64_t memory_bytes; /* that all of them offer, within the limit */
};

/* The devices from `first` on, `count` of them. */
struct pen__rank_devices pen__devices_from(const struct pen_setting *setting,
                                           uint64_t first, uint64_t count);

/* The peaks of `count` devices from the first on, together. */
double pen__devices_peak(const struct pen_setting *setting, uint64_t count);

/* The devices of one rank of the pipeline of a plan. */
struct pen__rank_devices pen__devices_of(const struct pen_setting *setting,
                                         const struct pen_plan *plan,
                                         uint32_t rank);

#endif

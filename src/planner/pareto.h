#ifndef PEN_PLANNER_PARETO_H
#define PEN_PLANNER_PARETO_H

#include <stdint.h>

/* What a plan costs in two ways, neither of which buys the other. */
struct pen_pareto_point {
    double time_sec;
    double bytes;
    uint32_t label; /* the caller's */
};

/*
 * Keeps the points that no other beats: none is both as fast and as small, and
 * one of the two better. Returns how many; they stand first, by time. Of equal
 * points the one with the lowest label stays.
 */
uint32_t pen_pareto_reduce(struct pen_pareto_point *points, uint32_t count);

#endif

#ifndef PEN_PLANNER_ENERGY_H
#define PEN_PLANNER_ENERGY_H

#include "planner/objective.h"

/*
 * The cost of a step in joules and money. A device takes its watts while it
 * computes and its idle watts for the rest of the step: bubbles, messages that
 * are not hidden, and work that no formula counts. Devices that the plan leaves
 * out take nothing.
 */

/* Watts and price of devices at all times, whether they compute or not. */
struct pen__rates {
    double idle_watts;     /* 0: of one of them the watts are not known */
    double price_per_hour; /* 0: of one of them it is not known */
};

/* The rates of the first `count` devices of the cluster, together. */
struct pen__rates pen__rates_of(const struct pen_cluster *cluster,
                                uint64_t count);

/* Joules and price of a step in which no device computes: step_sec is set. */
void pen__energy_start(const struct pen_setting *setting,
                       const struct pen_plan *plan,
                       struct pen_prediction *prediction);

/* Adds the seconds in which the devices of one pipeline rank compute. */
void pen__energy_add(const struct pen_setting *setting,
                     const struct pen_plan *plan, uint32_t rank,
                     double busy_sec, struct pen_prediction *prediction);

/*
 * A value that no plan can beat that takes `devices` devices and at least
 * `seconds`. Its computing takes at least busy_joules, above waiting.
 */
double pen__objective_floor(enum pen_objective objective,
                            const struct pen_cluster *cluster, uint64_t devices,
                            double seconds, double busy_joules);

#endif

#ifndef PEN_CLI_PLAN_CELLS_H
#define PEN_CLI_PLAN_CELLS_H

#include "base/table.h"
#include "planner/explain.h"

/* Cells that tables for the terminal and for reports have in common. */

double pen__gib(uint64_t bytes);

/*
 * Returns "tokens", or "samples" where a sequence is one: images. A constant.
 */
const char *pen__plan_unit(uint32_t sequence);

/* Time, devices and energy that a plan needs for one sample. */
struct pen__plan_spent {
    double samples_per_sec;
    double tokens_per_device; /* a second, as the next two; of images samples */
    double flops_per_device;  /* without recomputation */
    double peak_per_device;   /* of the plan's numbers; the mean of kinds */
    double device_sec_per_sample;
    double busy_share;        /* of the devices' seconds: computing */
    double watts;             /* of all devices, the mean of a step; 0: not */
    double joules_per_sample; /* known, and so here */
    double price_per_sample;
};

struct pen__plan_spent pen__plan_spent(const struct pen_plan *plan,
                                       const struct pen_prediction *prediction);

/* Time and cost of a training on that many tokens. */
struct pen__plan_run {
    double days;
    double device_hours;
    double price; /* 0: not known, and so here */
    double kwh;
};

struct pen__plan_run pen__plan_run(const struct pen_plan *plan,
                                   const struct pen_prediction *prediction,
                                   double tokens);

/* Adds "15 trillion tokens: 2,546 days, 3,911,000 device-hours ...". */
void pen__plan_add_run(const struct pen_plan *plan,
                       const struct pen_prediction *prediction, double tokens,
                       struct pen_text *out);

/* Prints "5,220 J a sample at 40,100 W; 1,450 kWh for 1 billion tokens". */
void pen__plan_print_energy(const struct pen__plan_spent *spent,
                            double joules_per_billion, const char *unit,
                            struct pen_text *out);

/* The columns of a layout, and its cells. */
#define PEN__PLAN_LAYOUT_COLUMNS                                               \
    {"tp", true, false}, {"cp", true, false}, {"pp", true, false},             \
        {"vpp", true, false}, {"ep", true, false}, {"dp", true, false},        \
        {"batch", true, false}, {"schedule", false, false},                    \
        {"recompute", false, false},                                           \
    {                                                                          \
        "sharding", false, false                                               \
    }
void pen__plan_add_layout(const struct pen_plan *plan, struct pen_table *out);

/* Stages at the beginning of a plan that have the recomputation of the first.
 */
uint32_t pen__plan_recomputed(const struct pen_plan *plan);

/* Adds "zero3", or "zero3/8" in groups of 8 replicas. */
void pen__plan_add_sharding(const struct pen_plan *plan, struct pen_table *out);

/*
 * Adds "none", "full", the modules that are recomputed, or "full, 3 of 4
 * stages".
 */
void pen__plan_add_recompute(const struct pen_plan *plan,
                             struct pen_table *out);

/*
 * Adds the ranks that hold the same bytes, devices, the parts of memory, their
 * sum.
 */
void pen__plan_add_memory(const struct pen_prediction *prediction,
                          struct pen_table *out);

/*
 * Adds the changed setting, its layout, and the milliseconds and GiB that it
 * costs.
 */
void pen__plan_add_neighbour(const struct pen_neighbour *other,
                             const struct pen_prediction *best,
                             struct pen_table *out);

#endif

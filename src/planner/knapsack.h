#ifndef PEN_PLANNER_KNAPSACK_H
#define PEN_PLANNER_KNAPSACK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * One choice for each item, so that the costs are least and the sizes fit: for
 * example which nodes of a stage recompute.
 */
struct pen_knapsack_choice {
    double cost;
    double size;
};

struct pen_knapsack {
    const struct pen_knapsack_choice *choices; /* item by item */
    const uint32_t *begins;                    /* (num_items + 1), into it */
    uint32_t num_items;
    double capacity;
    uint64_t most_steps; /* of the search */
};

/* What the search needs per item; held by the caller, (num_items + 1). */
struct pen_knapsack_room {
    uint32_t pick; /* the result: a choice, counted from the item's first */
    uint32_t tried;
    uint32_t next;
    double cost;
    double size;
    double rest_cost;
    double rest_size;
    double rest_least_size;
    double rest_rate;
};

/*
 * The least cost, or INFINITY when nothing fits; room[i].pick is the choice of
 * item i. *is_exact becomes false when the search was cut short: the cost is
 * that of a choice that fits, but there may be a better one.
 */
double pen_knapsack_solve(const struct pen_knapsack *knapsack,
                          struct pen_knapsack_room *room, bool *is_exact);

#endif

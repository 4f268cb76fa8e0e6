#ifndef PEN_PLANNER_KNAPSACK_H
#define PEN_PLANNER_KNAPSACK_H

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

/*
 * Memory that the search needs per item; held by the caller, (num_items + 1).
 */
struct pen_knapsack_room {
    uint32_t pick; /* the result: a choice, counted from the item's first */
    /* The rest is of the search, which has items in an order of its own. */
    uint32_t item;
    uint32_t best;
    uint32_t tried;
    uint32_t next;
    double rate;   /* at which the item gives up size for cost, at best */
    double saving; /* most size that it can give up */
    double cost;
    double size;
    double rest_cost;
    double rest_size;
};

/*
 * The least cost, or INFINITY when nothing fits; room[i].pick is the choice of
 * item i. *bound is what no choice that fits can be below: the cost itself,
 * unless the search was cut short and there may be a better one.
 */
double pen_knapsack_solve(const struct pen_knapsack *knapsack,
                          struct pen_knapsack_room *room, double *bound);

#endif

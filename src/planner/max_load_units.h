#ifndef PEN_PLANNER_MAX_LOAD_UNITS_H
#define PEN_PLANNER_MAX_LOAD_UNITS_H

#include "graph/placement_graph.h"

/*
 * The smallest things that can be placed separately: the nodes of one color,
 * forward and backward, or of several colors that run before each other in a
 * circle.
 */
struct pen__unit {
    double device_cost;
    double cpu_cost;
    double bytes;
    bool runs_on_devices;
};

/*
 * A net is an output with all units that touch it: the one that makes it and
 * those that read it. A device with some of them but not all pays its cost.
 */
struct pen__units {
    uint32_t count;
    uint32_t *of_node;       /* per node of the placement graph */
    struct pen__unit *units; /* (count) */
    struct pen_graph graph;  /* of units, by the forward pass */
    uint32_t num_nets;
    double *net_costs;
    uint32_t *net_sizes;  /* units of a net, 2 at least */
    uint32_t *nets_begin; /* (count + 1), into nets: those of a unit */
    uint32_t *nets;
};

pen_status pen__units_init(struct pen__units *units,
                           const struct pen_placement_graph *graph,
                           struct pen_text *why);
void pen__units_release(struct pen__units *units);

#endif

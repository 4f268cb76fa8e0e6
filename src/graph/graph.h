#ifndef PEN_GRAPH_GRAPH_H
#define PEN_GRAPH_GRAPH_H

#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

/*
 * A directed graph without cycles, over nodes 0 to num_nodes - 1: its edges say
 * which node runs before which. Files of other projects that describe a network
 * as a graph become one of these and a table of their own.
 */

#define PEN_GRAPH_MAX_NODES 65536u
#define PEN_GRAPH_MAX_EDGES 1048576u

struct pen_edge {
    uint32_t from;
    uint32_t to;
};

struct pen_graph {
    uint32_t num_nodes;
    uint32_t num_edges;
    uint32_t *out_begin; /* (num_nodes + 1), into out */
    uint32_t *out;       /* (num_edges), heads in the order of the edges */
    uint32_t *in_begin;
    uint32_t *in;
    uint32_t *order; /* (num_nodes), every node after those it depends on */
};

/*
 * Makes a graph with a copy of the edges. `order` follows a branch to its end
 * before it takes the next one, so that nodes of one branch are neighbours.
 *
 * INVALID when an end is not a node, or when a node runs before itself.
 */
pen_status pen_graph_init(struct pen_graph *graph, uint32_t num_nodes,
                          const struct pen_edge *edges, uint32_t num_edges,
                          struct pen_text *why);
void pen_graph_release(struct pen_graph *graph);

#endif

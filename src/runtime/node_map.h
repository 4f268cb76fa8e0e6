#ifndef PEN_RUNTIME_NODE_MAP_H
#define PEN_RUNTIME_NODE_MAP_H

#include "runtime/transport.h"

/* Which ranks share a node. Nodes are numbered by their first rank. */
struct pen_node_map {
    uint32_t num_ranks;
    uint32_t num_nodes;
    uint32_t own;    /* the node of this rank */
    uint32_t *nodes; /* by rank */
    uint32_t *first; /* into ranks, by node, and the end */
    uint32_t *ranks; /* of the first node, of the second ... */
};

/* By all ranks; `name` is below 2^48 and the same on all ranks of a node. */
pen_status pen_node_map_init(struct pen_node_map *map,
                             struct pen_transport *transport, uint64_t name);
void pen_node_map_release(struct pen_node_map *map);

/* Ranks of a node, and one of them for the i-th piece of work. */
uint32_t pen_node_map_count(const struct pen_node_map *map, uint32_t node);
uint32_t pen_node_map_pick(const struct pen_node_map *map, uint32_t node,
                           uint32_t i);

#endif

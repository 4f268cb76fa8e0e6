#ifndef PEN_GRAPH_PLACEMENT_GRAPH_H
#define PEN_GRAPH_PLACEMENT_GRAPH_H

#include "base/status.h"
#include "base/text.h"
#include "graph/graph.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A network to be placed on devices, as the files of dnn-partitioning have it
 * (Tarnawski et al., NeurIPS 2020). Read only; docs/formats.md has the keys.
 * Costs have the unit of the file.
 */

#define PEN_PLACEMENT_MAX_COST 1e15
#define PEN_PLACEMENT_MAX_BYTES 1e18
#define PEN_PLACEMENT_MAX_DEVICES 256u

struct pen_placement_node {
    uint32_t id;    /* in the file */
    uint32_t color; /* nodes with the same one go to the same device */
    bool is_backward;
    bool runs_on_devices; /* else on a CPU only */
    double device_cost;
    double cpu_cost;
    double bytes;         /* on a device */
    double transfer_cost; /* of its output, once for each device */
};

struct pen_placement_graph {
    double memory_bytes; /* of a device */
    uint32_t num_devices;
    uint32_t num_cpus;
    uint32_t num_colors;              /* colors are 0 to num_colors - 1 */
    struct pen_placement_node *nodes; /* (graph.num_nodes) */
    struct pen_graph graph;
};

/*
 * Loads a graph, strictly; a refusal names the key. On success *out is owned by
 * the caller; free it with pen_placement_graph_free().
 */
pen_status pen_placement_graph_load(const char *path,
                                    struct pen_placement_graph **out,
                                    struct pen_text *why);
pen_status pen_placement_graph_parse(const char *text, size_t length,
                                     struct pen_placement_graph **out,
                                     struct pen_text *why);
void pen_placement_graph_free(struct pen_placement_graph *graph);

#endif

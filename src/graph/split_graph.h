#ifndef PEN_GRAPH_SPLIT_GRAPH_H
#define PEN_GRAPH_SPLIT_GRAPH_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A network whose layers are cut among devices one by one: a layer is a loop
 * over its dimensions, and its tensors are indexed by some of them.
 * docs/formats.md has the keys of the file.
 */

#define PEN_SPLIT_MAX_NODES 1024u
#define PEN_SPLIT_MAX_DIMS 8u
#define PEN_SPLIT_MAX_INPUTS 16u
#define PEN_SPLIT_MAX_SIZE 16777216u
#define PEN_SPLIT_MAX_DEVICES 256u
#define PEN_SPLIT_NAME_SIZE 48u

struct pen_split_dim {
    char name[16];
    uint32_t size;
    bool is_whole; /* is never cut */
};

/*
 * Which indices of the tensor positions [from, to) of a dimension read:
 * [from * stride - shift, (to - 1) * stride + kernel - shift), as far as they
 * exist.
 */
struct pen_split_window {
    uint32_t stride;
    uint32_t kernel;
    uint32_t shift;
};

/*
 * The output of a node, as another one or itself reads it. Without a window a
 * dimension reads the same positions.
 */
struct pen_split_input {
    uint32_t from;                     /* an earlier node, or the node itself */
    double copies;                     /* tensors of this shape */
    uint32_t dims[PEN_SPLIT_MAX_DIMS]; /* one for each of that output */
    bool has_window[PEN_SPLIT_MAX_DIMS];
    struct pen_split_window windows[PEN_SPLIT_MAX_DIMS];
};

struct pen_split_node {
    char name[PEN_SPLIT_NAME_SIZE];
    uint32_t num_dims;
    struct pen_split_dim dims[PEN_SPLIT_MAX_DIMS];
    uint32_t num_output;
    uint32_t output[PEN_SPLIT_MAX_DIMS];
    uint32_t num_weight;
    uint32_t weight[PEN_SPLIT_MAX_DIMS];
    double flops; /* of the forward pass of the whole node */
    double weight_bytes;
    uint32_t num_inputs;
    struct pen_split_input inputs[PEN_SPLIT_MAX_INPUTS];
};

struct pen_split_graph {
    uint32_t num_devices;
    double flops_per_sec; /* of a device */
    double bytes_per_sec; /* into or out of a device */
    double element_bytes; /* of an element of an output */
    uint32_t num_nodes;
    struct pen_split_node *nodes;
};

/*
 * Parses a graph, strictly; a refusal names the key. On success *out is owned
 * by the caller; free it with pen_split_graph_free().
 */
pen_status pen_split_graph_parse(const char *text, size_t length,
                                 struct pen_split_graph **out,
                                 struct pen_text *why);
void pen_split_graph_free(struct pen_split_graph *graph);

#endif

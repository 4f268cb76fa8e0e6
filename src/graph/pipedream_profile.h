#ifndef PEN_GRAPH_PIPEDREAM_PROFILE_H
#define PEN_GRAPH_PIPEDREAM_PROFILE_H

#include "base/status.h"
#include "base/text.h"
#include "graph/graph.h"

#include <stddef.h>
#include <stdint.h>

/*
 * A profile as PipeDream's profiler writes it (graph.txt): one line per layer,
 * then one line per edge. Read only; docs/formats.md has the syntax.
 */

#define PEN_PIPEDREAM_MAX_MS 1e12
#define PEN_PIPEDREAM_MAX_BYTES 1e18
#define PEN_PIPEDREAM_NO_STAGE UINT32_MAX

struct pen_pipedream_node {
    const char *id;    /* "node12"; of the profile, as layer is */
    const char *layer; /* "ReLU(inplace)" */
    double forward_sec;
    double backward_sec;
    double activation_bytes; /* all outputs together */
    double parameter_bytes;
    uint32_t stage; /* PEN_PIPEDREAM_NO_STAGE where the line has none */
};

struct pen_pipedream_profile {
    struct pen_pipedream_node *nodes; /* (graph.num_nodes) */
    struct pen_graph graph;
    char *words; /* what the names point into */
};

/*
 * Loads a profile, strictly: a line that is neither a node nor an edge, a name
 * that occurs twice or not at all, and a cycle are refused, with the line. On
 * success *out is owned by the caller; free it with
 * pen_pipedream_profile_free().
 */
pen_status pen_pipedream_profile_load(const char *path,
                                      struct pen_pipedream_profile **out,
                                      struct pen_text *why);
pen_status pen_pipedream_profile_parse(const char *text, size_t length,
                                       struct pen_pipedream_profile **out,
                                       struct pen_text *why);
void pen_pipedream_profile_free(struct pen_pipedream_profile *profile);

#endif

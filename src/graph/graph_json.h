#ifndef PEN_GRAPH_GRAPH_JSON_H
#define PEN_GRAPH_GRAPH_JSON_H

#include "base/json.h"
#include "graph/graph.h"

/*
 * The common part of JSON files of other planners: "nodes", each with an "id",
 * and "edges", each from a "sourceId" to a "destId".
 */
struct pen__graph_json {
    const json_t *nodes; /* borrowed from the file */
    const json_t *edges;
    uint32_t num_nodes;
    uint32_t num_edges;
    uint32_t *ids;         /* (num_nodes), each of them once */
    struct pen_edge *ends; /* (num_edges), by number of node */
};

/* The limit of ids, and of other numbers that mean something. */
#define PEN__GRAPH_MAX_ID 0x7fffffffu

/* Reads a graph. On failure there is nothing to release. */
pen_status pen__graph_json_init(struct pen__graph_json *graph,
                                const struct pen_json *json,
                                struct pen_text *why);
void pen__graph_json_release(struct pen__graph_json *graph);

/* A number of a file and whose it is; sorted by number, then by owner. */
struct pen__named {
    uint32_t name;
    uint32_t node;
};

void pen__named_sort(struct pen__named *all, uint32_t count);

#endif

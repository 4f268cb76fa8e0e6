#include "graph/graph_json.h"

#include <stdlib.h>

static int by_name(const void *a, const void *b)
{
    const struct pen__named *x = a;
    const struct pen__named *y = b;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

void pen__named_sort(struct pen__named *all, uint32_t count)
{
    qsort(all, count, sizeof *all, by_name);
}

static pen_status read_ids(struct pen__graph_json *graph,
                           struct pen__named *sorted, struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < graph->num_nodes && status == PEN_OK; i++) {
        struct pen_json json;
        status = pen_json_open_entry(graph->nodes, "nodes", i, &json, why);
        if (status == PEN_OK)
            status = pen_json_read_integer(&json, "id", 0, PEN__GRAPH_MAX_ID,
                                           &graph->ids[i], why);
        sorted[i] = (struct pen__named){graph->ids[i], i};
    }
    if (status != PEN_OK)
        return status;
    pen__named_sort(sorted, graph->num_nodes);
    for (uint32_t i = 1; i < graph->num_nodes; i++) {
        if (sorted[i].name != sorted[i - 1].name)
            continue;
        pen_why(why, "nodes[%u] has the same id as nodes[%u]", sorted[i].node,
                sorted[i - 1].node);
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status read_end(const struct pen_json *json, const char *key,
                           const struct pen__named *sorted, uint32_t count,
                           uint32_t *out, struct pen_text *why)
{
    uint32_t id;
    pen_status status =
        pen_json_read_integer(json, key, 0, PEN__GRAPH_MAX_ID, &id, why);
    if (status != PEN_OK)
        return status;
    uint32_t low = 0;
    uint32_t high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sorted[middle].name < id)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == count || sorted[low].name != id) {
        pen_why(why, "%s%s is not the id of a node", json->path, key);
        return PEN_INVALID;
    }
    *out = sorted[low].node;
    return PEN_OK;
}

static pen_status read_ends(struct pen__graph_json *graph,
                            const struct pen__named *sorted,
                            struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < graph->num_edges && status == PEN_OK; i++) {
        struct pen_json json;
        status = pen_json_open_entry(graph->edges, "edges", i, &json, why);
        if (status == PEN_OK)
            status = read_end(&json, "sourceId", sorted, graph->num_nodes,
                              &graph->ends[i].from, why);
        if (status == PEN_OK)
            status = read_end(&json, "destId", sorted, graph->num_nodes,
                              &graph->ends[i].to, why);
    }
    return status;
}

pen_status pen__graph_json_init(struct pen__graph_json *graph,
                                const struct pen_json *json,
                                struct pen_text *why)
{
    const json_t *nodes = json_object_get(json->object, "nodes");
    const json_t *edges = json_object_get(json->object, "edges");
    size_t num_nodes = json_array_size(nodes);
    size_t num_edges = json_array_size(edges);
    if (num_nodes == 0 || num_nodes > PEN_GRAPH_MAX_NODES ||
        !json_is_array(edges) || num_edges > PEN_GRAPH_MAX_EDGES) {
        pen_why(why,
                "nodes must be a list of 1 to %u entries, edges a list of at "
                "most %u",
                PEN_GRAPH_MAX_NODES, PEN_GRAPH_MAX_EDGES);
        return PEN_INVALID;
    }
    *graph = (struct pen__graph_json){
        .nodes = nodes,
        .edges = edges,
        .num_nodes = (uint32_t)num_nodes,
        .num_edges = (uint32_t)num_edges,
        .ids = calloc(num_nodes, sizeof *graph->ids),
        .ends = calloc(num_edges + 1, sizeof *graph->ends)};
    struct pen__named *sorted = calloc(num_nodes, sizeof *sorted);
    pen_status status = PEN_NOMEM;
    if (graph->ids == NULL || graph->ends == NULL || sorted == NULL)
        pen_why(why, "no memory for %zu nodes", num_nodes);
    else
        status = read_ids(graph, sorted, why);
    if (status == PEN_OK)
        status = read_ends(graph, sorted, why);
    free(sorted);
    if (status != PEN_OK)
        pen__graph_json_release(graph);
    return status;
}

void pen__graph_json_release(struct pen__graph_json *graph)
{
    free(graph->ids);
    free(graph->ends);
}

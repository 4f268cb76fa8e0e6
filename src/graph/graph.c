#include "graph/graph.h"

#include <stdlib.h>

static pen_status check(uint32_t num_nodes, const struct pen_edge *edges,
                        uint32_t num_edges, struct pen_text *why)
{
    if (num_nodes > PEN_GRAPH_MAX_NODES || num_edges > PEN_GRAPH_MAX_EDGES) {
        pen_why(why, "%u nodes and %u edges are more than %u and %u", num_nodes,
                num_edges, PEN_GRAPH_MAX_NODES, PEN_GRAPH_MAX_EDGES);
        return PEN_INVALID;
    }
    for (uint32_t i = 0; i < num_edges; i++) {
        if (edges[i].from < num_nodes && edges[i].to < num_nodes)
            continue;
        pen_why(why, "edge %u from %u to %u names a node beyond the %u nodes",
                i, edges[i].from, edges[i].to, num_nodes);
        return PEN_INVALID;
    }
    return PEN_OK;
}

/*
 * Fills the lists: counts, adds up, places; then the ends of the lists are
 * moved back to their begin.
 */
static void fill_lists(struct pen_graph *graph, const struct pen_edge *edges)
{
    for (uint32_t i = 0; i < graph->num_edges; i++) {
        graph->out_begin[edges[i].from + 1]++;
        graph->in_begin[edges[i].to + 1]++;
    }
    for (uint32_t i = 0; i < graph->num_nodes; i++) {
        graph->out_begin[i + 1] += graph->out_begin[i];
        graph->in_begin[i + 1] += graph->in_begin[i];
    }
    for (uint32_t i = graph->num_edges; i-- > 0;) {
        graph->out[--graph->out_begin[edges[i].from + 1]] = edges[i].to;
        graph->in[--graph->in_begin[edges[i].to + 1]] = edges[i].from;
    }
    /* Each begin is one place too far now. */
    for (uint32_t i = 0; i < graph->num_nodes; i++) {
        graph->out_begin[i] = graph->out_begin[i + 1];
        graph->in_begin[i] = graph->in_begin[i + 1];
    }
    graph->out_begin[graph->num_nodes] = graph->num_edges;
    graph->in_begin[graph->num_nodes] = graph->num_edges;
}

static void push_ready(uint32_t *stack, uint32_t *height, uint32_t node)
{
    stack[(*height)++] = node;
}

/* Returns the number of nodes that found a place. */
static uint32_t fill_order(struct pen_graph *graph, uint32_t *waits,
                           uint32_t *stack)
{
    uint32_t height = 0;
    uint32_t placed = 0;
    for (uint32_t i = graph->num_nodes; i-- > 0;) {
        waits[i] = graph->in_begin[i + 1] - graph->in_begin[i];
        if (waits[i] == 0)
            push_ready(stack, &height, i);
    }
    while (height > 0) {
        uint32_t node = stack[--height];
        graph->order[placed++] = node;
        for (uint32_t i = graph->out_begin[node + 1];
             i-- > graph->out_begin[node];)
            if (--waits[graph->out[i]] == 0)
                push_ready(stack, &height, graph->out[i]);
    }
    return placed;
}

static uint32_t *new_numbers(uint32_t count)
{
    return calloc((size_t)count + 1, sizeof(uint32_t));
}

static pen_status fill(struct pen_graph *graph, const struct pen_edge *edges,
                       struct pen_text *why)
{
    pen_status status = PEN_OK;
    uint32_t *waits = new_numbers(graph->num_nodes);
    uint32_t *stack = new_numbers(graph->num_nodes);
    if (waits == NULL || stack == NULL) {
        pen_why(why, "no memory for a graph of %u nodes", graph->num_nodes);
        status = PEN_NOMEM;
    } else {
        fill_lists(graph, edges);
        if (fill_order(graph, waits, stack) < graph->num_nodes) {
            uint32_t node = 0;
            while (waits[node] == 0)
                node++;
            pen_why(why, "the graph has a cycle at or before node %u", node);
            status = PEN_INVALID;
        }
    }
    free(waits);
    free(stack);
    return status;
}

pen_status pen_graph_init(struct pen_graph *graph, uint32_t num_nodes,
                          const struct pen_edge *edges, uint32_t num_edges,
                          struct pen_text *why)
{
    pen_status status = check(num_nodes, edges, num_edges, why);
    if (status != PEN_OK)
        return status;
    struct pen_graph made = {.num_nodes = num_nodes, .num_edges = num_edges};
    made.out_begin = new_numbers(num_nodes);
    made.out = new_numbers(num_edges);
    made.in_begin = new_numbers(num_nodes);
    made.in = new_numbers(num_edges);
    made.order = new_numbers(num_nodes);
    if (made.out_begin == NULL || made.out == NULL || made.in_begin == NULL ||
        made.in == NULL || made.order == NULL) {
        pen_why(why, "no memory for a graph of %u nodes", num_nodes);
        status = PEN_NOMEM;
    } else {
        status = fill(&made, edges, why);
    }
    if (status == PEN_OK)
        *graph = made;
    else
        pen_graph_release(&made);
    return status;
}

void pen_graph_release(struct pen_graph *graph)
{
    free(graph->out_begin);
    free(graph->out);
    free(graph->in_begin);
    free(graph->in);
    free(graph->order);
    *graph = (struct pen_graph){0};
}

/*
 * {"maxSizePerFPGA": bytes, "maxFPGAs": 6, "maxCPUs": 1,
 *  "nodes": [{"id": 1, "supportedOnFpga": 1, "cpuLatency": 36,
 *             "fpgaLatency": 3.6, "isBackwardNode": 0, "colorClass": 5,
 *             "size": bytes, "name": "...", "layerId": 5}],
 *  "edges": [{"sourceId": 1, "destId": 3, "cost": 0.1, "size": bytes}]}
 *
 * Names, layers and the sizes of edges are notes of its authors: any value
 * passes. All edges out of a node have the same cost.
 */
#include "graph/placement_graph.h"

#include "base/file.h"
#include "graph/graph_json.h"

#include <math.h>
#include <stdlib.h>

#define MAX_FILE_BYTES ((size_t)64 << 20)
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define NO_COLOR UINT32_MAX

struct reader {
    struct pen_placement_graph *graph;
    struct pen__graph_json lists;
    struct pen__named *colors;
    struct pen_text *why;
};

/* Reads a flag: true, false, 1 and 0 all occur. */
static pen_status read_flag(const struct pen_json *json, const char *key,
                            bool *out, struct pen_text *why)
{
    const json_t *found = json_object_get(json->object, key);
    if (json_is_boolean(found)) {
        *out = json_is_true(found);
        return PEN_OK;
    }
    uint32_t number;
    pen_status status = pen_json_read_integer(json, key, 0, 1, &number, why);
    if (status == PEN_OK)
        *out = number == 1;
    return status;
}

static pen_status read_figures(const struct pen_json *json,
                               struct pen_placement_node *node,
                               struct pen_text *why)
{
    const struct pen_json_number numbers[] = {
        {"cpuLatency", &node->cpu_cost, 0, PEN_PLACEMENT_MAX_COST},
        {"fpgaLatency", &node->device_cost, 0, PEN_PLACEMENT_MAX_COST},
        {"size", &node->bytes, 0, PEN_PLACEMENT_MAX_BYTES}};
    pen_status status =
        pen_json_read_numbers(json, numbers, COUNT_OF(numbers), why);
    if (status == PEN_OK)
        status =
            read_flag(json, "supportedOnFpga", &node->runs_on_devices, why);
    if (status == PEN_OK)
        status = read_flag(json, "isBackwardNode", &node->is_backward, why);
    return status;
}

static pen_status read_node(struct reader *reader, const struct pen_json *json,
                            uint32_t number)
{
    struct pen_placement_node *node = &reader->graph->nodes[number];
    pen_status status = pen_json_check_keys(
        json,
        "id supportedOnFpga cpuLatency fpgaLatency isBackwardNode colorClass "
        "size name layerId",
        reader->why);
    if (status == PEN_OK)
        status = pen_json_require_keys(
            json, "cpuLatency fpgaLatency supportedOnFpga isBackwardNode",
            reader->why);
    if (status == PEN_OK)
        status = read_figures(json, node, reader->why);
    node->id = reader->lists.ids[number];
    node->color = NO_COLOR;
    if (status == PEN_OK && pen_json_has(json, "colorClass"))
        status = pen_json_read_integer(json, "colorClass", 0, PEN__GRAPH_MAX_ID,
                                       &node->color, reader->why);
    reader->colors[number] = (struct pen__named){node->color, number};
    return status;
}

/*
 * Numbers the colors of the file 0, 1, ...; a node without a color gets one of
 * its own.
 */
static void number_colors(struct reader *reader)
{
    uint32_t count = 0;
    pen__named_sort(reader->colors, reader->lists.num_nodes);
    for (uint32_t i = 0; i < reader->lists.num_nodes; i++) {
        bool is_same = i > 0 && reader->colors[i].name != NO_COLOR &&
                       reader->colors[i].name == reader->colors[i - 1].name;
        if (!is_same)
            count++;
        reader->graph->nodes[reader->colors[i].node].color = count - 1;
    }
    reader->graph->num_colors = count;
}

static pen_status read_edge(struct reader *reader, const struct pen_json *json,
                            uint32_t number)
{
    const struct pen_edge *edge = &reader->lists.ends[number];
    double cost = 0;
    const struct pen_json_number numbers[] = {
        {"cost", &cost, 0, PEN_PLACEMENT_MAX_COST}};
    pen_status status =
        pen_json_check_keys(json, "sourceId destId cost size", reader->why);
    if (status == PEN_OK)
        status = pen_json_require_keys(json, "cost", reader->why);
    if (status == PEN_OK)
        status = pen_json_read_numbers(json, numbers, 1, reader->why);
    if (status != PEN_OK)
        return status;
    struct pen_placement_node *from = &reader->graph->nodes[edge->from];
    const struct pen_placement_node *to = &reader->graph->nodes[edge->to];
    if (from->is_backward && !to->is_backward) {
        pen_why(reader->why, "%sdestId is a node before the backward pass",
                json->path);
        return PEN_INVALID;
    }
    if (from->transfer_cost >= 0 && fabs(from->transfer_cost - cost) > 1e-6) {
        pen_why(reader->why,
                "%scost differs from the cost of its node's other edges",
                json->path);
        return PEN_INVALID;
    }
    if (from->transfer_cost < 0)
        from->transfer_cost = cost;
    return PEN_OK;
}

typedef pen_status read_entry(struct reader *reader,
                              const struct pen_json *json, uint32_t number);

static pen_status read_list(struct reader *reader, const json_t *list,
                            const char *name, read_entry *read)
{
    pen_status status = PEN_OK;
    for (size_t i = 0; i < json_array_size(list) && status == PEN_OK; i++) {
        struct pen_json json;
        status = pen_json_open_entry(list, name, i, &json, reader->why);
        if (status == PEN_OK)
            status = read(reader, &json, (uint32_t)i);
    }
    return status;
}

static pen_status read_lists(struct reader *reader)
{
    struct pen_placement_graph *graph = reader->graph;
    struct pen__graph_json *lists = &reader->lists;
    pen_status status = read_list(reader, lists->nodes, "nodes", read_node);
    if (status != PEN_OK)
        return status;
    number_colors(reader);
    for (uint32_t i = 0; i < lists->num_nodes; i++)
        graph->nodes[i].transfer_cost = -1;
    status = read_list(reader, lists->edges, "edges", read_edge);
    for (uint32_t i = 0; i < lists->num_nodes; i++)
        if (graph->nodes[i].transfer_cost < 0)
            graph->nodes[i].transfer_cost = 0;
    if (status == PEN_OK)
        status = pen_graph_init(&graph->graph, lists->num_nodes, lists->ends,
                                lists->num_edges, reader->why);
    return status;
}

static pen_status read_graph(struct reader *reader, const struct pen_json *json)
{
    struct pen_placement_graph *graph = reader->graph;
    pen_status status = pen__graph_json_init(&reader->lists, json, reader->why);
    if (status != PEN_OK)
        return status;
    uint32_t num_nodes = reader->lists.num_nodes;
    graph->nodes = calloc(num_nodes, sizeof *graph->nodes);
    reader->colors = calloc(num_nodes, sizeof *reader->colors);
    if (graph->nodes != NULL && reader->colors != NULL) {
        status = read_lists(reader);
    } else {
        pen_why(reader->why, "no memory for %u nodes", num_nodes);
        status = PEN_NOMEM;
    }
    pen__graph_json_release(&reader->lists);
    free(reader->colors);
    return status;
}

static pen_status read_all(struct reader *reader, const struct pen_json *json)
{
    struct pen_placement_graph *graph = reader->graph;
    const struct pen_json_number numbers[] = {
        {"maxSizePerFPGA", &graph->memory_bytes, 0, PEN_PLACEMENT_MAX_BYTES}};
    pen_status status = pen_json_check_keys(
        json, "maxSizePerFPGA maxFPGAs maxCPUs nodes edges", reader->why);
    if (status == PEN_OK)
        status = pen_json_require_keys(json, "maxSizePerFPGA", reader->why);
    if (status == PEN_OK)
        status = pen_json_read_numbers(json, numbers, 1, reader->why);
    if (status == PEN_OK)
        status = pen_json_read_integer(json, "maxFPGAs", 0,
                                       PEN_PLACEMENT_MAX_DEVICES,
                                       &graph->num_devices, reader->why);
    if (status == PEN_OK)
        status =
            pen_json_read_integer(json, "maxCPUs", 0, PEN_PLACEMENT_MAX_DEVICES,
                                  &graph->num_cpus, reader->why);
    if (status == PEN_OK)
        status = read_graph(reader, json);
    return status;
}

pen_status pen_placement_graph_parse(const char *text, size_t length,
                                     struct pen_placement_graph **out,
                                     struct pen_text *why)
{
    struct pen_json json;
    pen_status status = pen_json_load(text, length, &json, why);
    if (status != PEN_OK)
        return status;
    struct pen_placement_graph *graph = calloc(1, sizeof *graph);
    if (graph == NULL) {
        pen_why(why, "no memory for a graph");
        status = PEN_NOMEM;
    } else {
        struct reader reader = {.graph = graph, .why = why};
        status = read_all(&reader, &json);
    }
    json_decref(json.object);
    if (status == PEN_OK)
        *out = graph;
    else
        pen_placement_graph_free(graph);
    return status;
}

static pen_status parse(void *out, const char *bytes, size_t length,
                        struct pen_text *why)
{
    return pen_placement_graph_parse(bytes, length, out, why);
}

pen_status pen_placement_graph_load(const char *path,
                                    struct pen_placement_graph **out,
                                    struct pen_text *why)
{
    return pen_file_parse(path, MAX_FILE_BYTES, parse, out, why);
}

void pen_placement_graph_free(struct pen_placement_graph *graph)
{
    if (graph == NULL)
        return;
    pen_graph_release(&graph->graph);
    free(graph->nodes);
    free(graph);
}

/* penstock partition of a file of layers: each is cut on its own. */
#include "cli/plan/partition_result.h"

#include "cli/program/answer.h"
#include "cli/program/cli.h"
#include "planner/pase.h"

#include <math.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* "b 4 n 2", or "whole". */
static void add_split(struct pen_table *table,
                      const struct pen_split_node *node,
                      const struct pen_pase_split *split)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    for (uint32_t i = 0; i < node->num_dims; i++)
        if (split->parts[i] > 1)
            pen_text_add(&text, "%s%s %u", text.length > 0 ? ", " : "",
                         node->dims[i].name, split->parts[i]);
    pen_table_add(table, "%s",
                  text.length > 0 ? pen_text_string(&text) : "not cut");
    pen_text_release(&text);
}

static json_t *layer_json(const struct pen_split_node *node,
                          const struct pen_pase_split *split, double sec)
{
    json_t *parts = json_object();
    for (uint32_t i = 0; i < node->num_dims; i++)
        (void)json_object_set_new(parts, node->dims[i].name,
                                  json_integer(split->parts[i]));
    return json_pack("{s:s, s:o, s:f}", "layer", node->name, "parts", parts,
                     "layer_sec", sec);
}

static void summarise(const struct pen_split_graph *graph,
                      const struct pen_pase_plan *plan,
                      struct pen__partition *result)
{
    pen_text_add(&result->summary,
                 "a step takes %.6g ms on %u devices; data parallel %.6g ms "
                 "(%.2f times as long), the best grid, %u x %u, %.6g ms",
                 plan->step_sec * 1e3, graph->num_devices,
                 plan->data_parallel_sec * 1e3,
                 plan->data_parallel_sec / plan->step_sec, plan->grid_rows,
                 plan->grid_columns, plan->grid_sec * 1e3);
    pen__partition_set(result, "step_sec", plan->step_sec);
    pen__partition_set(result, "data_parallel_sec", plan->data_parallel_sec);
    pen__partition_set(result, "grid_sec", plan->grid_sec);
    (void)json_object_set_new(
        result->root, "grid",
        json_pack("[i, i]", (int)plan->grid_rows, (int)plan->grid_columns));
}

static int print_layers(const struct pen_split_graph *graph,
                        const struct pen_pase_plan *plan)
{
    static const struct pen_column columns[] = {{"layer", false, false},
                                                {"cut into", false, false},
                                                {"ms", true, false}};
    struct pen__partition result;
    pen__partition_init(&result, "penstock-layers", columns, COUNT_OF(columns));
    for (uint32_t i = 0; i < graph->num_nodes; i++) {
        const struct pen_split_node *node = &graph->nodes[i];
        pen_table_add(&result.table, "%s", node->name);
        add_split(&result.table, node, &plan->splits[i]);
        pen_table_add(&result.table, "%.4f", plan->node_sec[i] * 1e3);
        pen__json_append(&result.stages,
                         layer_json(node, &plan->splits[i], plan->node_sec[i]));
    }
    summarise(graph, plan, &result);
    return pen__partition_print(&result);
}

static pen_status use_wish(const struct pen__split_wish *wish,
                           struct pen_split_graph *graph, struct pen_text *why)
{
    if (wish->num_devices > PEN_SPLIT_MAX_DEVICES) {
        pen_why(why, "%g devices are more than %u", wish->num_devices,
                PEN_SPLIT_MAX_DEVICES);
        return PEN_INVALID;
    }
    if (wish->num_devices > 0)
        graph->num_devices = (uint32_t)wish->num_devices;
    if (wish->bytes_per_sec > 0)
        graph->bytes_per_sec = wish->bytes_per_sec;
    if (wish->flops_per_sec > 0)
        graph->flops_per_sec = wish->flops_per_sec;
    return PEN_OK;
}

int pen__partition_layers(const struct pen_text *file,
                          const struct pen__split_wish *wish,
                          struct pen_text *why)
{
    struct pen_split_graph *graph = NULL;
    struct pen_pase_plan *plan = NULL;
    pen_status status =
        pen_split_graph_parse(file->bytes, file->length, &graph, why);
    if (status == PEN_OK)
        status = use_wish(wish, graph, why);
    const struct pen_pase_problem problem = {.graph = graph};
    if (status == PEN_OK)
        status = pen_pase_solve(&problem, &plan, why);
    int code = status == PEN_OK ? print_layers(graph, plan)
                                : pen__refuse_as(status, why);
    pen_pase_plan_free(plan);
    pen_split_graph_free(graph);
    return code;
}

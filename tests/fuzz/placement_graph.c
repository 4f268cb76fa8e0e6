/* Whatever is accepted as a placement's graph is placed, or is refused. */
#include "base/bug.h"
#include "planner/max_load.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_plan(const struct pen_placement_graph *graph)
{
    const struct pen_max_load_problem problem = {
        .graph = graph, .most_ideals = 1000, .most_pairs = 20000};
    struct pen_max_load_plan *plan = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (graph->num_devices * graph->num_cpus > 64)
        return;
    if (pen_max_load_solve(&problem, &plan, &why) == PEN_OK) {
        PEN_BUG_UNLESS(isfinite(plan->load) && plan->load >= 0);
        PEN_BUG_UNLESS(plan->bound <= plan->load * (1 + 1e-9) + 1e-9);
        for (uint32_t i = 0; i < graph->graph.num_nodes; i++)
            PEN_BUG_UNLESS(plan->node_stages[i] < plan->num_stages);
        pen_max_load_plan_free(plan);
    } else {
        PEN_BUG_UNLESS(plan == NULL && why.length > 0);
    }
    pen_text_release(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_placement_graph *graph = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_placement_graph_parse((const char *)data, size, &graph, &why) ==
        PEN_OK) {
        check_plan(graph);
        pen_placement_graph_free(graph);
    } else {
        PEN_BUG_UNLESS(graph == NULL && why.length > 0);
    }
    pen_text_release(&why);
    return 0;
}

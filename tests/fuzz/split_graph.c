/* Whatever is accepted as a file of layers is cut, or is refused. */
#include "base/bug.h"
#include "planner/pase.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_plan(const struct pen_split_graph *graph)
{
    const struct pen_pase_problem problem = {.graph = graph,
                                             .most_steps = 200000};
    struct pen_pase_plan *plan = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_pase_solve(&problem, &plan, &why) == PEN_OK) {
        PEN_BUG_UNLESS(isfinite(plan->step_sec) && plan->step_sec >= 0);
        PEN_BUG_UNLESS(plan->step_sec <=
                       plan->data_parallel_sec * (1 + 1e-9) + 1e-9);
        pen_pase_plan_free(plan);
    } else {
        PEN_BUG_UNLESS(plan == NULL && why.length > 0);
    }
    pen_text_release(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_split_graph *graph = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_split_graph_parse((const char *)data, size, &graph, &why) ==
        PEN_OK) {
        check_plan(graph);
        pen_split_graph_free(graph);
    } else {
        PEN_BUG_UNLESS(graph == NULL && why.length > 0);
    }
    pen_text_release(&why);
    return 0;
}

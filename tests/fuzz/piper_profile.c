/*
 * Whatever is accepted as Piper's profile has figures for each of its edges,
 * and can be cut, or is refused.
 */
#include "planner/piper.h"

#include "base/bug.h"
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_node(const struct pen_piper_profile *profile, uint32_t node)
{
    const struct pen_graph *graph = &profile->graph;
    const struct pen_piper_node *it = &profile->nodes[node];
    PEN_BUG_UNLESS(it->num_modes > 0);
    for (uint32_t i = 0; i < it->num_modes; i++) {
        const struct pen_piper_mode *mode = &it->modes[i];
        PEN_BUG_UNLESS(mode->degree >= 1 && mode->compute_sec >= 0);
        PEN_BUG_UNLESS(i == 0 || mode[-1].degree <= mode->degree);
        for (uint32_t j = 0;
             j < graph->in_begin[node + 1] - graph->in_begin[node]; j++)
            PEN_BUG_UNLESS(mode->in_bytes[j] >= 0);
        for (uint32_t j = 0;
             j < graph->out_begin[node + 1] - graph->out_begin[node]; j++)
            PEN_BUG_UNLESS(mode->out_bytes[j] >= 0);
    }
}

static void check_plan(const struct pen_piper_profile *profile)
{
    const struct pen_piper_problem problem = {
        .profile = profile, .most_ideals = 500, .most_pairs = 2000};
    struct pen_piper_plan *plan = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (profile->num_devices > 8 || profile->graph.num_nodes > 24)
        return;
    if (pen_piper_solve(&problem, &plan, &why) == PEN_OK) {
        PEN_BUG_UNLESS(isfinite(plan->stage_sec) && plan->stage_sec >= 0);
        for (uint32_t i = 0; i < profile->graph.num_nodes; i++)
            PEN_BUG_UNLESS(plan->node_stages[i] < plan->num_stages);
        pen_piper_plan_free(plan);
    } else {
        PEN_BUG_UNLESS(plan == NULL && why.length > 0);
    }
    pen_text_release(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_piper_profile *profile = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_piper_profile_parse((const char *)data, size, &profile, &why) ==
        PEN_OK) {
        for (uint32_t i = 0; i < profile->graph.num_nodes; i++)
            check_node(profile, i);
        check_plan(profile);
        pen_piper_profile_free(profile);
    } else {
        PEN_BUG_UNLESS(profile == NULL && why.length > 0);
    }
    pen_text_release(&why);
    return 0;
}

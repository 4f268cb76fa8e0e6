/* Whatever is accepted as PipeDream's profile can be cut, or is refused. */
#include "base/bug.h"
#include "planner/pipedream.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_plan(const struct pen_pipedream_profile *profile)
{
    const struct pen_pipedream_level levels[] = {{2, 1e9}, {2, 1e8}};
    const struct pen_pipedream_problem problem = {.profile = profile,
                                                  .levels = levels,
                                                  .num_levels = 2,
                                                  .has_transfers = true};
    struct pen_pipedream_plan *plan = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (profile->graph.num_nodes > 24)
        return;
    if (pen_pipedream_solve(&problem, &plan, &why) == PEN_OK) {
        PEN_BUG_UNLESS(isfinite(plan->stage_sec) && plan->stage_sec >= 0);
        for (uint32_t i = 0; i < profile->graph.num_nodes; i++)
            PEN_BUG_UNLESS(plan->node_stages[i] < plan->num_stages);
        pen_pipedream_plan_free(plan);
    } else {
        PEN_BUG_UNLESS(plan == NULL && why.length > 0);
    }
    pen_text_release(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_pipedream_profile *profile = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_pipedream_profile_parse((const char *)data, size, &profile, &why) ==
        PEN_OK) {
        check_plan(profile);
        pen_pipedream_profile_free(profile);
    } else {
        PEN_BUG_UNLESS(profile == NULL && why.length > 0);
    }
    pen_text_release(&why);
    return 0;
}

#include "planner/relax.h"

#include "base/sort.h"
#include "planner/cut.h"

#include <string.h>

#define MOST_STAGES 64u /* each number of them is predicted */

/* A plan of the same candidate; the caller owns it. */
static struct pen_plan *copy_plan(const struct pen_setting *setting,
                                  const struct pen_plan_found *found)
{
    struct pen_plan *plan = NULL;
    if (pen_candidate_plan(setting, &found->candidate, &plan, NULL) != PEN_OK)
        return NULL;
    memcpy(plan->stages, found->plan->stages,
           plan->num_stages * sizeof *plan->stages);
    return plan;
}

static void release(struct pen_plan *plan, struct pen_prediction *prediction)
{
    pen_prediction_release(prediction);
    pen_plan_free(plan);
}

/* Recomputes in the first `count` stages only; keeps that if it is better. */
static void try_stages(const struct pen_setting *setting,
                       const struct pen_plan_search_options *options,
                       uint32_t count, struct pen_plan_found *found)
{
    struct pen_prediction prediction;
    struct pen_plan *plan = copy_plan(setting, found);
    if (plan == NULL)
        return;
    for (uint32_t i = 0; i < plan->num_stages; i++)
        plan->stages[i].recompute =
            i < count ? found->candidate.recompute : PEN_RECOMPUTE_NONE;
    if (pen_cut_by_stage(setting, plan, NULL) != PEN_OK ||
        pen_predict(setting, plan, &prediction, NULL) != PEN_OK) {
        pen_plan_free(plan);
        return;
    }
    double value = pen_objective_value(options->objective, setting->cluster,
                                       plan, &prediction);
    if (!prediction.fits || value >= found->value ||
        !pen_prediction_store(&prediction, plan)) {
        release(plan, &prediction);
        return;
    }
    release(found->plan, &found->prediction);
    found->plan = plan;
    found->prediction = prediction;
    found->value = value;
}

static void relax(const struct pen_setting *setting,
                  const struct pen_plan_search_options *options,
                  struct pen_plan_found *found)
{
    uint32_t num_stages = found->plan->num_stages;
    if (found->candidate.recompute == PEN_RECOMPUTE_NONE ||
        num_stages > MOST_STAGES)
        return;
    for (uint32_t count = num_stages; count-- > 1;)
        try_stages(setting, options, count, found);
}

static int by_value(const void *left, const void *right)
{
    const struct pen_plan_found *a = left;
    const struct pen_plan_found *b = right;
    return (a->value > b->value) - (a->value < b->value);
}

void pen_plan_ranking_relax(const struct pen_setting *setting,
                            const struct pen_plan_search_options *options,
                            struct pen_plan_ranking *ranking)
{
    if (setting->target != PEN_TARGET_PENSTOCK || ranking->num_found == 0)
        return;
    for (uint32_t i = 0; i < ranking->num_found; i++)
        relax(setting, options, &ranking->found[i]);
    /* The first may be one that was chosen for its few devices. */
    uint32_t first = options->within > 0 ? 1 : 0;
    pen_sort_few(&ranking->found[first], ranking->num_found - first,
                 sizeof *ranking->found, by_value);
    if (options->within == 0)
        ranking->best_value = ranking->found[0].value;
}

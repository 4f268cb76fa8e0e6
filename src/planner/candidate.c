#include "planner/candidate.h"

#include "planner/candidates.h"
#include "planner/cut.h"
#include "planner/rank_devices.h"
#include "planner/target_rules.h"

#include <string.h>

uint64_t pen_candidate_num_devices(const struct pen_candidate *candidate)
{
    const uint32_t *degrees = candidate->degrees;
    return (uint64_t)degrees[PEN_DEGREE_DP] * degrees[PEN_DEGREE_TP] *
           degrees[PEN_DEGREE_PP] * degrees[PEN_DEGREE_CP];
}

bool pen_candidate_is_same_layout(const struct pen_candidate *a,
                                  const struct pen_candidate *b)
{
    return memcmp(a->degrees, b->degrees, sizeof a->degrees) == 0 &&
           a->micro_batch == b->micro_batch && a->sharding == b->sharding &&
           a->sharding_group == b->sharding_group &&
           a->generator == b->generator;
}

bool pen_candidate_is_same(const struct pen_candidate *a,
                           const struct pen_candidate *b)
{
    return pen_candidate_is_same_layout(a, b) && a->recompute == b->recompute &&
           a->recipe.modules == b->recipe.modules &&
           a->cuts_rows == b->cuts_rows;
}

/* Messages inside layers are cut over tp, too, where the runtime can. */
bool pen_candidate_has_sequence_parallel(const struct pen_setting *setting,
                                         const struct pen_candidate *candidate)
{
    return candidate->degrees[PEN_DEGREE_TP] > 1 &&
           (candidate->cuts_rows ||
            pen_target_has_sequence_parallel(setting->target));
}

static struct pen_plan *create_plan(const struct pen_setting *setting,
                                    const struct pen_candidate *candidate)
{
    struct pen_plan *plan = pen_plan_create(candidate->degrees[PEN_DEGREE_PP],
                                            candidate->degrees[PEN_DEGREE_VPP]);
    if (plan == NULL)
        return NULL;
    memcpy(plan->degrees, candidate->degrees, sizeof plan->degrees);
    plan->target = setting->target;
    plan->sequence = setting->sequence;
    plan->number = setting->number;
    plan->micro_batch = candidate->micro_batch;
    plan->num_microbatches = candidate->num_microbatches;
    plan->sharding = candidate->sharding;
    plan->sharding_group = candidate->sharding_group;
    plan->has_sequence_parallel =
        pen_candidate_has_sequence_parallel(setting, candidate);
    plan->expert_tp = candidate->expert_tp;
    plan->recipe = candidate->recipe;
    plan->logical_replicas =
        candidate->degrees[PEN_DEGREE_DP] *
        pen_placement_copies(candidate->generator->placement,
                             candidate->degrees[PEN_DEGREE_PP]);
    if (!pen_plan_set(&plan->schedule.name, candidate->generator->name)) {
        pen_plan_free(plan);
        return NULL;
    }
    return plan;
}

pen_status pen_candidate_plan(const struct pen_setting *setting,
                              const struct pen_candidate *candidate,
                              struct pen_plan **out, struct pen_text *why)
{
    uint64_t num_stages = (uint64_t)candidate->degrees[PEN_DEGREE_PP] *
                          candidate->degrees[PEN_DEGREE_VPP];
    if (num_stages > setting->model->num_layers) {
        pen_why(why, "%u layers are too few for %llu stages",
                setting->model->num_layers, (unsigned long long)num_stages);
        return PEN_INVALID;
    }
    struct pen_plan *plan = create_plan(setting, candidate);
    if (plan == NULL) {
        pen_why(why, "no memory for a plan");
        return PEN_NOMEM;
    }
    pen_status status = pen_cut(setting, plan, candidate->recompute, why);
    if (status == PEN_OK)
        status = pen_plan_check_recipe(plan, why);
    if (status != PEN_OK) {
        pen_plan_free(plan);
        return status;
    }
    *out = plan;
    return PEN_OK;
}

static pen_status predict(const struct pen_setting *setting,
                          const struct pen_plan *plan, bool is_timed,
                          struct pen_prediction *out, struct pen_text *why)
{
    if (is_timed)
        return pen_predict(setting, plan, out, why);
    return pen_predict_bound(setting, plan, out, why);
}

/* Replaces plan and prediction by those of a new cut if it is better. */
static void cut_again(const struct pen_setting *setting,
                      const struct pen_candidate *candidate, bool is_timed,
                      struct pen_plan **plan, struct pen_prediction *prediction)
{
    struct pen_plan *other = create_plan(setting, candidate);
    struct pen_prediction again;
    if (other == NULL)
        return;
    memcpy(other->stages, (*plan)->stages,
           other->num_stages * sizeof *other->stages);
    if (pen_cut_to_fit(setting, other, prediction, NULL) != PEN_OK ||
        predict(setting, other, is_timed, &again, NULL) != PEN_OK) {
        pen_plan_free(other);
        return;
    }
    if (again.fits || again.peak_bytes < prediction->peak_bytes) {
        struct pen_plan *kept = *plan;
        struct pen_prediction dropped = *prediction;
        *plan = other;
        *prediction = again;
        other = kept;
        again = dropped;
    }
    pen_plan_free(other);
    pen_prediction_release(&again);
}

/*
 * Whether a candidate fits even if ranks hold twice the activations that its
 * bound guesses, as with ZB-H2.
 */
static bool fits_surely(const struct pen_setting *setting,
                        const struct pen_plan *plan,
                        const struct pen_prediction *bound)
{
    for (uint32_t i = 0; i < bound->num_memory; i++) {
        const struct pen_plan_memory *memory = &bound->memory[i];
        double bytes = (double)pen_plan_memory_bytes(memory) +
                       (double)memory->bytes[PEN_MEMORY_ACTIVATIONS];
        if (bytes * (1 + bound->memory_margin) >
            (double)pen__devices_of(setting, plan, i).memory_bytes)
            return false;
    }
    return true;
}

/*
 * The bytes of a bound are a guess where schedules do not hold what 1F1B does.
 * The timed plan may then have another cut, and the seconds of this one are no
 * bound of it.
 */
static bool knows_cut(const struct pen_setting *setting,
                      const struct pen_candidate *candidate,
                      const struct pen_plan *plan,
                      const struct pen_prediction *bound)
{
    return plan->num_stages == 1 ||
           (pen__is_plain(candidate->generator) &&
            candidate->degrees[PEN_DEGREE_VPP] == 1) ||
           fits_surely(setting, plan, bound);
}

static void forget_seconds(struct pen_prediction *bound)
{
    bound->step_sec = 0;
    memset(bound->spent, 0, sizeof bound->spent);
}

#define MOST_CUTS 3 /* each begins where the one before was too full */

pen_status pen_candidate_predict(const struct pen_setting *setting,
                                 const struct pen_candidate *candidate,
                                 bool is_timed, struct pen_plan **plan,
                                 struct pen_prediction *out,
                                 struct pen_text *why)
{
    struct pen_plan *made = NULL;
    struct pen_prediction prediction;
    pen_status status = pen_candidate_plan(setting, candidate, &made, why);
    if (status == PEN_OK)
        status = predict(setting, made, is_timed, &prediction, why);
    if (status != PEN_OK) {
        pen_plan_free(made);
        return status;
    }
    bool is_bound =
        is_timed || knows_cut(setting, candidate, made, &prediction);
    for (int i = 1; i < MOST_CUTS && !prediction.fits && made->num_stages > 1;
         i++) {
        uint64_t before = prediction.peak_bytes;
        cut_again(setting, candidate, is_timed, &made, &prediction);
        if (prediction.peak_bytes == before)
            break;
    }
    if (!is_bound)
        forget_seconds(&prediction);
    *plan = made;
    *out = prediction;
    return PEN_OK;
}

void pen_recompute_print(enum pen_recompute recompute, unsigned modules,
                         struct pen_text *out)
{
    const char *before = "";
    if (recompute != PEN_RECOMPUTE_SELECTIVE || modules == 0) {
        pen_text_add_string(out, pen_recompute_names[recompute]);
        return;
    }
    for (int i = 0; i < PEN_MODULES; i++)
        if ((modules & 1u << i) != 0) {
            pen_text_add(out, "%s%s", before, pen_module_names[i]);
            before = ",";
        }
}

void pen_candidate_print(const struct pen_candidate *candidate,
                         struct pen_text *out)
{
    static const struct {
        enum pen_degree degree;
        const char *key;
    } order[] = {{PEN_DEGREE_TP, "tp"}, {PEN_DEGREE_CP, "cp"},
                 {PEN_DEGREE_PP, "pp"}, {PEN_DEGREE_VPP, "vpp"},
                 {PEN_DEGREE_EP, "ep"}, {PEN_DEGREE_DP, "dp"}};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (candidate->degrees[order[i].degree] > 1 ||
            order[i].degree == PEN_DEGREE_DP)
            pen_text_add(out, "%s %u ", order[i].key,
                         candidate->degrees[order[i].degree]);
    if (candidate->expert_tp != 0)
        pen_text_add(out, "etp %u ", candidate->expert_tp);
    pen_text_add(out, "micro-batch %u", candidate->micro_batch);
    if (candidate->cuts_rows)
        pen_text_add_string(out, " sequence-parallel");
    if (candidate->degrees[PEN_DEGREE_PP] > 1)
        pen_text_add(out, " %s", candidate->generator->name);
    if (candidate->recompute != PEN_RECOMPUTE_NONE) {
        pen_text_add_string(out, " recompute ");
        pen_recompute_print(candidate->recompute, candidate->recipe.modules,
                            out);
    }
    if (candidate->sharding != PEN_SHARDING_NONE)
        pen_text_add(out, " %s", pen_sharding_names[candidate->sharding]);
    if (candidate->sharding_group != 0)
        pen_text_add(out, " in groups of %u", candidate->sharding_group);
}

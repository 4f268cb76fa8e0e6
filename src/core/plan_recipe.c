/*
 * Rules of a recipe that need no model: those of Megatron-LM of 2026, whose
 * practice recipes are. A target may have more (src/export).
 */
#include "core/plan.h"

#include <inttypes.h>

struct rule {
    bool is_broken;
    const char *reason;
};

static pen_status check_rules(const struct rule *rules, size_t count,
                              struct pen_text *why)
{
    for (size_t i = 0; i < count; i++)
        if (rules[i].is_broken) {
            pen_why(why, "%s", rules[i].reason);
            return PEN_INVALID;
        }
    return PEN_OK;
}

#define CHECK(rules, why) check_rules(rules, sizeof rules / sizeof *rules, why)

static bool has_recompute(const struct pen_plan *plan,
                          enum pen_recompute recompute)
{
    for (uint32_t i = 0; i < plan->num_stages; i++)
        if (plan->stages[i].recompute == recompute)
            return true;
    return false;
}

static bool has_module(unsigned modules, enum pen_module module)
{
    return (modules >> module & 1) != 0;
}

static pen_status check_values(const struct pen_recipe *recipe,
                               struct pen_text *why)
{
    for (const struct pen_recipe_field *field = pen_recipe_fields;
         field->key != NULL; field++)
        if (!pen_recipe_allows(field, pen_recipe_get(recipe, field))) {
            pen_why(why, "recipe.%s is out of range", field->key);
            return PEN_INVALID;
        }
    return PEN_OK;
}

/* Experts are dealt to the same ranks in another way; the pipeline is common.
 */
static pen_status check_grid(const struct pen_plan *plan, struct pen_text *why)
{
    const uint32_t *degrees = plan->degrees;
    uint64_t ranks = pen_plan_num_ranks(plan) / degrees[PEN_DEGREE_PP];
    uint64_t group = (uint64_t)plan->expert_tp * degrees[PEN_DEGREE_EP];
    if (plan->expert_tp == 0 || ranks % group == 0)
        return PEN_OK;
    pen_why(why,
            "expert_tp %u x ep %u does not divide dp x tp x cp, %" PRIu64
            "; choose an ep whose product does",
            plan->expert_tp, degrees[PEN_DEGREE_EP], ranks);
    return PEN_INVALID;
}

static pen_status check_overlap(const struct pen_plan *plan,
                                struct pen_text *why)
{
    const struct pen_recipe *recipe = &plan->recipe;
    const uint32_t *degrees = plan->degrees;
    bool is_on = recipe->overlaps_experts;
    const struct rule rules[] = {
        {recipe->delays_weights && !is_on,
         "recipe.delay_weight_gradients needs recipe.overlap_experts"},
        {is_on && degrees[PEN_DEGREE_EP] == 1,
         "recipe.overlap_experts hides messages between ranks that share "
         "experts; it needs ep above 1"},
        {is_on && recipe->dispatcher == PEN_DISPATCHER_ALLGATHER,
         "recipe.overlap_experts does not work with the dispatcher allgather; "
         "use alltoall, deepep or hybridep"},
        {is_on && degrees[PEN_DEGREE_PP] > 1 && degrees[PEN_DEGREE_VPP] == 1,
         "recipe.overlap_experts in a pipeline needs several stages on each "
         "rank; use vpp 2 or more"},
        {is_on && plan->number == PEN_NUMBER_F32,
         "recipe.overlap_experts needs numbers of 16 bits or less; use bf16"},
        {is_on && has_recompute(plan, PEN_RECOMPUTE_FULL),
         "recipe.overlap_experts excludes full recomputation; use selective "
         "with recipe.recompute_modules"},
        {is_on && has_module(recipe->modules, PEN_MODULE_EXPERTS),
         "recipe.overlap_experts excludes recomputation of moe; leave moe out "
         "of recipe.recompute_modules"},
        {is_on && recipe->mtp_blocks > 1,
         "recipe.overlap_experts works with at most one block in "
         "recipe.mtp_blocks"}};
    return CHECK(rules, why);
}

static pen_status check_dispatcher(const struct pen_plan *plan,
                                   struct pen_text *why)
{
    const struct pen_recipe *recipe = &plan->recipe;
    const uint32_t *degrees = plan->degrees;
    bool is_hybrid = recipe->dispatcher == PEN_DISPATCHER_HYBRIDEP;
    bool is_flexible = is_hybrid || recipe->dispatcher == PEN_DISPATCHER_DEEPEP;
    bool has_offload = recipe->offload_blocks > 0 ||
                       has_module(recipe->offloaded, PEN_MODULE_EXPERTS) ||
                       has_module(recipe->offloaded, PEN_MODULE_EXPERT_ACT);
    const struct rule rules[] = {
        {is_flexible && degrees[PEN_DEGREE_TP] == 1 &&
             degrees[PEN_DEGREE_EP] == 1,
         "the dispatchers deepep and hybridep need tp or ep above 1; use "
         "alltoall"},
        {recipe->drops_tokens && recipe->dispatcher != PEN_DISPATCHER_ALLTOALL,
         "recipe.drop_tokens works with the dispatcher alltoall only"},
        {recipe->is_paged && !is_hybrid,
         "recipe.paged_stash needs the dispatcher hybridep"},
        {recipe->is_paged && has_offload,
         "recipe.paged_stash excludes recipe.offload_blocks, and moe and "
         "moe_act in recipe.offload_modules"},
        {recipe->graphs == PEN_GRAPHS_FULL && degrees[PEN_DEGREE_EP] > 1 &&
             !is_hybrid && !recipe->drops_tokens,
         "recipe.graphs full needs experts that do not wait for the host; use "
         "the dispatcher hybridep, or recipe.drop_tokens"}};
    return CHECK(rules, why);
}

static pen_status check_memory(const struct pen_plan *plan,
                               struct pen_text *why)
{
    const struct pen_recipe *recipe = &plan->recipe;
    bool is_on = recipe->offload_blocks > 0;
    bool is_narrow = pen_number_is_narrow(plan->number);
    bool is_modules = recipe->graphs == PEN_GRAPHS_MODULES;
    bool is_full = has_recompute(plan, PEN_RECOMPUTE_FULL);
    const struct rule rules[] = {
        {is_on && plan->degrees[PEN_DEGREE_PP] > 1,
         "recipe.offload_blocks works without a pipeline only; use pp 1, or "
         "recipe.offload_modules"},
        {is_on && (is_full || has_recompute(plan, PEN_RECOMPUTE_SELECTIVE)),
         "recipe.offload_blocks excludes recomputation"},
        {is_on && recipe->offloaded != 0,
         "recipe.offload_blocks and recipe.offload_modules exclude each "
         "other"},
        {is_on && is_modules,
         "recipe.offload_blocks excludes graphs of modules; use none or full"},
        {is_modules && is_full,
         "recipe.graphs modules excludes full recomputation; use selective, or "
         "graphs full"},
        {(recipe->gathers_narrow || recipe->has_narrow_attention) && !is_narrow,
         "recipe.narrow_gather and recipe.narrow_attention need numbers of 8 "
         "bits or less; use fp8"},
        {recipe->optimizer == PEN_OPTIMIZER_MUON &&
             plan->sharding > PEN_SHARDING_ZERO1,
         "muon steps whole matrices; use sharding none or zero1"}};
    return CHECK(rules, why);
}

pen_status pen_plan_check_recipe(const struct pen_plan *plan,
                                 struct pen_text *why)
{
    if (plan->expert_tp > PEN_PLAN_MAX_DEGREE) {
        pen_why(why, "expert_tp must be at most %u", PEN_PLAN_MAX_DEGREE);
        return PEN_INVALID;
    }
    pen_status status = check_values(&plan->recipe, why);
    if (status == PEN_OK)
        status = check_grid(plan, why);
    if (status == PEN_OK)
        status = check_overlap(plan, why);
    if (status == PEN_OK)
        status = check_dispatcher(plan, why);
    if (status == PEN_OK)
        status = check_memory(plan, why);
    return status;
}

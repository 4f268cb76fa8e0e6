/*
 * Finds the nearest recipe that Megatron-LM has. Refuses whatever its training
 * command line refuses (megatron/training/arguments.py, transformer_config.py).
 */
#include "export/megatron_recipe.h"

#define BIT(name) (1u << PEN_MODULE_##name)

const struct pen__megatron_module pen__megatron_offloads[] = {
    {"core_attn", BIT(CORE_ATTENTION)}, {"attn_norm", BIT(NORMS)},
    {"mlp_norm", BIT(NORMS)},           {"expert_fc1", BIT(EXPERTS)},
    {"moe_act", BIT(EXPERT_ACT)},       {NULL, 0}};

const struct pen__megatron_moments pen__megatron_moments[] = {
    {2, "fp8", "fp8"},  {3, "fp8", "bf16"},  {4, "bf16", "bf16"},
    {5, "fp8", "fp32"}, {6, "bf16", "fp32"}, {8, "fp32", "fp32"},
    {0, "fp32", "fp32"}};

bool pen__megatron_is_aware(const struct pen_recipe *recipe)
{
    return recipe->master_bytes != 0 || recipe->moment_bytes != 0 ||
           recipe->offloads_optimizer;
}

bool pen__megatron_is_sync_free(const struct pen_recipe *recipe,
                                const struct pen_model *model)
{
    return recipe->is_paged ||
           (recipe->graphs == PEN_GRAPHS_FULL && model->num_experts > 0 &&
            !recipe->drops_tokens);
}

/* ---- what cannot be said ---- */

struct rule {
    bool is_broken;
    const char *reason; /* follows the name of the program */
};

static pen_status check_rules(const char *program, const struct rule *rules,
                              size_t count, struct pen_text *why)
{
    for (size_t i = 0; i < count; i++)
        if (rules[i].is_broken) {
            pen_why(why, "%s %s", program, rules[i].reason);
            return PEN_INVALID;
        }
    return PEN_OK;
}

#define CHECK(version, rules, why)                                             \
    check_rules((version)->program, rules, sizeof rules / sizeof *rules, why)

#define NEWER "export to megatron@2026.08, or plan without it"

static pen_status check_old(const struct pen__megatron *version,
                            const struct pen_plan *plan,
                            const struct pen_model *model, struct pen_text *why)
{
    const struct pen_recipe *recipe = &plan->recipe;
    bool is_full = recipe->graphs == PEN_GRAPHS_FULL;
    const struct rule rules[] = {
        {recipe->is_paged, "has no paged stash; " NEWER},
        {recipe->has_fused_experts,
         "does not compute experts in one kernel; " NEWER},
        {recipe->has_narrow_attention,
         "has no option for attention in 8 bits; " NEWER},
        {is_full && pen__megatron_is_sync_free(recipe, model),
         "has no graph of a whole step with experts, unless tokens are dropped "
         "(recipe.drop_tokens); " NEWER},
        {is_full && recipe->overlaps_experts,
         "has no graph of a whole step with overlapped experts; use graphs "
         "none or modules, or export to megatron@2026.08"},
        {recipe->graphs != PEN_GRAPHS_NONE && recipe->offload_blocks > 0,
         "excludes graphs with offloaded blocks; plan without one of them"}};
    return version->is_new ? PEN_OK : CHECK(version, rules, why);
}

static pen_status check_optimizer(const struct pen__megatron *version,
                                  const struct pen_plan *plan,
                                  struct pen_text *why)
{
    const struct pen_recipe *recipe = &plan->recipe;
    bool is_aware = pen__megatron_is_aware(recipe);
    bool is_bf16 = pen_number_beside(plan->number) == PEN_NUMBER_BF16;
    const struct rule rules[] = {
        {recipe->optimizer == PEN_OPTIMIZER_ADAFACTOR,
         "has no Adafactor; plan with --optimizer adam or muon"},
        {recipe->optimizer == PEN_OPTIMIZER_MUON && is_aware,
         "keeps Muon's state as it is; plan without --master-bytes, "
         "--moment-bytes and --optimizer-cpu-offload"},
        {is_aware && plan->sharding != PEN_SHARDING_ZERO1,
         "changes the bytes and the place of the optimizer's state with "
         "sharding zero1 only; plan with it"},
        {(is_aware || recipe->gradient_bytes == 2) && !is_bf16,
         "has narrow gradients and states with bf16 or fp8 only; plan with "
         "--dtype bf16"},
        {recipe->offloads_optimizer && recipe->gathers_narrow,
         "does not offload the optimizer of weights in 8 bits; plan without "
         "--fp8-param-gather or --optimizer-cpu-offload"},
        {recipe->gathers_narrow && plan->sharding == PEN_SHARDING_NONE,
         "gathers weights in 8 bits only if the optimizer is sharded; plan "
         "with --sharding zero1"},
        {recipe->gathers_narrow && recipe->optimizer == PEN_OPTIMIZER_MUON,
         "does not gather weights in 8 bits with Muon; plan without "
         "--fp8-param-gather"}};
    return CHECK(version, rules, why);
}

static pen_status check_memory(const struct pen__megatron *version,
                               const struct pen_plan *plan,
                               const struct pen_model *model,
                               struct pen_text *why)
{
    const struct pen_recipe *recipe = &plan->recipe;
    const uint32_t *degrees = plan->degrees;
    unsigned known = 0;
    for (size_t i = 0; pen__megatron_offloads[i].word != NULL; i++)
        known |= pen__megatron_offloads[i].bits;
    const struct rule rules[] = {
        {(recipe->offloaded & ~known) != 0,
         "offloads the inputs of core_attn, layernorm, moe and moe_act; leave "
         "other modules out of --offload-modules"},
        {recipe->offload_blocks >= model->num_blocks,
         "offloads fewer blocks than the model has; plan with less "
         "--offload-blocks"},
        {recipe->mtp_blocks > 0 && model->rope.kind == PEN_ROPE_NONE,
         "predicts further tokens with rotary positions only; plan without "
         "--mtp-num-layers"},
        {recipe->mtp_blocks > 0 && recipe->overlaps_experts &&
             degrees[PEN_DEGREE_PP] == 1,
         "overlaps experts of a model with blocks that predict further tokens "
         "in a pipeline only; plan without one of them"},
        {recipe->delays_weights && recipe->graphs == PEN_GRAPHS_MODULES &&
             (model->has_qkv_bias || model->has_mlp_bias),
         "does not delay weight gradients of attention with biases in graphs; "
         "plan without --delay-wgrad-compute"}};
    return CHECK(version, rules, why);
}

/* ---- the nearest recipe ---- */

/* Modules that the model has; with none left, nothing is recomputed. */
static void fit_modules(const struct pen__megatron *version,
                        struct pen_plan *plan, const struct pen_model *model,
                        struct pen_text *notes)
{
    struct pen_recipe *recipe = &plan->recipe;
    unsigned there = BIT(CORE_ATTENTION) | BIT(NORMS) | BIT(MLP);
    if (model->kv_lora_rank > 0)
        there |= BIT(LATENT);
    if (model->num_experts > 0)
        there |= BIT(EXPERTS) | BIT(EXPERT_ACT);
    if (model->num_shared_experts > 0)
        there |= BIT(SHARED_EXPERTS);
    if (plan->stages[0].recompute != PEN_RECOMPUTE_SELECTIVE)
        recipe->modules = 0;
    if ((recipe->modules & ~there) == 0)
        return;
    recipe->modules &= there;
    pen__note(notes,
              "%s: the model does not have all modules that the plan "
              "recomputes: the others are recomputed",
              version->program);
    for (uint32_t i = 0; recipe->modules == 0 && i < plan->num_stages; i++)
        plan->stages[i].recompute = PEN_RECOMPUTE_NONE;
}

/* A merged pipeline has no second stage to overlap with. */
static void fit_overlap(const struct pen__megatron *version,
                        struct pen_plan *plan, struct pen_text *notes)
{
    if (!plan->recipe.overlaps_experts || plan->degrees[PEN_DEGREE_PP] == 1 ||
        plan->degrees[PEN_DEGREE_VPP] > 1)
        return;
    plan->recipe.overlaps_experts = false;
    plan->recipe.delays_weights = false;
    pen__note(notes,
              "%s overlaps experts in a pipeline with several stages per rank "
              "only: they are not overlapped",
              version->program);
}

static void fit_optimizer(const struct pen__megatron *version,
                          struct pen_plan *plan, struct pen_text *notes)
{
    struct pen_recipe *recipe = &plan->recipe;
    if (recipe->optimizer == PEN_OPTIMIZER_ADAM8) {
        recipe->optimizer = PEN_OPTIMIZER_ADAM;
        recipe->moment_bytes = 2;
        pen__note(notes,
                  "%s has no 8-bit Adam by blocks: the export uses Adam with "
                  "fp8 moments",
                  version->program);
    }
    if (!pen__megatron_is_aware(recipe))
        return;
    /* The lower half of a master; the weight itself is the upper one. */
    uint32_t bytes = recipe->gathers_narrow ? 0 : 2;
    if (recipe->master_bytes != bytes)
        pen__note(notes, "%s keeps %u bytes of a master weight in this case",
                  version->program, bytes == 0 ? 4 : bytes);
    recipe->master_bytes = bytes;
}

/* Experts that are computed without the host are computed in one kernel. */
static void fit_experts(const struct pen__megatron *version,
                        struct pen_plan *plan, const struct pen_model *model,
                        struct pen_text *notes)
{
    struct pen_recipe *recipe = &plan->recipe;
    if (!pen__megatron_is_sync_free(recipe, model) || recipe->has_fused_experts)
        return;
    recipe->has_fused_experts = true;
    pen__note(notes,
              "%s computes experts without the host in one kernel only: the "
              "export does so",
              version->program);
}

pen_status pen__megatron_fit_recipe(const struct pen__megatron *version,
                                    struct pen_plan *plan,
                                    const struct pen_model *model,
                                    struct pen_text *notes,
                                    struct pen_text *why)
{
    fit_modules(version, plan, model, notes);
    fit_overlap(version, plan, notes);
    pen_status status = check_old(version, plan, model, why);
    if (status == PEN_OK)
        status = check_memory(version, plan, model, why);
    if (status != PEN_OK)
        return status;
    fit_optimizer(version, plan, notes);
    fit_experts(version, plan, model, notes);
    /* Alone it is what Megatron recomputes unasked. */
    if (plan->recipe.modules == BIT(CORE_ATTENTION))
        plan->recipe.modules = 0;
    return check_optimizer(version, plan, why);
}

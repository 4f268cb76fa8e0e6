/* The options of Megatron-LM that a recipe becomes, one in a line. */
#include "export/megatron_options.h"
#include "export/megatron_recipe.h"

#define BIT(name) (1u << PEN_MODULE_##name)

static bool has_dense_blocks(const struct pen_model *model)
{
    for (uint32_t block = 0; block < model->num_blocks; block++)
        if (!pen_model_block_is_sparse(model, block))
            return true;
    return false;
}

static void add_list(struct pen_text *out, const char *option,
                     const char *const *words, size_t count)
{
    pen_text_add_string(out, option);
    for (size_t i = 0; i < count; i++)
        if (words[i] != NULL)
            pen_text_add(out, " %s", words[i]);
    pen_text_add_string(out, "\n");
}

static void add_dispatcher(const struct pen_plan *plan,
                           const struct pen_model *model, struct pen_text *out)
{
    const struct pen_recipe *recipe = &plan->recipe;
    bool is_flex = recipe->dispatcher == PEN_DISPATCHER_DEEPEP ||
                   recipe->dispatcher == PEN_DISPATCHER_HYBRIDEP;
    const char *name = pen_dispatcher_names[recipe->dispatcher];
    pen_text_add(out, "--moe-token-dispatcher-type %s\n",
                 is_flex ? "flex" : name);
    if (is_flex) {
        pen_text_add(out, "--moe-flex-dispatcher-backend %s\n", name);
        pen__megatron_add_flag(out, "--moe-router-dtype fp32");
    }
    if (recipe->overlaps_experts)
        pen__megatron_add_flag(out, "--overlap-moe-expert-parallel-comm");
    if (recipe->delays_weights)
        pen__megatron_add_flag(out, "--delay-wgrad-compute");
    if (recipe->drops_tokens) {
        pen__megatron_add_flag(out, "--moe-expert-capacity-factor 1.0");
        pen__megatron_add_flag(out, "--moe-pad-expert-input-to-capacity");
    }
    if (pen__megatron_is_sync_free(recipe, model))
        pen__megatron_add_flag(out, "--moe-expert-rank-capacity-factor 1.5");
    if (recipe->is_paged)
        pen__megatron_add_flag(out, "--moe-paged-stash");
    if (recipe->has_fused_experts)
        pen__megatron_add_flag(out, "--use-transformer-engine-op-fuser");
}

/* Recomputed experts take their router with them. */
static void add_modules_graph(const struct pen__megatron *version,
                              const struct pen_plan *plan,
                              const struct pen_model *model,
                              struct pen_text *out)
{
    const struct pen_recipe *recipe = &plan->recipe;
    bool has_router =
        model->num_experts > 0 && (recipe->modules & BIT(EXPERTS)) == 0;
    bool has_preparation = has_router &&
                           recipe->dispatcher != PEN_DISPATCHER_ALLTOALL &&
                           recipe->dispatcher != PEN_DISPATCHER_ALLGATHER;
    bool has_mlp = has_dense_blocks(model) && !recipe->overlaps_experts;
    const char *const words[] = {"attn", has_mlp ? "mlp" : NULL,
                                 has_router ? "moe_router" : NULL,
                                 has_preparation ? "moe_preprocess" : NULL};
    pen__megatron_add_flag(out, "--cuda-graph-impl transformer_engine");
    add_list(out,
             version->is_new ? "--cuda-graph-modules" : "--cuda-graph-scope",
             words, sizeof words / sizeof *words);
    pen__megatron_add_flag(out, "--te-rng-tracker");
}

static void add_graphs(const struct pen__megatron *version,
                       const struct pen_plan *plan,
                       const struct pen_model *model, struct pen_text *out)
{
    if (plan->recipe.graphs == PEN_GRAPHS_NONE)
        return;
    if (plan->recipe.graphs == PEN_GRAPHS_MODULES) {
        add_modules_graph(version, plan, model, out);
        return;
    }
    if (version->is_new) {
        pen__megatron_add_flag(out, "--cuda-graph-impl full_iteration");
    } else {
        pen__megatron_add_flag(out, "--cuda-graph-impl local");
        pen__megatron_add_flag(out, "--cuda-graph-scope full_iteration");
        if (plan->degrees[PEN_DEGREE_EP] > 1)
            pen__megatron_add_flag(
                out, "--moe-pad-experts-for-cuda-graph-inference");
    }
    pen__megatron_add_flag(out, "--te-rng-tracker");
    pen__megatron_add_flag(out, "--no-check-for-nan-in-loss-and-grad");
}

static void add_recompute(const struct pen_plan *plan, struct pen_text *out)
{
    unsigned modules = plan->recipe.modules;
    const char *words[PEN_MODULES] = {NULL};
    if (plan->stages[0].recompute == PEN_RECOMPUTE_FULL) {
        pen__megatron_add_flag(out, "--recompute-granularity full");
        pen__megatron_add_flag(out, "--recompute-method uniform");
        pen__megatron_add_flag(out, "--recompute-num-layers 1");
        return;
    }
    if (plan->stages[0].recompute == PEN_RECOMPUTE_NONE)
        return;
    if (modules == 0)
        modules = BIT(CORE_ATTENTION);
    for (int i = 0; i < PEN_MODULES; i++)
        if ((modules >> i & 1) != 0)
            words[i] = pen_module_names[i];
    pen__megatron_add_flag(out, "--recompute-granularity selective");
    add_list(out, "--recompute-modules", words, PEN_MODULES);
}

static void add_offload(const struct pen_recipe *recipe, struct pen_text *out)
{
    if (recipe->offload_blocks > 0)
        pen__megatron_add_count(out, "--cpu-offloading-num-layers",
                                recipe->offload_blocks);
    if (recipe->offloaded == 0)
        return;
    pen__megatron_add_flag(out, "--fine-grained-activation-offloading");
    pen_text_add_string(out, "--offload-modules");
    for (size_t i = 0; pen__megatron_offloads[i].word != NULL; i++)
        if ((recipe->offloaded & pen__megatron_offloads[i].bits) != 0)
            pen_text_add(out, " %s", pen__megatron_offloads[i].word);
    pen_text_add_string(out, "\n");
}

/* Adam that knows how narrow its state is. */
static void add_state(const struct pen_recipe *recipe, struct pen_text *out)
{
    const struct pen__megatron_moments *moments = pen__megatron_moments;
    if (!pen__megatron_is_aware(recipe))
        return;
    while (moments->bytes != 0 && moments->bytes != recipe->moment_bytes)
        moments++;
    pen__megatron_add_flag(out, "--use-precision-aware-optimizer");
    if (recipe->gradient_bytes == 2)
        pen__megatron_add_flag(out, "--main-grads-dtype bf16");
    if (moments->bytes != 0)
        pen_text_add(out, "--exp-avg-dtype %s\n--exp-avg-sq-dtype %s\n",
                     moments->first, moments->second);
    if (recipe->offloads_optimizer)
        pen__megatron_add_flag(out, "--optimizer-cpu-offload");
}

/*
 * Adds Muon. Version 0.16.1 shares its state by whole matrices, under another
 * name.
 */
static void add_muon(const struct pen__megatron *version,
                     enum pen_sharding sharding, struct pen_text *out)
{
    bool is_shared = sharding == PEN_SHARDING_ZERO1;
    pen_text_add(out, "--optimizer %s\n",
                 is_shared && !version->is_new ? "dist_muon" : "muon");
    if (is_shared && version->is_new)
        pen__megatron_add_flag(out, "--use-distributed-optimizer");
}

static void add_sharding(const struct pen__megatron *version,
                         const struct pen_plan *plan, struct pen_text *out)
{
    enum pen_sharding sharding = plan->sharding;
    if (plan->recipe.optimizer == PEN_OPTIMIZER_MUON) {
        add_muon(version, sharding, out);
        return;
    }
    pen__megatron_add_flag(out, "--overlap-grad-reduce");
    if (sharding == PEN_SHARDING_NONE)
        return;
    pen__megatron_add_flag(out, "--use-distributed-optimizer");
    pen__megatron_add_flag(out, "--overlap-param-gather");
    if (sharding == PEN_SHARDING_ZERO1)
        return;
    pen__megatron_add_flag(out, "--use-megatron-fsdp");
    pen_text_add(out, "--data-parallel-sharding-strategy %s\n",
                 sharding == PEN_SHARDING_ZERO2 ? "optim_grads"
                                                : "optim_grads_params");
    pen__megatron_add_flag(out, "--no-gradient-accumulation-fusion");
    pen__megatron_add_flag(out, "--ckpt-format fsdp_dtensor");
}

static void add_narrow(const struct pen_plan *plan, struct pen_text *out)
{
    const struct pen_recipe *recipe = &plan->recipe;
    if (recipe->gathers_narrow)
        pen__megatron_add_flag(out, plan->number == PEN_NUMBER_NVFP4
                                        ? "--fp4-param-gather"
                                        : "--fp8-param-gather");
    if (recipe->gathers_narrow && plan->number == PEN_NUMBER_MXFP8 &&
        plan->sharding == PEN_SHARDING_ZERO1)
        pen__megatron_add_flag(out, "--reuse-grad-buf-for-mxfp8-param-ag");
    if (recipe->has_narrow_attention)
        pen__megatron_add_flag(out, "--fp8-dot-product-attention");
    if (recipe->gradient_bytes == 2)
        pen__megatron_add_flag(out, "--grad-reduce-in-bf16");
}

void pen__megatron_add_recipe(const struct pen__megatron *version,
                              const struct pen_plan *plan,
                              const struct pen_model *model,
                              struct pen_text *out)
{
    const struct pen_recipe *recipe = &plan->recipe;
    if (plan->expert_tp != 0)
        pen__megatron_add_count(out, "--expert-tensor-parallel-size",
                                plan->expert_tp);
    if (model->num_experts > 0)
        add_dispatcher(plan, model, out);
    if (recipe->mtp_blocks > 0)
        pen__megatron_add_count(out, "--mtp-num-layers", recipe->mtp_blocks);
    add_sharding(version, plan, out);
    add_state(recipe, out);
    add_narrow(plan, out);
    add_recompute(plan, out);
    add_offload(recipe, out);
    add_graphs(version, plan, model, out);
}

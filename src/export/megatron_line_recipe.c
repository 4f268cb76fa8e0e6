/* Turns the recipe options of a Megatron line into a plan's recipe. */
#include "export/megatron_recipe.h"

#include "core/plan.h"

#include <string.h>

#define HAS(name) pen__megatron_has(words, PEN__MEGATRON_##name)
#define IS(name, value) pen__megatron_is(words, PEN__MEGATRON_##name, value)
#define MOST_BLOCKS (1u << 16)
#define MOST_MTP 64u

/* ---- lists ---- */

/* Bits of a word of --recompute-modules; 0 when a plan has none. */
static unsigned recomputed_bits(const char *word, size_t length)
{
    for (int i = 0; i < PEN_MODULES; i++)
        if (strlen(pen_module_names[i]) == length &&
            memcmp(pen_module_names[i], word, length) == 0)
            return 1u << i;
    return 0;
}

static unsigned offloaded_bits(const char *word, size_t length)
{
    static const char fused[] = "fused_group_mlp";
    if (length == sizeof fused - 1 && memcmp(word, fused, length) == 0)
        return 1u << PEN_MODULE_EXPERTS | 1u << PEN_MODULE_EXPERT_ACT;
    for (size_t i = 0; pen__megatron_offloads[i].word != NULL; i++)
        if (strlen(pen__megatron_offloads[i].word) == length &&
            memcmp(pen__megatron_offloads[i].word, word, length) == 0)
            return pen__megatron_offloads[i].bits;
    return 0;
}

/* "a b" or "a,b"; words that a plan does not know are noted. */
static unsigned read_list(const struct pen__megatron_words *words,
                          enum pen__megatron_option option,
                          unsigned (*bits_of)(const char *, size_t),
                          struct pen_text *notes)
{
    unsigned bits = 0;
    for (const char *value = words->values[option]; value != NULL;
         value = pen__megatron_next(words, value))
        for (const char *at = value; *at != '\0';) {
            size_t length = strcspn(at, ",");
            unsigned found = bits_of(at, length);
            if (found == 0 && length > 0)
                pen__note(notes, "--%s: %.*s is not counted",
                          pen__megatron_name(option),
                          (int)(length < 40 ? length : 40), at);
            bits |= found;
            at += length + (at[length] == ',');
        }
    return bits;
}

static bool has_word(const struct pen__megatron_words *words,
                     enum pen__megatron_option option, const char *wanted)
{
    for (const char *value = words->values[option]; value != NULL;
         value = pen__megatron_next(words, value))
        if (strstr(value, wanted) != NULL)
            return true;
    return false;
}

/* ---- members ---- */

static enum pen_dispatcher
read_dispatcher(const struct pen__megatron_words *words, struct pen_text *notes)
{
    if (IS(DISPATCHER, "allgather"))
        return PEN_DISPATCHER_ALLGATHER;
    if (!IS(DISPATCHER, "flex"))
        return PEN_DISPATCHER_ALLTOALL;
    if (HAS(DEEPEP) || !HAS(BACKEND) || IS(BACKEND, "deepep"))
        return PEN_DISPATCHER_DEEPEP;
    if (!IS(BACKEND, "hybridep"))
        pen__note(notes, "the dispatcher is counted as hybridep");
    return PEN_DISPATCHER_HYBRIDEP;
}

static enum pen_graphs read_graphs(const struct pen__megatron_words *words)
{
    bool is_old = HAS(ENABLE_GRAPH) || HAS(EXTERNAL_GRAPH);
    if ((!HAS(GRAPH_IMPL) && !is_old) || IS(GRAPH_IMPL, "none"))
        return PEN_GRAPHS_NONE;
    if (IS(GRAPH_IMPL, "full_iteration") ||
        has_word(words, PEN__MEGATRON_GRAPH_SCOPE, "full_iteration"))
        return PEN_GRAPHS_FULL;
    return PEN_GRAPHS_MODULES;
}

static enum pen_optimizer_kind
read_optimizer(const struct pen__megatron_words *words, struct pen_plan *plan,
               struct pen_text *notes)
{
    if (IS(OPTIMIZER, "dist_muon") && plan->sharding == PEN_SHARDING_NONE)
        plan->sharding = PEN_SHARDING_ZERO1;
    if (IS(OPTIMIZER, "muon") || IS(OPTIMIZER, "dist_muon"))
        return PEN_OPTIMIZER_MUON;
    if (HAS(OPTIMIZER) && !IS(OPTIMIZER, "adam"))
        pen__note(notes, "the optimizer is counted as Adam");
    return PEN_OPTIMIZER_ADAM;
}

static uint32_t bytes_of(const struct pen__megatron_words *words,
                         enum pen__megatron_option option)
{
    if (pen__megatron_is(words, option, "fp8"))
        return 1;
    return pen__megatron_is(words, option, "bf16") ||
                   pen__megatron_is(words, option, "fp16")
               ? 2
               : 4;
}

/* Reads the bytes of the optimizer's state; the usual ones stay 0. */
static void read_state(const struct pen__megatron_words *words,
                       struct pen_plan *plan)
{
    struct pen_recipe *recipe = &plan->recipe;
    bool is_narrow = pen_number_is_narrow(plan->number);
    bool is_bf16 = pen_number_beside(plan->number) == PEN_NUMBER_BF16;
    recipe->gathers_narrow = is_narrow && (HAS(FP8_GATHER) || HAS(FP4_GATHER));
    recipe->has_narrow_attention = is_narrow && HAS(FP8_ATTENTION);
    recipe->gradient_bytes = is_bf16 && HAS(GRAD_BF16) ? 2 : 0;
    recipe->offloads_optimizer = HAS(OFFLOAD_OPTIMIZER);
    if (!HAS(AWARE))
        return;
    uint32_t moments = bytes_of(words, PEN__MEGATRON_EXP_AVG) +
                       bytes_of(words, PEN__MEGATRON_EXP_AVG_SQ);
    recipe->moment_bytes = moments == 8 ? 0 : moments;
    /* With bf16 weights only the lower half of a master is kept. */
    if ((is_bf16 && !recipe->gathers_narrow) || IS(MAIN_PARAMS, "fp16"))
        recipe->master_bytes = 2;
}

static void read_experts(const struct pen__megatron_words *words,
                         struct pen_recipe *recipe, struct pen_text *notes)
{
    if (!HAS(NUM_EXPERTS))
        return;
    recipe->dispatcher = read_dispatcher(words, notes);
    recipe->overlaps_experts = HAS(OVERLAP_EXPERTS);
    recipe->delays_weights = recipe->overlaps_experts && HAS(DELAY_WEIGHTS);
    recipe->drops_tokens = HAS(CAPACITY);
    recipe->is_paged = HAS(PAGED);
    recipe->has_fused_experts = HAS(OP_FUSER);
}

/* Leaves out the list when it names core attention alone, as is usual. */
static void read_modules(const struct pen__megatron_words *words,
                         struct pen_plan *plan, struct pen_text *notes)
{
    struct pen_recipe *recipe = &plan->recipe;
    if (plan->stages[0].recompute == PEN_RECOMPUTE_SELECTIVE)
        recipe->modules =
            read_list(words, PEN__MEGATRON_MODULES, recomputed_bits, notes);
    if (recipe->modules == 1u << PEN_MODULE_CORE_ATTENTION)
        recipe->modules = 0;
    if (HAS(FINE_OFFLOAD))
        recipe->offloaded = read_list(words, PEN__MEGATRON_OFFLOAD_MODULES,
                                      offloaded_bits, notes);
}

static pen_status read_mtp(const struct pen__megatron_words *words,
                           struct pen_recipe *recipe, struct pen_text *why)
{
    uint32_t of_layout = recipe->mtp_blocks;
    if (!HAS(MTP_LAYERS) || IS(MTP_LAYERS, "0"))
        return PEN_OK;
    pen_status status = pen__megatron_count(words, PEN__MEGATRON_MTP_LAYERS,
                                            MOST_MTP, &recipe->mtp_blocks, why);
    if (status != PEN_OK || !HAS(LAYOUT) || of_layout == recipe->mtp_blocks)
        return status;
    pen_why(why, "--mtp-num-layers is %u, but the layout has %u layers m",
            recipe->mtp_blocks, of_layout);
    return PEN_INVALID;
}

static pen_status read_counts(const struct pen__megatron_words *words,
                              struct pen_plan *plan, struct pen_text *why)
{
    pen_status status = PEN_OK;
    if (HAS(NUM_EXPERTS))
        status =
            pen__megatron_count(words, PEN__MEGATRON_ETP, PEN_PLAN_MAX_DEGREE,
                                &plan->expert_tp, why);
    if (plan->expert_tp == plan->degrees[PEN_DEGREE_TP])
        plan->expert_tp = 0;
    if (status == PEN_OK && !IS(OFFLOAD_LAYERS, "0"))
        status =
            pen__megatron_count(words, PEN__MEGATRON_OFFLOAD_LAYERS,
                                MOST_BLOCKS, &plan->recipe.offload_blocks, why);
    return status == PEN_OK ? read_mtp(words, &plan->recipe, why) : status;
}

pen_status pen__megatron_read_recipe(const struct pen__megatron_words *words,
                                     struct pen_plan *plan,
                                     struct pen_text *notes,
                                     struct pen_text *why)
{
    struct pen_recipe *recipe = &plan->recipe;
    recipe->graphs = read_graphs(words);
    recipe->optimizer = read_optimizer(words, plan, notes);
    read_experts(words, recipe, notes);
    read_modules(words, plan, notes);
    read_state(words, plan);
    return read_counts(words, plan, why);
}

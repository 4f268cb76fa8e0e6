#include "export/torchtitan.h"

#include "schedule/generators.h"
#include "schedule/torch_csv.h"

#include <string.h>

/* ---- models by name ---- */

struct known {
    struct pen__titan_flavour flavour;
    uint32_t hidden;
    uint32_t num_blocks;
    uint32_t num_heads;
    uint32_t num_kv_heads;
    uint32_t head_dim;
    uint32_t intermediate;
    uint32_t vocab;
    bool is_tied;
    uint32_t num_experts;
    uint32_t experts_per_token;
    uint32_t expert_intermediate;
};

/* clang-format off */
static const struct known models[] = {
    {{"llama3", "8B", "llama3_8b"},
     4096, 32, 32, 8, 128, 14336, 128256, false, 0, 0, 0},
    {{"llama3", "70B", "llama3_70b"},
     8192, 80, 64, 8, 128, 28672, 128256, false, 0, 0, 0},
    {{"llama3", "405B", NULL},
     16384, 126, 128, 8, 128, 53248, 128256, false, 0, 0, 0},
    {{"qwen3", "0.6B", "qwen3_0_6b"},
     1024, 28, 16, 8, 128, 3072, 151936, true, 0, 0, 0},
    {{"qwen3", "1.7B", "qwen3_1_7b"},
     2048, 28, 16, 8, 128, 6144, 151936, true, 0, 0, 0},
    {{"qwen3", "4B", NULL},
     2560, 36, 32, 8, 128, 9728, 151936, true, 0, 0, 0},
    {{"qwen3", "8B", NULL},
     4096, 36, 32, 8, 128, 12288, 151936, false, 0, 0, 0},
    {{"qwen3", "14B", "qwen3_14b"},
     5120, 40, 40, 8, 128, 17408, 151936, false, 0, 0, 0},
    {{"qwen3", "32B", "qwen3_32b"},
     5120, 64, 64, 8, 128, 25600, 151936, false, 0, 0, 0},
    {{"qwen3", "30B-A3B", "qwen3_30b_a3b"},
     2048, 48, 32, 4, 128, 6144, 151936, false, 128, 8, 768},
    {{"qwen3", "235B-A22B", NULL},
     4096, 94, 64, 4, 128, 12288, 151936, false, 128, 8, 1536},
    {{"deepseek_v3", "671B", "deepseek_v3_671b"},
     7168, 61, 128, 128, 192, 18432, 129280, false, 256, 8, 2048},
    {{"gpt_oss", "20b", "gpt_oss_20b"},
     2880, 24, 64, 8, 64, 2880, 201088, false, 32, 4, 2880},
    {{"gpt_oss", "120b", "gpt_oss_120b"},
     2880, 36, 64, 8, 64, 2880, 201088, false, 128, 4, 2880}};
/* clang-format on */

static const char *module_of_experts(const struct pen_model *model)
{
    switch (model->family) {
    case PEN_FAMILY_QWEN3_MOE:
        return "qwen3";
    case PEN_FAMILY_DEEPSEEK_V3:
        return "deepseek_v3";
    case PEN_FAMILY_GPT_OSS:
        return "gpt_oss";
    default:
        return NULL;
    }
}

const char *pen__titan_module(const struct pen_model *model)
{
    bool has_bias = model->has_qkv_bias || model->has_attention_out_bias ||
                    model->has_mlp_bias;
    if (!pen__has_usual_blocks(model) || model->family == PEN_FAMILY_GENERAL)
        return NULL;
    if (model->num_experts > 0)
        return module_of_experts(model);
    if (model->norm != PEN_MODEL_NORM_RMS ||
        model->activation != PEN_ACTIVATION_SILU ||
        model->rope.kind == PEN_ROPE_NONE || has_bias || model->window > 0)
        return NULL;
    return model->has_qk_norm ? "qwen3" : "llama3";
}

static bool has_numbers(const struct pen_model *model,
                        const struct known *known)
{
    return model->hidden == known->hidden &&
           model->num_blocks == known->num_blocks &&
           model->num_heads == known->num_heads &&
           model->num_kv_heads == known->num_kv_heads &&
           model->head_dim == known->head_dim &&
           model->intermediate == known->intermediate &&
           model->vocab == known->vocab &&
           model->has_tied_embeddings == known->is_tied &&
           model->num_experts == known->num_experts &&
           model->experts_per_token == known->experts_per_token &&
           model->expert_intermediate == known->expert_intermediate;
}

const struct pen__titan_flavour *
pen__titan_flavour(const struct pen_model *model)
{
    const char *module = pen__titan_module(model);
    for (size_t i = 0; module != NULL && i < sizeof models / sizeof *models;
         i++)
        if (strcmp(module, models[i].flavour.module) == 0 &&
            has_numbers(model, &models[i]))
            return &models[i].flavour;
    return NULL;
}

/* ---- schedules ---- */

/* Schedules that PyTorch makes itself, and the stages on a rank they take. */
struct own_schedule {
    const char *name;
    const char *torch;
    uint32_t least;
    uint32_t most;
};

static const struct own_schedule own_schedules[] = {
    {"1f1b", "1F1B", 1, 1},
    {"gpipe", "GPipe", 1, 1},
    {"interleaved", "Interleaved1F1B", 2, UINT32_MAX},
    {"breadth-first", "LoopedBFS", 2, UINT32_MAX},
    {"zb-v", "ZBVZeroBubble", 2, 2},
    {"dualpipev", "DualPipeV", 2, 2}};

/* Rounds of Interleaved1F1B have one size; DualPipeV fills all stages. */
static bool takes_microbatches(const struct own_schedule *own,
                               const struct pen_plan *plan)
{
    uint32_t count = plan->num_microbatches;
    uint32_t rounds = count / plan->degrees[PEN_DEGREE_PP];
    if (strcmp(own->torch, "Interleaved1F1B") == 0)
        return rounds <= 1 || count % rounds == 0;
    return strcmp(own->torch, "DualPipeV") != 0 || count >= plan->num_stages;
}

/* PyTorch's name of the schedule, or NULL when it has to be given as rows. */
static const char *own_schedule(const struct pen_plan *plan)
{
    const struct pen_plan_schedule *schedule = &plan->schedule;
    uint32_t vpp = plan->degrees[PEN_DEGREE_VPP];
    if (schedule->slices > 1 || schedule->warmup > 0 ||
        schedule->memory_limit != 0)
        return NULL;
    for (size_t i = 0; i < sizeof own_schedules / sizeof *own_schedules; i++) {
        const struct own_schedule *own = &own_schedules[i];
        if (pen__schedule_is(plan, own->name))
            return vpp >= own->least && vpp <= own->most &&
                           takes_microbatches(own, plan)
                       ? own->torch
                       : NULL;
    }
    return NULL;
}

static pen_status make_schedule(const struct pen_plan *plan,
                                struct pen_schedule **out, struct pen_text *why)
{
    const struct pen_plan_schedule *wanted = &plan->schedule;
    if (wanted->file != NULL)
        return pen_schedule_load(wanted->file, out, why);
    const struct pen_generator *generator = pen_generator_find(wanted->name);
    if (generator == NULL || !generator->is_synchronous) {
        pen_why(why, "%s is not a synchronous schedule", wanted->name);
        return PEN_INVALID;
    }
    struct pen_costs costs;
    pen_costs_init(&costs);
    struct pen_generator_args args = {
        .ranks = plan->degrees[PEN_DEGREE_PP],
        .microbatches = plan->num_microbatches,
        .chunks = generator->has_chunks ? plan->degrees[PEN_DEGREE_VPP] : 0,
        .slices = wanted->slices > 0 ? wanted->slices : 1,
        .warmup = wanted->warmup,
        .memory_limit = wanted->memory_limit,
        .costs = &costs};
    pen_status status = pen_generator_make(generator, &args, out, why);
    pen_costs_release(&costs);
    return status;
}

static bool has_shape_of(const struct pen_schedule *schedule,
                         const struct pen_plan *plan)
{
    const struct pen_shape *shape = &schedule->shape;
    return shape->num_ranks == plan->degrees[PEN_DEGREE_PP] &&
           shape->num_stages == plan->num_stages &&
           shape->num_microbatches == plan->num_microbatches;
}

pen_status pen__titan_schedule(const struct pen_plan *plan, const char **name,
                               struct pen_text *csv, struct pen_text *why)
{
    struct pen_schedule *schedule = NULL;
    *name = own_schedule(plan);
    if (*name != NULL)
        return PEN_OK;
    pen_status status = make_schedule(plan, &schedule, why);
    if (status != PEN_OK)
        return status;
    *name = pen_torch_csv_class(schedule);
    if (*name == NULL || !has_shape_of(schedule, plan)) {
        pen_why(
            why,
            "PyTorch does not support the stage placement of this schedule");
        status = PEN_INVALID;
    } else {
        status = pen_torch_csv_print(schedule, csv, why);
    }
    pen_schedule_free(schedule);
    return status;
}

/* ---- the nearest plan ---- */

static bool can_say(const struct pen_plan *plan)
{
    const char *name;
    struct pen_text csv = PEN_TEXT_EMPTY;
    pen_status status = pen__titan_schedule(plan, &name, &csv, NULL);
    pen_text_release(&csv);
    return status == PEN_OK;
}

/* The plan's own, by name or as rows; or the one that is always there. */
static pen_status fit_schedule(const struct pen__titan *titan,
                               struct pen_plan *plan, struct pen_text *notes,
                               struct pen_text *why)
{
    bool has_pipeline = plan->degrees[PEN_DEGREE_PP] > 1;
    if (has_pipeline && can_say(plan))
        return PEN_OK;
    if (has_pipeline && plan->degrees[PEN_DEGREE_VPP] > 1) {
        pen_status status = pen__nearest_schedule(plan, "interleaved",
                                                  titan->program, notes, why);
        if (status != PEN_OK || can_say(plan))
            return status;
    }
    pen__nearest_merge(plan, titan->program, notes);
    return pen__nearest_schedule(plan, "1f1b", titan->program, notes, why);
}

/* Replicas alone, or fully sharded with or without gathered weights. */
static void fit_sharding(const struct pen__titan *titan, struct pen_plan *plan,
                         struct pen_text *notes)
{
    uint32_t dp = plan->degrees[PEN_DEGREE_DP];
    bool is_alone = pen_plan_num_ranks(plan) == dp;
    if (dp == 1)
        return;
    bool must_shard =
        (titan->is_old && !is_alone) || plan->degrees[PEN_DEGREE_EP] > 1;
    if (plan->sharding == PEN_SHARDING_ZERO1 ||
        (plan->sharding == PEN_SHARDING_NONE && must_shard)) {
        pen__note(notes,
                  "%s cannot shard %s in this case: the export shards weights, "
                  "gradients and moments, and keeps weights gathered from "
                  "forward to backward",
                  titan->program,
                  plan->sharding == PEN_SHARDING_NONE ? "nothing"
                                                      : "only the moments");
        plan->sharding = PEN_SHARDING_ZERO2;
    }
}

static void fit_numbers(const struct pen__titan *titan, struct pen_plan *plan,
                        struct pen_text *notes)
{
    bool is_known = plan->number == PEN_NUMBER_F32 ||
                    plan->number == PEN_NUMBER_BF16 ||
                    (plan->number == PEN_NUMBER_FP8 && titan->is_old);
    if (!is_known) {
        pen__note(notes, "%s has no option for %s: the export uses bf16",
                  titan->program, pen_number_names[plan->number]);
        plan->number = PEN_NUMBER_BF16;
    }
    bool is_sharded =
        plan->degrees[PEN_DEGREE_DP] > 1 || plan->degrees[PEN_DEGREE_CP] > 1;
    if (titan->is_old && !is_sharded && pen_plan_num_ranks(plan) > 1 &&
        plan->number != PEN_NUMBER_F32)
        pen__note(
            notes,
            "%s computes in float32 if nothing is sharded and there is "
            "tensor or pipeline parallelism; dp or cp above 1 avoids that",
            titan->program);
}

/*
 * Checks that a model can be named. 0.2.2 takes names; 0.3.0 takes numbers,
 * too, but not those of experts.
 */
static pen_status check_name(const struct pen__titan *titan,
                             const struct pen_plan *plan,
                             const struct pen_model *model,
                             struct pen_text *why)
{
    const struct pen__titan_flavour *flavour = pen__titan_flavour(model);
    bool is_named =
        flavour != NULL && (titan->is_old || flavour->configure != NULL);
    if (pen__titan_module(model) == NULL) {
        pen_why(why, "%s has no model with the layers of %s", titan->program,
                plan->model);
        return PEN_INVALID;
    }
    if (is_named || (!titan->is_old && model->num_experts == 0))
        return PEN_OK;
    pen_why(why,
            "%s selects these models by name, and has none with the sizes "
            "of %s",
            titan->program, plan->model);
    return PEN_INVALID;
}

static pen_status check_model(const struct pen__titan *titan,
                              const struct pen_plan *plan,
                              const struct pen_model *model,
                              struct pen_text *why)
{
    pen_status status = check_name(titan, plan, model, why);
    if (status != PEN_OK || plan->degrees[PEN_DEGREE_PP] == 1)
        return status;
    const char *module = pen__titan_module(model);
    bool has_pipeline = strcmp(module, "llama3") == 0 ||
                        strcmp(module, "deepseek_v3") == 0 || !titan->is_old;
    if (has_pipeline && !model->has_tied_embeddings)
        return PEN_OK;
    pen_why(why, "%s has no pipeline for %s; plan with pp 1", titan->program,
            has_pipeline ? "tied embeddings" : module);
    return PEN_INVALID;
}

pen_status pen__titan_fit(const struct pen__titan *titan, struct pen_plan *plan,
                          const struct pen_model *model, struct pen_text *notes,
                          struct pen_text *why)
{
    uint32_t tp = plan->degrees[PEN_DEGREE_TP];
    pen_status status = check_model(titan, plan, model, why);
    plan->target = PEN_TARGET_TORCHTITAN;
    plan->logical_replicas = plan->degrees[PEN_DEGREE_DP];
    if (tp > 1 && titan->is_old && !plan->has_sequence_parallel)
        pen__note(notes, "%s always splits sequences over tp", titan->program);
    plan->has_sequence_parallel =
        tp > 1 && (titan->is_old || plan->has_sequence_parallel);
    if (status == PEN_OK)
        status = pen__titan_fit_experts(titan, plan, notes, why);
    if (status == PEN_OK)
        status = pen__check_experts(plan, model, why);
    if (status == PEN_OK)
        status = pen__check_cuts(plan, model, why);
    if (status == PEN_OK)
        status = fit_schedule(titan, plan, notes, why);
    if (status != PEN_OK)
        return status;
    pen__nearest_recompute(plan, titan->program, notes);
    fit_sharding(titan, plan, notes);
    fit_numbers(titan, plan, notes);
    return pen__titan_fit_recipe(titan, plan, notes, why);
}

/* ---- what both versions write ---- */

void pen__titan_add_modules(const struct pen_model *model,
                            const struct pen_layer_range *stage,
                            const char *head, const char *quote,
                            const char *comma, struct pen_text *out)
{
    uint32_t first = pen__export_first_block(stage);
    uint32_t count = pen__export_num_blocks(model, stage);
    const char *before = "";
    if (pen__export_has_embedding(stage)) {
        pen_text_add(out, "%stok_embeddings%s", quote, quote);
        before = comma;
    }
    for (uint32_t i = 0; i < count; i++) {
        pen_text_add(out, "%s%slayers.%u%s", before, quote, first + i, quote);
        before = comma;
    }
    if (pen__export_has_head(model, stage))
        pen_text_add(out, "%s%snorm%s%s%s%s%s", before, quote, quote, comma,
                     quote, head, quote);
}

struct pen__titan_numbers pen__titan_numbers(const struct pen_plan *plan)
{
    uint32_t dp = plan->degrees[PEN_DEGREE_DP];
    bool is_sharded = plan->sharding != PEN_SHARDING_NONE;
    uint64_t local = plan->micro_batch;
    /* Without a pipeline the rest of the batch is accumulated. */
    if (plan->degrees[PEN_DEGREE_PP] > 1)
        local *= plan->num_microbatches;
    return (struct pen__titan_numbers){
        .replicas = is_sharded ? 1 : dp,
        .shards = is_sharded ? dp : 1,
        .reshard = plan->sharding == PEN_SHARDING_ZERO3 ? "always" : "never",
        .local_batch = local,
        .global_batch = pen_plan_global_batch(plan),
        .dtype = plan->number == PEN_NUMBER_F32 ? "float32" : "bfloat16"};
}

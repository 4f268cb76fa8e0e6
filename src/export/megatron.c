/*
 * Megatron-LM: megatron.args, one option of its training command line in a
 * line. Words with letters that a shell reads are quoted:
 *
 *   grep -v '^#' megatron.args | xargs torchrun ... pretrain_gpt.py
 */
#include "export/export_internal.h"
#include "export/megatron_layout.h"

#include <inttypes.h>
#include <math.h>

#define PROGRAM "Megatron-LM"

/* ---- the nearest plan ---- */

/* 1F1B, interleaved where a rank has several stages, and nothing else. */
static pen_status fit_schedule(struct pen_plan *plan, struct pen_text *notes,
                               struct pen_text *why)
{
    uint32_t pp = plan->degrees[PEN_DEGREE_PP];
    bool can_interleave = pp > 1 && plan->num_microbatches >= pp;
    if (!can_interleave)
        pen__nearest_merge(plan, PROGRAM, notes);
    return pen__nearest_schedule(
        plan, plan->degrees[PEN_DEGREE_VPP] > 1 ? "interleaved" : "1f1b",
        PROGRAM, notes, why);
}

static bool has_even_biases(const struct pen_model *model)
{
    return model->has_attention_out_bias == model->has_mlp_bias &&
           (!model->has_mlp_bias || model->has_qkv_bias);
}

static bool is_whole(double value)
{
    return value == floor(value);
}

/* What of a model the options have no word for; no layout depends on it. */
static void note_model(const struct pen_model *model, struct pen_text *notes)
{
    const struct pen_rope *rope = &model->rope;
    if (!has_even_biases(model))
        pen__note(notes,
                  "%s has biases in all projections, in queries, keys "
                  "and values, or in none: the others are left out",
                  PROGRAM);
    if (!is_whole(rope->theta) ||
        (rope->kind == PEN_ROPE_LINEAR && !is_whole(rope->factor)))
        pen__note(notes,
                  "%s takes a whole base and factor of rotary "
                  "positions: they are rounded",
                  PROGRAM);
    if (rope->kind == PEN_ROPE_LLAMA3 &&
        (rope->low_freq_factor != 1 || rope->high_freq_factor != 4 ||
         rope->original_positions != 8192))
        pen__note(notes,
                  "%s scales rotary positions from 8192 on, with "
                  "factors 1 and 4, and can only be told another one "
                  "for the whole",
                  PROGRAM);
}

/* Above 0 and of 32 bits. */
static void fit_seed(struct pen_plan *plan, struct pen_text *notes)
{
    uint64_t seed = plan->seed % UINT32_MAX;
    if (seed == 0)
        seed = 1;
    if (seed != plan->seed)
        pen__note(notes, "%s has seeds of 32 bits above 0: it is %" PRIu64,
                  PROGRAM, seed);
    plan->seed = seed;
}

static pen_status fit(struct pen_plan *plan, const struct pen_model *model,
                      struct pen_text *notes, struct pen_text *why)
{
    plan->target = PEN_TARGET_MEGATRON;
    plan->logical_replicas = plan->degrees[PEN_DEGREE_DP];
    if (plan->degrees[PEN_DEGREE_TP] == 1)
        plan->has_sequence_parallel = false;
    pen_status status = pen__refuse_degree(plan, PEN_DEGREE_EP, PROGRAM, why);
    if (status == PEN_OK)
        status = pen__check_cuts(plan, model, why);
    if (status == PEN_OK)
        status = fit_schedule(plan, notes, why);
    if (status != PEN_OK)
        return status;
    pen__nearest_recompute(plan, PROGRAM, notes);
    fit_seed(plan, notes);
    note_model(model, notes);
    return PEN_OK;
}

/* ---- options ---- */

static void add_flag(struct pen_text *out, const char *name)
{
    pen_text_add(out, "%s\n", name);
}

static void add_count(struct pen_text *out, const char *name, uint64_t value)
{
    pen_text_add(out, "%s %" PRIu64 "\n", name, value);
}

static void add_real(struct pen_text *out, const char *name, double value)
{
    pen_text_add(out, "%s ", name);
    pen_text_add_real(out, value);
    pen_text_add_string(out, "\n");
}

static void add_positions(const struct pen_model *model, struct pen_text *out)
{
    const struct pen_rope *rope = &model->rope;
    add_count(out, "--max-position-embeddings", model->max_positions);
    if (rope->kind == PEN_ROPE_NONE) {
        add_flag(out, "--position-embedding-type learned_absolute");
        return;
    }
    add_flag(out, "--position-embedding-type rope");
    add_count(out, "--rotary-base", (uint64_t)round(rope->theta));
    if (rope->kind == PEN_ROPE_LINEAR)
        add_count(out, "--rotary-seq-len-interpolation-factor",
                  (uint64_t)round(rope->factor));
    if (rope->kind == PEN_ROPE_LLAMA3) {
        add_flag(out, "--use-rope-scaling");
        add_real(out, "--rope-scaling-factor", rope->factor);
    }
}

static void add_attention(const struct pen_model *model, struct pen_text *out)
{
    add_count(out, "--num-attention-heads", model->num_heads);
    add_count(out, "--kv-channels", model->head_dim);
    if (model->num_kv_heads != model->num_heads) {
        add_flag(out, "--group-query-attention");
        add_count(out, "--num-query-groups", model->num_kv_heads);
    }
    if (model->has_qk_norm)
        add_flag(out, "--qk-layernorm");
    if (model->window == 0)
        return;
    /* Positions before the own one, and behind it. */
    pen_text_add(out, "--window-size \"(%u,0)\"\n", model->window - 1);
    if (model->first_window_block > 0 &&
        model->first_window_block < model->num_blocks)
        pen_text_add(out, "--window-attn-skip-freq \"([0]*%u+[1]*%u)\"\n",
                     model->first_window_block,
                     model->num_blocks - model->first_window_block);
}

static void add_model(const struct pen_model *model, struct pen_text *out)
{
    add_count(out, "--num-layers", model->num_blocks);
    add_count(out, "--hidden-size", model->hidden);
    add_count(out, "--ffn-hidden-size", model->intermediate);
    add_attention(model, out);
    add_positions(model, out);
    add_count(out, "--vocab-size", model->vocab);
    if (model->norm == PEN_MODEL_NORM_RMS)
        add_flag(out, "--normalization RMSNorm");
    add_real(out, "--norm-epsilon", model->norm_eps);
    if (model->activation == PEN_ACTIVATION_SILU)
        add_flag(out, "--swiglu");
    if (!model->has_mlp_bias || !has_even_biases(model))
        add_flag(out, "--disable-bias-linear");
    if (model->has_qkv_bias &&
        (!model->has_mlp_bias || !has_even_biases(model)))
        add_flag(out, "--add-qkv-bias");
    if (!model->has_tied_embeddings)
        add_flag(out, "--untie-embeddings-and-output-weights");
    add_flag(out, "--attention-dropout 0.0");
    add_flag(out, "--hidden-dropout 0.0");
}

static bool is_even_split(const struct pen_plan *plan,
                          const struct pen_model *model)
{
    uint32_t each = pen__export_num_blocks(model, &plan->stages[0]);
    for (uint32_t i = 0; i < plan->num_stages; i++)
        if (pen__export_num_blocks(model, &plan->stages[i]) != each)
            return false;
    return each > 0;
}

/* Micro-batches go through the chunks of a rank in groups. */
static uint32_t group_size(uint32_t pp, uint32_t num_microbatches)
{
    uint32_t size = pp;
    while (num_microbatches % size != 0 && num_microbatches % size < pp)
        size++;
    return size;
}

static void add_pipeline(const struct pen_plan *plan,
                         const struct pen_model *model, struct pen_text *out)
{
    uint32_t pp = plan->degrees[PEN_DEGREE_PP];
    uint32_t vpp = plan->degrees[PEN_DEGREE_VPP];
    add_count(out, "--pipeline-model-parallel-size", pp);
    if (pp > 1 && !is_even_split(plan, model)) {
        pen_text_add_string(out, "--pipeline-model-parallel-layout \"");
        pen__megatron_layout_print(plan, model, out);
        pen_text_add_string(out, "\"\n");
    } else if (vpp > 1) {
        add_count(out, "--num-layers-per-virtual-pipeline-stage",
                  model->num_blocks / plan->num_stages);
    }
    uint32_t group = vpp > 1 ? group_size(pp, plan->num_microbatches) : pp;
    if (group != pp)
        add_count(out, "--microbatch-group-size-per-virtual-pipeline-stage",
                  group);
}

static void add_sharding(enum pen_sharding sharding, struct pen_text *out)
{
    add_flag(out, "--overlap-grad-reduce");
    if (sharding == PEN_SHARDING_NONE)
        return;
    add_flag(out, "--use-distributed-optimizer");
    add_flag(out, "--overlap-param-gather");
    if (sharding == PEN_SHARDING_ZERO1)
        return;
    add_flag(out, "--use-megatron-fsdp");
    pen_text_add(out, "--data-parallel-sharding-strategy %s\n",
                 sharding == PEN_SHARDING_ZERO2 ? "optim_grads"
                                                : "optim_grads_params");
    add_flag(out, "--no-gradient-accumulation-fusion");
    add_flag(out, "--ckpt-format fsdp_dtensor");
}

static void add_numbers(enum pen_number number, struct pen_text *out)
{
    if (number == PEN_NUMBER_BF16 || number == PEN_NUMBER_FP8)
        add_flag(out, "--bf16");
    if (number == PEN_NUMBER_FP16)
        add_flag(out, "--fp16");
    if (number == PEN_NUMBER_FP8)
        add_flag(out, "--fp8-format hybrid");
}

static void add_recompute(enum pen_recompute recompute, struct pen_text *out)
{
    if (recompute == PEN_RECOMPUTE_SELECTIVE) {
        add_flag(out, "--recompute-granularity selective");
        add_flag(out, "--recompute-modules core_attn");
    } else if (recompute == PEN_RECOMPUTE_FULL) {
        add_flag(out, "--recompute-granularity full");
        add_flag(out, "--recompute-method uniform");
        add_flag(out, "--recompute-num-layers 1");
    }
}

static void add_layout(const struct pen_plan *plan,
                       const struct pen_model *model, struct pen_text *out)
{
    const uint32_t *degrees = plan->degrees;
    add_count(out, "--tensor-model-parallel-size", degrees[PEN_DEGREE_TP]);
    if (plan->has_sequence_parallel)
        add_flag(out, "--sequence-parallel");
    add_pipeline(plan, model, out);
    if (degrees[PEN_DEGREE_CP] > 1)
        add_count(out, "--context-parallel-size", degrees[PEN_DEGREE_CP]);
    add_sharding(plan->sharding, out);
    add_recompute(plan->stages[0].recompute, out);
}

static pen_status write(const struct pen_export_job *job,
                        struct pen_export_files *out, struct pen_text *why)
{
    const struct pen_plan *plan = job->plan;
    struct pen_text *args = pen__export_open(out, "megatron.args");
    (void)why;
    pen__export_add_head(&pen__export_megatron, job, args);
    add_model(job->model, args);
    add_count(args, "--seq-length", plan->sequence);
    add_count(args, "--micro-batch-size", plan->micro_batch);
    add_count(args, "--global-batch-size", pen_plan_global_batch(plan));
    add_numbers(plan->number, args);
    add_count(args, "--seed", plan->seed);
    add_layout(plan, job->model, args);
    return PEN_OK;
}

const struct pen_export pen__export_megatron = {
    "megatron", "0.20.0", "options of " PROGRAM " (core 0.20.0)", fit, write};

/*
 * nanotron: nanotron.yaml with the sections that a plan knows of; data,
 * tokenizer, logging and learning rate are the user's.
 */
#include "export/export_internal.h"

#include <inttypes.h>

#define PROGRAM "nanotron"

/* ---- the nearest plan ---- */

static pen_status check_model(const struct pen_plan *plan,
                              const struct pen_model *model,
                              struct pen_text *why)
{
    if (model->activation == PEN_ACTIVATION_SILU &&
        model->norm == PEN_MODEL_NORM_RMS && !model->has_qk_norm &&
        !model->has_qkv_bias && !model->has_mlp_bias && model->window == 0 &&
        model->num_experts == 0 && model->family != PEN_FAMILY_GENERAL)
        return PEN_OK;
    pen_why(why, "%s has no model with the layers of %s", PROGRAM, plan->model);
    return PEN_INVALID;
}

static void fit_choices(struct pen_plan *plan, struct pen_text *notes)
{
    pen__nearest_whole_recompute(plan, PROGRAM, notes);
    if (plan->sharding > PEN_SHARDING_ZERO1) {
        pen__note(notes, "%s has only ZeRO 0 and 1: the export uses 1",
                  PROGRAM);
        plan->sharding = PEN_SHARDING_ZERO1;
    }
    if (pen_number_is_narrow(plan->number)) {
        pen__note(notes, "%s has no %s: the export uses bf16", PROGRAM,
                  pen_number_names[plan->number]);
        plan->number = PEN_NUMBER_BF16;
    }
    if (plan->degrees[PEN_DEGREE_PP] > 1)
        pen__note(notes,
                  "%s cuts the model into stages itself; they may differ from "
                  "the plan",
                  PROGRAM);
}

static pen_status fit(struct pen_plan *plan, const struct pen_model *model,
                      struct pen_text *notes, struct pen_text *why)
{
    plan->logical_replicas = plan->degrees[PEN_DEGREE_DP];
    if (plan->degrees[PEN_DEGREE_TP] == 1)
        plan->has_sequence_parallel = false;
    pen_status status = check_model(plan, model, why);
    if (status == PEN_OK)
        status = pen__refuse_degree(plan, PEN_DEGREE_EP, PROGRAM, why);
    if (status == PEN_OK)
        status = pen__check_cuts(plan, model, why);
    plan->recipe.modules = 0; /* layers are recomputed whole */
    if (status == PEN_OK)
        status = pen__check_recipe(plan, "", PROGRAM, why);
    if (status != PEN_OK)
        return status;
    pen__nearest_merge(plan, PROGRAM, notes);
    fit_choices(plan, notes);
    return pen__nearest_schedule(
        plan, pen__schedule_is(plan, "gpipe") ? "gpipe" : "1f1b", PROGRAM,
        notes, why);
}

/* ---- nanotron.yaml ---- */

static const char *dtype_of(enum pen_number number)
{
    return number == PEN_NUMBER_F32    ? "float32"
           : number == PEN_NUMBER_FP16 ? "float16"
                                       : "bfloat16";
}

static void add_model(const struct pen_plan *plan,
                      const struct pen_model *model, struct pen_text *out)
{
    pen_text_add(out,
                 "model:\n  dtype: %s\n  model_config:\n"
                 "    is_llama_config: true\n    hidden_act: silu\n"
                 "    hidden_size: %u\n    intermediate_size: %u\n"
                 "    num_hidden_layers: %u\n    num_attention_heads: %u\n"
                 "    num_key_value_heads: %u\n"
                 "    max_position_embeddings: %u\n    vocab_size: %u\n"
                 "    tie_word_embeddings: %s\n    rms_norm_eps: ",
                 dtype_of(plan->number), model->hidden, model->intermediate,
                 model->num_blocks, model->num_heads, model->num_kv_heads,
                 model->max_positions, model->vocab,
                 model->has_tied_embeddings ? "true" : "false");
    pen_text_add_real(out, model->norm_eps);
    pen_text_add_string(out, "\n    rope_theta: ");
    pen_text_add_real(out, model->rope.theta);
    pen_text_add_string(out, "\n");
}

static pen_status write(const struct pen_export_job *job,
                        struct pen_export_files *out, struct pen_text *why)
{
    const struct pen_plan *plan = job->plan;
    const uint32_t *degrees = plan->degrees;
    struct pen_text *yaml = pen__export_open(out, "nanotron.yaml");
    (void)why;
    pen__export_add_head(&pen__export_nanotron, job, yaml);
    pen_text_add(yaml, "general:\n  seed: %" PRIu64 "\n", plan->seed);
    add_model(plan, job->model, yaml);
    pen_text_add(yaml, "optimizer:\n  zero_stage: %d\n", (int)plan->sharding);
    pen_text_add(yaml,
                 "parallelism:\n  dp: %u\n  pp: %u\n  tp: %u\n"
                 "  context_parallel_size: %u\n  expert_parallel_size: 1\n"
                 "  pp_engine: %s\n  tp_mode: %s\n"
                 "  tp_linear_async_communication: %s\n"
                 "  recompute_layer: %s\n",
                 degrees[PEN_DEGREE_DP], degrees[PEN_DEGREE_PP],
                 degrees[PEN_DEGREE_TP], degrees[PEN_DEGREE_CP],
                 pen__schedule_is(plan, "gpipe") ? "afab" : "1f1b",
                 plan->has_sequence_parallel ? "REDUCE_SCATTER" : "ALL_REDUCE",
                 plan->has_sequence_parallel ? "true" : "false",
                 plan->stages[0].recompute == PEN_RECOMPUTE_FULL ? "true"
                                                                 : "false");
    pen_text_add(yaml,
                 "tokens:\n  micro_batch_size: %u\n"
                 "  batch_accumulation_per_replica: %u\n"
                 "  sequence_length: %u\n",
                 plan->micro_batch, plan->num_microbatches, plan->sequence);
    return PEN_OK;
}

const struct pen_export pen__export_nanotron = {
    "nanotron", "0.4", "sections for a configuration of " PROGRAM,
    fit,        write, false};

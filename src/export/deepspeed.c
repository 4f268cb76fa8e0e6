/*
 * DeepSpeed: ds_config.json, and pipeline.py, since JSON cannot say the number
 * of stages and where they are cut. JSON has no comments, either, so notes are
 * in pipeline.py.
 */
#include "export/job.h"

#include <inttypes.h>

#define PROGRAM "DeepSpeed"

/* ---- the nearest plan ---- */

static void fit_sharding(struct pen_plan *plan, struct pen_text *notes)
{
    enum pen_sharding most = PEN_SHARDING_ZERO3;
    if (plan->degrees[PEN_DEGREE_PP] > 1)
        most = PEN_SHARDING_ZERO1;
    else if (plan->degrees[PEN_DEGREE_TP] > 1)
        most = PEN_SHARDING_ZERO2;
    if (plan->sharding <= most)
        return;
    pen__note(notes, "%s supports at most ZeRO %d with %s: the export uses it",
              PROGRAM, (int)most,
              most == PEN_SHARDING_ZERO1 ? "a pipeline" : "shared tensors");
    plan->sharding = most;
}

/* Sequences are cut by heads, and in addition only the batch may be cut. */
static pen_status fit_sequences(struct pen_plan *plan,
                                const struct pen_model *model,
                                struct pen_text *notes, struct pen_text *why)
{
    uint32_t tp = plan->degrees[PEN_DEGREE_TP];
    uint32_t cp = plan->degrees[PEN_DEGREE_CP];
    if (cp > 1 && (tp > 1 || plan->degrees[PEN_DEGREE_PP] > 1)) {
        pen_why(why,
                "%s splits sequences neither in a pipeline nor with tensor "
                "parallelism; plan with cp 1, or with pp 1 and tp 1",
                PROGRAM);
        return PEN_INVALID;
    }
    if (model->num_heads % cp != 0) {
        pen_why(why, "cp %u does not divide %u heads", cp, model->num_heads);
        return PEN_INVALID;
    }
    if (cp > 1)
        pen__note(notes,
                  "%s splits sequences only with its own attention "
                  "(UlyssesSPAttentionHF): register it with the model",
                  PROGRAM);
    if (plan->has_sequence_parallel && tp > 1)
        pen__note(notes, "%s does not split norms and dropout over tp",
                  PROGRAM);
    plan->has_sequence_parallel = false;
    return PEN_OK;
}

/* The optimizer is made by the user's program. */
static pen_status fit_recipe(struct pen_plan *plan, struct pen_text *notes,
                             struct pen_text *why)
{
    struct pen_recipe *recipe = &plan->recipe;
    recipe->modules = 0; /* layers are recomputed whole */
    pen_status status = pen__check_recipe(
        plan, "optimizer offload_optimizer gradient_bytes", PROGRAM, why);
    if (status != PEN_OK)
        return status;
    if (plan->expert_tp != 0) {
        pen_why(why,
                "%s shares the tensors of experts as all others; plan without "
                "--etp",
                PROGRAM);
        return PEN_INVALID;
    }
    if (recipe->offloads_optimizer && plan->sharding == PEN_SHARDING_NONE) {
        pen_why(why,
                "%s offloads the optimizer with ZeRO only; plan with "
                "--sharding zero1",
                PROGRAM);
        return PEN_INVALID;
    }
    if (recipe->gradient_bytes != 0 && plan->number != PEN_NUMBER_BF16) {
        pen_why(why,
                "%s accumulates gradients of 2 bytes in bf16 only; plan with "
                "--dtype bf16",
                PROGRAM);
        return PEN_INVALID;
    }
    if (recipe->optimizer != PEN_OPTIMIZER_ADAM)
        pen__note(notes, "%s: your program has to make the optimizer, %s",
                  PROGRAM, pen_optimizer_names[recipe->optimizer]);
    return PEN_OK;
}

static pen_status fit(struct pen_plan *plan, const struct pen_model *model,
                      struct pen_text *notes, struct pen_text *why)
{
    plan->target = PEN_TARGET_DEEPSPEED;
    plan->logical_replicas = plan->degrees[PEN_DEGREE_DP];
    pen_status status = plan->degrees[PEN_DEGREE_PP] > 1
                            ? pen__refuse_degree(plan, PEN_DEGREE_EP,
                                                 PROGRAM " in a pipeline", why)
                            : pen__check_experts(plan, model, why);
    if (status == PEN_OK)
        status = pen__check_cuts(plan, model, why);
    if (status == PEN_OK)
        status = fit_sequences(plan, model, notes, why);
    if (status != PEN_OK)
        return status;
    pen__nearest_merge(plan, PROGRAM, notes);
    pen__nearest_whole_recompute(plan, PROGRAM, notes);
    fit_sharding(plan, notes);
    if (pen_number_is_narrow(plan->number)) {
        pen__note(notes, "%s has no %s: the export uses bf16", PROGRAM,
                  pen_number_names[plan->number]);
        plan->number = PEN_NUMBER_BF16;
    }
    if (plan->degrees[PEN_DEGREE_PP] > 1 && plan->degrees[PEN_DEGREE_TP] > 1)
        pen__note(notes,
                  "%s does not split tensors in a pipeline: the layers must do "
                  "it, over the model axis of the topology",
                  PROGRAM);
    status = fit_recipe(plan, notes, why);
    return status == PEN_OK
               ? pen__nearest_schedule(plan, "1f1b", PROGRAM, notes, why)
               : status;
}

/* ---- ds_config.json ---- */

static void write_config(const struct pen_plan *plan, struct pen_text *out)
{
    const uint32_t *degrees = plan->degrees;
    pen_text_add(out,
                 "{\n  \"train_batch_size\": %" PRIu64 ",\n"
                 "  \"train_micro_batch_size_per_gpu\": %u,\n"
                 "  \"gradient_accumulation_steps\": %u,\n"
                 "  \"zero_optimization\": {\"stage\": %d%s%s}",
                 pen_plan_global_batch(plan), plan->micro_batch,
                 plan->num_microbatches, (int)plan->sharding,
                 plan->sharding > PEN_SHARDING_NONE ? ", \"overlap_comm\": true"
                                                    : "",
                 plan->recipe.offloads_optimizer
                     ? ", \"offload_optimizer\": {\"device\": \"cpu\", "
                       "\"pin_memory\": true}"
                     : "");
    if (plan->recipe.gradient_bytes == 2)
        pen_text_add_string(
            out, ",\n  \"data_types\": {\"grad_accum_dtype\": \"bf16\"}");
    if (plan->number != PEN_NUMBER_F32)
        pen_text_add(out, ",\n  \"%s\": {\"enabled\": true}",
                     pen_number_names[plan->number]);
    if (degrees[PEN_DEGREE_PP] > 1)
        pen_text_add(out,
                     ",\n  \"pipeline\": "
                     "{\"activation_checkpoint_interval\": %d}",
                     plan->stages[0].recompute == PEN_RECOMPUTE_FULL);
    else if (degrees[PEN_DEGREE_TP] > 1)
        pen_text_add(out, ",\n  \"tensor_parallel\": {\"autotp_size\": %u}",
                     degrees[PEN_DEGREE_TP]);
    if (degrees[PEN_DEGREE_EP] > 1)
        pen_text_add(out,
                     ",\n  \"expert_parallel\": "
                     "{\"enabled\": true, \"autoep_size\": %u}",
                     degrees[PEN_DEGREE_EP]);
    pen_text_add_string(out, "\n}\n");
}

/* ---- pipeline.py ---- */

static void add_parts(const struct pen_plan *plan, struct pen_text *out)
{
    pen_text_add_string(out, "PARTS = [0");
    for (uint32_t i = 0; i < plan->num_stages; i++)
        pen_text_add(out, ",%s%u", i % 12 == 11 ? "\n         " : " ",
                     plan->stages[i].first + plan->stages[i].count);
    pen_text_add_string(out, "]\n");
}

static void write_pipeline(const struct pen_plan *plan, struct pen_text *out)
{
    const uint32_t *degrees = plan->degrees;
    pen_text_add_string(
        out, "from deepspeed.pipe import PipelineModule\n"
             "from deepspeed.runtime.pipe.topology import (\n"
             "    PipeModelDataParallelTopology)\n\n"
             "# Where stages begin: layer 0 is the embedding, the last one the "
             "head.\n");
    add_parts(plan, out);
    pen_text_add(
        out,
        "\n\nclass PlannedModule(PipelineModule):\n"
        "    \"\"\"Cuts the layers where the plan does.\"\"\"\n\n"
        "    def _partition_layers(self, method=None):\n"
        "        stage = self._topo.get_coord(self.global_rank).pipe\n"
        "        self.parts = list(PARTS)\n"
        "        self._set_bounds(start=PARTS[stage], stop=PARTS[stage + 1])\n"
        "\n\ndef pipeline(layers, **options):\n"
        "    if len(layers) != PARTS[-1]:\n"
        "        raise ValueError(\n"
        "            f\"{len(layers)} layers, the plan has {PARTS[-1]}\")\n"
        "    return PlannedModule(\n"
        "        layers=layers,\n"
        "        topology=PipeModelDataParallelTopology(\n"
        "            num_pp=%u, num_mp=%u, num_dp=%u),\n"
        "        activation_checkpoint_interval=%d, **options)\n",
        degrees[PEN_DEGREE_PP], degrees[PEN_DEGREE_TP], degrees[PEN_DEGREE_DP],
        plan->stages[0].recompute == PEN_RECOMPUTE_FULL);
}

static void write_plain(const struct pen_plan *plan, struct pen_text *out)
{
    uint32_t cp = plan->degrees[PEN_DEGREE_CP];
    pen_text_add_string(
        out, "import deepspeed\n\n\n"
             "def initialize(model, **options):\n"
             "    \"\"\"There is one stage: the model is trained as it "
             "is.\"\"\"\n");
    if (plan->stages[0].recompute == PEN_RECOMPUTE_FULL)
        pen_text_add_string(out, "    model.gradient_checkpointing_enable()\n");
    /* Ranks as (data, sequence); the model's attention has to know of it. */
    if (cp > 1)
        pen_text_add(out, "    options[\"mesh_param\"] = (%u, %u)\n",
                     plan->degrees[PEN_DEGREE_DP], cp);
    pen_text_add_string(out, "    return deepspeed.initialize(\n"
                             "        model=model, config=\"ds_config.json\", "
                             "**options)\n");
}

static pen_status write(const struct pen_export_job *job,
                        struct pen_export_files *out, struct pen_text *why)
{
    (void)why;
    write_config(job->plan, pen__export_open(out, "ds_config.json"));
    struct pen_text *pipeline = pen__export_open(out, "pipeline.py");
    pen__export_add_head(&pen__export_deepspeed, job, pipeline);
    if (job->plan->degrees[PEN_DEGREE_PP] > 1)
        write_pipeline(job->plan, pipeline);
    else
        write_plain(job->plan, pipeline);
    pen__export_add_job(&pen__export_deepspeed, job, pen__launch_of(job->plan),
                        out);
    return PEN_OK;
}

const struct pen_export pen__export_deepspeed = {
    "deepspeed", "0.19.6", "configuration of " PROGRAM " 0.19.6",
    fit,         write,    false};

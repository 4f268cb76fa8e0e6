/*
 * Megatron-LM: megatron.args, one option of its training command line in a
 * line. Words with letters that a shell reads are quoted:
 *
 *   grep -v '^#' megatron.args | xargs torchrun ... pretrain_gpt.py
 */
#include "export/job.h"
#include "export/megatron_layout.h"
#include "export/megatron_options.h"
#include "export/megatron_recipe.h"

#include <inttypes.h>

#define PROGRAM "Megatron-LM"

/* ---- the nearest plan ---- */

/*
 * Fits the schedule: 1F1B, interleaved where a rank has several stages, and
 * nothing else.
 */
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

/* Above 0 and of 32 bits. A seed of 0 was not given: it needs no note. */
static void fit_seed(struct pen_plan *plan, struct pen_text *notes)
{
    uint64_t seed = plan->seed % UINT32_MAX;
    if (seed == 0)
        seed = 1;
    if (seed != plan->seed && plan->seed != 0)
        pen__note(notes,
                  "%s has 32-bit seeds above 0: the export uses %" PRIu64,
                  PROGRAM, seed);
    plan->seed = seed;
}

/* Experts that share tensors need cut sequences. */
static void fit_sequences(struct pen_plan *plan, const struct pen_model *model,
                          struct pen_text *notes)
{
    if (plan->degrees[PEN_DEGREE_TP] == 1) {
        plan->has_sequence_parallel = false;
    } else if (model->num_experts > 0 && !plan->has_sequence_parallel) {
        plan->has_sequence_parallel = true;
        pen__note(notes,
                  "%s always splits sequences over tp if there are experts",
                  PROGRAM);
    }
}

static pen_status fit_plan(const struct pen__megatron *version,
                           struct pen_plan *plan, const struct pen_model *model,
                           struct pen_text *notes, struct pen_text *why)
{
    plan->target = PEN_TARGET_MEGATRON;
    plan->logical_replicas = plan->degrees[PEN_DEGREE_DP];
    fit_sequences(plan, model, notes);
    pen_status status = pen__megatron_note_model(plan, model, notes, why);
    if (status == PEN_OK)
        status = pen__check_experts(plan, model, why);
    if (status == PEN_OK)
        status = pen__check_cuts(plan, model, why);
    if (status == PEN_OK)
        status = fit_schedule(plan, notes, why);
    if (status != PEN_OK)
        return status;
    pen__nearest_recompute(plan, PROGRAM, notes);
    fit_seed(plan, notes);
    return pen__megatron_fit_recipe(version, plan, model, notes, why);
}

/* ---- options ---- */

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
    pen__megatron_add_count(out, "--pipeline-model-parallel-size", pp);
    if (pp > 1 && !is_even_split(plan, model)) {
        pen_text_add_string(out, "--pipeline-model-parallel-layout \"");
        pen_megatron_layout_print(plan, model, out);
        pen_text_add_string(out, "\"\n");
    } else if (vpp > 1) {
        pen__megatron_add_count(out, "--num-layers-per-virtual-pipeline-stage",
                                model->num_blocks / plan->num_stages);
    }
    uint32_t group = vpp > 1 ? group_size(pp, plan->num_microbatches) : pp;
    if (group != pp)
        pen__megatron_add_count(
            out, "--microbatch-group-size-per-virtual-pipeline-stage", group);
}

static void add_numbers(enum pen_number number, struct pen_text *out)
{
    if (pen_number_beside(number) == PEN_NUMBER_BF16)
        pen__megatron_add_flag(out, "--bf16");
    if (number == PEN_NUMBER_FP16)
        pen__megatron_add_flag(out, "--fp16");
    if (number == PEN_NUMBER_FP8) {
        pen__megatron_add_flag(out, "--fp8-format hybrid");
        pen__megatron_add_flag(out, "--fp8-recipe tensorwise");
    }
    if (number == PEN_NUMBER_MXFP8) {
        pen__megatron_add_flag(out, "--fp8-format e4m3");
        pen__megatron_add_flag(out, "--fp8-recipe mxfp8");
    }
    if (number == PEN_NUMBER_NVFP4)
        pen__megatron_add_flag(out, "--fp4-format e2m1");
}

static void add_layout(const struct pen__megatron *version,
                       const struct pen_plan *plan,
                       const struct pen_model *model, struct pen_text *out)
{
    const uint32_t *degrees = plan->degrees;
    pen__megatron_add_count(out, "--tensor-model-parallel-size",
                            degrees[PEN_DEGREE_TP]);
    if (plan->has_sequence_parallel)
        pen__megatron_add_flag(out, "--sequence-parallel");
    add_pipeline(plan, model, out);
    if (degrees[PEN_DEGREE_CP] > 1)
        pen__megatron_add_count(out, "--context-parallel-size",
                                degrees[PEN_DEGREE_CP]);
    if (degrees[PEN_DEGREE_EP] > 1)
        pen__megatron_add_count(out, "--expert-model-parallel-size",
                                degrees[PEN_DEGREE_EP]);
    pen__megatron_add_recipe(version, plan, model, out);
}

static void write_plan(const struct pen_export *exporter,
                       const struct pen__megatron *version,
                       const struct pen_export_job *job,
                       struct pen_export_files *out)
{
    const struct pen_plan *plan = job->plan;
    struct pen_text *args = pen__export_open(out, "megatron.args");
    pen__export_add_head(exporter, job, args);
    if (version->is_new)
        pen_text_add_string(args, "# not judged: no release has all of these "
                                  "options; their names were checked\n");
    pen__megatron_add_model(job->model, args);
    pen__megatron_add_count(args, "--seq-length", plan->sequence);
    pen__megatron_add_count(args, "--micro-batch-size", plan->micro_batch);
    pen__megatron_add_count(args, "--global-batch-size",
                            pen_plan_global_batch(plan));
    add_numbers(plan->number, args);
    pen__megatron_add_flag(args, "--cross-entropy-loss-fusion");
    pen__megatron_add_count(args, "--seed", plan->seed);
    add_layout(version, plan, job->model, args);
    pen__export_add_job(exporter, job, pen__launch_of(plan), out);
}

/* ---- the versions ---- */

static const struct pen__megatron released = {PROGRAM " 0.16.1", false};

static pen_status fit(struct pen_plan *plan, const struct pen_model *model,
                      struct pen_text *notes, struct pen_text *why)
{
    return fit_plan(&released, plan, model, notes, why);
}

static pen_status write(const struct pen_export_job *job,
                        struct pen_export_files *out, struct pen_text *why)
{
    (void)why;
    write_plan(&pen__export_megatron, &released, job, out);
    return PEN_OK;
}

const struct pen_export pen__export_megatron = {
    "megatron", "0.16.1", "options of " PROGRAM " (core 0.16.1)",
    fit,        write,    false};

static const struct pen__megatron newest = {PROGRAM " of August 2026", true};

static pen_status fit_newest(struct pen_plan *plan,
                             const struct pen_model *model,
                             struct pen_text *notes, struct pen_text *why)
{
    return fit_plan(&newest, plan, model, notes, why);
}

static pen_status write_newest(const struct pen_export_job *job,
                               struct pen_export_files *out,
                               struct pen_text *why)
{
    (void)why;
    write_plan(&pen__export_megatron_2026, &newest, job, out);
    return PEN_OK;
}

const struct pen_export pen__export_megatron_2026 = {
    "megatron", "2026.08",    "options of " PROGRAM " of August 2026",
    fit_newest, write_newest, true};

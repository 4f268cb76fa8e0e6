/* torchtitan 0.2.2: torchtitan.toml, and schedule.csv. */
#include "export/job.h"
#include "export/torchtitan.h"

#include <inttypes.h>

static const struct pen__titan titan = {"torchtitan 0.2.2", true};

static pen_status fit(struct pen_plan *plan, const struct pen_model *model,
                      struct pen_text *notes, struct pen_text *why)
{
    return pen__titan_fit(&titan, plan, model, notes, why);
}

static void add_parts(const struct pen_export_job *job, struct pen_text *out)
{
    pen_text_add_string(out, "module_fqns_per_model_part = [\n");
    for (uint32_t i = 0; i < job->plan->num_stages; i++) {
        pen_text_add_string(out, "    [");
        pen__titan_add_modules(job->model, &job->plan->stages[i], "output",
                               "\"", ", ", out);
        pen_text_add_string(out, "],\n");
    }
    pen_text_add_string(out, "]\n");
}

static pen_status add_pipeline(const struct pen_export_job *job,
                               struct pen_text *out, struct pen_text *csv,
                               struct pen_text *why)
{
    const char *schedule;
    if (job->plan->degrees[PEN_DEGREE_PP] == 1)
        return PEN_OK;
    pen_status status = pen__titan_schedule(job->plan, &schedule, csv, why);
    if (status != PEN_OK)
        return status;
    pen_text_add(out, "pipeline_parallel_schedule = \"%s\"\n", schedule);
    if (csv->length > 0)
        pen_text_add_string(
            out, "pipeline_parallel_schedule_csv = \"schedule.csv\"\n");
    pen_text_add(out, "pipeline_parallel_microbatch_size = %u\n",
                 job->plan->micro_batch);
    add_parts(job, out);
    return PEN_OK;
}

static void add_head(const struct pen_export_job *job, struct pen_text *out)
{
    const struct pen_plan *plan = job->plan;
    const struct pen__titan_flavour *flavour = pen__titan_flavour(job->model);
    struct pen__titan_numbers numbers = pen__titan_numbers(plan);
    pen_text_add(out, "[model]\nname = \"%s\"\nflavor = \"%s\"\n",
                 flavour->module, flavour->flavour);
    if (plan->number == PEN_NUMBER_FP8)
        pen_text_add_string(out, "converters = [\"quantize.linear.float8\"]\n");
    pen_text_add(out,
                 "\n[training]\nlocal_batch_size = %" PRIu64
                 "\nglobal_batch_size = %" PRIu64
                 "\nseq_len = %u\ndtype = \"float32\"\n"
                 "mixed_precision_param = \"%s\"\n",
                 numbers.local_batch, numbers.global_batch, plan->sequence,
                 numbers.dtype);
    pen_text_add(out, "\n[debug]\nseed = %" PRIu64 "\n", plan->seed);
}

static void add_degrees(const struct pen_plan *plan, struct pen_text *out)
{
    struct pen__titan_numbers numbers = pen__titan_numbers(plan);
    pen_text_add(out,
                 "\n[parallelism]\n"
                 "data_parallel_replicate_degree = %u\n"
                 "data_parallel_shard_degree = %u\n"
                 "fsdp_reshard_after_forward = \"%s\"\n"
                 "tensor_parallel_degree = %u\n"
                 "context_parallel_degree = %u\n"
                 "expert_parallel_degree = %u\n"
                 "pipeline_parallel_degree = %u\n",
                 numbers.replicas, numbers.shards, numbers.reshard,
                 plan->degrees[PEN_DEGREE_TP], plan->degrees[PEN_DEGREE_CP],
                 plan->degrees[PEN_DEGREE_EP], plan->degrees[PEN_DEGREE_PP]);
    if (plan->degrees[PEN_DEGREE_EP] > 1)
        pen_text_add(out,
                     "expert_tensor_parallel_degree = %u\n"
                     "expert_parallel_comm_backend = \"%s\"\n",
                     pen_expert_tp(plan->degrees, plan->expert_tp),
                     plan->recipe.dispatcher == PEN_DISPATCHER_DEEPEP
                         ? "deepep"
                         : "standard");
    if (pen__titan_can_overlap(plan))
        pen_text_add(out, "pipeline_parallel_expert_parallel_overlap = %s\n",
                     plan->recipe.overlaps_experts ? "true" : "false");
}

static pen_status write(const struct pen_export_job *job,
                        struct pen_export_files *out, struct pen_text *why)
{
    enum pen_recompute recompute = job->plan->stages[0].recompute;
    struct pen_text csv = PEN_TEXT_EMPTY;
    struct pen_text *toml = pen__export_open(out, "torchtitan.toml");
    pen__export_add_head(&pen__export_torchtitan_022, job, toml);
    add_head(job, toml);
    add_degrees(job->plan, toml);
    pen_status status = add_pipeline(job, toml, &csv, why);
    pen_text_add(toml, "\n[activation_checkpoint]\nmode = \"%s\"\n",
                 pen_recompute_names[recompute]);
    if (recompute == PEN_RECOMPUTE_SELECTIVE)
        pen_text_add_string(toml, "selective_ac_option = \"op\"\n");
    if (csv.length > 0)
        *pen__export_open(out, "schedule.csv") = csv;
    else
        pen_text_release(&csv);
    if (status == PEN_OK)
        pen__export_add_job(&pen__export_torchtitan_022, job,
                            &pen__launch_titan_022, out);
    return status;
}

const struct pen_export pen__export_torchtitan_022 = {
    "torchtitan", "0.2.2", "configuration of torchtitan 0.2.2",
    fit,          write,   false};

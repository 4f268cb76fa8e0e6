/*
 * Slurm: job.sbatch, which starts the program that the plan is for with the
 * files that the other exporters write, in the folder where they lie.
 */
#include "export/export_internal.h"

#include <inttypes.h>

#define USUAL_NODE 8u

static pen_status fit(struct pen_plan *plan, const struct pen_model *model,
                      struct pen_text *notes, struct pen_text *why)
{
    (void)model;
    (void)why;
    if (plan->node_size == 0) {
        plan->node_size = USUAL_NODE;
        pen__note(
            notes,
            "the plan does not have the number of devices per node: %u are "
            "assumed",
            USUAL_NODE);
    }
    return PEN_OK;
}

/* As many on each node as fill it best, and everywhere the same. */
static uint32_t ranks_of_node(const struct pen_plan *plan)
{
    uint64_t num_ranks = pen_plan_num_ranks(plan);
    uint32_t count = plan->node_size;
    while (num_ranks % count != 0)
        count--;
    return count;
}

/* ---- the script ---- */

static void add_resources(const struct pen_plan *plan, uint32_t tasks,
                          uint32_t ranks, struct pen_text *out)
{
    pen_text_add(out,
                 "#SBATCH --job-name=penstock\n#SBATCH --nodes=%" PRIu64 "\n"
                 "#SBATCH --ntasks-per-node=%u\n",
                 pen_plan_num_ranks(plan) / ranks, tasks);
    if (plan->target != PEN_TARGET_PENSTOCK)
        pen_text_add(out, "#SBATCH --gpus-per-node=%u\n", ranks);
    pen_text_add_string(out, "#SBATCH --output=%x-%j.out\n\n"
                             "set -euo pipefail\n");
}

static void add_penstock(const struct pen_plan *plan, struct pen_text *out)
{
    pen_text_add(out,
                 "# MODEL and DATA have to be set; MPI is pmix for Open MPI, "
                 "pmi2 for MPICH.\n"
                 "srun --mpi=\"${MPI:-pmix}\" --kill-on-bad-exit=1 \\\n"
                 "    \"${PENSTOCK:-penstock}\" train --plan "
                 "\"${PLAN:-plan.json}\" \\\n"
                 "    --model \"${MODEL:?}\" --data-path \"${DATA:?}\" "
                 "--seq-length %u%s \"$@\"\n",
                 plan->sequence,
                 plan->number == PEN_NUMBER_BF16 ? " --bf16" : "");
}

/* One process of torchrun on each node. */
static void add_torchrun(const struct pen_plan *plan, uint32_t ranks,
                         struct pen_text *out)
{
    pen_text_add(out,
                 "first=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | "
                 "head -n 1)\n"
                 "srun --kill-on-bad-exit=1 torchrun --nnodes %" PRIu64
                 " --nproc-per-node %u \\\n"
                 "    --rdzv-id \"$SLURM_JOB_ID\" --rdzv-backend c10d \\\n"
                 "    --rdzv-endpoint \"$first:${PORT:-29500}\" \\\n",
                 pen_plan_num_ranks(plan) / ranks, ranks);
}

static void add_options(const char *file, struct pen_text *out)
{
    pen_text_add(out, "mapfile -t options < <(grep -v '^#' %s | xargs -n 1)\n",
                 file);
}

static void add_program(const struct pen_plan *plan, uint32_t ranks,
                        struct pen_text *out)
{
    switch (plan->target) {
    case PEN_TARGET_MEGATRON:
        add_options("megatron.args", out);
        add_torchrun(plan, ranks, out);
        pen_text_add_string(out, "    \"${SCRIPT:-pretrain_gpt.py}\" "
                                 "\"${options[@]}\" \"$@\"\n");
        break;
    case PEN_TARGET_TORCHTITAN:
        add_options("torchtitan.args", out);
        pen_text_add_string(out, "export PYTHONPATH=$PWD:${PYTHONPATH:-}\n");
        add_torchrun(plan, ranks, out);
        pen_text_add_string(out, "    -m torchtitan.train \"${options[@]}\" "
                                 "\"$@\"\n");
        break;
    case PEN_TARGET_DEEPSPEED:
        add_torchrun(plan, ranks, out);
        pen_text_add_string(out, "    \"${SCRIPT:-train.py}\" --deepspeed "
                                 "--deepspeed_config ds_config.json \"$@\"\n");
        break;
    case PEN_TARGET_PENSTOCK:
    case PEN_TARGETS:
        add_penstock(plan, out);
        break;
    }
}

static pen_status write(const struct pen_export_job *job,
                        struct pen_export_files *out, struct pen_text *why)
{
    const struct pen_plan *plan = job->plan;
    uint32_t ranks = ranks_of_node(plan);
    struct pen_text *script = pen__export_open(out, "job.sbatch");
    (void)why;
    pen_text_add_string(script, "#!/usr/bin/env bash\n");
    pen__export_add_head(&pen__export_sbatch, job, script);
    add_resources(plan, plan->target == PEN_TARGET_PENSTOCK ? ranks : 1, ranks,
                  script);
    add_program(plan, ranks, script);
    return PEN_OK;
}

const struct pen_export pen__export_sbatch = {"sbatch", NULL, "a job of Slurm",
                                              fit, write};

/*
 * settings.sh and job.sbatch. The job outlives its time limit:
 *
 *   queued -> running -> all steps done: exit 0
 *     ^          |
 *     +----------+ ended early, or failed, with a newer checkpoint than before
 *                |
 *                +-> failed without one, cancelled, or started too often: exit
 */
#include "export/job.h"

#include <inttypes.h>

#define USUAL_NODE 8u /* devices, where the plan does not say */
#define RANK_CPUS 8u  /* of a rank, where it does not have a node of its own */

/*
 * Returns the ranks of a node: as many as fill it best, the same on every node.
 */
static uint32_t ranks_of_node(const struct pen_plan *plan)
{
    uint64_t num_ranks = pen_plan_num_ranks(plan);
    uint32_t count = plan->node_size == 0 ? USUAL_NODE : plan->node_size;
    while (num_ranks % count != 0)
        count--;
    return count;
}

/* ---- settings.sh ---- */

static void write_settings(const struct pen_export *exporter,
                           const struct pen_export_job *job,
                           const struct pen__launch *launch,
                           struct pen_text *out)
{
    pen__export_add_head(exporter, job, out);
    pen_text_add(out,
                 "#\n# Fill in the first block, then submit in this folder: "
                 "sbatch job.sbatch\n"
                 "# job.sbatch reads this file. A variable of the environment "
                 "comes first.\n\n"
                 "# ---- to fill in ----\n%s\n"
                 "# ---- may stay ----\n%s",
                 launch->fill, launch->keep);
    if (launch->environment[0] != '\0')
        pen_text_add(out, "\n# ---- environment ----\n%s", launch->environment);
    if (job->plan->recipe.offloaded != 0)
        pen_text_add_string(out, "# Activations are offloaded, weights are "
                                 "not.\nexport NVTE_CPU_OFFLOAD_V1=1\n");
}

/* ---- job.sbatch ---- */

static void add_resources(const struct pen_plan *plan,
                          const struct pen__launch *launch,
                          struct pen_text *out)
{
    uint32_t ranks = ranks_of_node(plan);
    uint32_t tasks = launch->has_torchrun ? 1 : ranks;
    pen_text_add(out,
                 "#SBATCH --job-name=penstock\n#SBATCH --nodes=%" PRIu64 "\n"
                 "#SBATCH --ntasks-per-node=%u\n",
                 pen_plan_num_ranks(plan) / ranks, tasks);
    if (launch->has_torchrun)
        pen_text_add(out, "#SBATCH --gpus-per-node=%u\n", ranks);
    if (ranks == plan->node_size || plan->node_size == 0)
        pen_text_add_string(out, "#SBATCH --exclusive\n");
    else
        pen_text_add(out, "#SBATCH --cpus-per-task=%u\n",
                     RANK_CPUS * ranks / tasks);
    pen_text_add_string(
        out, "#SBATCH --time=08:00:00\n"
             "#SBATCH --requeue\n"
             "#SBATCH --open-mode=append\n"
             "#SBATCH --output=%x-%j.out\n"
             "# B: the signal comes to this shell, up to a minute early.\n"
             "#SBATCH --signal=B:USR1@300\n\n");
}

static void add_checks(const struct pen__launch *launch, struct pen_text *out)
{
    pen_text_add(
        out,
        "set -uo pipefail\n"
        "most_restarts=20\n"
        "if [ ! -f settings.sh ]; then\n"
        "    echo \"settings.sh is not here: submit in the folder of "
        "job.sbatch\" >&2\n"
        "    exit 2\n"
        "fi\n"
        ". ./settings.sh\n"
        "for name in %s; do\n"
        "    if [ -z \"${!name}\" ]; then\n"
        "        echo \"settings.sh: fill in $name\" >&2\n"
        "        exit 2\n"
        "    fi\n"
        "done\n\n"
        "# The last step that has a checkpoint; 0 when there is none.\n"
        "last_step() {\n"
        "    local step\n"
        "    step=$(%s 2>/dev/null)\n"
        "    [[ $step =~ ^[0-9]+$ ]] || step=0\n"
        "    echo $((10#$step))\n"
        "}\n\n"
        "before=$(last_step)\n%s",
        launch->names, launch->last_step, launch->prepare);
}

/* Words of job.sbatch's own command line come last, and so count. */
static void add_start(const struct pen_plan *plan,
                      const struct pen__launch *launch, struct pen_text *out)
{
    uint32_t ranks = ranks_of_node(plan);
    pen_text_add(out,
                 "cpus=$((${SLURM_CPUS_ON_NODE:-1} / %u))\n"
                 "[ \"$cpus\" -gt 0 ] || cpus=1\n",
                 launch->has_torchrun ? 1 : ranks);
    if (launch->has_torchrun)
        pen_text_add(
            out,
            "first=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | "
            "head -n 1)\n"
            "srun --kill-on-bad-exit=1 --cpus-per-task=\"$cpus\" \\\n"
            "    torchrun --nnodes %" PRIu64 " --nproc-per-node %u \\\n"
            "    --rdzv-id \"$SLURM_JOB_ID\" --rdzv-backend c10d \\\n"
            "    --rdzv-endpoint \"$first:${PORT:-29500}\" \\\n",
            pen_plan_num_ranks(plan) / ranks, ranks);
    else
        pen_text_add_string(out, "srun --mpi=\"$MPI\" --kill-on-bad-exit=1 "
                                 "--cpus-per-task=\"$cpus\" \\\n");
    pen_text_add(out, "    %s", launch->program);
    if (!launch->has_torchrun) {
        pen_text_add(out, " \\\n    --threads \"$cpus\" --seq-length %u%s",
                     plan->sequence,
                     plan->number == PEN_NUMBER_BF16 ? " --bf16" : "");
    }
    pen_text_add_string(out, " \"$@\" &\ntraining=$!\n");
}

static void add_wait(const struct pen__launch *launch, struct pen_text *out)
{
    if (launch->has_torchrun)
        pen_text_add_string(out,
                            "\n# Shortly before the time limit: srun ends the "
                            "ranks, and the job queues again.\n"
                            "trap 'has_signal=1; kill -TERM \"$training\"' "
                            "USR1\n");
    else
        pen_text_add_string(out,
                            "\n# srun hands USR1 on to all ranks: a "
                            "checkpoint, and the training continues.\n"
                            "trap 'has_signal=1; kill -USR1 \"$training\"' "
                            "USR1\n");
    pen_text_add_string(out, "trap 'has_signal=1' TERM\n"
                             "has_signal=1\n"
                             "while [ \"$has_signal\" = 1 ]; do\n"
                             "    has_signal=0\n"
                             "    wait \"$training\"\n"
                             "    code=$?\n"
                             "done\n\n"
                             "step=$(last_step)\n");
}

static void add_end(const struct pen__launch *launch, struct pen_text *out)
{
    pen_text_add(
        out,
        "if [ \"$code\" = 0 ]%s; then\n"
        "    exit 0\n"
        "fi\n"
        "# A cancelled job stays cancelled.\n"
        "[ \"$(squeue -h -j \"$SLURM_JOB_ID\" -o %%T)\" = RUNNING ] || exit "
        "\"$code\"\n"
        "# Without a newer checkpoint the next start would end as this one.\n"
        "if [ \"$step\" -le \"$before\" ] ||\n"
        "    [ \"${SLURM_RESTART_COUNT:-0}\" -ge \"$most_restarts\" ]; then\n"
        "    echo \"exit code $code at step $step of $STEPS; not queued "
        "again\" >&2\n"
        "    exit $((code == 0 ? 1 : code))\n"
        "fi\n"
        "echo \"exit code $code at step $step of $STEPS; queued again\" >&2\n"
        "scontrol requeue \"$SLURM_JOB_ID\"\n",
        launch->ends_early ? " && [ \"$step\" -ge \"$STEPS\" ]" : "");
}

void pen__export_add_job(const struct pen_export *exporter,
                         const struct pen_export_job *job,
                         const struct pen__launch *launch,
                         struct pen_export_files *out)
{
    write_settings(exporter, job, launch, pen__export_open(out, "settings.sh"));
    struct pen_text *script = pen__export_open(out, "job.sbatch");
    pen_text_add_string(script, "#!/usr/bin/env bash\n");
    pen__export_add_head(exporter, job, script);
    pen_text_add_string(script, "#\n# Fill in settings.sh, then submit in this "
                                "folder: sbatch job.sbatch\n");
    add_resources(job->plan, launch, script);
    add_checks(launch, script);
    add_start(job->plan, launch, script);
    add_wait(launch, script);
    add_end(launch, script);
}

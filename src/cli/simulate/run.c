/* Simulations, and how far they are. */
#include "cli/simulate/run.h"

static uint64_t steps_of(const struct pen__simulate_job *job)
{
    return (uint64_t)job->simulation.platform.num_ranks *
           job->simulation.num_steps;
}

void pen__simulate_runs_begin(struct pen__simulate_runs *runs,
                              struct pen__simulate_job *job, uint32_t count)
{
    *runs = (struct pen__simulate_runs){.job = job,
                                        .num_all = count * steps_of(job)};
    pen__progress_init(&runs->progress, "steps of ranks");
}

void pen__simulate_runs_end(struct pen__simulate_runs *runs)
{
    pen__progress_finish(&runs->progress);
}

static void show(void *context, const struct pen_sim_progress *progress)
{
    struct pen__simulate_runs *runs = context;
    struct pen_text note = PEN_TEXT_EMPTY;
    pen_text_add(&note, "%u of %u ranks started, %.3g s simulated",
                 progress->num_started,
                 runs->job->simulation.platform.num_ranks,
                 progress->simulated_sec);
    pen__progress_update(&runs->progress, runs->num_done + progress->num_steps,
                         runs->num_all, pen_text_string(&note));
    pen_text_release(&note);
}

pen_status pen__simulate_run(struct pen__simulate_runs *runs,
                             const struct pen_disturbances *disturbances,
                             struct pen_sim_result *out, struct pen_text *why)
{
    struct pen_simulation simulation = runs->job->simulation;
    simulation.disturbances = disturbances;
    simulation.progress = show;
    simulation.progress_context = runs;
    pen_status status = pen_simulate(&simulation, out, why);
    runs->num_done += steps_of(runs->job);
    return status;
}

#ifndef PEN_CLI_SIMULATE_RUN_H
#define PEN_CLI_SIMULATE_RUN_H

#include "cli/program/progress.h"
#include "cli/simulate/make.h"

/* Runs of one plan, with a line on the terminal that shows their progress. */
struct pen__simulate_runs {
    struct pen__simulate_job *job; /* borrowed */
    struct pen__progress progress;
    uint64_t num_done; /* steps of all ranks, in runs before */
    uint64_t num_all;  /* of all runs together */
};

void pen__simulate_runs_begin(struct pen__simulate_runs *runs,
                              struct pen__simulate_job *job, uint32_t count);
void pen__simulate_runs_end(struct pen__simulate_runs *runs);

/* Runs the next one, with these disturbances or none, like pen_simulate(). */
pen_status pen__simulate_run(struct pen__simulate_runs *runs,
                             const struct pen_disturbances *disturbances,
                             struct pen_sim_result *out, struct pen_text *why);

#endif

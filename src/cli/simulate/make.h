#ifndef PEN_CLI_SIMULATE_MAKE_H
#define PEN_CLI_SIMULATE_MAKE_H

#include "cli/plan/options.h"
#include "cli/simulate/options.h"
#include "planner/simulated.h"
#include "sim/simulation.h"

/* A plan made ready to be simulated, and what the planner says of it. */
struct pen__simulate_job {
    struct pen_plan *plan;
    struct pen__planning planning;
    struct pen_simulated simulated;
    struct pen_any_model model; /* borrowed from the planning */
    struct pen_sim_part *parts;
    uint64_t *devices;             /* first one of every rank */
    struct pen_cluster measured;   /* all ranks joined by a profile's link, */
    struct pen_device_group group; /* with these two */
    struct pen_link_level level;
    struct pen_simulation simulation;
    double predicted_sec; /* of a step */
};

/* Reads the files that the options name. Close it in either case. */
pen_status pen__simulate_job_open(struct pen__simulate_job *job,
                                  const struct pen__simulate_args *args,
                                  struct pen_text *why);

/* Makes the job from a plan and a setting that are in it already. */
pen_status pen__simulate_job_make(struct pen__simulate_job *job,
                                  const struct pen__simulate_args *args,
                                  struct pen_text *why);
void pen__simulate_job_close(struct pen__simulate_job *job);

/*
 * Returns the seconds of a step: of those after the first, where there are
 * several.
 */
double pen__simulate_step_sec(const struct pen_sim_result *result);

#endif

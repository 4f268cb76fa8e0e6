#ifndef PEN_CLI_SIMULATE_SWEEP_H
#define PEN_CLI_SIMULATE_SWEEP_H

#include "cli/simulate/make.h"

/* Runs the sweep of the options, prints it and draws it; the exit code. */
int pen__simulate_sweep(struct pen__simulate_job *job,
                        const struct pen__simulate_args *args);

#endif

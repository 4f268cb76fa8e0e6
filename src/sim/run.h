#ifndef PEN_SIM_RUN_H
#define PEN_SIM_RUN_H

#include "runtime/batches.h"
#include "runtime/trainer.h"
#include "sim/link_load.h"
#include "sim/simulation.h"
#include "sim/timed_network.h"

#include <stdio.h>

/*
 * The state that the ranks of a simulation share: they take turns in one
 * process.
 */
struct pen__run {
    const struct pen_simulation *simulation;
    struct pen_layer_range *ranges; /* per part */
    bool **is_fine; /* per row and op: layers of the op end one by one, for
                       their gradients are final then */
    struct pen_sim_progress *progress; /* of the process that waits for it */
    struct pen_sim_result *result;
    double *ends; /* of steps, over all ranks */
    struct pen__link_load *load;
    uint32_t num_finished;
    struct pen_text why; /* of the rank that failed first */
};

/* Runs one rank; called by SimGrid with the run's address in argv[1]. */
void pen__run_rank(int argc, char **argv);

/* Runs a simulation in this process, which has run none before. */
pen_status pen__run_here(const struct pen_simulation *simulation,
                         struct pen_sim_progress *progress,
                         struct pen_sim_result *out, struct pen_text *why);

/* Write and read a result, in a file that only this program reads. */
bool pen__result_write(const struct pen_sim_result *result, FILE *to);
bool pen__result_read(struct pen_sim_result *result, FILE *from);

/* The trace that a rank writes to; PEN__NO_LINE: none. */
#define PEN__NO_LINE UINT32_MAX
uint32_t pen__result_line(const struct pen_mesh *mesh, uint32_t rank);

/* Makes room for ranks, steps and, where asked for, the events of the steps. */
pen_status pen__result_init(struct pen_sim_result *result,
                            const struct pen_simulation *simulation);

#endif

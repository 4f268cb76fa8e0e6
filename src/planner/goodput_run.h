#ifndef PEN_PLANNER_GOODPUT_RUN_H
#define PEN_PLANNER_GOODPUT_RUN_H

#include "base/random.h"
#include "planner/goodput.h"

/*
 * One simulated job or island. Each call returns at the end of a step or of a
 * save.
 *
 *   total steps = on_disk + since; since = interval: a save is due
 */

/* Spare nodes, and those that come back from repair, the first one first. */
struct pen__spares {
    double back[PEN_GOODPUT_MAX_SPARES + 1];
    uint32_t first;
    uint32_t num_away;
    uint32_t free;
};

struct pen__goodput_run {
    const struct pen_goodput_job *job;
    struct pen__spares *spares; /* of all islands; NULL: no limit */
    struct pen_random random;
    double mtbf_sec;
    double num_nodes;
    double wall_sec;
    double failure_sec; /* the next one */
    double end_sec;     /* after it a recovery succeeds, and nothing fails */
    uint64_t on_disk;
    uint64_t since;
};

void pen__goodput_run_init(struct pen__goodput_run *run,
                           const struct pen_goodput_job *job,
                           struct pen__spares *spares, uint64_t seed,
                           double end_sec);

/* Works until this time, or longer where that is within a recovery. */
void pen__goodput_run_until(struct pen__goodput_run *run, double wall_sec);

/* Works until `count` more steps are done; returns the time then. */
double pen__goodput_run_steps(struct pen__goodput_run *run, uint64_t count);

/* Waits, and recovers from failures meanwhile. */
void pen__goodput_run_wait(struct pen__goodput_run *run, double wall_sec);

#endif

#ifndef PEN_SCHEDULE_CORRECTION_H
#define PEN_SCHEDULE_CORRECTION_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The correction by which a method without a flush compensates its delays, in
 * addition to keeping versions. A schedule fixes the order; the runtime
 * computes the correction.
 */
enum pen_correction {
    PEN_CORRECTION_NONE,
    PEN_CORRECTION_MOMENTUM, /* weights predicted along the momentum */
    PEN_CORRECTION_ADAM,     /* likewise along Adam's direction */
    PEN_CORRECTION_AVERAGE,  /* backward at weights of the past, estimated */
    PEN_CORRECTION_SPIKE,    /* the gradient makes up for its delay */
    PEN_CORRECTION_AHEAD     /* stored versions, predicted over the delay */
};

/*
 * Cures that a user may add against delays, to any schedule whose steps
 * overlap. Step numbers are those of the run, from 0, so that a resumed run has
 * the same cures.
 */
struct pen_cures {
    uint64_t stale_after;    /* steps before it are synchronous: the pipeline
                                drains after each, and nothing is corrected */
    uint64_t discount_steps; /* K: stale step k < K takes the learning rate
                                divided by (1 + t)^(1 - k/K), t the delay of the
                                stage in steps; 0: none */
    bool predicts; /* what is read one step late is predicted: AHEAD */
};

#endif

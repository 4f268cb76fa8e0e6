#ifndef PEN_RUNTIME_CORRECTIONS_H
#define PEN_RUNTIME_CORRECTIONS_H

#include "engine/mirror.h"
#include "runtime/optimizer.h"
#include "schedule/correction.h"
#include "schedule/op.h"

/*
 * The arithmetic of schedule/correction.h on the parameters of one stage. With
 * k the stage, counted from 0, of p, delay d = p-1-k micro-batches, N
 * micro-batches per step, w the newest weights, e the learning rate:
 *
 *   MOMENTUM  F at w - s e v, s = floor(k/2) + d; B with s = floor(k/2)
 *   ADAM      F at w - s e m' / (sqrt(v') + epsilon), s = steps that come
 *             between this forward and the step of its gradient; one
 *             prediction for all micro-batches of a step
 *   AVERAGE   B at w - t a, t = d / N, a' = c a + (1-c) (w' - w),
 *             c = 0.135^(1/t); the step with e / max(t, 1)^q,
 *             q = 1 - min(steps / anneal_steps, 1)
 *   SPIKE     F at w - d e v; v' = u v + g, w' = w - e (u^d v' + b g),
 *             b = (1 - u^d) / (1 - u), u the momentum
 *
 *   AHEAD     F and B of a batch that reads version w one step late at
 *             w - s e m' / (sqrt(v') + epsilon) with Adam, at w - s e v with
 *             SGD, s = 1, moments as they were at w; w itself is stepped
 *
 * Cures of the user come on top: see schedule/correction.h.
 *
 * v of the momentum methods is SGD's moment, m' and v' are Adam's, unbiased.
 */
struct pen_correction_setup {
    enum pen_correction kind;
    const struct pen_optimizer *optimizer; /* borrowed */
    uint32_t stage;                        /* k */
    uint32_t num_stages;                   /* p */
    uint32_t period;                       /* N */
    uint64_t anneal_steps;                 /* of the learning rate */
    struct pen_cures cures;
    uint32_t most_late; /* steps between what ops read and make, at most */
};

/*
 * How far from the newest weights, in steps, the ones lie that an op of this
 * kind reads; 0: it reads stored ones. With ADAM it depends on the version of
 * the op and the step (of the pass) that its micro-batch belongs to.
 */
double pen_correction_distance(const struct pen_correction_setup *setup,
                               const struct pen_op *op);

/* True when changes of the weights are to be averaged. */
bool pen_correction_averages(const struct pen_correction_setup *setup);

/* Where a stage is when it reads or steps. */
struct pen_correction_moment {
    double learning_rate; /* of the coming step */
    uint64_t steps;       /* that the run has made in this stage */
    double norm;          /* of all gradients, for a step that clips */
};

/* Whether the coming step is one of those that are synchronous. */
static inline bool
pen_correction_is_flushed(const struct pen_correction_setup *setup,
                          const struct pen_correction_moment *at)
{
    return at->steps < setup->cures.stale_after;
}

/* Mirrors that predicting and stepping need, each for the largest parameter. */
enum { PEN_CORRECTION_MIRRORS = 3 };

/* Moves the value of a parameter; `average` is that of AVERAGE, or NULL. */
void pen_correction_predict(const struct pen_correction_setup *setup,
                            struct pen_mirror *mirrors,
                            struct pen_network *network, size_t parameter,
                            double distance, const float *average,
                            const struct pen_correction_moment *at);

/* Steps a parameter, as pen_optimizer_step() or as the method does. */
void pen_correction_step(const struct pen_correction_setup *setup,
                         struct pen_mirror *mirrors,
                         struct pen_network *network, size_t parameter,
                         const struct pen_correction_moment *at);

/* Updates an average with a value from before and after a step. */
void pen_correction_average(const struct pen_correction_setup *setup,
                            size_t count, const float *before,
                            const float *behind, float *average);

#endif

#ifndef PEN_RUNTIME_REPLICAS_INTERNAL_H
#define PEN_RUNTIME_REPLICAS_INTERNAL_H

#include "runtime/replicas.h"

/* Hooks of the trainer. */
void pen__replicas_free(struct pen_replicas *replicas);
void pen__replicas_poll(struct pen_replicas *replicas);
pen_status
pen__replicas_before_step(struct pen_replicas *replicas,
                          const struct pen_step *step) PEN_MUST_CHECK;

/* In place of the optimizer of the run, or with it; and what follows. */
pen_status pen__replicas_step(struct pen_replicas *replicas,
                              const struct pen_step *step) PEN_MUST_CHECK;

/*
 * At the end of a step: replaces the votes of this replica by those of all
 * replicas some steps before, the same on all of them. Where replicas do not
 * wait for each other each goes by its own, and saves when all do.
 */
pen_status pen__replicas_vote(struct pen_replicas *replicas,
                              struct pen_step *step) PEN_MUST_CHECK;

/* trainer_step.c: the optimizer of the run, on what this rank steps. */
void pen__trainer_optimize(struct pen_trainer *trainer,
                           const struct pen_step *step);

#endif

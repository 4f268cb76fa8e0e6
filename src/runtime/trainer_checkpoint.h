#ifndef PEN_RUNTIME_TRAINER_CHECKPOINT_H
#define PEN_RUNTIME_TRAINER_CHECKPOINT_H

#include "checkpoint/checkpoint.h"
#include "runtime/trainer.h"

/*
 * The state of a trainer out of a checkpoint (checkpointer.h: into one):
 * weights, moments, running
 * statistics, the number of steps and of the next sample. Learning rate and
 * order of data follow from those two, so this is all a run needs to resume
 * exactly. Where replicas have weights of their own, it is the one model that
 * they stand for; pen_replicas_load() has the rest.
 */

/* Refused when the checkpoint is of another model or kind of optimizer. */
pen_status pen_trainer_load(struct pen_trainer *trainer,
                            const struct pen_checkpoint *checkpoint,
                            struct pen_text *why);

#endif

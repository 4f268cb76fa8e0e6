#ifndef PEN_RUNTIME_TRAINER_CHECKPOINT_H
#define PEN_RUNTIME_TRAINER_CHECKPOINT_H

#include "core/checkpoint.h"
#include "runtime/trainer.h"

/*
 * The state of a trainer in and out of checkpoints: weights, moments, running
 * statistics, the number of steps and of the next sample. Learning rate and
 * order of data follow from those two, so this is all a run needs to go on
 * exactly.
 */

/* Puts all tensors and fills in the manifest, but for its settings. */
pen_status pen_trainer_put(struct pen_trainer *trainer,
                           struct pen_checkpoint_writer *writer,
                           struct pen_text *why);

/* Refused when the checkpoint is of another model or kind of optimizer. */
pen_status pen_trainer_load(struct pen_trainer *trainer,
                            const struct pen_checkpoint *checkpoint,
                            struct pen_text *why);

#endif

#ifndef PEN_RUNTIME_TENSORBOARD_H
#define PEN_RUNTIME_TENSORBOARD_H

#include "base/status.h"
#include "base/text.h"
#include "core/run_log.h"

/*
 * The event file that TensorBoard reads: scalars by tag and step. The tags are
 * train/loss, train/grad_norm, train/learning_rate, validation/loss,
 * speed/tokens_per_sec, speed/share_of_peak, speed/step_ms and memory/bytes.
 */
struct pen_tensorboard;

/*
 * Makes a new file, events.out.tfevents.TIME.HOST.PID.0, in the directory,
 * which is made where it is missing. A training that did last_step steps before
 * makes TensorBoard drop later steps of older files.
 *
 * Refused with the name of the package when this library was built without
 * protobuf-c. On success *out is owned by the caller.
 */
pen_status pen_tensorboard_create(const char *directory, uint64_t last_step,
                                  struct pen_tensorboard **out,
                                  struct pen_text *why);

/*
 * Adds the scalars of a step; a val_loss or val_accuracy that is NaN is left
 * out. Does not allocate. When it fails (the disk is full) later steps may be
 * added.
 */
pen_status pen_tensorboard_add(struct pen_tensorboard *board,
                               const struct pen_run_step *step,
                               struct pen_text *why);

/* Borrowed until the board is freed. */
const char *pen_tensorboard_path(const struct pen_tensorboard *board);

void pen_tensorboard_free(struct pen_tensorboard *board);

#endif

#ifndef PEN_CLI_TRAIN_CHECK_H
#define PEN_CLI_TRAIN_CHECK_H

#include "cli/train/layout.h"
#include "cli/train/memory.h"

/* penstock train --check: everything before the first step, and no step. */

/*
 * Whether this process checks a plan of several ranks alone, without a
 * launcher. Checks that need all ranks, as making their networks, are left out
 * then.
 */
bool pen__train_check_stands_alone(const struct pen__train_layout *layout,
                                   const struct pen_transport *transport);

/* Refuses as the trainer would: this rank, or every rank of the plan. */
pen_status pen__train_check_ranks(const struct pen_trainer_options *options,
                                  const struct pen__train_layout *layout,
                                  struct pen_text *why);

/*
 * Like pen__train_check_memory(), for the rank that needs most: it has to fit
 * here, alone.
 */
pen_status
pen__train_check_fullest(const struct pen__train_memory_question *question,
                         struct pen_text *why);

/* The line that says that the training would start. */
void pen__train_check_print(const struct pen__train_args *args,
                            const struct pen__train_layout *layout,
                            uint32_t num_ranks, struct pen_text *out);

#endif

#ifndef PEN_CLI_TRAIN_RECOMPUTE_H
#define PEN_CLI_TRAIN_RECOMPUTE_H

#include "cli/train/options.h"

/*
 * Options on recomputation: --recompute-granularity for all stages or
 * --recompute-stages for each of them, and --recompute-modules for stages that
 * recompute selectively.
 */

/*
 * Reads and checks the words of the line. Modules alone make the granularity
 * selective. INVALID, with the reason, where the line is wrong.
 */
pen_status pen__train_recompute_read(struct pen__train_args *args,
                                     struct pen_text *why);

/* Fills in --recompute-stages, if given; there must be as many as stages. */
pen_status pen__train_recompute_set(const struct pen__train_args *args,
                                    struct pen_layer_range *stages,
                                    uint32_t num_stages, struct pen_text *why);

/* Whether a stage has this mode. */
bool pen__train_recompute_has(const struct pen__train_args *args,
                              enum pen_recompute recompute);

#endif

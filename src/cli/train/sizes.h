#ifndef PEN_CLI_TRAIN_SIZES_H
#define PEN_CLI_TRAIN_SIZES_H

#include "cli/train/options.h"
#include "core/model.h"
#include "core/model_cost.h"

/* Whether --schedule is a file, not a name of `penstock schedule list`. */
bool pen__train_schedule_is_file(const char *text);

/*
 * A schedule file has its ranks and micro-batches: sets --pp and the global
 * batch where they are not given, and refuses others. *num_ranks are the ranks
 * of the job; with --check one process stands for all of them. Without a
 * schedule file it does nothing.
 */
pen_status pen__train_take_sizes(struct pen__train_args *args,
                                 uint32_t *num_ranks, struct pen_text *why);

/*
 * Whether the line speaks of stages, or of shares. Without them an image model
 * is trained by one rank, which needs no schedule.
 */
bool pen__train_has_stages(const struct pen__train_args *args);

/*
 * Gives each stage as many sections of a model that --local-updates cut; does
 * nothing for another model.
 */
pen_status pen__train_set_sections(const struct pen_model *model,
                                   struct pen_layer_range *stages,
                                   uint32_t num_stages, struct pen_text *why);

/*
 * Cuts the layers of the stages as --stage-layers says, if given. There must be
 * a number for each stage, and all layers of the model in a stage.
 */
pen_status pen__train_set_layers(const struct pen__train_args *args,
                                 struct pen_layer_range *stages,
                                 uint32_t num_stages, uint32_t num_layers,
                                 struct pen_text *why);

#endif

#ifndef PEN_CLI_TRAIN_CHECKPOINT_H
#define PEN_CLI_TRAIN_CHECKPOINT_H

#include "cli/train/options.h"
#include "runtime/checkpointer.h"
#include "runtime/pretrained.h"
#include "runtime/trainer.h"

/* Checkpoints of penstock train: the trainer's state and the settings. */

struct pen__train_saver_wish {
    struct pen__train_args *args; /* must stay, as the id */
    const struct pen_pretrained *pretrained;
    const struct pen_checkpoint *loaded; /* NULL: the run starts */
    const char *run_id;
};

/*
 * Makes what writes checkpoints to --save: in the background where there are to
 * be several, else in the foreground.
 */
pen_status pen__train_saver_create(const struct pen__train_saver_wish *wish,
                                   struct pen_trainer *trainer,
                                   struct pen_checkpointer **out,
                                   struct pen_text *why);

/* Fills in the settings of a manifest; the context are the arguments. */
pen_status pen__train_fill_manifest(void *args, struct pen_manifest *manifest,
                                    struct pen_text *why);

/* Whether the options that were given, and all settings, are those of it. */
bool pen__train_is_same_command(const struct pen__train_args *args,
                                const struct pen_manifest *manifest);

/* The line that says which weights were loaded. */
void pen__train_tell_loaded(const struct pen_pretrained *pretrained);

/*
 * Resumes from a checkpoint; warns where settings differ from those of its run.
 */
pen_status pen__train_resume(const struct pen__train_args *args,
                             const struct pen_checkpoint *checkpoint,
                             struct pen_trainer *trainer, bool is_telling,
                             struct pen_text *why);

/* Whether an option may change when a run is resumed without changing it. */
bool pen__train_is_free(const char *name);

#endif

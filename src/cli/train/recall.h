#ifndef PEN_CLI_TRAIN_RECALL_H
#define PEN_CLI_TRAIN_RECALL_H

#include "base/status.h"
#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The options of the run that a checkpoint is of, so that `train --load DIR`
 * can resume it. Checkpoints before format version 3 have only those settings
 * that change numbers, not the number of steps or the layout.
 */
struct pen__recall {
    json_t *options;      /* by name, each a list of words; owned */
    struct pen_text from; /* path of the step */
    uint32_t num_ranks;   /* 0: not known */
};

/*
 * Reads the options of a checkpoint. Settings with a value of `usual`, which
 * are those of a line without options, are left out. Release in any case.
 */
pen_status pen__recall_load(struct pen__recall *recall, const char *load,
                            const json_t *usual, struct pen_text *why);
void pen__recall_release(struct pen__recall *recall);

/* Whether a run resumes with this option; of a layout, only on equal ranks. */
bool pen__recall_takes(const char *name);
bool pen__recall_is_layout(const char *name);

/* Adds " --lr 1e-3", with quotes where a shell needs them. */
void pen__option_print(const char *name, const json_t *words,
                       struct pen_text *out);

#endif

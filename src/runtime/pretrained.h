#ifndef PEN_RUNTIME_PRETRAINED_H
#define PEN_RUNTIME_PRETRAINED_H

#include "checkpoint/checkpoint.h"
#include "core/any_model.h"
#include "core/weights.h"

/*
 * A model by the name that users give it: "preset:gpt2", a config.json, a
 * directory with config.json and perhaps weights, a step of a run, or a run,
 * whose newest step is meant.
 */
struct pen_pretrained {
    struct pen_any_model model;
    const struct pen_weights *weights; /* NULL where there are none */
    struct pen_text directory;         /* "" where it has none */

    struct pen_weights *opened;        /* weights are this one's, */
    struct pen_checkpoint *checkpoint; /* or this one's */
};

/* On success release. A checkpoint is verified. */
pen_status pen_pretrained_open(struct pen_pretrained *pretrained,
                               const char *source, struct pen_text *why);

/* Call this once the weights are loaded: their pages are no longer needed. */
void pen_pretrained_close_weights(struct pen_pretrained *pretrained);

void pen_pretrained_release(struct pen_pretrained *pretrained);

#endif

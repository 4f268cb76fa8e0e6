#ifndef PEN_RUNTIME_TRAINER_INTERNAL_H
#define PEN_RUNTIME_TRAINER_INTERNAL_H

#include "runtime/trainer.h"

/* What the files of the trainer share. */
struct pen_trainer {
    struct pen_trainer_options options;
    struct pen_engine *engine;
    struct pen_network *network;
    struct pen_trainer_progress progress;
    size_t num_labels; /* whose accuracy is told; 0: it is not */

    char *arena; /* holds all below */
    size_t arena_bytes;
    void *stash;
    struct pen_batch batch; /* of micro_batch samples */
};

/*
 * Bytes that writing a checkpoint takes for a while: the largest parameter as
 * a plain array, or a block of a file.
 */
size_t pen__trainer_saving_bytes(const struct pen_trainer *trainer);

/* trainer_model.c: what depends on the kind of the model. */

/* Whether model and samples fit each other. */
pen_status pen__trainer_check_model(const struct pen_trainer_options *options,
                                    struct pen_text *why);

/* Sets the network and num_labels. */
pen_status pen__trainer_make_network(struct pen_trainer *trainer,
                                     struct pen_text *why);

#endif

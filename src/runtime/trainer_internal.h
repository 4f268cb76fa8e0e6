#ifndef PEN_RUNTIME_TRAINER_INTERNAL_H
#define PEN_RUNTIME_TRAINER_INTERNAL_H

#include "runtime/trainer.h"

/* What the files of the trainer share. */
struct pen_trainer {
    struct pen_trainer_options options;
    struct pen_engine *engine;
    struct pen_network *network;
    struct pen_trainer_progress progress;

    char *arena; /* holds all below */
    size_t arena_bytes;
    void *stash;
    int32_t *ids;     /* (micro_batch, sequence) */
    int32_t *targets; /* the same */
};

/*
 * Bytes that writing a checkpoint takes for a while: the largest parameter as
 * a plain array, or a block of a file.
 */
size_t pen__trainer_saving_bytes(const struct pen_trainer *trainer);

#endif

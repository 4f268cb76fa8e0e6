#ifndef PEN_PROFILER_CHAIN_H
#define PEN_PROFILER_CHAIN_H

#include "engine/mirror.h"
#include "network/network.h"
#include "profiler/profiler.h"
#include "profiler/samples.h"

/*
 * A chain: layers that follow each other, with all that a step of theirs needs.
 * A round is a step of two micro-batches, one with the whole backward and one
 * with the split one.
 */
struct pen__chain {
    const struct pen_model *model; /* borrowed */
    struct pen_network *network;
    uint32_t first_layer;
    uint32_t num_layers;
    uint64_t num_parameters; /* that it trains */
    uint64_t largest;        /* elements of the largest of them */

    char *arena; /* owned; holds all below */
    size_t arena_bytes;
    void *stash;
    void *hold;
    void *x;  /* of the first layer, in the stash; NULL if it embeds */
    void *y;  /* of the last, NULL if it is the head */
    void *dx; /* as x, but not in the stash */
    void *dy; /* as y */
    int32_t *ids;
    int32_t *targets;
    float *pixels;   /* of a network for images */
    double num_rows; /* tokens of a micro-batch, or images */
    uint64_t step;
    struct pen_mirror mirror; /* of a gradient */
    double *squares;          /* of one, in the arena */

    /* Filled by a pass, between its layers. */
    int64_t *layer_ns; /* owned */
    int64_t last_ns;
};

/* Prepares a chain. On success end with pen__chain_release(). */
pen_status pen__chain_init(struct pen__chain *chain,
                           const struct pen_profiler_options *options,
                           struct pen_engine *engine,
                           enum pen_recompute recompute, uint32_t first_layer,
                           uint32_t num_layers, struct pen_text *why);
void pen__chain_release(struct pen__chain *chain);

/* Where the seconds of a round go. */
struct pen__chain_samples {
    struct pen__samples passes[PEN_LAYER_KINDS][PEN_PASSES];
    struct pen__samples updates[PEN_UPDATES];
};

/*
 * Adds one sample of each pass of each kind of layer it has, and of all updates
 * but those below; NULL: none.
 */
void pen__chain_round(struct pen__chain *chain,
                      struct pen__chain_samples *samples);

/* Adds one sample of clearing all gradients; call it after the last round. */
void pen__chain_clear(struct pen__chain *chain,
                      struct pen__chain_samples *samples);

/*
 * Adds one sample of adding gradients to each other, as sums over replicas do.
 */
void pen__chain_add(struct pen__chain *chain,
                    struct pen__chain_samples *samples);

/* Returns the bytes of all that it holds, including parameters. */
size_t pen__chain_bytes(const struct pen__chain *chain);

#endif

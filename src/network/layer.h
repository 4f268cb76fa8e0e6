#ifndef PEN_NETWORK_LAYER_H
#define PEN_NETWORK_LAYER_H

#include "network/network.h"

/*
 * A layer as its network uses it: sizes and three passes. The network keeps the
 * input of every layer in the stash and the gradient of its output in the hold,
 * and hands both in; a layer lays out only what is between.
 */

struct pen__subspace;

/* One pass of one layer over one micro-batch. */
struct pen__pass {
    struct pen_engine *engine;
    struct pen_microbatch *microbatch;
    void *stash;   /* of this layer: from its forward to its backward weight */
    void *hold;    /* of this layer: from backward input to backward weight */
    void *scratch; /* of the network: until the pass ends */
    void *context; /* of this layer, that slices share; NULL without slices */
    void *slopes;  /* likewise */
    double *loss;  /* in staging: set by the forward of the head */
    const struct pen_tensor_share *tensor;    /* of a decoder */
    const struct pen_context_share *sequence; /* likewise */
    struct pen_group_request *requests;       /* of the network: see stream.h */
    const struct pen__subspace *subspace; /* of the stream; NULL: all of it */
    bool is_forward_only;
    bool measures; /* forward only, and running statistics change */
};

/* The chunks of a sequence that a pass has, by number: of its slice, or both of
 * its part. Rows are [chunk][batch][token]. */
struct pen__chunks {
    uint32_t count;
    uint32_t numbers[2];
};

static inline struct pen__chunks pen__chunks_of(const struct pen__pass *pass)
{
    const struct pen_context_share *share = pass->sequence;
    if (share->total > 1)
        return (struct pen__chunks){
            2, {share->part, 2 * share->total - 1 - share->part}};
    return (struct pen__chunks){1, {pass->microbatch->slice, 0}};
}

struct pen__layer;

/*
 * x is the input of the layer, dy the gradient of its output. y and dx are NULL
 * where the caller does not need them. x is NULL on the layer that reads the
 * data, y and dy are NULL on the layer that makes the loss. dx never overlaps
 * dy.
 */
struct pen__layer_ops {
    void (*free)(struct pen__layer *layer);
    void (*forward)(struct pen__layer *layer, const struct pen__pass *pass,
                    const void *x, void *y);
    void (*backward_input)(struct pen__layer *layer,
                           const struct pen__pass *pass, const void *x,
                           const void *dy, void *dx);
    void (*backward_weight)(struct pen__layer *layer,
                            const struct pen__pass *pass, const void *x,
                            const void *dy);
    /* Called after the last backward of a step. May be NULL. */
    void (*finish_gradients)(struct pen__layer *layer,
                             struct pen_engine *engine);
    /* Adds the routings counted since the last call. May be NULL. */
    void (*take_routings)(struct pen__layer *layer, struct pen_routings *sum);
    /* Clears gradients that the engine does not have. May be NULL. */
    void (*clear_gradients)(struct pen__layer *layer);
};

/* The head of every layer's own struct. Bytes are multiples of 64. */
struct pen__layer {
    const struct pen__layer_ops *ops;
    size_t input_bytes;
    size_t output_bytes;
    size_t stash_bytes;
    size_t hold_bytes;
    size_t scratch_bytes;
    size_t context_bytes; /* of all slices, as the next */
    size_t slopes_bytes;
    bool has_own_loss; /* and output: reads no dy (local.c) */
};

/* Rounds up to a multiple of 64, so that every array begins on a line. */
static inline size_t pen__align(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

#endif

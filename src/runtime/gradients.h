#ifndef PEN_RUNTIME_GRADIENTS_H
#define PEN_RUNTIME_GRADIENTS_H

#include "network/network.h"

/*
 * Sums the gradients of a stage over the logical replicas that it computes one
 * after the other, as the tree of layout.h wants it: like a binary counter,
 * where sums of equal size join. Their number is a power of two, so that the
 * sum is one node of the tree, or that of all. With one replica nothing is kept
 * and nothing is to be done.
 *
 * Where replicas of the pipeline have uneven shares, the sum may be several
 * nodes: the engine has the last one, and the others are kept for the
 * reduction, which adds them (pen_gradients_nodes()).
 *
 * Weights that several copies of the model use have a lane for each, with an
 * equal share of the logical replicas, a power of two. Micro-batches of the
 * lanes come in turn. The engine adds to the gradients of one lane; those of
 * the others are kept aside, and change places with them when theirs is opened.
 *
 * An expert that is dealt out over replicas (network.h) has a gradient for each
 * of them. All are summed over logical replicas alike, separately, and join at
 * the end, as the nodes of the tree that they are.
 *
 * The gradient of a matrix that is tied to an embedding elsewhere is not whole
 * when its replica is: what the embedding gathered comes later. It is set
 * aside and joins at the end.
 */
struct pen_gradients;

struct pen_gradients_options {
    struct pen_network *network;
    uint32_t num_replicas;
    uint32_t num_lanes;
    bool keeps_nodes; /* of one lane, whose first replica is: */
    uint32_t first;   /* else 0 */
};

/* On failure *out is untouched. */
pen_status pen_gradients_create(const struct pen_gradients_options *options,
                                struct pen_gradients **out);
void pen_gradients_free(struct pen_gradients *gradients);

size_t pen_gradients_bytes(const struct pen_gradients *gradients);

/* Call this before the first micro-batch of a step. */
void pen_gradients_begin(struct pen_gradients *gradients);

/* The next gradients are those of a lane. */
void pen_gradients_open(struct pen_gradients *gradients, uint32_t lane);

/* The gradients of a replica, the next one of the open lane, are there. */
void pen_gradients_close(struct pen_gradients *gradients);

/*
 * Once all replicas are closed: the arrays of the nodes before the last, which
 * end with the next step, and where a parameter begins in them. May be changed.
 */
float *const *pen_gradients_nodes(const struct pen_gradients *gradients);
size_t pen_gradients_place(const struct pen_gradients *gradients,
                           size_t parameter);

/*
 * Adds the rows that the embedding gathered for a replica; after the last
 * replica the tied matrix has its sum.
 */
void pen_gradients_join(struct pen_gradients *gradients, uint32_t replica,
                        size_t count, const int32_t *words, const void *rows);

#endif

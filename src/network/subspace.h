#ifndef PEN_NETWORK_SUBSPACE_H
#define PEN_NETWORK_SUBSPACE_H

#include "network/chain.h"

/* A decoder whose blocks write to a subspace of the stream; see subspace.c. */
struct pen__subspace {
    size_t rows; /* of a micro-batch */
    size_t width;
    size_t hidden; /* of the stream */
    size_t element;
    /* A stage after the embedding has the columns of the tables that are
     * outside of the subspace. */
    uint32_t num_anchors;
    struct pen_network_parameter anchors[2];
    struct pen_embedding table; /* of the anchors */
};

/* Sets network->subspace where the options ask for one. */
pen_status pen__subspace_create(struct pen_network *network,
                                struct pen_text *why);
void pen__subspace_free(struct pen_network *network);

/* Bytes of a message with `bytes` of the stream. */
size_t pen__subspace_bytes(const struct pen__subspace *subspace, size_t bytes);

/* Bytes of scratch that entering the subspace takes. */
size_t pen__subspace_scratch(const struct pen__subspace *subspace);

/* Copies a message to the stream, and the stream to a message. */
void pen__subspace_enter(const struct pen__pass *pass, const void *message,
                         void *x);
void pen__subspace_leave(const struct pen__pass *pass, const void *y,
                         void *message);

/* Copies a message to the gradient of the stream, with zeros outside. */
void pen__subspace_widen(const struct pen__pass *pass, const void *message,
                         void *dy);

/* Copies rows of the stream, with zeros outside. */
void pen__subspace_project(const struct pen__pass *pass, const void *x,
                           void *y);

/* Sets columns outside to zero, in place; does nothing without a subspace. */
void pen__subspace_clear(const struct pen__pass *pass, void *gradient);

/*
 * Sets columns outside to zero, in the plain array of a tensor that writes to
 * the stream.
 */
void pen__subspace_clear_slice(const struct pen_network *network,
                               const struct pen_tensor_slice *slice,
                               bool is_double, void *plain);

#endif

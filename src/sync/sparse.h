#ifndef PEN_SYNC_SPARSE_H
#define PEN_SYNC_SPARSE_H

#include "sync/compressor.h"
#include "sync/largest.h"

/*
 * A few values of each tensor, with their places, from each member to all: the
 * common part of compressors that pick values. A message has the 8 bytes of its
 * length, the values of all tensors, then the places in their tensors, 4 bytes
 * each.
 */
struct pen_sparse {
    struct pen_compression setting;
    struct pen_largest largest;
    float *sent;     /* values and places */
    size_t most;     /* pairs there */
    size_t *cursors; /* in the message of each member */
};

/* The values that wait to be sent; two vectors like the given one. */
struct pen_sparse_waiting {
    float *values;   /* v */
    float *velocity; /* u; NULL: none */
    float momentum;  /* mu */
};

/* Values that are sent of a tensor: at least one. */
size_t pen_sparse_picked(double ratio, size_t count);

/*
 * Prepares the state. `ratio` is the largest that will occur. On failure
 * nothing is held.
 */
pen_status pen_sparse_init(struct pen_sparse *sparse,
                           const struct pen_compression *setting, double ratio);
void pen_sparse_release(struct pen_sparse *sparse);
size_t pen_sparse_bytes(const struct pen_sparse *sparse);

/* Returns the bytes of a message. */
size_t pen_sparse_length(const struct pen_compression *setting, double ratio);

/*
 * Computes the cost of a gather with this ratio; `most` is the largest ratio
 * that will occur. The time is that of `passes` over the vector at
 * of->core_bytes_per_sec, and of the picked values. The caller adds the vectors
 * that are kept.
 */
void pen_sparse_cost(const struct pen_sync_case *of, double ratio, double most,
                     double passes, struct pen_mean_cost *out);

/*
 * Adds the given vector to the waiting one, u = mu u + g, v += u, or without a
 * velocity v += g. Fills in a message with the largest |v|; there v and u
 * become 0.
 */
void pen_sparse_encode(struct pen_sparse *sparse, double ratio,
                       const float *given,
                       const struct pen_sparse_waiting *waiting,
                       struct pen_round *out);

/*
 * Computes the mean of the values that were sent; zero where no member sent
 * one.
 */
void pen_sparse_decode(struct pen_sparse *sparse, double ratio,
                       const struct pen_collective *received, float *vector);

/* Adds `share` times what one message says; false: a place is not there. */
bool pen_sparse_add(const struct pen_sparse *sparse, double ratio,
                    const void *message, float share, float *vector);

#endif

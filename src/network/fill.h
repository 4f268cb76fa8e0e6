#ifndef PEN_NETWORK_FILL_H
#define PEN_NETWORK_FILL_H

#include "network/network.h"

/*
 * Fills the slice of one tensor in a plain array of stats. Each tensor draws
 * from a stream of its own, so that its numbers depend on the seed and on
 * itself, not on what else a network has or how it is cut.
 */
struct pen__fill {
    const struct pen_tensor_slice *slice;
    struct pen_tensor_piece whole; /* the tensor: all of it is drawn */
    bool is_double;                /* the stats, else float */
    void *plain;
    uint32_t expert; /* of a tensor of several, which have streams of their
                        own; else 0 */
};

void pen__fill_constant(const struct pen__fill *fill, double value);
void pen__fill_normal(const struct pen__fill *fill, uint64_t seed,
                      double deviation);

/* Draws uniform numbers between -bound and bound. */
void pen__fill_uniform(const struct pen__fill *fill, uint64_t seed,
                       double bound);

#endif

#ifndef PEN_SYNC_SUBSET_H
#define PEN_SYNC_SUBSET_H

#include "sync/peers.h"

/*
 * Some of the peers as peers of their own: member k of them is member
 * k * stride of all. For messages only, not for windows. What is sent counts
 * for all peers too.
 */
struct pen_subset {
    struct pen_peers peers; /* first: the ops get it */
    struct pen_peers *all;
    uint32_t stride;
};

/* The own member must be one of them. `all` stays where it is meanwhile. */
void pen_subset_init(struct pen_subset *subset, struct pen_peers *all,
                     uint32_t stride);

#endif

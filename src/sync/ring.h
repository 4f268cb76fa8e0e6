#ifndef PEN_SYNC_RING_H
#define PEN_SYNC_RING_H

#include "sync/method.h"

/*
 * Members as a ring, where weights are mixed with those of the neighbours: two
 * of them, one among two members, none for one alone. Side 0 is the member
 * before, side 1 the one behind; with one neighbour there is side 0 alone.
 */
uint32_t pen_ring_degree(uint32_t num_members);

/* Who is on a side. */
uint32_t pen_ring_neighbour(const struct pen_peers *peers, uint32_t side);

/* On which side of the neighbour this member is. */
uint32_t pen_ring_side_there(const struct pen_peers *peers, uint32_t side);

/* x <- mean of x and of the neighbours' copies, which have a float per weight.
 */
void pen_ring_mix(const struct pen_sync_setting *setting,
                  float *const copies[2]);

#endif

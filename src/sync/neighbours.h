#ifndef PEN_SYNC_NEIGHBOURS_H
#define PEN_SYNC_NEIGHBOURS_H

#include "sync/method.h"

/*
 * Returns the number of a member's neighbours. Members form a circle, and mix
 * their weights with those of their neighbours: two neighbours each, one among
 * two members, none for a single member. Side 0 is the previous member, side 1
 * the next; with one neighbour there is side 0 alone.
 */
uint32_t pen_neighbours_count(uint32_t num_members);

/* Returns the member on a side. */
uint32_t pen_neighbours_at(const struct pen_group *peers, uint32_t side);

/* Returns on which side of the neighbour this member is. */
uint32_t pen_neighbours_side_there(const struct pen_group *peers,
                                   uint32_t side);

/*
 * Sets x to the mean of x and of the neighbours' copies, which have a float per
 * weight.
 */
void pen_neighbours_mix(const struct pen_sync_setting *setting,
                        float *const copies[2]);

#endif

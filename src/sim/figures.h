#ifndef PEN_SIM_FIGURES_H
#define PEN_SIM_FIGURES_H

#include "sim/platform.h"

/*
 * Bandwidth and latency of single links. A message passes two of a kind, up one
 * and down the other: each has half of what the way takes.
 */

/* Returns the devices of a node; all of them where there is one level. */
uint64_t pen__node_size(const struct pen_cluster *cluster);

/* Returns the link of a device to other devices of its node. */
struct pen_platform_way pen__node_link(const struct pen_cluster *cluster,
                                       uint64_t device);

/* Returns the link of a device to nodes that are joined at this level. */
struct pen_platform_way pen__network_link(const struct pen_cluster *cluster,
                                          uint32_t level, uint64_t device);

/*
 * Returns the link of a block of an intermediate level, outwards: the bandwidth
 * that its ranks share at the next level, and the seconds that the next level
 * adds.
 */
struct pen_platform_way
pen__block_link(const struct pen_platform_options *options, uint32_t level,
                uint64_t block);

/* Returns the number of ranks that have room on `num_devices`; at least 1. */
double pen__rank_places(const struct pen_platform_options *options,
                        uint64_t num_devices);

#endif

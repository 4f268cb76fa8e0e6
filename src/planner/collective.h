#ifndef PEN_PLANNER_COLLECTIVE_H
#define PEN_PLANNER_COLLECTIVE_H

#include "core/cluster.h"

#include <stdint.h>

/*
 * Seconds of messages between devices of a cluster.
 *
 * Devices are numbered so that neighbours are near: the first `size` of a level
 * form its first block. A group is every stride-th device, count of them. When
 * it reaches over several nodes, all of its members in a node share what leaves
 * it: two members use two network cards.
 */

enum pen_collective_kind {
    PEN_COLLECTIVE_REDUCE,  /* all get the sum of all */
    PEN_COLLECTIVE_GATHER,  /* all get the parts of all; or scattered sums */
    PEN_COLLECTIVE_EXCHANGE /* each sends each another part */
};

struct pen_device_set {
    uint64_t count;
    uint64_t stride;
};

/*
 * Seconds of a collective on each device, for `bytes` in all of the larger
 * side. 0 when alone.
 */
double pen_collective_time(const struct pen_cluster *cluster,
                           const struct pen_device *device,
                           enum pen_collective_kind kind,
                           const struct pen_device_set *set, double bytes);

/*
 * Bytes per second of each device, if all bytes of a sum or a gather are in one
 * message.
 */
double pen_collective_bandwidth(const struct pen_cluster *cluster,
                                const struct pen_device *device,
                                const struct pen_device_set *set);

/*
 * Latency and bandwidth between two devices `distance` apart, which may lie in
 * different blocks.
 */
double pen_message_latency(const struct pen_cluster *cluster,
                           const struct pen_device *device, uint64_t distance);
double pen_message_bandwidth(const struct pen_cluster *cluster,
                             const struct pen_device *device,
                             uint64_t distance);

/* Devices that are joined by the innermost links. */
uint64_t pen_cluster_node_size(const struct pen_cluster *cluster);

#endif

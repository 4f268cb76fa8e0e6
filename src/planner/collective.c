#include "planner/collective.h"

#include "base/real.h"

#include <math.h>

uint64_t pen_cluster_node_size(const struct pen_cluster *cluster)
{
    uint64_t size = cluster->levels[0].size;
    uint64_t all = pen_cluster_num_devices(cluster);
    return size == 0 || size > all ? all : size;
}

/* How often bytes pass the slowest link, for each byte of the larger side. */
static double count_passes(enum pen_collective_kind kind, double count)
{
    double passes = (count - 1) / count;
    return kind == PEN_COLLECTIVE_REDUCE ? 2 * passes : passes;
}

static double node_bandwidth(const struct pen_cluster *cluster,
                             const struct pen_device *device)
{
    return cluster->levels[0].bytes_per_sec *
           device->constants[PEN_CONSTANT_LINK_SHARE];
}

/* The links between the blocks that a set reaches over. */
static const struct pen_link_level *
find_outer(const struct pen_cluster *cluster, const struct pen_device_set *set)
{
    return pen_cluster_level(cluster, set->count * set->stride);
}

/* Members of a set that are in one node and share its network cards. */
static double count_together(const struct pen_cluster *cluster,
                             const struct pen_device_set *set)
{
    double node = (double)pen_cluster_node_size(cluster);
    return fmin((double)set->count, fmax(1, floor(node / (double)set->stride)));
}

double pen_collective_bandwidth(const struct pen_cluster *cluster,
                                const struct pen_device *device,
                                const struct pen_device_set *set)
{
    double inside = node_bandwidth(cluster, device);
    if (set->count * set->stride <= pen_cluster_node_size(cluster))
        return inside;
    double outside = find_outer(cluster, set)->bytes_per_sec *
                     device->constants[PEN_CONSTANT_NETWORK_SHARE];
    return fmin(inside, count_together(cluster, set) * outside);
}

double pen_collective_time(const struct pen_cluster *cluster,
                           const struct pen_device *device,
                           enum pen_collective_kind kind,
                           const struct pen_device_set *set, double bytes)
{
    if (set->count <= 1)
        return 0;
    const double *constants = device->constants;
    double count = (double)set->count;
    double node = (double)pen_cluster_node_size(cluster);
    double passes = count_passes(kind, count);
    double inside = node_bandwidth(cluster, device);
    if (count * (double)set->stride <= node)
        return constants[PEN_CONSTANT_LINK_SEC] +
               cluster->levels[0].latency_sec * 2 * (count - 1) +
               passes * (bytes + constants[PEN_CONSTANT_LINK_HALF]) / inside;
    const struct pen_link_level *outer = find_outer(cluster, set);
    double blocks = ceil(count / count_together(cluster, set));
    double outside =
        outer->bytes_per_sec * constants[PEN_CONSTANT_NETWORK_SHARE];
    double begin = constants[PEN_CONSTANT_NETWORK_SEC] +
                   outer->latency_sec * 2 * pen_real_log2(blocks);
    if (kind == PEN_COLLECTIVE_EXCHANGE)
        return begin +
               bytes * fmax((blocks - 1) / blocks / outside, passes / inside);
    return begin +
           passes * bytes / pen_collective_bandwidth(cluster, device, set);
}

static bool is_outside(const struct pen_cluster *cluster, uint64_t distance)
{
    return 2 * distance > pen_cluster_node_size(cluster);
}

double pen_message_latency(const struct pen_cluster *cluster,
                           const struct pen_device *device, uint64_t distance)
{
    if (!is_outside(cluster, distance))
        return cluster->levels[0].latency_sec +
               device->constants[PEN_CONSTANT_LINK_SEC] / 2;
    return pen_cluster_level(cluster, 2 * distance)->latency_sec +
           device->constants[PEN_CONSTANT_NETWORK_SEC] / 2;
}

double pen_message_bandwidth(const struct pen_cluster *cluster,
                             const struct pen_device *device, uint64_t distance)
{
    if (!is_outside(cluster, distance))
        return cluster->levels[0].bytes_per_sec *
               device->constants[PEN_CONSTANT_MESSAGE_SHARE];
    return pen_cluster_level(cluster, 2 * distance)->bytes_per_sec *
           device->constants[PEN_CONSTANT_NETWORK_SHARE];
}

#include "core/cluster.h"

uint64_t pen_cluster_num_devices(const struct pen_cluster *cluster)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < cluster->num_groups; i++)
        count += cluster->groups[i].count;
    return count;
}

const struct pen_link_level *
pen_cluster_level(const struct pen_cluster *cluster, uint64_t num_devices)
{
    for (uint32_t i = 0; i + 1 < cluster->num_levels; i++)
        if (cluster->levels[i].size >= num_devices)
            return &cluster->levels[i];
    return &cluster->levels[cluster->num_levels - 1];
}

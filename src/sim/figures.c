#include "sim/figures.h"

#include <math.h>

uint64_t pen__node_size(const struct pen_cluster *cluster)
{
    uint64_t size = cluster->levels[0].size;
    return size == 0 ? pen_cluster_num_devices(cluster) : size;
}

static const double *constants_of(const struct pen_cluster *cluster,
                                  uint64_t device)
{
    uint32_t group = 0;
    while (group + 1 < cluster->num_groups &&
           device >= cluster->groups[group].count)
        device -= cluster->groups[group++].count;
    return cluster->groups[group].device.constants;
}

static struct pen_platform_way half_way(const struct pen_link_level *level,
                                        double share, double begin_sec)
{
    return (struct pen_platform_way){
        .latency_sec = (level->latency_sec + begin_sec / 2) / 2,
        .bytes_per_sec = level->bytes_per_sec * share};
}

struct pen_platform_way pen__node_link(const struct pen_cluster *cluster,
                                       uint64_t device)
{
    const double *constants = constants_of(cluster, device);
    return half_way(&cluster->levels[0], constants[PEN_CONSTANT_MESSAGE_SHARE],
                    constants[PEN_CONSTANT_LINK_SEC]);
}

struct pen_platform_way pen__network_link(const struct pen_cluster *cluster,
                                          uint32_t level, uint64_t device)
{
    const double *constants = constants_of(cluster, device);
    return half_way(&cluster->levels[level],
                    constants[PEN_CONSTANT_NETWORK_SHARE],
                    constants[PEN_CONSTANT_NETWORK_SEC]);
}

double pen__rank_places(const struct pen_platform_options *options,
                        uint64_t num_devices)
{
    uint64_t all = pen_cluster_num_devices(options->cluster);
    uint32_t lockstep = options->lockstep == 0 ? 1 : options->lockstep;
    double devices = (double)(num_devices < all ? num_devices : all);
    return fmax(1, floor(devices / lockstep));
}

struct pen_platform_way
pen__block_link(const struct pen_platform_options *options, uint32_t level,
                uint64_t block)
{
    const struct pen_link_level *levels = options->cluster->levels;
    uint64_t size = levels[level].size;
    struct pen_platform_way way =
        pen__network_link(options->cluster, level + 1, block * size);
    way.bytes_per_sec *= pen__rank_places(options, size);
    way.latency_sec =
        fmax(0, levels[level + 1].latency_sec - levels[level].latency_sec) / 2;
    return way;
}

/* Goes over one more link. */
static void pass(struct pen_platform_way *way, struct pen_platform_way link)
{
    way->latency_sec += link.latency_sec;
    way->bytes_per_sec = fmin(way->bytes_per_sec, link.bytes_per_sec);
}

struct pen_platform_way
pen_platform_way(const struct pen_platform_options *options, uint32_t from,
                 uint32_t to)
{
    const struct pen_cluster *cluster = options->cluster;
    uint64_t one = options->devices[from];
    uint64_t other = options->devices[to];
    uint64_t node = pen__node_size(cluster);
    struct pen_platform_way way = {.bytes_per_sec = PEN_PLATFORM_LOOPBACK};
    if (from == to)
        return way;
    way.bytes_per_sec = INFINITY;
    if (one / node == other / node) {
        pass(&way, pen__node_link(cluster, one));
        pass(&way, pen__node_link(cluster, other));
        return way;
    }
    pass(&way, pen__network_link(cluster, 1, one));
    pass(&way, pen__network_link(cluster, 1, other));
    for (uint32_t level = 1; level + 1 < cluster->num_levels; level++) {
        uint64_t size = cluster->levels[level].size;
        if (one / size == other / size)
            break;
        pass(&way, pen__block_link(options, level, one / size));
        pass(&way, pen__block_link(options, level, other / size));
    }
    return way;
}

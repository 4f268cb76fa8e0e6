/*
 * The platform, from the outside in: the outermost zone, blocks of intermediate
 * levels, hosts. A host has a way out of its node by its link of the network,
 * and past that a way to each other host of its node by the links of both.
 */
#include "sim/figures.h"
#include "sim/zones.h"

#include "base/bug.h"

#include <simgrid/link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PAIRS 10000000u /* a few GB of ways */
#define OUTERMOST "cluster.zone"
#define NAME_SIZE (PEN_CLUSTER_WORD_SIZE + 48u)

struct place {
    uint64_t device;
    uint32_t rank;
};

struct making {
    const struct pen_platform_options *options;
    struct place *places; /* by device */
    uint64_t node;        /* devices of a node */
    sg_host_t *hosts;     /* of the node that is made; one for each rank */
    sg_link_t *links;     /* likewise */
};

/* Ranks first..end-1 by device. */
struct range {
    uint32_t first;
    uint32_t end;
};

static int compare_places(const void *left, const void *right)
{
    const struct place *a = left;
    const struct place *b = right;
    return (a->device > b->device) - (a->device < b->device);
}

/* Finds where the ranks of a range end that begin before this device. */
static uint32_t find_end(const struct making *making, struct range range,
                         uint64_t device)
{
    while (range.first < range.end) {
        uint32_t middle = range.first + (range.end - range.first) / 2;
        if (making->places[middle].device < device)
            range.first = middle + 1;
        else
            range.end = middle;
    }
    return range.first;
}

static sg_link_t make_rank_link(uint32_t rank, const char *what,
                                struct pen_platform_way link)
{
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "rank-%u.%s", rank, what);
    return pen_link_make(name, link.bytes_per_sec, link.latency_sec);
}

static sg_host_t make_host(sg_netzone_t zone, uint32_t rank)
{
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "rank-%u", rank);
    return pen_zone_host(zone, name, PEN_PLATFORM_LOOPBACK);
}

/*
 * Makes the link between nodes. With a network of SimGrid's, whose own links
 * have the latency of the level, it has only the time to begin.
 */
static struct pen_platform_way network_link(const struct making *making,
                                            uint64_t device)
{
    const struct pen_cluster *cluster = making->options->cluster;
    uint32_t last = cluster->num_levels - 1;
    if (making->options->topology.kind == PEN_SIM_TOPOLOGY_LEVELS)
        return pen__network_link(cluster, 1, device);
    struct pen_platform_way link =
        last == 0 ? pen__node_link(cluster, device)
                  : pen__network_link(cluster, last, device);
    link.latency_sec -= cluster->levels[last].latency_sec / 2;
    return link;
}

static void make_node(struct making *making, sg_netzone_t zone,
                      struct range range)
{
    const struct pen_cluster *cluster = making->options->cluster;
    uint32_t count = range.end - range.first;
    for (uint32_t i = 0; i < count; i++) {
        struct place place = making->places[range.first + i];
        sg_host_t host = make_host(zone, place.rank);
        pen_zone_lead_out(zone, host,
                          make_rank_link(place.rank, "network",
                                         network_link(making, place.device)));
        if (count == 1)
            return;
        sg_link_t link = make_rank_link(place.rank, "node",
                                        pen__node_link(cluster, place.device));
        for (uint32_t j = 0; j < i; j++)
            pen_zone_join(zone, making->hosts[j], making->links[j], host, link);
        making->hosts[i] = host;
        making->links[i] = link;
    }
}

/* ---- levels ---- */

static void make_blocks(struct making *making, sg_netzone_t zone,
                        uint32_t level, struct range range);

/* Returns the kind of the zone around blocks of a level. */
static enum pen_zone_kind kind_around(uint32_t level)
{
    return level == 0 ? PEN_ZONE_OF_HOSTS : PEN_ZONE_OF_ZONES;
}

static void make_block(struct making *making, sg_netzone_t zone, uint32_t level,
                       uint64_t number, struct range range)
{
    if (level == 0) {
        make_node(making, zone, range);
        return;
    }
    char name[NAME_SIZE];
    const char *word = making->options->cluster->levels[level].name;
    unsigned long long block = number;
    snprintf(name, sizeof name, "%s-%llu.zone", word, block);
    sg_netzone_t inside = pen_zone_make(kind_around(level - 1), name, zone);
    make_blocks(making, inside, level - 1, range);
    pen_zone_seal(inside);
    struct pen_platform_way link =
        pen__block_link(making->options, level, number);
    snprintf(name, sizeof name, "%s-%llu.up", word, block);
    pen_zone_attach(zone, inside,
                    pen_link_make(name, link.bytes_per_sec, link.latency_sec));
}

/* Makes the blocks of a level that these ranks are in. */
static void make_blocks(struct making *making, sg_netzone_t zone,
                        uint32_t level, struct range range)
{
    uint64_t size = making->options->cluster->levels[level].size;
    while (range.first < range.end) {
        uint64_t number = making->places[range.first].device / size;
        uint32_t end = find_end(making, range, (number + 1) * size);
        make_block(making, zone, level, number,
                   (struct range){range.first, end});
        range.first = end;
    }
}

/* Makes a platform of one node: the way out is the way to each other, too. */
static void make_single_node(const struct making *making)
{
    const struct pen_cluster *cluster = making->options->cluster;
    sg_netzone_t zone = pen_zone_make(PEN_ZONE_OF_HOSTS, OUTERMOST, NULL);
    for (uint32_t i = 0; i < making->options->num_ranks; i++) {
        struct place place = making->places[i];
        pen_zone_lead_out(
            zone, make_host(zone, place.rank),
            make_rank_link(place.rank, "node",
                           pen__node_link(cluster, place.device)));
    }
    pen_zone_seal(zone);
}

static void make_levels(struct making *making)
{
    struct range all = {0, making->options->num_ranks};
    uint64_t last = making->places[all.end - 1].device;
    if (making->places[0].device / making->node == last / making->node) {
        make_single_node(making);
        return;
    }
    uint32_t level = making->options->cluster->num_levels - 2;
    sg_netzone_t zone = pen_zone_make(kind_around(level), OUTERMOST, NULL);
    make_blocks(making, zone, level, all);
    pen_zone_seal(zone);
}

/* ---- networks of SimGrid's ---- */

static sg_netzone_t make_leaf(void *context, sg_netzone_t zone, uint64_t number)
{
    struct making *making = context;
    struct range range = {0, making->options->num_ranks};
    range.first = find_end(making, range, number * making->node);
    range.end = find_end(making, range, (number + 1) * making->node);
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "leaf-%llu.zone", (unsigned long long)number);
    sg_netzone_t leaf = pen_zone_make(PEN_ZONE_OF_HOSTS, name, zone);
    make_node(making, leaf, range);
    pen_zone_seal(leaf);
    return leaf;
}

/* Links between the nearest leaves. */
static double count_hops(enum pen_sim_topology_kind kind)
{
    return kind == PEN_SIM_TOPOLOGY_TORUS ? 1 : 2;
}

static void make_network(struct making *making)
{
    const struct pen_platform_options *options = making->options;
    const struct pen_cluster *cluster = options->cluster;
    struct pen_zone_network network = {
        .numbers = options->topology.numbers,
        .num_numbers = options->topology.num_numbers,
        .bytes_per_sec = network_link(making, 0).bytes_per_sec *
                         pen__rank_places(options, making->node),
        .latency_sec = cluster->levels[cluster->num_levels - 1].latency_sec /
                       count_hops(options->topology.kind),
        .leaf = make_leaf,
        .context = making};
    sg_netzone_t zone = pen_zone_make(PEN_ZONE_OF_ZONES, OUTERMOST, NULL);
    switch (options->topology.kind) {
    case PEN_SIM_TOPOLOGY_FAT_TREE:
        pen_zone_fat_tree(&network);
        break;
    case PEN_SIM_TOPOLOGY_DRAGONFLY:
        pen_zone_dragonfly(&network);
        break;
    default:
        pen_zone_torus(&network);
    }
    pen_zone_seal(zone);
}

/* ---- all of it ---- */

static pen_status check_levels(const struct pen_cluster *cluster,
                               struct pen_text *why)
{
    for (uint32_t i = 1; i < cluster->num_levels; i++) {
        for (uint32_t j = 1; j < i; j++) {
            if (strcmp(cluster->levels[i].name, cluster->levels[j].name) != 0)
                continue;
            pen_why(why, "two levels of links have the name %s",
                    cluster->levels[i].name);
            return PEN_INVALID;
        }
    }
    return PEN_OK;
}

static pen_status check_leaves(const struct making *making,
                               struct pen_text *why)
{
    const struct pen_platform_options *options = making->options;
    uint64_t last = making->places[options->num_ranks - 1].device;
    uint64_t nodes = last / making->node + 1;
    uint64_t leaves = pen_sim_topology_num_leaves(&options->topology);
    if (options->topology.kind == PEN_SIM_TOPOLOGY_LEVELS || nodes <= leaves)
        return PEN_OK;
    pen_why(why, "the network has %llu leaves, but the ranks are on %llu nodes",
            (unsigned long long)leaves, (unsigned long long)nodes);
    return PEN_INVALID;
}

static pen_status check_devices(const struct making *making,
                                struct pen_text *why)
{
    const struct pen_platform_options *options = making->options;
    uint64_t all = pen_cluster_num_devices(options->cluster);
    for (uint32_t i = 0; i < options->num_ranks; i++) {
        struct place place = making->places[i];
        if (place.device >= all)
            pen_why(why, "rank %u is on device %llu, but there are only %llu",
                    place.rank, (unsigned long long)place.device,
                    (unsigned long long)all);
        else if (i > 0 && place.device == making->places[i - 1].device)
            pen_why(why, "ranks %u and %u are both on device %llu",
                    making->places[i - 1].rank, place.rank,
                    (unsigned long long)place.device);
        else
            continue;
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status check_pairs(const struct making *making, struct pen_text *why)
{
    const struct place *places = making->places;
    uint64_t pairs = 0;
    uint64_t before = 0; /* ranks of the same node */
    for (uint32_t i = 1; i < making->options->num_ranks; i++) {
        bool is_same = places[i - 1].device / making->node ==
                       places[i].device / making->node;
        before = is_same ? before + 1 : 0;
        pairs += before;
    }
    uint64_t last = making->options->num_ranks - 1;
    if (pairs <= MAX_PAIRS || before == last)
        return PEN_OK;
    pen_why(why,
            "%u ranks in nodes of %llu devices are %llu pairs of neighbours; "
            "at most %u can be simulated",
            making->options->num_ranks, (unsigned long long)making->node,
            (unsigned long long)pairs, MAX_PAIRS);
    return PEN_INVALID;
}

static pen_status check(const struct making *making, struct pen_text *why)
{
    const struct pen_cluster *cluster = making->options->cluster;
    if (cluster->group_bytes_per_sec != NULL) {
        pen_why(why,
                "simulate does not support the matrix of links between the "
                "groups of cluster %s; describe its links as levels",
                cluster->name);
        return PEN_INVALID;
    }
    pen_status status = check_levels(cluster, why);
    if (status == PEN_OK)
        status = check_devices(making, why);
    if (status == PEN_OK)
        status = check_leaves(making, why);
    return status == PEN_OK ? check_pairs(making, why) : status;
}

static uint64_t leaf_size(const struct pen_platform_options *options)
{
    if (options->topology.kind == PEN_SIM_TOPOLOGY_LEVELS ||
        options->cluster->num_levels > 1)
        return pen__node_size(options->cluster);
    return 1;
}

static void unshare_links(void)
{
    size_t count = sg_link_count();
    sg_link_t *links = sg_link_list();
    for (size_t i = 0; i < count; i++)
        pen_link_unshare(links[i]);
    free(links);
}

static pen_status make_all(struct making *making, struct pen_text *why)
{
    const struct pen_platform_options *options = making->options;
    for (uint32_t rank = 0; rank < options->num_ranks; rank++)
        making->places[rank] = (struct place){options->devices[rank], rank};
    qsort(making->places, options->num_ranks, sizeof *making->places,
          compare_places);
    pen_status status = check(making, why);
    if (status != PEN_OK)
        return status;
    if (options->topology.kind == PEN_SIM_TOPOLOGY_LEVELS)
        make_levels(making);
    else
        make_network(making);
    if (options->is_uncontended)
        unshare_links();
    return PEN_OK;
}

pen_status pen_platform_make(const struct pen_platform_options *options,
                             struct pen_text *why)
{
    size_t count = options->num_ranks;
    PEN_BUG_UNLESS(count > 0);
    struct making making = {.options = options,
                            .places = calloc(count, sizeof *making.places),
                            .node = leaf_size(options),
                            .hosts = calloc(count, sizeof *making.hosts),
                            .links = calloc(count, sizeof *making.links)};
    pen_status status = PEN_NOMEM;
    if (making.places != NULL && making.hosts != NULL && making.links != NULL)
        status = make_all(&making, why);
    free(making.links);
    free(making.hosts);
    free(making.places);
    return status;
}

#ifndef PEN_SIM_PLATFORM_H
#define PEN_SIM_PLATFORM_H

#include "core/cluster.h"

/*
 * A cluster as SimGrid sees it: one host for each rank, named "rank-17", and
 * the links of its devices. A device has a link of its own for each level
 * (cluster.h), with separate directions:
 *
 *   rank-17.node        between devices of a node
 *   rank-17.network     between nodes
 *   rack-3.up           from a block of an intermediate level: shared by all
 * its devices when they send outwards
 *
 * Bandwidths and latencies are those of the cluster as its devices reach them
 * (link_share, message_share, network_share, link_sec, network_sec), so that
 * planner and simulation speak of the same links. A rank that represents
 * several devices sends the bytes of one of them, over the links of one; a
 * shared link has the bandwidths of all ranks that there is room for. Where
 * kinds of device differ a message goes at the slower one's rate and waits for
 * the mean of both latencies.
 *
 * A fat tree, a dragonfly or a torus takes the place of everything outside the
 * nodes: each node (each device, where the cluster has one level) is the leaf
 * of its number. Its links have the bandwidths of a node's ranks at the
 * outermost level, and a latency by which the nearest leaves are as far from
 * each other as that level says.
 *
 * Clusters with a matrix of groups are refused.
 */

/* Networks between nodes: name, what it takes. */
#define PEN_SIM_TOPOLOGY_TABLE(X)                                              \
    X(LEVELS, "levels")       /* as the cluster says; nothing else shared */   \
    X(FAT_TREE, "fat-tree")   /* SimGrid's: levels;down;up;parallel */         \
    X(DRAGONFLY, "dragonfly") /* groups,links;chassis,links;routers,links;n */ \
    X(TORUS, "torus")         /* 8x8x8 */

enum pen_sim_topology_kind {
#define PEN_SIM_TOPOLOGY_ENUM(name, words) PEN_SIM_TOPOLOGY_##name,
    PEN_SIM_TOPOLOGY_TABLE(PEN_SIM_TOPOLOGY_ENUM)
#undef PEN_SIM_TOPOLOGY_ENUM
        PEN_TOPOLOGIES
};

#define PEN_SIM_TOPOLOGY_MAX_NUMBERS 16u

struct pen_sim_topology {
    enum pen_sim_topology_kind kind;
    uint32_t
        numbers[PEN_SIM_TOPOLOGY_MAX_NUMBERS]; /* in the order of the text */
    uint32_t num_numbers;
};

/* Reads "levels", "torus:8x8x8", "fat-tree:2;8,16;1,8;1,1" and so on. */
pen_status pen_sim_topology_read(const char *text, struct pen_sim_topology *out,
                                 struct pen_text *why);

/* Nodes that there is place for; of LEVELS 1. */
#define PEN_SIM_TOPOLOGY_MAX_LEAVES 1000000u
uint64_t pen_sim_topology_num_leaves(const struct pen_sim_topology *topology);

struct pen_platform_options {
    const struct pen_cluster *cluster;
    struct pen_sim_topology topology;
    bool is_uncontended;     /* no message slows another one down */
    const uint64_t *devices; /* first one of every rank */
    uint32_t num_ranks;
    uint32_t lockstep; /* devices of a rank (mapping.h); 0 is 1 */
};

/*
 * The time of a message between two ranks when nothing else is under way:
 * latency + bytes / bandwidth. These are the figures of the links; with LEVELS
 * only.
 */
struct pen_platform_way {
    double latency_sec;
    double bytes_per_sec;
};

struct pen_platform_way
pen_platform_way(const struct pen_platform_options *options, uint32_t from,
                 uint32_t to);

/*
 * Makes it in SimGrid, which was begun and has no platform yet. Every host has
 * a loopback of PEN_PLATFORM_LOOPBACK, by which a rank waits (PEN__TIMER_RATE
 * of runtime/transport.c).
 */
#define PEN_PLATFORM_LOOPBACK 1e9 /* bytes a second */

pen_status pen_platform_make(const struct pen_platform_options *options,
                             struct pen_text *why);

#endif

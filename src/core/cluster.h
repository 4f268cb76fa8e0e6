#ifndef PEN_CORE_CLUSTER_H
#define PEN_CORE_CLUSTER_H

#include "base/status.h"
#include "base/text.h"
#include "core/number.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A cluster: kinds of device, how many of each, and the levels of links between
 * them. Ten thousand devices are one entry; nothing has an entry per device.
 */

/*
 * The constants by which a device is slower than its data sheet: name, key of
 * the file. They are fitted once per kind of device (docs/accuracy.md) and do
 * not depend on model, cluster or layout. Seconds of one operation are
 *
 *   max(flops / (peak * share), bytes / (bandwidth * share)) + launch
 */
#define PEN_CONSTANT_TABLE(X)                                                  \
    X(UNITS, "units")                 /* that take a tile of a product each */ \
    X(PRODUCT_SHARE, "product_share") /* of the peak, large products */        \
    X(PRODUCT_SHARE_FP8, "product_share_fp8")                                  \
    X(PRODUCT_SHARE_MXFP8, "product_share_mxfp8")                              \
    X(PRODUCT_SHARE_FP4, "product_share_fp4")                                  \
    X(TILE_HALF, "tile_half")   /* reuse of a tile at half the speed */        \
    X(DEPTH_HALF, "depth_half") /* inner length at half the speed */           \
    X(ROUNDING, "rounding")     /* of a last round of tiles, 0 to 1 */         \
    X(ATTENTION_SHARE, "attention_share")   /* of the peak, fused attention */ \
    X(RECURRENCE_SHARE, "recurrence_share") /* of it, Mamba and the like */    \
    X(BYTES_SHARE, "bytes_share")       /* of the bandwidth, large arrays */   \
    X(BYTES_HALF, "bytes_half")         /* of an array at half the speed */    \
    X(LAUNCH, "launch_sec")             /* of the host, for each kernel */     \
    X(LINK_SHARE, "link_share")         /* of the bandwidth inside a node */   \
    X(LINK_HALF, "link_half")           /* of a message at half the speed */   \
    X(LINK_SEC, "link_sec")             /* to begin a collective in a node */  \
    X(MESSAGE_SHARE, "message_share")   /* of it, between two devices */       \
    X(HOST_RATE, "host_bytes_per_sec")  /* to memory of the host */            \
    X(EXCHANGE_SHARE, "exchange_share") /* of it, tokens to their experts */   \
    X(EXPERT_LAUNCH,                                                           \
      "expert_launch_sec") /* of the host, for each product of an expert */    \
    X(DISPATCH_SEC,                                                            \
      "dispatch_sec")         /* of a block, to send tokens to experts */      \
    X(COUNT_SEC, "count_sec") /* the same where the host waits for counts */   \
    X(NETWORK_SHARE, "network_share") /* of the bandwidth between nodes */     \
    X(NETWORK_SEC, "network_sec")     /* to begin a collective between them */ \
    X(STEP_SEC, "step_sec") /* of a step: all work that is not counted */      \
    X(MICROBATCH_SEC, "microbatch_sec") /* of a micro-batch, the same */

enum pen_constant {
#define PEN_CONSTANT_ENUM(name, key) PEN_CONSTANT_##name,
    PEN_CONSTANT_TABLE(PEN_CONSTANT_ENUM)
#undef PEN_CONSTANT_ENUM
        PEN_CONSTANTS
};

#define PEN_CLUSTER_WORD_SIZE 64u
#define PEN_CLUSTER_MAX_DEVICES 10000000u /* of all kinds */
#define PEN_CLUSTER_MAX_KINDS 1000u
#define PEN_CLUSTER_MAX_LEVELS 16u
#define PEN_CLUSTER_MAX_GROUPS 256u /* where there is a matrix of them */
#define PEN_CLUSTER_MAX_RATE 1e18   /* bytes or flops, a second */
#define PEN_CLUSTER_MAX_BYTES ((uint64_t)1 << 53)
#define PEN_CLUSTER_MAX_LATENCY 1e3
#define PEN_CLUSTER_MAX_WATTS 1e6 /* of one device, as the price */

struct pen_device {
    char kind[PEN_CLUSTER_WORD_SIZE];
    double flops[PEN_NUMBERS]; /* a second, by the sheet; 0: not offered */
    uint64_t memory_bytes;
    double memory_bytes_per_sec;
    double constants[PEN_CONSTANTS];
    double watts;      /* while it computes; 0: not known, as the others */
    double idle_watts; /* while it waits inside a training */
    double price_per_hour;
};

/* Returns the share of the peak that large products of these numbers reach. */
double pen_device_product_share(const struct pen_device *device,
                                enum pen_number number);

/* Watts of a device that waits: its own figure, or a share of `watts`. */
double pen_device_idle_watts(const struct pen_device *device);

/* Devices of one kind. */
struct pen_device_group {
    struct pen_device device;
    uint64_t count;
};

/*
 * Devices that are joined at this level come in blocks of `size`: 8 to a node,
 * 64 to a rack. The outermost has size 0: all of them. The bandwidth is that of
 * one device, one direction, while all the others talk too.
 */
struct pen_link_level {
    char name[PEN_CLUSTER_WORD_SIZE];
    uint64_t size;
    double bytes_per_sec;
    double latency_sec;
};

struct pen_cluster {
    char name[PEN_CLUSTER_WORD_SIZE];
    struct pen_device_group *groups; /* owned; at least one */
    uint32_t num_groups;
    struct pen_link_level *levels; /* owned; from the inside out */
    uint32_t num_levels;
    /*
     * Irregular networks: between groups i and j, as a matrix of num_groups
     * rows, instead of the outermost level; both NULL when levels say all.
     * Owned.
     */
    double *group_bytes_per_sec;
    double *group_latency_sec;
};

/*
 * Loads "preset:h100-sxm*1024" (devices in their usual system),
 * "preset:dgx-h100*128" (systems) or a YAML file (docs/formats.md), strictly.
 * On failure *out is untouched and why has the path, line and column, or the
 * presets there are.
 *
 * On success *out is owned by the caller; free it with pen_cluster_free().
 */
pen_status pen_cluster_load(const char *source, struct pen_cluster **out,
                            struct pen_text *why);
pen_status pen_cluster_parse(const char *text, size_t length,
                             struct pen_cluster **out, struct pen_text *why);
void pen_cluster_free(struct pen_cluster *cluster);

/*
 * Prints a cluster that passes the check; the text is read back as the same
 * cluster.
 */
void pen_cluster_print(const struct pen_cluster *cluster, struct pen_text *out);

/* Checks that all numbers are within their bounds and go together. */
pen_status pen_cluster_check(const struct pen_cluster *cluster,
                             struct pen_text *why);

/* Returns the devices of all kinds. */
uint64_t pen_cluster_num_devices(const struct pen_cluster *cluster);

/*
 * Makes the same cluster with another number of devices of its only kind; if it
 * is a preset, in its systems. On success *out is owned by the caller.
 */
pen_status pen_cluster_resize(const struct pen_cluster *cluster, uint64_t count,
                              struct pen_cluster **out, struct pen_text *why);

/*
 * Returns the devices of a system that a plan takes, for a preset, or of a
 * block of the first links, for a file; 1 where the links join all devices
 * alike.
 */
uint64_t pen_cluster_system_size(const struct pen_cluster *cluster);

/*
 * Returns the devices of one operating system: in a rack those of a tray,
 * otherwise those of a block of the first links.
 */
uint64_t pen_cluster_host_size(const struct pen_cluster *cluster);

/* Returns the innermost level whose blocks have at least this many devices. */
const struct pen_link_level *
pen_cluster_level(const struct pen_cluster *cluster, uint64_t num_devices);

/*
 * Return a preset by its name, NULL when there is none, or by its index, NULL
 * after the last one. It has the figures of the data sheet; its constants are
 * 0.
 */
const struct pen_device *pen_device_find(const char *kind);
const struct pen_device *pen_device_at(size_t index);

/*
 * Sets the constants of a kind: those fitted for it, or those of the most
 * similar kind. Uses those of an H100, and returns false, when the most similar
 * kind is unknown.
 */
bool pen_device_default_constants(struct pen_device *device);

/* Devices as they are bought together: "dgx-h100" is 8 of them and a network.
 */
#define PEN_SYSTEM_MAX_LEVELS 3u

struct pen_system {
    const char *name;
    const char *device; /* its kind; a preset */
    uint64_t size;      /* devices of one */
    uint32_t num_levels;
    struct pen_link_level levels[PEN_SYSTEM_MAX_LEVELS];
    const char *links; /* what they are, for people */
};

/* Return a system by its name or its index, as for devices. */
const struct pen_system *pen_system_find(const char *name);
const struct pen_system *pen_system_at(size_t index);

/*
 * Returns the system that a kind of device is usually in; NULL when the kind is
 * not a preset.
 */
const struct pen_system *pen_system_of_device(const char *kind);

#endif

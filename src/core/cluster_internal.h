#ifndef PEN_CORE_CLUSTER_INTERNAL_H
#define PEN_CORE_CLUSTER_INTERNAL_H

#include "core/cluster.h"

/* Declarations shared by the files of clusters. */

/* A constant of devices: the key of files, and its bounds. */
struct pen__constant {
    const char *key;
    double least;
    double most;
};

struct pen__constant pen__constant_of(enum pen_constant constant);

/*
 * Creates a cluster of this many groups and levels, all zero, and with matrices
 * if asked.
 */
pen_status pen__cluster_create(uint32_t num_groups, uint32_t num_levels,
                               bool has_matrix, struct pen_cluster **out,
                               struct pen_text *why);

/*
 * Returns the system that a preset of a device is usually in; NULL: the kind is
 * not a preset.
 */
const char *pen__device_system(const char *kind);

/* Returns whether the text names a preset. */
bool pen__cluster_is_preset(const char *text);

pen_status pen__cluster_from_preset(const char *text, struct pen_cluster **out,
                                    struct pen_text *why);

#endif

#ifndef PEN_GRAPH_PIPER_PROFILE_H
#define PEN_GRAPH_PIPER_PROFILE_H

#include "base/status.h"
#include "base/text.h"
#include "graph/graph.h"

#include <stddef.h>
#include <stdint.h>

/*
 * A network as the files of Piper have it (Tarnawski et al., NeurIPS 2021):
 * every node can run in several modes, for example with or without
 * recomputation, on one or more devices together. Read only; docs/formats.md
 * has the keys.
 */

#define PEN_PIPER_MAX_SECONDS 1e12
#define PEN_PIPER_MAX_BYTES 1e18
#define PEN_PIPER_MAX_DEVICES 10000u
#define PEN_PIPER_MAX_MODES 64u /* of a node, all degrees together */
#define PEN_PIPER_NAME_SIZE 32u

/* One mode of a node on `degree` devices that share its tensors. */
struct pen_piper_mode {
    uint32_t degree;
    char name[PEN_PIPER_NAME_SIZE]; /* "vanilla" */
    double compute_sec;             /* of one micro-batch */
    double parameter_bytes;
    double wave_bytes;  /* for each micro-batch on its way */
    double fixed_bytes; /* whatever is on its way */
    double *in_bytes;  /* per edge into the node: sent, and shared on arrival */
    double *out_bytes; /* per edge out of it */
};

struct pen_piper_node {
    uint32_t id; /* in the file */
    uint32_t num_modes;
    struct pen_piper_mode *modes; /* sorted by degree */
};

struct pen_piper_profile {
    uint32_t num_devices;
    uint32_t num_microbatches;
    double memory_bytes; /* of a device */
    double bytes_per_sec;
    struct pen_piper_node *nodes; /* (graph.num_nodes) */
    struct pen_graph graph;
};

/*
 * Loads a profile, strictly; a refusal names the key. On success *out is owned
 * by the caller; free it with pen_piper_profile_free().
 */
pen_status pen_piper_profile_load(const char *path,
                                  struct pen_piper_profile **out,
                                  struct pen_text *why);
pen_status pen_piper_profile_parse(const char *text, size_t length,
                                   struct pen_piper_profile **out,
                                   struct pen_text *why);
void pen_piper_profile_free(struct pen_piper_profile *profile);

#endif

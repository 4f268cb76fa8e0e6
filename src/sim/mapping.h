#ifndef PEN_SIM_MAPPING_H
#define PEN_SIM_MAPPING_H

#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

/*
 * Which devices a rank of the simulation stands for. Devices that work in
 * lockstep (tensor and context parallel) are one rank: they are the innermost
 * ones in every order, so a rank has `lockstep` devices side by side.
 */

/* Orders from the inside out: name, words. */
#define PEN_MAPPING_TABLE(X)                                                   \
    X(REPLICAS_FIRST, "tp-cp-dp-pp") /* Megatron-LM's own */                   \
    X(PIPELINE_FIRST, "tp-cp-pp-dp") /* its --use-tp-pp-dp-mapping */          \
    X(SHUFFLED, "random")            /* blocks of a node, as they come */

enum pen_mapping_kind {
#define PEN_MAPPING_ENUM(name, words) PEN_MAPPING_##name,
    PEN_MAPPING_TABLE(PEN_MAPPING_ENUM)
#undef PEN_MAPPING_ENUM
        PEN_MAPPINGS
};

extern const char *const pen_mapping_names[PEN_MAPPINGS + 1];

struct pen_mapping {
    enum pen_mapping_kind kind;
    uint32_t num_replicas;
    uint32_t num_rows;  /* ranks of a pipeline */
    uint32_t lockstep;  /* devices of a rank */
    uint64_t node_size; /* devices; of a shuffle */
    uint64_t seed;      /* likewise */
};

/*
 * Computes the first device of every rank, pipeline after pipeline. `devices`
 * has num_replicas * num_rows places.
 */
pen_status pen_mapping_devices(const struct pen_mapping *mapping,
                               uint64_t *devices, struct pen_text *why);

#endif

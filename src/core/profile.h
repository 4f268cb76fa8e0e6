#ifndef PEN_CORE_PROFILE_H
#define PEN_CORE_PROFILE_H

#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "core/model_cost.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * A profile: what the layers of one model took on one machine, in seconds and
 * bytes, measured by src/profiler and kept as profile.json. Layers of one kind
 * are alike, so a profile has three, whatever the number of blocks.
 */

/* The passes of a layer: name and key of the file. */
#define PEN_PASS_TABLE(X)                                                      \
    X(FORWARD, "f")                                                            \
    X(INPUT, "i")                                                              \
    X(WEIGHT, "w")                                                             \
    X(BACKWARD, "b") /* both of them, layer by layer */

enum pen_layer_pass {
#define PEN_PASS_ENUM(name, key) PEN_PASS_##name,
    PEN_PASS_TABLE(PEN_PASS_ENUM)
#undef PEN_PASS_ENUM
        PEN_PASSES
};

/* Work that a step does once, for each element of the parameters. */
#define PEN_UPDATE_TABLE(X)                                                    \
    X(CLEAR, "clear") /* gradients, before the first backward */               \
    X(NORM, "norm")   /* of the gradients */                                   \
    X(ADAM, "adam")                                                            \
    X(SGD, "sgd") /* with momentum */                                          \
    X(ADD, "add") /* one array to another: sums over replicas */

enum pen_update_kind {
#define PEN_UPDATE_ENUM(name, key) PEN_UPDATE_##name,
    PEN_UPDATE_TABLE(PEN_UPDATE_ENUM)
#undef PEN_UPDATE_ENUM
        PEN_UPDATES
};

/* The median of all rounds, and the distance of their quartiles. */
struct pen_measured {
    double median_sec;
    double spread_sec;
};

/* A layer with one mode of recomputation; what is computed again is in I. */
struct pen_profile_mode {
    bool is_there;
    struct pen_measured passes[PEN_PASSES]; /* of one micro-batch */
    uint64_t stash_bytes;
    uint64_t hold_bytes;
    uint64_t scratch_bytes; /* of the network, while it computes */
};

struct pen_profile_layer {
    uint64_t num_parameters;  /* that it trains; a tied matrix is the head's */
    uint64_t parameter_bytes; /* with gradient, moments of Adam and scratch */
    uint64_t engine_bytes;    /* of these, the engine's scratch */
    uint64_t passing_bytes;   /* that a library takes inside its calls */
    uint64_t largest;         /* elements of the largest array it trains */
    uint64_t output_bytes;    /* what goes to the next layer */
    struct pen_profile_mode modes[PEN_RECOMPUTES];
};

/* All layers with micro-batches of one size. */
struct pen_profile_size {
    uint32_t micro_batch; /* sequences */
    struct pen_profile_layer layers[PEN_LAYER_KINDS];
};

/* A message of n bytes takes latency_sec + n / bytes_per_sec. */
struct pen_profile_link {
    bool is_there;
    double latency_sec;
    double bytes_per_sec;
};

#define PEN_PROFILE_WORD_SIZE 96u
#define PEN_PROFILE_MAX_SECONDS 1e9
#define PEN_PROFILE_MAX_BYTES ((uint64_t)1 << 53)
#define PEN_PROFILE_MAX_COUNT (1u << 24)
#define PEN_PROFILE_MORE 15u

struct pen_profile {
    char cpu[PEN_PROFILE_WORD_SIZE];
    uint32_t num_cores;
    uint64_t memory_bytes; /* of the machine */

    char engine[PEN_PROFILE_WORD_SIZE];  /* "onednn" */
    char library[PEN_PROFILE_WORD_SIZE]; /* its version: "2.6.3, OpenMP" */
    bool is_bf16;
    uint32_t num_threads;
    uint32_t num_ranks; /* processes that measured at the same time */

    char family[PEN_PROFILE_WORD_SIZE]; /* of the model: "gpt2" */
    char model_hash[PEN_HASH_SIZE];     /* see pen_profile_hash_model() */
    uint32_t micro_batch;               /* sequences */
    uint32_t sequence;
    uint32_t num_rounds;

    struct pen_profile_layer layers[PEN_LAYER_KINDS];
    struct pen_profile_size more[PEN_PROFILE_MORE]; /* larger, ascending */
    uint32_t num_more;
    /* of a process in addition to all these; 0: unknown */
    uint64_t program_bytes;
    struct pen_measured updates[PEN_UPDATES]; /* of one element */
    struct pen_profile_link link;
};

/*
 * Reads profile.json (docs/formats.md), strictly. On failure *out is untouched
 * and why has the path, and the key or line and column.
 *
 * On success *out is owned by the caller; free it with pen_profile_free().
 */
pen_status pen_profile_load(const char *path, struct pen_profile **out,
                            struct pen_text *why);
pen_status pen_profile_parse(const char *text, size_t length,
                             struct pen_profile **out, struct pen_text *why);
void pen_profile_free(struct pen_profile *profile);

/*
 * Prints a profile that passes the check; the text is read back as the same
 * profile.
 */
void pen_profile_print(const struct pen_profile *profile, struct pen_text *out);
pen_status pen_profile_save(const struct pen_profile *profile, const char *path,
                            struct pen_text *why);

/* Checks that all numbers are within their bounds; a loaded profile passes. */
pen_status pen_profile_check(const struct pen_profile *profile,
                             struct pen_text *why);

/* Computes the SHA-256 of the config.json that pen_model_print() writes. */
pen_status pen_profile_hash_model(const struct pen_model *model,
                                  char out[PEN_HASH_SIZE],
                                  struct pen_text *why);

/* The work of a run, to be compared with the measured one. */
struct pen_profile_use {
    const struct pen_model *model;
    uint32_t micro_batch;
    uint32_t sequence;
    bool is_bf16;
};

/*
 * Makes the same profile for micro-batches of this size alone. Between two
 * measured sizes it interpolates linearly. Sizes beyond them are refused:
 * libraries change their algorithms there in unknown ways.
 */
pen_status pen_profile_at(const struct pen_profile *profile,
                          uint32_t micro_batch, struct pen_profile *out,
                          struct pen_text *why);

/*
 * Checks that the profile was measured for such a run; why names the first
 * difference.
 */
pen_status pen_profile_fits(const struct pen_profile *profile,
                            const struct pen_profile_use *use,
                            struct pen_text *why);

/* Returns "embedding", "block" or "head". */
const char *pen_layer_kind_name(enum pen_layer_kind kind);

#endif

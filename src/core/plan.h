#ifndef PEN_CORE_PLAN_H
#define PEN_CORE_PLAN_H

#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "core/model_cost.h"
#include "core/number.h"
#include "core/recipe.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * A plan: how a model is trained on many ranks. It says what runs where, not on
 * which machines, and is kept as plan.json, which a user may edit.
 *
 *   dp pipelines, each of pp ranks with vpp stages; every stage a range of
 *   layers. A step is num_microbatches micro-batches of micro_batch sequences
 *   in each pipeline.
 */

/* Degrees of parallelism: name and key of the file. */
#define PEN_DEGREE_TABLE(X)                                                    \
    X(DP, "dp")   /* replicas of the pipeline */                               \
    X(TP, "tp")   /* ranks that share each tensor */                           \
    X(PP, "pp")   /* ranks of the pipeline */                                  \
    X(VPP, "vpp") /* stages on each of them */                                 \
    X(CP, "cp")   /* ranks that share each sequence */                         \
    X(EP, "ep")   /* ranks that share the experts; lies over dp */

enum pen_degree {
#define PEN_DEGREE_ENUM(name, key) PEN_DEGREE_##name,
    PEN_DEGREE_TABLE(PEN_DEGREE_ENUM)
#undef PEN_DEGREE_ENUM
        PEN_DEGREES
};

enum pen_sharding {
    PEN_SHARDING_NONE,
    PEN_SHARDING_ZERO1, /* each replica keeps a share of the moments */
    PEN_SHARDING_ZERO2, /* and of the gradients */
    PEN_SHARDING_ZERO3, /* and of the weights */
    PEN_SHARDINGS
};

/* "none", "zero1", "zero2", "zero3", NULL. */
extern const char *const pen_sharding_names[PEN_SHARDINGS + 1];

/*
 * Whether --sharding-group suits the sharding and the number of replicas that
 * share; INVALID with a sentence when it does not. 0 suits all.
 */
pen_status pen_sharding_group_check(enum pen_sharding sharding, uint32_t group,
                                    uint64_t replicas, struct pen_text *why);

/* Whose runtime carries a plan out: name and key of the file. */
#define PEN_TARGET_TABLE(X)                                                    \
    X(PENSTOCK, "penstock")                                                    \
    X(MEGATRON, "megatron")                                                    \
    X(TORCHTITAN, "torchtitan")                                                \
    X(DEEPSPEED, "deepspeed")

enum pen_target {
#define PEN_TARGET_ENUM(name, key) PEN_TARGET_##name,
    PEN_TARGET_TABLE(PEN_TARGET_ENUM)
#undef PEN_TARGET_ENUM
        PEN_TARGETS
};

/* The keys, NULL after the last one. */
extern const char *const pen_target_names[PEN_TARGETS + 1];

/* A schedule by its name, with what its generator takes, or as a file. */
struct pen_plan_schedule {
    char *name; /* one of the two, owned; the other is NULL */
    char *file;
    uint32_t slices;  /* of a micro-batch; 0: the generator's own, as */
    uint32_t batches; /* these three */
    uint32_t warmup;
    double memory_limit;
    bool has_vertical_sync;
};

/* The parts of a rank's memory: name and key of the file. */
#define PEN_MEMORY_TABLE(X)                                                    \
    X(WEIGHTS, "weights")                                                      \
    X(GRADIENTS, "gradients")                                                  \
    X(OPTIMIZER, "optimizer") /* moments, and masters of the weights */        \
    X(ACTIVATIONS, "activations")                                              \
    X(LOSS, "loss")         /* logits and their gradients */                   \
    X(BUFFERS, "buffers")   /* of messages and of reductions */                \
    X(OVERHEAD, "overhead") /* of the runtime: context, workspace, holes */

enum pen_memory_part {
#define PEN_MEMORY_ENUM(name, key) PEN_MEMORY_##name,
    PEN_MEMORY_TABLE(PEN_MEMORY_ENUM)
#undef PEN_MEMORY_ENUM
        PEN_MEMORY_PARTS
};

/* The keys, NULL after the last one. */
extern const char *const pen_memory_names[PEN_MEMORY_PARTS + 1];

/* Ranks that need the same bytes. */
struct pen_plan_memory {
    uint64_t count;
    uint64_t bytes[PEN_MEMORY_PARTS];
};

/* Returns the bytes of all parts together. */
uint64_t pen_plan_memory_bytes(const struct pen_plan_memory *memory);

/* The prediction for the plan when it was made. */
struct pen_plan_prediction {
    bool is_there;
    double step_sec;
    double step_error;   /* of 9 in 10 steps at most, a share; 0: not known */
    double memory_error; /* the same of the bytes */
    double bubble;       /* 0 to 1 */
    double utilisation;  /* share of the peak, 0 to 1 */
    double tokens_per_sec;
    struct pen_plan_memory *memory; /* owned; classes of ranks */
    uint32_t num_memory;
};

#define PEN_PLAN_WORD_SIZE 256u
#define PEN_PLAN_MAX_DEGREE 1000000u
#define PEN_PLAN_MAX_STAGES 65535u
#define PEN_PLAN_MAX_COUNT (1u << 24)

struct pen_plan {
    char *model;                    /* its name, as a user has it; owned */
    char model_hash[PEN_HASH_SIZE]; /* as pen_profile_hash_model() */
    /* its config.json, which makes the plan self-contained; or NULL */
    char *config;
    char *cluster;      /* the name of one, or NULL; owned, as the config */
    uint32_t node_size; /* devices of a node of it; 0: not known */
    enum pen_target target;
    uint32_t sequence;
    enum pen_number number;
    uint32_t degrees[PEN_DEGREES];
    struct pen_layer_range *stages; /* owned; pp * vpp of them, in order */
    uint32_t num_stages;
    uint32_t micro_batch;
    uint32_t num_microbatches; /* of one pipeline in one step */
    struct pen_plan_schedule schedule;
    enum pen_sharding sharding;
    uint32_t sharding_group;    /* of ZeRO-3: replicas that have all weights
                                   together, others have copies; 0: all */
    bool has_sequence_parallel; /* norms and dropout are cut over tp, too */
    uint32_t expert_tp; /* ranks that share an expert's tensors; 0: tp */
    struct pen_recipe recipe;
    uint32_t logical_replicas; /* a multiple of dp */
    uint64_t seed;
    struct pen_plan_prediction predicted;
};

/*
 * Creates a plan of pp ranks and vpp stages each, with zeroed stages and the
 * mildest choices: degrees 1, "1f1b", no sharding. The caller sets the texts
 * and names that are NULL. NULL when memory runs out.
 */
struct pen_plan *pen_plan_create(uint32_t pp, uint32_t vpp);
void pen_plan_free(struct pen_plan *plan);

/* Sets an owned text of a plan; false when memory runs out. */
bool pen_plan_set(char **text, const char *value);

/*
 * Reads plan.json (docs/formats.md), strictly. On failure *out is untouched and
 * why has the path, and the key or line and column.
 *
 * On success *out is owned by the caller; free it with pen_plan_free().
 */
pen_status pen_plan_load(const char *path, struct pen_plan **out,
                         struct pen_text *why);
pen_status pen_plan_parse(const char *text, size_t length,
                          struct pen_plan **out, struct pen_text *why);

/*
 * Print a plan that passes the check; the text is read back as the same plan.
 */
void pen_plan_print(const struct pen_plan *plan, struct pen_text *out);
pen_status pen_plan_save(const struct pen_plan *plan, const char *path,
                         struct pen_text *why);

/* Checks that the plan's parts go together; a loaded plan passes. */
pen_status pen_plan_check(const struct pen_plan *plan, struct pen_text *why);

/*
 * Checks that the recipe and the degrees of experts go together with the rest,
 * which has been checked; a part of the check.
 */
pen_status pen_plan_check_recipe(const struct pen_plan *plan,
                                 struct pen_text *why);

/*
 * Checks that it is a plan of this model, and its stages are all of its layers.
 */
pen_status pen_plan_fits(const struct pen_plan *plan,
                         const struct pen_model *model, struct pen_text *why);

/*
 * Returns the ranks that share an expert's tensors: expert_tp of a plan, or its
 * tp.
 */
static inline uint32_t pen_expert_tp(const uint32_t degrees[PEN_DEGREES],
                                     uint32_t expert_tp)
{
    return expert_tp > 0 ? expert_tp : degrees[PEN_DEGREE_TP];
}

/* Returns dp * tp * pp * cp. */
uint64_t pen_plan_num_ranks(const struct pen_plan *plan);

/* Sequences of one step. */
uint64_t pen_plan_global_batch(const struct pen_plan *plan);

#endif

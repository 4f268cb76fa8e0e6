#ifndef PEN_PLANNER_PREDICT_H
#define PEN_PLANNER_PREDICT_H

#include "core/cluster.h"
#include "core/plan.h"
#include "core/profile.h"
#include "schedule/costs.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * How long a step of a plan takes on a cluster, and what its ranks hold.
 *
 * Layers are lists of operations, timed by the constants of the device; stages
 * are sums of layers; the schedule is generated and timed with them; reductions
 * that are not hidden, and the optimizer, come after it.
 *
 * For this runtime (target penstock) a profile decides instead: its seconds,
 * and the bytes that the runtime allocates. Only micro-batches, sequences and
 * modes of recomputation that it knows have an answer then.
 */

/* Choices that a plan leaves open and a runtime makes. */
struct pen_practice {
    bool has_fused_attention; /* no matrix of all pairs in memory */
    bool has_dropout;         /* masks are kept */
    bool has_fused_gate;      /* a gated activation keeps its inputs alone */
    bool has_worst_routing;   /* experts that are dealt out have room for all
                                 tokens, and a gradient from each rank */
    bool has_fused_norm;      /* norms and rotations in one pass over memory */
    bool recomputes_twice;    /* for weight gradients that come on their own */
    bool selects_products;    /* selective: half of the products are kept */
    bool gathers_logits;      /* all of them on each rank of a tensor group */
    bool has_fused_loss;      /* its gradient takes the place of the logits */
    bool fuses_accumulation;  /* products add to the gradient themselves */
    bool fuses_casts;         /* norms and functions give narrow numbers */
    bool keeps_narrow;        /* inputs of products, as they went in */
    bool overlaps_gradients;  /* reduced while backwards run */
    bool overlaps_parameters; /* gathered while forwards run */
    bool blocks_on_messages;  /* of the pipeline: nothing overlaps with them */
    bool overlaps_tensor;     /* messages inside layers overlap with products */
    bool gathers_singly;      /* zero3: array by array, one network card busy */
    bool gathers_once;        /* zero3: the same, where there is a pipeline */
    uint32_t gradient_bytes;  /* of one accumulated gradient */
    uint32_t reduction_bytes; /* of one on its way to the others */
    uint32_t optimizer_bytes; /* of one weight: moments and master */
    double overhead_bytes;    /* of the runtime on each device */
    double memory_holes;      /* share of activations lost between them */
    bool is_tight;            /* memory may be filled to a smaller margin */
};

/*
 * Messages that overlap with computing take units and bandwidth from it: this
 * share of their time is paid even where all of it is hidden.
 */
#define PEN_BESIDE_SHARE 0.45

/* The practice of a target, with what it does by default today. */
void pen_practice_init(struct pen_practice *practice, enum pen_target target,
                       enum pen_number number);

struct pen_timings; /* planner/timings.h */
struct pen__memo;   /* planner/memo.h */

/* The facts that all compared plans have in common; all borrowed. */
struct pen_setting {
    const struct pen_model *model;
    const struct pen_cluster *cluster;
    const struct pen_profile *profile; /* NULL: the formulas decide */
    uint64_t global_batch;             /* sequences of a step */
    uint32_t sequence;
    enum pen_number number;
    enum pen_target target;
    struct pen_practice practice;
    double clip_norm; /* that the training insists on; 0: as schedules like */
    struct pen_timings *timings; /* NULL: no schedule is kept */
    struct pen__memo *memo;      /* of one search; NULL: no layer is kept */
    uint64_t memory_limit;       /* bytes of a device; 0: what it has */
    bool sends_weights; /* likewise without those of weights that owners send */
    bool sends_inside;  /* seconds of layers are without the messages of tensor,
                           context and expert groups, which the caller sends */
};

/* Where the seconds of a step go: name and words. */
#define PEN_SPENDING_TABLE(X)                                                  \
    X(FORWARD, "forward")                                                      \
    X(BACKWARD, "backward")                                                    \
    X(RECOMPUTE, "recomputation")                                              \
    X(TENSOR, "tensor parallel") /* messages inside layers, exposed */         \
    X(CONTEXT, "context parallel")                                             \
    X(EXPERT, "expert parallel")                                               \
    X(BUBBLE, "bubble")       /* waiting, messages of the pipeline too */      \
    X(REDUCTION, "gradients") /* what is not hidden of them */                 \
    X(GATHER, "parameters")                                                    \
    X(UPDATE, "optimizer")                                                     \
    X(OTHER, "other")

enum pen_spending {
#define PEN_SPENDING_ENUM(name, words) PEN_SPENDING_##name,
    PEN_SPENDING_TABLE(PEN_SPENDING_ENUM)
#undef PEN_SPENDING_ENUM
        PEN_SPENDINGS
};

extern const char *const pen_spending_names[PEN_SPENDINGS + 1];

/* One micro-batch through one layer on one rank. */
struct pen_layer_time {
    double forward_sec; /* with its messages, as the others */
    double input_sec;
    double weight_sec;
    double recompute_sec; /* of the mode asked for; not in input_sec */
    double tensor_sec;    /* parts of the above: exposed messages */
    double context_sec;
    double expert_sec;
};

struct pen_layer_bytes {
    uint64_t num_parameters; /* of this rank: cut by tp and ep */
    uint64_t num_experts;    /* of those, experts' */
    uint64_t stash_bytes;    /* from forward to backward of a micro-batch */
    uint64_t hold_bytes;     /* from backward input to backward weight */
    uint64_t output_bytes;   /* to the next layer */
    uint64_t working_bytes;  /* while it computes, gone afterwards */
};

/*
 * A layer under the degrees, micro-batch and sequence parallelism of a plan
 * (its stages are not looked at), on this group of the cluster's devices.
 */
void pen_predict_layer(const struct pen_setting *setting,
                       const struct pen_plan *plan, uint32_t group,
                       uint32_t layer, enum pen_recompute recompute,
                       struct pen_layer_time *time,
                       struct pen_layer_bytes *bytes);

struct pen_prediction {
    double step_sec;
    double spent[PEN_SPENDINGS]; /* of the rank that is busiest; they sum up */
    double bubble;               /* share of the pipeline's span */
    double utilisation; /* of all peaks together, without recomputation */
    double model_flops; /* of a step, without recomputation */
    double tokens_per_sec;
    double busy_sec; /* of computing, summed over all devices of the plan */
    double joules;   /* of a step; 0: the cluster has no watts */
    double price;    /* of a step; 0: the cluster has no price */
    double low_sec;  /* 9 of 10 such steps lie between these */
    double high_sec;
    double step_error;    /* the larger distance to them, as a share */
    double memory_error;  /* the same */
    double memory_margin; /* share by which it must fit; at most the error */
    struct pen_plan_memory *memory; /* owned: one class per pipeline rank */
    uint32_t num_memory;
    uint32_t fullest;    /* of them */
    uint64_t peak_bytes; /* of the fullest */
    /*
     * The rank that has the least room for what it holds; on devices of one
     * kind, the fullest.
     */
    uint64_t tight_bytes;   /* that it holds, without the margin */
    uint64_t offered_bytes; /* of its devices, within the limit */
    bool fits;
};

/*
 * Predicts a plan of this setting. The schedule is generated and timed. INVALID
 * when the plan cannot be: why names the rule that it breaks; a plan that does
 * not fit into memory is predicted all the same.
 *
 * On success release with pen_prediction_release().
 */
pen_status pen_predict(const struct pen_setting *setting,
                       const struct pen_plan *plan, struct pen_prediction *out,
                       struct pen_text *why);
void pen_prediction_release(struct pen_prediction *prediction);

/*
 * The same without timing the schedule: seconds that no schedule of its kind
 * can beat, and the bytes of GPipe, 1F1B or interleaved stages, whichever is
 * nearest. Microseconds instead of milliseconds.
 */
pen_status pen_predict_bound(const struct pen_setting *setting,
                             const struct pen_plan *plan,
                             struct pen_prediction *out, struct pen_text *why);

/*
 * The costs under which the schedule of a plan is timed, as `penstock schedule`
 * takes them. On success *out is initialized; end with pen_costs_release().
 */
pen_status pen_predict_costs(const struct pen_setting *setting,
                             const struct pen_plan *plan, struct pen_costs *out,
                             struct pen_text *why);

/* Copies what was predicted into the plan. False when memory runs out. */
bool pen_prediction_store(const struct pen_prediction *prediction,
                          struct pen_plan *plan);

#endif

#ifndef PEN_PLANNER_COMPUTE_H
#define PEN_PLANNER_COMPUTE_H

#include "core/image_model.h"
#include "core/layer_messages.h"
#include "core/plan.h"
#include "core/profile.h"
#include "schedule/costs.h"
#include "schedule/schedule.h"

/*
 * How long layers and stages compute: as a profile measured it or, without one,
 * as their flops say. From that follow the cut of a model into stages and the
 * costs under which a schedule is timed.
 */
struct pen_compute {
    const struct pen_model *model;        /* borrowed; NULL: of images */
    const struct pen_profile *profile;    /* borrowed; NULL: flops decide */
    const struct pen_image_model *images; /* borrowed; has no profile */
    uint32_t micro_batch;                 /* sequences */
    uint32_t sequence;
    bool is_bf16;
    unsigned modules; /* of selective recomputation: 1u << PEN_MODULE_... */
    struct pen_recompute_span span; /* of full */
    enum pen_update_kind optimizer; /* ADAM or SGD */
    uint32_t num_members;   /* ranks with the same layers; 0 as 1: alone */
    uint32_t tensor_ranks;  /* that share a layer; 0 as 1. The profile is then
                               one that pen_compute_share_layers() made, */
    uint32_t context_ranks; /* likewise: that share a sequence, */
    uint32_t expert_ranks;  /* or that experts are dealt out over */
    bool cuts_rows;         /* over tensor_ranks: sequence parallelism */
    bool is_sharded;        /* each of them steps its share */
    bool sends_messages;    /* inside layers: seconds are without them */
};

/*
 * Whether the profile has an answer: it was measured for this model and these
 * micro-batches, with this mode of recomputation. The functions below expect a
 * compute that passes for every mode they meet.
 */
pen_status pen_compute_check(const struct pen_compute *compute,
                             enum pen_recompute recompute,
                             struct pen_text *why);

/*
 * Changes the layers of a profile that pen_profile_at() made, or that was
 * measured for the compute's micro-batch, to those of one rank of its tensor
 * and context group: parameters, bytes, and seconds without messages.
 */
void pen_compute_share_layers(const struct pen_compute *compute,
                              struct pen_profile *profile);

/*
 * Bytes that a layer keeps and needs in passing, out of the profile. Modules
 * are not measured: their bytes are counted from those without recomputation.
 */
struct pen_compute_bytes {
    uint64_t stash;
    uint64_t hold;
    uint64_t scratch; /* of a network that has it */
};

void pen_compute_layer_bytes(const struct pen_compute *compute, uint32_t layer,
                             enum pen_recompute recompute,
                             struct pen_compute_bytes *out);

/*
 * Seconds of layers first to first + count - 1 as one stage. Recomputation is
 * part of the input gradient. A schedule that has whole backwards (B) is timed
 * with those measured: then I is what W leaves of B. The sum over the members
 * is made by the cores that compute: nothing of it is hidden. `memory` is left
 * at -1.
 *
 * Without a profile the seconds are those of an assumed machine; only their
 * ratios mean something.
 */
void pen_compute_stage(const struct pen_compute *compute,
                       const struct pen_layer_range *stage,
                       bool has_whole_backward, struct pen_cost *out);

/* Ranks that send messages to each other inside layers. */
enum pen_compute_group {
    PEN_COMPUTE_TENSOR,
    PEN_COMPUTE_CONTEXT,
    PEN_COMPUTE_EXPERTS,
    PEN_COMPUTE_GROUPS
};

/*
 * Seconds of messages of one group inside the layers of a stage, in all passes
 * of a micro-batch; pen_compute_stage() has them in the passes. 0 without a
 * profile.
 */
double pen_compute_inside_sec(const struct pen_compute *compute,
                              const struct pen_layer_range *stage,
                              enum pen_compute_group group);

/* Sums of tensor-parallel ranks in one pass of a stage and micro-batch. */
uint32_t pen_compute_tensor_sums(const struct pen_compute *compute,
                                 const struct pen_layer_range *stage,
                                 enum pen_layer_pass pass);

/* How often the ranks of a context group exchange chunks of keys and values. */
struct pen_context_messages {
    uint32_t gathers; /* both own chunks to all others */
    uint32_t sums;    /* shares of the gradients of chunks to those that have
                         them: 1.5 C (C - 1) chunks in all */
};

/* The messages in one pass of a stage and micro-batch. */
struct pen_context_messages
pen_compute_context_messages(const struct pen_compute *compute,
                             const struct pen_layer_range *stage,
                             enum pen_layer_pass pass);

/* Rounds of parts of rows, where these are cut. */
uint32_t pen_compute_tensor_rounds(const struct pen_compute *compute,
                                   const struct pen_layer_range *stage,
                                   enum pen_layer_pass pass);

/* Rounds of messages between ranks with different experts, of one layer. */
uint32_t pen_compute_expert_rounds(const struct pen_compute *compute,
                                   const struct pen_layer_range *stage,
                                   uint32_t layer, enum pen_layer_pass pass);

/* Messages between them in the passes of a layer of a stage. */
void pen_compute_layer_messages(const struct pen_compute *compute,
                                const struct pen_layer_range *stage,
                                uint32_t layer, struct pen_layer_messages *out);

/* Whether a schedule has any B; one with I and W alone splits all backwards. */
bool pen_compute_has_whole_backward(const struct pen_schedule *schedule);

/* Bytes that one micro-batch leaves in a stage between forward and backward. */
uint64_t pen_compute_stash_bytes(const struct pen_compute *compute,
                                 const struct pen_layer_range *stage);

/* Bytes of one micro-batch between two stages; where they differ, the most. */
uint64_t pen_compute_boundary_bytes(const struct pen_compute *compute);

/*
 * Cuts the model into stages, all with this mode, so that a step of
 * `num_microbatches` micro-batches, optimizer included, is as short as it can
 * be in the slowest. Fills stages[0] to stages[num_stages - 1].
 */
pen_status pen_compute_cut(const struct pen_compute *compute,
                           enum pen_recompute recompute,
                           uint32_t num_microbatches,
                           struct pen_layer_range *stages, uint32_t num_stages,
                           struct pen_text *why);

/*
 * The costs of a schedule on num_ranks ranks whose parts are these stages. The
 * activations of all parts together are num_ranks A. A link that was measured
 * is between all ranks; without one, messages take no time. Where embedding and
 * head share a matrix from different stages, both stages' step has its way from
 * the one to the other.
 *
 * On success *out is initialized; end with pen_costs_release().
 */
pen_status pen_compute_costs(const struct pen_compute *compute,
                             const struct pen_layer_range *stages,
                             uint32_t num_stages, uint32_t num_ranks,
                             bool has_whole_backward, struct pen_costs *out,
                             struct pen_text *why);

#endif

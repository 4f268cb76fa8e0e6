#ifndef PEN_PLANNER_TENSOR_RANK_H
#define PEN_PLANNER_TENSOR_RANK_H

#include "planner/compute.h"

/*
 * A rank of a tensor group (network/network.h, pen_tensor_share), derived from
 * a profile of whole layers. The rank described is the first of its group,
 * which has the most: the others lack biases of sums and learnt positions.
 *
 * Products, heads, inner features and words are shared equally; norms and
 * whatever is as wide as the residual stream are on every rank, unless rows are
 * cut: then each has its part of the rows, and rooms for gathered ones.
 */

/*
 * Changes the layers of a profile that pen_profile_at() made, or that was
 * measured for the compute's micro-batch, to those of one of
 * compute->tensor_ranks ranks: parameters, bytes, and seconds without
 * messages. With one rank nothing changes.
 */
void pen_tensor_rank_cut(const struct pen_compute *compute,
                         struct pen_profile *profile);

/* Parameters that a rank trains of a stage. */
double pen_tensor_rank_parameters(const struct pen_compute *compute,
                                  const struct pen_layer_range *range);

/* Elements that a rank has of a matrix with `count` of them, one row a word. */
uint64_t pen_tensor_rank_share(const struct pen_compute *compute,
                               uint64_t count);

/*
 * Bytes that a rank has of a part of a block, of which `streams` arrays are as
 * wide as the residual stream.
 */
uint64_t pen_tensor_rank_bytes(const struct pen_compute *compute,
                               uint64_t bytes, uint32_t streams);

struct pen_tensor_messages {
    uint32_t count;
    uint32_t num_gathers; /* of count; the others end with additions */
    double bytes;         /* of one */
    bool is_added; /* as many numbers as the residual stream, both ends add */
};

/* Messages of one pass of a layer to each of the log2 P partners of a rank. */

struct pen_tensor_messages
pen_tensor_rank_messages(const struct pen_compute *compute,
                         enum pen_layer_kind kind, enum pen_recompute recompute,
                         enum pen_layer_pass pass);

/*
 * Where rows are cut: rounds, in each of which every rank sends a message to
 * each other one.
 */
struct pen_tensor_messages
pen_tensor_rank_rounds(const struct pen_compute *compute,
                       enum pen_layer_kind kind, enum pen_recompute recompute,
                       enum pen_layer_pass pass);

/*
 * Bytes of the gradients of gates in a pass of a layer with experts, which a
 * rank sends to each of its log2 P partners, and their seconds over the link of
 * compute->profile; 0 in other passes and layers.
 */
uint64_t pen_tensor_rank_gate_bytes(const struct pen_compute *compute,
                                    uint32_t layer, enum pen_layer_pass pass);
double pen_tensor_rank_gate_sec(const struct pen_compute *compute,
                                uint32_t layer, enum pen_layer_pass pass);

/*
 * The same as a simulation sends them; additions have the rate of the profile,
 * 0 seconds without one.
 */
void pen_tensor_rank_sends(const struct pen_compute *compute,
                           enum pen_layer_kind kind,
                           enum pen_recompute recompute,
                           enum pen_layer_pass pass,
                           struct pen_pass_messages *out);

/*
 * Sums of gradients of parameters that several ranks have, at the end of each
 * logical replica: norms per head, narrow layers of latent attention, keys and
 * values where there are fewer heads of them than ranks, and all norms where
 * rows are cut. Additions have no seconds.
 */
void pen_tensor_rank_copies(const struct pen_compute *compute, uint32_t layer,
                            struct pen_pass_messages *out);

/*
 * Seconds of these messages over the link of compute->profile, with the
 * additions; 0 without a link or with one rank.
 */
double pen_tensor_rank_sec(const struct pen_compute *compute,
                           enum pen_layer_kind kind,
                           enum pen_recompute recompute,
                           enum pen_layer_pass pass);

#endif

#ifndef PEN_PLANNER_CONTEXT_RANK_H
#define PEN_PLANNER_CONTEXT_RANK_H

#include "planner/compute.h"

/*
 * A rank of a context group (network/context.h), derived from a profile of
 * layers that take whole sequences: 1/C of the tokens and of the pairs of
 * causal attention, all parameters, and keys and values of whole sequences.
 */

/*
 * Changes the layers of a profile to those of one of compute->context_ranks
 * ranks: bytes, and seconds without messages. With one rank nothing changes.
 */
void pen_context_rank_cut(const struct pen_compute *compute,
                          struct pen_profile *profile);

/* Sequences as long as the tokens that a rank has of each. */
uint32_t pen_context_rank_tokens(const struct pen_compute *compute);

/* Bytes of keys and values of one chunk; the rank has two of the 2C. */
uint64_t pen_context_rank_chunk_bytes(const struct pen_compute *compute);

/* The messages in one pass of a layer and micro-batch. */
struct pen_context_messages pen_context_rank_messages(
    const struct pen_compute *compute, enum pen_layer_kind kind,
    enum pen_recompute recompute, enum pen_layer_pass pass);

/* The same round by round, as a simulation sends them. */
void pen_context_rank_sends(const struct pen_compute *compute,
                            enum pen_layer_kind kind,
                            enum pen_recompute recompute,
                            enum pen_layer_pass pass,
                            struct pen_pass_messages *out);

/*
 * Seconds of these messages over the link of compute->profile, with the
 * additions; 0 without a link or with one rank.
 */
double pen_context_rank_sec(const struct pen_compute *compute,
                            enum pen_layer_kind kind,
                            enum pen_recompute recompute,
                            enum pen_layer_pass pass);

#endif

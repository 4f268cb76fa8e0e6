#ifndef PEN_PLANNER_EXPERT_RANK_H
#define PEN_PLANNER_EXPERT_RANK_H

#include "planner/compute.h"

/*
 * A rank of an expert group (network/experts.h), derived from a profile of
 * layers with all experts. It has 1/E of the experts, and for each of the E
 * ranks of its group, its sources, room for all rows that this rank may send.
 *
 * Seconds of products do not change: rows of each source stay together, so a
 * rank computes as many products over as many rows wherever experts are, as
 * long as routers deal out tokens evenly.
 */

/*
 * Changes the blocks of a profile that was measured for the compute's
 * micro-batch to those of one of compute->expert_ranks ranks: parameters and
 * bytes. With one rank, or without experts, nothing changes.
 */
void pen_expert_rank_cut(const struct pen_compute *compute,
                         struct pen_profile *profile);

/*
 * Bytes that one block takes in addition to those with all experts on one rank.
 */
struct pen_expert_room {
    uint64_t stash;
    uint64_t hold;
    uint64_t scratch;
};

/* Recomputation with compute->modules; all of it is 0 with one rank. */
void pen_expert_rank_room(const struct pen_compute *compute,
                          enum pen_recompute recompute,
                          struct pen_expert_room *out);

/*
 * Parameters of a layer that other ranks of the group step. The rank has their
 * gradients all the same: one of its own experts from each source.
 */
uint64_t pen_expert_rank_elsewhere(const struct pen_compute *compute,
                                   uint32_t layer);

/* Parameters of experts that the rank steps. */
uint64_t pen_expert_rank_experts(const struct pen_compute *compute,
                                 uint32_t layer);

/* One expert group's messages in a pass of a layer. */
struct pen_expert_messages {
    uint32_t rounds; /* of messages from each rank to each other one */
    double bytes;    /* that a rank sends, of all rounds, with even routing */
};

struct pen_expert_messages
pen_expert_rank_messages(const struct pen_compute *compute, uint32_t layer,
                         enum pen_recompute recompute,
                         enum pen_layer_pass pass);

/* The same round by round, as a simulation sends them. */
void pen_expert_rank_sends(const struct pen_compute *compute, uint32_t layer,
                           enum pen_recompute recompute,
                           enum pen_layer_pass pass,
                           struct pen_pass_messages *out);

/* Seconds of these messages over the link of compute->profile; 0 without. */
double pen_expert_rank_sec(const struct pen_compute *compute, uint32_t layer,
                           enum pen_recompute recompute,
                           enum pen_layer_pass pass);

#endif

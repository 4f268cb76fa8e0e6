#ifndef PEN_SYNC_MERGE_H
#define PEN_SYNC_MERGE_H

#include "sync/average.h"

/*
 * Means of vectors that do not count alike, for outer steps of replicas that
 * saw different numbers of tokens, or of which some are left out of a round:
 *
 *   merged = sum(w_i x_i) / sum(w_i)
 *
 * The numbers are added in the order of the tree (group/tree.h) over the
 * contributors in the order of their replicas, whenever they came. The result
 * depends on contributors, weights and values alone: merging a record of these
 * again is bit-identical. With equal weights it is bit-identical to the plain
 * mean of sync/average.h over the contributors.
 */
struct pen_contribution {
    uint32_t replica;    /* another one for each */
    double weight;       /* 0: left out; its values are not read */
    const float *values; /* `count` floats */
};

/*
 * Sorts the contributions by replica. At least one has a weight above 0. `out`
 * may be the values of none of them.
 */
void pen_merge(struct pen_contribution *given, uint32_t num_given, size_t count,
               float *out);

/*
 * The same between members, for pen_average_create(): member k merges share k
 * (pen_sum_share()) of what all contribute, and sends it to all. It sends what
 * a plain mean sends, with 8 bytes of weight and 8 of length in front of each
 * share, and no share where the weight is 0. Where no member contributes the
 * mean is 0.
 */
extern const struct pen_compressor pen_merging;

/* Sets the weight of this member's next contribution; 1 at first. */
void pen_merging_weigh(struct pen_average *average, double weight);

#endif

#ifndef PEN_CORE_PROBE_DIFF_H
#define PEN_CORE_PROBE_DIFF_H

#include "core/probe.h"

/*
 * Two probes, their records paired in the order of execution: steps; in a step
 * the passes; in a pass the layers in the order in which it meets them.
 */
struct pen_probe_pair {
    const struct pen_probe_record *a; /* of the same step, pass, layer, name */
    const struct pen_probe_record *b;
    /*
     * How far the two tensors are apart, relative to the larger: 0 where the
     * hashes are equal, infinity where the numbers of elements or of those that
     * are not finite differ.
     */
    double difference;
};

struct pen_probe_diff {
    struct pen_probe_pair *pairs;
    size_t num_pairs; /* at least 1 */
    size_t num_identical;
    size_t num_only_a; /* records that the other file does not have */
    size_t num_only_b;
    size_t first; /* pair beyond the tolerance; num_pairs: none */
};

/*
 * Compares two probes. A tolerance of 0 demands equal hashes. INVALID where a
 * record occurs twice or the files have none in common. The probes are borrowed
 * until the end with pen_probe_diff_release().
 */
pen_status pen_probe_diff_init(struct pen_probe_diff *diff,
                               const struct pen_probe *a,
                               const struct pen_probe *b, double tolerance,
                               struct pen_text *why);
void pen_probe_diff_release(struct pen_probe_diff *diff);

#endif

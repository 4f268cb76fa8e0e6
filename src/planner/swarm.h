#ifndef PEN_PLANNER_SWARM_H
#define PEN_PLANNER_SWARM_H

#include "base/status.h"

#include <stdint.h>

/*
 * A pipeline whose stages have several peers of uneven speed, some of which are
 * lost (SWARM: Ryabinin et al., ICML 2023, arXiv 2301.11913), event by event:
 *
 *   micro-batch ─► a peer of stage 0 ─► of stage 1 ─► ... and back
 *
 * Peers of the next stage are chosen by route.h. A backward runs where its
 * forward ran; elsewhere the forward is computed again. A lost peer is noticed
 * after detect_sec. Its micro-batches, and the gradients of this step that it
 * had summed, are computed by others, so that each stage sums each micro-batch
 * once. A peer then moves to the stage with the least speed where that helps,
 * and loads its state for state_sec.
 *
 * A peer computes one thing at a time and sends one message at a time; the two
 * overlap. Steps do not overlap. Sums of gradients over the peers of a stage
 * and the optimizer are left out: they are the same without routing.
 */

#define PEN_SWARM_MAX_PEERS 1000u
#define PEN_SWARM_MAX_STAGES 256u
#define PEN_SWARM_MAX_MICROBATCHES 65536u

enum pen_swarm_policy {
    PEN_SWARM_ROUTED,   /* speeds are learned, and peers move */
    PEN_SWARM_BY_SPEED, /* shares in proportion to speeds; no peer moves */
    PEN_SWARM_EQUAL     /* peers of a stage in turn; no peer moves */
};

struct pen_swarm_job {
    enum pen_swarm_policy policy;
    uint32_t num_stages;
    uint32_t num_microbatches; /* of a step */
    uint32_t num_steps;
    double forward_sec; /* of a micro-batch on a stage, by a peer of speed 1 */
    double backward_sec;
    double message_sec; /* between two stages */
    double state_sec;   /* until a peer has moved to another stage */
    double detect_sec;
    const double *speeds; /* borrowed, of num_peers */
    uint32_t num_peers;   /* at least num_stages */
    uint32_t num_lost;    /* at even distances of the expected time */
};

struct pen_swarm {
    double seconds;       /* of all steps; 0: a stage lost its last peer */
    double bound_seconds; /* of computing alone, however it is shared */
    uint64_t num_moves;
    uint64_t num_again; /* passes through a stage that were computed again */
    /* How often a micro-batch was summed by a stage, in the last step. */
    uint32_t least_sums;
    uint32_t most_sums;
};

/* Which peers are lost is drawn from the seed. */
pen_status pen_swarm_simulate(const struct pen_swarm_job *job, uint64_t seed,
                              struct pen_swarm *out);

#endif

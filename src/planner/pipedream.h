#ifndef PEN_PLANNER_PIPEDREAM_H
#define PEN_PLANNER_PIPEDREAM_H

#include "base/status.h"
#include "base/text.h"
#include "graph/pipedream_profile.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * PipeDream's partitioning (Narayanan et al., SOSP 2019): stages, each
 * replicated on some devices, such that the slowest takes as little time per
 * micro-batch as it can. Networks of several levels are solved from the inside:
 * what is best on a machine is the device of the level around it.
 */

#define PEN_PIPEDREAM_MAX_LEVELS 4u
#define PEN_PIPEDREAM_MAX_DEVICES 1024u

struct pen_pipedream_level {
    uint32_t num_devices;
    double bytes_per_sec; /* between them */
};

struct pen_pipedream_problem {
    const struct pen_pipedream_profile *profile;
    const struct pen_pipedream_level *levels; /* innermost first */
    uint32_t num_levels;
    double memory_bytes; /* of a device; 0: not limited */
    /*
     * Whether activations that go from stage to stage limit the pace, as the
     * paper has it. The released program leaves them out unless it is given a
     * ratio of compression.
     */
    bool has_transfers;
    bool is_straight; /* no stage is replicated */
};

/* A stage of one level; those of the level below cut it further. */
struct pen_pipedream_stage {
    uint32_t level; /* 0: innermost */
    uint32_t num_replicas;
    double compute_sec; /* of one micro-batch on one device */
};

struct pen_pipedream_plan {
    double stage_sec; /* of the slowest stage, per micro-batch */
    double one_device_sec;
    double data_parallel_sec; /* with all devices as replicas */
    uint32_t num_states;      /* places where a cut may be */
    uint32_t num_stages;
    struct pen_pipedream_stage *stages; /* outermost level first, in order */
    uint32_t *node_stages; /* per node of the profile: innermost stage */
};

/*
 * The exact optimum of the recurrence. INFEASIBLE when nothing fits in memory,
 * or when branches of the graph give more states than can be searched.
 *
 * On success *out is owned by the caller; free it with
 * pen_pipedream_plan_free().
 */
pen_status pen_pipedream_solve(const struct pen_pipedream_problem *problem,
                               struct pen_pipedream_plan **out,
                               struct pen_text *why);
void pen_pipedream_plan_free(struct pen_pipedream_plan *plan);

#endif

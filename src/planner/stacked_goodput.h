#ifndef PEN_PLANNER_STACKED_GOODPUT_H
#define PEN_PLANNER_STACKED_GOODPUT_H

#include "base/status.h"
#include "planner/goodput.h"

/*
 * Goodput of a job whose replica groups hold more than one shard of the batch,
 * so that it continues without a restart when a group fails:
 *
 *   replication  sets of `height` groups compute the same shards, all of them
 *                all the time; a step is lost when a whole set is
 *   stacks       each shard is computed once, by another holder after a failure
 *                (stacks.h); a step is lost when all holders of a shard are
 *
 * A step takes step_sec plus shard_sec for every shard beyond the first that
 * the busiest group computes. A failure costs detect_sec and, with stacks, the
 * shards that survivors compute in addition in the step in flight. Groups that
 * failed return when the job restarts from its last checkpoint, which it does
 * when a step is lost. Failures come in proportion to the groups that are left,
 * also while the job restarts.
 */
struct pen_stacked_job {
    /* With spares at hand; holders, islands and the interval are not read. */
    struct pen_goodput_job job;
    uint32_t num_groups;
    uint32_t height;
    bool is_replicated;
    double shard_sec;
};

struct pen_stacked_goodput {
    struct pen_goodput goodput; /* of the work of one step without failures */
    double endured;             /* failures between two restarts */
    double depth;               /* shards of the busiest group, in the mean */
    double interval_sec;        /* of work between two saves, by Young */
};

/* 2 <= height <= num_groups; the limits are those of stacks.h. */
pen_status pen_stacked_goodput_simulate(const struct pen_stacked_job *job,
                                        uint64_t seed,
                                        struct pen_stacked_goodput *out);

#endif

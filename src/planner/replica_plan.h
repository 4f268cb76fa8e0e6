#ifndef PEN_PLANNER_REPLICA_PLAN_H
#define PEN_PLANNER_REPLICA_PLAN_H

#include "planner/replica_compare.h"
#include "planner/search.h"

/*
 * Replicas on a cluster, as methods see them: the rank of a replica with the
 * most weights sends and receives over the links between replicas, and a step
 * computes what is left of it when they do not talk.
 */
struct pen_replica_plan {
    struct pen_replica_shapes shapes; /* owned, as the ranking */
    struct pen_replica_setting setting;
    const char *link;             /* its level; borrowed from the cluster */
    struct pen_plan_ranking *own; /* of one replica; NULL: the plan given */
};

/*
 * The replicas of a plan. On failure *out is untouched. INVALID when there are
 * none that could go apart: why says what they share.
 */
pen_status pen_replica_plan_init(const struct pen_setting *setting,
                                 const struct pen_plan_found *found,
                                 struct pen_replica_plan *out,
                                 struct pen_text *why);

/*
 * Every block of the outermost links as one replica with a pipeline of its own,
 * which is searched for: what talks over those links is replicas alone. INVALID
 * when the batch or the devices do not come out even, INFEASIBLE when no plan
 * of a block fits.
 */
pen_status pen_replica_plan_of_blocks(const struct pen_setting *setting,
                                      double seconds,
                                      struct pen_replica_plan *out,
                                      struct pen_text *why);

void pen_replica_plan_release(struct pen_replica_plan *plan);

#endif

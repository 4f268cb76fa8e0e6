#ifndef PEN_PLANNER_REPLICA_GOODPUT_H
#define PEN_PLANNER_REPLICA_GOODPUT_H

#include "planner/goodput.h"
#include "planner/replica_sync.h"

/*
 * Replicas that fail. With a method that messages in most steps they are one
 * job, which goes back to its last checkpoint. With one that runs between
 * islands a failure stops one island, which begins its round again: at the end
 * of each it keeps what others do not have, its moments above all.
 */
struct pen_replica_failures {
    struct pen_goodput_job job; /* of all replicas; steps are set by methods */
    double num_moments;
    uint32_t islands; /* 1: there are none */
    uint64_t seed;
};

#define PEN_REPLICA_MOST_ISLANDS 16u

/*
 * The most islands that a ring may have and that these replicas divide into; 1:
 * there is no such number above it.
 */
uint32_t pen_replica_most_islands(uint32_t num_replicas);

/* One failure per `mtbf_sec` of all replicas, each of which is a node that
 * stores weights and moments; the rest is as in planner/recovery.h. */
void pen_replica_failures_init(const struct pen_replica_setting *setting,
                               double mtbf_sec, uint32_t islands,
                               struct pen_replica_failures *out);

/* Sets the goodput of a choice that was predicted, which is predicted again
 * where it runs between islands. */
void pen_replica_fail(const struct pen_replica_setting *setting,
                      const struct pen_replica_failures *failures,
                      struct pen_replica_time *time);

#endif

#ifndef PEN_PLANNER_RECOVERY_H
#define PEN_PLANNER_RECOVERY_H

#include "planner/failure_rate.h"
#include "planner/goodput.h"
#include "planner/predict.h"
#include "planner/stacked_goodput.h"

/*
 * Three ways to continue after a failure, compared by the goodput of one plan.
 *
 *   restart  the whole job again from its last checkpoint on disk
 *   holders  committed steps are in the memory of each node and of a buddy; the
 *            step in flight is computed again; from disk where both are lost
 *   islands  parts of the replicas, each with holders, that synchronise rarely:
 *            a failure stops one island
 */
#define PEN_RECOVERY_TABLE(X)                                                  \
    X(RESTART, "restart")                                                      \
    X(HOLDERS, "holders")                                                      \
    X(ISLANDS, "islands")

enum pen_recovery_way {
#define PEN_RECOVERY_ENUM(name, word) PEN_RECOVERY_##name,
    PEN_RECOVERY_TABLE(PEN_RECOVERY_ENUM)
#undef PEN_RECOVERY_ENUM
        PEN_RECOVERY_WAYS
};

/* NULL after the last one. */
extern const char *const pen_recovery_names[PEN_RECOVERY_WAYS + 1];

/*
 * Defaults where nothing else is given. Detection and restart are the medians
 * of 50 kills under penstock supervise, four ranks on one node of two cores,
 * Open MPI 4.1.4: from SIGKILL of a rank to its notice, and from there to the
 * next committed step; nothing was measured on many nodes. Storage and repair
 * are assumed. Steps between rounds are those of streaming DiLoCo; the grace
 * window follows from the patience as in the ring.
 */
#define PEN_RECOVERY_DETECT_SEC 0.02
#define PEN_RECOVERY_RESTART_SEC 0.63
#define PEN_RECOVERY_STORAGE_RATE 1e9 /* bytes per second of a node */
#define PEN_RECOVERY_REPAIR_SEC 86400.0
#define PEN_RECOVERY_SYNC_STEPS 30u
#define PEN_RECOVERY_PATIENCE_SEC 30.0

/* Negative seconds and shares, and counts of 0, are not given. */
struct pen_recovery_wish {
    double detect_sec;
    double restart_sec;
    double save_sec;
    double reload_sec; /* from disk */
    double storage_rate;
    double interval_sec;
    double pair_share;
    double repair_sec;
    uint32_t islands;
    uint32_t sync_steps;
    uint32_t spares; /* or PEN_GOODPUT_NO_LIMIT */
    uint32_t stacks; /* shards of a replica group, at most; 0: no stacks */
    uint64_t seed;
};

/* Nothing is given; spares are always at hand; seed 1. */
void pen_recovery_wish_init(struct pen_recovery_wish *wish);

struct pen_recovery_result {
    bool is_there; /* false: the replicas do not divide into islands */
    struct pen_goodput_job job;
    struct pen_goodput goodput;
};

/* The height with the most goodput; 0 where there are too few or too many
 * groups. */
struct pen_recovery_stacked {
    uint32_t height;
    struct pen_stacked_goodput found;
};

struct pen_recovery {
    uint64_t ranks;
    double step_sec;
    double mtbf_sec;
    double state_bytes; /* of a whole checkpoint */
    struct pen_recovery_result ways[PEN_RECOVERY_WAYS];
    /* For restart: seconds between saves, and goodput by the closed form. */
    double young_sec;
    double available_sec;
    double exact_sec;
    double exact_share;
    /* Set by pen_recovery_compare_stacks(). */
    uint32_t num_groups; /* replicas; 0: not compared */
    struct pen_recovery_stacked replication;
    struct pen_recovery_stacked stacks;
};

/* The ways of a plan that was predicted. */
void pen_recovery_compare(const struct pen_setting *setting,
                          const struct pen_plan *plan,
                          const struct pen_prediction *prediction,
                          const struct pen_failure_rate *rate,
                          const struct pen_recovery_wish *wish,
                          struct pen_recovery *out);

/*
 * Replication and stacks of shards of the same plan, of up to wish->stacks
 * shards. Spares are always at hand. NOMEM is the only failure.
 */
pen_status pen_recovery_compare_stacks(const struct pen_plan *plan,
                                       const struct pen_prediction *prediction,
                                       const struct pen_recovery_wish *wish,
                                       struct pen_recovery *recovery);

/*
 * The number of spare nodes for most goodput of all nodes, spares counted, with
 * what the job then has; the interval stays.
 */
uint32_t pen_recovery_search_spares(const struct pen_goodput_job *job,
                                    uint64_t seed, struct pen_goodput *out);

#endif

#ifndef PEN_PLANNER_CHANGES_H
#define PEN_PLANNER_CHANGES_H

#include "planner/search.h"

/*
 * The way from one plan to a better one, a choice at a time, with the step
 * after each change:
 *
 *   yours 12.4 s -> pp 4 to 8: 11.0 s -> micro-batch 1 to 2: 10.6 s = the best
 *
 * The next change is the one that helps most among those that the target runs
 * and that fit. Choices that the target only runs together change together.
 */

#define PEN_CHOICE_TABLE(X)                                                    \
    X(STAGES)   /* which layers are on which stage */                          \
    X(SEQUENCE) /* sequence parallelism */                                     \
    X(OVERLAP)  /* messages of replicas overlap with computing */              \
    X(TP)                                                                      \
    X(CP)                                                                      \
    X(PP)                                                                      \
    X(VPP) /* and the schedule */                                              \
    X(EP)                                                                      \
    X(MICRO_BATCH)                                                             \
    X(RECOMPUTE)                                                               \
    X(SHARDING)                                                                \
    X(DEVICES)

enum pen_choice {
#define PEN_CHOICE_ENUM(name) PEN_CHOICE_##name,
    PEN_CHOICE_TABLE(PEN_CHOICE_ENUM)
#undef PEN_CHOICE_ENUM
        PEN_CHOICES
};

/* Messages of a training that overlap with computing, and whether its loss is
 * fused; a plan itself does not say. */
struct pen_overlaps {
    bool gradients;
    bool parameters;
    bool loss;
};

/* One row: a layout, and how it differs from the row before it. */
struct pen_change {
    unsigned choices; /* bits, 1u << PEN_CHOICE_TP; 0: the first row */
    struct pen_candidate candidate;
    bool has_sequence_parallel;
    struct pen_overlaps overlaps;
    double step_sec;
    uint64_t peak_bytes;
    bool fits;
};

struct pen_changes {
    struct pen_change list[PEN_CHOICES + 1]; /* the first row is the plan */
    uint32_t count;
};

/* The setting, with messages hidden as told. */
struct pen_setting pen_setting_with_overlaps(const struct pen_setting *setting,
                                             const struct pen_overlaps *own);

/*
 * A plan that the search did not make, and its prediction with its own
 * overlaps.
 */
struct pen_plan_imported {
    const struct pen_plan *plan;
    const struct pen_prediction *prediction;
    struct pen_overlaps overlaps;
};

/* The way from this plan to one that was found in the same setting. */
void pen_changes_find(const struct pen_setting *setting,
                      const struct pen_plan_imported *from,
                      const struct pen_plan_found *found,
                      struct pen_changes *out);

#endif

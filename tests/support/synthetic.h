#ifndef PEN_TESTS_SYNTHETIC_H
#define PEN_TESTS_SYNTHETIC_H

#include "schedule/time.h"

/*
 * Traces whose cause is known: the timer executes the schedule under costs
 * that are the truth, and the trace says when it did what. Clocks of ranks
 * differ, steps take 0.8 to 1.2 of the truth and step 1 takes all of it.
 */
struct synthetic {
    const struct pen_schedule *schedule;
    const struct pen_costs *predicted; /* NULL: there is no costs.json */
    const struct pen_costs *truth;     /* per replica */
    uint32_t num_replicas;
    uint32_t num_steps; /* 1 to 5 */
    bool is_by_replica; /* ranks are numbered replica by replica */
};

/*
 * Replicas wait for each other in SYNC. Ranks are numbered row by row, as
 * Megatron does: replica d of row r is r * num_replicas + d; unless
 * is_by_replica.
 */
pen_status write_synthetic(const struct synthetic *synthetic,
                           const char *folder, struct pen_text *why);

#endif

#ifndef PEN_SCHEDULE_TIME_H
#define PEN_SCHEDULE_TIME_H

#include "schedule/costs.h"
#include "schedule/schedule.h"

/*
 * Times a schedule: how long it takes, which ranks wait, and how much they
 * hold, under the waiting rules of machine.h.
 *
 *   makespan   last end - first start over all ranks
 *   span       the largest (last end - first start) of one rank: the part that
 * repeats in a run of many steps without a barrier bubble     (span - busy of
 * the busiest rank) / span; with equal ranks this is (span - m T) / span of the
 * zero-bubble paper
 *
 * Ops that take no time (a SYNC or STEP without cost) do not count for spans.
 * A transfer starts with its send: the runtime posts receives ahead.
 */

struct pen_rank_time {
    double start_sec;
    double end_sec;
    double busy_sec;
    double idle_sec;   /* makespan - busy */
    double peak;       /* activations in A, guests included */
    uint32_t versions; /* most weight versions held by one of its stages */
};

struct pen_op_time {
    double start_sec;
    double end_sec;
};

struct pen_level {
    double at_sec;
    double level; /* in A, from at_sec on */
};

struct pen_curve {
    struct pen_level *points;
    uint32_t count;
};

/* One op of the critical path, in time order. */
struct pen_path_step {
    uint32_t rank;
    uint32_t position;
    bool is_message; /* it waited for a message of the step before */
};

struct pen_timing {
    double makespan_sec;
    double span_sec;
    double step_sec; /* in a run of many: the span where steps are optimistic,
                        for rows then follow each other; the makespan where all
                        ranks wait for each other before they step */
    double bubble;
    bool is_extrapolated; /* the periodic part was not walked through */
    uint32_t num_ranks;
    struct pen_rank_time *ranks;
    struct pen_op_time **ops; /* per rank and op; NULL unless asked for */
    struct pen_curve *curves; /* per rank; NULL unless asked for */
    struct pen_path_step *path;
    uint32_t path_count;
};

struct pen_time_options {
    bool with_ops;        /* start and end of every op, curves, path */
    bool is_exhaustive;   /* walk through the periodic part */
    uint32_t send_window; /* 0: the schedule's own */
};

/*
 * Times a lowered schedule that pen_schedule_verify() accepts; a schedule that
 * does not finish is refused. Free the result with pen_timing_free().
 */
pen_status pen_schedule_time(const struct pen_schedule *schedule,
                             const struct pen_costs *costs,
                             const struct pen_time_options *options,
                             struct pen_timing **out, struct pen_text *why);
void pen_timing_free(struct pen_timing *timing);

/*
 * A schedule made ready to be timed many times: the planner asks for one
 * order under a thousand costs. Borrowed schedule: keep it until the free.
 */
struct pen_timer;
pen_status pen_timer_create(const struct pen_schedule *schedule,
                            uint32_t send_window, struct pen_timer **out,
                            struct pen_text *why);
pen_status pen_timer_run(const struct pen_timer *timer,
                         const struct pen_costs *costs, bool is_exhaustive,
                         struct pen_timing **out, struct pen_text *why);
void pen_timer_free(struct pen_timer *timer);

#endif

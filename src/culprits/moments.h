#ifndef PEN_CULPRITS_MOMENTS_H
#define PEN_CULPRITS_MOMENTS_H

#include "core/mesh.h"
#include "core/trace.h"
#include "schedule/schedule.h"

/* Finds events in the trace of a run. */

#define PEN__NO_EVENT UINT64_MAX

/* One event; rank is its index in the trace. */
struct pen__moment {
    uint32_t rank;
    uint64_t event; /* or PEN__NO_EVENT */
};

struct pen__blame_run {
    const struct pen_trace *trace;       /* borrowed */
    const struct pen_schedule *schedule; /* likewise */
    struct pen_mesh mesh;                /* of what follows */
    uint32_t *ranks;                     /* of the trace */
    uint32_t *sends; /* positions by direction, stage, micro-batch and slice */
    uint32_t first_step;
    uint32_t num_steps;
    uint64_t **events; /* per rank, by step and position */
};

/*
 * Indexes the trace of a run. PEN_NOMEM is the only failure; there is nothing
 * to release then.
 */
pen_status pen__blame_run_init(struct pen__blame_run *run,
                               const struct pen_trace *trace,
                               const struct pen_schedule *schedule);
void pen__blame_run_release(struct pen__blame_run *run);

static inline const struct pen_trace_event *
pen__event_at(const struct pen__blame_run *run, struct pen__moment moment)
{
    return &run->trace->ranks[moment.rank].events[moment.event];
}

const struct pen_op *pen__op_at(const struct pen__blame_run *run,
                                struct pen__moment moment);

/* Finds the event of this op; its event is PEN__NO_EVENT when there is none. */
struct pen__moment pen__find_event(const struct pen__blame_run *run,
                                   uint32_t rank, uint32_t step,
                                   uint32_t position);

/*
 * Finds the send of the message that this op takes in, if it comes from another
 * rank.
 */
struct pen__moment pen__find_sender(const struct pen__blame_run *run,
                                    struct pen__moment to);

/*
 * Returns the op that came last before this SYNC or STEP was ready, of all ops
 * that synchronise with it, itself included.
 */
struct pen__moment pen__find_last(const struct pen__blame_run *run,
                                  struct pen__moment of);

/*
 * Returns the last op that a rank had begun at this time, on the clock of all
 * ranks.
 */
struct pen__moment pen__find_before(const struct pen__blame_run *run,
                                    uint32_t rank, int64_t at_ns);

/* Returns the time on the clock of all ranks. */
int64_t pen__begin_ns(const struct pen__blame_run *run,
                      struct pen__moment moment);
int64_t pen__ready_ns(const struct pen__blame_run *run,
                      struct pen__moment moment);
int64_t pen__end_ns(const struct pen__blame_run *run,
                    struct pen__moment moment);

#endif

#ifndef PEN_RUNTIME_TRACER_H
#define PEN_RUNTIME_TRACER_H

#include "core/trace.h"
#include "schedule/costs.h"
#include "schedule/schedule.h"

/*
 * Records what one rank does, op by op, into the trace of the run
 * (core/trace.h). Events go to memory that was made and touched before; files
 * are written between steps. One thread.
 */
struct pen_tracer;

struct pen_tracer_settings {
    const char *folder; /* made if it is not there; its parent must be */
    uint32_t rank;      /* of all */
    uint32_t num_ranks;
    uint32_t replica; /* of the pipeline */
    uint32_t row;     /* of the schedule */
    uint32_t num_ops; /* of that row */
    size_t capacity;  /* events between two flushes */
    /* The rank that has them writes them to the folder; NULL for others. */
    const struct pen_schedule *schedule;
    const struct pen_costs *costs; /* what was predicted; NULL: nothing */
};

/*
 * On success *out is owned by the caller; free it with pen_tracer_free(). An
 * older trace of this rank in the folder is gone.
 */
pen_status pen_tracer_create(const struct pen_tracer_settings *settings,
                             struct pen_tracer **out, struct pen_text *why);

/* Sets the nanoseconds to add to this rank's clock to get rank 0's. */
void pen_tracer_set_clock_offset(struct pen_tracer *tracer, int64_t offset_ns);

/* Never fails: an event without room is counted, not kept. */
void pen_tracer_record(struct pen_tracer *tracer,
                       const struct pen_trace_event *event);

/* Drops what was recorded since the last flush. */
void pen_tracer_forget(struct pen_tracer *tracer);

/*
 * Writes what was recorded since the last time, so that there is room again.
 * Does not allocate. Events that cannot be written (the disk is full) are
 * counted as lost, and the next flush tries its own.
 */
pen_status pen_tracer_flush(struct pen_tracer *tracer, struct pen_text *why);

/* Drops events that were not flushed. */
void pen_tracer_free(struct pen_tracer *tracer);

#endif

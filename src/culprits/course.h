#ifndef PEN_CULPRITS_COURSE_H
#define PEN_CULPRITS_COURSE_H

#include "core/mesh.h"
#include "core/trace.h"
#include "schedule/time.h"

/*
 * When the ops of one step began, were ready and ended, as it was measured or
 * as it was predicted; both in seconds from the first work of the step. A line
 * is one rank: replica * rows of the schedule + row.
 */

/* An op: it waited from begin to ready and worked from ready to end. */
struct pen__span {
    double begin_sec;
    double ready_sec;
    double end_sec;
};

struct pen__course {
    const struct pen_schedule *schedule; /* borrowed */
    uint32_t num_lines;
    struct pen__span **spans; /* per line and op; ends do not decrease */
    double end_sec;           /* of the last op of all */
};

/* Which rank has which line. */
struct pen__lines {
    uint32_t count;
    uint32_t *ranks; /* per line */
};

/* Refuses ranks that do not cover the rows of the schedule evenly. */
pen_status pen__lines_init(struct pen__lines *lines,
                           const struct pen_trace *trace,
                           const struct pen_schedule *schedule,
                           struct pen_text *why);
void pen__lines_release(struct pen__lines *lines);

/* A step of which every compute op of every rank was recorded. */
struct pen__step {
    uint32_t number;
    double sec; /* from the first work to the last end */
};

/*
 * Finds the whole steps of a trace by number; refuses a trace without any. Free
 * them with free().
 */
pen_status pen__steps_find(const struct pen_trace *trace,
                           const struct pen_schedule *schedule,
                           struct pen__step **out, size_t *count,
                           struct pen_text *why);

/*
 * Returns the step that has the (lower) median of their seconds; sorts them by
 * it.
 */
uint32_t pen__steps_median(struct pen__step *steps, size_t count);

/*
 * Makes the course of one step from a trace. An op without an event took no
 * time after the one before it. Waiting before the first work of the step
 * belongs to the step before. Release the result with pen__course_release().
 */
pen_status pen__course_measure(struct pen__course *course,
                               const struct pen_trace *trace,
                               const struct pen__lines *lines,
                               const struct pen_schedule *schedule,
                               uint32_t step, struct pen_text *why);

/*
 * Makes the course that was predicted, with one replica that represents all.
 * The timing must have its ops.
 */
pen_status pen__course_predict(struct pen__course *course,
                               const struct pen_timing *timing,
                               const struct pen_schedule *schedule,
                               struct pen_text *why);
void pen__course_release(struct pen__course *course);

/*
 * Returns the mesh of lines, which are in order of pipelines, whatever the
 * ranks' own order was.
 */
static inline struct pen_mesh pen__lines_mesh(const struct pen_shape *shape,
                                              uint32_t num_lines)
{
    return pen_mesh_fill(PEN_MESH_PIPELINE_FIRST, shape->num_ranks, num_lines);
}

static inline struct pen_mesh pen__course_mesh(const struct pen__course *course)
{
    return pen__lines_mesh(&course->schedule->shape, course->num_lines);
}

static inline uint32_t pen__row_of_line(const struct pen__course *course,
                                        uint32_t line)
{
    struct pen_mesh mesh = pen__course_mesh(course);
    return pen_mesh_row(&mesh, line);
}

/*
 * Returns whether the op occupies the rank's own processor: compute ops and
 * optimizer steps.
 */
bool pen__is_work(unsigned kind);

/*
 * Makes a timing of one replica's part of the course, for pictures. Its path is
 * empty. Free the result with pen_timing_free().
 */
pen_status pen__course_timing(const struct pen__course *course,
                              uint32_t replica, struct pen_timing **out,
                              struct pen_text *why);

#endif

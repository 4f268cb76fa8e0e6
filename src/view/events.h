#ifndef PEN_VIEW_EVENTS_H
#define PEN_VIEW_EVENTS_H

#include "schedule/schedule.h"

#include <stdbool.h>

/*
 * Events in Chrome's trace event format, as ui.perfetto.dev and
 * chrome://tracing read it. A million events are nothing unusual, so they are
 * written as text and not built as a tree.
 */
struct pen__events {
    struct pen_text *out;
    uint32_t process; /* of the events that follow, from 1 */
    bool has_any;
};

/* Write the text before the first and after the last event. */
void pen__events_open(struct pen__events *events);
void pen__events_close(struct pen__events *events);

/* Begins the next process. Its name must be clean (pen__add_clean()). */
void pen__events_add_process(struct pen__events *events, const char *name);
void pen__events_name_track(struct pen__events *events, uint32_t track,
                            const char *name);

/* Opens an event of this phase; the caller adds what it needs and a }. */
void pen__events_begin(struct pen__events *events, const char *phase,
                       uint32_t track);
void pen__events_add_usec(struct pen__events *events, const char *key,
                          double sec);

/*
 * Begins a slice, or an instant when it takes no time; the caller adds its
 * name.
 */
void pen__events_begin_slice(struct pen__events *events, uint32_t track,
                             double start_sec, double end_sec);

/* Adds the op as a slice or an instant, with rank, stage and version. */
void pen__events_add_op(struct pen__events *events, uint32_t track,
                        const struct pen_schedule *schedule, uint32_t rank,
                        const struct pen_op *op, double start_sec,
                        double end_sec);

#endif

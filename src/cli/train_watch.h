#ifndef PEN_CLI_TRAIN_WATCH_H
#define PEN_CLI_TRAIN_WATCH_H

#include "cli/train_layout.h"
#include "runtime/launch.h"
#include "runtime/tracer.h"
#include "runtime/watchdog.h"

/*
 * Who looks on while a rank trains: the board of the node and the watchdog,
 * and the trace. A training of one process has only the trace.
 */
struct pen__train_watch {
    struct pen_board *board;
    struct pen_watchdog *watchdog;
    struct pen_tracer *tracer;
    const struct pen_schedule *traced; /* the schedule that the trace is of */
    bool is_traced;                    /* its rows are carried out */
    uint64_t step;                     /* that is being taken, from 1 */
    uint32_t position;
};

/* On success release it; on failure nothing is left. */
pen_status pen__train_watch_init(struct pen__train_watch *watch,
                                 const struct pen__train_args *args,
                                 const struct pen__train_layout *layout,
                                 const struct pen_launch *launch,
                                 struct pen_transport *transport,
                                 struct pen_text *why);
void pen__train_watch_release(struct pen__train_watch *watch);

/* Hooks for the trainer; `watch` must stay where it is. */
struct pen_executor_hooks
pen__train_watch_hooks(struct pen__train_watch *watch);

/*
 * The rows are those of another schedule from here on, which must stay until
 * the end. A trace has the passes of the first one alone.
 */
void pen__train_watch_set_schedule(struct pen__train_watch *watch,
                                   const struct pen_schedule *schedule);

/* Between steps: one begins, or took so long; something else is done. */
void pen__train_watch_begin(struct pen__train_watch *watch, uint64_t step);
pen_status pen__train_watch_end(struct pen__train_watch *watch, double sec,
                                struct pen_text *why);
void pen__train_watch_note(struct pen__train_watch *watch,
                           enum pen_board_state state);

#endif

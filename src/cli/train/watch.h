#ifndef PEN_CLI_TRAIN_WATCH_H
#define PEN_CLI_TRAIN_WATCH_H

#include "cli/train/layout.h"
#include "runtime/tracer.h"
#include "watch/launch.h"
#include "watch/watchdog.h"

/*
 * The observers of a rank that trains: the board of the node, the watchdog and
 * the trace. A training of one process has only the trace.
 */
struct pen__train_watch {
    struct pen_board *board;
    struct pen_watchdog *watchdog;
    double least_sec;                  /* that idle ranks are given */
    bool has_prediction;               /* of the time of a step */
    struct pen_tracer *tracer;         /* NULL: none, or no disk for it */
    bool is_trace_told;                /* that it cannot be written */
    const struct pen_schedule *traced; /* the schedule that the trace is of */
    bool is_traced;                    /* its rows are carried out */
    enum pen_board_state state;        /* as noted last, outside the row */
    uint64_t step;                     /* that is being taken, from 1 */
    uint32_t position;
};

/*
 * Before MPI_Init: opens board and watchdog where the launcher has a name for
 * the job. PEN_LATE means that a rank of this node has not come. Release it in
 * any case.
 */
pen_status pen__train_watch_start(struct pen__train_watch *watch,
                                  const struct pen__train_args *args,
                                  const struct pen_launch *launch,
                                  struct pen_text *why);

/*
 * Right after MPI_Init: opens board and watchdog where that was not possible
 * before.
 */
pen_status pen__train_watch_join(struct pen__train_watch *watch,
                                 const struct pen__train_args *args,
                                 const struct pen_launch *launch,
                                 struct pen_transport *transport,
                                 struct pen_text *why);

/* Once the layout is known: expects its steps, and opens the trace. */
pen_status pen__train_watch_init(struct pen__train_watch *watch,
                                 const struct pen__train_args *args,
                                 const struct pen__train_layout *layout,
                                 struct pen_transport *transport,
                                 struct pen_text *why);

/*
 * The run changes to another layout, whose schedule must stay until the end. A
 * trace ends here.
 */
void pen__train_watch_move(struct pen__train_watch *watch,
                           const struct pen__train_layout *layout,
                           uint32_t rank);
void pen__train_watch_release(struct pen__train_watch *watch);

/*
 * Before the first step, without a prediction: the flops of a step, and those
 * of all ranks per second, at most; either may be NaN.
 */
void pen__train_watch_expect(struct pen__train_watch *watch, double step_flops,
                             double peak_flops);

/* Hooks for the trainer; `watch` must stay where it is. */
struct pen_executor_hooks
pen__train_watch_hooks(struct pen__train_watch *watch);

/*
 * The rows are those of another schedule from here on, which must stay until
 * the end. A trace has the passes of the first one alone.
 */
void pen__train_watch_set_schedule(struct pen__train_watch *watch,
                                   const struct pen_schedule *schedule);

/*
 * Between steps: a step begins, or took `sec` seconds; the rank does something
 * else.
 */
void pen__train_watch_begin(struct pen__train_watch *watch, uint64_t step);
void pen__train_watch_end(struct pen__train_watch *watch, double sec);
void pen__train_watch_note(struct pen__train_watch *watch,
                           enum pen_board_state state);

#endif

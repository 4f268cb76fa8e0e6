#ifndef PEN_CLI_TRAIN_REPORT_H
#define PEN_CLI_TRAIN_REPORT_H

#include "cli/train/metrics.h"
#include "cli/train/options.h"
#include "core/run_log.h"
#include "core/spikes.h"
#include "runtime/islands.h"
#include "runtime/tensorboard.h"

#include <time.h>

/*
 * The outputs of a training: a line on stdout every --log-interval steps, one
 * on the terminal that follows every step, a log of all steps, TensorBoard, and
 * the metrics. Called between steps, never within one.
 */
struct pen__train_report {
    uint64_t first_step; /* done before this run */
    uint64_t train_iters;
    uint64_t log_interval;
    const char *unit; /* of what is counted: "tokens" */
    uint64_t step_tokens;
    double step_flops;
    double peak_flops; /* of the machine per second; NaN: not known */

    struct timespec start;
    double spent_sec; /* in steps of this run */
    double line_sec;  /* in those since the last line */
    uint64_t line_steps;
    double shown_sec;        /* when the terminal's line was written */
    bool is_quiet;           /* another rank talks */
    bool has_bubble;         /* there are ranks that may wait */
    double predicted_bubble; /* NaN: not known */
    double bubble_sum;       /* of the steps since the last line */
    bool is_terminal;
    bool is_shown;

    bool has_moved; /* since the last step */
    struct pen_move_cost move;
    struct pen_island_turn turn; /* of an island whose round has ended */
    uint64_t logged;             /* the last step in the log */

    struct pen_spikes loss_spikes;
    struct pen_spikes norm_spikes;

    bool has_log;
    bool is_log_told; /* that it cannot be written */
    bool is_board_told;
    struct pen_run_log log;
    struct pen_tensorboard *board;      /* NULL: none */
    struct pen__train_metrics *metrics; /* borrowed; NULL: none */
};

/*
 * Opens the files of a run that did `last_step` steps before. A file whose disk
 * is full or broken is left out with a warning. On success end with
 * pen__train_report_close().
 */
pen_status pen__train_report_open(struct pen__train_report *report,
                                  const struct pen__train_args *args,
                                  uint64_t last_step, struct pen_text *why);
void pen__train_report_close(struct pen__train_report *report);

/* Seconds since the report was opened. */
double pen__train_report_clock(const struct pen__train_report *report);

/*
 * Reports a step that took `sec`; numbers that were not evaluated are NaN. A
 * line that cannot be written is lost, with one warning in a run.
 */
void pen__train_report_step(struct pen__train_report *report,
                            const struct pen_step *step, double sec,
                            const struct pen_evaluation *validation);

/* The layout changed before the coming step, whose line in the log says so. */
void pen__train_report_move(struct pen__train_report *report,
                            const struct pen_move_cost *cost);

/* A round between islands ended with the coming step. */
void pen__train_report_round(struct pen__train_report *report,
                             const struct pen_island_turn *next);

/* Removes the terminal's line; call it before printing anything else. */
void pen__train_report_clear(struct pen__train_report *report);

#endif

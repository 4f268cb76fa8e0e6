#ifndef PEN_RUNTIME_WATCHDOG_H
#define PEN_RUNTIME_WATCHDOG_H

#include "runtime/board.h"
#include "schedule/schedule.h"

/*
 * A thread beside the executor that notices when the job cannot go on, says
 * why on stderr, and ends the process. It never calls MPI and takes no signal.
 *
 *   a rank of this node dies   one of the others says which and in which op
 *   nothing moves              every rank says in which op it waits for whom,
 *                              and who is the root of the wait
 */
enum pen_watchdog_exit {
    PEN_EXIT_PEER_DIED = 69, /* another rank died */
    PEN_EXIT_HANG = 76       /* nothing moved until the deadline */
};

#define PEN_HANG_TIMEOUT_DEFAULT (-1.0)
#define PEN_HANG_TIMEOUT_NEVER 0.0

struct pen_watchdog_options {
    struct pen_board *board;             /* borrowed until the end */
    const struct pen_schedule *schedule; /* borrowed until the end */
    uint32_t num_ranks;                  /* of the job */
    double hang_timeout_sec;  /* of one wait, or one of the two above */
    double expected_step_sec; /* until the first is measured; 0: unknown */
};

struct pen_watchdog;

/*
 * A hang is a wait in which neither this rank nor the root of the wait has gone
 * on. By default it is told within max(2 s, 5 steps), of which four fifths are
 * spent waiting. A step counts as the median of the last ones; before the first
 * it is the expected one, and when nothing is expected a wait may take 10
 * minutes. Waits outside a row, and for a rank that saves or starts, may take
 * ten times as long. Time in which this process was stopped itself (a job that
 * is suspended as a whole) does not count.
 */
pen_status pen_watchdog_create(const struct pen_watchdog_options *options,
                               struct pen_watchdog **out, struct pen_text *why);

/* Ends the thread. NULL is fine. */
void pen_watchdog_free(struct pen_watchdog *watchdog);

/*
 * The executor has taken a step in so many seconds. Does nothing when the
 * watchdog is NULL; allocates nothing.
 */
void pen_watchdog_add_step(struct pen_watchdog *watchdog, double sec);

/* Rows are those of another schedule from here on, likewise borrowed. */
void pen_watchdog_set_schedule(struct pen_watchdog *watchdog,
                               const struct pen_schedule *schedule);

/* The rule of the default, for its tests: seconds that a wait may take. */
double pen_watchdog_patience(double median_step_sec);

#endif

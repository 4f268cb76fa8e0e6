#ifndef PEN_WATCH_WATCHDOG_H
#define PEN_WATCH_WATCHDOG_H

#include "schedule/schedule.h"
#include "watch/board.h"

/*
 * The watchdog: a thread of each rank that notices when the job cannot
 * continue, says why on stderr, and marks the rank on the board that is lost
 * (board.h): every wait of the main thread then returns PEN_LOST. The main
 * thread ends the process with pen_watchdog_leave(), or continues without the
 * rank after pen_watchdog_free(). If it does neither, since it computes or
 * blocks inside MPI, the watchdog ends the process within 12 s. The watchdog
 * never calls MPI and takes no signal.
 *
 *   a rank of this node dies   another rank reports which, and in which op
 *   nothing moves              every rank reports its op, the rank that it
 *                              waits for, and the root of the wait
 */
enum pen_watchdog_exit {
    PEN_EXIT_DAMAGED = 65,   /* numbers changed in memory or on their way */
    PEN_EXIT_PEER_DIED = 69, /* another rank died */
    PEN_EXIT_HANG = 76       /* nothing moved until the deadline */
};

#define PEN_HANG_TIMEOUT_DEFAULT (-1.0)
#define PEN_HANG_TIMEOUT_NEVER 0.0

struct pen_watchdog_options {
    struct pen_board *board;             /* borrowed until the end */
    const struct pen_schedule *schedule; /* likewise; NULL: none yet */
    uint32_t num_ranks;                  /* of the job */
    double hang_timeout_sec; /* for one wait; replaces the times listed below */
};

struct pen_watchdog;

/*
 * Starts the watchdog. A hang is a wait in which no rank between this one and
 * the root of the wait has moved. By default
 *
 *   a stopped rank       is reported and ends the job after 2 s
 *   a rank that sleeps   is warned of after max(2 s, 5 steps) and ends the job
 *                        after max(30 s, 25 steps)
 *   a rank that has, or  is slow: the time without a core does not count, and
 *   waits for, a core    only max(600 s, 100 steps) on a core in one operation
 *                        end the job; so does a wait for another node
 *
 * A step counts as the median of the last ones; before the first it is the
 * expected one. A hang timeout takes the place of all these times; a stopped
 * rank is still warned of after 2 s. Waits outside a row, and for a rank that
 * saves or starts, may take ten times as long. Time in which this process was
 * stopped itself (as when the whole job is suspended) does not count.
 */
pen_status pen_watchdog_create(const struct pen_watchdog_options *options,
                               struct pen_watchdog **out, struct pen_text *why);

/* Ends the thread. NULL is fine. */
void pen_watchdog_free(struct pen_watchdog *watchdog);

/*
 * Ends the process after PEN_LOST, with the exit code above that fits the loss
 * and at the same time as the other ranks of this node. The board must have a
 * loss.
 */
_Noreturn void pen_watchdog_leave(struct pen_watchdog *watchdog);

/*
 * Records that the executor has taken a step in `sec` seconds. Does nothing
 * when the watchdog is NULL; allocates nothing.
 */
void pen_watchdog_add_step(struct pen_watchdog *watchdog, double sec);

/*
 * Sets the seconds that a step is expected to take until the first is measured;
 * 0 means unknown. From here on idle ranks are given at least `least_sec`. Does
 * nothing when the watchdog is NULL. For the executor's thread.
 */
void pen_watchdog_expect(struct pen_watchdog *watchdog, double step_sec,
                         double least_sec);

/* Changes to the rows of another schedule, which is borrowed as well. */
void pen_watchdog_set_schedule(struct pen_watchdog *watchdog,
                               const struct pen_schedule *schedule);

#endif

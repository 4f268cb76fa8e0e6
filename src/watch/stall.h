#ifndef PEN_WATCH_STALL_H
#define PEN_WATCH_STALL_H

#include "watch/wait_chain.h"

/*
 * Judges whether a wait is slow or stuck. A rank that is on a core, or ready to
 * run without getting one, is slow; a rank that sleeps without progress is
 * stuck; a rank that is stopped certainly is. Pure functions of values read
 * from the board and from /proc.
 */

/* How long a wait may take before a warning or the end of the job. */
struct pen__patience {
    int64_t warn_ns;    /* idle: warn */
    int64_t idle_ns;    /* idle: end the job */
    int64_t busy_ns;    /* on a core within one operation: end the job */
    int64_t either_ns;  /* idle or on a core: end the job */
    int64_t stopped_ns; /* stopped by a signal: end the job */
};

#define PEN__FOREVER INT64_MAX

/*
 * Returns the patience with a wait. `hang_timeout_sec` is as in watchdog.h,
 * `step_sec` the time that a step takes, `least_sec` the least time that idle
 * ranks are given.
 */
struct pen__patience pen__patience_of(double hang_timeout_sec, double step_sec,
                                      double least_sec);

enum pen__verdict {
    PEN__MOVES, /* or is slow, or has been still for a short time only */
    PEN__WARN,
    PEN__HANGS
};

/*
 * One wait, from when it was first seen. The clocks count only time that the
 * watchdog has seen pass; they restart when a rank of the chain moves.
 */
struct pen__stall {
    int64_t moved_ns; /* which wait it is: last move; 0: none */
    uint32_t root;
    enum pen__root_kind kind;
    int64_t idle_ns;    /* no rank of the chain had, or waited for, a core */
    int64_t busy_ns;    /* the root was on a core */
    int64_t stopped_ns; /* the root was stopped */
    bool has_samples;
    struct pen__process_work *samples; /* of the last look, by local rank */
};

/* Forgets the wait, but keeps the room for samples. */
void pen__stall_reset(struct pen__stall *stall);

/*
 * Adds `passed_ns` to the clocks. The view's chain is that of `root`, and its
 * ranks have their work: all threads of a root of this node that does not wait,
 * the main thread of all others.
 */
void pen__stall_add(struct pen__stall *stall, const struct pen__node_view *view,
                    const struct pen__root *root, int64_t passed_ns);

/*
 * Judges the wait. `factor` says by how much longer a wait of this kind may
 * take.
 */
enum pen__verdict pen__stall_judge(const struct pen__stall *stall,
                                   const struct pen__patience *patience,
                                   int64_t factor);

#endif

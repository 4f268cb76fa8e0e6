#ifndef PEN_PLANNER_GOODPUT_H
#define PEN_PLANNER_GOODPUT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Goodput: the share of wall time that goes into steps that stay, by Monte
 * Carlo over failures. A job is a sequence of equal steps:
 *
 *   steps, `interval` of them ─► save to disk ─► steps ─► ...
 *   failure ─► [node is exchanged] ─► detect + restart + reload ─► steps
 *
 * After a failure the job goes back to the last checkpoint on disk; with
 * holders (memory_steps > 0) to the last commit in memory, unless a node and
 * its buddy are lost together. A failure during a recovery begins the recovery
 * again. Islands are jobs of this kind that synchronise every sync_steps steps:
 * a round waits for a late island for the grace window only, and a late island
 * continues by itself until the next round closes, so its steps stay.
 *
 * The same seed gives the same figures on every machine.
 */

#define PEN_GOODPUT_NO_LIMIT UINT32_MAX /* of spares: there is always one */
#define PEN_GOODPUT_MAX_SPARES 1000u
#define PEN_GOODPUT_MAX_ISLANDS 256u

struct pen_goodput_job {
    double mtbf_sec; /* of all devices together, all islands */
    double step_sec;
    double step_low_sec;   /* each run draws its step evenly between these; */
    double step_high_sec;  /* both 0: step_sec */
    uint64_t interval;     /* steps between two saves; at least 1 */
    double save_sec;       /* for which a save stops the steps */
    uint32_t memory_steps; /* between two commits in memory; 0: no holders */
    double detect_sec;
    double restart_sec;
    double disk_sec;     /* to reload from disk */
    double memory_sec;   /* to reload from the memory of a buddy */
    double pair_share;   /* of failures, that lose a node and its buddy */
    double node_share;   /* of failures, after which a node is exchanged */
    uint64_t num_nodes;  /* of all islands */
    uint32_t spares;     /* nodes on standby, or PEN_GOODPUT_NO_LIMIT */
    double repair_sec;   /* until an exchanged node is a spare */
    uint32_t islands;    /* 0 or 1: a single job */
    uint32_t sync_steps; /* between two rounds of islands */
    double sync_sec;     /* for which a round stops the steps */
    double grace_least_sec;
    double grace_most_sec;
    double patience_sec; /* after which rounds do not wait for a late island;
                            0: they always do */
};

struct pen_goodput {
    double share;
    double error; /* the 95 % confidence interval is share ± error */
};

/* `effort` 1 simulates 10,000 failures; less is quicker. */
struct pen_goodput pen_goodput_simulate(const struct pen_goodput_job *job,
                                        uint64_t seed, double effort);

/*
 * The interval with the most goodput, in steps: a search by simulation among
 * intervals around that of Young.
 */
uint64_t pen_goodput_search_interval(const struct pen_goodput_job *job,
                                     uint64_t seed);

/* ---- closed forms: a single job without holders, spares at hand ---- */

/*
 * Goodput by Daly's closed form: exponential failures, also during saves and
 * recoveries.
 */
double pen_goodput_exact(const struct pen_goodput_job *job);

/* Seconds of work between two saves. */
double pen_interval_young(double mtbf_sec, double save_sec);
/* The same for most availability (arXiv 2410.18124). */
double pen_interval_available(double mtbf_sec, double save_sec,
                              double recovery_sec);
/* The same with the largest pen_goodput_exact(). */
double pen_interval_exact(double mtbf_sec, double save_sec);

#endif

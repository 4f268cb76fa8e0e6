#ifndef PEN_SCHEDULE_VERIFY_H
#define PEN_SCHEDULE_VERIFY_H

#include "schedule/costs.h"
#include "schedule/schedule.h"

/*
 * Is a lowered schedule correct? The rules, docs/schedule-ir.md:
 *
 *   V1  every (stage, micro-batch, slice) has one F, and one B or one I and W
 *   V2  order on the rank: F < R < B or I < W; F < EV < LD < B or I; receives
 *       before their consumers, sends after their producers
 *   V3  every send has one receive, in the same order on each channel
 *   V4  no deadlock with rendezvous sends and a window of K
 *   V5  activations fit in the limit
 *   V6  B and I use the version of their F, and it is still held
 *   V7  SYNC after the last weight gradient, STEP after SYNC, once a period
 *   V8  every op is on the rank of its stage, with a micro-batch of its copy
 */
#define PEN_VERIFY_RULES 8

struct pen_verify_options {
    uint32_t send_window;          /* 0: the schedule's own */
    double memory_limit;           /* in A; 0: none */
    const struct pen_costs *costs; /* for V5; NULL: the default memory */
    bool needs_sync;               /* stages have replicas: STEP needs SYNC */
};

/* The first thing that is wrong. rule 0: nothing. */
struct pen_finding {
    unsigned rule; /* 1 to 8 */
    uint32_t rank;
    uint32_t position;
};

/*
 * Returns PEN_OK when the schedule keeps all rules. PEN_INVALID when it does
 * not: *finding says where, why says in one sentence which mistake, and shows
 * the grid. A deadlock is reported as its cycle, rank by rank. finding may be
 * NULL.
 */
pen_status pen_schedule_verify(const struct pen_schedule *schedule,
                               const struct pen_verify_options *options,
                               struct pen_finding *finding,
                               struct pen_text *why);

/* Told of every mistake; `words` are for this call only. */
typedef void pen_mistake_hook(void *context, const struct pen_finding *finding,
                              const char *words);

/*
 * Does the same, but continues after a mistake and reports all that do not
 * follow from others: a rule is left out where one that it relies on is broken.
 * An op has one mistake at most, and so has a channel; a deadlock is one.
 */
pen_status pen_schedule_verify_all(const struct pen_schedule *schedule,
                                   const struct pen_verify_options *options,
                                   pen_mistake_hook *hook, void *context,
                                   struct pen_text *why);

#endif

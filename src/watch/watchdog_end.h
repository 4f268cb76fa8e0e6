#ifndef PEN_WATCH_WATCHDOG_END_H
#define PEN_WATCH_WATCHDOG_END_H

#include "watch/board.h"
#include "watch/stall.h"

/*
 * The reports of a watchdog, and how its process leaves. Each report is one
 * write(), since a launcher may end all ranks a millisecond later. Nothing here
 * calls malloc(): the main thread may hold its lock.
 */
struct pen__reporter {
    struct pen_board *board; /* borrowed */
    uint32_t num_ranks;      /* of the job */
    const struct pen_schedule *schedule;
    struct pen__rank_view *ranks; /* one per rank of this node */
    uint32_t *chain;              /* likewise */
    struct pen_text line;         /* enlarged before it is needed */
};

/* Returns where all ranks of this node are; valid until the next call. */
struct pen__node_view pen__report_view(struct pen__reporter *reporter);

/*
 * Warns that this rank waits, unless a rank of this node has warned within the
 * last minute.
 */
void pen__report_warning(struct pen__reporter *reporter,
                         const struct pen__node_view *view, const char *end);

/*
 * Reports which op this rank waits in and for which rank, and marks the root of
 * the wait as lost. All ranks of the node call this.
 */
void pen__report_hang(struct pen__reporter *reporter);

/*
 * Wakes up the stopped ranks after such a report, and leaves together with all
 * others with PEN_EXIT_HANG.
 */
_Noreturn void pen__leave_hang(struct pen__reporter *reporter);

/* Leaves with a rank that was stopped while the others reported. */
_Noreturn void pen__leave_after_hang(struct pen__reporter *reporter);

/*
 * Reports the death from one rank of the node, and marks the dead rank as lost
 * on all.
 */
void pen__report_death(struct pen__reporter *reporter, uint32_t dead);

/* Leaves after such a report: all ranks with PEN_EXIT_PEER_DIED. */
_Noreturn void pen__leave_dead(struct pen__reporter *reporter, uint32_t dead);

#endif

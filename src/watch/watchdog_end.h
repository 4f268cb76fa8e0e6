#ifndef PEN_WATCH_WATCHDOG_END_H
#define PEN_WATCH_WATCHDOG_END_H

#include "watch/board.h"
#include "watch/stall.h"

/*
 * What a watchdog says, and how its process leaves. Each report is one write(),
 * since a launcher may end all ranks a millisecond later. Nothing here calls
 * malloc(): the main thread may hold its lock.
 */
struct pen__reporter {
    struct pen_board *board; /* borrowed */
    uint32_t num_ranks;      /* of the job */
    const struct pen_schedule *schedule;
    struct pen__rank_view *ranks; /* room for all of this node */
    uint32_t *chain;              /* likewise */
    struct pen_text line;         /* made large before it is needed */
};

/* Where all ranks of this node are; valid until the next call. */
struct pen__node_view pen__report_view(struct pen__reporter *reporter);

/*
 * Says that this rank waits, unless a rank of this node has said so within the
 * last minute.
 */
void pen__report_warning(struct pen__reporter *reporter,
                         const struct pen__node_view *view, const char *end);

/*
 * This rank says what it waits for, and marks the root of the wait as lost. All
 * ranks of the node do so.
 */
void pen__report_hang(struct pen__reporter *reporter);

/*
 * After that: wakes up those that are stopped, and leaves together with all
 * others with PEN_EXIT_HANG.
 */
_Noreturn void pen__leave_hang(struct pen__reporter *reporter);

/* For a rank that was stopped while the others reported: it leaves as well. */
_Noreturn void pen__leave_after_hang(struct pen__reporter *reporter);

/* One rank of the node reports the death, and all mark the rank as lost. */
void pen__report_death(struct pen__reporter *reporter, uint32_t dead);

/* After that: all leave with PEN_EXIT_PEER_DIED. */
_Noreturn void pen__leave_dead(struct pen__reporter *reporter, uint32_t dead);

#endif

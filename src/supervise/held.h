#ifndef PEN_SUPERVISE_HELD_H
#define PEN_SUPERVISE_HELD_H

#include "holder/holder.h"
#include "supervise/policy.h"

/*
 * The holder that keeps the committed steps of the ranks in memory, and the
 * facts that it has reported. Its socket is in a folder of its own.
 */
struct pen_held {
    struct pen_holder holder;
    struct pen_text folder;
    struct pen_text path;
    uint64_t epoch;
    int64_t *steps;      /* by rank, of this epoch; PEN_UNKNOWN: none yet */
    uint32_t num_ranks;  /* of the launch */
    uint32_t num_joined; /* that have connected, of this node */
    int64_t committed;   /* by all that have connected, in this epoch */
    int64_t first;       /* that was committed in this epoch */
    int64_t gone;        /* rank whose process ended without leaving */
    bool is_lost;        /* the holder itself has ended */
};

/* Starts the holder for the ranks of this epoch. */
pen_status pen_held_start(struct pen_held *held, uint64_t epoch,
                          struct pen_text *why);

/*
 * Begins the next epoch; a holder that has ended is started again, and is
 * empty.
 */
pen_status pen_held_advance(struct pen_held *held, uint64_t epoch,
                            struct pen_text *why);

/* Reads what the holder has told. Does not wait. */
void pen_held_read(struct pen_held *held);

/*
 * Reads, after all ranks have ended, which steps are in their memory. A rank
 * may be killed between a commit and its message, and the holder may be slow to
 * pass the message on.
 */
void pen_held_settle(struct pen_held *held);

/* Ends the holder and drops all steps. */
void pen_held_stop(struct pen_held *held);

#endif

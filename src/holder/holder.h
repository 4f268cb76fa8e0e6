#ifndef PEN_HOLDER_HOLDER_H
#define PEN_HOLDER_HOLDER_H

#include "holder/message.h"
#include "holder/names.h"

#include <sys/types.h>

/*
 * A process per node that keeps the committed steps of its ranks: it has the
 * descriptors of their memory (shard.h), and never touches a weight. It
 * outlives the ranks, and ends when its parent does. Other nodes have holders
 * without a parent.
 *
 *                 control: EPOCH, LIST
 *        parent  <==========================>  holder  <====>  ranks
 *                <--------------------------           HELLO, SHARD, COMMITTED,
 *                 events: CONNECTED, COMMITTED,        GOODBYE, LIST, FETCH
 *                         LEFT, GONE
 *
 * H1. Ranks of the current epoch alone are listened to. The next epoch closes
 *     the sockets of all others; what they committed stays.
 * H2. Shards of older epochs are dropped when a rank says that every rank of
 *     the current one has a commit (drops_older).
 * H3. The holder waits neither for messages nor for answers: a client that does
 * not
 *     read is cut off. Malformed bytes close the client that sent them.
 * H4. A rank whose socket closes without GOODBYE is an event at once: the
 *     kernel closes it however the process ends.
 */
struct pen_holder {
    pid_t pid;   /* -1: none */
    int control; /* questions; their answers */
    int events;  /* readable when there is an event */
};

#define PEN_HOLDER_EMPTY ((struct pen_holder){-1, -1, -1})
#define PEN_HOLDER_MAX_SHARDS 16384u

/*
 * Starts a holder that listens on a socket (mode 0600) of this path, in a
 * folder that must belong to this user alone (0700), for ranks of this epoch.
 * On success end with pen_holder_stop().
 */
pen_status pen_holder_start(const char *path, uint64_t epoch,
                            struct pen_holder *out, struct pen_text *why);

/*
 * Sets the next epoch, which must be later. Ranks of earlier epochs are cut off
 * when this returns, and cause no more events.
 */
pen_status pen_holder_set_epoch(struct pen_holder *holder, uint64_t epoch,
                                struct pen_text *why);

/*
 * Reads one entry of the table of shards; *out has count, and is an entry if
 * index is below that: epoch, rank, num_ranks, run, steps, num_bytes,
 * is_connected.
 */
pen_status pen_holder_entry(struct pen_holder *holder, uint32_t index,
                            struct pen_holder_message *out,
                            struct pen_text *why);

/*
 * Takes the next event, with epoch, rank, num_ranks and step (for COMMITTED,
 * the last one of the rank: some may be left out). PEN_BUSY when there is none.
 * PEN_LOST when the holder is gone.
 */
pen_status pen_holder_next_event(struct pen_holder *holder,
                                 struct pen_holder_message *out);

/* Ends and reaps it, and drops all memory. PEN_HOLDER_EMPTY is fine. */
void pen_holder_stop(struct pen_holder *holder);

/*
 * Starts a holder without a parent, for a node that is not the supervisor's. It
 * is at the epoch of the latest rank that has come (H1). It ends when a rank
 * has said that the training is done and all ranks are gone, or when no rank
 * was connected for idle_sec. Makes the folder if it is missing. Returns when
 * the socket exists: the process of the holder is not a child of this one and
 * has a session of its own, so that no launcher ends it. Does nothing where
 * another such holder runs already; a socket without a holder is replaced.
 */
pen_status pen_holder_start_alone(const char *path, double idle_sec,
                                  struct pen_text *why);

/* The ends that a holder listens to; -1: it has no parent. */
struct pen__holder_ends {
    int listener;
    int control;
    int events;
};

/*
 * Runs the process of the holder: serves until the other end of control closes,
 * or without one as above.
 */
void pen__holder_serve(const struct pen__holder_ends *ends, uint64_t epoch,
                       int64_t limit_ns);

#endif

#ifndef PEN_RING_SIM_SIM_H
#define PEN_RING_SIM_SIM_H

#include "ring/ring.h"

#include "base/status.h"
#include "base/text.h"

/*
 * Whole clusters in one thread: 3 to 9 islands, 2 or 3 coordinators and a
 * store, with virtual time and faults that are drawn from a seed. A1 to A8 are
 * checked after every event; then everything heals, and the rounds must
 * continue (all islands back, further rounds committed). One seed is one run,
 * the same everywhere.
 */

enum pen_ring_mark {
    PEN_RING_MARK_MESSAGE, /* node to peer, from began_at to at */
    PEN_RING_MARK_LOST,    /* the same, but it did not arrive */
    PEN_RING_MARK_COMMIT,  /* round, set: contributors */
    PEN_RING_MARK_EPOCH,   /* round: the epoch, set: members */
    PEN_RING_MARK_CRASH,   /* node, from began_at to at */
    PEN_RING_MARK_PAUSE,   /* the same */
    PEN_RING_MARK_CUT,     /* set: nodes cut off from the others */
    PEN_RING_MARK_OUTAGE,  /* of the store */
    PEN_RING_MARK_EVICT,   /* node */
    PEN_RING_MARK_LEAVE,   /* node */
    PEN_RING_MARK_LEASE,   /* lost by its holder */
    PEN_RING_MARK_TRAIN,   /* node, from began_at to at */
    PEN_RING_MARK_HEAL
};

/* An event of the run, for pictures. Times in nanoseconds. */
struct pen_ring_mark_at {
    enum pen_ring_mark mark;
    enum pen_ring_kind kind;
    uint32_t node;
    uint32_t peer;
    int64_t began_at;
    int64_t at;
    uint64_t round;
    uint64_t set;
    bool is_wiped; /* for CRASH: the kept part is gone, too */
};

struct pen_ring_run {
    uint64_t seed;
    /* May be NULL. */
    void (*mark)(void *context, const struct pen_ring_mark_at *mark);
    void *context;
};

/* The outcome of a run; the first rows are the cluster that the seed drew. */
struct pen_ring_outcome {
    uint32_t num_islands;
    uint32_t num_coordinators;
    uint32_t quorum;
    uint32_t num_faults;
    uint64_t num_events;
    uint64_t num_messages;
    uint64_t num_rounds;
    uint64_t num_epochs;
    uint64_t num_conflicts; /* swaps that the store refused */
    int64_t length;         /* virtual nanoseconds */
};

struct pen_ring_world;

/* Allocates memory for runs, which can be used again; NULL: there is none. */
struct pen_ring_world *pen_ring_world_create(void);
void pen_ring_world_free(struct pen_ring_world *world);

/*
 * Runs a seed. Not PEN_OK: an invariant broke, or rounds did not continue; why
 * says which, and when.
 */
pen_status pen_ring_sim(struct pen_ring_world *world,
                        const struct pen_ring_run *run,
                        struct pen_ring_outcome *out, struct pen_text *why);

#endif

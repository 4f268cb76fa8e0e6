#ifndef PEN_RUNTIME_ISLANDS_H
#define PEN_RUNTIME_ISLANDS_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A training as one island of several: after every H steps it gives what its
 * method of sync/ says to a round, and goes on with the state that all islands
 * agreed on. Moments of the optimizer stay with the island, which keeps those
 * of the last two rounds on disk: a round that is computed again has the same
 * bits.
 *
 *   enter: wait for a turn, take theta and the moments of its first step
 *     │
 *     ▼
 *   H steps ──► keep moments ──► gather on rank 0 ──► offer ──► wait for a turn
 *     ▲                                                               │
 *     └──────── theta; after a lost round also moments and step ◄─────┘
 *
 * I1 A turn begins at a multiple of H, with the moments of that step.
 * I2 Nothing is offered before all ranks have kept the moments behind it.
 * I3 All ranks take the same turn: rank 0 shares what the ring says.
 */
struct pen_island_turn {
    uint64_t round; /* to train for */
    uint64_t first; /* steps of this island before it */
    uint64_t epoch; /* of the membership that committed the round before */
    uint32_t num_islands; /* in that round; 0: there was none */
    double waited_sec;    /* for it, here */
    bool is_over;         /* the last round is committed: there is no other */
    bool is_ending;       /* the user wants to end; nothing else is new */
};

/*
 * The ring, as rank 0 sees it. Vectors have all weights of the model, tensors
 * in the order of their keys.
 */
struct pen_island_ring {
    void *context;
    /* Joins. `theta` is what the first round begins with. */
    pen_status (*open)(void *context, const float *theta, size_t count,
                       struct pen_text *why);
    /* What the turn gave. Copied. */
    void (*offer)(void *context, const struct pen_island_turn *turn,
                  const float *values);
    /* Whether there is another turn than the one that was offered last. Never
     * waits. */
    bool (*has_turn)(void *context);
    /* It, with the state that it begins with. Fails when this island takes no
     * part any more. */
    pen_status (*take)(void *context, struct pen_island_turn *out, float *theta,
                       struct pen_text *why);
};

struct pen_island {
    uint32_t count;     /* of islands */
    uint32_t number;    /* of this one: which share of a batch it takes */
    const char *folder; /* for its moments; borrowed, as the two below */
    const struct pen_island_ring *ring; /* NULL on other ranks than 0 */
    struct pen_text *why; /* gets the reason where a step fails for the ring */
};

#endif

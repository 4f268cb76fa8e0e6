#ifndef PEN_RUNTIME_ISLANDS_H
#define PEN_RUNTIME_ISLANDS_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A training as one island of several: at the end of a round it gives what its
 * method of sync/ says (sync/islands.h), and continues with the state that all
 * islands agreed on. State that others do not need stays with the island:
 * moments of the optimizer, and weights where islands continue with their own.
 * It keeps those of the last two rounds on disk: a round that is computed again
 * is bit-identical.
 *
 *   enter: wait for a turn, take theta and what is kept of its first step
 *     │
 *     ▼
 *   steps of a round ──► keep ──► gather on rank 0 ──► offer ──► wait: a turn
 *     ▲                                                   └ (delay) ┘    │
 *     └──────── theta; after a lost round also what is kept ◄────────────┘
 *
 * A method with a delay takes some steps of the next round before it waits.
 *
 * A round may be committed without this island. With is_folding, the island
 * then keeps its contribution, continues from the new state, and gives both to
 * the next round. Otherwise it computes the lost round again from the new
 * state.
 *
 * I1 A turn begins where a contribution ends, with what was kept then.
 * I2 Nothing is offered before all ranks have kept the state after it.
 * I3 All ranks take the same turn: rank 0 shares what the ring says.
 */
struct pen_island_turn {
    uint64_t round; /* to train for */
    uint64_t first; /* steps of this island before it */
    uint64_t last;  /* of an offer: steps of this island that are in it */
    uint64_t epoch; /* of the membership that committed the round before */
    uint32_t num_islands; /* in that round; 0: there was none */
    double waited_sec;    /* for it, here */
    bool is_over;         /* the last round is committed: there is no other */
    bool is_ending;       /* the user wants to end; nothing else is new */
};

struct pen_islands_model;

/*
 * The ring, as rank 0 sees it. Vectors have all weights of the model, tensors
 * in the order of their keys.
 */
struct pen_island_ring {
    void *context;
    /* Joins. `theta` is what the first round begins with. Both are borrowed for
     * the call. */
    pen_status (*open)(void *context, const struct pen_islands_model *model,
                       const float *theta, struct pen_text *why);
    /* A contribution to the turn (pen_islands_write()). Copied. */
    void (*offer)(void *context, const struct pen_island_turn *turn,
                  const void *bytes, size_t length);
    /* Whether there is another turn than the one that was offered last. Never
     * waits. */
    bool (*has_turn)(void *context);
    /* Takes that turn, and the part of its first state that
     * pen_islands_shared() describes. Fails when this island takes no part any
     * more. */
    pen_status (*take)(void *context, struct pen_island_turn *out, float *state,
                       struct pen_text *why);
};

struct pen_island {
    uint32_t count;     /* of islands */
    uint32_t number;    /* of this one: which share of a batch it takes */
    bool is_folding;    /* lost rounds go whole into the next one */
    const char *folder; /* for what it keeps; borrowed, as the two below */
    const struct pen_island_ring *ring; /* NULL on other ranks than 0 */
    struct pen_text *why; /* gets the reason where a step fails for the ring */
};

#endif

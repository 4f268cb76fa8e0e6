#ifndef PEN_SYNC_ISLANDS_H
#define PEN_SYNC_ISLANDS_H

#include "sync/registry.h"

/*
 * The contributions that islands send in a round, and the state that they make
 * of them: pure functions on vectors of the whole model. A state has theta, the
 * means of moments that are shared, and the other vectors of the method:
 *
 *   state          | theta | first moments | second moments | v ... |
 *   contribution   | fragment of the weights, or its code | moments due |
 *
 * States made of the same contributions are bit-identical.
 */
struct pen_islands;

struct pen_islands_model {
    const struct pen_sync_choice *choice; /* its method runs between islands */
    /*
     * Tensors of the whole model, in the same order on all islands; their
     * values are not read.
     */
    const struct pen_sync_tensor *tensors;
    size_t num_tensors;
    size_t count;         /* floats of all of them */
    uint32_t num_moments; /* of the optimizer */
    bool is_folding;      /* a contribution may have several rounds */
    uint64_t seed;
    uint64_t epoch_steps; /* as in sync/method.h */
};

/* Creates islands. The model is copied, its choice is borrowed. */
pen_status pen_islands_create(const struct pen_islands_model *model,
                              struct pen_islands **out, struct pen_text *why);
void pen_islands_free(struct pen_islands *islands);

/*
 * Returns INVALID, and why, where this method with these options does not run
 * between islands.
 */
pen_status pen_islands_check(const struct pen_sync_choice *choice,
                             bool is_folding, struct pen_text *why);

/* Returns whether contributions are changes (sync/method.h). */
bool pen_islands_gives_changes(const struct pen_sync_choice *choice,
                               bool is_folding);

/* Steps of a round, and from giving to needing the state. */
uint32_t pen_islands_steps(const struct pen_sync_choice *choice);
uint32_t pen_islands_delay(const struct pen_sync_choice *choice);

/*
 * Returns whether a round has a mean of first (0) or second (1) moments. Round
 * 0 has none.
 */
bool pen_islands_shares_moment(const struct pen_sync_choice *choice, int which,
                               uint64_t round);

/* Returns the fragment of the weights that a round is about. */
uint32_t pen_islands_fragment(const struct pen_sync_choice *choice,
                              uint64_t round);
/* Returns the fragment that has a tensor of the model. */
uint32_t pen_islands_fragment_of(const struct pen_islands_model *model,
                                 const struct pen_sync_tensor *tensor);

/*
 * Return the floats of a state, and those of its part from which an island
 * continues: theta and the means of moments.
 */
size_t pen_islands_state(const struct pen_islands *islands);
size_t pen_islands_shared(const struct pen_islands *islands);
/* Returns where the mean of a moment is in a state; 0: it is not shared. */
size_t pen_islands_moment(const struct pen_islands *islands, int which);

/*
 * Return the bytes of a contribution to this round, and to any round at most.
 */
size_t pen_islands_length(const struct pen_islands *islands, uint64_t round);
size_t pen_islands_most(const struct pen_islands *islands);

/*
 * Writes a contribution of pen_islands_length() bytes. `given` has the vector
 * that the method gave, and the moments that are due where pen_islands_moment()
 * says. The part that a compressor leaves out stays here: see states.
 */
void pen_islands_write(struct pen_islands *islands, uint64_t round,
                       float *given, void *out);

/*
 * Adds the states that have to be kept with the moments of the island that
 * writes.
 */
void pen_islands_states(struct pen_islands *islands,
                        struct pen_sync_states *out);

struct pen_islands_contribution {
    uint32_t island;
    double tokens; /* its weight */
    const void *bytes;
    size_t length;
};

/*
 * Computes the next state, in place. INVALID where contributions are not of
 * this round; then the state is useless. Sorts contributions by island.
 */
pen_status pen_islands_take(struct pen_islands *islands, uint64_t round,
                            struct pen_islands_contribution *given,
                            uint32_t num_given, float *state);

/* Returns the bytes of memory that it keeps. */
size_t pen_islands_bytes(const struct pen_islands *islands);

#endif

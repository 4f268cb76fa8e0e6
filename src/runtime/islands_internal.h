#ifndef PEN_RUNTIME_ISLANDS_INTERNAL_H
#define PEN_RUNTIME_ISLANDS_INTERNAL_H

#include "runtime/executor.h"
#include "runtime/islands.h"
#include "sync/registry.h"

/*
 * The method of replicas.h that an island follows, in place of that of the
 * choice, whose name and options it has.
 */
struct pen_sync_method pen__island_method(const struct pen_sync_method *of);

/* All is borrowed. The peers of the setting are the ranks of the island, and
 * its interval is that of rounds. */
struct pen__island_facts {
    const struct pen_sync_setting *setting;
    const struct pen_sync_choice *choice;
    const struct pen_island *island;
    struct pen_executor *executor;
    uint32_t num_moments; /* of the optimizer */
};

/* In place of the method's create(). */
pen_status pen__island_create(const struct pen__island_facts *facts,
                              struct pen_sync **out);

/* The status and the turn of the island, the same on all ranks. */
pen_status pen__island_status(const struct pen_sync *sync) PEN_MUST_CHECK;
const struct pen_island_turn *pen__island_turn(const struct pen_sync *sync);
/* Steps after which the island is where its turn wants it. */
uint64_t pen__island_position(const struct pen_sync *sync);

/*
 * island_kept.c: the state that a rank needs to begin a round again, in
 * addition to theta: the moments of the optimizer, and weights and vectors of
 * its own where its method has them.
 */
struct pen__island_kept {
    const struct pen_sync_setting *setting;
    const char *folder;
    bool has_weights;
    float *const *own;
    uint32_t num_own;
    const struct pen_sync_states *states; /* of a compressor; NULL: none */
    /* With changes that wait for the next round (--late fold); else NULL. */
    float *waiting;
};

/* The moment in a run at which state was kept. */
struct pen__island_moment {
    uint64_t steps;
    uint64_t first; /* of what was given then */
    uint64_t round; /* for which */
};

pen_status pen__island_keep(const struct pen__island_kept *kept,
                            const struct pen__island_moment *at,
                            struct pen_text *why);
/* Sets everything but the weights to 0, as at the start. */
void pen__island_clear(const struct pen__island_kept *kept);
/*
 * Restores the state kept for these steps. False: there is none, and nothing
 * changed.
 */
bool pen__island_recall(const struct pen__island_kept *kept, uint64_t steps);
/* The last contribution that was given from `first` on for a round before
 * `round`; false: there is none. */
bool pen__island_recall_late(const struct pen__island_kept *kept,
                             uint64_t first, uint64_t round,
                             struct pen__island_moment *out);
size_t pen__island_kept_bytes(const struct pen__island_kept *kept);

#endif

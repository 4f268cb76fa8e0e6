#ifndef PEN_CLI_TRAIN_RING_H
#define PEN_CLI_TRAIN_RING_H

#include "cli/train/options.h"
#include "cli/train/ring_member.h"
#include "core/any_model.h"

/* A training as an island of --ring; without that, all does nothing. */
struct pen__train_ring {
    struct pen_island island; /* of which `count` is 0: there is none */
    struct pen_island_ring hooks;
    struct pen_text keys; /* folders */
    struct pen_text folder;
    struct pen_text why;
    struct pen__ring_member_options options;
    uint8_t config[32];
    struct pen__ring_member *member; /* rank 0, from when it has joined */
};

/*
 * Finds out which island this is. All ranks of the transport call it together.
 */
pen_status pen__train_ring_find(struct pen__train_ring *ring,
                                const struct pen__train_args *args,
                                struct pen_transport *transport,
                                struct pen_text *why);
void pen__train_ring_release(struct pen__train_ring *ring);

struct pen__train_ring_facts {
    const struct pen__train_args *args;
    const struct pen_any_model *model;
    const struct pen_sync_choice *choice;
    struct pen_batches *batches;
};

/* Before the replicas join: describes what all islands must have in common. */
pen_status pen__train_ring_describe(struct pen__train_ring *ring,
                                    const struct pen__train_ring_facts *facts,
                                    struct pen_text *why);

/* The island for pen_trainer_join(); NULL: there is none. */
const struct pen_island *
pen__train_ring_island(const struct pen__train_ring *ring);

/* Adds the reason of the ring where a step failed for it. */
void pen__train_ring_explain(struct pen__train_ring *ring,
                             struct pen_text *why);

/* After the last step: waits until no island needs this one. */
void pen__train_ring_leave(struct pen__train_ring *ring);

#endif

#ifndef PEN_CLI_TRAIN_RING_MEMBER_H
#define PEN_CLI_TRAIN_RING_MEMBER_H

#include "ring/net/member.h"
#include "runtime/islands.h"
#include "sync/islands.h"

/*
 * The member of a ring (ring/net/member.h) in a thread of its own, so that it
 * gives signs of life while steps compute, and a box between it and the thread
 * that trains:
 *
 *   member's thread                 box                  the one that trains
 *   train(round, first)  ──► what is wanted  ──► pen__ring_member_take()
 *   commit(state)        ──► the state       ──┘
 *   offer to the ring    ◄── a contribution  ◄── pen__ring_member_offer()
 *
 * B1 What is wanted begins with the state in the box: its round is the next.
 * B2 A contribution stays in the box until the next one, and is offered again
 *    when the ring wants the same round from the same step again.
 */
struct pen__ring_member;

struct pen__ring_member_options {
    struct pen_ring_member_options ring; /* the first half: no functions */
    uint64_t num_rounds;                 /* of the run */
    uint64_t step_tokens;                /* of this island */
};

/* Texts of the options are borrowed. */
pen_status
pen__ring_member_create(const struct pen__ring_member_options *options,
                        const struct pen_islands_model *model,
                        const float *theta, struct pen__ring_member **out,
                        struct pen_text *why);

/* The functions of struct pen_island_ring; the context is the member. */
void pen__ring_member_offer(struct pen__ring_member *member,
                            const struct pen_island_turn *turn,
                            const void *bytes, size_t length);
bool pen__ring_member_has_turn(struct pen__ring_member *member);
pen_status pen__ring_member_take(struct pen__ring_member *member,
                                 struct pen_island_turn *out, float *state,
                                 struct pen_text *why);

/*
 * After the last round: leaves the ring, so that no remaining island waits for
 * this one. False: not yet.
 */
bool pen__ring_member_has_left(struct pen__ring_member *member);

/* Ends the thread. NULL is fine. */
void pen__ring_member_free(struct pen__ring_member *member);

#endif

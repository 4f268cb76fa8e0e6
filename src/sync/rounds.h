#ifndef PEN_SYNC_ROUNDS_H
#define PEN_SYNC_ROUNDS_H

#include "group/group.h"

/*
 * Rounds in which members of a group merge their changes, although some are
 * late. Each member informs the leader, member 0, when it has a change to give;
 * the leader begins a round once enough of them have, and informs all:
 *
 *   WAITING --- a quorum gives and waits ---> GRACE --- all are here, or the
 *      ^                                        |       grace window is over
 *      |                                        v
 *      '-------- the round has ended -------- RUNNING
 *
 * All members take part in a round, late ones with nothing. A change of a
 * member that does not wait joins a round, but does not count for closing it:
 * that would make others late.
 *
 * The grace window is `grace` times the median of what the last rounds took
 * until their quorum, no shorter than `shortest` and no longer than `longest`.
 *
 * 1. All members begin the same rounds in the same order, and a round ends on
 *    a member before the next one begins there.
 * 2. A change that a member had when it learnt that a round begins goes into
 *    that round. The leader has its word, or gets it: a word sent before the
 *    member learnt of a round does not count for the next one.
 * 3. No member waits for ever: when all others give, wait or have left, a round
 *    begins below the quorum; when none of them gives, the waiting ones are
 *    released without a round.
 *
 * A member that computes looks after messages when it is polled; if it does not
 * do so for long, the others wait for it.
 */
struct pen_rounds;

enum { PEN_ROUNDS_CHANNELS = 2, PEN_ROUNDS_BYTES = 16 /* of a message */ };

struct pen_rounds_options {
    struct pen_group *peers;
    uint32_t channel; /* the first */
    uint32_t quorum;  /* members that are in time: they give and wait */
    double grace;
    double shortest_sec;
    double longest_sec;
};

/* Creates rounds. On failure *out is untouched. */
pen_status pen_rounds_create(const struct pen_rounds_options *options,
                             struct pen_rounds **out);
void pen_rounds_free(struct pen_rounds *rounds);

enum pen_rounds_post {
    PEN_ROUNDS_GIVE,          /* continues meanwhile */
    PEN_ROUNDS_GIVE_AND_WAIT, /* for the round */
    PEN_ROUNDS_WAIT,          /* for the next round, with nothing to give */
    PEN_ROUNDS_LEAVE          /* until all have left */
};

void pen_rounds_post(struct pen_rounds *rounds, enum pen_rounds_post post);

enum pen_rounds_event {
    PEN_ROUNDS_NOTHING,
    PEN_ROUNDS_BEGIN,    /* a round begins here; pen_rounds_end() is due */
    PEN_ROUNDS_RELEASED, /* waiting members continue without a round */
    PEN_ROUNDS_LEFT      /* all have left: what they gave is forgotten, and
                            nothing is under way until the next call */
};

/* Returns the next event of the rounds; never waits. */
enum pen_rounds_event pen_rounds_poll(struct pen_rounds *rounds);

/* Notes that the round has ended on this member. */
void pen_rounds_end(struct pen_rounds *rounds);

/* Returns whether all messages of this member have arrived. */
bool pen_rounds_are_quiet(struct pen_rounds *rounds);

/* Computes the grace window from the seconds of the last `count` rounds. */
double pen_rounds_grace_sec(const struct pen_rounds_options *options,
                            const double *past, size_t count);

#endif

#ifndef PEN_RUNTIME_GUESTS_H
#define PEN_RUNTIME_GUESTS_H

#include "runtime/executor.h"

/*
 * Stashes that move to the partner rank and back (EV and LD ops).
 *
 *   this rank   EV: stash ------>  guest of the partner
 *               LD: stash <------  sent back as soon as it is wanted
 *
 * The partner needs no ops for it: it has room for as many guests as the
 * other's row has away at once, posts receives for them ahead, and posts the
 * way back when a guest has come. Guests return in the order in which they
 * came.
 */
struct pen_guests;

/*
 * *out is NULL where neither this rank nor its partner evicts. Exchanges
 * sizes with the partner, which must do the same.
 */
pen_status pen_guests_create(struct pen_executor *executor,
                             const struct pen_executor_options *options,
                             struct pen_guests **out);
void pen_guests_free(struct pen_guests *guests);

size_t pen_guests_bytes(const struct pen_guests *guests);

void pen_guests_begin(struct pen_guests *guests);
void pen_guests_poll(struct pen_guests *guests);
bool pen_guests_is_idle(const struct pen_guests *guests);

/* Carries out EV or LD. */
pen_status pen_guests_move(struct pen_guests *guests,
                           const struct pen_op *op) PEN_MUST_CHECK;

/* Waits until the stash that a backward wants is back. */
pen_status pen_guests_await(struct pen_guests *guests,
                            const struct pen_op *op) PEN_MUST_CHECK;

#endif

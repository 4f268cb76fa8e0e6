#ifndef PEN_SIM_TIMED_ENGINE_H
#define PEN_SIM_TIMED_ENGINE_H

#include "core/layer_messages.h"
#include "engine/engine.h"

/*
 * An engine that spends seconds in place of computing. Its parameters have a
 * number of elements and no memory, so it has no operations on activations;
 * layers spend their seconds themselves (timed_network.h).
 *
 * The seconds are gathered until the passed time has to show: at the end of an
 * operation, or, while `is_fine`, after every layer.
 */
struct pen_timed_engine;

/* Passes so much time, whatever that is. */
typedef void pen_spend(void *context, double seconds);

pen_status pen_timed_engine_create(struct pen_timed_engine **out);

/* Returns the engine, to be freed as one. */
struct pen_engine *pen_timed_engine(struct pen_timed_engine *timed);

/* Sets the function that spends time, before any is spent. */
void pen_timed_engine_set_spend(struct pen_timed_engine *timed,
                                pen_spend *spend, void *context);

/* Sends a round of messages inside a layer; with the context of the above. */
typedef void pen_exchange_inside(void *context,
                                 const struct pen_message_round *round);
void pen_timed_engine_set_exchange(struct pen_timed_engine *timed,
                                   pen_exchange_inside *exchange);
void pen_timed_engine_exchange(struct pen_timed_engine *timed,
                               const struct pen_message_round *round);

/* Sets the factor for the seconds of the operation that begins. */
void pen_timed_engine_begin(struct pen_timed_engine *timed, double factor,
                            bool is_fine);

/* Owes seconds of this operation, or pays all that are owed. */
void pen_timed_engine_owe(struct pen_timed_engine *timed, double seconds);
void pen_timed_engine_pay(struct pen_timed_engine *timed, bool is_end);

/* Sets the seconds of an optimizer step for each parameter made from now on. */
void pen_timed_engine_set_step(struct pen_timed_engine *timed, double seconds);

#endif

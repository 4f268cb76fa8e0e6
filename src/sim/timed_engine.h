#ifndef PEN_SIM_TIMED_ENGINE_H
#define PEN_SIM_TIMED_ENGINE_H

#include "core/layer_messages.h"
#include "engine/engine.h"

/*
 * An engine that spends seconds in place of computing. Its parameters have a
 * number of elements and no memory, so it has no operations on activations;
 * layers spend their seconds themselves (timed_network.h).
 *
 * What is spent is gathered until somebody has to see the time that passed:
 * at the end of an operation, or, while `is_fine`, behind every layer.
 */
struct pen_timed_engine;

/* Passes so much time, whatever that is. */
typedef void pen_spend(void *context, double seconds);

pen_status pen_timed_engine_create(struct pen_timed_engine **out);

/* The engine, to be freed as one. */
struct pen_engine *pen_timed_engine(struct pen_timed_engine *timed);

/* Before anything is spent. */
void pen_timed_engine_set_spend(struct pen_timed_engine *timed,
                                pen_spend *spend, void *context);

/* A round of messages inside a layer; with the context of the above. */
typedef void pen_exchange_inside(void *context,
                                 const struct pen_message_round *round);
void pen_timed_engine_set_exchange(struct pen_timed_engine *timed,
                                   pen_exchange_inside *exchange);
void pen_timed_engine_exchange(struct pen_timed_engine *timed,
                               const struct pen_message_round *round);

/* Of the operation that begins: by what its seconds are multiplied. */
void pen_timed_engine_begin(struct pen_timed_engine *timed, double factor,
                            bool is_fine);

/* Owes seconds of this operation, or pays all that are owed. */
void pen_timed_engine_owe(struct pen_timed_engine *timed, double seconds);
void pen_timed_engine_pay(struct pen_timed_engine *timed, bool is_end);

/* What a step of the optimizer takes for one parameter of those made next. */
void pen_timed_engine_set_step(struct pen_timed_engine *timed, double seconds);

#endif

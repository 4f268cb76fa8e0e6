#ifndef PEN_RUNTIME_SAVED_STATE_H
#define PEN_RUNTIME_SAVED_STATE_H

#include "runtime/exchange.h"

/*
 * Values and moments of the parameters that a rank steps, as they were before
 * its last step, to undo it. An inverse update would not be bit-identical.
 */
struct pen_saved_state;

/*
 * For the parameters that this rank owns, of the executor's stages; their
 * moments are there already. NOMEM is the only failure.
 */
pen_status pen_saved_state_create(struct pen_executor *executor,
                                  const struct pen_exchange *exchange,
                                  struct pen_saved_state **out);
void pen_saved_state_free(struct pen_saved_state *saved);

size_t pen_saved_state_bytes(const struct pen_saved_state *saved);

void pen_saved_state_keep(struct pen_saved_state *saved);
void pen_saved_state_restore(struct pen_saved_state *saved);

#endif

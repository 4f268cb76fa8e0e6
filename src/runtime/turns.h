#ifndef PEN_RUNTIME_TURNS_H
#define PEN_RUNTIME_TURNS_H

#include "runtime/reduction.h"

/*
 * Memory that the gradients of layers have in turns, on a member that sends
 * them to their owners and does not keep them (ZeRO-2):
 *
 *   one end    | layer 6         | layer 4         | layer 2 ...
 *   other end          | layer 5         | layer 3 ...
 *                                              time of a backward ->
 *
 * A layer may be written when the gradients of the layer two behind it have
 * left. Gradients that the member owns have memory of their own, and so does a
 * tied matrix, which is complete last.
 */
struct pen_turns;

/* Gives all gradients memory: they were made without. On failure *out is
 * untouched. */
pen_status pen_turns_create(struct pen_network *network,
                            const struct pen_reduction *reduction,
                            struct pen_turns **out, struct pen_text *why);

/* Nothing writes gradients any more. */
void pen_turns_free(struct pen_turns *turns);

size_t pen_turns_bytes(const struct pen_turns *turns);

/* Clears the gradients of a layer that has its turn now. */
void pen_turns_clear(const struct pen_turns *turns, uint32_t layer);

#endif

#ifndef PEN_RUNTIME_TURNS_H
#define PEN_RUNTIME_TURNS_H

#include "runtime/reduction.h"

/*
 * Memory that the gradients of layers have in turns, on a member that sends
 * them to their owners and does not keep them (ZeRO-2), or the values, on one
 * that gets them from their owners (ZeRO-3):
 *
 *   one end    | layer 6         | layer 4         | layer 2 ...
 *   other end          | layer 5         | layer 3 ...
 *                                              time of a backward ->
 *
 * A layer may be written when the gradients of the layer two turns before it
 * have left. Parameters that the member owns have memory of their own, and so
 * has a tied matrix, which two layers use and whose gradient is complete last.
 */
struct pen_turns;

/* Gives this part of all parameters memory: they were made without. On failure
 * *out is untouched. */
pen_status pen_turns_create(struct pen_network *network,
                            const struct pen_reduction *reduction,
                            enum pen_parameter_part part,
                            struct pen_turns **out, struct pen_text *why);

/* Whether a parameter takes turns. */
bool pen_turns_has(const struct pen_turns *turns, size_t parameter);

/* Nothing may write the part any more. */
void pen_turns_free(struct pen_turns *turns);

size_t pen_turns_bytes(const struct pen_turns *turns);

/* Clears the gradients of a layer that has its turn now. */
void pen_turns_clear(const struct pen_turns *turns, uint32_t layer);

#endif

#ifndef PEN_CALLS_HISTORY_H
#define PEN_CALLS_HISTORY_H

#include "calls/calls.h"

/*
 * Predicts the next calls of programs that train, which repeat their calls step
 * by step: after a list of calls follow those that followed the longest earlier
 * stretch that equals the end of the list.
 */

/* Returns whether two ranks' calls can be the same collective. */
bool pen__call_agrees(const struct pen_call *a, const struct pen_call *b);

/* Returns the call to expect next; NULL where nothing was repeated. */
const struct pen_call *pen__history_expect(const struct pen_call *const *calls,
                                           size_t count);

#endif

#ifndef PEN_CALLS_HISTORY_H
#define PEN_CALLS_HISTORY_H

#include "calls/calls.h"

/*
 * Programs that train repeat their calls step by step. What comes next after
 * a list of calls is what came after the longest stretch that is equal to the
 * end of the list.
 */

/* Whether two ranks' calls can be the same collective. */
bool pen__call_agrees(const struct pen_call *a, const struct pen_call *b);

/* Sets the next call and the one after; NULL where nothing was repeated. */
void pen__history_expect(const struct pen_call *const *calls, size_t count,
                         const struct pen_call **next,
                         const struct pen_call **after);

#endif

#include "calls/history.h"

#include <string.h>

#define MOST_LOOKED_AT 4096u /* calls before the end */
#define MOST_EQUAL 64u       /* a stretch of this length decides */

bool pen__call_agrees(const struct pen_call *a, const struct pen_call *b)
{
    if (a->op != b->op)
        return false;
    if (!pen_call_op_info(a->op)->has_same_data ||
        a->data.elements == PEN_CALL_NO_DATA ||
        b->data.elements == PEN_CALL_NO_DATA)
        return true;
    return a->data.elements == b->data.elements &&
           strcmp(a->data.dtype, b->data.dtype) == 0;
}

/* Counts the calls before `at` that equal those before the end. */
static size_t equal_length(const struct pen_call *const *calls, size_t count,
                           size_t at)
{
    size_t length = 0;
    while (length < at && length < MOST_EQUAL &&
           pen__call_agrees(calls[at - 1 - length], calls[count - 1 - length]))
        length++;
    return length;
}

const struct pen_call *pen__history_expect(const struct pen_call *const *calls,
                                           size_t count)
{
    const struct pen_call *next = NULL;
    size_t best = 0;
    size_t least = count > MOST_LOOKED_AT ? count - MOST_LOOKED_AT : 0;
    for (size_t at = count; at-- > least + 1;) {
        size_t length = equal_length(calls, count, at);
        if (length > best) {
            best = length;
            next = calls[at];
        }
    }
    return next;
}

/*
 * Whatever is accepted as the events of a supervisor has an end that is not
 * before its begin, and faults that cost no negative time.
 */
#include "core/run_events.h"
#include "base/bug.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_run_events *events = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_run_events_parse((const char *)data, size, &events, &why) ==
        PEN_OK) {
        PEN_BUG_UNLESS(events->end_sec >= events->begin_sec);
        PEN_BUG_UNLESS(events->lost_sec >= 0);
        for (size_t i = 0; i < events->num_faults; i++) {
            const struct pen_run_fault *fault = &events->faults[i];
            PEN_BUG_UNLESS(!(fault->lost_sec < 0) && fault->rank >= -1);
            PEN_BUG_UNLESS(memchr(fault->cause, 0, sizeof fault->cause) !=
                           NULL);
        }
    } else {
        PEN_BUG_UNLESS(why.length > 0 && events == NULL);
    }
    pen_run_events_free(events);
    pen_text_release(&why);
    return 0;
}

#ifndef PEN_VIEW_CALLS_WINDOW_H
#define PEN_VIEW_CALLS_WINDOW_H

#include "calls/faults.h"

/* The stretch of time that a picture of calls shows. */
struct pen__calls_window {
    int64_t begin_ns;
    int64_t end_ns;
    double sec;       /* more than 0 */
    int64_t fault_ns; /* when the first rank made the call of the fault */
    bool is_cut;      /* calls before it are not shown */
};

void pen__calls_window_find(const struct pen_meetings *meetings,
                            const struct pen_call_fault *fault,
                            struct pen__calls_window *out);

#endif

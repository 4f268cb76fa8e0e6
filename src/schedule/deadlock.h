#ifndef PEN_SCHEDULE_DEADLOCK_H
#define PEN_SCHEDULE_DEADLOCK_H

#include "schedule/channels.h"
#include "schedule/schedule.h"
#include "schedule/verify.h"

/*
 * Describes the cycle of a schedule that deadlocks under this window: "rank 2
 * waits in 1F3 for an activation of micro-batch 3 from rank 1; rank 1 waits
 * ...". *at gets the place of the first rank named.
 */
pen_status pen__explain_deadlock(const struct pen_schedule *schedule,
                                 uint32_t window, struct pen_finding *at,
                                 struct pen_text *out);

#endif

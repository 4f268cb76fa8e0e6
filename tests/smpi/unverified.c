/*
 * Loaded before a training: its trainer believes every schedule, so that the
 * simulator is asked instead. The prediction, which comes without options and
 * could not be made of a schedule that deadlocks, is left out.
 */
#include "schedule/verify.h"

pen_status pen_schedule_verify(const struct pen_schedule *schedule,
                               const struct pen_verify_options *options,
                               struct pen_finding *finding,
                               struct pen_text *why)
{
    (void)schedule;
    (void)finding;
    (void)why;
    return options == NULL ? PEN_INVALID : PEN_OK;
}

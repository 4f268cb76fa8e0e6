#ifndef PEN_SCHEDULE_GENERATORS_ASAP_H
#define PEN_SCHEDULE_GENERATORS_ASAP_H

#include "schedule/generators/generator.h"
#include "schedule/generators/stage_costs.h"

/*
 * Runs the rows as early as their inputs allow, without a limit on sends, and
 * gives the schedule the send window under which this is what happens. A
 * scheduler that decides by time counts on it; the default window of 2 would
 * stop a rank whose neighbour first does something else.
 *
 * For placements whose neighbours are rank-1 and rank+1, one slice. Returns
 * the makespan in ticks, or 0 when the builder has failed.
 */
int64_t pen__run_asap(struct pen__builder *builder,
                      const struct pen__stage_cost *costs);

#endif

#ifndef PEN_SCHEDULE_MEMORY_H
#define PEN_SCHEDULE_MEMORY_H

#include "schedule/costs.h"
#include "schedule/machine.h"

/*
 * Activations held by a rank, in A. F adds when it starts; B, I and W free
 * when they end. The peak follows from the order alone, except where stashes
 * move to a partner (EV, LD): then it depends on the times.
 */

/* Returns the peak of one row of a compiled program, without moves. */
double pen__row_peak(const struct pen__program *program, uint32_t rank,
                     const struct pen_cost_table *costs);

/*
 * The order of events at one instant: what a rank frees makes room for what
 * comes. A guest needs its room until it is back at home, while the next one
 * is under way already.
 */
enum pen__event_order {
    PEN__EVENT_LEAVES,
    PEN__EVENT_COMES,
    PEN__EVENT_GUEST_LEAVES
};

struct pen__event {
    int64_t at;
    double delta;
    enum pen__event_order order;
};

/*
 * Events of this rank in time order, guests included. The run must have
 * recorded its ops. A stash that moves is in both places while it is under way.
 * *out is owned by the caller.
 */
pen_status pen__rank_events(const struct pen_schedule *schedule, uint32_t rank,
                            const struct pen__run *run,
                            const struct pen_cost_table *costs,
                            struct pen__event **out, uint32_t *count);

/*
 * Returns the most weight versions that one stage of this rank holds at once.
 */
uint32_t pen__row_versions(const struct pen_schedule *schedule, uint32_t rank);

#endif

/*
 * Costs in whole numbers for the generators that decide by time. Ticks are
 * decimal fractions of a second, as in the timer, so that 18.522 s is exact.
 */
#include "schedule/generators/stage_costs.h"

#include "schedule/machine.h"
#include "schedule/op.h"

#include <math.h>
#include <stdlib.h>

int64_t pen__memory_units(double memory)
{
    return llround(memory * PEN__MEMORY_PER_A);
}

/*
 * Returns a time longer than any schedule can take: all ops of all stages in a
 * row.
 */
static double bound_sec(const struct pen_cost_table *table,
                        const struct pen_shape *shape)
{
    double sum = 0;
    for (uint32_t stage = 0; stage < table->num_stages; stage++)
        sum += pen_cost_of(table, PEN_OP_FORWARD, stage) +
               pen_cost_of(table, PEN_OP_BACKWARD, stage) +
               table->latency_sec[stage] + table->transfer_sec[stage] +
               table->latency_back_sec[stage] + table->transfer_back_sec[stage];
    return sum * (double)shape->num_microbatches;
}

static void fill(struct pen__stage_cost *cost,
                 const struct pen_cost_table *table, uint32_t stage,
                 double per_sec)
{
    cost->forward =
        llround(pen_cost_of(table, PEN_OP_FORWARD, stage) * per_sec);
    cost->input =
        llround(pen_cost_of(table, PEN_OP_BACKWARD_INPUT, stage) * per_sec);
    cost->weight =
        llround(pen_cost_of(table, PEN_OP_BACKWARD_WEIGHT, stage) * per_sec);
    cost->ahead = llround(
        (table->latency_sec[stage] + table->transfer_sec[stage]) * per_sec);
    cost->back = llround(
        (table->latency_back_sec[stage] + table->transfer_back_sec[stage]) *
        per_sec);
    cost->forward_memory =
        pen__memory_units(pen_memory_of(table, PEN_OP_FORWARD, stage));
    cost->input_memory =
        pen__memory_units(pen_memory_of(table, PEN_OP_BACKWARD_INPUT, stage));
    /* From both, so that what F adds is freed to the last unit. */
    cost->weight_memory =
        pen__memory_units(pen_memory_of(table, PEN_OP_BACKWARD, stage)) -
        cost->input_memory;
}

pen_status pen__stage_costs_create(const struct pen_generator_args *args,
                                   const struct pen_shape *shape,
                                   const struct pen_memory *memory,
                                   struct pen__stage_cost **out,
                                   struct pen_text *why)
{
    struct pen_cost_table table;
    pen_status status = pen_cost_table_init(&table, args->costs, shape, why);
    if (status != PEN_OK)
        return status;
    struct pen__stage_cost *costs = calloc(shape->num_stages, sizeof *costs);
    if (costs == NULL) {
        pen_why(why, "out of memory for the costs of %u stages",
                shape->num_stages);
        pen_cost_table_release(&table);
        return PEN_NOMEM;
    }
    table.memory = *memory;
    double bound = bound_sec(&table, shape);
    double per_sec = pen__ticks_per_sec(1e18, bound);
    for (uint32_t stage = 0; stage < shape->num_stages; stage++)
        fill(&costs[stage], &table, stage, per_sec);
    pen_cost_table_release(&table);
    *out = costs;
    return PEN_OK;
}

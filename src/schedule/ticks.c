/*
 * Costs in ticks: whole numbers, so that sums do not depend on their order and
 * "equal" means equal.
 */
#include "base/real.h"
#include "schedule/machine.h"

#include <math.h>
#include <stdlib.h>

/* Returns seconds that nothing in this program can exceed, by far. */
static double bound_sec(const struct pen__program *program,
                        const struct pen_cost_table *costs)
{
    double stages = 0;
    for (uint32_t stage = 0; stage < costs->num_stages; stage++) {
        const struct pen_cost *cost = &costs->stages[stage];
        stages += fmax(cost->recompute_sec, 0) + fmax(cost->pair_sec, 0) +
                  3 * (cost->forward_sec + cost->input_sec + cost->weight_sec) +
                  cost->sync_sec + cost->step_sec + 2 * cost->move_sec +
                  costs->latency_sec[stage] + costs->transfer_sec[stage] +
                  costs->latency_back_sec[stage] +
                  costs->transfer_back_sec[stage];
    }
    return stages * (double)program->shape.num_microbatches *
           (double)program->shape.num_slices;
}

static int64_t to_ticks(const struct pen__ticks *ticks, double sec)
{
    return llround(sec * ticks->per_sec);
}

static void fill_ticks(struct pen__ticks *ticks,
                       const struct pen__program *program,
                       const struct pen_cost_table *costs)
{
    for (uint32_t stage = 0; stage < costs->num_stages; stage++) {
        const struct pen_cost *cost = &costs->stages[stage];
        int64_t *of = ticks->of + (size_t)stage * PEN__COST_SLOTS;
        of[PEN__COST_FORWARD] = to_ticks(ticks, cost->forward_sec);
        of[PEN__COST_INPUT] = to_ticks(ticks, cost->input_sec);
        of[PEN__COST_WEIGHT] = to_ticks(ticks, cost->weight_sec);
        of[PEN__COST_BACKWARD] = of[PEN__COST_INPUT] + of[PEN__COST_WEIGHT];
        of[PEN__COST_RECOMPUTE] = cost->recompute_sec < 0
                                      ? of[PEN__COST_FORWARD]
                                      : to_ticks(ticks, cost->recompute_sec);
        of[PEN__COST_KEPT] = of[PEN__COST_FORWARD];
        of[PEN__COST_PAIR_REST] = of[PEN__COST_BACKWARD];
        if (cost->pair_sec >= 0) {
            int64_t rest =
                to_ticks(ticks, cost->pair_sec) - of[PEN__COST_FORWARD];
            of[PEN__COST_PAIR_REST] = rest > 0 ? rest : 0;
        }
        ticks->sync[stage] = to_ticks(ticks, cost->sync_sec);
        ticks->step[stage] = to_ticks(ticks, cost->step_sec);
    }
    for (uint32_t i = 0; i < program->num_channels; i++) {
        const struct pen__channel *channel = &program->channels[i];
        uint32_t stage = channel->stage;
        if (channel->direction == PEN_DIRECTION_ACT) {
            ticks->latency[i] = to_ticks(ticks, costs->latency_sec[stage]);
            ticks->transfer[i] = to_ticks(ticks, costs->transfer_sec[stage]);
        } else if (channel->direction == PEN_DIRECTION_GRAD) {
            ticks->latency[i] = to_ticks(ticks, costs->latency_back_sec[stage]);
            ticks->transfer[i] =
                to_ticks(ticks, costs->transfer_back_sec[stage]);
        } else {
            ticks->transfer[i] = to_ticks(ticks, costs->stages[stage].move_sec);
        }
    }
    ticks->is_blocking = costs->is_blocking;
}

double pen__ticks_per_sec(double most, double bound_sec)
{
    const double finest = 1e12;
    if (!(bound_sec > 0) || most / bound_sec >= finest)
        return finest;
    return pen_real_decimal(most / bound_sec);
}

pen_status pen__ticks_init(struct pen__ticks *ticks,
                           const struct pen__program *program,
                           const struct pen_cost_table *costs)
{
    size_t stages = program->shape.num_stages;
    *ticks = (struct pen__ticks){.per_sec = 1};
    ticks->of = calloc(stages * PEN__COST_SLOTS + 1, sizeof *ticks->of);
    ticks->sync = calloc(stages, sizeof *ticks->sync);
    ticks->step = calloc(stages, sizeof *ticks->step);
    ticks->latency =
        calloc((size_t)program->num_channels + 1, sizeof *ticks->latency);
    ticks->transfer =
        calloc((size_t)program->num_channels + 1, sizeof *ticks->transfer);
    if (ticks->of == NULL || ticks->sync == NULL || ticks->step == NULL ||
        ticks->latency == NULL || ticks->transfer == NULL) {
        pen__ticks_release(ticks);
        return PEN_NOMEM;
    }
    if (costs == NULL)
        return PEN_OK;
    ticks->per_sec = pen__ticks_per_sec(4e18, bound_sec(program, costs));
    fill_ticks(ticks, program, costs);
    return PEN_OK;
}

void pen__ticks_release(struct pen__ticks *ticks)
{
    free(ticks->of);
    free(ticks->sync);
    free(ticks->step);
    free(ticks->latency);
    free(ticks->transfer);
    *ticks = (struct pen__ticks){.of = NULL};
}

#include "schedule/memory.h"

#include <math.h>
#include <stdlib.h>

/* Walks one stretch once; returns the highest level seen. */
static double walk(const struct pen__program *program,
                   const struct pen__instr *instrs, uint32_t length,
                   const struct pen_cost_table *costs, double *level)
{
    uint32_t none = program->shape.num_stages * PEN__COST_SLOTS;
    double peak = *level;
    for (uint32_t i = 0; i < length; i++) {
        const struct pen__instr *instr = &instrs[i];
        if (instr->kind != PEN__RUN || instr->cost == none)
            continue;
        uint32_t slot = instr->cost % PEN__COST_SLOTS;
        if (slot == PEN__COST_PAIR_REST)
            slot = PEN__COST_BACKWARD;
        *level += pen_memory_of(costs, slot, instr->cost / PEN__COST_SLOTS);
        peak = fmax(peak, *level);
    }
    return peak;
}

double pen__row_peak(const struct pen__program *program, uint32_t rank,
                     const struct pen_cost_table *costs)
{
    const struct pen__instr_row *row = &program->rows[rank];
    double level = 0;
    double peak = 0;
    for (uint32_t i = 0; i < row->num_stretches; i++) {
        const struct pen__stretch *stretch = &row->stretches[i];
        double before = level;
        double top = walk(program, row->instrs + stretch->first,
                          stretch->length, costs, &level);
        /* Every further time is higher by what one of them leaves. */
        double growth = (level - before) * (double)(stretch->count - 1);
        peak = fmax(peak, fmax(top, top + growth));
        level += growth;
    }
    return peak;
}

static int by_time(const void *a, const void *b)
{
    const struct pen__event *x = a;
    const struct pen__event *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (int)x->order - (int)y->order;
}

static bool is_move(const struct pen_op *op)
{
    return op->kind == PEN_OP_EVICT || op->kind == PEN_OP_LOAD;
}

pen_status pen__rank_events(const struct pen_schedule *schedule, uint32_t rank,
                            struct pen__op_time *const *ops,
                            const struct pen_cost_table *costs,
                            struct pen__event **out, uint32_t *count)
{
    const struct pen_row *row = &schedule->rows[rank];
    uint32_t partner = pen_shape_partner(&schedule->shape, rank);
    const struct pen_row *other = &schedule->rows[partner];
    size_t most = (size_t)row->count + other->count + 1;
    struct pen__event *events = malloc(most * sizeof *events);
    if (events == NULL)
        return PEN_NOMEM;
    uint32_t n = 0;
    bool has_moves = false;
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        double delta = pen_memory_of(costs, op->kind, op->stage);
        has_moves = has_moves || is_move(op);
        if (delta == 0)
            continue;
        const struct pen__op_time *time = &ops[rank][i];
        events[n++] = (struct pen__event){
            delta > 0 ? time->start : time->end, delta,
            delta > 0 ? PEN__EVENT_COMES : PEN__EVENT_LEAVES};
    }
    for (uint32_t i = 0; i < other->count && partner != rank; i++) {
        const struct pen_op *op = &other->ops[i];
        if (!is_move(op))
            continue;
        has_moves = true;
        double delta = -pen_memory_of(costs, op->kind, op->stage);
        const struct pen__op_time *time = &ops[partner][i];
        events[n++] = (struct pen__event){
            delta > 0 ? time->start : time->end, delta,
            delta > 0 ? PEN__EVENT_COMES : PEN__EVENT_GUEST_LEAVES};
    }
    if (has_moves)
        qsort(events, n, sizeof *events, by_time);
    *out = events;
    *count = n;
    return PEN_OK;
}

/*
 * A version is held from its STEP (version 0: from the start) to its last use;
 * the newest one is always held. Walking the row backwards tells, at every
 * STEP, the oldest version that is still needed behind it.
 */
uint32_t pen__row_versions(const struct pen_schedule *schedule, uint32_t rank)
{
    const struct pen_row *row = &schedule->rows[rank];
    uint32_t most = 1;
    uint32_t stages = schedule->shape.num_stages;
    uint32_t *current = calloc(stages, sizeof *current);
    uint32_t *oldest = malloc(stages * sizeof *oldest);
    if (current == NULL || oldest == NULL)
        goto done;
    for (uint32_t i = 0; i < row->count; i++) {
        if (row->ops[i].kind == PEN_OP_STEP)
            current[row->ops[i].stage]++;
    }
    for (uint32_t stage = 0; stage < stages; stage++)
        oldest[stage] = UINT32_MAX;
    for (uint32_t i = row->count; i-- > 0;) {
        const struct pen_op *op = &row->ops[i];
        uint32_t stage = op->stage;
        if (pen_op_is_compute(op->kind) && op->version < oldest[stage])
            oldest[stage] = op->version;
        uint32_t held = oldest[stage] < current[stage]
                            ? current[stage] - oldest[stage] + 1
                            : 1;
        if (held > most)
            most = held;
        if (op->kind == PEN_OP_STEP)
            current[stage]--;
    }
done:
    free(current);
    free(oldest);
    return most;
}

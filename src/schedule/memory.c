#include "schedule/memory.h"

#include "base/bug.h"

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
        uint32_t stage = instr->cost / PEN__COST_SLOTS;
        if (slot == PEN__COST_PAIR_REST)
            slot = PEN__COST_BACKWARD;
        *level += slot == PEN__COST_KEPT ? pen_memory_kept(costs, stage)
                                         : pen_memory_of(costs, slot, stage);
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

/* Begin and end of every move of this rank, in order, or NULL. */
static const struct pen__channel_state *lane_of(const struct pen__run *run,
                                                uint32_t rank)
{
    for (uint32_t i = run->program->num_channels; i-- > 0;) {
        const struct pen__channel_state *channel = &run->channels[i];
        if (!channel->is_lane)
            break; /* lanes come after all other channels */
        if (channel->source == rank)
            return channel;
    }
    return NULL;
}

struct event_list {
    struct pen__event *events;
    uint32_t count;
    bool has_moves;
};

/*
 * Adds the moves by which `row`, the row of rank `from`, brings stashes to this
 * rank or takes them away.
 */
static void add_events(struct event_list *list, const struct pen__run *run,
                       const struct pen_row *row, uint32_t from, bool is_guest,
                       const struct pen_cost_table *costs)
{
    const struct pen__channel_state *lane = lane_of(run, from);
    uint32_t move = 0;
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        double delta = pen_memory_of_op(costs, op);
        struct pen__op_time time = run->ops[from][i];
        if (is_move(op)) {
            PEN_BUG_UNLESS(lane != NULL);
            list->has_moves = true;
            time.end = lane->messages[move++ & lane->mask].arrival;
            time.start = time.end - lane->transfer;
        }
        if (is_guest)
            delta = is_move(op) ? -delta : 0;
        if (delta == 0)
            continue;
        enum pen__event_order leaves =
            is_guest ? PEN__EVENT_GUEST_LEAVES : PEN__EVENT_LEAVES;
        list->events[list->count++] =
            (struct pen__event){delta > 0 ? time.start : time.end, delta,
                                delta > 0 ? PEN__EVENT_COMES : leaves};
    }
}

pen_status pen__rank_events(const struct pen_schedule *schedule, uint32_t rank,
                            const struct pen__run *run,
                            const struct pen_cost_table *costs,
                            struct pen__event **out, uint32_t *count)
{
    const struct pen_row *row = &schedule->rows[rank];
    uint32_t partner = pen_shape_partner(&schedule->shape, rank);
    const struct pen_row *other = &schedule->rows[partner];
    size_t most = (size_t)row->count + other->count + 1;
    struct event_list list = {.events = malloc(most * sizeof *list.events)};
    if (list.events == NULL)
        return PEN_NOMEM;
    add_events(&list, run, row, rank, false, costs);
    if (partner != rank && lane_of(run, partner) != NULL)
        add_events(&list, run, other, partner, true, costs);
    if (list.has_moves)
        qsort(list.events, list.count, sizeof *list.events, by_time);
    *out = list.events;
    *count = list.count;
    return PEN_OK;
}

/*
 * Returns the most versions held at once. A version is held from its STEP
 * (version 0: from the start) to its last use; the newest one is always held. A
 * walk backwards over the row shows, at every STEP, the oldest version that is
 * still needed after it.
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

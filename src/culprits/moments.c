#include "culprits/moments.h"

#include "culprits/sends.h"

#include <stdlib.h>

static pen_status index_ranks(struct pen__blame_run *run)
{
    const struct pen_trace *trace = run->trace;
    run->ranks = malloc(trace->num_ranks * sizeof *run->ranks);
    if (run->ranks == NULL)
        return PEN_NOMEM;
    for (uint32_t i = 0; i < trace->num_ranks; i++) {
        const struct pen_trace_head *head = &trace->ranks[i].head;
        run->ranks[pen_mesh_rank_at(&run->mesh, head->row, head->replica)] = i;
    }
    return PEN_OK;
}

static void find_steps(struct pen__blame_run *run)
{
    uint32_t first = UINT32_MAX;
    uint32_t last = 0;
    for (uint32_t rank = 0; rank < run->trace->num_ranks; rank++) {
        const struct pen_rank_trace *trace = &run->trace->ranks[rank];
        for (uint64_t i = 0; i < trace->head.num_events; i++) {
            uint32_t step = trace->events[i].step;
            first = step < first ? step : first;
            last = step > last ? step : last;
        }
    }
    run->first_step = first;
    run->num_steps = first > last ? 0 : last - first + 1;
}

static pen_status index_events(struct pen__blame_run *run)
{
    find_steps(run);
    run->events = calloc(run->trace->num_ranks, sizeof *run->events);
    if (run->events == NULL)
        return PEN_NOMEM;
    for (uint32_t rank = 0; rank < run->trace->num_ranks; rank++) {
        const struct pen_rank_trace *trace = &run->trace->ranks[rank];
        size_t num_ops = trace->head.num_ops;
        size_t count = run->num_steps * num_ops;
        uint64_t *events = malloc((count + 1) * sizeof *events);
        run->events[rank] = events;
        if (events == NULL)
            return PEN_NOMEM;
        for (size_t i = 0; i < count; i++)
            events[i] = PEN__NO_EVENT;
        for (uint64_t i = 0; i < trace->head.num_events; i++) {
            const struct pen_trace_event *event = &trace->events[i];
            events[(event->step - run->first_step) * num_ops +
                   event->position] = i;
        }
    }
    return PEN_OK;
}

pen_status pen__blame_run_init(struct pen__blame_run *run,
                               const struct pen_trace *trace,
                               const struct pen_schedule *schedule)
{
    *run = (struct pen__blame_run){
        .trace = trace,
        .schedule = schedule,
        .mesh = pen_mesh_fill(PEN_MESH_PIPELINE_FIRST,
                              schedule->shape.num_ranks, trace->num_ranks)};
    pen_status status = index_ranks(run);
    run->sends = pen__sends_find(schedule);
    if (run->sends == NULL)
        status = PEN_NOMEM;
    if (status == PEN_OK)
        status = index_events(run);
    if (status != PEN_OK)
        pen__blame_run_release(run);
    return status;
}

void pen__blame_run_release(struct pen__blame_run *run)
{
    for (uint32_t i = 0; run->events != NULL && i < run->trace->num_ranks; i++)
        free(run->events[i]);
    free(run->events);
    free(run->ranks);
    free(run->sends);
    *run = (struct pen__blame_run){.trace = NULL};
}

const struct pen_op *pen__op_at(const struct pen__blame_run *run,
                                struct pen__moment moment)
{
    uint32_t row = run->trace->ranks[moment.rank].head.row;
    return &run->schedule->rows[row].ops[pen__event_at(run, moment)->position];
}

struct pen__moment pen__find_event(const struct pen__blame_run *run,
                                   uint32_t rank, uint32_t step,
                                   uint32_t position)
{
    size_t num_ops = run->trace->ranks[rank].head.num_ops;
    if (step < run->first_step || step - run->first_step >= run->num_steps)
        return (struct pen__moment){rank, PEN__NO_EVENT};
    size_t place = (step - run->first_step) * num_ops + position;
    return (struct pen__moment){rank, run->events[rank][place]};
}

/* Returns the stage from which an op gets its bytes; receives only post. */
static uint32_t source_stage(const struct pen_shape *shape,
                             const struct pen_op *op)
{
    return pen_op_is_compute(op->kind) ? pen_op_feeder(shape, op)
                                       : PEN_NO_STAGE;
}

struct pen__moment pen__find_sender(const struct pen__blame_run *run,
                                    struct pen__moment to)
{
    const struct pen__moment nobody = {to.rank, PEN__NO_EVENT};
    const struct pen_shape *shape = &run->schedule->shape;
    const struct pen_op *op = pen__op_at(run, to);
    uint32_t stage = source_stage(shape, op);
    if (stage == PEN_NO_STAGE)
        return nobody;
    uint32_t position = run->sends[pen_message_cell(
        shape, pen_op_info(op->kind)->direction, stage, op)];
    if (position == PEN__NO_SEND)
        return nobody;
    uint32_t replica = run->trace->ranks[to.rank].head.replica;
    uint32_t line =
        pen_mesh_rank_at(&run->mesh, pen_shape_rank_of(shape, stage), replica);
    return pen__find_event(run, run->ranks[line], pen__event_at(run, to)->step,
                           position);
}

/*
 * Returns whether an op belongs to the same synchronisation: sums are of one
 * part of the model, steps know the norm of all parts.
 */
static bool is_of_one_sync(const struct pen_shape *shape,
                           const struct pen_op *op, const struct pen_op *other)
{
    return other->kind == op->kind &&
           (op->kind == PEN_OP_STEP ||
            pen_shape_part_of_stage(shape, op->stage) ==
                pen_shape_part_of_stage(shape, other->stage));
}

/* Returns the latest of the ranks that have this row. */
static struct pen__moment later_of_row(const struct pen__blame_run *run,
                                       struct pen__moment of, uint32_t row,
                                       uint32_t position,
                                       struct pen__moment last)
{
    uint32_t step = pen__event_at(run, of)->step;
    uint32_t num_replicas = pen_mesh_num_replicas(&run->mesh);
    for (uint32_t replica = 0; replica < num_replicas; replica++) {
        uint32_t rank = run->ranks[pen_mesh_rank_at(&run->mesh, row, replica)];
        struct pen__moment other = pen__find_event(run, rank, step, position);
        if (other.event == PEN__NO_EVENT ||
            pen__begin_ns(run, other) > pen__ready_ns(run, of))
            continue;
        if (pen__begin_ns(run, other) > pen__begin_ns(run, last))
            last = other;
    }
    return last;
}

struct pen__moment pen__find_last(const struct pen__blame_run *run,
                                  struct pen__moment of)
{
    const struct pen_shape *shape = &run->schedule->shape;
    const struct pen_op *op = pen__op_at(run, of);
    struct pen__moment last = of;
    for (uint32_t row = 0; row < pen_mesh_num_rows(&run->mesh); row++) {
        const struct pen_row *ops = &run->schedule->rows[row];
        for (uint32_t i = 0; i < ops->count; i++) {
            if (is_of_one_sync(shape, op, &ops->ops[i]))
                last = later_of_row(run, of, row, i, last);
        }
    }
    return last;
}

struct pen__moment pen__find_before(const struct pen__blame_run *run,
                                    uint32_t rank, int64_t at_ns)
{
    uint64_t low = 0;
    uint64_t high = run->trace->ranks[rank].head.num_events;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (pen__end_ns(run, (struct pen__moment){rank, middle}) <= at_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return (struct pen__moment){rank, low == 0 ? PEN__NO_EVENT : low - 1};
}

static int64_t offset_ns(const struct pen__blame_run *run, uint32_t rank)
{
    return run->trace->ranks[rank].head.clock_offset_ns;
}

int64_t pen__begin_ns(const struct pen__blame_run *run,
                      struct pen__moment moment)
{
    return pen__event_at(run, moment)->begin_ns + offset_ns(run, moment.rank);
}

int64_t pen__ready_ns(const struct pen__blame_run *run,
                      struct pen__moment moment)
{
    return pen__event_at(run, moment)->ready_ns + offset_ns(run, moment.rank);
}

int64_t pen__end_ns(const struct pen__blame_run *run, struct pen__moment moment)
{
    return pen__event_at(run, moment)->end_ns + offset_ns(run, moment.rank);
}

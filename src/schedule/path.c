/*
 * The critical path, found backwards: an op that starts when the op before it
 * on its rank ends was held up by that one; otherwise by the message that
 * feeds it, so the path goes on at its producer. Ticks are integers, so "when"
 * means equality.
 */
#include "schedule/path.h"

#include <stdlib.h>

#define NOWHERE UINT32_MAX

struct tracer {
    const struct pen_schedule *schedule;
    struct pen__op_time *const *ops;
    uint32_t *forward_at;  /* position of F of (stage, micro-batch, slice) */
    uint32_t *backward_at; /* of B or I */
};

static size_t cell_of(const struct pen_shape *shape, const struct pen_op *op)
{
    uint32_t per_copy = shape->num_microbatches / shape->num_copies;
    size_t local = op->microbatch % per_copy;
    return ((size_t)op->stage * per_copy + local) * shape->num_slices +
           op->slice;
}

static pen_status index_ops(struct tracer *tracer)
{
    const struct pen_shape *shape = &tracer->schedule->shape;
    size_t cells = (size_t)shape->num_stages * shape->num_slices *
                   (shape->num_microbatches / shape->num_copies);
    tracer->forward_at = malloc(cells * sizeof *tracer->forward_at);
    tracer->backward_at = malloc(cells * sizeof *tracer->backward_at);
    if (tracer->forward_at == NULL || tracer->backward_at == NULL)
        return PEN_NOMEM;
    for (uint32_t rank = 0; rank < shape->num_ranks; rank++) {
        const struct pen_row *row = &tracer->schedule->rows[rank];
        for (uint32_t i = 0; i < row->count; i++) {
            const struct pen_op *op = &row->ops[i];
            if (op->kind == PEN_OP_FORWARD)
                tracer->forward_at[cell_of(shape, op)] = i;
            else if (op->kind == PEN_OP_BACKWARD ||
                     op->kind == PEN_OP_BACKWARD_INPUT)
                tracer->backward_at[cell_of(shape, op)] = i;
        }
    }
    return PEN_OK;
}

/* The producer on another rank that feeds this op, if there is one. */
static struct pen_path_step producer_of(const struct tracer *tracer,
                                        const struct pen_op *op)
{
    const struct pen_shape *shape = &tracer->schedule->shape;
    struct pen_path_step step = {NOWHERE, NOWHERE, true};
    enum pen_direction direction = pen_op_info(op->kind)->direction;
    struct pen_op from = *op;
    uint32_t stage = PEN_NO_STAGE;
    if (!pen_op_is_compute(op->kind) || direction == PEN_DIRECTION_NONE)
        return step;
    if (direction == PEN_DIRECTION_ACT)
        stage = pen_shape_previous_stage(shape, op->stage);
    else
        stage = pen_shape_next_stage(shape, op->stage);
    if (stage == PEN_NO_STAGE)
        return step;
    from.stage = (uint16_t)stage;
    step.rank = pen_shape_rank_of(shape, stage);
    step.position = direction == PEN_DIRECTION_ACT
                        ? tracer->forward_at[cell_of(shape, &from)]
                        : tracer->backward_at[cell_of(shape, &from)];
    return step;
}

/* The SYNC of a twin stage that let this STEP go at this tick. */
static struct pen_path_step twin_of(const struct tracer *tracer,
                                    const struct pen_op *step, int64_t start)
{
    const struct pen_shape *shape = &tracer->schedule->shape;
    uint32_t parts = pen_shape_parts(shape);
    for (uint32_t twin = step->stage % parts; twin < shape->num_stages;
         twin += parts) {
        uint32_t rank = pen_shape_rank_of(shape, twin);
        const struct pen_row *row = &tracer->schedule->rows[rank];
        for (uint32_t i = 0; i < row->count && twin != step->stage; i++) {
            if (row->ops[i].kind == PEN_OP_SYNC_GRAD &&
                row->ops[i].stage == twin && tracer->ops[rank][i].end == start)
                return (struct pen_path_step){rank, i, true};
        }
    }
    return (struct pen_path_step){NOWHERE, NOWHERE, false};
}

/* A group starts when its last member is ready: take the latest producer. */
static struct pen_path_step feeder_of(const struct tracer *tracer,
                                      struct pen_path_step at)
{
    const struct pen_row *row = &tracer->schedule->rows[at.rank];
    uint16_t group = row->ops[at.position].group;
    struct pen_path_step latest = producer_of(tracer, &row->ops[at.position]);
    for (uint32_t i = at.position + 1;
         group != 0 && i < row->count && row->ops[i].group == group; i++) {
        struct pen_path_step other = producer_of(tracer, &row->ops[i]);
        if (other.rank == NOWHERE)
            continue;
        if (latest.rank == NOWHERE ||
            tracer->ops[other.rank][other.position].end >
                tracer->ops[latest.rank][latest.position].end)
            latest = other;
    }
    return latest;
}

static struct pen_path_step before(const struct tracer *tracer,
                                   struct pen_path_step at)
{
    struct pen_path_step none = {NOWHERE, NOWHERE, false};
    const struct pen_row *row = &tracer->schedule->rows[at.rank];
    const struct pen__op_time *times = tracer->ops[at.rank];
    const struct pen_op *op = &row->ops[at.position];
    int64_t start = times[at.position].start;
    bool has_waited = at.position == 0 || times[at.position - 1].end < start;
    if (has_waited && start > 0) {
        struct pen_path_step from = op->kind == PEN_OP_STEP
                                        ? twin_of(tracer, op, start)
                                        : feeder_of(tracer, at);
        if (from.rank != NOWHERE && from.rank != at.rank)
            return from;
    }
    if (at.position == 0)
        return none;
    return (struct pen_path_step){at.rank, at.position - 1, false};
}

static struct pen_path_step last_op(const struct tracer *tracer)
{
    struct pen_path_step last = {NOWHERE, NOWHERE, false};
    int64_t end = 0;
    for (uint32_t rank = 0; rank < tracer->schedule->shape.num_ranks; rank++) {
        const struct pen_row *row = &tracer->schedule->rows[rank];
        for (uint32_t i = row->count; i-- > 0;) {
            const struct pen__op_time *time = &tracer->ops[rank][i];
            if (time->end == time->start)
                continue;
            if (time->end > end) {
                end = time->end;
                last = (struct pen_path_step){rank, i, false};
            }
            break;
        }
    }
    return last;
}

static pen_status walk_back(const struct tracer *tracer,
                            struct pen_timing *timing)
{
    uint32_t capacity = 0;
    bool came_by_message = false;
    struct pen_path_step at = last_op(tracer);
    while (at.rank != NOWHERE) {
        const struct pen__op_time *time = &tracer->ops[at.rank][at.position];
        if (time->end > time->start) {
            if (timing->path_count == capacity) {
                capacity = capacity < 64 ? 64 : capacity * 2;
                struct pen_path_step *path =
                    realloc(timing->path, capacity * sizeof *path);
                if (path == NULL)
                    return PEN_NOMEM;
                timing->path = path;
            }
            if (timing->path_count > 0)
                timing->path[timing->path_count - 1].is_message =
                    came_by_message;
            timing->path[timing->path_count++] =
                (struct pen_path_step){at.rank, at.position, false};
            came_by_message = false;
        }
        at = before(tracer, at);
        came_by_message = came_by_message || at.is_message;
    }
    for (uint32_t i = 0; i < timing->path_count / 2; i++) {
        struct pen_path_step swap = timing->path[i];
        timing->path[i] = timing->path[timing->path_count - 1 - i];
        timing->path[timing->path_count - 1 - i] = swap;
    }
    return PEN_OK;
}

pen_status pen__critical_path(const struct pen_schedule *schedule,
                              const struct pen__run *run,
                              struct pen_timing *timing)
{
    struct tracer tracer = {.schedule = schedule, .ops = run->ops};
    pen_status status = index_ops(&tracer);
    if (status == PEN_OK)
        status = walk_back(&tracer, timing);
    free(tracer.forward_at);
    free(tracer.backward_at);
    return status;
}

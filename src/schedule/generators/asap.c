/*
 * As soon as possible: compute rows without a window, and the window they need.
 *
 *   rank 0   F7 SA7  F8 SA8  F9 SA9        3 sends are out when rank 1 posts
 *   rank 1   W0  W1  W2  W3  W4  RA7 F7    the first receive: a window of 3
 */
#include "schedule/generators/asap.h"

#include "base/bug.h"

#include <stdlib.h>

/* The times of one forward or one input gradient. */
struct moment {
    int64_t posted; /* its rank was free, the receive posted */
    int64_t end;
};

struct asap {
    const struct pen_schedule *schedule;
    const struct pen__stage_cost *costs;
    struct moment *forwards; /* per stage and micro-batch */
    struct moment *inputs;   /* the same of I or B */
    uint32_t *position;      /* per rank: next op of its row */
    int64_t *clock;          /* per rank */
};

static struct moment *moment_of(const struct asap *asap, uint8_t kind,
                                uint32_t stage, uint32_t microbatch)
{
    uint32_t m = asap->schedule->shape.num_microbatches;
    struct moment *moments =
        kind == PEN_OP_FORWARD ? asap->forwards : asap->inputs;
    return &moments[(size_t)stage * m + microbatch];
}

/* Returns when the input from another rank arrives; -1: not known yet. */
static int64_t arrival(const struct asap *asap, const struct pen_op *op)
{
    const struct pen_shape *shape = &asap->schedule->shape;
    uint32_t from = pen_op_feeder(shape, op);
    if (from == PEN_NO_STAGE)
        return 0;
    int64_t end = moment_of(asap, op->kind, from, op->microbatch)->end;
    if (end < 0 ||
        pen_shape_rank_of(shape, from) == pen_shape_rank_of(shape, op->stage))
        return end;
    const struct pen__stage_cost *cost = &asap->costs[from];
    return end + (op->kind == PEN_OP_FORWARD ? cost->ahead : cost->back);
}

static int64_t ticks_of(const struct asap *asap, const struct pen_op *op)
{
    const struct pen__stage_cost *cost = &asap->costs[op->stage];
    switch (op->kind) {
    case PEN_OP_FORWARD:
        return cost->forward;
    case PEN_OP_BACKWARD:
        return cost->input + cost->weight;
    case PEN_OP_BACKWARD_INPUT:
        return cost->input;
    default:
        return cost->weight;
    }
}

/* Runs the rank until an input is missing; says whether anything ran. */
static bool advance(struct asap *asap, uint32_t rank)
{
    const struct pen_row *row = &asap->schedule->rows[rank];
    uint32_t first = asap->position[rank];
    for (; asap->position[rank] < row->count; asap->position[rank]++) {
        const struct pen_op *op = &row->ops[asap->position[rank]];
        int64_t ready = arrival(asap, op);
        if (ready < 0)
            break;
        int64_t posted = asap->clock[rank];
        int64_t end = (ready > posted ? ready : posted) + ticks_of(asap, op);
        asap->clock[rank] = end;
        if (op->kind != PEN_OP_BACKWARD_WEIGHT)
            *moment_of(asap, op->kind, op->stage, op->microbatch) =
                (struct moment){posted, end};
    }
    return asap->position[rank] > first;
}

static int64_t run(struct asap *asap)
{
    const struct pen_shape *shape = &asap->schedule->shape;
    size_t count = (size_t)shape->num_stages * shape->num_microbatches;
    for (size_t i = 0; i < count; i++)
        asap->forwards[i].end = asap->inputs[i].end = -1;
    bool has_moved = true;
    while (has_moved) {
        has_moved = false;
        for (uint32_t rank = 0; rank < shape->num_ranks; rank++)
            has_moved = advance(asap, rank) || has_moved;
    }
    int64_t makespan = 0;
    for (uint32_t rank = 0; rank < shape->num_ranks; rank++) {
        PEN_BUG_UNLESS(asap->position[rank] ==
                       asap->schedule->rows[rank].count);
        if (asap->clock[rank] > makespan)
            makespan = asap->clock[rank];
    }
    return makespan;
}

/* The op that the op feeds, on rank `to`, or NULL. */
static const struct moment *receiver(const struct asap *asap,
                                     const struct pen_op *op,
                                     enum pen_direction direction, uint32_t to)
{
    const struct pen_shape *shape = &asap->schedule->shape;
    if (pen_op_info(op->kind)->direction != direction)
        return NULL;
    uint32_t stage = pen_shape_receiver(shape, op->stage, direction);
    if (stage == PEN_NO_STAGE || pen_shape_rank_of(shape, stage) != to)
        return NULL;
    return moment_of(asap, op->kind, stage, op->microbatch);
}

/* Returns the most sends of a channel that wait for their receives at once. */
static uint32_t channel_window(const struct asap *asap, uint32_t from,
                               uint32_t to, enum pen_direction direction,
                               int64_t *posted)
{
    const struct pen_row *row = &asap->schedule->rows[from];
    uint32_t sent = 0;
    uint32_t received = 0;
    uint32_t window = 0;
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        const struct moment *peer = receiver(asap, op, direction, to);
        if (peer == NULL)
            continue;
        posted[sent++] = peer->posted;
        int64_t now = moment_of(asap, op->kind, op->stage, op->microbatch)->end;
        while (received < sent && posted[received] < now)
            received++;
        if (sent - received > window)
            window = sent - received;
    }
    return window;
}

static uint32_t window(const struct asap *asap, int64_t *posted)
{
    uint32_t ranks = asap->schedule->shape.num_ranks;
    uint32_t most = 0;
    for (uint32_t rank = 0; rank + 1 < ranks; rank++) {
        const uint32_t needed[] = {
            channel_window(asap, rank, rank + 1, PEN_DIRECTION_ACT, posted),
            channel_window(asap, rank, rank + 1, PEN_DIRECTION_GRAD, posted),
            channel_window(asap, rank + 1, rank, PEN_DIRECTION_ACT, posted),
            channel_window(asap, rank + 1, rank, PEN_DIRECTION_GRAD, posted)};
        for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
            most = needed[i] > most ? needed[i] : most;
    }
    return most;
}

int64_t pen__run_asap(struct pen__builder *builder,
                      const struct pen__stage_cost *costs)
{
    if (builder->status != PEN_OK)
        return 0;
    const struct pen_shape *shape = &builder->schedule->shape;
    size_t count = (size_t)shape->num_stages * shape->num_microbatches;
    struct asap asap = {.schedule = builder->schedule,
                        .costs = costs,
                        .forwards = calloc(count, sizeof *asap.forwards),
                        .inputs = calloc(count, sizeof *asap.inputs),
                        .position =
                            calloc(shape->num_ranks, sizeof *asap.position),
                        .clock = calloc(shape->num_ranks, sizeof *asap.clock)};
    int64_t *posted = calloc(count, sizeof *posted);
    int64_t makespan = 0;
    if (asap.forwards == NULL || asap.inputs == NULL || asap.position == NULL ||
        asap.clock == NULL || posted == NULL) {
        builder->status = PEN_NOMEM;
    } else {
        makespan = run(&asap);
        uint32_t needed = window(&asap, posted);
        if (needed > PEN_DEFAULT_SEND_WINDOW)
            builder->schedule->rules.send_window = needed;
    }
    free(asap.forwards);
    free(asap.inputs);
    free(asap.position);
    free(asap.clock);
    free(posted);
    return makespan;
}

/*
 * The ledger of zb-auto and zb-v. It knows when ops can start and what they
 * hold; which op comes next is the business of the schedulers.
 */
#include "schedule/generators/zb_line.h"

#include "base/bug.h"

#include <stdlib.h>
#include <string.h>

pen_status pen__zb_init(struct pen__zb_line *line,
                        const struct pen_shape *shape,
                        const struct pen__stage_cost *costs, int64_t limit)
{
    size_t stages = shape->num_stages;
    size_t m = shape->num_microbatches;
    size_t chunks = pen_shape_chunks(shape);
    *line =
        (struct pen__zb_line){.shape = *shape, .costs = costs, .limit = limit};
    line->ranks = calloc(shape->num_ranks, sizeof *line->ranks);
    line->forwards = calloc(stages, sizeof *line->forwards);
    line->inputs = calloc(stages, sizeof *line->inputs);
    line->forward_ends = calloc(stages * m, sizeof *line->forward_ends);
    line->input_ends = calloc(stages * m, sizeof *line->input_ends);
    line->ops = calloc(stages * m, 4 * sizeof *line->ops);
    if (line->ranks == NULL || line->forwards == NULL || line->inputs == NULL ||
        line->forward_ends == NULL || line->input_ends == NULL ||
        line->ops == NULL)
        return PEN_NOMEM;
    for (uint32_t rank = 0; rank < shape->num_ranks; rank++) {
        struct pen_op *ops = line->ops + 4 * chunks * m * rank;
        line->ranks[rank].row = ops;
        line->ranks[rank].inputs = ops + 3 * chunks * m;
    }
    return PEN_OK;
}

void pen__zb_release(struct pen__zb_line *line)
{
    free(line->ranks);
    free(line->forwards);
    free(line->inputs);
    free(line->forward_ends);
    free(line->input_ends);
    free(line->ops);
}

void pen__zb_restart(struct pen__zb_line *line)
{
    size_t stages = line->shape.num_stages;
    line->most_bubble = 0;
    line->has_failed = false;
    memset(line->forwards, 0, stages * sizeof *line->forwards);
    memset(line->inputs, 0, stages * sizeof *line->inputs);
    for (uint32_t r = 0; r < line->shape.num_ranks; r++) {
        struct pen__zb_rank *rank = &line->ranks[r];
        *rank = (struct pen__zb_rank){.row = rank->row, .inputs = rank->inputs};
    }
}

/*
 * Returns the end of the next op of `stage` in the stage that feeds it, plus
 * the hop.
 */
static int64_t arrival(const struct pen__zb_line *line, uint32_t stage,
                       uint32_t from, const uint32_t *done,
                       const uint32_t *from_done, const int64_t *ends,
                       int64_t hop)
{
    if (done[stage] >= from_done[from])
        return PEN__ZB_NEVER;
    const struct pen_shape *shape = &line->shape;
    bool is_local =
        pen_shape_rank_of(shape, stage) == pen_shape_rank_of(shape, from);
    size_t at = (size_t)from * shape->num_microbatches + done[stage];
    return ends[at] + (is_local ? 0 : hop);
}

int64_t pen__zb_forward_arrival(const struct pen__zb_line *line, uint32_t stage)
{
    if (stage == 0)
        return 0;
    return arrival(line, stage, stage - 1, line->forwards, line->forwards,
                   line->forward_ends, line->costs[stage - 1].ahead);
}

int64_t pen__zb_input_arrival(const struct pen__zb_line *line, uint32_t stage)
{
    if (stage == line->shape.num_stages - 1)
        return arrival(line, stage, stage, line->inputs, line->forwards,
                       line->forward_ends, 0);
    return arrival(line, stage, stage + 1, line->inputs, line->inputs,
                   line->input_ends, line->costs[stage + 1].back);
}

/* Appends an op that cannot start before `ready`; returns its end. */
static int64_t put(struct pen__zb_line *line, uint32_t r, struct pen_op op,
                   int64_t ready, int64_t ticks, int64_t memory)
{
    struct pen__zb_rank *rank = &line->ranks[r];
    if (ready == PEN__ZB_NEVER || rank->memory + memory > line->limit) {
        line->has_failed = true;
        return 0;
    }
    int64_t start = ready > rank->clock ? ready : rank->clock;
    if (rank->count == 0)
        rank->start = start;
    else
        rank->bubble += start - rank->clock;
    if (rank->bubble > line->most_bubble)
        line->most_bubble = rank->bubble;
    rank->clock = start + ticks;
    rank->memory += memory;
    rank->row[rank->count++] = op;
    return rank->clock;
}

void pen__zb_put_forward(struct pen__zb_line *line, uint32_t stage)
{
    const struct pen__stage_cost *cost = &line->costs[stage];
    uint32_t rank = pen_shape_rank_of(&line->shape, stage);
    uint32_t m = line->shape.num_microbatches;
    uint32_t i = line->forwards[stage];
    PEN_BUG_UNLESS(i < m);
    int64_t end = put(line, rank, pen_op_make(PEN_OP_FORWARD, stage, i),
                      pen__zb_forward_arrival(line, stage), cost->forward,
                      cost->forward_memory);
    if (line->has_failed)
        return;
    line->forward_ends[(size_t)stage * m + i] = end;
    line->forwards[stage]++;
}

void pen__zb_put_input(struct pen__zb_line *line, uint32_t stage)
{
    const struct pen__stage_cost *cost = &line->costs[stage];
    uint32_t rank = pen_shape_rank_of(&line->shape, stage);
    uint32_t m = line->shape.num_microbatches;
    uint32_t i = line->inputs[stage];
    PEN_BUG_UNLESS(i < m);
    int64_t end = put(line, rank, pen_op_make(PEN_OP_BACKWARD_INPUT, stage, i),
                      pen__zb_input_arrival(line, stage), cost->input,
                      cost->input_memory);
    if (line->has_failed)
        return;
    line->input_ends[(size_t)stage * m + i] = end;
    line->inputs[stage]++;
    line->ranks[rank].inputs[line->ranks[rank].num_inputs++] =
        pen_op_make(PEN_OP_BACKWARD_WEIGHT, stage, i);
}

bool pen__zb_has_weight(const struct pen__zb_line *line, uint32_t rank)
{
    return line->ranks[rank].num_weights < line->ranks[rank].num_inputs;
}

void pen__zb_put_weight(struct pen__zb_line *line, uint32_t rank)
{
    PEN_BUG_UNLESS(pen__zb_has_weight(line, rank));
    struct pen_op op = line->ranks[rank].inputs[line->ranks[rank].num_weights];
    const struct pen__stage_cost *cost = &line->costs[op.stage];
    line->ranks[rank].num_weights++;
    put(line, rank, op, 0, cost->weight, cost->weight_memory);
}

static int64_t next_weight_ticks(const struct pen__zb_line *line, uint32_t rank)
{
    const struct pen__zb_rank *at = &line->ranks[rank];
    return line->costs[at->inputs[at->num_weights].stage].weight;
}

void pen__zb_make_room(struct pen__zb_line *line, uint32_t rank, int64_t need)
{
    while (pen__zb_has_weight(line, rank) &&
           line->ranks[rank].memory + need > line->limit)
        pen__zb_put_weight(line, rank);
}

void pen__zb_fill(struct pen__zb_line *line, uint32_t rank, int64_t arrival)
{
    while (pen__zb_has_weight(line, rank) &&
           line->ranks[rank].clock + next_weight_ticks(line, rank) <= arrival)
        pen__zb_put_weight(line, rank);
}

void pen__zb_finish(struct pen__zb_line *line)
{
    for (uint32_t rank = 0; rank < line->shape.num_ranks; rank++) {
        while (pen__zb_has_weight(line, rank))
            pen__zb_put_weight(line, rank);
    }
}

pen_status pen__zb_require_memory(const char *name,
                                  const struct pen_memory *memory,
                                  struct pen_text *why)
{
    if (memory->weight <= 0)
        return PEN_OK;
    pen_why(why,
            "%s delays weight gradients until memory is short, so w must "
            "free memory, but w=%g adds",
            name, memory->weight);
    return PEN_INVALID;
}

int64_t pen__zb_forward_need(const struct pen__stage_cost *cost)
{
    return cost->forward_memory +
           (cost->input_memory > 0 ? cost->input_memory : 0);
}

void pen__zb_build(const struct pen__zb_line *line,
                   struct pen__builder *builder)
{
    for (uint32_t r = 0; r < line->shape.num_ranks; r++) {
        const struct pen__zb_rank *rank = &line->ranks[r];
        for (uint32_t i = 0; i < rank->count; i++)
            pen__put_op(builder, r, rank->row[i]);
    }
}

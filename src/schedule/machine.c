/* The machine that executes the waiting rules; machine.h has the idea. */
#include "schedule/machine.h"

#include "base/bug.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint32_t pen__run_count(const struct pen__run *run, uint32_t rank)
{
    uint32_t factor = run->factor == NULL ? 1 : run->factor[rank];
    return run->program->rows[rank].count - run->cut * factor;
}

static void wake(struct pen__run *run, uint32_t rank)
{
    if (run->is_stacked[rank])
        return;
    run->is_stacked[rank] = 1;
    run->stack[run->stacked++] = rank;
}

static void record(struct pen__run *run, uint32_t rank, uint32_t position,
                   int64_t start, int64_t end)
{
    run->ops[rank][position] = (struct pen__op_time){start, end};
}

static void post_receive(struct pen__run *run, int32_t channel, int64_t clock)
{
    struct pen__channel_state *state = &run->channels[channel];
    run->posted[state->first + state->received++] = clock;
    if (state->is_sender_waiting) {
        state->is_sender_waiting = false;
        wake(run, run->program->channels[channel].source);
    }
}

/* False while the window is full. */
static bool post_send(struct pen__run *run, int32_t channel, int64_t *clock)
{
    struct pen__channel_state *state = &run->channels[channel];
    uint32_t window = run->program->window;
    int64_t now = *clock;
    if (state->sent >= window) {
        uint64_t before = state->sent - window;
        if (before >= state->received) {
            state->is_sender_waiting = true;
            return false;
        }
        int64_t free_at = run->posted[state->first + before];
        if (free_at > now)
            now = free_at;
    }
    const struct pen__ticks *ticks = run->ticks;
    int64_t begin = now > state->wire_free ? now : state->wire_free;
    state->wire_free = begin + ticks->transfer[channel];
    run->arrival[state->first + state->sent++] =
        state->wire_free + ticks->latency[channel];
    *clock = ticks->is_blocking ? state->wire_free : now;
    if (state->is_receiver_waiting) {
        state->is_receiver_waiting = false;
        wake(run, run->program->channels[channel].destination);
    }
    return true;
}

/* A move (EV, LD) is a message of a rank to itself on its own lane. */
static void post_move(struct pen__run *run, int32_t channel, int64_t clock)
{
    struct pen__channel_state *state = &run->channels[channel];
    int64_t begin = clock > state->wire_free ? clock : state->wire_free;
    state->wire_free = begin + run->ticks->transfer[channel];
    run->posted[state->first + state->received++] = clock;
    run->arrival[state->first + state->sent++] = state->wire_free;
}

static bool is_lane(const struct pen__run *run, int32_t channel)
{
    return run->program->channels[channel].direction == PEN_DIRECTION_NONE;
}

static void post_sync(struct pen__run *run, uint32_t stage, int64_t clock)
{
    const struct pen_shape *shape = &run->program->shape;
    uint64_t at = run->sync_first[stage] + run->sync_done[stage]++;
    run->sync_time[at] = clock + run->ticks->sync[stage];
    if (!run->program->has_twins)
        return;
    uint32_t parts = pen_shape_parts(shape);
    for (uint32_t twin = stage % parts; twin < shape->num_stages; twin += parts)
        wake(run, pen_shape_rank_of(shape, twin));
}

/* False while a twin has not reached its SYNC; raises *clock otherwise. */
static bool wait_for_sync(struct pen__run *run, uint32_t stage, int64_t *clock)
{
    const struct pen_shape *shape = &run->program->shape;
    uint32_t parts = pen_shape_parts(shape);
    uint32_t number = run->step_done[stage];
    for (uint32_t twin = stage % parts; twin < shape->num_stages;
         twin += parts) {
        if (number >= run->program->syncs[twin])
            continue;
        if (number >= run->sync_done[twin])
            return false;
        int64_t time = run->sync_time[run->sync_first[twin] + number];
        if (time > *clock)
            *clock = time;
    }
    run->step_done[stage]++;
    return true;
}

static void spend(struct pen__rank_state *state, int64_t start, int64_t ticks)
{
    state->clock = start + ticks;
    if (ticks == 0)
        return;
    if (state->first < 0)
        state->first = start;
    state->last = state->clock;
    state->busy += ticks;
}

/* False when the rank has to wait; it is then asked again. */
static bool step_instr(struct pen__run *run, uint32_t rank,
                       const struct pen__instr *instr)
{
    struct pen__rank_state *state = &run->ranks[rank];
    if (instr->kind != PEN__RUN) {
        int64_t start = state->clock;
        int64_t cost = 0;
        if (instr->kind == PEN__SYNC) {
            post_sync(run, instr->cost, start);
        } else {
            if (!wait_for_sync(run, instr->cost, &start))
                return false;
            cost = run->ticks->step[instr->cost];
        }
        spend(state, start, cost);
        if (run->ops != NULL)
            record(run, rank, instr->op, start, state->clock);
        return true;
    }
    if (state->done == 0) {
        if (instr->recv != PEN__NONE) {
            if (is_lane(run, instr->recv))
                post_move(run, instr->recv, state->clock);
            else
                post_receive(run, instr->recv, state->clock);
            if (run->ops != NULL)
                record(run, rank, instr->op - (instr->is_end ? 0 : 1),
                       state->clock, state->clock);
        }
        state->done = 1;
    }
    if (state->done == 1) {
        int64_t start = state->clock;
        if (instr->wait != PEN__NONE) {
            struct pen__channel_state *channel = &run->channels[instr->wait];
            uint64_t number = channel->received - 1 - instr->back;
            if (number >= channel->sent) {
                channel->is_receiver_waiting = true;
                return false;
            }
            int64_t arrival = run->arrival[channel->first + number];
            if (arrival > start)
                start = arrival;
        }
        spend(state, start, run->ticks->of[instr->cost]);
        if (run->ops != NULL && !instr->is_end)
            record(run, rank, instr->op, start, state->clock);
        state->done = 2;
    }
    if (instr->send != PEN__NONE) {
        if (!post_send(run, instr->send, &state->clock))
            return false;
        if (run->ops != NULL) {
            int64_t took =
                run->ticks->is_blocking ? run->ticks->transfer[instr->send] : 0;
            record(run, rank, instr->op + (instr->is_end ? 0 : 1),
                   state->clock - took, state->clock);
        }
    }
    state->done = 0;
    return true;
}

static void advance(struct pen__run *run, uint32_t rank)
{
    const struct pen__loop_row *row = &run->program->rows[rank];
    struct pen__rank_state *state = &run->ranks[rank];
    uint32_t count = pen__run_count(run, rank);
    uint32_t body_end = row->prefix + row->body;
    uint32_t end = body_end + row->suffix;
    if (count == 0 && state->instr == row->prefix)
        state->instr = body_end;
    while (state->instr < end) {
        if (!step_instr(run, rank, &row->instrs[state->instr]))
            return;
        state->instr++;
        if (state->instr == row->prefix && count == 0)
            state->instr = body_end;
        if (state->instr != body_end || state->iteration >= count)
            continue;
        if (run->iteration_clock != NULL)
            run->iteration_clock[rank][state->iteration] = state->clock;
        state->iteration++;
        if (state->iteration < count)
            state->instr = row->prefix;
    }
    state->is_finished = true;
}

bool pen__run_all(struct pen__run *run)
{
    uint32_t p = run->program->shape.num_ranks;
    for (uint32_t rank = p; rank-- > 0;)
        wake(run, rank);
    while (run->stacked > 0) {
        uint32_t rank = run->stack[--run->stacked];
        run->is_stacked[rank] = 0;
        if (!run->ranks[rank].is_finished)
            advance(run, rank);
    }
    for (uint32_t rank = 0; rank < p; rank++) {
        if (!run->ranks[rank].is_finished)
            return false;
    }
    return true;
}

/* Messages that a row sends (or receives) on each channel, cut applied. */
static void count_messages(const struct pen__run *run, uint64_t *messages)
{
    const struct pen__program *program = run->program;
    for (uint32_t rank = 0; rank < program->shape.num_ranks; rank++) {
        const struct pen__loop_row *row = &program->rows[rank];
        uint64_t count = pen__run_count(run, rank);
        uint32_t all = row->prefix + row->body + row->suffix;
        for (uint32_t i = 0; i < all; i++) {
            const struct pen__instr *instr = &row->instrs[i];
            bool is_body = i >= row->prefix && i < row->prefix + row->body;
            uint64_t times = is_body ? count : 1;
            if (instr->send != PEN__NONE)
                messages[instr->send] += times;
            if (instr->recv != PEN__NONE && is_lane(run, instr->recv))
                messages[instr->recv] += times;
        }
    }
}

static pen_status init_channels(struct pen__run *run)
{
    uint32_t num = run->program->num_channels;
    uint64_t *messages = calloc((size_t)num + 1, sizeof *messages);
    run->channels = calloc((size_t)num + 1, sizeof *run->channels);
    if (messages == NULL || run->channels == NULL) {
        free(messages);
        return PEN_NOMEM;
    }
    count_messages(run, messages);
    uint64_t total = 0;
    for (uint32_t i = 0; i < num; i++) {
        run->channels[i].first = total;
        total += messages[i];
    }
    free(messages);
    run->arrival = malloc((total + 1) * sizeof *run->arrival);
    run->posted = malloc((total + 1) * sizeof *run->posted);
    return run->arrival == NULL || run->posted == NULL ? PEN_NOMEM : PEN_OK;
}

static pen_status init_syncs(struct pen__run *run)
{
    uint32_t stages = run->program->shape.num_stages;
    run->sync_first = calloc(stages, sizeof *run->sync_first);
    run->sync_done = calloc(stages, sizeof *run->sync_done);
    run->step_done = calloc(stages, sizeof *run->step_done);
    if (run->sync_first == NULL || run->sync_done == NULL ||
        run->step_done == NULL)
        return PEN_NOMEM;
    uint64_t total = 0;
    for (uint32_t stage = 0; stage < stages; stage++) {
        run->sync_first[stage] = total;
        total += run->program->syncs[stage];
    }
    run->sync_time = calloc(total + 1, sizeof *run->sync_time);
    return run->sync_time == NULL ? PEN_NOMEM : PEN_OK;
}

/* One array per rank, `size` elements each, in one block. */
static void *init_records(struct pen__run *run, size_t element,
                          uint64_t (*size)(const struct pen__run *, uint32_t))
{
    uint32_t p = run->program->shape.num_ranks;
    uint64_t total = 0;
    for (uint32_t rank = 0; rank < p; rank++)
        total += size(run, rank);
    char **rows = malloc(p * sizeof *rows + (total + 1) * element);
    if (rows == NULL)
        return NULL;
    char *at = (char *)(rows + p);
    for (uint32_t rank = 0; rank < p; rank++) {
        rows[rank] = at;
        at += size(run, rank) * element;
    }
    return rows;
}

static uint64_t iterations_of(const struct pen__run *run, uint32_t rank)
{
    return pen__run_count(run, rank);
}

static uint64_t ops_of(const struct pen__run *run, uint32_t rank)
{
    return run->program->rows[rank].num_ops;
}

pen_status pen__run_init(struct pen__run *run,
                         const struct pen__program *program,
                         const struct pen__ticks *ticks, uint32_t cut,
                         const uint32_t *factor, bool with_iterations,
                         bool with_ops)
{
    uint32_t p = program->shape.num_ranks;
    *run = (struct pen__run){
        .program = program, .ticks = ticks, .cut = cut, .factor = factor};
    run->ranks = calloc(p, sizeof *run->ranks);
    run->stack = calloc(p, sizeof *run->stack);
    run->is_stacked = calloc(p, sizeof *run->is_stacked);
    pen_status status = PEN_NOMEM;
    if (run->ranks != NULL && run->stack != NULL && run->is_stacked != NULL)
        status = init_channels(run);
    if (status == PEN_OK)
        status = init_syncs(run);
    if (status == PEN_OK && with_iterations) {
        run->iteration_clock =
            init_records(run, sizeof(int64_t), iterations_of);
        if (run->iteration_clock == NULL)
            status = PEN_NOMEM;
    }
    if (status == PEN_OK && with_ops) {
        run->ops = init_records(run, sizeof(struct pen__op_time), ops_of);
        if (run->ops == NULL)
            status = PEN_NOMEM;
    }
    if (status != PEN_OK) {
        pen__run_release(run);
        return status;
    }
    for (uint32_t rank = 0; rank < p; rank++)
        run->ranks[rank].first = -1;
    return PEN_OK;
}

void pen__run_release(struct pen__run *run)
{
    free(run->ranks);
    free(run->channels);
    free(run->arrival);
    free(run->posted);
    free(run->sync_time);
    free(run->sync_first);
    free(run->sync_done);
    free(run->step_done);
    free(run->iteration_clock);
    free(run->ops);
    free(run->stack);
    free(run->is_stacked);
    *run = (struct pen__run){.program = NULL};
}

/* Seconds that nothing in this program can exceed, by far. */
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
    /* Decimal, so that 18.522 s is a whole number of ticks. */
    double bound = bound_sec(program, costs);
    double digits = bound > 0 ? floor(log10(4e18 / bound)) : 12;
    ticks->per_sec = pow(10, fmin(digits, 12));
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

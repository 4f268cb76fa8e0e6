/* The machine that executes the waiting rules; machine.h has the idea. */
#include "schedule/machine.h"

#include "base/bug.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint32_t pen__run_count(const struct pen__run *run, uint32_t rank)
{
    const struct pen__instr_row *row = &run->program->rows[rank];
    uint32_t factor = run->factor == NULL ? 1 : run->factor[rank];
    if (row->loop == PEN__NO_LOOP)
        return 0;
    return row->stretches[row->loop].count - run->cut * factor;
}

const struct pen__instr *pen__run_instr(const struct pen__run *run,
                                        uint32_t rank)
{
    const struct pen__rank_state *state = &run->ranks[rank];
    return &state->instrs[state->instr];
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

static void post_receive(struct pen__run *run,
                         struct pen__channel_state *channel, int64_t clock)
{
    channel->messages[channel->received++].posted = clock;
    if (channel->is_sender_waiting) {
        channel->is_sender_waiting = false;
        wake(run, channel->source);
    }
}

/* Puts the next message on the wire. */
static void transfer(struct pen__channel_state *channel, int64_t clock)
{
    int64_t begin = clock > channel->wire_free ? clock : channel->wire_free;
    channel->wire_free = begin + channel->transfer;
    channel->messages[channel->sent++].arrival =
        channel->wire_free + channel->latency;
}

/* False while the window is full. */
static bool post_send(struct pen__run *run, struct pen__channel_state *channel,
                      int64_t *clock)
{
    uint32_t window = run->program->window;
    if (channel->sent >= window) {
        uint64_t before = channel->sent - window;
        if (before >= channel->received) {
            channel->is_sender_waiting = true;
            return false;
        }
        int64_t free_at = channel->messages[before].posted;
        if (free_at > *clock)
            *clock = free_at;
    }
    transfer(channel, *clock);
    if (run->ticks->is_blocking)
        *clock = channel->wire_free;
    if (channel->is_receiver_waiting) {
        channel->is_receiver_waiting = false;
        wake(run, channel->destination);
    }
    return true;
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

/* A SYNC or STEP; false while a STEP has to wait. */
static bool step_stage(struct pen__run *run, uint32_t rank,
                       const struct pen__instr *instr)
{
    struct pen__rank_state *state = &run->ranks[rank];
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

/* False until the message has been sent; raises *start to its arrival. */
static bool wait_for_message(struct pen__channel_state *channel, uint32_t back,
                             int64_t *start)
{
    uint64_t number = channel->received - 1 - back;
    if (number >= channel->sent) {
        channel->is_receiver_waiting = true;
        return false;
    }
    int64_t arrival = channel->messages[number].arrival;
    if (arrival > *start)
        *start = arrival;
    return true;
}

/* False when the rank has to wait; it is then asked again. */
static bool step_instr(struct pen__run *run, uint32_t rank,
                       const struct pen__instr *instr)
{
    struct pen__rank_state *state = &run->ranks[rank];
    if (instr->kind != PEN__RUN)
        return step_stage(run, rank, instr);
    if (state->done == 0) {
        if (instr->recv != PEN__NONE) {
            struct pen__channel_state *channel = &run->channels[instr->recv];
            post_receive(run, channel, state->clock);
            if (channel->is_lane) /* a move is a message to oneself */
                transfer(channel, state->clock);
            if (run->ops != NULL)
                record(run, rank, instr->op - (instr->is_end ? 0 : 1),
                       state->clock, state->clock);
        }
        state->done = 1;
    }
    if (state->done == 1) {
        int64_t start = state->clock;
        if (instr->wait != PEN__NONE &&
            !wait_for_message(&run->channels[instr->wait], instr->back, &start))
            return false;
        spend(state, start, run->ticks->of[instr->cost]);
        if (run->ops != NULL && !instr->is_end)
            record(run, rank, instr->op, start, state->clock);
        state->done = 2;
    }
    if (instr->send != PEN__NONE) {
        struct pen__channel_state *channel = &run->channels[instr->send];
        if (!post_send(run, channel, &state->clock))
            return false;
        if (run->ops != NULL)
            record(run, rank, instr->op + (instr->is_end ? 0 : 1),
                   state->clock -
                       (run->ticks->is_blocking ? channel->transfer : 0),
                   state->clock);
    }
    state->done = 0;
    return true;
}

/* Puts the rank before its stretch of this number, or at its end. */
static void enter_stretch(struct pen__run *run, uint32_t rank, uint32_t number)
{
    const struct pen__instr_row *row = &run->program->rows[rank];
    struct pen__rank_state *state = &run->ranks[rank];
    state->stretch = number;
    state->iteration = 0;
    state->instr = 0;
    state->is_finished = number == row->num_stretches;
    if (state->is_finished)
        return;
    const struct pen__stretch *stretch = &row->stretches[number];
    state->instrs = row->instrs + stretch->first;
    state->length = stretch->length;
    state->count =
        number == row->loop ? pen__run_count(run, rank) : stretch->count;
}

static void end_iteration(struct pen__run *run, uint32_t rank)
{
    struct pen__rank_state *state = &run->ranks[rank];
    bool is_loop = state->stretch == run->program->rows[rank].loop;
    if (is_loop && run->iteration_clock != NULL)
        run->iteration_clock[rank][state->iteration] = state->clock;
    state->instr = 0;
    state->iteration++;
}

/* Runs the rank on until it has to wait or has finished. */
static void advance(struct pen__run *run, uint32_t rank)
{
    struct pen__rank_state *state = &run->ranks[rank];
    while (!state->is_finished) {
        while (state->iteration < state->count) {
            for (; state->instr < state->length; state->instr++) {
                if (!step_instr(run, rank, &state->instrs[state->instr]))
                    return;
            }
            end_iteration(run, rank);
        }
        enter_stretch(run, rank, state->stretch + 1);
    }
}

bool pen__run_all(struct pen__run *run)
{
    uint32_t p = run->program->shape.num_ranks;
    for (uint32_t rank = p; rank-- > 0;)
        wake(run, rank);
    while (run->stacked > 0) {
        uint32_t rank = run->stack[--run->stacked];
        run->is_stacked[rank] = 0;
        advance(run, rank);
    }
    for (uint32_t rank = 0; rank < p; rank++) {
        if (!run->ranks[rank].is_finished)
            return false;
    }
    return true;
}

/* Messages of one stretch that runs `times`, by channel. */
static void count_stretch(const struct pen__run *run,
                          const struct pen__instr *instrs, uint32_t length,
                          uint64_t times, uint64_t *messages)
{
    for (uint32_t i = 0; i < length; i++) {
        const struct pen__instr *instr = &instrs[i];
        if (instr->send != PEN__NONE)
            messages[instr->send] += times;
        if (instr->recv != PEN__NONE && run->channels[instr->recv].is_lane)
            messages[instr->recv] += times;
    }
}

/* Messages on each channel, cut applied. */
static void count_messages(const struct pen__run *run, uint64_t *messages)
{
    const struct pen__program *program = run->program;
    for (uint32_t rank = 0; rank < program->shape.num_ranks; rank++) {
        const struct pen__instr_row *row = &program->rows[rank];
        for (uint32_t i = 0; i < row->num_stretches; i++) {
            const struct pen__stretch *stretch = &row->stretches[i];
            count_stretch(run, row->instrs + stretch->first, stretch->length,
                          i == row->loop ? pen__run_count(run, rank)
                                         : stretch->count,
                          messages);
        }
    }
}

/* Everything about a channel but its messages. */
static void init_channel(struct pen__run *run, uint32_t number)
{
    const struct pen__channel *channel = &run->program->channels[number];
    run->channels[number] = (struct pen__channel_state){
        .latency = run->ticks->latency[number],
        .transfer = run->ticks->transfer[number],
        .source = channel->source,
        .destination = channel->destination,
        .is_lane = channel->direction == PEN_DIRECTION_NONE};
}

static pen_status init_channels(struct pen__run *run)
{
    uint32_t num = run->program->num_channels;
    uint64_t *messages = calloc((size_t)num + 1, sizeof *messages);
    run->channels = malloc(((size_t)num + 1) * sizeof *run->channels);
    if (messages == NULL || run->channels == NULL) {
        free(messages);
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; i < num; i++)
        init_channel(run, i);
    count_messages(run, messages);
    uint64_t total = 0;
    for (uint32_t i = 0; i < num; i++)
        total += messages[i];
    run->messages = malloc((total + 1) * sizeof *run->messages);
    struct pen__message *at = run->messages;
    for (uint32_t i = 0; at != NULL && i < num; i++) {
        run->channels[i].messages = at;
        at += messages[i];
    }
    free(messages);
    return run->messages == NULL ? PEN_NOMEM : PEN_OK;
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
    for (uint32_t rank = 0; rank < p; rank++) {
        run->ranks[rank].first = -1;
        enter_stretch(run, rank, 0);
    }
    return PEN_OK;
}

void pen__run_release(struct pen__run *run)
{
    free(run->ranks);
    free(run->channels);
    free(run->messages);
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

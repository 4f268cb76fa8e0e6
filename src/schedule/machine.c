/* The machine that executes the waiting rules; machine.h has the idea. */
#include "schedule/machine.h"

#include "base/room.h"

#include <stdlib.h>

/* Times that the run goes through the loop of this row; 0 without one. */
static uint32_t loop_count(const struct pen__run *run, uint32_t rank)
{
    const struct pen__instr_row *row = &run->program->rows[rank];
    uint32_t factor =
        run->options.factor == NULL ? 1 : run->options.factor[rank];
    if (row->loop == PEN__NO_LOOP)
        return 0;
    return row->stretches[row->loop].count - run->options.cut * factor;
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
    uint32_t number = channel->received++;
    channel->messages[number & channel->mask].posted = clock;
    if (run->watches != NULL) {
        struct pen__watch *watch = &run->watches[channel - run->channels];
        if (number - watch->received_from < watch->count)
            watch->posts[number - watch->received_from] = clock;
    }
    if (channel->is_sender_waiting) {
        channel->is_sender_waiting = false;
        wake(run, channel->source);
    }
}

/* Puts the next message on the wire. */
static void transfer(struct pen__run *run, struct pen__channel_state *channel,
                     int64_t clock)
{
    int64_t begin = clock > channel->wire_free ? clock : channel->wire_free;
    channel->wire_free = begin + channel->transfer;
    int64_t arrival = channel->wire_free + channel->latency;
    uint32_t number = channel->sent++;
    channel->messages[number & channel->mask].arrival = arrival;
    if (run->watches != NULL) {
        struct pen__watch *watch = &run->watches[channel - run->channels];
        if (number - watch->sent_from < watch->count)
            watch->arrivals[number - watch->sent_from] = arrival;
    }
}

/* Returns false while the window is full. */
static bool post_send(struct pen__run *run, struct pen__channel_state *channel,
                      int64_t *clock)
{
    uint32_t window = run->program->window;
    if (channel->sent >= window) {
        uint32_t before = channel->sent - window;
        if (before >= channel->received) {
            channel->is_sender_waiting = true;
            return false;
        }
        int64_t free_at = channel->messages[before & channel->mask].posted;
        if (free_at > *clock)
            *clock = free_at;
    }
    transfer(run, channel, *clock);
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
    uint32_t stride = run->program->stride;
    for (uint32_t twin = stage % stride; twin < shape->num_stages;
         twin += stride)
        wake(run, pen_shape_rank_of(shape, twin));
}

/*
 * Returns false while a twin has not reached its SYNC; otherwise raises *clock.
 */
static bool wait_for_sync(struct pen__run *run, uint32_t stage, int64_t *clock)
{
    const struct pen_shape *shape = &run->program->shape;
    uint32_t stride = run->program->stride;
    uint32_t number = run->step_done[stage];
    for (uint32_t twin = stage % stride; twin < shape->num_stages;
         twin += stride) {
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

/* Runs a SYNC or STEP; false while a STEP has to wait. */
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

/*
 * Returns false until the message has been sent; raises *start to its arrival.
 */
static bool wait_for_message(struct pen__channel_state *channel, uint32_t back,
                             int64_t *start)
{
    uint32_t number = channel->received - 1 - back;
    if (number >= channel->sent) {
        channel->is_receiver_waiting = true;
        return false;
    }
    int64_t arrival = channel->messages[number & channel->mask].arrival;
    if (arrival > *start)
        *start = arrival;
    return true;
}

/* Returns false when the rank has to wait; it is then called again. */
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
                transfer(run, channel, state->clock);
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
    state->count = number == row->loop ? loop_count(run, rank) : stretch->count;
}

/*
 * Returns the last iterations of the loop of this rank whose clocks are kept.
 */
static uint32_t watched_of(const struct pen__run *run, uint32_t rank)
{
    return run->options.watched *
           (run->options.factor == NULL ? 1 : run->options.factor[rank]);
}

static void end_iteration(struct pen__run *run, uint32_t rank)
{
    struct pen__rank_state *state = &run->ranks[rank];
    bool is_loop = state->stretch == run->program->rows[rank].loop;
    if (is_loop && run->loop_clock != NULL) {
        uint32_t left = state->count - state->iteration;
        uint32_t watched = watched_of(run, rank);
        if (left <= watched)
            run->loop_clock[rank][watched - left] = state->clock;
    }
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

/* The load of a channel. */
struct load {
    uint64_t messages;
    uint32_t back; /* most receives posted after one that is waited for */
};

static void load_instr(const struct pen__run *run,
                       const struct pen__instr *instr, uint64_t times,
                       struct load *loads)
{
    if (instr->send != PEN__NONE)
        loads[instr->send].messages += times;
    if (instr->recv != PEN__NONE && run->channels[instr->recv].is_lane)
        loads[instr->recv].messages += times;
    if (instr->wait != PEN__NONE && instr->back > loads[instr->wait].back)
        loads[instr->wait].back = instr->back;
}

static void load_channels(const struct pen__run *run, struct load *loads)
{
    const struct pen__program *program = run->program;
    for (uint32_t rank = 0; rank < program->shape.num_ranks; rank++) {
        const struct pen__instr_row *row = &program->rows[rank];
        for (uint32_t i = 0; i < row->num_stretches; i++) {
            const struct pen__stretch *stretch = &row->stretches[i];
            uint64_t times =
                i == row->loop ? loop_count(run, rank) : stretch->count;
            for (uint32_t k = 0; k < stretch->length; k++)
                load_instr(run, &row->instrs[stretch->first + k], times, loads);
        }
    }
}

/* Messages of the ring: a power of two. */
static uint64_t ring_of(const struct pen__run *run, const struct load *load)
{
    uint64_t most = load->messages;
    uint64_t live = (uint64_t)run->program->window + load->back + 2;
    if (live < most && !run->options.with_ops)
        most = live;
    uint64_t size = 1;
    while (size < most)
        size *= 2;
    return size;
}

/* Prepares everything in a channel but its messages. */
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

static pen_status init_messages(struct pen__run *run, const struct load *loads)
{
    uint32_t num = run->program->num_channels;
    uint64_t total = 0;
    for (uint32_t i = 0; i < num; i++)
        total += ring_of(run, &loads[i]);
    run->messages = pen_room(total + 1, sizeof *run->messages);
    if (run->messages == NULL)
        return PEN_NOMEM;
    struct pen__message *at = run->messages;
    for (uint32_t i = 0; i < num; i++) {
        uint64_t ring = ring_of(run, &loads[i]);
        run->channels[i].messages = at;
        run->channels[i].mask = (uint32_t)(ring - 1);
        at += ring;
    }
    return PEN_OK;
}

static pen_status init_watches(struct pen__run *run, const struct load *loads)
{
    const struct pen__zone *zones = run->options.zones;
    uint32_t num = run->program->num_channels;
    uint64_t total = 0;
    if (zones == NULL)
        return PEN_OK;
    for (uint32_t i = 0; i < num; i++)
        total += 2 * zones[i].count;
    run->watches = malloc(((size_t)num + 1) * sizeof *run->watches);
    run->watched = pen_room(total + 1, sizeof *run->watched);
    if (run->watches == NULL || run->watched == NULL)
        return PEN_NOMEM;
    int64_t *at = run->watched;
    for (uint32_t i = 0; i < num; i++) {
        const struct pen__zone *zone = &zones[i];
        uint64_t first = loads[i].messages - zone->count;
        run->watches[i] = (struct pen__watch){
            .sent_from = (uint32_t)(first - zone->sent_behind),
            .received_from = (uint32_t)(first - zone->received_behind),
            .count = (uint32_t)zone->count,
            .arrivals = at,
            .posts = at + zone->count};
        at += 2 * zone->count;
    }
    return PEN_OK;
}

static pen_status init_channels(struct pen__run *run)
{
    uint32_t num = run->program->num_channels;
    struct load *loads = calloc((size_t)num + 1, sizeof *loads);
    run->channels = calloc((size_t)num + 1, sizeof *run->channels);
    pen_status status = PEN_NOMEM;
    if (loads != NULL && run->channels != NULL) {
        for (uint32_t i = 0; i < num; i++)
            init_channel(run, i);
        load_channels(run, loads);
        status = init_messages(run, loads);
    }
    if (status == PEN_OK)
        status = init_watches(run, loads);
    free(loads);
    return status;
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
    run->sync_time = pen_room_zero(total + 1, sizeof *run->sync_time);
    return run->sync_time == NULL ? PEN_NOMEM : PEN_OK;
}

/* Makes one array per rank, `size` elements each, in one block. */
static void *init_records(struct pen__run *run, size_t element,
                          uint64_t (*size)(const struct pen__run *, uint32_t))
{
    uint32_t p = run->program->shape.num_ranks;
    uint64_t total = 0;
    for (uint32_t rank = 0; rank < p; rank++)
        total += size(run, rank);
    char **rows =
        pen_room(p * (uint64_t)sizeof *rows + (total + 1) * element, 1);
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
    return watched_of(run, rank);
}

static uint64_t ops_of(const struct pen__run *run, uint32_t rank)
{
    return run->program->rows[rank].num_ops;
}

pen_status pen__run_init(struct pen__run *run,
                         const struct pen__program *program,
                         const struct pen__ticks *ticks,
                         const struct pen__run_options *options)
{
    uint32_t p = program->shape.num_ranks;
    *run = (struct pen__run){.program = program, .ticks = ticks};
    if (options != NULL)
        run->options = *options;
    run->ranks = calloc(p, sizeof *run->ranks);
    run->stack = calloc(p, sizeof *run->stack);
    run->is_stacked = calloc(p, sizeof *run->is_stacked);
    pen_status status = PEN_NOMEM;
    if (run->ranks != NULL && run->stack != NULL && run->is_stacked != NULL)
        status = init_channels(run);
    if (status == PEN_OK)
        status = init_syncs(run);
    if (status == PEN_OK && run->options.watched > 0) {
        run->loop_clock = init_records(run, sizeof(int64_t), iterations_of);
        if (run->loop_clock == NULL)
            status = PEN_NOMEM;
    }
    if (status == PEN_OK && run->options.with_ops) {
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
    free(run->watches);
    free(run->watched);
    free(run->sync_time);
    free(run->sync_first);
    free(run->sync_done);
    free(run->step_done);
    free(run->loop_clock);
    free(run->ops);
    free(run->stack);
    free(run->is_stacked);
    *run = (struct pen__run){.program = NULL};
}

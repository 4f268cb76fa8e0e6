/*
 * The critical path, found backwards from the op that ends last. An op that
 * starts when the op before it in its row ends was held up by that one. Any
 * other op has waited, and was released by one of
 *
 *   a message or a load    whose bytes arrived at this tick: continue at its
 *                          send, or, while the wire was busy, at the send
 *                          that the wire was busy with
 *   a full window          a send goes when an earlier receive is posted
 *   a reduction            a STEP goes when the SYNC of every copy (of every
 *                          stage, where steps are joint) is through
 *
 * Ticks are integers, so "at this tick" means equality.
 */
#include "schedule/path.h"

#include <stdlib.h>

#define NOWHERE UINT32_MAX

struct tracer {
    const struct pen_schedule *schedule;
    const struct pen__run *run;
    uint64_t *first;       /* per channel: index of its first message */
    uint32_t *sent_at;     /* per message: position of its send */
    uint32_t *received_at; /* and of its receive */
    uint64_t *sends;       /* per channel */
    uint64_t *receives;
    int32_t *lane; /* per rank: channel of its moves, or PEN__NONE */
};

static const struct pen_path_step nowhere = {NOWHERE, NOWHERE, false};

static bool is_move(const struct pen_op *op)
{
    return pen_op_info(op->kind)->op_class == PEN_OP_CLASS_MOVE;
}

/* Notes the position of every send and receive under its number. */
static void index_messages(struct tracer *tracer)
{
    const struct pen__program *program = tracer->run->program;
    for (uint32_t rank = 0; rank < program->shape.num_ranks; rank++)
        tracer->lane[rank] = PEN__NONE;
    for (uint32_t i = 0; i < program->num_channels; i++) {
        if (program->channels[i].direction == PEN_DIRECTION_NONE)
            tracer->lane[program->channels[i].source] = (int32_t)i;
    }
    for (uint32_t rank = 0; rank < program->shape.num_ranks; rank++) {
        const struct pen_row *row = &tracer->schedule->rows[rank];
        for (uint32_t i = 0; i < row->count; i++) {
            const struct pen_op *op = &row->ops[i];
            int32_t channel = is_move(op)
                                  ? tracer->lane[rank]
                                  : pen__channel_of(&program->index, op);
            if (channel == PEN__NONE)
                continue;
            uint64_t first = tracer->first[channel];
            if (pen_op_info(op->kind)->op_class == PEN_OP_CLASS_RECV)
                tracer->received_at[first + tracer->receives[channel]++] = i;
            else
                tracer->sent_at[first + tracer->sends[channel]++] = i;
        }
    }
}

static pen_status tracer_init(struct tracer *tracer)
{
    const struct pen__run *run = tracer->run;
    const struct pen__program *program = run->program;
    size_t channels = (size_t)program->num_channels + 1;
    size_t messages = 0;
    tracer->first = calloc(channels, sizeof *tracer->first);
    if (tracer->first == NULL)
        return PEN_NOMEM;
    for (uint32_t i = 0; i < program->num_channels; i++) {
        tracer->first[i] = messages;
        messages += run->channels[i].sent;
    }
    tracer->sent_at = calloc(messages + 1, sizeof *tracer->sent_at);
    tracer->received_at = calloc(messages + 1, sizeof *tracer->received_at);
    tracer->sends = calloc(channels, sizeof *tracer->sends);
    tracer->receives = calloc(channels, sizeof *tracer->receives);
    tracer->lane = calloc(program->shape.num_ranks, sizeof *tracer->lane);
    if (tracer->sent_at == NULL || tracer->received_at == NULL ||
        tracer->sends == NULL || tracer->receives == NULL ||
        tracer->lane == NULL)
        return PEN_NOMEM;
    index_messages(tracer);
    return PEN_OK;
}

static void tracer_release(struct tracer *tracer)
{
    free(tracer->first);
    free(tracer->sent_at);
    free(tracer->received_at);
    free(tracer->sends);
    free(tracer->receives);
    free(tracer->lane);
}

/* Returns the number of the message at this position; positions ascend. */
static uint64_t number_of(const uint32_t *positions, uint64_t count,
                          uint32_t position)
{
    uint64_t low = 0;
    while (count > 1) {
        uint64_t half = count / 2;
        if (positions[low + half] <= position)
            low += half;
        count -= half;
    }
    return low;
}

/*
 * Returns the send from which bytes moved without a pause until this one's
 * came.
 */
static struct pen_path_step sender_of(const struct tracer *tracer,
                                      int32_t channel, uint64_t number)
{
    const struct pen__run *run = tracer->run;
    const struct pen__ticks *ticks = run->ticks;
    uint64_t first = tracer->first[channel];
    uint32_t source = run->program->channels[channel].source;
    for (;;) {
        uint32_t position = tracer->sent_at[first + number];
        int64_t begin = run->channels[channel].messages[number].arrival -
                        ticks->latency[channel] - ticks->transfer[channel];
        if (number == 0 || run->ops[source][position].start == begin)
            return (struct pen_path_step){source, position, true};
        number--;
    }
}

/* Returns the message that feeds this compute op, if it arrived at the tick. */
static struct pen_path_step feeder_of(const struct tracer *tracer,
                                      uint32_t rank, uint32_t position,
                                      int64_t tick)
{
    const struct pen_row *row = &tracer->schedule->rows[rank];
    const struct pen_op *op = &row->ops[position];
    const struct pen__run *run = tracer->run;
    int32_t fed = pen__channel_feeding(&run->program->index, op);
    for (uint32_t i = position;
         i-- > 0 && (fed != PEN__NONE || tracer->lane[rank] != PEN__NONE);) {
        const struct pen_op *other = &row->ops[i];
        unsigned op_class = pen_op_info(other->kind)->op_class;
        bool is_receive = op_class == PEN_OP_CLASS_RECV &&
                          pen__channel_of(&run->program->index, other) == fed;
        if ((!is_receive && other->kind != PEN_OP_LOAD) ||
            other->stage != op->stage || other->slice != op->slice ||
            other->microbatch != op->microbatch)
            continue;
        int32_t channel = is_receive ? fed : tracer->lane[rank];
        uint64_t first = tracer->first[channel];
        uint64_t number = is_receive ? number_of(tracer->received_at + first,
                                                 tracer->receives[channel], i)
                                     : number_of(tracer->sent_at + first,
                                                 tracer->sends[channel], i);
        if (run->channels[channel].messages[number].arrival == tick)
            return sender_of(tracer, channel, number);
        if (tracer->lane[rank] == PEN__NONE)
            break;
    }
    return nowhere;
}

/* Returns the receive that made room in the window of this send. */
static struct pen_path_step room_for(const struct tracer *tracer, uint32_t rank,
                                     uint32_t position)
{
    const struct pen__run *run = tracer->run;
    const struct pen_op *op = &tracer->schedule->rows[rank].ops[position];
    int32_t channel = pen__channel_of(&run->program->index, op);
    uint64_t first = tracer->first[channel];
    uint64_t number =
        number_of(tracer->sent_at + first, tracer->sends[channel], position);
    if (number < run->program->window)
        return nowhere;
    uint32_t to = run->program->channels[channel].destination;
    uint64_t before = number - run->program->window;
    return (struct pen_path_step){to, tracer->received_at[first + before],
                                  true};
}

/* Returns the SYNC, of this stage or a twin, that was through at this tick. */
static struct pen_path_step reduction_of(const struct tracer *tracer,
                                         const struct pen_op *step,
                                         int64_t tick)
{
    const struct pen_shape *shape = &tracer->schedule->shape;
    uint32_t stride = pen_schedule_sync_stride(tracer->schedule);
    for (uint32_t twin = step->stage % stride; twin < shape->num_stages;
         twin += stride) {
        uint32_t rank = pen_shape_rank_of(shape, twin);
        const struct pen_row *row = &tracer->schedule->rows[rank];
        int64_t took = tracer->run->ticks->sync[twin];
        for (uint32_t i = row->count; i-- > 0;) {
            if (row->ops[i].kind == PEN_OP_SYNC_GRAD &&
                row->ops[i].stage == twin &&
                tracer->run->ops[rank][i].start + took == tick)
                return (struct pen_path_step){rank, i, true};
        }
    }
    return nowhere;
}

/* Returns the step that released an op that has waited until `tick`. */
static struct pen_path_step released_by(const struct tracer *tracer,
                                        struct pen_path_step at, int64_t tick)
{
    const struct pen_row *row = &tracer->schedule->rows[at.rank];
    const struct pen_op *op = &row->ops[at.position];
    if (op->kind == PEN_OP_STEP)
        return reduction_of(tracer, op, tick);
    if (pen_op_info(op->kind)->op_class == PEN_OP_CLASS_SEND)
        return room_for(tracer, at.rank, at.position);
    /* A group starts when its last member is ready. */
    for (uint32_t i = at.position; i < row->count; i++) {
        if (i > at.position &&
            (op->group == 0 || row->ops[i].group != op->group))
            break;
        struct pen_path_step from = feeder_of(tracer, at.rank, i, tick);
        if (from.rank != NOWHERE)
            return from;
    }
    return nowhere;
}

static struct pen_path_step before(const struct tracer *tracer,
                                   struct pen_path_step at)
{
    const struct pen__op_time *times = tracer->run->ops[at.rank];
    int64_t start = times[at.position].start;
    int64_t ready = at.position == 0 ? 0 : times[at.position - 1].end;
    if (ready < start) {
        struct pen_path_step from = released_by(tracer, at, start);
        if (from.rank != NOWHERE)
            return from;
    }
    if (at.position == 0)
        return nowhere;
    return (struct pen_path_step){at.rank, at.position - 1, false};
}

static struct pen_path_step last_op(const struct tracer *tracer)
{
    struct pen_path_step last = nowhere;
    int64_t end = 0;
    for (uint32_t rank = 0; rank < tracer->schedule->shape.num_ranks; rank++) {
        const struct pen_row *row = &tracer->schedule->rows[rank];
        for (uint32_t i = row->count; i-- > 0;) {
            const struct pen__op_time *time = &tracer->run->ops[rank][i];
            unsigned op_class = pen_op_info(row->ops[i].kind)->op_class;
            if (time->end == time->start || op_class == PEN_OP_CLASS_SEND)
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
        const struct pen__op_time *time =
            &tracer->run->ops[at.rank][at.position];
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
    struct tracer tracer = {.schedule = schedule, .run = run};
    pen_status status = tracer_init(&tracer);
    if (status == PEN_OK)
        status = walk_back(&tracer, timing);
    tracer_release(&tracer);
    return status;
}

/*
 * A timed schedule as events.
 *
 *   process "rank 0"   thread 1 "compute"      F0 F1 F2      B0 ...
 *                      thread 2 "activations"     receives, sends
 *                      thread 3 "gradients"       receives, sends
 *                      counter  "memory"
 *
 * A receive lasts from its post to the start of the op that it feeds, so its
 * length is the time waited; a send takes no time of its rank. An arrow leads
 * from the op that produced a message to the op that consumes it. One process
 * more, "critical path", repeats the ops that hold everybody up.
 */
#include "view/cells.h"
#include "view/events.h"

enum track { TRACK_COMPUTE = 1, TRACK_ACTIVATIONS, TRACK_GRADIENTS };

struct writer {
    struct pen__events events;
    const struct pen_picture_item *item;
    uint32_t rank;
    uint64_t first_flow; /* number of the first arrow of this item */
};

static const struct pen_row *row_of(const struct writer *writer)
{
    return &writer->item->schedule->rows[writer->rank];
}

static const struct pen_op_time *time_at(const struct writer *writer,
                                         uint32_t position)
{
    return &writer->item->timing->ops[writer->rank][position];
}

/*
 * Begins the next process, "rank 3" or "critical path", with or without its
 * label in front.
 */
static void begin_process(struct writer *writer, bool with_label,
                          const char *name)
{
    struct pen_text whole = PEN_TEXT_EMPTY;
    if (with_label) {
        pen__add_item_label(writer->item, &whole);
        pen_text_add_string(&whole, " ");
    }
    pen_text_add_string(&whole, name);
    pen__events_add_process(&writer->events, pen_text_string(&whole));
    pen_text_release(&whole);
    pen__events_name_track(&writer->events, TRACK_COMPUTE, "compute");
}

static void begin_rank(struct writer *writer, bool with_label)
{
    struct pen_text name = PEN_TEXT_EMPTY;
    pen_text_add(&name, "rank %u", writer->rank);
    begin_process(writer, with_label, pen_text_string(&name));
    pen_text_release(&name);
    pen__events_name_track(&writer->events, TRACK_ACTIVATIONS, "activations");
    pen__events_name_track(&writer->events, TRACK_GRADIENTS, "gradients");
}

static enum track track_of(const struct pen_op *op)
{
    const struct pen_op_info *info = pen_op_info(op->kind);
    if (info->op_class != PEN_OP_CLASS_SEND &&
        info->op_class != PEN_OP_CLASS_RECV)
        return TRACK_COMPUTE;
    return info->direction == PEN_DIRECTION_ACT ? TRACK_ACTIVATIONS
                                                : TRACK_GRADIENTS;
}

static void add_op(struct writer *writer, const struct pen_op *op,
                   double start_sec, double end_sec)
{
    pen__events_add_op(&writer->events, track_of(op), writer->item->schedule,
                       writer->rank, op, start_sec, end_sec);
}

/* Messages are numbered by their producer and their direction. */
static uint64_t flow_number(const struct writer *writer, uint32_t producer,
                            const struct pen_op *op)
{
    const struct pen_shape *shape = &writer->item->schedule->shape;
    bool is_gradient = pen_op_info(op->kind)->direction == PEN_DIRECTION_GRAD;
    uint64_t cell = (uint64_t)producer * shape->num_microbatches;
    cell = (cell + op->microbatch) * shape->num_slices + op->slice;
    return writer->first_flow + 2 * cell + is_gradient;
}

/*
 * Adds an end of an arrow, which the viewer ties to the slice around that
 * instant.
 */
static void add_flow(struct writer *writer, const char *phase, uint64_t number,
                     double at_sec)
{
    pen__events_begin(&writer->events, phase, TRACK_COMPUTE);
    pen__events_add_usec(&writer->events, "ts", at_sec);
    pen_text_add(writer->events.out,
                 ",\"bp\":\"e\",\"cat\":\"message\",\"name\":\"message\","
                 "\"id\":%llu}",
                 (unsigned long long)number);
}

static bool is_same_work(const struct pen_op *a, const struct pen_op *b)
{
    return a->stage == b->stage && a->microbatch == b->microbatch &&
           a->slice == b->slice;
}

/*
 * Returns whether a compute op belongs to a message: B or I for a gradient, F
 * for an activation.
 */
static bool belongs_to_message(const struct pen_op *compute,
                               const struct pen_op *message)
{
    return pen_op_is_compute(compute->kind) && is_same_work(compute, message) &&
           pen_op_info(compute->kind)->direction ==
               pen_op_info(message->kind)->direction;
}

static void add_send(struct writer *writer, uint32_t position)
{
    const struct pen_row *row = row_of(writer);
    const struct pen_op *send = &row->ops[position];
    const struct pen_op_time *time = time_at(writer, position);
    add_op(writer, send, time->start_sec, time->end_sec);
    uint32_t i = position;
    while (i > 0 && !belongs_to_message(&row->ops[i - 1], send))
        i--;
    if (i == 0)
        return;
    const struct pen_op_time *from = time_at(writer, i - 1);
    if (from->end_sec > from->start_sec)
        add_flow(writer, "s", flow_number(writer, send->stage, send),
                 from->start_sec + 0.9 * (from->end_sec - from->start_sec));
}

/* Slices of one track must not cross: the next receive ends this one. */
static void add_receive(struct writer *writer, uint32_t position)
{
    const struct pen_row *row = row_of(writer);
    const struct pen_shape *shape = &writer->item->schedule->shape;
    const struct pen_op *receive = &row->ops[position];
    double start_sec = time_at(writer, position)->start_sec;
    double end_sec = -1;
    for (uint32_t i = position + 1; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        double at_sec = time_at(writer, i)->start_sec;
        if (end_sec < 0 && op->kind == receive->kind)
            end_sec = at_sec;
        if (!belongs_to_message(op, receive))
            continue;
        uint32_t producer = pen_op_feeder(shape, op);
        add_op(writer, receive, start_sec, end_sec < 0 ? at_sec : end_sec);
        if (time_at(writer, i)->end_sec > at_sec)
            add_flow(writer, "f", flow_number(writer, producer, receive),
                     at_sec);
        return;
    }
}

static void add_memory(struct writer *writer)
{
    const struct pen_curve *curve = &writer->item->timing->curves[writer->rank];
    for (uint32_t i = 0; i < curve->count; i++) {
        const struct pen_level *point = &curve->points[i];
        pen__events_begin(&writer->events, "C", TRACK_COMPUTE);
        pen__events_add_usec(&writer->events, "ts", point->at_sec);
        pen_text_add(writer->events.out,
                     ",\"name\":\"memory\",\"args\":{\"A\":%.9g}}",
                     point->level);
    }
}

static void add_rank(struct writer *writer)
{
    const struct pen_row *row = row_of(writer);
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        const struct pen_op_time *time = time_at(writer, i);
        switch (pen_op_info(op->kind)->op_class) {
        case PEN_OP_CLASS_SEND:
            add_send(writer, i);
            break;
        case PEN_OP_CLASS_RECV:
            add_receive(writer, i);
            break;
        default:
            add_op(writer, op, time->start_sec, time->end_sec);
        }
    }
    add_memory(writer);
}

static void add_path(struct writer *writer)
{
    const struct pen_timing *timing = writer->item->timing;
    for (uint32_t i = 0; i < timing->path_count; i++) {
        const struct pen_path_step *step = &timing->path[i];
        writer->rank = step->rank;
        const struct pen_op_time *time = time_at(writer, step->position);
        add_op(writer, &row_of(writer)->ops[step->position], time->start_sec,
               time->end_sec);
    }
}

pen_status pen_perfetto_print(const struct pen_picture_item *items,
                              size_t count, struct pen_text *out)
{
    struct writer writer = {.events = {.out = out}};
    pen__events_open(&writer.events);
    for (size_t i = 0; i < count; i++) {
        const struct pen_shape *shape = &items[i].schedule->shape;
        writer.item = &items[i];
        for (writer.rank = 0; writer.rank < shape->num_ranks; writer.rank++) {
            begin_rank(&writer, count > 1);
            add_rank(&writer);
        }
        begin_process(&writer, count > 1, "critical path");
        add_path(&writer);
        writer.first_flow += 2ull * shape->num_stages *
                             shape->num_microbatches * shape->num_slices;
    }
    pen__events_close(&writer.events);
    return out->has_failed ? PEN_NOMEM : PEN_OK;
}

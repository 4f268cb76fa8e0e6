/*
 * Chrome's trace event format, as ui.perfetto.dev and chrome://tracing read
 * it. A million events are nothing unusual, so they are written as text and
 * not built as a tree.
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

enum track { TRACK_COMPUTE = 1, TRACK_ACTIVATIONS, TRACK_GRADIENTS };

struct writer {
    struct pen_text *out;
    const struct pen_picture_item *item;
    uint32_t rank;
    uint32_t process;
    uint64_t first_flow; /* number of the first arrow of this item */
    bool has_events;
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

/* 15 digits say what a double says, and 0.3 stays 0.3. */
static void add_usec(struct writer *writer, const char *key, double sec)
{
    pen_text_add(writer->out, ",\"%s\":%.15g", key, sec * 1e6);
}

static void add_quoted(struct pen_text *out, const char *string)
{
    pen_text_add_bytes(out, "\"", 1);
    for (; *string != '\0'; string++) {
        if (*string == '"' || *string == '\\')
            pen_text_add_bytes(out, "\\", 1);
        pen_text_add_bytes(out, string, 1);
    }
    pen_text_add_bytes(out, "\"", 1);
}

/* Opens an event of this phase; the caller adds what it needs and a }. */
static void begin_event(struct writer *writer, const char *phase,
                        enum track track)
{
    pen_text_add_string(writer->out, writer->has_events ? ",\n" : "\n");
    pen_text_add(writer->out, "{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u", phase,
                 writer->process, (unsigned)track);
    writer->has_events = true;
}

static void name_track(struct writer *writer, const char *what,
                       enum track track, const char *name)
{
    begin_event(writer, "M", track);
    pen_text_add(writer->out, ",\"name\":\"%s\",\"args\":{\"name\":", what);
    add_quoted(writer->out, name);
    pen_text_add_string(writer->out, "}}");
}

/* The next process, "rank 3" or "critical path", behind its label. */
static void begin_process(struct writer *writer, bool with_label,
                          const char *name)
{
    struct pen_text whole = PEN_TEXT_EMPTY;
    writer->process++;
    if (with_label) {
        pen__add_item_label(writer->item, &whole);
        pen_text_add_string(&whole, " ");
    }
    pen_text_add_string(&whole, name);
    name_track(writer, "process_name", TRACK_COMPUTE, pen_text_string(&whole));
    pen_text_release(&whole);
    begin_event(writer, "M", TRACK_COMPUTE);
    pen_text_add(writer->out,
                 ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":"
                 "%u}}",
                 writer->process);
    name_track(writer, "thread_name", TRACK_COMPUTE, "compute");
}

static void begin_rank(struct writer *writer, bool with_label)
{
    struct pen_text name = PEN_TEXT_EMPTY;
    pen_text_add(&name, "rank %u", writer->rank);
    begin_process(writer, with_label, pen_text_string(&name));
    pen_text_release(&name);
    name_track(writer, "thread_name", TRACK_ACTIVATIONS, "activations");
    name_track(writer, "thread_name", TRACK_GRADIENTS, "gradients");
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

/* A slice from start on; an instant when it takes no time. */
static void add_op(struct writer *writer, const struct pen_op *op,
                   double start_sec, double end_sec)
{
    bool is_slice = end_sec > start_sec;
    struct pen_text *out = writer->out;
    begin_event(writer, is_slice ? "X" : "i", track_of(op));
    add_usec(writer, "ts", start_sec);
    if (is_slice)
        add_usec(writer, "dur", end_sec - start_sec);
    else
        pen_text_add_string(out, ",\"s\":\"t\"");
    pen_text_add(out, ",\"name\":\"%s", pen_op_info(op->kind)->words);
    if (pen_op_has_microbatch(op->kind))
        pen_text_add(out, " %u", op->microbatch);
    if (writer->item->schedule->shape.num_slices > 1 &&
        pen_op_has_microbatch(op->kind))
        pen_text_add(out, ".%u", op->slice);
    pen_text_add(out, "\",\"args\":{\"rank\":%u,\"stage\":%u", writer->rank,
                 op->stage);
    if (op->version != PEN_OP_CURRENT)
        pen_text_add(out, ",\"version\":%u", op->version);
    pen_text_add_string(out, "}}");
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

/* An end of an arrow; it ties itself to the slice around that instant. */
static void add_flow(struct writer *writer, const char *phase, uint64_t number,
                     double at_sec)
{
    begin_event(writer, phase, TRACK_COMPUTE);
    add_usec(writer, "ts", at_sec);
    pen_text_add(writer->out,
                 ",\"bp\":\"e\",\"cat\":\"message\",\"name\":\"message\","
                 "\"id\":%llu}",
                 (unsigned long long)number);
}

static bool is_same_work(const struct pen_op *a, const struct pen_op *b)
{
    return a->stage == b->stage && a->microbatch == b->microbatch &&
           a->slice == b->slice;
}

/* B or I for a gradient, F for an activation. */
static bool moves(const struct pen_op *compute, const struct pen_op *message)
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
    while (i > 0 && !moves(&row->ops[i - 1], send))
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
    bool is_act = pen_op_info(receive->kind)->direction == PEN_DIRECTION_ACT;
    double start_sec = time_at(writer, position)->start_sec;
    double end_sec = -1;
    for (uint32_t i = position + 1; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        double at_sec = time_at(writer, i)->start_sec;
        if (end_sec < 0 && op->kind == receive->kind)
            end_sec = at_sec;
        if (!moves(op, receive))
            continue;
        uint32_t producer = is_act ? pen_shape_previous_stage(shape, op->stage)
                                   : pen_shape_next_stage(shape, op->stage);
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
        begin_event(writer, "C", TRACK_COMPUTE);
        add_usec(writer, "ts", point->at_sec);
        pen_text_add(writer->out, ",\"name\":\"memory\",\"args\":{\"A\":%.9g}}",
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
    struct writer writer = {.out = out};
    pen_text_add_string(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
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
    pen_text_add_string(out, "\n]}\n");
    return out->has_failed ? PEN_NOMEM : PEN_OK;
}

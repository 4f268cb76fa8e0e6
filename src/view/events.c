#include "view/events.h"

void pen__events_open(struct pen__events *events)
{
    pen_text_add_string(events->out,
                        "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
}

void pen__events_close(struct pen__events *events)
{
    pen_text_add_string(events->out, "\n]}\n");
}

/* Adds 15 digits, which determine a double, while 0.3 stays 0.3. */
void pen__events_add_usec(struct pen__events *events, const char *key,
                          double sec)
{
    pen_text_add(events->out, ",\"%s\":%.15g", key, sec * 1e6);
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

void pen__events_begin(struct pen__events *events, const char *phase,
                       uint32_t track)
{
    pen_text_add_string(events->out, events->has_any ? ",\n" : "\n");
    pen_text_add(events->out, "{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u", phase,
                 events->process, track);
    events->has_any = true;
}

static void add_name(struct pen__events *events, const char *what,
                     uint32_t track, const char *name)
{
    pen__events_begin(events, "M", track);
    pen_text_add(events->out, ",\"name\":\"%s\",\"args\":{\"name\":", what);
    add_quoted(events->out, name);
    pen_text_add_string(events->out, "}}");
}

void pen__events_add_process(struct pen__events *events, const char *name)
{
    events->process++;
    add_name(events, "process_name", 1, name);
    pen__events_begin(events, "M", 1);
    pen_text_add(events->out,
                 ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":"
                 "%u}}",
                 events->process);
}

void pen__events_name_track(struct pen__events *events, uint32_t track,
                            const char *name)
{
    add_name(events, "thread_name", track, name);
}

void pen__events_begin_slice(struct pen__events *events, uint32_t track,
                             double start_sec, double end_sec)
{
    bool is_slice = end_sec > start_sec;
    pen__events_begin(events, is_slice ? "X" : "i", track);
    pen__events_add_usec(events, "ts", start_sec);
    if (is_slice)
        pen__events_add_usec(events, "dur", end_sec - start_sec);
    else
        pen_text_add_string(events->out, ",\"s\":\"t\"");
}

void pen__events_add_op(struct pen__events *events, uint32_t track,
                        const struct pen_schedule *schedule, uint32_t rank,
                        const struct pen_op *op, double start_sec,
                        double end_sec)
{
    struct pen_text *out = events->out;
    pen__events_begin_slice(events, track, start_sec, end_sec);
    pen_text_add(out, ",\"name\":\"%s", pen_op_info(op->kind)->words);
    if (pen_op_has_microbatch(op->kind))
        pen_text_add(out, " %u", op->microbatch);
    if (schedule->shape.num_slices > 1 && pen_op_has_microbatch(op->kind))
        pen_text_add(out, ".%u", op->slice);
    pen_text_add(out, "\",\"args\":{\"rank\":%u,\"stage\":%u", rank, op->stage);
    if (op->version != PEN_OP_CURRENT)
        pen_text_add(out, ",\"version\":%u", op->version);
    pen_text_add_string(out, "}}");
}

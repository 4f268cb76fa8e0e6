/*
 * Lowering: from compute ops to everything a rank does.
 *
 *   0F0 0B0          ->  0F0 0SA0 0RG0 0B0 0SYNC 0STEP
 *   1F3~1 6B2~1      ->  1RA3 6RG2 1F3~1 6B2~1 1SA3 6SG2
 *
 * With this placement the order of sends and receives agrees on every channel
 * for all schedules in generators/; the verifier proves it for the rest.
 */
#include "base/bug.h"
#include "base/file.h"
#include "schedule/torch_csv.h"

#include <stdlib.h>

struct lowering {
    const struct pen_schedule *from;
    struct pen_schedule *to;
    uint32_t *last; /* per stage that keeps weights: position of their last B
                       or W, in `from` */
    bool adds_steps;
    pen_status status;
};

static void emit(struct lowering *low, uint32_t rank, struct pen_op op)
{
    if (low->status == PEN_OK)
        low->status = pen_schedule_add(low->to, rank, op);
}

static void emit_message(struct lowering *low, uint32_t rank,
                         enum pen_op_kind kind, const struct pen_op *op)
{
    struct pen_op message = pen_op_make(kind, op->stage, op->microbatch);
    message.slice = op->slice;
    emit(low, rank, message);
}

static void emit_receive(struct lowering *low, uint32_t rank,
                         const struct pen_op *op)
{
    bool is_act = pen_op_info(op->kind)->direction == PEN_DIRECTION_ACT;
    if (pen_shape_is_remote(&low->from->shape, op->stage,
                            pen_op_feeder(&low->from->shape, op)))
        emit_message(low, rank, is_act ? PEN_OP_RECV_ACT : PEN_OP_RECV_GRAD,
                     op);
}

static void emit_send(struct lowering *low, uint32_t rank,
                      const struct pen_op *op)
{
    const struct pen_shape *shape = &low->from->shape;
    enum pen_direction direction =
        (enum pen_direction)pen_op_info(op->kind)->direction;
    if (pen_shape_is_remote(shape, op->stage,
                            pen_shape_receiver(shape, op->stage, direction)))
        emit_message(low, rank,
                     direction == PEN_DIRECTION_ACT ? PEN_OP_SEND_ACT
                                                    : PEN_OP_SEND_GRAD,
                     op);
}

static bool ends_weight_gradient(const struct pen_op *op)
{
    return op->kind == PEN_OP_BACKWARD || op->kind == PEN_OP_BACKWARD_WEIGHT;
}

static void find_last(struct lowering *low, const struct pen_row *row)
{
    const struct pen_shape *shape = &low->from->shape;
    for (uint32_t i = 0; i < row->count; i++) {
        if (ends_weight_gradient(&row->ops[i]))
            low->last[pen_shape_keeper(shape, row->ops[i].stage)] = i;
    }
}

/*
 * Adds an op of the stage that keeps the weights after a weight gradient, if
 * that is their last one.
 */
static void emit_behind(struct lowering *low, uint32_t rank,
                        enum pen_op_kind kind, uint32_t position)
{
    const struct pen_op *op = &low->from->rows[rank].ops[position];
    uint32_t keeper = pen_shape_keeper(&low->from->shape, op->stage);
    if (low->last[keeper] == position)
        emit(low, rank, pen_op_make(kind, keeper, PEN_OP_NO_MICROBATCH));
}

static void lower_row(struct lowering *low, uint32_t rank)
{
    const struct pen_row *row = &low->from->rows[rank];
    find_last(low, row);
    for (uint32_t from = 0; from < row->count && low->status == PEN_OK;) {
        uint32_t to = from + 1;
        uint16_t group = row->ops[from].group;
        while (group != 0 && to < row->count && row->ops[to].group == group)
            to++;
        for (uint32_t i = from; i < to; i++)
            emit_receive(low, rank, &row->ops[i]);
        for (uint32_t i = from; i < to; i++)
            emit(low, rank, row->ops[i]);
        for (uint32_t i = from; i < to; i++)
            emit_send(low, rank, &row->ops[i]);
        for (uint32_t i = from; i < to && low->adds_steps; i++)
            if (ends_weight_gradient(&row->ops[i]))
                emit_behind(low, rank, PEN_OP_SYNC_GRAD, i);
        from = to;
    }
    /* Steps come last: a step waits for the gradients of the twin stage. */
    for (uint32_t i = 0; i < row->count && low->adds_steps; i++)
        if (ends_weight_gradient(&row->ops[i]))
            emit_behind(low, rank, PEN_OP_STEP, i);
}

static bool has_messages(const struct pen_schedule *schedule)
{
    return pen_schedule_has_class(schedule, PEN_OP_CLASS_SEND) ||
           pen_schedule_has_class(schedule, PEN_OP_CLASS_RECV);
}

pen_status pen_schedule_lower(const struct pen_schedule *compute,
                              struct pen_schedule **out, struct pen_text *why)
{
    if (has_messages(compute)) {
        pen_why(why, "the schedule has sends or receives already");
        return PEN_INVALID;
    }
    struct lowering low = {.from = compute, .status = PEN_NOMEM};
    low.last = calloc(compute->shape.num_stages, sizeof *low.last);
    if (low.last == NULL)
        goto fail;
    low.status =
        pen_schedule_create(compute->name, &compute->shape, &low.to, why);
    if (low.status != PEN_OK)
        goto fail_last;
    low.to->rules = compute->rules;
    low.adds_steps = !pen_schedule_has_class(compute, PEN_OP_CLASS_STEP);
    for (uint32_t rank = 0; rank < compute->shape.num_ranks; rank++)
        lower_row(&low, rank);
    if (low.status == PEN_OK)
        low.status = pen_schedule_mark_recomputed(low.to);
    if (low.status != PEN_OK)
        goto fail_schedule;
    free(low.last);
    *out = low.to;
    return PEN_OK;

fail_schedule:
    pen_schedule_free(low.to);
fail_last:
    free(low.last);
fail:
    if (low.status == PEN_NOMEM)
        pen_why(why, "out of memory while adding communication");
    return low.status;
}

/*
 * Lowers a schedule without sends and receives; *out is NULL when that adds
 * nothing. A schedule that has SYNC and lacks messages is refused: it is
 * neither compute-only nor complete.
 */
static pen_status complete(const struct pen_schedule *loaded,
                           struct pen_schedule **out, struct pen_text *why)
{
    struct pen_schedule *lowered = NULL;
    *out = NULL;
    if (has_messages(loaded))
        return PEN_OK;
    pen_status status = pen_schedule_lower(loaded, &lowered, why);
    if (status != PEN_OK)
        return status;
    if (pen_schedule_equal(loaded, lowered)) {
        pen_schedule_free(lowered);
        return PEN_OK;
    }
    if (pen_schedule_has_class(loaded, PEN_OP_CLASS_SYNC)) {
        pen_why(why, "the schedule has SYNC, but no sends and receives; leave "
                     "out SYNC and STEP to have all of them added");
        pen_schedule_free(lowered);
        return PEN_INVALID;
    }
    *out = lowered;
    return PEN_OK;
}

pen_status pen_schedule_open(const char *path, struct pen_schedule_file *out,
                             struct pen_text *why)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    *out = (struct pen_schedule_file){.written = NULL};
    pen_status status =
        pen_file_read(path, PEN_SCHEDULE_MOST_BYTES, &out->source, why);
    if (status != PEN_OK)
        return status;
    const char *bytes = out->source.bytes;
    size_t length = out->source.length;
    status = pen_torch_csv_is_path(path)
                 ? pen_torch_csv_parse(bytes, length, &out->written, &reason)
                 : pen_schedule_parse(bytes, length, &out->written, &reason);
    if (status == PEN_OK)
        status = complete(out->written, &out->lowered, &reason);
    if (status != PEN_OK)
        pen_why(why, "%s: %s", path, pen_text_string(&reason));
    pen_text_release(&reason);
    return status;
}

void pen_schedule_file_release(struct pen_schedule_file *file)
{
    pen_text_release(&file->source);
    pen_schedule_free(file->written);
    pen_schedule_free(file->lowered);
    *file = (struct pen_schedule_file){.written = NULL};
}

pen_status pen_schedule_load_lowered(const char *path,
                                     struct pen_schedule **out,
                                     bool *is_lowered, struct pen_text *why)
{
    struct pen_schedule_file file;
    pen_status status = pen_schedule_open(path, &file, why);
    if (status == PEN_OK) {
        struct pen_schedule **whole =
            file.lowered != NULL ? &file.lowered : &file.written;
        if (is_lowered != NULL)
            *is_lowered = file.lowered != NULL;
        *out = *whole;
        *whole = NULL;
    }
    pen_schedule_file_release(&file);
    return status;
}

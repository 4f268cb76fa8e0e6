/* Where rows of optimistic steps wait for the last one: schedule.h. */
#include "schedule/schedule.h"

#include <stdlib.h>

/* Returns the stage at the other end of a message. */
static uint32_t other_stage(const struct pen_shape *shape,
                            const struct pen_op *op)
{
    const struct pen_op_info *info = pen_op_info(op->kind);
    enum pen_direction direction = (enum pen_direction)info->direction;
    return info->op_class == PEN_OP_CLASS_SEND
               ? pen_shape_receiver(shape, op->stage, direction)
               : pen_shape_sender(shape, op->stage, direction);
}

uint32_t pen_row_count_sends(const struct pen_schedule *schedule, uint32_t row,
                             uint32_t end, enum pen_op_kind kind, uint32_t to)
{
    const struct pen_shape *shape = &schedule->shape;
    uint32_t count = 0;
    for (uint32_t i = 0; i < end; i++) {
        const struct pen_op *op = &schedule->rows[row].ops[i];
        count += op->kind == kind &&
                 pen_shape_rank_of(shape, other_stage(shape, op)) == to;
    }
    return count;
}

/*
 * Returns the first op of a row that is neither a forward nor a message of one.
 */
static uint32_t first_backward_op(const struct pen_row *row)
{
    uint32_t count = 0;
    while (count < row->count && (row->ops[count].kind == PEN_OP_FORWARD ||
                                  row->ops[count].kind == PEN_OP_SEND_ACT ||
                                  row->ops[count].kind == PEN_OP_RECV_ACT))
        count++;
    return count;
}

/* Notes whether the messages that a row sends in these places leave. */
static void note_sends(const struct pen_schedule *schedule, uint32_t rank,
                       uint32_t from, uint32_t to, bool do_leave, bool *is_sent)
{
    const struct pen_shape *shape = &schedule->shape;
    for (uint32_t i = from; i < to; i++) {
        const struct pen_op *op = &schedule->rows[rank].ops[i];
        if (op->kind == PEN_OP_SEND_ACT)
            is_sent[pen_message_cell(shape, PEN_DIRECTION_ACT,
                                     other_stage(shape, op), op)] = do_leave;
    }
}

/* Returns the first receive of a message that is not sent, or `end`. */
static uint32_t find_missing(const struct pen_schedule *schedule, uint32_t rank,
                             uint32_t end, const bool *is_sent)
{
    for (uint32_t i = 0; i < end; i++) {
        const struct pen_op *op = &schedule->rows[rank].ops[i];
        if (op->kind == PEN_OP_RECV_ACT &&
            !is_sent[pen_message_cell(&schedule->shape, PEN_DIRECTION_ACT,
                                      op->stage, op)])
            return i;
    }
    return end;
}

pen_status pen_schedule_find_gates(const struct pen_schedule *schedule,
                                   uint32_t *out)
{
    const struct pen_shape *shape = &schedule->shape;
    bool has_changed = schedule->rules.is_optimistic;
    bool *is_sent = calloc((size_t)shape->num_stages * shape->num_microbatches *
                               shape->num_slices,
                           sizeof *is_sent);
    if (is_sent == NULL)
        return PEN_NOMEM;
    for (uint32_t rank = 0; rank < shape->num_ranks; rank++) {
        out[rank] = has_changed ? first_backward_op(&schedule->rows[rank]) : 0;
        note_sends(schedule, rank, 0, out[rank], true, is_sent);
    }
    while (has_changed) {
        has_changed = false;
        for (uint32_t rank = 0; rank < shape->num_ranks; rank++) {
            uint32_t gate = find_missing(schedule, rank, out[rank], is_sent);
            has_changed = has_changed || gate != out[rank];
            note_sends(schedule, rank, gate, out[rank], false, is_sent);
            out[rank] = gate;
        }
    }
    free(is_sent);
    return PEN_OK;
}

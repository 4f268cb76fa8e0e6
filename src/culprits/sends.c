#include "culprits/sends.h"

#include <stdlib.h>

uint32_t *pen__sends_find(const struct pen_schedule *schedule)
{
    const struct pen_shape *shape = &schedule->shape;
    size_t count = (size_t)2 * shape->num_stages * shape->num_microbatches *
                   shape->num_slices;
    uint32_t *sends = malloc(count * sizeof *sends);
    if (sends == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++)
        sends[i] = PEN__NO_SEND;
    for (uint32_t rank = 0; rank < shape->num_ranks; rank++) {
        const struct pen_row *row = &schedule->rows[rank];
        for (uint32_t i = 0; i < row->count; i++) {
            const struct pen_op *op = &row->ops[i];
            const struct pen_op_info *info = pen_op_info(op->kind);
            if (info->op_class == PEN_OP_CLASS_SEND)
                sends[pen_message_cell(shape, info->direction, op->stage, op)] =
                    i;
        }
    }
    return sends;
}

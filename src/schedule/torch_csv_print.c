/*
 * Writes PyTorch's compute-only schedule file. PyTorch adds sends, receives and
 * the optimizer step itself, so these are left out; everything else that the
 * file has no cell for is refused.
 */
#include "schedule/torch_csv.h"

/*
 * Returns the property of this op that the file cannot express; NULL when it
 * has none.
 */
static const char *obstacle(const struct pen_schedule *schedule,
                            const struct pen_op *op)
{
    const struct pen_shape *shape = &schedule->shape;
    const struct pen_rules *rules = &schedule->rules;
    const struct pen_op_info *info = pen_op_info(op->kind);
    if (op->kind == PEN_OP_RECOMPUTE || info->op_class == PEN_OP_CLASS_MOVE)
        return info->words;
    if (!pen_op_is_compute(op->kind))
        return NULL; /* left out anyway */
    if (op->slice != 0)
        return "token slices";
    if (op->version != PEN_OP_CURRENT || rules->period != 0 ||
        rules->versions > 1 || rules->is_stale)
        return "versions of the weights";
    if (pen_shape_copy_of_stage(shape, op->stage) != 0)
        return "a second copy of the model";
    if (shape->is_local)
        return "stages that wait for no gradient";
    if (shape->placement == PEN_PLACEMENT_WAVE &&
        op->stage >= 2 * shape->num_ranks)
        return "a wave of more than one V";
    return NULL;
}

static pen_status refuse_op(const struct pen_schedule *schedule, uint32_t rank,
                            uint32_t position, const char *what,
                            struct pen_text *why)
{
    if (why == NULL)
        return PEN_INVALID;
    pen_text_add(why,
                 "PyTorch's schedule file cannot express %s, so it cannot "
                 "contain %s; the first such op is ",
                 what, schedule->name);
    pen_op_print(&schedule->rows[rank].ops[position], why);
    pen_text_add(why, ", op %u of rank %u\n", position, rank);
    pen_schedule_print_around(schedule, rank, position, why);
    return PEN_INVALID;
}

/* Returns the position of the next compute op from `from` on, or the end. */
static uint32_t next_compute(const struct pen_row *row, uint32_t from)
{
    while (from < row->count && !pen_op_is_compute(row->ops[from].kind))
        from++;
    return from;
}

static void print_op(const struct pen_op *op, struct pen_text *out)
{
    struct pen_op plain = *op;
    plain.group = 0;
    pen_op_print(&plain, out);
}

/*
 * Prints the cell of the compute op at *position and moves past it. Grouped ops
 * are an F and a B; one alone (grouped with a SYNC) is an ordinary cell.
 */
static bool print_cell(const struct pen_row *row, uint32_t *position,
                       struct pen_text *out)
{
    const struct pen_op *op = &row->ops[*position];
    uint32_t next = next_compute(row, *position + 1);
    const struct pen_op *partner = &row->ops[next];
    *position = next;
    if (op->group == 0 || next == row->count || partner->group != op->group) {
        print_op(op, out);
        return true;
    }
    if (op->kind != PEN_OP_FORWARD || partner->kind != PEN_OP_BACKWARD)
        return false;
    pen_text_add_string(out, "(");
    print_op(op, out);
    pen_text_add_string(out, ";");
    print_op(partner, out);
    pen_text_add_string(out, ")OVERLAP_F_B");
    *position = next_compute(row, next + 1);
    return *position == row->count || row->ops[*position].group != op->group;
}

static pen_status print_row(const struct pen_schedule *schedule, uint32_t rank,
                            struct pen_text *out, struct pen_text *why)
{
    const struct pen_row *row = &schedule->rows[rank];
    uint32_t position = next_compute(row, 0);
    while (position < row->count) {
        uint32_t at = position;
        if (!print_cell(row, &position, out))
            return refuse_op(schedule, rank, at,
                             "ops that overlap other than one F and one B",
                             why);
        pen_text_add_string(out, position < row->count ? "," : "");
    }
    pen_text_add_string(out, "\n");
    return PEN_OK;
}

pen_status pen_torch_csv_print(const struct pen_schedule *schedule,
                               struct pen_text *out, struct pen_text *why)
{
    for (uint32_t rank = 0; rank < schedule->shape.num_ranks; rank++) {
        const struct pen_row *row = &schedule->rows[rank];
        for (uint32_t i = 0; i < row->count; i++) {
            const char *what = obstacle(schedule, &row->ops[i]);
            if (what != NULL)
                return refuse_op(schedule, rank, i, what, why);
        }
    }
    struct pen_text rows = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    for (uint32_t rank = 0;
         status == PEN_OK && rank < schedule->shape.num_ranks; rank++)
        status = print_row(schedule, rank, &rows, why);
    if (status == PEN_OK)
        pen_text_add_bytes(out, pen_text_string(&rows), rows.length);
    out->has_failed |= rows.has_failed;
    pen_text_release(&rows);
    return status;
}

const char *pen_torch_csv_class(const struct pen_schedule *schedule)
{
    const struct pen_shape *shape = &schedule->shape;
    bool is_v = shape->placement == PEN_PLACEMENT_V ||
                (shape->placement == PEN_PLACEMENT_WAVE &&
                 shape->num_stages == 2 * shape->num_ranks);
    if (is_v)
        return "ZBVZeroBubble";
    if (shape->placement == PEN_PLACEMENT_LINEAR ||
        shape->placement == PEN_PLACEMENT_LOOP)
        return "PipelineScheduleMulti";
    return NULL;
}

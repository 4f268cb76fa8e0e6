/*
 * Recomputation as an operation of its own.
 *
 *   0F0 0F1 0B0  1F0 1B0   ->   0F0 0F1 0R0 0B0  1F0 1B0
 *
 * An F that has an R keeps the input of its stage, R makes the stash, and the
 * backward computes nothing again. Lowering puts the receive of the gradient
 * between R and its backward, so R fills the wait for it.
 */
#include "schedule/schedule.h"

#include "base/room.h"

#include <stdlib.h>

/* ---- marks ---- */

static uint64_t cell_of(const struct pen_op *op)
{
    return (uint64_t)op->stage << 48 | (uint64_t)op->slice << 32 |
           op->microbatch;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x == y ? 0 : x < y ? -1 : 1;
}

static pen_status mark_row(struct pen_row *row)
{
    uint64_t *cells = pen_room(row->count, sizeof *cells);
    size_t count = 0;
    if (cells == NULL)
        return PEN_NOMEM;
    for (uint32_t i = 0; i < row->count; i++)
        if (row->ops[i].kind == PEN_OP_RECOMPUTE)
            cells[count++] = cell_of(&row->ops[i]);
    qsort(cells, count, sizeof *cells, compare);
    for (uint32_t i = 0; i < row->count; i++) {
        struct pen_op *op = &row->ops[i];
        uint64_t cell = cell_of(op);
        if (op->kind == PEN_OP_FORWARD &&
            bsearch(&cell, cells, count, sizeof *cells, compare) != NULL)
            op->flags |= PEN_OP_IS_RECOMPUTED;
    }
    free(cells);
    return PEN_OK;
}

pen_status pen_schedule_mark_recomputed(struct pen_schedule *schedule)
{
    pen_status status = PEN_OK;
    for (uint32_t rank = 0;
         schedule->has_recomputation && rank < schedule->shape.num_ranks &&
         status == PEN_OK;
         rank++)
        if (schedule->rows[rank].count > 0)
            status = mark_row(&schedule->rows[rank]);
    return status;
}

bool pen_row_recomputes(const struct pen_row *row, uint32_t stage)
{
    for (uint32_t i = 0; i < row->count; i++)
        if (row->ops[i].stage == stage && pen_op_is_recomputed(&row->ops[i]))
            return true;
    return false;
}

/* ---- adding ---- */

static bool uses_stash(const struct pen_op *op)
{
    return op->kind == PEN_OP_BACKWARD || op->kind == PEN_OP_BACKWARD_INPUT;
}

static bool is_own_forward(const struct pen_op *op,
                           const struct pen_op *backward)
{
    return op->kind == PEN_OP_FORWARD && cell_of(op) == cell_of(backward);
}

/* Ops [from, to) are a group, or a single op. */
static pen_status add_group(struct pen_schedule *schedule, uint32_t rank,
                            const struct pen_row *row, uint32_t from,
                            uint32_t to)
{
    pen_status status = PEN_OK;
    for (uint32_t i = from; i < to && status == PEN_OK; i++) {
        const struct pen_op *op = &row->ops[i];
        if (!uses_stash(op) ||
            (from > 0 && is_own_forward(&row->ops[from - 1], op)))
            continue;
        struct pen_op again = *op;
        again.kind = PEN_OP_RECOMPUTE;
        again.group = 0;
        status = pen_schedule_add(schedule, rank, again);
    }
    for (uint32_t i = from; i < to && status == PEN_OK; i++)
        status = pen_schedule_add(schedule, rank, row->ops[i]);
    return status;
}

static pen_status add_row(struct pen_schedule *schedule, uint32_t rank,
                          const struct pen_row *row)
{
    pen_status status = PEN_OK;
    for (uint32_t from = 0; from < row->count && status == PEN_OK;) {
        uint32_t to = from + 1;
        uint16_t group = row->ops[from].group;
        while (group != 0 && to < row->count && row->ops[to].group == group)
            to++;
        status = add_group(schedule, rank, row, from, to);
        from = to;
    }
    return status;
}

static pen_status check(const struct pen_schedule *compute,
                        struct pen_text *why)
{
    const char *what = NULL;
    if (pen_schedule_has_class(compute, PEN_OP_CLASS_MOVE))
        what = "moves stashes to another rank";
    else if (compute->rules.is_stale)
        what = "has backwards with other weights than their forward";
    if (what == NULL)
        return PEN_OK;
    pen_why(why, "%s %s, so that it cannot recompute them", compute->name,
            what);
    return PEN_INVALID;
}

pen_status pen_schedule_recompute(const struct pen_schedule *compute,
                                  struct pen_schedule **out,
                                  struct pen_text *why)
{
    struct pen_schedule *made = NULL;
    pen_status status = check(compute, why);
    if (status == PEN_OK)
        status =
            pen_schedule_create(compute->name, &compute->shape, &made, why);
    if (status != PEN_OK)
        return status;
    made->rules = compute->rules;
    for (uint32_t rank = 0; rank < compute->shape.num_ranks && status == PEN_OK;
         rank++)
        status = add_row(made, rank, &compute->rows[rank]);
    if (status == PEN_OK) {
        *out = made;
        return PEN_OK;
    }
    pen_why(why, "out of memory while adding recomputation");
    pen_schedule_free(made);
    return status;
}

#include "schedule/needs.h"

enum { MAX_PIECE = 1 << 17, MIN_PIECE = 1 << 11 };

/* Elements that are staged at once, over all members and pieces. */
#define STAGED ((size_t)1 << 24)

static void count_up(uint32_t *now, uint32_t *most)
{
    if (++*now > *most)
        *most = *now;
}

/*
 * Notes where slopes begin: in the backward, slices go from the last to the
 * first.
 */
static void begin_slopes(const struct pen_shape *shape, const struct pen_op *op,
                         struct pen_stage_needs *now,
                         struct pen_stage_needs *most)
{
    if (op->slice + 1u == shape->num_slices)
        count_up(&now->slopes, &most->slopes);
}

static void end_gradient(const struct pen_op *op, struct pen_stage_needs *now)
{
    now->stashes--;
    now->inputs--;
    if (op->slice > 0)
        return;
    now->contexts--;
    now->slopes--;
}

struct pen_stage_needs pen_row_count_needs(const struct pen_shape *shape,
                                           const struct pen_row *row,
                                           uint32_t stage)
{
    struct pen_stage_needs most = {0};
    struct pen_stage_needs now = {0};
    bool is_trained = false;
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        if (pen_shape_keeper(shape, op->stage) != stage)
            continue;
        switch ((enum pen_op_kind)op->kind) {
        case PEN_OP_FORWARD:
            if (op->slice == 0)
                count_up(&now.contexts, &most.contexts);
            count_up(&now.stashes, &most.stashes);
            count_up(&now.inputs, &most.inputs);
            if (pen_op_is_recomputed(op)) {
                count_up(&now.kept, &most.kept);
                now.stashes--;
            }
            break;
        case PEN_OP_RECOMPUTE:
            count_up(&now.stashes, &most.stashes);
            now.kept--;
            break;
        case PEN_OP_LOAD:
            count_up(&now.stashes, &most.stashes);
            break;
        case PEN_OP_EVICT:
            now.stashes--;
            break;
        case PEN_OP_BACKWARD_INPUT:
            is_trained = true;
            begin_slopes(shape, op, &now, &most);
            count_up(&now.holds, &most.holds);
            break;
        case PEN_OP_BACKWARD_WEIGHT:
            now.holds--;
            end_gradient(op, &now);
            break;
        case PEN_OP_BACKWARD:
            is_trained = true;
            begin_slopes(shape, op, &now, &most);
            end_gradient(op, &now);
            break;
        default:
            break;
        }
    }
    return is_trained ? most
                      : (struct pen_stage_needs){
                            .stashes = 1, .inputs = 1, .contexts = 1};
}

/* Receives that are posted ahead of their place. */
#define AHEAD 2u

/*
 * Returns the rank at the other end of the message that this op makes, consumes
 * or carries.
 */
static uint32_t peer_of(const struct pen_shape *shape, const struct pen_op *op,
                        bool is_out)
{
    enum pen_direction direction =
        (enum pen_direction)pen_op_info(op->kind)->direction;
    uint32_t other = is_out ? pen_shape_receiver(shape, op->stage, direction)
                            : pen_shape_sender(shape, op->stage, direction);
    return pen_shape_is_remote(shape, op->stage, other)
               ? pen_shape_rank_of(shape, other)
               : UINT32_MAX;
}

/*
 * Returns the most messages of a channel between the op that begins and that
 * which ends each.
 */
static uint32_t count_between(const struct pen_schedule *schedule, uint32_t row,
                              enum pen_direction direction, uint32_t peer,
                              bool is_out)
{
    enum pen_op_class first = is_out ? PEN_OP_CLASS_COMPUTE : PEN_OP_CLASS_RECV;
    enum pen_op_class last = is_out ? PEN_OP_CLASS_SEND : PEN_OP_CLASS_COMPUTE;
    const struct pen_row *ops = &schedule->rows[row];
    uint32_t now = 0, most = 0;
    for (uint32_t i = 0; i < ops->count; i++) {
        const struct pen_op_info *info = pen_op_info(ops->ops[i].kind);
        if (info->direction != direction ||
            peer_of(&schedule->shape, &ops->ops[i], is_out) != peer)
            continue;
        if (info->op_class == first)
            count_up(&now, &most);
        else if (info->op_class == last)
            now--;
    }
    return most;
}

uint32_t pen_row_count_out(const struct pen_schedule *schedule, uint32_t row,
                           enum pen_direction direction, uint32_t peer)
{
    return pen_schedule_window(schedule) +
           count_between(schedule, row, direction, peer, true);
}

uint32_t pen_row_count_in(const struct pen_schedule *schedule, uint32_t row,
                          enum pen_direction direction, uint32_t peer)
{
    uint32_t most = count_between(schedule, row, direction, peer, false);
    return most > AHEAD ? most : AHEAD;
}

uint32_t pen_row_count_waiting(const struct pen_row *row,
                               enum pen_direction direction, uint32_t from,
                               uint32_t to)
{
    uint32_t now = 0, most = 1;
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        if (!pen_op_is_compute(op->kind) ||
            pen_op_info(op->kind)->direction != direction)
            continue;
        if (op->stage == from && ++now > most)
            most = now;
        if (op->stage == to)
            now--;
    }
    return most + 1; /* the one that is read while the next is written */
}

uint64_t pen_needs_piece(uint32_t num_members, uint64_t largest)
{
    uint64_t count = STAGED / PEN_NEEDS_LANES / num_members;
    count = count > MAX_PIECE ? MAX_PIECE : count;
    count = count < MIN_PIECE ? MIN_PIECE : count;
    return largest < count ? largest : count;
}

uint32_t pen_needs_levels(uint32_t num_replicas)
{
    uint32_t levels = 0;
    while ((1u << levels) < num_replicas)
        levels++;
    return levels;
}

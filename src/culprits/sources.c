#include "culprits/sources.h"

#include "culprits/sends.h"

#include <math.h>
#include <stdlib.h>

static bool has_same_ends(const struct pen_shape *shape, uint32_t a, uint32_t b,
                          enum pen_direction direction)
{
    uint32_t to_a = pen_shape_receiver(shape, a, direction);
    uint32_t to_b = pen_shape_receiver(shape, b, direction);
    return to_a != PEN_NO_STAGE && to_b != PEN_NO_STAGE &&
           pen_shape_rank_of(shape, a) == pen_shape_rank_of(shape, b) &&
           pen_shape_rank_of(shape, to_a) == pen_shape_rank_of(shape, to_b);
}

/* Returns the first stage of the same rank that sends to the same rank. */
static uint32_t first_with_same_ends(const struct pen_shape *shape,
                                     uint32_t stage,
                                     enum pen_direction direction)
{
    uint32_t rank = pen_shape_rank_of(shape, stage);
    uint32_t first = stage;
    if (!pen_shape_is_remote(shape, stage,
                             pen_shape_receiver(shape, stage, direction)))
        return stage;
    for (uint32_t copy = 0; copy < shape->num_copies; copy++) {
        for (uint32_t chunk = 0; chunk < pen_shape_chunks(shape); chunk++) {
            uint32_t other = pen_shape_stage_at(shape, rank, copy, chunk);
            if (other != PEN_NO_STAGE && other < first &&
                has_same_ends(shape, stage, other, direction))
                first = other;
        }
    }
    return first;
}

static void number_links(struct pen__sources *sources)
{
    const struct pen_shape *shape = &sources->schedule->shape;
    uint32_t stages = shape->num_stages;
    for (uint32_t stage = 0; stage < stages; stage++) {
        sources->link_of[stage] =
            first_with_same_ends(shape, stage, PEN_DIRECTION_ACT);
        sources->link_of[stages + stage] =
            stages + first_with_same_ends(shape, stage, PEN_DIRECTION_GRAD);
    }
}

static uint64_t count_steps(const struct pen_schedule *schedule)
{
    uint64_t count = 0;
    for (uint32_t rank = 0; rank < schedule->shape.num_ranks; rank++) {
        const struct pen_row *row = &schedule->rows[rank];
        for (uint32_t i = 0; i < row->count; i++)
            count += row->ops[i].kind == PEN_OP_STEP;
    }
    return count;
}

static void index_steps(struct pen__sources *sources)
{
    const struct pen_schedule *schedule = sources->schedule;
    uint64_t count = 0;
    for (uint32_t rank = 0; rank < schedule->shape.num_ranks; rank++) {
        const struct pen_row *row = &schedule->rows[rank];
        sources->first_step[rank] = count;
        for (uint32_t i = 0; i < row->count; i++) {
            if (row->ops[i].kind == PEN_OP_STEP)
                sources->steps[count++] = i;
        }
    }
    sources->first_step[schedule->shape.num_ranks] = count;
}

pen_status pen__sources_init(struct pen__sources *sources,
                             const struct pen_schedule *schedule)
{
    const struct pen_shape *shape = &schedule->shape;
    *sources = (struct pen__sources){.schedule = schedule};
    sources->sent_at = pen__sends_find(schedule);
    sources->link_of =
        malloc((size_t)2 * shape->num_stages * sizeof *sources->link_of);
    sources->first_step =
        malloc(((size_t)shape->num_ranks + 1) * sizeof *sources->first_step);
    sources->steps =
        malloc((size_t)(count_steps(schedule) + 1) * sizeof *sources->steps);
    if (sources->sent_at == NULL || sources->link_of == NULL ||
        sources->first_step == NULL || sources->steps == NULL) {
        pen__sources_release(sources);
        return PEN_NOMEM;
    }
    index_steps(sources);
    number_links(sources);
    return PEN_OK;
}

void pen__sources_release(struct pen__sources *sources)
{
    free(sources->sent_at);
    free(sources->link_of);
    free(sources->steps);
    free(sources->first_step);
    *sources = (struct pen__sources){.schedule = NULL};
}

static uint32_t replica_of(const struct pen__course *course, uint32_t line)
{
    struct pen_mesh mesh = pen__course_mesh(course);
    return pen_mesh_replica(&mesh, line);
}

/*
 * Returns the line of the rank that has this stage, in the replica of the line.
 */
static uint32_t line_with(const struct pen__course *course, uint32_t line,
                          uint32_t stage)
{
    const struct pen_shape *shape = &course->schedule->shape;
    struct pen_mesh mesh = pen__course_mesh(course);
    return pen_mesh_rank_at(&mesh, pen_shape_rank_of(shape, stage),
                            pen_mesh_replica(&mesh, line));
}

uint32_t pen__num_links(const struct pen__course *course)
{
    struct pen_mesh mesh = pen__course_mesh(course);
    return pen_mesh_num_replicas(&mesh) * 2 *
           course->schedule->shape.num_stages;
}

struct pen__link pen__link_at(const struct pen__course *course, uint32_t link)
{
    const struct pen_shape *shape = &course->schedule->shape;
    uint32_t stage = link % shape->num_stages;
    uint32_t rest = link / shape->num_stages;
    enum pen_direction direction =
        rest % 2 == 0 ? PEN_DIRECTION_ACT : PEN_DIRECTION_GRAD;
    uint32_t first = rest / 2 * shape->num_ranks;
    uint32_t to = pen_shape_receiver(shape, stage, direction);
    uint32_t from_row = pen_shape_rank_of(shape, stage);
    return (struct pen__link){
        .from_line = first + from_row,
        .to_line = first + (to == PEN_NO_STAGE ? from_row
                                               : pen_shape_rank_of(shape, to)),
        .stage = stage,
        .direction = direction,
    };
}

static const struct pen__source nobody = {.kind = PEN__SOURCE_NONE};

static struct pen__source message_of(const struct pen__sources *sources,
                                     const struct pen__course *course,
                                     uint32_t line, const struct pen_op *op)
{
    const struct pen_shape *shape = &course->schedule->shape;
    enum pen_direction direction = pen_op_info(op->kind)->direction;
    if (direction == PEN_DIRECTION_NONE)
        return nobody;
    uint32_t stage = pen_shape_sender(shape, op->stage, direction);
    if (!pen_shape_is_remote(shape, op->stage, stage))
        return nobody;
    uint32_t position =
        sources->sent_at[pen_message_cell(shape, direction, stage, op)];
    if (position == PEN__NO_SEND)
        return nobody;
    uint32_t from = line_with(course, line, stage);
    uint32_t stages = shape->num_stages;
    uint32_t number = direction == PEN_DIRECTION_GRAD ? stages + stage : stage;
    return (struct pen__source){
        .kind = PEN__SOURCE_MESSAGE,
        .line = from,
        .position = position,
        .at_sec = course->spans[from][position].end_sec,
        .link =
            replica_of(course, line) * 2 * stages + sources->link_of[number],
    };
}

static struct pen__source window_of(const struct pen__course *course,
                                    uint32_t line, const struct pen_op *op)
{
    const struct pen_shape *shape = &course->schedule->shape;
    uint32_t stage =
        pen_shape_receiver(shape, op->stage, pen_op_info(op->kind)->direction);
    if (!pen_shape_is_remote(shape, op->stage, stage))
        return nobody;
    return (struct pen__source){.kind = PEN__SOURCE_WINDOW,
                                .line = line_with(course, line, stage)};
}

/* Counts the SYNC ops of the stage that come before this place of the row. */
static uint32_t count_syncs(const struct pen_row *row, uint32_t end,
                            uint32_t stage)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < end; i++)
        count +=
            row->ops[i].kind == PEN_OP_SYNC_GRAD && row->ops[i].stage == stage;
    return count;
}

/* Returns the place of the stage's SYNC of this number, or PEN__NO_SEND. */
static uint32_t find_sync(const struct pen_row *row, uint32_t number,
                          uint32_t stage)
{
    for (uint32_t i = 0; i < row->count; i++) {
        if (row->ops[i].kind == PEN_OP_SYNC_GRAD &&
            row->ops[i].stage == stage && number-- == 0)
            return i;
    }
    return PEN__NO_SEND;
}

/* Returns the last to come of all lines that hold the same layers. */
static struct pen__source group_of(const struct pen__course *course,
                                   uint32_t line, uint32_t position)
{
    const struct pen_schedule *schedule = course->schedule;
    const struct pen_shape *shape = &schedule->shape;
    const struct pen_row *own = &schedule->rows[pen__row_of_line(course, line)];
    uint32_t parts = pen_shape_parts(shape);
    uint32_t number = count_syncs(own, position, own->ops[position].stage);
    number -= own->ops[position].kind == PEN_OP_STEP && number > 0;
    struct pen__source last = {.kind = PEN__SOURCE_GROUP, .at_sec = -1};
    for (uint32_t stage = own->ops[position].stage % parts;
         stage < shape->num_stages; stage += parts) {
        uint32_t row = pen_shape_rank_of(shape, stage);
        uint32_t at = find_sync(&schedule->rows[row], number, stage);
        for (uint32_t other = row;
             at != PEN__NO_SEND && other < course->num_lines;
             other += shape->num_ranks) {
            double begin_sec = course->spans[other][at].begin_sec;
            if (begin_sec <= last.at_sec)
                continue;
            last.at_sec = begin_sec;
            last.line = other;
            last.position = at;
        }
    }
    return last.at_sec < 0 || last.line == line ? nobody : last;
}

/* Returns the place of the row's STEP of this number, or PEN__NO_SEND. */
static uint32_t find_step(const struct pen__sources *sources, uint32_t row,
                          uint32_t number)
{
    uint64_t at = sources->first_step[row] + number;
    return at < sources->first_step[row + 1] ? sources->steps[at]
                                             : PEN__NO_SEND;
}

/*
 * Returns the last line to come to the STEP of this number while this line
 * waited in its own.
 */
static struct pen__source step_of(const struct pen__sources *sources,
                                  const struct pen__course *course,
                                  uint32_t line, uint32_t position)
{
    const struct pen_schedule *schedule = course->schedule;
    const struct pen_row *own = &schedule->rows[pen__row_of_line(course, line)];
    const struct pen__span *span = &course->spans[line][position];
    struct pen__source last = {
        .kind = PEN__SOURCE_GROUP, .line = line, .at_sec = span->begin_sec};
    uint32_t number = 0;
    for (uint32_t i = 0; i < position; i++)
        number += own->ops[i].kind == PEN_OP_STEP;
    for (uint32_t row = 0; row < schedule->shape.num_ranks; row++) {
        uint32_t at = find_step(sources, row, number);
        for (uint32_t other = row;
             at != PEN__NO_SEND && other < course->num_lines;
             other += schedule->shape.num_ranks) {
            double begin_sec = course->spans[other][at].begin_sec;
            if (begin_sec <= last.at_sec || begin_sec > span->ready_sec)
                continue;
            last.at_sec = begin_sec;
            last.line = other;
            last.position = at;
        }
    }
    return last.line == line ? group_of(course, line, position) : last;
}

/*
 * Counts the messages that ops of this row, up to `end`, take from the other
 * rank.
 */
static uint32_t count_taken(const struct pen__course *course, uint32_t line,
                            uint32_t from_row, enum pen_direction direction,
                            double before_sec)
{
    const struct pen_shape *shape = &course->schedule->shape;
    const struct pen_row *row =
        &course->schedule->rows[pen__row_of_line(course, line)];
    uint32_t count = 0;
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        const struct pen_op_info *info = pen_op_info(op->kind);
        if (course->spans[line][i].ready_sec > before_sec)
            break;
        if (info->op_class != PEN_OP_CLASS_RECV || info->direction != direction)
            continue;
        uint32_t sender = pen_shape_sender(shape, op->stage, direction);
        count += pen_shape_rank_of(shape, sender) == from_row;
    }
    return count;
}

/* Counts the messages that the row sends on this channel before this place. */
static uint32_t count_sent(const struct pen_schedule *schedule,
                           const struct pen_row *row, uint32_t end,
                           uint32_t to_row, enum pen_direction direction)
{
    const struct pen_shape *shape = &schedule->shape;
    uint32_t count = 0;
    for (uint32_t i = 0; i < end; i++) {
        const struct pen_op_info *info = pen_op_info(row->ops[i].kind);
        if (info->op_class == PEN_OP_CLASS_SEND && info->direction == direction)
            count += pen_shape_rank_of(
                         shape, pen_shape_receiver(shape, row->ops[i].stage,
                                                   direction)) == to_row;
    }
    return count;
}

/*
 * Finds the receiver that an op without an incoming message waits for: it needs
 * room for its own message while as many as allowed are outstanding.
 */
static struct pen__source room_of(const struct pen__course *course,
                                  uint32_t line, uint32_t position)
{
    const struct pen_schedule *schedule = course->schedule;
    uint32_t own_row = pen__row_of_line(course, line);
    const struct pen_row *row = &schedule->rows[own_row];
    const struct pen_op *op = &row->ops[position];
    enum pen_direction direction = pen_op_info(op->kind)->direction;
    if (direction == PEN_DIRECTION_NONE)
        return nobody;
    struct pen__source source = window_of(course, line, op);
    if (source.kind == PEN__SOURCE_NONE)
        return nobody;
    uint32_t to_row = pen__row_of_line(course, source.line);
    uint32_t sent = count_sent(schedule, row, position, to_row, direction);
    uint32_t taken = count_taken(course, source.line, own_row, direction,
                                 course->spans[line][position].begin_sec);
    return sent >= taken + pen_schedule_window(schedule) ? source : nobody;
}

void pen__course_await_groups(struct pen__course *course)
{
    for (uint32_t line = 0; line < course->num_lines; line++) {
        const struct pen_row *row =
            &course->schedule->rows[pen__row_of_line(course, line)];
        for (uint32_t i = 0; i < row->count; i++) {
            struct pen__span *span = &course->spans[line][i];
            if (row->ops[i].kind != PEN_OP_SYNC_GRAD)
                continue;
            struct pen__source last = group_of(course, line, i);
            if (last.kind == PEN__SOURCE_GROUP && last.at_sec > span->ready_sec)
                span->ready_sec = fmin(last.at_sec, span->end_sec);
        }
    }
}

struct pen__source pen__source_of(const struct pen__sources *sources,
                                  const struct pen__course *course,
                                  uint32_t line, uint32_t position)
{
    const struct pen_op *op =
        &course->schedule->rows[pen__row_of_line(course, line)].ops[position];
    switch (pen_op_info(op->kind)->op_class) {
    case PEN_OP_CLASS_COMPUTE: {
        struct pen__source source = message_of(sources, course, line, op);
        return source.kind == PEN__SOURCE_NONE ? room_of(course, line, position)
                                               : source;
    }
    case PEN_OP_CLASS_RECV:
        return message_of(sources, course, line, op);
    case PEN_OP_CLASS_SEND:
        return window_of(course, line, op);
    case PEN_OP_CLASS_SYNC:
        return group_of(course, line, position);
    case PEN_OP_CLASS_STEP:
        return step_of(sources, course, line, position);
    default:
        return nobody;
    }
}

#include "schedule/schedule.h"

#include "base/bug.h"

#include <stdlib.h>
#include <string.h>

bool pen_schedule_name_is_valid(const char *name, size_t length)
{
    if (length == 0 || length > PEN_SCHEDULE_NAME_MAX)
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = name[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool is_digit = c >= '0' && c <= '9';
        if (!is_letter && !is_digit && c != '.' && c != '_' && c != '-')
            return false;
    }
    return true;
}

pen_status pen_schedule_create(const char *name, const struct pen_shape *shape,
                               struct pen_schedule **out, struct pen_text *why)
{
    PEN_BUG_UNLESS(pen_schedule_name_is_valid(name, strlen(name)));
    pen_status status = pen_shape_check(shape, why);
    if (status != PEN_OK)
        return status;
    struct pen_schedule *schedule = calloc(1, sizeof *schedule);
    if (schedule == NULL)
        goto fail;
    schedule->rows = calloc(shape->num_ranks, sizeof *schedule->rows);
    if (schedule->rows == NULL)
        goto fail_schedule;
    strcpy(schedule->name, name);
    schedule->shape = *shape;
    *out = schedule;
    return PEN_OK;

fail_schedule:
    free(schedule);
fail:
    pen_why(why, "out of memory for %u ranks", shape->num_ranks);
    return PEN_NOMEM;
}

void pen_schedule_free(struct pen_schedule *schedule)
{
    if (schedule == NULL)
        return;
    for (uint32_t rank = 0; rank < schedule->shape.num_ranks; rank++)
        free(schedule->rows[rank].ops);
    free(schedule->rows);
    free(schedule);
}

pen_status pen_schedule_add(struct pen_schedule *schedule, uint32_t rank,
                            struct pen_op op)
{
    PEN_BUG_UNLESS(rank < schedule->shape.num_ranks);
    struct pen_row *row = &schedule->rows[rank];
    if (row->count == row->capacity) {
        if (row->capacity >= UINT32_MAX / 2)
            return PEN_NOMEM;
        uint32_t capacity = row->capacity < 32 ? 32 : row->capacity * 2;
        struct pen_op *ops =
            realloc(row->ops, (size_t)capacity * sizeof *row->ops);
        if (ops == NULL)
            return PEN_NOMEM;
        row->ops = ops;
        row->capacity = capacity;
    }
    row->ops[row->count++] = op;
    if (op.kind == PEN_OP_RECOMPUTE)
        schedule->has_recomputation = true;
    return PEN_OK;
}

struct pen_op pen_op_make(enum pen_op_kind kind, uint32_t stage,
                          uint32_t microbatch)
{
    PEN_BUG_UNLESS(stage < PEN_MAX_STAGES);
    return (struct pen_op){.kind = (uint8_t)kind,
                           .stage = (uint16_t)stage,
                           .microbatch = microbatch,
                           .version = PEN_OP_CURRENT};
}

static bool op_equal(const struct pen_op *a, const struct pen_op *b)
{
    return a->kind == b->kind && a->group == b->group && a->stage == b->stage &&
           a->slice == b->slice && a->microbatch == b->microbatch &&
           a->version == b->version;
}

static bool shape_equal(const struct pen_shape *a, const struct pen_shape *b)
{
    return a->placement == b->placement && a->num_ranks == b->num_ranks &&
           a->num_stages == b->num_stages && a->num_copies == b->num_copies &&
           a->num_microbatches == b->num_microbatches &&
           a->num_slices == b->num_slices && a->is_local == b->is_local &&
           memcmp(a->first_ranks, b->first_ranks, sizeof a->first_ranks) == 0;
}

static bool rules_equal(const struct pen_rules *a, const struct pen_rules *b)
{
    return a->send_window == b->send_window && a->versions == b->versions &&
           a->period == b->period && a->is_stale == b->is_stale &&
           a->is_joint == b->is_joint && a->is_optimistic == b->is_optimistic;
}

bool pen_schedule_equal(const struct pen_schedule *a,
                        const struct pen_schedule *b)
{
    if (strcmp(a->name, b->name) != 0 || !shape_equal(&a->shape, &b->shape) ||
        !rules_equal(&a->rules, &b->rules))
        return false;
    for (uint32_t rank = 0; rank < a->shape.num_ranks; rank++) {
        const struct pen_row *x = &a->rows[rank];
        const struct pen_row *y = &b->rows[rank];
        if (x->count != y->count)
            return false;
        for (uint32_t i = 0; i < x->count; i++) {
            if (!op_equal(&x->ops[i], &y->ops[i]))
                return false;
        }
    }
    return true;
}

uint64_t pen_schedule_count(const struct pen_schedule *schedule)
{
    uint64_t count = 0;
    for (uint32_t rank = 0; rank < schedule->shape.num_ranks; rank++)
        count += schedule->rows[rank].count;
    return count;
}

bool pen_schedule_has_class(const struct pen_schedule *schedule,
                            enum pen_op_class op_class)
{
    for (uint32_t rank = 0; rank < schedule->shape.num_ranks; rank++) {
        const struct pen_row *row = &schedule->rows[rank];
        for (uint32_t i = 0; i < row->count; i++) {
            if (pen_op_info(row->ops[i].kind)->op_class == op_class)
                return true;
        }
    }
    return false;
}

uint32_t pen_schedule_sync_stride(const struct pen_schedule *schedule)
{
    return schedule->rules.is_joint ? 1 : pen_shape_parts(&schedule->shape);
}

uint32_t pen_schedule_window(const struct pen_schedule *schedule)
{
    return schedule->rules.send_window != 0 ? schedule->rules.send_window
                                            : PEN_DEFAULT_SEND_WINDOW;
}

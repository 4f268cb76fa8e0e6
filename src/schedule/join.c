/*
 * Joint steps: from a schedule whose stages step by themselves to one whose
 * steps know the gradients of all stages. p=2, m=2, with the waits of rule
 * `joint`:
 *
 *   rank 0  F0@0 F1@0 B0@0 F2@0 B1@0 SYNC F3@0 B2@0 STEP@1 F4@1 B3@0 SYNC ...
 *   rank 1       F0@0 B0@0 F1@0 B1@0 SYNC F2@0 B2@0 STEP@1 F3@0 B3@0 SYNC ...
 *
 * A step is needed when an op reads its version, so a STEP may come directly
 * before the first of these; there the other stages have had the longest time
 * to report. The last stage steps earlier: after as many further weight
 * gradients as there are stages after the first, when the first stage has just
 * finished. It trains a matrix that both share, and the first stage has to have
 * its values in time. With m >= p-1 micro-batches per step both fit.
 *
 * At most one step is outstanding: it comes before the next SYNC.
 */
#include "schedule/schedule.h"

static bool has_weight_gradient(const struct pen_op *op)
{
    return op->kind == PEN_OP_BACKWARD || op->kind == PEN_OP_BACKWARD_WEIGHT;
}

/* ---- what can be joined ---- */

static pen_status check_rules(const struct pen_schedule *schedule,
                              struct pen_text *why)
{
    const struct pen_shape *shape = &schedule->shape;
    const char *what = NULL;
    if (schedule->rules.period == 0)
        what = "it has one step, which comes last";
    else if (schedule->rules.is_stale)
        what = "a backward reads another version than its forward";
    else if (shape->num_stages != shape->num_ranks)
        what = "a rank has several stages";
    if (what == NULL)
        return PEN_OK;
    pen_why(why, "steps of %s cannot wait for each other: %s", schedule->name,
            what);
    return PEN_INVALID;
}

/*
 * Checks that a batch reads no later step than that of the one before the last.
 */
static pen_status check_op(const struct pen_schedule *schedule,
                           const struct pen_op *op, struct pen_text *why)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    if (!pen_op_is_compute(op->kind))
        return PEN_OK;
    uint32_t step = op->microbatch / schedule->rules.period;
    if (op->version != PEN_OP_CURRENT &&
        (op->version == 0 || op->version < step))
        return PEN_OK;
    pen_op_print(op, &text);
    pen_why(why,
            "steps of %s cannot wait for each other: %s reads a step before "
            "all stages have their gradients of it",
            schedule->name, pen_text_string(&text));
    pen_text_release(&text);
    return PEN_INVALID;
}

static pen_status check(const struct pen_schedule *schedule,
                        struct pen_text *why)
{
    pen_status status = check_rules(schedule, why);
    for (uint32_t rank = 0;
         rank < schedule->shape.num_ranks && status == PEN_OK; rank++) {
        const struct pen_row *row = &schedule->rows[rank];
        for (uint32_t i = 0; i < row->count && status == PEN_OK; i++)
            status = check_op(schedule, &row->ops[i], why);
    }
    return status;
}

/* ---- moving ---- */

struct mover {
    struct pen_schedule *to;
    uint32_t rank;
    uint32_t early; /* weight gradients until a STEP; or UINT32_MAX */
    const struct pen_op *step; /* that is yet to be placed, or NULL */
    uint32_t version;          /* which it creates */
    uint32_t num_gradients;    /* since its SYNC */
    pen_status status;
};

static void add(struct mover *mover, const struct pen_op *op)
{
    if (mover->status == PEN_OK)
        mover->status = pen_schedule_add(mover->to, mover->rank, *op);
}

static void place_step(struct mover *mover)
{
    if (mover->step != NULL)
        add(mover, mover->step);
    mover->step = NULL;
}

/* Returns whether the outstanding STEP has to come before this op. */
static bool is_due(const struct mover *mover, const struct pen_op *op)
{
    if (op->kind == PEN_OP_SYNC_GRAD)
        return true;
    if (pen_op_is_compute(op->kind) && op->version >= mover->version)
        return true;
    return mover->num_gradients >= mover->early &&
           pen_op_info(op->kind)->op_class != PEN_OP_CLASS_SEND;
}

static void move_steps(struct mover *mover, const struct pen_row *row)
{
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        if (mover->step != NULL && is_due(mover, op))
            place_step(mover);
        if (op->kind == PEN_OP_STEP) {
            mover->step = op;
            mover->version++;
            mover->num_gradients = 0;
            continue;
        }
        add(mover, op);
        mover->num_gradients += has_weight_gradient(op);
    }
    place_step(mover);
}

pen_status pen_schedule_join_steps(const struct pen_schedule *schedule,
                                   struct pen_schedule **out,
                                   struct pen_text *why)
{
    struct pen_schedule *to = NULL;
    uint32_t num_ranks = schedule->shape.num_ranks;
    pen_status status = check(schedule, why);
    if (status == PEN_OK)
        status =
            pen_schedule_create(schedule->name, &schedule->shape, &to, why);
    if (status != PEN_OK)
        return status;
    to->rules = schedule->rules;
    to->rules.is_joint = true;
    for (uint32_t rank = 0; rank < num_ranks && status == PEN_OK; rank++) {
        bool is_last = rank + 1 == num_ranks;
        struct mover mover = {.to = to,
                              .rank = rank,
                              .early = is_last ? num_ranks - 1 : UINT32_MAX};
        move_steps(&mover, &schedule->rows[rank]);
        status = mover.status;
    }
    if (status == PEN_OK) {
        *out = to;
        return PEN_OK;
    }
    pen_why(why, "out of memory while steps were moved");
    pen_schedule_free(to);
    return status;
}

bool pen_row_defers_steps(const struct pen_row *row, uint32_t stage)
{
    bool is_synced = false;
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        if (op->stage != stage)
            continue;
        if (op->kind == PEN_OP_SYNC_GRAD)
            is_synced = true;
        else if (op->kind == PEN_OP_STEP)
            is_synced = false;
        else if (is_synced && has_weight_gradient(op))
            return true;
    }
    return false;
}

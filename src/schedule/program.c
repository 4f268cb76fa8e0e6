/*
 * Compiles a row of ops into instructions of the machine, and finds what
 * repeats in it. An instruction takes in the receive directly before a compute
 * op and the send directly after it:
 *
 *   1RA3 1F3 1SA3    ->  {recv a, wait a, cost F(1), send b}
 *
 * so that, for example, rank 0 of 1F1B is three stretches: p-1 times F, the
 * loop of F and B, p-1 times B.
 */
#include "schedule/machine.h"

#include "base/bug.h"

#include <stdlib.h>
#include <string.h>

/* The tensors that a compute op may wait for. */
enum feed { FEED_ACT, FEED_GRAD, FEED_LOAD, FEEDS };

#define NOT_POSTED UINT32_MAX

struct compiler {
    const struct pen_schedule *schedule;
    struct pen__program *program;
    uint32_t *receives; /* per channel, of the row being compiled */
    int32_t *lane;      /* per rank: channel of its moves, or PEN__NONE */
    uint32_t *chunk;    /* per stage: its number on its rank */
    /* Per unit of the rank and feed: number on its channel of what was posted
     * and not waited for yet. */
    uint32_t *posted;
    size_t num_posted;
    struct pen__instr *instrs; /* of the row being compiled */
    uint32_t count;
    uint32_t capacity;
    struct pen__stretch *stretches; /* of the row being compiled */
    uint32_t num_stretches;
    uint32_t max_stretches;
    uint32_t *fail; /* scratch of the loop finder */
    uint32_t fail_capacity;
    bool wants_loops;
};

/* Adds lanes: a rank that moves stashes has a channel to itself. */
static void add_lanes(struct compiler *compiler)
{
    const struct pen_schedule *schedule = compiler->schedule;
    struct pen__channel_index *index = &compiler->program->index;
    for (uint32_t rank = 0; rank < schedule->shape.num_ranks; rank++) {
        const struct pen_row *row = &schedule->rows[rank];
        compiler->lane[rank] = PEN__NONE;
        for (uint32_t i = 0; i < row->count; i++) {
            const struct pen_op *op = &row->ops[i];
            if (pen_op_info(op->kind)->op_class != PEN_OP_CLASS_MOVE)
                continue;
            compiler->lane[rank] = (int32_t)index->num_channels++;
            index->channels[compiler->lane[rank]] = (struct pen__channel){
                rank, rank, op->stage, PEN_DIRECTION_NONE};
            break;
        }
    }
}

static struct pen__instr *append(struct compiler *compiler, uint32_t op)
{
    if (compiler->count == compiler->capacity) {
        uint32_t capacity =
            compiler->capacity < 64 ? 64 : compiler->capacity * 2;
        struct pen__instr *instrs =
            realloc(compiler->instrs, (size_t)capacity * sizeof *instrs);
        if (instrs == NULL)
            return NULL;
        compiler->instrs = instrs;
        compiler->capacity = capacity;
    }
    PEN_BUG_UNLESS(compiler->instrs != NULL);
    struct pen__instr *instr = &compiler->instrs[compiler->count++];
    const struct pen_shape *shape = &compiler->schedule->shape;
    *instr = (struct pen__instr){.op = op,
                                 .cost = shape->num_stages * PEN__COST_SLOTS,
                                 .recv = PEN__NONE,
                                 .wait = PEN__NONE,
                                 .send = PEN__NONE,
                                 .kind = PEN__RUN};
    return instr;
}

static pen_status init_posted(struct compiler *compiler)
{
    const struct pen_shape *shape = &compiler->schedule->shape;
    uint32_t *chunks = calloc(shape->num_ranks, sizeof *chunks);
    compiler->chunk = malloc(shape->num_stages * sizeof *compiler->chunk);
    bool is_made = chunks != NULL && compiler->chunk != NULL;
    uint32_t most = 1; /* stages of a rank */
    for (uint32_t i = 0; i < shape->num_stages && is_made; i++) {
        compiler->chunk[i] = chunks[pen_shape_rank_of(shape, i)]++;
        most = compiler->chunk[i] < most ? most : compiler->chunk[i] + 1;
    }
    free(chunks);
    compiler->num_posted = (size_t)most *
                           (shape->num_microbatches / shape->num_copies) *
                           shape->num_slices * FEEDS;
    compiler->posted = malloc(compiler->num_posted * sizeof *compiler->posted);
    return is_made && compiler->posted != NULL ? PEN_OK : PEN_NOMEM;
}

static uint32_t *posted_for(struct compiler *compiler, const struct pen_op *op,
                            enum feed feed)
{
    const struct pen_shape *shape = &compiler->schedule->shape;
    uint32_t per_copy = shape->num_microbatches / shape->num_copies;
    size_t unit = ((size_t)compiler->chunk[op->stage] * per_copy +
                   op->microbatch % per_copy) *
                      shape->num_slices +
                  op->slice;
    return &compiler->posted[unit * FEEDS + feed];
}

static enum feed feed_of(const struct pen_op *op)
{
    if (op->kind == PEN_OP_LOAD)
        return FEED_LOAD;
    return pen_op_info(op->kind)->direction == PEN_DIRECTION_ACT ? FEED_ACT
                                                                 : FEED_GRAD;
}

/* Notes that a receive or move is the next one on its channel. */
static void post(struct compiler *compiler, const struct pen_op *op,
                 int32_t channel)
{
    uint32_t number = compiler->receives[channel]++;
    if (op->kind != PEN_OP_EVICT)
        *posted_for(compiler, op, feed_of(op)) = number;
}

/*
 * Takes the receive or move posted for this op; `back` counts those posted
 * after it.
 */
static bool take_posted(struct compiler *compiler, const struct pen_op *op,
                        int32_t channel, enum feed feed, uint32_t *back)
{
    uint32_t *number = posted_for(compiler, op, feed);
    if (*number == NOT_POSTED)
        return false;
    *back = compiler->receives[channel] - 1 - *number;
    *number = NOT_POSTED;
    return true;
}

/* Appends a waiting instruction of its own, for groups and loads. */
static pen_status append_wait(struct compiler *compiler, uint32_t position,
                              int32_t channel, uint32_t back)
{
    struct pen__instr *instr = append(compiler, position);
    if (instr == NULL)
        return PEN_NOMEM;
    instr->wait = channel;
    instr->back = back;
    instr->is_end = 1;
    return PEN_OK;
}

static pen_status compile_receive(struct compiler *compiler, uint32_t position,
                                  const struct pen_op *op)
{
    int32_t channel = pen__channel_of(&compiler->program->index, op);
    PEN_BUG_UNLESS(channel != PEN__NONE);
    struct pen__instr *instr = append(compiler, position);
    if (instr == NULL)
        return PEN_NOMEM;
    post(compiler, op, channel);
    instr->recv = channel;
    instr->is_end = 1;
    return PEN_OK;
}

static pen_status compile_send(struct compiler *compiler, uint32_t position,
                               const struct pen_op *op)
{
    int32_t channel = pen__channel_of(&compiler->program->index, op);
    PEN_BUG_UNLESS(channel != PEN__NONE);
    struct pen__instr *last =
        compiler->count == 0 ? NULL : &compiler->instrs[compiler->count - 1];
    if (last == NULL || last->kind != PEN__RUN || last->is_end ||
        last->send != PEN__NONE || last->op + 1 != position) {
        last = append(compiler, position);
        if (last == NULL)
            return PEN_NOMEM;
        last->is_end = 1;
    }
    last->send = channel;
    return PEN_OK;
}

static pen_status compile_move(struct compiler *compiler, uint32_t rank,
                               uint32_t position, const struct pen_op *op)
{
    int32_t lane = compiler->lane[rank];
    struct pen__instr *instr = append(compiler, position);
    if (instr == NULL)
        return PEN_NOMEM;
    post(compiler, op, lane);
    instr->recv = lane;
    instr->is_end = 1;
    return PEN_OK;
}

/* Waits of one compute op that do not fit into its own instruction. */
static pen_status compile_waits(struct compiler *compiler, uint32_t rank,
                                uint32_t position, const struct pen_op *op,
                                bool with_message)
{
    uint32_t back = 0;
    int32_t lane = compiler->lane[rank];
    if (lane != PEN__NONE &&
        take_posted(compiler, op, lane, FEED_LOAD, &back)) {
        pen_status status = append_wait(compiler, position, lane, back);
        if (status != PEN_OK)
            return status;
    }
    int32_t channel = pen__channel_feeding(&compiler->program->index, op);
    if (!with_message || channel == PEN__NONE)
        return PEN_OK;
    bool is_there = take_posted(compiler, op, channel, feed_of(op), &back);
    PEN_BUG_UNLESS(is_there);
    return append_wait(compiler, position, channel, back);
}

static uint32_t slot_of(const struct pen_op *op)
{
    return pen_op_is_recomputed(op) ? PEN__COST_KEPT : op->kind;
}

static pen_status compile_single(struct compiler *compiler, uint32_t rank,
                                 uint32_t position, const struct pen_op *op)
{
    pen_status status = compile_waits(compiler, rank, position, op, false);
    if (status != PEN_OK)
        return status;
    int32_t channel = pen__channel_feeding(&compiler->program->index, op);
    uint32_t back = 0;
    if (channel != PEN__NONE) {
        bool is_there = take_posted(compiler, op, channel, feed_of(op), &back);
        PEN_BUG_UNLESS(is_there);
    }
    struct pen__instr *last =
        compiler->count == 0 ? NULL : &compiler->instrs[compiler->count - 1];
    bool takes_receive = last != NULL && last->kind == PEN__RUN &&
                         last->is_end && last->recv != PEN__NONE &&
                         last->recv == channel && last->wait == PEN__NONE &&
                         last->send == PEN__NONE && last->op + 1 == position;
    if (!takes_receive)
        last = append(compiler, position);
    if (last == NULL)
        return PEN_NOMEM;
    last->op = position;
    last->is_end = 0;
    last->wait = channel;
    last->back = back;
    last->cost = (uint32_t)op->stage * PEN__COST_SLOTS + slot_of(op);
    return PEN_OK;
}

/*
 * Returns whether a group is an overlapped pair, one F and one B; others run in
 * order.
 */
static bool is_pair(const struct pen_row *row, uint32_t from, uint32_t to)
{
    return to - from == 2 && row->ops[from].kind == PEN_OP_FORWARD &&
           row->ops[from + 1].kind == PEN_OP_BACKWARD;
}

static pen_status compile_group(struct compiler *compiler, uint32_t rank,
                                uint32_t from, uint32_t to)
{
    const struct pen_row *row = &compiler->schedule->rows[rank];
    for (uint32_t i = from; i < to; i++) {
        if (!pen_op_is_compute(row->ops[i].kind))
            continue;
        pen_status status =
            compile_waits(compiler, rank, i, &row->ops[i], true);
        if (status != PEN_OK)
            return status;
    }
    for (uint32_t i = from; i < to; i++) {
        const struct pen_op *op = &row->ops[i];
        struct pen__instr *instr = append(compiler, i);
        if (instr == NULL)
            return PEN_NOMEM;
        if (op->kind == PEN_OP_SYNC_GRAD) {
            instr->kind = PEN__SYNC;
            instr->cost = op->stage;
            compiler->program->syncs[op->stage]++;
            continue;
        }
        uint32_t slot = slot_of(op);
        if (i == from + 1 && is_pair(row, from, to))
            slot = PEN__COST_PAIR_REST;
        instr->cost = (uint32_t)op->stage * PEN__COST_SLOTS + slot;
    }
    return PEN_OK;
}

static pen_status compile_whole_stage(struct compiler *compiler,
                                      uint32_t position,
                                      const struct pen_op *op)
{
    struct pen__instr *instr = append(compiler, position);
    if (instr == NULL)
        return PEN_NOMEM;
    instr->kind = op->kind == PEN_OP_STEP ? PEN__STEP : PEN__SYNC;
    instr->cost = op->stage;
    if (op->kind == PEN_OP_SYNC_GRAD)
        compiler->program->syncs[op->stage]++;
    return PEN_OK;
}

/*
 * Returns whether an op can overlap: only compute and SYNC; any other op ends a
 * group.
 */
static bool can_overlap(const struct pen_op *op)
{
    return pen_op_is_compute(op->kind) || op->kind == PEN_OP_SYNC_GRAD;
}

static pen_status compile_ops(struct compiler *compiler, uint32_t rank)
{
    const struct pen_row *row = &compiler->schedule->rows[rank];
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < row->count && status == PEN_OK;) {
        const struct pen_op *op = &row->ops[i];
        uint32_t end = i + 1;
        while (op->group != 0 && can_overlap(op) && end < row->count &&
               row->ops[end].group == op->group && can_overlap(&row->ops[end]))
            end++;
        switch (pen_op_info(op->kind)->op_class) {
        case PEN_OP_CLASS_RECV:
            status = compile_receive(compiler, i, op);
            end = i + 1;
            break;
        case PEN_OP_CLASS_SEND:
            status = compile_send(compiler, i, op);
            end = i + 1;
            break;
        case PEN_OP_CLASS_MOVE:
            status = compile_move(compiler, rank, i, op);
            end = i + 1;
            break;
        default:
            if (end - i > 1)
                status = compile_group(compiler, rank, i, end);
            else if (pen_op_is_compute(op->kind))
                status = compile_single(compiler, rank, i, op);
            else
                status = compile_whole_stage(compiler, i, op);
        }
        i = end;
    }
    return status;
}

static bool same_instr(const struct pen__instr *a, const struct pen__instr *b)
{
    return a->cost == b->cost && a->recv == b->recv && a->wait == b->wait &&
           a->send == b->send && a->back == b->back && a->kind == b->kind &&
           a->is_end == b->is_end;
}

/*
 * Returns the smallest period of a stretch of instructions: Knuth, Morris and
 * Pratt.
 */
static uint32_t period_of(struct compiler *compiler,
                          const struct pen__instr *text, uint32_t length)
{
    uint32_t *fail = compiler->fail;
    fail[0] = 0;
    for (uint32_t i = 1, k = 0; i < length; i++) {
        while (k > 0 && !same_instr(&text[i], &text[k]))
            k = fail[k - 1];
        if (same_instr(&text[i], &text[k]))
            k++;
        fail[i] = k;
    }
    return length - fail[length - 1];
}

static pen_status add_stretch(struct compiler *compiler, uint32_t first,
                              uint32_t length, uint32_t count)
{
    if (compiler->num_stretches == compiler->max_stretches) {
        uint32_t most =
            compiler->max_stretches < 16 ? 16 : compiler->max_stretches * 2;
        struct pen__stretch *stretches =
            realloc(compiler->stretches, most * sizeof *stretches);
        if (stretches == NULL)
            return PEN_NOMEM;
        compiler->stretches = stretches;
        compiler->max_stretches = most;
    }
    compiler->stretches[compiler->num_stretches++] =
        (struct pen__stretch){first, length, count};
    return PEN_OK;
}

/* Instructions [from, to): runs of equal ones become stretches of one. */
static pen_status add_runs(struct compiler *compiler, uint32_t from,
                           uint32_t to)
{
    const uint32_t worthwhile = 4;
    const struct pen__instr *instrs = compiler->instrs;
    uint32_t plain = from; /* start of what is not part of a run */
    pen_status status = PEN_OK;
    while (from < to && status == PEN_OK) {
        uint32_t end = from + 1;
        while (compiler->wants_loops && end < to &&
               same_instr(&instrs[from], &instrs[end]))
            end++;
        if (end - from >= worthwhile) {
            if (plain < from)
                status = add_stretch(compiler, plain, from - plain, 1);
            if (status == PEN_OK)
                status = add_stretch(compiler, from, 1, end - from);
            plain = end;
        }
        from = end;
    }
    if (plain < to && status == PEN_OK)
        status = add_stretch(compiler, plain, to - plain, 1);
    return status;
}

/*
 * Finds the loop of the row: the period of its middle third, stretched to both
 * sides as far as it holds. A count of 0 says that there is none.
 */
static pen_status find_loop(struct compiler *compiler,
                            struct pen__stretch *loop)
{
    const struct pen__instr *instrs = compiler->instrs;
    uint32_t n = compiler->count;
    *loop = (struct pen__stretch){.first = n};
    if (n < 24 || !compiler->wants_loops)
        return PEN_OK;
    uint32_t third = n / 3;
    if (third > compiler->fail_capacity) {
        uint32_t *fail = realloc(compiler->fail, third * sizeof *fail);
        if (fail == NULL)
            return PEN_NOMEM;
        compiler->fail = fail;
        compiler->fail_capacity = third;
    }
    uint32_t period = period_of(compiler, instrs + third, third);
    PEN_BUG_UNLESS(period > 0);
    if (period > third / 2)
        return PEN_OK;
    uint32_t from = third;
    uint32_t to = third + third;
    while (from > 0 &&
           same_instr(&instrs[from - 1], &instrs[from - 1 + period]))
        from--;
    while (to < n && same_instr(&instrs[to], &instrs[to - period]))
        to++;
    *loop = (struct pen__stretch){from, period, (to - from) / period};
    return PEN_OK;
}

static pen_status divide_row(struct compiler *compiler,
                             struct pen__instr_row *row)
{
    struct pen__stretch loop;
    compiler->num_stretches = 0;
    row->loop = PEN__NO_LOOP;
    pen_status status = find_loop(compiler, &loop);
    if (status == PEN_OK)
        status = add_runs(compiler, 0, loop.first);
    if (status == PEN_OK && loop.count > 0) {
        row->loop = compiler->num_stretches;
        status = add_stretch(compiler, loop.first, loop.length, loop.count);
    }
    if (status == PEN_OK)
        status = add_runs(compiler, loop.first + loop.length * loop.count,
                          compiler->count);
    return status;
}

/* Keeps the instructions of each stretch once. */
static pen_status keep_row(struct compiler *compiler,
                           struct pen__instr_row *row)
{
    size_t all = 0;
    for (uint32_t i = 0; i < compiler->num_stretches; i++)
        all += compiler->stretches[i].length;
    row->instrs = malloc((all + 1) * sizeof *row->instrs);
    row->stretches =
        malloc(((size_t)compiler->num_stretches + 1) * sizeof *row->stretches);
    if (row->instrs == NULL || row->stretches == NULL)
        return PEN_NOMEM;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < compiler->num_stretches; i++) {
        struct pen__stretch stretch = compiler->stretches[i];
        PEN_BUG_UNLESS(compiler->instrs != NULL);
        memcpy(row->instrs + kept, compiler->instrs + stretch.first,
               stretch.length * sizeof *row->instrs);
        stretch.first = kept;
        row->stretches[i] = stretch;
        kept += stretch.length;
    }
    row->num_stretches = compiler->num_stretches;
    return PEN_OK;
}

static pen_status compile_row(struct compiler *compiler, uint32_t rank)
{
    struct pen__instr_row *row = &compiler->program->rows[rank];
    compiler->count = 0;
    for (size_t i = 0; i < compiler->num_posted; i++)
        compiler->posted[i] = NOT_POSTED;
    row->num_ops = compiler->schedule->rows[rank].count;
    pen_status status = compile_ops(compiler, rank);
    if (status == PEN_OK)
        status = divide_row(compiler, row);
    if (status == PEN_OK)
        status = keep_row(compiler, row);
    return status;
}

pen_status pen__program_create(const struct pen_schedule *schedule,
                               uint32_t window, bool with_loops,
                               struct pen__program **out, struct pen_text *why)
{
    const struct pen_shape *shape = &schedule->shape;
    struct compiler compiler = {.schedule = schedule,
                                .wants_loops = with_loops};
    pen_status status = PEN_NOMEM;
    struct pen__program *program = calloc(1, sizeof *program);
    if (program == NULL)
        goto done;
    compiler.program = program;
    program->shape = *shape;
    program->window = window != 0 ? window : pen_schedule_window(schedule);
    program->stride = pen_schedule_sync_stride(schedule);
    program->has_twins = program->stride < shape->num_stages;
    program->rows = calloc(shape->num_ranks, sizeof *program->rows);
    program->syncs = calloc(shape->num_stages, sizeof *program->syncs);
    compiler.lane = malloc(shape->num_ranks * sizeof *compiler.lane);
    compiler.receives = calloc(2 * (size_t)shape->num_stages + shape->num_ranks,
                               sizeof *compiler.receives);
    if (program->rows == NULL || program->syncs == NULL ||
        compiler.lane == NULL || compiler.receives == NULL)
        goto done;
    status = init_posted(&compiler);
    if (status == PEN_OK)
        status = pen__channel_index_init(&program->index, shape);
    if (status != PEN_OK)
        goto done;
    add_lanes(&compiler);
    program->channels = program->index.channels;
    program->num_channels = program->index.num_channels;
    for (uint32_t rank = 0; rank < shape->num_ranks && status == PEN_OK; rank++)
        status = compile_row(&compiler, rank);

done:
    free(compiler.lane);
    free(compiler.receives);
    free(compiler.chunk);
    free(compiler.posted);
    free(compiler.instrs);
    free(compiler.stretches);
    free(compiler.fail);
    if (status != PEN_OK) {
        pen__program_free(program);
        pen_why(why, "out of memory while compiling the schedule");
        return status;
    }
    *out = program;
    return PEN_OK;
}

void pen__program_free(struct pen__program *program)
{
    if (program == NULL)
        return;
    for (uint32_t rank = 0;
         program->rows != NULL && rank < program->shape.num_ranks; rank++) {
        free(program->rows[rank].instrs);
        free(program->rows[rank].stretches);
    }
    free(program->rows);
    pen__channel_index_release(&program->index);
    free(program->syncs);
    free(program);
}

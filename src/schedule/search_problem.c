/*
 * From shape and costs to flat arrays, and from schedules to candidates and
 * back; search_problem.h has the idea.
 */
#include "schedule/search_problem.h"

#include "base/bug.h"
#include "schedule/machine.h"

#include <math.h>
#include <stdlib.h>

static const enum pen_op_kind kind_of_role[PEN__ROLES] = {
    [PEN__F] = PEN_OP_FORWARD,
    [PEN__I] = PEN_OP_BACKWARD_INPUT,
    [PEN__W] = PEN_OP_BACKWARD_WEIGHT,
};

void pen__problem_release(struct pen__problem *problem)
{
    free(problem->tasks);
    free(problem->latency);
    free(problem->transfer);
    free(problem->first);
    free(problem->sync);
    free(problem->step);
    free(problem->work);
    free(problem->head);
    pen__channel_index_release(&problem->channels);
    *problem = (struct pen__problem){.tasks = NULL};
}

static int64_t to_ticks(const struct pen__problem *problem, double sec)
{
    return llround(sec * problem->per_sec);
}

/*
 * Chooses decimal ticks, so fine that nothing the search may build overflows.
 */
static double choose_ticks(const struct pen__problem *problem,
                           const struct pen_cost_table *costs)
{
    double sum = 0;
    for (uint32_t stage = 0; stage < costs->num_stages; stage++) {
        const struct pen_cost *cost = &costs->stages[stage];
        sum += cost->forward_sec + cost->input_sec + cost->weight_sec +
               cost->sync_sec + cost->step_sec + costs->latency_sec[stage] +
               costs->transfer_sec[stage] + costs->latency_back_sec[stage] +
               costs->transfer_back_sec[stage];
    }
    double bound = 4 * sum * (double)problem->num_microbatches;
    return pen__ticks_per_sec(4e18, bound * (double)problem->num_ranks);
}

/*
 * Returns the type of the same rank whose n-th op the n-th op of this type
 * follows.
 */
static int32_t local_before(const struct pen_shape *shape, uint32_t rank,
                            uint32_t chunk, enum pen__role role)
{
    uint32_t stage = pen_shape_stage_at(shape, rank, 0, chunk);
    if (role == PEN__W)
        return (int32_t)pen__type(chunk, PEN__I);
    uint32_t other = role == PEN__F ? pen_shape_previous_stage(shape, stage)
                                    : pen_shape_next_stage(shape, stage);
    if (other == PEN_NO_STAGE)
        return role == PEN__I ? (int32_t)pen__type(chunk, PEN__F) : PEN__NONE;
    if (pen_shape_rank_of(shape, other) != rank)
        return PEN__NONE;
    return (int32_t)pen__type(role == PEN__F ? chunk - 1 : chunk + 1, role);
}

static void fill_task(struct pen__problem *problem,
                      const struct pen_cost_table *costs, uint32_t rank,
                      uint32_t type)
{
    const struct pen_shape *shape = &problem->shape;
    uint32_t chunk = type / PEN__ROLES;
    enum pen__role role = (enum pen__role)(type % PEN__ROLES);
    uint32_t stage = pen_shape_stage_at(shape, rank, 0, chunk);
    struct pen_op op = pen_op_make(kind_of_role[role], stage, 0);
    struct pen__task *task =
        &problem->tasks[(size_t)rank * problem->num_types + type];
    *task = (struct pen__task){
        .ticks = to_ticks(problem, pen_cost_of(costs, op.kind, stage)),
        .memory = pen_memory_of(costs, op.kind, stage),
        .recv = pen__channel_feeding(&problem->channels, &op),
        .send = role == PEN__F   ? problem->channels.act_from[stage]
                : role == PEN__I ? problem->channels.grad_from[stage]
                                 : PEN__NONE,
        .before = local_before(shape, rank, chunk, role),
        .stage = stage};
    if (task->recv != PEN__NONE)
        task->expects = role == PEN__F ? pen_shape_previous_stage(shape, stage)
                                       : pen_shape_next_stage(shape, stage);
}

static void fill_tasks(struct pen__problem *problem,
                       const struct pen_cost_table *costs)
{
    for (uint32_t rank = 0; rank < problem->num_ranks; rank++) {
        for (uint32_t type = 0; type < problem->num_types; type++) {
            fill_task(problem, costs, rank, type);
            problem->work[rank] += pen__task_of(problem, rank, type)->ticks *
                                   (int64_t)problem->num_microbatches;
        }
    }
    for (uint32_t stage = 0; stage < costs->num_stages; stage++) {
        const struct pen_cost *cost = &costs->stages[stage];
        problem->sync[stage] = to_ticks(problem, cost->sync_sec);
        problem->step[stage] = to_ticks(problem, cost->step_sec);
        problem->work[pen_shape_rank_of(&problem->shape, stage)] +=
            problem->step[stage];
    }
}

static void fill_channels(struct pen__problem *problem,
                          const struct pen_cost_table *costs)
{
    const struct pen__channel_index *index = &problem->channels;
    for (uint32_t i = 0; i < index->num_channels; i++) {
        const struct pen__channel *channel = &index->channels[i];
        uint32_t stage = channel->stage;
        bool is_act = channel->direction == PEN_DIRECTION_ACT;
        problem->latency[i] =
            to_ticks(problem, is_act ? costs->latency_sec[stage]
                                     : costs->latency_back_sec[stage]);
        problem->transfer[i] =
            to_ticks(problem, is_act ? costs->transfer_sec[stage]
                                     : costs->transfer_back_sec[stage]);
    }
    size_t all = (size_t)problem->num_ranks * problem->num_types;
    for (size_t i = 0; i < all; i++) {
        if (problem->tasks[i].send != PEN__NONE)
            problem->first[problem->tasks[i].send + 1] +=
                problem->num_microbatches;
    }
    for (uint32_t i = 0; i < index->num_channels; i++)
        problem->first[i + 1] += problem->first[i];
}

/*
 * Fills in when ranks begin. The first op of a rank is the first F of its first
 * stage, whatever the candidate: everything else on the rank needs it or a
 * later one. Under the placements of the search, stages 0 to p-1 are the first
 * ones of the ranks.
 */
static void fill_heads(struct pen__problem *problem)
{
    int64_t at = 0;
    for (uint32_t rank = 0; rank < problem->num_ranks; rank++) {
        const struct pen__task *task =
            pen__task_of(problem, rank, pen__type(0, PEN__F));
        PEN_BUG_UNLESS(task->stage == rank);
        problem->head[rank] = at;
        at += task->ticks;
        if (task->send != PEN__NONE)
            at += problem->latency[task->send] + problem->transfer[task->send];
    }
}

static pen_status allocate(struct pen__problem *problem)
{
    size_t p = problem->num_ranks;
    size_t stages = problem->shape.num_stages;
    size_t channels = problem->channels.num_channels;
    problem->tasks = calloc(p * problem->num_types, sizeof *problem->tasks);
    problem->latency = calloc(channels + 1, sizeof *problem->latency);
    problem->transfer = calloc(channels + 1, sizeof *problem->transfer);
    problem->first = calloc(channels + 2, sizeof *problem->first);
    problem->sync = calloc(stages, sizeof *problem->sync);
    problem->step = calloc(stages, sizeof *problem->step);
    problem->work = calloc(p, sizeof *problem->work);
    problem->head = calloc(p, sizeof *problem->head);
    if (problem->tasks == NULL || problem->latency == NULL ||
        problem->transfer == NULL || problem->first == NULL ||
        problem->sync == NULL || problem->step == NULL ||
        problem->work == NULL || problem->head == NULL)
        return PEN_NOMEM;
    return PEN_OK;
}

pen_status pen__problem_init(struct pen__problem *problem,
                             const struct pen_shape *shape,
                             const struct pen_costs *costs, double limit,
                             uint32_t window, struct pen_text *why)
{
    PEN_BUG_UNLESS(shape->num_copies == 1 && shape->num_slices == 1);
    uint32_t chunks = pen_shape_chunks(shape);
    struct pen_cost_table table;
    pen_status status = pen_cost_table_init(&table, costs, shape, why);
    if (status != PEN_OK)
        return status;
    *problem = (struct pen__problem){
        .shape = *shape,
        .num_ranks = shape->num_ranks,
        .num_microbatches = shape->num_microbatches,
        .num_types = chunks * PEN__ROLES,
        .length = chunks * PEN__ROLES * shape->num_microbatches,
        .window = window != 0 ? window : PEN_DEFAULT_SEND_WINDOW,
        .is_blocking = table.is_blocking,
        .limit = limit > 0 ? limit * (1 + PEN__LIMIT_SLACK) : (double)INFINITY};
    status = pen__channel_index_init(&problem->channels, shape);
    if (status == PEN_OK)
        status = allocate(problem);
    if (status != PEN_OK) {
        pen_why(why, "out of memory for the search");
        pen__problem_release(problem);
    } else {
        problem->per_sec = choose_ticks(problem, &table);
        fill_tasks(problem, &table);
        fill_channels(problem, &table);
        fill_heads(problem);
    }
    pen_cost_table_release(&table);
    return status;
}

bool pen__row_is_legal(const struct pen__problem *problem, uint32_t rank,
                       const uint8_t *row)
{
    uint32_t count[UINT8_MAX + 1] = {0};
    const struct pen__task *tasks = pen__task_of(problem, rank, 0);
    double level = 0;
    for (uint32_t i = 0; i < problem->length; i++) {
        const struct pen__task *task = &tasks[row[i]];
        if (task->before != PEN__NONE && count[task->before] <= count[row[i]])
            return false;
        count[row[i]]++;
        level += task->memory;
        if (level > problem->limit)
            return false;
    }
    return true;
}

pen_status pen__order_to_schedule(const struct pen__problem *problem,
                                  const uint8_t *order, const char *name,
                                  struct pen_schedule **out,
                                  struct pen_text *why)
{
    struct pen_schedule *schedule = NULL;
    pen_status status =
        pen_schedule_create(name, &problem->shape, &schedule, why);
    for (uint32_t rank = 0; rank < problem->num_ranks && status == PEN_OK;
         rank++) {
        const uint8_t *row = order + (size_t)rank * problem->length;
        uint32_t count[UINT8_MAX + 1] = {0};
        for (uint32_t i = 0; i < problem->length && status == PEN_OK; i++)
            status = pen_schedule_add(
                schedule, rank,
                pen_op_make(kind_of_role[row[i] % PEN__ROLES],
                            pen__task_of(problem, rank, row[i])->stage,
                            count[row[i]]++));
    }
    if (status != PEN_OK) {
        pen_schedule_free(schedule);
        return status;
    }
    schedule->rules.send_window =
        problem->window == PEN_DEFAULT_SEND_WINDOW ? 0 : problem->window;
    *out = schedule;
    return PEN_OK;
}

/* Appends a type if it is the next one of its kind. */
static bool append(const struct pen__problem *problem, uint8_t *row,
                   uint32_t *length, uint32_t *count, uint32_t type,
                   uint32_t microbatch)
{
    if (*length == problem->length || count[type] != microbatch)
        return false;
    row[(*length)++] = (uint8_t)type;
    count[type]++;
    return true;
}

static uint32_t chunk_of(const struct pen__problem *problem, uint32_t rank,
                         uint32_t stage)
{
    uint32_t chunk = 0;
    while (pen_shape_stage_at(&problem->shape, rank, 0, chunk) != stage)
        chunk++;
    return chunk;
}

static bool row_from_schedule(const struct pen__problem *problem, uint32_t rank,
                              const struct pen_row *ops, uint8_t *row)
{
    uint32_t count[UINT8_MAX + 1] = {0};
    uint32_t length = 0;
    bool is_good = true;
    for (uint32_t i = 0; i < ops->count && is_good; i++) {
        const struct pen_op *op = &ops->ops[i];
        uint8_t op_class = pen_op_info(op->kind)->op_class;
        if (op_class == PEN_OP_CLASS_MOVE || op->kind == PEN_OP_RECOMPUTE)
            return false;
        if (op_class != PEN_OP_CLASS_COMPUTE)
            continue;
        uint32_t chunk = chunk_of(problem, rank, op->stage);
        bool is_whole = op->kind == PEN_OP_BACKWARD;
        for (uint32_t role = 0; role < PEN__ROLES && is_good; role++) {
            if (op->kind == kind_of_role[role] || (is_whole && role != PEN__F))
                is_good = append(problem, row, &length, count,
                                 pen__type(chunk, (enum pen__role)role),
                                 op->microbatch);
        }
    }
    return is_good && length == problem->length;
}

bool pen__order_from_schedule(const struct pen__problem *problem,
                              const struct pen_schedule *schedule,
                              uint8_t *order)
{
    for (uint32_t rank = 0; rank < problem->num_ranks; rank++) {
        uint8_t *row = order + (size_t)rank * problem->length;
        if (!row_from_schedule(problem, rank, &schedule->rows[rank], row) ||
            !pen__row_is_legal(problem, rank, row))
            return false;
    }
    return true;
}

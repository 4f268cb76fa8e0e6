/* The memory that a row needs, made before its first pass. */
#include "base/bug.h"
#include "runtime/executor_internal.h"

#include <stdlib.h>

/* ---- mailboxes ---- */

/* A boundary of a stage: what comes or goes, and the stage on its other side.
 */
struct boundary {
    uint32_t stage; /* of this rank */
    uint32_t other; /* PEN_NO_STAGE at an end of the model */
    enum pen_direction direction;
    bool is_in;
};

static bool is_remote(const struct pen_executor *executor,
                      const struct boundary *at)
{
    return pen_shape_is_remote(&executor->options.layout.shape, at->stage,
                               at->other);
}

/* Both ends of a boundary have the same bytes. */
static size_t bytes_of(const struct pen_executor *executor,
                       const struct boundary *at)
{
    const struct pen_network_sizes *sizes =
        &pen__executor_home(executor, pen__executor_find(executor, at->stage))
             ->sizes;
    bool is_input = (at->direction == PEN_DIRECTION_ACT) == at->is_in;
    size_t bytes = is_input ? sizes->input : sizes->output;
    return (bytes + 63) / 64 * 64;
}

static struct pen_mailbox *find_mailbox(const struct pen_executor *executor,
                                        const struct pen_mailbox_options *like)
{
    for (uint32_t i = 0; i < executor->num_mailboxes; i++) {
        const struct pen_mailbox_options *it =
            pen_mailbox_options(executor->mailboxes[i]);
        if (it->kind == like->kind && it->direction == like->direction &&
            it->peer == like->peer)
            return executor->mailboxes[i];
    }
    return NULL;
}

static pen_status add_mailbox(struct pen_executor *executor,
                              const struct pen_mailbox_options *options,
                              struct pen_mailbox **out)
{
    struct pen_mailbox **grown = realloc(
        executor->mailboxes, (executor->num_mailboxes + 1) * sizeof *grown);
    if (grown == NULL)
        return PEN_NOMEM;
    executor->mailboxes = grown;
    struct pen_mailbox_options wanted = *options;
    const struct pen_network *network = executor->stages[0].network;
    wanted.engine = network == NULL ? NULL : pen_network_engine(network);
    pen_status status =
        pen_mailbox_create(executor->options.transport, &wanted, out);
    if (status == PEN_OK)
        executor->mailboxes[executor->num_mailboxes++] = *out;
    return status;
}

/* Messages of a channel that leave before the gate of their sender. */
static uint32_t count_early(const struct pen_executor *executor,
                            const struct boundary *at, uint32_t peer)
{
    if (!at->is_in || at->direction != PEN_DIRECTION_ACT)
        return 0;
    return pen_row_count_sends(executor->options.schedule, peer,
                               executor->gates[peer], PEN_OP_SEND_ACT,
                               executor->options.layout.row);
}

static pen_status remote_mailbox(struct pen_executor *executor,
                                 const struct boundary *at,
                                 struct pen_mailbox **out)
{
    const struct pen_schedule *schedule = executor->options.schedule;
    const struct pen_layout *layout = &executor->options.layout;
    uint32_t peer = pen_shape_rank_of(&layout->shape, at->other);
    struct pen_mailbox_options options = {
        .kind = at->is_in ? PEN_MAILBOX_IN : PEN_MAILBOX_OUT,
        .direction = at->direction,
        .peer = pen_layout_peer(layout, at->other),
        .num_slots =
            at->is_in
                ? pen_row_count_in(schedule, layout->row, at->direction, peer)
                : pen_row_count_out(schedule, layout->row, at->direction, peer),
        .window = pen_schedule_window(schedule),
        .bytes = bytes_of(executor, at),
        .code = executor->options.code,
        .is_phantom = executor->options.is_phantom,
        .num_early = count_early(executor, at, peer)};
    *out = find_mailbox(executor, &options);
    return *out != NULL ? PEN_OK : add_mailbox(executor, &options, out);
}

/*
 * The mailbox of a boundary between stages of this rank: the producing stage
 * makes it, the other finds it.
 */
static pen_status local_mailbox(struct pen_executor *executor,
                                const struct boundary *at,
                                struct pen_mailbox **out)
{
    struct pen_mailbox_options options = {
        .kind = PEN_MAILBOX_LOCAL,
        .direction = at->direction,
        .peer = pen_layout_peer(&executor->options.layout, at->stage),
        .num_slots = pen_row_count_waiting(executor->row, at->direction,
                                           at->is_in ? at->other : at->stage,
                                           at->is_in ? at->stage : at->other),
        .bytes = bytes_of(executor, at),
        .is_phantom = executor->options.is_phantom};
    const struct pen__routes *other =
        &executor->routes[pen__executor_find(executor, at->other)];
    bool is_act = at->direction == PEN_DIRECTION_ACT;
    struct pen_mailbox *there = at->is_in
                                    ? is_act ? other->act_out : other->grad_out
                                : is_act ? other->act_in
                                         : other->grad_in;
    *out = there;
    return there != NULL ? PEN_OK : add_mailbox(executor, &options, out);
}

static pen_status connect(struct pen_executor *executor,
                          const struct boundary *at, struct pen_mailbox **out)
{
    if (at->other == PEN_NO_STAGE)
        return PEN_OK;
    return is_remote(executor, at) ? remote_mailbox(executor, at, out)
                                   : local_mailbox(executor, at, out);
}

static bool has_gradients(const struct pen_executor *executor, uint32_t stage)
{
    for (uint32_t i = 0; i < executor->row->count; i++) {
        const struct pen_op *op = &executor->row->ops[i];
        if (op->stage == stage && pen_op_is_compute(op->kind) &&
            pen_op_info(op->kind)->direction == PEN_DIRECTION_GRAD)
            return true;
    }
    return false;
}

static pen_status connect_stage(struct pen_executor *executor, uint32_t index)
{
    const struct pen_shape *shape = &executor->options.layout.shape;
    struct pen__routes *routes = &executor->routes[index];
    uint32_t stage = routes->stage;
    struct boundary all[] = {{.direction = PEN_DIRECTION_ACT, .is_in = true},
                             {.direction = PEN_DIRECTION_ACT, .is_in = false},
                             {.direction = PEN_DIRECTION_GRAD, .is_in = true},
                             {.direction = PEN_DIRECTION_GRAD, .is_in = false}};
    struct pen_mailbox **to[] = {&routes->act_in, &routes->act_out,
                                 &routes->grad_in, &routes->grad_out};
    size_t count = has_gradients(executor, stage) ? 4 : 2;
    pen_status status = PEN_OK;
    for (size_t i = 0; i < count && status == PEN_OK; i++) {
        all[i].stage = stage;
        all[i].other = all[i].is_in
                           ? pen_shape_sender(shape, stage, all[i].direction)
                           : pen_shape_receiver(shape, stage, all[i].direction);
        status = connect(executor, &all[i], to[i]);
    }
    return status;
}

/* Expects messages in the order in which the row takes them. */
static pen_status expect_messages(struct pen_executor *executor)
{
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < executor->row->count && status == PEN_OK; i++) {
        const struct pen_op *op = &executor->row->ops[i];
        if (pen_op_info(op->kind)->op_class != PEN_OP_CLASS_RECV)
            continue;
        const struct pen__routes *routes =
            &executor->routes[pen__executor_find(executor, op->stage)];
        status = pen_mailbox_expect(
            op->kind == PEN_OP_RECV_ACT ? routes->act_in : routes->grad_in,
            op->stage,
            op->microbatch * executor->options.layout.shape.num_slices +
                op->slice);
    }
    return status;
}

/* ---- order ---- */

static void find_last_gradient(struct pen_executor *executor, uint32_t index)
{
    const struct pen_shape *shape = &executor->options.layout.shape;
    uint32_t keeper = pen_shape_keeper(shape, executor->routes[index].stage);
    executor->routes[index].last_gradient = UINT32_MAX;
    for (uint32_t i = 0; i < executor->row->count; i++) {
        const struct pen_op *op = &executor->row->ops[i];
        if (pen_shape_keeper(shape, op->stage) == keeper &&
            (op->kind == PEN_OP_BACKWARD || op->kind == PEN_OP_BACKWARD_WEIGHT))
            executor->routes[index].last_gradient = i;
    }
}

/* Whether stashes of a stage are moved to another rank. */
static bool has_guests(const struct pen_executor *executor, uint32_t stage)
{
    for (uint32_t i = 0; i < executor->row->count; i++)
        if (executor->row->ops[i].kind == PEN_OP_EVICT &&
            executor->row->ops[i].stage == stage)
            return true;
    return false;
}

/*
 * Makes a route for each stage that the row has ops of, in the order of their
 * numbers.
 */
static pen_status make_routes(struct pen_executor *executor)
{
    const struct pen_shape *shape = &executor->options.layout.shape;
    bool *is_used = calloc(shape->num_stages, sizeof *is_used);
    executor->routes = calloc(shape->num_stages, sizeof *executor->routes);
    if (is_used == NULL || executor->routes == NULL) {
        free(is_used);
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; i < executor->row->count; i++)
        is_used[executor->row->ops[i].stage] = true;
    for (uint32_t s = 0; s < shape->num_stages; s++) {
        struct pen__routes *routes = &executor->routes[executor->num_routes];
        if (!is_used[s])
            continue;
        *routes = (struct pen__routes){.stage = s};
        while (routes->home < executor->num_stages &&
               executor->stages[routes->home].stage !=
                   pen_shape_keeper(shape, s))
            routes->home++;
        PEN_BUG_UNLESS(routes->home < executor->num_stages);
        executor->num_routes++;
    }
    free(is_used);
    return PEN_OK;
}

static pen_status make_stage_room(struct pen_executor *executor,
                                  struct pen_stage *stage)
{
    const struct pen_shape *shape = &executor->options.layout.shape;
    struct pen_stage_needs needs =
        pen_row_count_needs(shape, executor->row, stage->stage);
    stage->has_guests = has_guests(executor, stage->stage);
    return stage->is_borrowed
               ? PEN_OK
               : pen_stage_init_room(stage, &needs, shape->num_microbatches);
}

static pen_status make_whole_room(struct pen_executor *executor)
{
    size_t count = pen__executor_num_tokens(executor);
    bool reads = false;
    for (uint32_t i = 0; i < executor->num_stages; i++)
        reads = reads || executor->stages[i].reads_data;
    if (!reads || (executor->options.layout.shape.num_slices == 1 &&
                   pen_layout_num_parts(&executor->options.layout) == 1))
        return PEN_OK;
    executor->whole.ids = calloc(count, sizeof *executor->whole.ids);
    executor->whole.targets = calloc(count, sizeof *executor->whole.targets);
    return executor->whole.ids == NULL || executor->whole.targets == NULL
               ? PEN_NOMEM
               : PEN_OK;
}

pen_status pen__executor_make_room(struct pen_executor *executor,
                                   struct pen_text *why)
{
    const struct pen_executor_options *options = &executor->options;
    executor->gates =
        calloc(options->layout.shape.num_ranks, sizeof *executor->gates);
    pen_status status =
        executor->gates == NULL
            ? PEN_NOMEM
            : pen_schedule_find_gates(options->schedule, executor->gates);
    if (status == PEN_OK)
        status = make_whole_room(executor);
    if (status == PEN_OK)
        status = make_routes(executor);
    for (uint32_t i = 0; i < executor->num_stages && status == PEN_OK; i++)
        status = make_stage_room(executor, &executor->stages[i]);
    for (uint32_t i = 0; i < executor->num_routes && status == PEN_OK; i++) {
        find_last_gradient(executor, i);
        status = connect_stage(executor, i);
    }
    if (status == PEN_OK)
        status = expect_messages(executor);
    if (status == PEN_OK)
        status = pen_guests_create(executor, options, &executor->guests);
    if (status == PEN_NOMEM)
        pen_why(why, "no memory for activations and messages; use a smaller "
                     "--micro-batch-size");
    return status;
}

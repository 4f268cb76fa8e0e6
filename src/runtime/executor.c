/*
 * The walk along the row. executor_room.c makes the room for it.
 *
 *   pen_executor_run()
 *        |
 *        v        next op                              last op
 *    BEGINNING ------------> AT AN OP ----------------------------> FINISHING
 *        ^                   |   ^  |                                   |
 *        |  an op needs      |   |  | the gate of a gated pass          |
 *        |  a message        v   |  v                                   |
 *        |                WAITING | AT THE GATE --- it was right --> AT AN OP
 *        |                   |    |  |                                  |
 *        |    it has come    +----+  | it was wrong                     |
 *        +--- pen_executor_rewind() -+                                  |
 *                                                  messages have left   v
 *   a wait fails, in any state ---> PEN_LOST                          DONE
 *
 * AT AN OP and WAITING look after all messages: between layers, and for as long
 * as the wait lasts. A chained pass is DONE with its last op, and its messages
 * leave while the next pass runs.
 */
#include "runtime/executor.h"

#include "base/bug.h"
#include "base/clock.h"
#include "runtime/executor_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- messages and waiting ---- */

void pen_executor_poll(struct pen_executor *executor)
{
    const struct pen_executor_hooks *hooks = &executor->options.hooks;
    for (uint32_t i = 0; i < executor->num_mailboxes; i++)
        pen_mailbox_poll(executor->mailboxes[i]);
    if (executor->guests != NULL)
        pen_guests_poll(executor->guests);
    if (hooks->poll != NULL)
        hooks->poll(hooks->context);
}

/* After a loss the board shows where each rank waited: nothing resumes. */
pen_status pen_executor_wait(struct pen_executor *executor,
                             bool (*is_done)(void *context), void *context,
                             uint32_t rank)
{
    const struct pen_executor_hooks *hooks = &executor->options.hooks;
    if (is_done(context))
        return PEN_OK;
    pen_executor_poll(executor);
    if (is_done(context))
        return PEN_OK;
    int64_t begin = pen_clock_ns();
    if (hooks->wait != NULL)
        hooks->wait(hooks->context, rank);
    while (!is_done(context)) {
        if (pen_transport_has_lost(executor->options.transport))
            return PEN_LOST;
        pen_transport_pause(executor->options.transport,
                            pen_clock_ns() - begin);
        pen_executor_poll(executor);
    }
    if (hooks->resume != NULL)
        hooks->resume(hooks->context);
    int64_t waited_ns = pen_clock_ns() - begin;
    executor->waited_ns += waited_ns;
    if (executor->pass != NULL)
        executor->pass->wait_ns += waited_ns;
    return PEN_OK;
}

/* Notes that an op has all its inputs: from here on it is busy, except while
 * its layers wait. */
static void note_ready(struct pen_executor *executor, int64_t now_ns)
{
    executor->ready_ns = now_ns;
    executor->waited_ns = 0;
}

/* A buffer of a mailbox that is waited for, in or out. */
struct want {
    struct pen_mailbox *mailbox;
    uint32_t stage;
    uint32_t microbatch; /* and slice: unit_of() */
    struct pen_label label;
    const void *in;
    void *out;
};

/*
 * The number of a slice among all slices, which is how messages are numbered.
 */
static uint32_t unit_of(const struct pen_executor *executor,
                        const struct pen_op *op)
{
    return op->microbatch * executor->options.layout.shape.num_slices +
           op->slice;
}

static bool is_there(void *context)
{
    struct want *want = context;
    want->in = pen_mailbox_take(want->mailbox, want->stage, want->microbatch,
                                &want->label);
    return want->in != NULL;
}

static bool is_free(void *context)
{
    struct want *want = context;
    want->out = pen_mailbox_claim(want->mailbox);
    return want->out != NULL;
}

/* out->in is NULL where nothing comes from another stage. */
static pen_status receive(struct pen_executor *executor,
                          struct pen_mailbox *mailbox, const struct pen_op *op,
                          struct want *out)
{
    *out = (struct want){.mailbox = mailbox,
                         .stage = op->stage,
                         .microbatch = unit_of(executor, op)};
    return mailbox == NULL
               ? PEN_OK
               : pen_executor_wait(executor, is_there, out,
                                   pen_mailbox_options(mailbox)->peer);
}

static pen_status claim(struct pen_executor *executor,
                        struct pen_mailbox *mailbox, void **out)
{
    struct want want = {.mailbox = mailbox};
    pen_status status = PEN_OK;
    if (mailbox != NULL)
        status = pen_executor_wait(executor, is_free, &want,
                                   pen_mailbox_options(mailbox)->peer);
    *out = want.out;
    return status;
}

static bool has_left(void *context)
{
    return pen_mailbox_is_idle(context);
}

/* Whether op `position` is the F of a pair, and the next one its B. */
static bool is_pair(const struct pen_executor *executor, uint32_t position)
{
    const struct pen_row *row = executor->row;
    const struct pen_op *op = &row->ops[position];
    return executor->options.joins_pairs && op->group != 0 &&
           op->kind == PEN_OP_FORWARD && position + 1 < row->count &&
           op[1].group == op->group && op[1].kind == PEN_OP_BACKWARD;
}

/* A message may lie in its buffer until it is taken. */
static bool has_come(void *context)
{
    const struct want *want = context;
    return pen_mailbox_has(want->mailbox, want->stage, want->microbatch);
}

/* The F of a pair begins when its B can. */
static pen_status await_partner(struct pen_executor *executor)
{
    const struct pen_op *op = &executor->row->ops[executor->position + 1];
    if (!is_pair(executor, executor->position))
        return PEN_OK;
    struct pen_mailbox *mailbox =
        executor->routes[pen__executor_find(executor, op->stage)].grad_in;
    struct want want = {.mailbox = mailbox,
                        .stage = op->stage,
                        .microbatch = unit_of(executor, op)};
    return mailbox == NULL
               ? PEN_OK
               : pen_executor_wait(executor, has_come, &want,
                                   pen_mailbox_options(mailbox)->peer);
}

/*
 * Completes an op's output: it stays until its send, or is there at once for a
 * stage of this rank.
 */
static void fill(const struct pen_executor *executor,
                 struct pen_mailbox *mailbox, const struct pen_op *op,
                 uint32_t version)
{
    const struct pen_shape *shape = &executor->options.layout.shape;
    if (mailbox == NULL)
        return;
    enum pen_direction direction = pen_mailbox_options(mailbox)->direction;
    pen_mailbox_fill(
        mailbox, (struct pen_label){
                     .stage = pen_shape_receiver(shape, op->stage, direction),
                     .microbatch = unit_of(executor, op),
                     .version = version});
}

static bool is_sent(void *context)
{
    struct want *want = context;
    return pen_mailbox_send(want->mailbox, want->stage, want->microbatch);
}

/* Waits while as many messages of the channel are under way as may be. */
static pen_status send(struct pen_executor *executor, const struct pen_op *op)
{
    const struct pen_shape *shape = &executor->options.layout.shape;
    const struct pen__routes *routes =
        &executor->routes[pen__executor_find(executor, op->stage)];
    bool is_act = op->kind == PEN_OP_SEND_ACT;
    struct want want = {
        .mailbox = is_act ? routes->act_out : routes->grad_out,
        .stage = pen_shape_receiver(
            shape, op->stage, is_act ? PEN_DIRECTION_ACT : PEN_DIRECTION_GRAD),
        .microbatch = unit_of(executor, op)};
    uint32_t peer = pen_mailbox_options(want.mailbox)->peer;
    pen_status status = pen_executor_wait(executor, is_sent, &want, peer);
    if (status == PEN_OK && executor->options.is_blocking)
        status = pen_executor_wait(executor, has_left, want.mailbox, peer);
    return status;
}

/* ---- what ops have in common ---- */

struct wanted_room {
    struct pen_shelf *shelf;
    uint32_t index;
};

static bool has_room(void *context)
{
    struct wanted_room *wanted = context;
    wanted->index = pen_shelf_take(wanted->shelf);
    return wanted->index != PEN_SHELF_NONE;
}

/* Waits only for stashes that are still on their way to the partner. */
static pen_status take_room(struct pen_executor *executor,
                            struct pen_shelf *shelf, uint32_t *out)
{
    struct wanted_room wanted = {shelf, PEN_SHELF_NONE};
    pen_status status = PEN_OK;
    if (shelf->count > 0 && shelf->bytes > 0)
        status = pen_executor_wait(executor, has_room, &wanted, PEN_NO_RANK);
    *out = wanted.index;
    return status;
}

static void give_room(struct pen_shelf *shelf, uint32_t *index)
{
    if (*index != PEN_SHELF_NONE)
        pen_shelf_give(shelf, *index);
    *index = PEN_SHELF_NONE;
}

static void *room_at(const struct pen_shelf *shelf, uint32_t index)
{
    return index == PEN_SHELF_NONE ? NULL : pen_shelf_at(shelf, index);
}

/* The number of a micro-batch among those of its copy. */
static uint32_t number_of(const struct pen_executor *executor,
                          uint32_t microbatch)
{
    const struct pen_shape *shape = &executor->options.layout.shape;
    return microbatch % (shape->num_microbatches / shape->num_copies);
}

/*
 * The number of a micro-batch among those of the step that use the same
 * weights, copy after copy.
 */
static uint32_t number_in_step(const struct pen_executor *executor,
                               const struct pen_op *op)
{
    const struct pen_shape *shape = &executor->options.layout.shape;
    uint32_t per_step = executor->options.num_per_step;
    uint32_t copy = pen_shape_copy_of_stage(shape, op->stage);
    return copy % pen_shape_users(shape, op->stage) * per_step +
           number_of(executor, op->microbatch) % per_step;
}

/*
 * The samples of a step belong to the logical replicas in equal blocks, and
 * those of a copy to its micro-batches.
 */
static uint64_t first_sample(const struct pen_executor *executor,
                             const struct pen_op *op)
{
    const struct pen_executor_options *options = &executor->options;
    const struct pen_pass *pass = executor->pass;
    uint32_t number = number_of(executor, op->microbatch);
    uint32_t per_step = options->num_per_step;
    if (pass->is_evaluation)
        return pass->first_sample +
               (uint64_t)op->microbatch * options->micro_batch;
    const struct pen_layout *layout = &options->layout;
    uint32_t first =
        pen_layout_first_logical(layout, pen_layout_copy(layout, op->stage));
    uint64_t before = (uint64_t)(first % pen_layout_num_sampled(layout)) *
                      (per_step / pen_layout_copy_share(layout));
    uint64_t in_step = (before + number % per_step) * options->micro_batch;
    return pass->first_sample + number / per_step * options->step_samples +
           in_step;
}

/* Copies the tokens of a chunk out of whole sequences. */
static void copy_chunk(const struct pen_stage *stage,
                       const struct pen_batch *whole, size_t chunk,
                       size_t tokens, const struct pen_batch *to)
{
    size_t per_sequence =
        (size_t)stage->sample.num_ids * stage->num_slices * stage->num_parts;
    for (size_t i = 0; i < stage->micro_batch; i++) {
        size_t from = i * per_sequence + chunk * tokens;
        memcpy(to->ids + i * tokens, whole->ids + from,
               tokens * sizeof *to->ids);
        memcpy(to->targets + i * tokens, whole->targets + from,
               tokens * sizeof *to->targets);
    }
}

/* A slice is a chunk; a part has two (network.h). */
static void copy_chunks(const struct pen_stage *stage, uint32_t slice,
                        const struct pen_batch *whole,
                        const struct pen_batch *to)
{
    size_t tokens = stage->sample.num_ids / 2;
    struct pen_batch high = {.ids = to->ids + stage->micro_batch * tokens,
                             .targets =
                                 to->targets + stage->micro_batch * tokens};
    if (stage->num_parts == 1) {
        copy_chunk(stage, whole, slice, stage->sample.num_ids, to);
        return;
    }
    copy_chunk(stage, whole, stage->sequence_part, tokens, to);
    copy_chunk(stage, whole, 2 * stage->num_parts - 1 - stage->sequence_part,
               tokens, &high);
}

/* Fills a micro-batch; rows after the last sample have no targets. */
static pen_status read_whole(struct pen_executor *executor,
                             const struct pen_stage *stage,
                             const struct pen_op *op,
                             const struct pen_batch *into, struct pen_text *why)
{
    const struct pen_pass *pass = executor->pass;
    const struct pen_sample_shape *sample = &executor->options.sample;
    struct pen_batch batch = *into;
    uint64_t first = first_sample(executor, op);
    size_t micro = stage->micro_batch;
    size_t some = micro;
    if (pass->is_evaluation)
        some = first >= pass->num_samples ? 0
               : pass->num_samples - first < micro
                   ? (size_t)(pass->num_samples - first)
                   : micro;
    for (size_t i = some * sample->num_ids; i < micro * sample->num_ids; i++)
        batch.ids[i] = 0;
    for (size_t i = some * sample->num_targets; i < micro * sample->num_targets;
         i++)
        batch.targets[i] = PEN_NO_TARGET;
    return pen_batches_read(pass->batches, first, some, &batch, why);
}

static pen_status read_input(struct pen_executor *executor,
                             const struct pen_stage *stage,
                             const struct pen_op *op, struct pen_text *why)
{
    struct pen_batch batch =
        pen_stage_batch(stage, pen_stage_stay(stage, op)->input);
    if (stage->num_slices == 1 && stage->num_parts == 1)
        return read_whole(executor, stage, op, &batch, why);
    pen_status status = read_whole(executor, stage, op, &executor->whole, why);
    if (status == PEN_OK)
        copy_chunks(stage, op->slice, &executor->whole, &batch);
    return status;
}

static struct pen_microbatch microbatch_of(const struct pen_executor *executor,
                                           const struct pen_stage *stage,
                                           const struct pen_op *op)
{
    const struct pen_pass *pass = executor->pass;
    const struct pen_stay *stay = pen_stage_stay(stage, op);
    const struct pen_shared_stay *shared = pen_stage_shared(stage, op);
    struct pen_microbatch microbatch = {
        .slice = op->slice,
        .context = room_at(&stage->contexts, shared->context),
        .slopes = room_at(&stage->slopes, shared->slopes),
        .is_evaluation = pass->is_evaluation,
        .measures = pass->measures,
        .loss_count = pass->is_evaluation ? pass->num_targets
                                          : executor->options.step_targets};
    if (stay->input != PEN_SHELF_NONE) {
        struct pen_batch batch = pen_stage_batch(stage, stay->input);
        microbatch.ids = batch.ids;
        microbatch.pixels = batch.pixels;
        microbatch.targets = batch.targets;
    }
    return microbatch;
}

static bool is_busy(const struct pen_executor *executor)
{
    const struct pen_executor_hooks *hooks = &executor->options.hooks;
    return executor->guests != NULL ||
           (hooks->is_busy != NULL && hooks->is_busy(hooks->context));
}

void pen_executor_sleep(struct pen_executor *executor, double seconds)
{
    int64_t end = pen_clock_ns() + (int64_t)(1e9 * seconds + 0.5);
    if (seconds <= 0)
        return;
    while (
        !pen_transport_nap(executor->options.transport, end, is_busy(executor)))
        pen_executor_poll(executor);
    pen_executor_poll(executor);
}

/* Waits until the device has finished an op, and moves messages meanwhile. */
static void finish(struct pen_executor *executor, const struct pen_stage *stage)
{
    if (stage->network == NULL)
        return;
    struct pen_engine *engine = pen_network_engine(stage->network);
    if (engine->ops->is_host)
        return;
    uint64_t mark = engine->ops->mark(engine);
    while (!pen_engine_is_reached(engine, mark))
        pen_executor_poll(executor);
}

/* In place of one slice: its share of what a micro-batch takes. */
static void sleep_slice(struct pen_executor *executor,
                        const struct pen_stage *stage, double seconds)
{
    pen_executor_sleep(executor, seconds / stage->num_slices);
}

/*
 * Sleeps as long, with `num_messages` messages inside layers, the last one at
 * the end.
 */
static void sleep_between(struct pen_executor *executor,
                          const struct pen_stage *stage, double seconds,
                          uint32_t num_messages, bool is_forward)
{
    for (uint32_t i = 0; i < num_messages; i++) {
        sleep_slice(executor, stage, seconds / num_messages);
        pen_inner_round(executor->options.inner, stage->part, is_forward, i);
    }
    if (num_messages == 0)
        sleep_slice(executor, stage, seconds);
}

/* In place of a forward pass; one that fills a stash has no output. */
static void sleep_forward(struct pen_executor *executor,
                          const struct pen_stage *stage, double seconds,
                          bool has_output)
{
    struct pen_inner *inner = executor->options.inner;
    if (inner == NULL) {
        sleep_slice(executor, stage, seconds);
        return;
    }
    const struct pen_inner_messages *sent = pen_inner_part(inner, stage->part);
    sleep_between(executor, stage, seconds,
                  has_output ? sent->num_forward : sent->num_again, true);
    if (sent->loss_bytes > 0)
        pen_inner_exchange(inner, sent->loss_bytes);
}

static const struct pen_cost *sleep_of(const struct pen_executor *executor,
                                       const struct pen_stage *stage)
{
    return &executor->options.sleeps[stage->part];
}

static uint32_t use(struct pen_executor *executor, struct pen_stage *stage,
                    const struct pen_op *op, uint32_t version)
{
    const struct pen_executor_hooks *hooks = &executor->options.hooks;
    if (hooks->open != NULL &&
        (op->kind == PEN_OP_BACKWARD || op->kind == PEN_OP_BACKWARD_WEIGHT))
        hooks->open(hooks->context, stage, number_in_step(executor, op));
    return hooks->use == NULL ? PEN_OP_CURRENT
                              : hooks->use(hooks->context, stage, op, version);
}

static void unuse(struct pen_executor *executor, struct pen_stage *stage,
                  const struct pen_op *op)
{
    const struct pen_executor_hooks *hooks = &executor->options.hooks;
    if (hooks->unuse != NULL)
        hooks->unuse(hooks->context, stage, op);
}

/* ---- forward ---- */

/* The loss of the micro-batch whose forward pass has just been finished. */
static double loss_of(const struct pen_stage *stage)
{
    return stage->network == NULL ? 0 : pen_network_loss(stage->network);
}

static void keep_loss(struct pen_executor *executor,
                      const struct pen_stage *stage, const struct pen_op *op)
{
    struct pen_pass *pass = executor->pass;
    const struct pen_stay *stay = pen_stage_stay(stage, op);
    if (!stage->has_head)
        return;
    if (op->slice == 0)
        pass->losses[op->microbatch] = 0;
    pass->losses[op->microbatch] += loss_of(stage);
    if (pass->scored == NULL)
        return;
    struct pen_batch batch = pen_stage_batch(stage, stay->input);
    pass->scored(pass->context, stage,
                 pen_shelf_at(&stage->stashes, stay->stash), &batch);
}

/*
 * Keeps the input that a stage will be computed again from, as the message's
 * buffer is freed before that.
 */
static void keep_input(const struct pen_stage *stage,
                       const struct pen_stay *stay, const void *x)
{
    if (stay->kept == PEN_SHELF_NONE)
        return;
    struct pen_engine *engine = pen_network_engine(stage->network);
    engine->ops->copy(engine, x, room_at(&stage->kept, stay->kept),
                      stage->sizes.input);
}

static pen_status forward(struct pen_executor *executor, uint32_t index,
                          const struct pen_op *op, struct pen_text *why)
{
    struct pen_stage *stage = pen__executor_home(executor, index);
    const struct pen__routes *routes = &executor->routes[index];
    struct pen_stay *stay = pen_stage_stay(stage, op);
    struct want in;
    void *y;
    pen_status status = take_room(executor, &stage->stashes, &stay->stash);
    if (status == PEN_OK && op->slice == 0)
        status = take_room(executor, &stage->contexts,
                           &pen_stage_shared(stage, op)->context);
    if (status == PEN_OK)
        status = take_room(executor, &stage->inputs, &stay->input);
    if (status == PEN_OK && pen_op_is_recomputed(op))
        status = take_room(executor, &stage->kept, &stay->kept);
    if (status == PEN_OK && stage->reads_data)
        status = read_input(executor, stage, op, why);
    if (status == PEN_OK)
        status = receive(executor, routes->act_in, op, &in);
    if (status == PEN_OK)
        status = await_partner(executor);
    if (status == PEN_OK)
        status = claim(executor, routes->act_out, &y);
    if (status != PEN_OK)
        return status;
    note_ready(executor, pen_clock_ns());
    uint32_t carried = in.in == NULL ? PEN_OP_CURRENT : in.label.version;
    stay->version = use(executor, stage, op, carried);
    struct pen_microbatch microbatch = microbatch_of(executor, stage, op);
    keep_input(stage, stay, in.in);
    if (stage->network == NULL)
        sleep_forward(executor, stage, sleep_of(executor, stage)->forward_sec,
                      true);
    else
        pen_network_forward(stage->network, &microbatch,
                            room_at(&stage->stashes, stay->stash), in.in, y);
    unuse(executor, stage, op);
    finish(executor, stage);
    if (executor->pass->computed != NULL)
        executor->pass->computed(executor->pass->context, stage,
                                 room_at(&stage->stashes, stay->stash), y,
                                 loss_of(stage));
    keep_loss(executor, stage, op);
    if (in.in != NULL)
        pen_mailbox_release(routes->act_in, in.in);
    fill(executor, routes->act_out, op, stay->version);
    if (executor->pass->is_evaluation || pen_op_is_recomputed(op))
        give_room(&stage->stashes, &stay->stash);
    if (executor->pass->is_evaluation)
        give_room(&stage->inputs, &stay->input);
    if (executor->pass->is_evaluation && op->slice + 1u == stage->num_slices)
        give_room(&stage->contexts, &pen_stage_shared(stage, op)->context);
    return PEN_OK;
}

/* Computes the forward again, for its stash alone. */
static pen_status recompute(struct pen_executor *executor, uint32_t index,
                            const struct pen_op *op)
{
    struct pen_stage *stage = pen__executor_home(executor, index);
    struct pen_stay *stay = pen_stage_stay(stage, op);
    pen_status status = take_room(executor, &stage->stashes, &stay->stash);
    if (status != PEN_OK)
        return status;
    note_ready(executor, pen_clock_ns());
    use(executor, stage, op, stay->version);
    struct pen_microbatch microbatch = microbatch_of(executor, stage, op);
    if (stage->network == NULL)
        sleep_forward(executor, stage,
                      pen_cost_recompute_sec(sleep_of(executor, stage)), false);
    else
        pen_network_forward(stage->network, &microbatch,
                            room_at(&stage->stashes, stay->stash),
                            room_at(&stage->kept, stay->kept), NULL);
    unuse(executor, stage, op);
    finish(executor, stage);
    give_room(&stage->kept, &stay->kept);
    return PEN_OK;
}

/* ---- backward ---- */

static pen_status leave(struct pen_executor *executor, struct pen_stage *stage,
                        const struct pen_op *op)
{
    const struct pen_executor_hooks *hooks = &executor->options.hooks;
    struct pen_stay *stay = pen_stage_stay(stage, op);
    give_room(&stage->holds, &stay->hold);
    give_room(&stage->stashes, &stay->stash);
    give_room(&stage->inputs, &stay->input);
    executor->last_of = NULL;
    if (op->slice > 0)
        return PEN_OK;
    give_room(&stage->contexts, &pen_stage_shared(stage, op)->context);
    give_room(&stage->slopes, &pen_stage_shared(stage, op)->slopes);
    if (hooks->gradient == NULL)
        return PEN_OK;
    return hooks->gradient(hooks->context, stage, number_in_step(executor, op));
}

/* In place of a backward pass. */
static void sleep_backward(struct pen_executor *executor,
                           const struct pen_stage *stage, bool is_whole)
{
    struct pen_inner *inner = executor->options.inner;
    const struct pen_cost *cost = sleep_of(executor, stage);
    const struct pen_inner_messages *sent =
        inner == NULL ? NULL : pen_inner_part(inner, stage->part);
    sleep_between(
        executor, stage, cost->input_sec + (is_whole ? cost->weight_sec : 0),
        sent == NULL ? 0 : sent->num_input + (is_whole ? sent->num_weight : 0),
        false);
}

static void sleep_weight(struct pen_executor *executor,
                         const struct pen_stage *stage)
{
    struct pen_inner *inner = executor->options.inner;
    sleep_between(
        executor, stage, sleep_of(executor, stage)->weight_sec,
        inner == NULL ? 0 : pen_inner_part(inner, stage->part)->num_weight,
        false);
}

/*
 * Computes the gradient of the input, and in a whole backward that of the
 * weights.
 */
static pen_status backward(struct pen_executor *executor, uint32_t index,
                           const struct pen_op *op)
{
    struct pen_stage *stage = pen__executor_home(executor, index);
    const struct pen__routes *routes = &executor->routes[index];
    struct pen_stay *stay = pen_stage_stay(stage, op);
    bool is_whole = op->kind == PEN_OP_BACKWARD;
    struct want in;
    void *dx;
    pen_status status = PEN_OK;
    if (executor->guests != NULL)
        status = pen_guests_await(executor->guests, op);
    if (status == PEN_OK)
        status = receive(executor, routes->grad_in, op, &in);
    if (status == PEN_OK)
        status = claim(executor, routes->grad_out, &dx);
    if (status == PEN_OK && !is_whole)
        status = take_room(executor, &stage->holds, &stay->hold);
    if (status == PEN_OK && op->slice + 1u == stage->num_slices)
        status = take_room(executor, &stage->slopes,
                           &pen_stage_shared(stage, op)->slopes);
    if (status != PEN_OK)
        return status;
    note_ready(executor, pen_clock_ns());
    use(executor, stage, op, stay->version);
    void *stash = room_at(&stage->stashes, stay->stash);
    struct pen_microbatch microbatch = microbatch_of(executor, stage, op);
    if (stage->network == NULL)
        sleep_backward(executor, stage, is_whole);
    else if (is_whole)
        pen_network_backward(stage->network, &microbatch, stash, in.in, dx);
    else
        pen_network_backward_input(stage->network, &microbatch, stash,
                                   room_at(&stage->holds, stay->hold), in.in,
                                   dx);
    unuse(executor, stage, op);
    finish(executor, stage);
    if (in.in != NULL)
        pen_mailbox_release(routes->grad_in, in.in);
    fill(executor, routes->grad_out, op, stay->version);
    return is_whole ? leave(executor, stage, op) : PEN_OK;
}

static pen_status backward_weight(struct pen_executor *executor, uint32_t index,
                                  const struct pen_op *op)
{
    struct pen_stage *stage = pen__executor_home(executor, index);
    struct pen_stay *stay = pen_stage_stay(stage, op);
    struct pen_microbatch microbatch = microbatch_of(executor, stage, op);
    note_ready(executor, pen_clock_ns());
    use(executor, stage, op, stay->version);
    if (stage->network == NULL)
        sleep_weight(executor, stage);
    else
        pen_network_backward_weight(stage->network, &microbatch,
                                    room_at(&stage->stashes, stay->stash),
                                    room_at(&stage->holds, stay->hold));
    unuse(executor, stage, op);
    finish(executor, stage);
    return leave(executor, stage, op);
}

/* ---- the row ---- */

/* Called after every layer of every pass of every stage. */
static void between_layers(void *context, uint32_t layer)
{
    struct pen_executor *executor = context;
    const struct pen_executor_hooks *hooks = &executor->options.hooks;
    if (executor->last_of != NULL && hooks->layer != NULL)
        hooks->layer(hooks->context, executor->last_of, layer);
    pen_executor_poll(executor);
}

/*
 * Called ahead of the weight gradient of every layer; waiting does not count as
 * computing.
 */
static void before_layer(void *context, uint32_t layer)
{
    struct pen_executor *executor = context;
    const struct pen_executor_hooks *hooks = &executor->options.hooks;
    const struct pen_op *op = &executor->row->ops[executor->position];
    uint32_t index = pen__executor_find(executor, op->stage);
    int64_t before = executor->pass->wait_ns;
    hooks->enter(hooks->context, pen__executor_home(executor, index), layer);
    executor->ready_ns += executor->pass->wait_ns - before;
}

static void on_visited(void *context, uint32_t layer, uint32_t next)
{
    struct pen_executor *executor = context;
    const struct pen_executor_hooks *hooks = &executor->options.hooks;
    const struct pen_op *op = &executor->row->ops[executor->position];
    uint32_t index = pen__executor_find(executor, op->stage);
    int64_t before = executor->pass->wait_ns;
    hooks->visit(hooks->context, pen__executor_home(executor, index), layer,
                 next);
    executor->ready_ns += executor->pass->wait_ns - before;
}

/*
 * Passes on outputs of first forwards and of backwards; a recomputation repeats
 * what was seen before.
 */
static void on_observed(void *context, bool is_backward, uint32_t layer,
                        const void *numbers)
{
    const struct pen_executor *executor = context;
    const struct pen_pass *pass = executor->pass;
    const struct pen_op *op = &executor->row->ops[executor->position];
    if (op->kind == PEN_OP_FORWARD || is_backward)
        pass->observed(pass->observer,
                       &(struct pen_observed){is_backward, layer,
                                              first_sample(executor, op) -
                                                  pass->first_sample,
                                              op->slice, numbers});
}

static pen_status compute(struct pen_executor *executor,
                          const struct pen_op *op, struct pen_text *why)
{
    uint32_t index = pen__executor_find(executor, op->stage);
    bool is_last = executor->position == executor->routes[index].last_gradient;
    executor->last_of = is_last ? pen__executor_home(executor, index) : NULL;
    switch ((enum pen_op_kind)op->kind) {
    case PEN_OP_FORWARD:
        return forward(executor, index, op, why);
    case PEN_OP_BACKWARD:
    case PEN_OP_BACKWARD_INPUT:
        return backward(executor, index, op);
    case PEN_OP_BACKWARD_WEIGHT:
        return backward_weight(executor, index, op);
    default:
        return recompute(executor, index, op);
    }
}

static pen_status run_op(struct pen_executor *executor, const struct pen_op *op,
                         struct pen_text *why)
{
    const struct pen_executor_hooks *hooks = &executor->options.hooks;
    switch ((enum pen_op_class)pen_op_info(op->kind)->op_class) {
    case PEN_OP_CLASS_COMPUTE:
        return compute(executor, op, why);
    case PEN_OP_CLASS_SEND:
        return send(executor, op);
    case PEN_OP_CLASS_RECV: /* posted ahead, at the latest here */
        break;
    case PEN_OP_CLASS_SYNC:
        if (hooks->sync != NULL)
            hooks->sync(hooks->context,
                        pen__executor_home(
                            executor, pen__executor_find(executor, op->stage)));
        break;
    case PEN_OP_CLASS_STEP:
        return hooks->step(
            hooks->context,
            pen__executor_home(executor,
                               pen__executor_find(executor, op->stage)),
            op->version);
        break;
    case PEN_OP_CLASS_MOVE:
        return pen_guests_move(executor->guests, op);
    }
    return PEN_OK;
}

static bool is_quiet(void *context)
{
    const struct pen_executor *executor = context;
    for (uint32_t i = 0; i < executor->num_mailboxes; i++)
        if (!pen_mailbox_is_idle(executor->mailboxes[i]))
            return false;
    return executor->guests == NULL || pen_guests_is_idle(executor->guests);
}

pen_status pen_executor_finish(struct pen_executor *executor)
{
    return pen_executor_wait(executor, is_quiet, executor, PEN_NO_RANK);
}

static void begin_pass(struct pen_executor *executor)
{
    const struct pen_pass *pass = executor->pass;
    for (uint32_t i = 0; i < executor->num_mailboxes; i++)
        pen_mailbox_begin(executor->mailboxes[i], pass->number,
                          !pass->is_gated);
}

void pen_executor_open(struct pen_executor *executor)
{
    executor->pass->is_gated = false;
    for (uint32_t i = 0; i < executor->num_mailboxes; i++)
        pen_mailbox_open(executor->mailboxes[i]);
}

static bool is_rewound(void *context)
{
    const struct pen_executor *executor = context;
    bool is_all = true;
    for (uint32_t i = 0; i < executor->num_mailboxes; i++)
        if (!pen_mailbox_rewind(executor->mailboxes[i]))
            is_all = false;
    return is_all;
}

pen_status pen_executor_rewind(struct pen_executor *executor)
{
    pen_status status =
        pen_executor_wait(executor, is_rewound, executor, PEN_NO_RANK);
    for (uint32_t i = 0; i < executor->num_stages && status == PEN_OK; i++) {
        struct pen_stage *stage = &executor->stages[i];
        for (uint32_t k = 0; k < stage->num_stays; k++) {
            give_room(&stage->stashes, &stage->stays[k].stash);
            give_room(&stage->inputs, &stage->stays[k].input);
            give_room(&stage->kept, &stage->stays[k].kept);
        }
        for (uint32_t k = 0; k < stage->num_stays / stage->num_slices; k++) {
            give_room(&stage->contexts, &stage->shared[k].context);
            give_room(&stage->slopes, &stage->shared[k].slopes);
        }
    }
    return status;
}

/* At the gate; *position is where the row continues. */
static pen_status validate(struct pen_executor *executor, uint32_t *position,
                           struct pen_text *why)
{
    const struct pen_executor_hooks *hooks = &executor->options.hooks;
    bool is_again = false;
    pen_status status = hooks->validate(hooks->context, &is_again, why);
    if (status != PEN_OK)
        return status;
    if (is_again) {
        executor->pass->is_gated = false;
        begin_pass(executor);
        *position = 0;
    } else {
        pen_executor_open(executor);
    }
    return PEN_OK;
}

static pen_status run_position(struct pen_executor *executor, uint32_t position,
                               struct pen_text *why)
{
    const struct pen_executor_hooks *hooks = &executor->options.hooks;
    const struct pen_op *op = &executor->row->ops[position];
    struct pen_pass *pass = executor->pass;
    bool is_deferred = op->kind == PEN_OP_STEP && !pass->takes_steps;
    int64_t begin = pen_clock_ns();
    executor->position = position;
    note_ready(executor, begin);
    if (hooks->op != NULL)
        hooks->op(hooks->context, pass->number, position);
    pen_status status = is_deferred ? PEN_OK : run_op(executor, op, why);
    if (status == PEN_LOST)
        return status;
    int64_t end = pen_clock_ns();
    if (pen_op_is_compute(op->kind))
        pass->busy_ns += end - executor->ready_ns - executor->waited_ns;
    if (hooks->done != NULL && !is_deferred)
        hooks->done(hooks->context, pass->number, position, begin,
                    executor->ready_ns, end);
    return status;
}

pen_status pen_executor_run(struct pen_executor *executor,
                            struct pen_pass *pass, struct pen_text *why)
{
    uint32_t gate = executor->gates[executor->options.layout.row];
    pen_status status = PEN_OK;
    executor->pass = pass;
    for (uint32_t i = 0; i < executor->num_stages; i++) {
        struct pen_network *network = executor->stages[i].network;
        if (network == NULL)
            continue;
        pen_network_set_progress(network, between_layers, executor);
        pen_network_set_entrance(
            network,
            executor->options.hooks.enter == NULL ? NULL : before_layer,
            executor);
        pen_network_set_visit(
            network, executor->options.hooks.visit == NULL ? NULL : on_visited,
            executor);
        pen_network_set_observer(
            network, pass->observed == NULL ? NULL : on_observed, executor);
    }
    pass->wait_ns = pass->busy_ns = 0;
    bool is_asked = !pass->is_gated;
    begin_pass(executor);
    if (executor->guests != NULL)
        pen_guests_begin(executor->guests);
    for (uint32_t i = 0; i < executor->row->count && status == PEN_OK;) {
        if (i == gate && !is_asked) {
            is_asked = true;
            status = validate(executor, &i, why);
            continue;
        }
        status = run_position(executor, i++, why);
    }
    if (status == PEN_OK && !pass->is_chained)
        status = pen_executor_finish(executor);
    executor->pass = NULL;
    return status;
}

/* ---- making ---- */

uint32_t pen__executor_find(const struct pen_executor *executor, uint32_t stage)
{
    uint32_t index = 0;
    while (index < executor->num_routes &&
           executor->routes[index].stage != stage)
        index++;
    PEN_BUG_UNLESS(index < executor->num_routes);
    return index;
}

struct pen_stage *pen__executor_home(const struct pen_executor *executor,
                                     uint32_t route)
{
    return &executor->stages[executor->routes[route].home];
}

pen_status pen_executor_create(const struct pen_executor_options *options,
                               struct pen_stage *stages, uint32_t num_stages,
                               struct pen_executor **out, struct pen_text *why)
{
    struct pen_executor *executor = calloc(1, sizeof *executor);
    if (executor == NULL) {
        for (uint32_t i = 0; i < num_stages; i++)
            pen_stage_release(&stages[i]);
        free(stages);
        return PEN_NOMEM;
    }
    executor->options = *options;
    executor->row = &options->schedule->rows[options->layout.row];
    executor->stages = stages;
    executor->num_stages = num_stages;
    pen_status status = pen__executor_make_room(executor, why);
    if (status == PEN_OK)
        *out = executor;
    else
        pen_executor_free(executor);
    return status;
}

void pen_executor_free(struct pen_executor *executor)
{
    if (executor == NULL)
        return;
    for (uint32_t i = 0; i < executor->num_mailboxes; i++)
        pen_mailbox_free(executor->mailboxes[i]);
    for (uint32_t i = 0; i < executor->num_stages; i++)
        pen_stage_release(&executor->stages[i]);
    pen_guests_free(executor->guests);
    free(executor->whole.ids);
    free(executor->whole.targets);
    free(executor->mailboxes);
    free(executor->routes);
    free(executor->gates);
    free(executor->stages);
    free(executor);
}

size_t pen_executor_bytes(const struct pen_executor *executor)
{
    size_t bytes =
        executor->guests == NULL ? 0 : pen_guests_bytes(executor->guests);
    if (executor->whole.ids != NULL)
        bytes += 2 * pen__executor_num_tokens(executor) * sizeof(int32_t);
    for (uint32_t i = 0; i < executor->num_mailboxes; i++)
        bytes += pen_mailbox_bytes(executor->mailboxes[i]);
    for (uint32_t i = 0; i < executor->num_stages; i++)
        bytes += pen_stage_bytes(&executor->stages[i]);
    return bytes;
}

uint32_t pen_executor_num_stages(const struct pen_executor *executor)
{
    return executor->num_stages;
}

struct pen_stage *pen_executor_stage(struct pen_executor *executor,
                                     uint32_t index)
{
    PEN_BUG_UNLESS(index < executor->num_stages);
    return &executor->stages[index];
}

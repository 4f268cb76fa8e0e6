/*
 * Evaluation: the micro-batches of the samples, forward alone, through the
 * pipelines of all replicas in turn.
 */
#include "runtime/replicas.h"
#include "runtime/trainer_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The counts of an evaluation. */
struct score {
    struct pen_trainer *trainer;
    uint64_t num_right;
    size_t logit_bytes; /* of a micro-batch */
    void *logits;       /* in staging; NULL where they are read in the stash */
};

/* The label that the logits of a row rank first. */
static int32_t guess(const struct pen_trainer *trainer, const void *all,
                     size_t row)
{
    bool is_bf16 = trainer->options.is_bf16;
    enum pen_dtype dtype = is_bf16 ? PEN_DTYPE_BF16 : PEN_DTYPE_F32;
    size_t width = pen_dtype_bits(dtype) / 8;
    const char *logits = (const char *)all + row * trainer->num_labels * width;
    int32_t best = 0;
    float most = -INFINITY;
    for (size_t i = 0; i < trainer->num_labels; i++) {
        float logit;
        pen_dtype_to_float(dtype, logits + i * width, 1, &logit);
        if (logit > most) {
            most = logit;
            best = (int32_t)i;
        }
    }
    return best;
}

static void count_right(void *context, const struct pen_stage *stage,
                        const void *stash, const struct pen_batch *batch)
{
    struct score *score = context;
    const struct pen_trainer *trainer = score->trainer;
    struct pen_engine *engine = trainer->engine;
    const void *logits = pen_network_logits(stage->network, stash);
    if (score->logits != NULL) {
        engine->ops->copy(engine, logits, score->logits, score->logit_bytes);
        pen_engine_await(engine);
        logits = score->logits;
    }
    for (size_t i = 0; i < trainer->options.micro_batch; i++)
        if (batch->targets[i] != PEN_NO_TARGET)
            score->num_right += guess(trainer, logits, i) == batch->targets[i];
}

static pen_status make_score(struct pen_trainer *trainer, struct score *score)
{
    const struct pen_engine *engine = trainer->engine;
    if (trainer->num_labels == 0 || engine->ops->is_host)
        return PEN_OK;
    score->logit_bytes = trainer->options.micro_batch * trainer->num_labels *
                         pen_precision_bytes(engine->dtype);
    score->logits =
        pen_engine_take(trainer->engine, PEN_PLACE_STAGING, score->logit_bytes);
    return score->logits == NULL ? PEN_NOMEM : PEN_OK;
}

/* ---- a schedule of forwards, of one micro-batch per replica ---- */

static pen_status add_forward(struct pen_schedule *schedule, uint32_t stage,
                              uint32_t slice)
{
    const struct pen_shape *shape = &schedule->shape;
    uint32_t rank = pen_shape_rank_of(shape, stage);
    const struct {
        enum pen_op_kind kind;
        bool is_here;
    } ops[] = {{PEN_OP_RECV_ACT,
                pen_shape_is_remote(shape, stage,
                                    pen_shape_previous_stage(shape, stage))},
               {PEN_OP_FORWARD, true},
               {PEN_OP_SEND_ACT,
                pen_shape_is_remote(shape, stage,
                                    pen_shape_next_stage(shape, stage))}};
    pen_status status = PEN_OK;
    for (size_t i = 0; i < 3 && status == PEN_OK; i++) {
        struct pen_op op = pen_op_make(ops[i].kind, stage, 0);
        op.slice = (uint16_t)slice;
        if (ops[i].is_here)
            status = pen_schedule_add(schedule, rank, op);
    }
    return status;
}

static pen_status add_forwards(struct pen_schedule *schedule)
{
    const struct pen_shape *shape = &schedule->shape;
    pen_status status = PEN_OK;
    for (uint32_t s = 0; s < pen_shape_parts(shape); s++)
        for (uint32_t i = 0; i < shape->num_slices && status == PEN_OK; i++)
            status = add_forward(schedule, s, i);
    return status;
}

/*
 * Borrows the stages of the first copy, with the room of the stages that train.
 */
static pen_status borrow_stages(struct pen_trainer *trainer,
                                struct pen_stage **out, uint32_t *num_stages)
{
    const struct pen_shape *shape = &trainer->layout.shape;
    uint32_t count = pen_trainer_num_stages(trainer);
    struct pen_stage *stages = calloc(count, sizeof *stages);
    if (stages == NULL)
        return PEN_NOMEM;
    *num_stages = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct pen_stage *from = pen_executor_stage(trainer->executor, i);
        if (pen_shape_copy_of_stage(shape, from->stage) == 0 &&
            pen_stage_borrow(from, shape->num_microbatches,
                             &stages[(*num_stages)++]) != PEN_OK) {
            for (uint32_t k = 0; k < *num_stages; k++)
                pen_stage_release(&stages[k]);
            free(stages);
            return PEN_NOMEM;
        }
    }
    *out = stages;
    return PEN_OK;
}

pen_status pen__trainer_make_evaluator(struct pen_trainer *trainer,
                                       struct pen_text *why)
{
    struct pen_executor_options options = {
        .transport = trainer->options.transport,
        .layout = trainer->layout,
        .sample = trainer->options.sample,
        .micro_batch = trainer->options.micro_batch,
        .num_per_step = 1};
    const struct pen_executor_options trains =
        pen__trainer_executor_options(trainer);
    if (trainer->layout.drops_values) /* others wait for what is owned here */
        options.hooks =
            (struct pen_executor_hooks){.context = trains.hooks.context,
                                        .poll = trains.hooks.poll,
                                        .is_busy = trains.hooks.is_busy,
                                        .visit = trains.hooks.visit};
    struct pen_stage *stages;
    uint32_t num_stages;
    if (trainer->evaluator != NULL || trainer->executor == NULL)
        return PEN_OK;
    pen_status status = pen_schedule_create("forward", &trainer->layout.shape,
                                            &trainer->evaluation, why);
    if (status == PEN_OK)
        status = add_forwards(trainer->evaluation);
    options.schedule = trainer->evaluation;
    if (status == PEN_OK)
        status = borrow_stages(trainer, &stages, &num_stages);
    if (status == PEN_OK)
        status = pen_executor_create(&options, stages, num_stages,
                                     &trainer->evaluator, why);
    return status;
}

pen_status pen__trainer_run_evaluator(struct pen_trainer *trainer,
                                      struct pen_pass *pass,
                                      struct pen_text *why)
{
    bool gathers = trainer->layout.drops_values;
    pen__trainer_set_executor(trainer, trainer->evaluator);
    if (gathers)
        pen_exchange_set_executor(trainer->exchange, trainer->evaluator);
    pen_status status = pen_executor_run(trainer->evaluator, pass, why);
    pen__trainer_set_executor(trainer, trainer->executor);
    if (gathers)
        pen_exchange_set_executor(trainer->exchange, trainer->executor);
    return status;
}

/* ---- evaluating ---- */

uint64_t pen__trainer_fill_groups(const struct pen_trainer *trainer,
                                  uint64_t count)
{
    const struct pen_layout *layout = &trainer->layout;
    uint64_t each = layout->drops_values ? pen_mesh_num_groups(&layout->mesh)
                                         : layout->num_experts;
    return (count + each - 1) / each * each;
}

/*
 * Sums the losses of all micro-batches, each known to one rank, and counts
 * right guesses.
 */
static pen_status run_all(struct pen_trainer *trainer,
                          struct pen_batches *batches, uint64_t count,
                          struct score *score, double *totals,
                          struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    const struct pen_layout *layout = &trainer->layout;
    size_t micro = options->micro_batch;
    uint64_t num_batches = (count + micro - 1) / micro;
    double loss = 0;
    struct pen_pass pass = {
        .batches = batches,
        .is_evaluation = true,
        .num_samples = count,
        .num_targets = (double)count * options->sample.num_targets,
        .losses = &loss,
        .scored = trainer->num_labels > 0 ? count_right : NULL,
        .context = score};
    uint32_t groups = pen_mesh_num_groups(&layout->mesh);
    uint64_t num_passes = pen__trainer_fill_groups(trainer, num_batches);
    for (uint64_t number = pen_layout_group(layout); number < num_passes;
         number += groups) {
        bool counts = number < num_batches;
        loss = 0;
        pass.number = ++trainer->num_passes;
        pass.first_sample = counts ? number * micro : 0;
        pen_status status = pen__trainer_run_evaluator(trainer, &pass, why);
        if (status != PEN_OK)
            return status;
        if (counts && pen_layout_is_first(layout))
            totals[1 + number * pen_layout_num_parts(layout) +
                   pen_layout_part(layout)] = loss;
    }
    totals[0] = (double)score->num_right;
    return PEN_OK;
}

static pen_status evaluate(struct pen_trainer *trainer,
                           struct pen_batches *batches, uint64_t count,
                           struct pen_evaluation *out, struct pen_text *why)
{
    size_t micro = trainer->options.micro_batch;
    size_t num_batches = (size_t)((count + micro - 1) / micro);
    size_t num_losses = num_batches * pen_layout_num_parts(&trainer->layout);
    double *totals = calloc(num_losses + 1, sizeof *totals);
    struct score score = {.trainer = trainer};
    pen_status status = totals == NULL ? PEN_NOMEM : PEN_OK;
    if (status == PEN_OK)
        status = pen__trainer_make_evaluator(trainer, why);
    if (status == PEN_OK)
        status = make_score(trainer, &score);
    if (status == PEN_OK)
        status = run_all(trainer, batches, count, &score, totals, why);
    if (status == PEN_OK) {
        pen_transport_sum(trainer->options.transport, totals, num_losses + 1,
                          &trainer->request);
        status = pen__trainer_await_sum(trainer, trainer->evaluator);
    }
    if (status == PEN_OK) {
        double sum = 0;
        for (size_t i = 0; i < num_losses; i++)
            sum += totals[1 + i];
        *out = (struct pen_evaluation){sum, trainer->num_labels == 0
                                                ? (double)NAN
                                                : totals[0] / (double)count};
        status =
            pen__trainer_check_evaluation(trainer, sum, batches, count, why);
    }
    pen_engine_give(trainer->engine, PEN_PLACE_STAGING, score.logits,
                    score.logit_bytes);
    free(totals);
    return status;
}

/* All ranks of all replicas. */
struct meeting {
    struct pen_transport *world;
    double count;
    struct pen_request request;
};

static bool have_met(void *context)
{
    struct meeting *meeting = context;
    return pen_transport_test(meeting->world, &meeting->request) == PEN_OK;
}

/* Waits without keeping a core busy: one replica still computes. */
static pen_status meet(struct pen_trainer *trainer)
{
    struct meeting meeting = {.world = trainer->options.world};
    pen_transport_sum(meeting.world, &meeting.count, 1, &meeting.request);
    return pen_executor_wait(trainer->executor, have_met, &meeting,
                             PEN_NO_RANK);
}

/*
 * Replicas evaluate the one model that they stand for, and the first of them
 * does it for all, so that no time of theirs is compared with another's.
 */
pen_status pen_trainer_evaluate(struct pen_trainer *trainer,
                                struct pen_batches *batches, uint64_t count,
                                struct pen_evaluation *out,
                                struct pen_text *why)
{
    struct pen_replicas *replicas = trainer->replicas;
    pen_status status = PEN_OK;
    if (replicas == NULL)
        return evaluate(trainer, batches, count, out, why);
    *out = (struct pen_evaluation){(double)NAN, (double)NAN};
    status = pen_replicas_show(replicas);
    if (status == PEN_OK && pen_replicas_number(replicas) == 0)
        status = evaluate(trainer, batches, count, out, why);
    if (status == PEN_LOST)
        return status;
    pen_status hidden = pen_replicas_hide(replicas);
    if (hidden == PEN_OK)
        hidden = meet(trainer);
    return status == PEN_OK ? hidden : status;
}

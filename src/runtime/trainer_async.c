/*
 * Schedules whose steps overlap. A pass covers several steps: every stage
 * steps by itself, as its row says, with the gradient of the micro-batches
 * since its last step. Numbers of the steps that all ranks have to know are
 * summed after the pass; each has one contributor:
 *
 *   | squares of gradients, per step and part | losses, per step and replica |
 *   ...
 */
#include "base/bug.h"
#include "base/clock.h"
#include "runtime/trainer_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t num_parts(const struct pen_trainer *trainer)
{
    return pen_shape_parts(&trainer->layout.shape);
}

/* ---- hooks of the executor ---- */

/* NULL for a stage that only sleeps. */
static struct pen_versions *versions_of(const struct pen_trainer *trainer,
                                        const struct pen_stage *stage)
{
    if (trainer->versions == NULL)
        return NULL;
    for (uint32_t i = 0; i < pen_trainer_num_stages(trainer); i++)
        if (pen_executor_stage(trainer->executor, i)->stage == stage->stage)
            return trainer->versions[i];
    return NULL;
}

static uint32_t on_use(void *context, struct pen_stage *stage,
                       const struct pen_op *op, uint32_t version)
{
    struct pen_versions *versions = versions_of(context, stage);
    return versions == NULL ? op->version
                            : pen_versions_use(versions, op, version);
}

static void on_unuse(void *context, struct pen_stage *stage,
                     const struct pen_op *op)
{
    struct pen_versions *versions = versions_of(context, stage);
    (void)op;
    if (versions != NULL)
        pen_versions_unuse(versions);
}

/* A gradient that several members have is counted by the first of them. */
static void add_squares(struct pen_trainer *trainer,
                        const struct pen_stage *stage, size_t step)
{
    struct pen_engine *engine = trainer->engine;
    double *sum = &trainer->squares[step * num_parts(trainer) + stage->part];
    if (pen_layout_member(&trainer->layout, stage->stage) != 0)
        return;
    size_t count = pen_network_num_parameters(stage->network);
    for (size_t i = 0; i < count; i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(stage->network, i);
        pen__trainer_put_square(trainer, it);
    }
    pen_engine_await(engine);
    for (size_t i = 0; i < count; i++)
        *sum += *pen__trainer_square(trainer,
                                     pen_network_parameter(stage->network, i));
}

/* A stage that only sleeps does so for its sum and its step, too. */
void pen__trainer_sleep_step(struct pen_trainer *trainer,
                             const struct pen_stage *stage)
{
    const struct pen_cost *cost = &trainer->options.sleeps[stage->part];
    pen_executor_sleep(trainer->executor, cost->sync_sec);
    int64_t begin = pen_clock_ns();
    pen_executor_sleep(trainer->executor, cost->step_sec);
    trainer->step_ns += pen_clock_ns() - begin;
}

static pen_status on_step(void *context, struct pen_stage *stage,
                          uint32_t version)
{
    struct pen_trainer *trainer = context;
    struct pen_versions *versions = versions_of(trainer, stage);
    if (trainer->is_joint)
        return pen__trainer_joint_step(trainer, stage, versions, version);
    if (versions == NULL) {
        pen__trainer_sleep_step(trainer, stage);
        return PEN_OK;
    }
    pen_status status = pen_exchange_await(trainer->exchange, stage);
    if (status != PEN_OK)
        return status;
    int64_t begin = pen_clock_ns();
    add_squares(trainer, stage, pen_versions_newest(versions));
    pen_versions_step(versions, version, 0);
    pen_exchange_clear(trainer->exchange, stage);
    trainer->step_ns += pen_clock_ns() - begin;
    return PEN_OK;
}

void pen__trainer_hook_async(struct pen_executor_hooks *hooks)
{
    hooks->use = on_use;
    hooks->unuse = on_unuse;
    hooks->step = on_step;
    hooks->layer = NULL; /* the last gradient of a pass is not that of a step */
}

/* ---- making ---- */

static size_t num_totals(const struct pen_trainer *trainer)
{
    return pen_trainer_pass_steps(trainer) *
               ((size_t)num_parts(trainer) + trainer->layout.num_logical) +
           PEN__FURTHER;
}

/* As in the paper: five warm-ups, or a quarter of the run without one. */
static uint64_t anneal_steps(const struct pen_lr_schedule *rates)
{
    return rates->warmup_iters > 0 ? 5 * rates->warmup_iters
                                   : rates->decay_iters / 4;
}

static struct pen_versions_options
wanted_versions(const struct pen_trainer_options *options, uint32_t stage,
                struct pen_network *network)
{
    const struct pen_shape *shape = &options->schedule->shape;
    return (struct pen_versions_options){
        .network = network,
        .stage = stage,
        .is_stale = options->schedule->rules.is_stale,
        .correction = {.kind = options->cures.predicts ? PEN_CORRECTION_AHEAD
                                                       : options->correction,
                       .optimizer = &options->optimizer,
                       .stage = pen_shape_part_of_stage(shape, stage),
                       .num_stages = pen_shape_parts(shape),
                       .period = options->schedule->rules.period,
                       .anneal_steps = anneal_steps(&options->rates),
                       .cures = options->cures},
        .rates = &options->rates};
}

pen_status pen_trainer_count_versions(const struct pen_trainer_options *options,
                                      uint32_t row, uint32_t stage,
                                      struct pen_version_needs *out)
{
    struct pen_versions_options wanted = wanted_versions(options, stage, NULL);
    return pen_versions_count_needs(&wanted, &options->schedule->rows[row],
                                    out);
}

static pen_status make_versions(struct pen_trainer *trainer, uint32_t index,
                                struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    const struct pen_stage *stage =
        pen_executor_stage(trainer->executor, index);
    struct pen_versions_options wanted =
        wanted_versions(options, stage->stage, stage->network);
    return pen_versions_create(&wanted,
                               &options->schedule->rows[trainer->layout.row],
                               &trainer->versions[index], why);
}

pen_status pen__trainer_make_async(struct pen_trainer *trainer,
                                   struct pen_text *why)
{
    uint32_t num_stages = pen_trainer_num_stages(trainer);
    trainer->squares = calloc(num_totals(trainer), sizeof *trainer->squares);
    trainer->norms =
        calloc(pen_trainer_pass_steps(trainer), sizeof *trainer->norms);
    if (trainer->squares == NULL || trainer->norms == NULL)
        return PEN_NOMEM;
    if (trainer->exchange == NULL)
        return PEN_OK;
    trainer->versions = calloc(num_stages, sizeof *trainer->versions);
    pen_status status = trainer->versions == NULL ? PEN_NOMEM : PEN_OK;
    for (uint32_t s = 0; s < num_stages && status == PEN_OK; s++)
        status = make_versions(trainer, s, why);
    if (status == PEN_NOMEM)
        pen_why(why, "no memory for the versions of the weights");
    return status;
}

void pen__trainer_free_async(struct pen_trainer *trainer)
{
    for (uint32_t s = 0;
         trainer->versions != NULL && s < pen_trainer_num_stages(trainer); s++)
        pen_versions_free(trainer->versions[s]);
    free(trainer->versions);
    free(trainer->squares);
    free(trainer->norms);
}

const struct pen_versions *
pen_trainer_versions(const struct pen_trainer *trainer, uint32_t stage)
{
    return trainer->versions == NULL ? NULL : trainer->versions[stage];
}

/* ---- passes of other lengths ---- */

static pen_status borrow_stages(struct pen_trainer *trainer,
                                uint32_t num_microbatches,
                                struct pen_stage **out)
{
    struct pen_executor *from =
        trainer->longest != NULL ? trainer->longest : trainer->executor;
    uint32_t count = pen_executor_num_stages(from);
    struct pen_stage *stages = calloc(count, sizeof *stages);
    pen_status status = stages == NULL ? PEN_NOMEM : PEN_OK;
    for (uint32_t i = 0; i < count && status == PEN_OK; i++)
        status = pen_stage_borrow(pen_executor_stage(from, i), num_microbatches,
                                  &stages[i]);
    if (status == PEN_OK) {
        *out = stages;
        return PEN_OK;
    }
    for (uint32_t i = 0; i < count && stages != NULL; i++)
        pen_stage_release(&stages[i]);
    free(stages);
    return status;
}

static void take_executor(struct pen_trainer *trainer,
                          struct pen_executor *executor)
{
    if (trainer->longest == NULL)
        trainer->longest = trainer->executor;
    else
        pen_executor_free(trainer->executor);
    trainer->executor = executor;
    if (trainer->exchange != NULL)
        pen_exchange_set_executor(trainer->exchange, executor);
}

static pen_status set_rows(struct pen_trainer *trainer)
{
    const struct pen_row *row =
        &trainer->options.schedule->rows[trainer->layout.row];
    pen_status status = PEN_OK;
    for (uint32_t s = 0;
         trainer->versions != NULL && s < pen_trainer_num_stages(trainer) &&
         status == PEN_OK;
         s++)
        status = pen_versions_set_row(trainer->versions[s], row);
    return status;
}

pen_status pen_trainer_set_schedule(struct pen_trainer *trainer,
                                    const struct pen_schedule *schedule,
                                    struct pen_text *why)
{
    struct pen_stage *stages;
    struct pen_executor *executor;
    PEN_BUG_UNLESS(trainer->is_asynchronous &&
                   schedule->rules.is_joint == trainer->is_joint);
    pen_status status =
        borrow_stages(trainer, schedule->shape.num_microbatches, &stages);
    if (status != PEN_OK)
        return status;
    trainer->options.schedule = schedule;
    trainer->layout.shape = schedule->shape;
    struct pen_executor_options options =
        pen__trainer_executor_options(trainer);
    status = pen_executor_create(
        &options, stages, pen_trainer_num_stages(trainer), &executor, why);
    if (status != PEN_OK)
        return status;
    take_executor(trainer, executor);
    return set_rows(trainer);
}

/* ---- the pass ---- */

uint32_t pen_trainer_pass_steps(const struct pen_trainer *trainer)
{
    return trainer->is_asynchronous
               ? pen_layout_microbatches(&trainer->layout) /
                     trainer->num_per_step
               : 1;
}

static void begin_pass(struct pen_trainer *trainer)
{
    memset(trainer->squares, 0, num_totals(trainer) * sizeof *trainer->squares);
    trainer->step_ns = 0;
    trainer->joint = (struct pen__joint){.state = PEN__JOINT_IDLE};
    if (trainer->exchange == NULL)
        return;
    pen_exchange_begin(trainer->exchange, pen_trainer_pass_steps(trainer));
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++)
        pen_versions_begin(trainer->versions[s], trainer->progress.steps);
}

static void put_losses(struct pen_trainer *trainer, double *losses)
{
    for (size_t i = 0; i < pen_trainer_pass_steps(trainer); i++)
        for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++)
            pen__trainer_put_losses(trainer,
                                    pen_executor_stage(trainer->executor, s), i,
                                    losses + i * trainer->layout.num_logical);
}

static void read_step(struct pen_trainer *trainer, size_t index, double *losses,
                      struct pen_step *out)
{
    const double *squares = trainer->squares + index * num_parts(trainer);
    uint64_t done = trainer->progress.steps;
    double sum = 0;
    for (uint32_t i = 0; i < num_parts(trainer); i++)
        sum += squares[i];
    *out = (struct pen_step){
        .step = done + 1,
        .loss = pen__trainer_join_losses(
            trainer, losses + index * trainer->layout.num_logical),
        .gradient_norm = trainer->is_joint ? trainer->norms[index] : sqrt(sum),
        .learning_rate = pen_lr_schedule_rate(&trainer->options.rates, done)};
}

/* Reads all steps up to the first that is not finite. */
static pen_status read_steps(struct pen_trainer *trainer, double *losses,
                             struct pen_step *out, struct pen_text *why)
{
    uint32_t count = pen_trainer_pass_steps(trainer);
    const double *further =
        trainer->squares + num_totals(trainer) - PEN__FURTHER;
    for (uint32_t i = 0; i < count; i++) {
        read_step(trainer, i, losses, &out[i]);
        pen_status status = pen__trainer_check_overlapping(
            &out[i], trainer->squares + (size_t)i * num_parts(trainer),
            num_parts(trainer), why);
        if (status != PEN_OK)
            return status;
        trainer->progress.steps++;
        trainer->progress.samples += trainer->options.global_batch;
        pen__trainer_read_further(further, &out[i]);
        if (i + 1 < count)
            memset(out[i].votes, 0, sizeof out[i].votes);
    }
    return PEN_OK;
}

pen_status pen__trainer_pass_async(struct pen_trainer *trainer,
                                   struct pen_batches *batches,
                                   struct pen_step *out, uint32_t *count,
                                   struct pen_text *why)
{
    struct pen_pass pass = {.number = ++trainer->num_passes,
                            .first_sample = trainer->progress.samples,
                            .batches = batches,
                            .losses = trainer->losses,
                            .takes_steps = true};
    double *losses =
        trainer->squares +
        (size_t)pen_trainer_pass_steps(trainer) * num_parts(trainer);
    int64_t begin = pen_clock_ns();
    PEN_BUG_UNLESS(trainer->progress.steps >=
                       trainer->options.cures.stale_after ||
                   pen_trainer_pass_steps(trainer) == 1);
    begin_pass(trainer);
    pen_status status = pen_executor_run(trainer->executor, &pass, why);
    trainer->has_failed_alone = status != PEN_OK && status != PEN_LOST;
    if (status == PEN_OK && trainer->is_joint && trainer->exchange != NULL)
        status = pen_exchange_end(trainer->exchange);
    if (status != PEN_OK)
        return status;
    put_losses(trainer, losses);
    pass.busy_ns += trainer->step_ns;
    status = pen__trainer_sum(trainer, trainer->squares, num_totals(trainer),
                              &pass, pen_clock_ns() - begin);
    if (status != PEN_OK)
        return status;
    *count = pen_trainer_pass_steps(trainer);
    return read_steps(trainer, losses, out, why);
}

/*
 * The step: a pass over the row, then what all ranks have to know. That is one
 * sum over all ranks of numbers of which each has one contributor, so that it
 * is exact in whatever order MPI adds:
 *
 *   | squares of gradients, per tensor | losses, per logical replica | ...
 *
 *   PASS --row done--> SUMMING --all ranks know--> JUDGED --finite--> UPDATING
 *    ^                                               |                   |
 *    |       not finite, first time: statistics      |                   v
 *    +------ restored, computed once more -----------+                 VOTED
 *                                                    |                   ^
 *       not finite again: the training ends, or      |                   |
 *       --on-nan skip counts the step as taken ------+-------------------+
 *
 * trainer_ahead.c has steps that update before JUDGED, trainer_async.c and
 * trainer_joint.c those of stages that do not step together.
 */
#include "base/bug.h"
#include "base/clock.h"
#include "base/log.h"
#include "group/tree.h"
#include "network/images.h"
#include "runtime/replicas_internal.h"
#include "runtime/trainer_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The totals after the two arrays. */
enum { BUSY_NS, PASS_NS, IMBALANCE, ROUTINGS, DROPPED, VOTES };

static uint32_t numbers_of(const struct pen_trainer *trainer)
{
    return pen_tensor_numbers(trainer->options.model,
                              trainer->options.logical_tensor);
}

size_t pen__trainer_num_squares(const struct pen_trainer *trainer)
{
    return (size_t)pen_any_model_num_tensors(trainer->options.model) *
           numbers_of(trainer);
}

double *pen__trainer_square(const struct pen_trainer *trainer,
                            const struct pen_network_parameter *parameter)
{
    return &trainer->totals[(size_t)parameter->slices[0].tensor *
                                numbers_of(trainer) +
                            parameter->number];
}

void pen__trainer_put_square(const struct pen_trainer *trainer,
                             const struct pen_network_parameter *parameter)
{
    double *square = pen__trainer_square(trainer, parameter);
    if (parameter->role == PEN_ROLE_FIXED)
        *square = 0;
    else
        trainer->engine->ops->gradient_sum_squares(
            trainer->engine, parameter->parameter, square);
}

static double *losses_of(const struct pen_trainer *trainer)
{
    return trainer->totals + pen__trainer_num_squares(trainer);
}

static double *further_of(const struct pen_trainer *trainer)
{
    return losses_of(trainer) + trainer->layout.num_logical;
}

/* The running statistics of an image model, or NULL. */
static void *statistics_of(struct pen_trainer *trainer, size_t *bytes)
{
    if (trainer->exchange == NULL)
        return NULL;
    return pen_network_statistics(pen_trainer_network(trainer, 0), bytes);
}

pen_status pen__trainer_make_totals(struct pen_trainer *trainer)
{
    trainer->num_totals = pen__trainer_num_squares(trainer) +
                          trainer->layout.num_logical + PEN__FURTHER;
    trainer->totals =
        pen_engine_take(trainer->engine, PEN_PLACE_STAGING,
                        trainer->num_totals * sizeof *trainer->totals);
    trainer->losses =
        calloc(trainer->layout.shape.num_microbatches, sizeof *trainer->losses);
    size_t bytes;
    if (statistics_of(trainer, &bytes) != NULL) {
        trainer->statistics = malloc(bytes);
        if (trainer->statistics == NULL)
            return PEN_NOMEM;
    }
    return trainer->totals == NULL || trainer->losses == NULL ? PEN_NOMEM
                                                              : PEN_OK;
}

bool pen_trainer_has_failed_alone(const struct pen_trainer *trainer)
{
    return trainer->has_failed_alone;
}

void pen_trainer_vote(struct pen_trainer *trainer, enum pen_vote vote)
{
    trainer->votes[vote] = 1;
}

/* ---- what this rank contributes ---- */

/* A gradient that several members have is counted by the first of them. */
static void add_squares(struct pen_trainer *trainer, uint32_t index)
{
    struct pen_engine *engine = trainer->engine;
    const struct pen_stage *stage =
        pen_executor_stage(trainer->executor, index);
    const struct pen_network *network = stage->network;
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(network, i);
        bool is_first = pen_layout_comes_first(&trainer->layout, stage->stage,
                                               it->num_dealt);
        if ((is_first || trainer->options.sharding != PEN_SHARDING_NONE) &&
            !it->is_copy && pen_exchange_owns(trainer->exchange, index, i))
            pen__trainer_put_square(trainer, it);
    }
    pen_engine_await(engine);
}

/*
 * Losses of each logical replica of this rank, over its micro-batches in order.
 */
void pen__trainer_put_losses(const struct pen_trainer *trainer,
                             const struct pen_stage *stage, size_t step,
                             double *out)
{
    const struct pen_layout *layout = &trainer->layout;
    uint32_t share = pen_layout_copy_share(layout);
    uint32_t per_replica = trainer->num_per_step / share;
    uint32_t users = pen_shape_users(&layout->shape, stage->stage);
    size_t copy = pen_shape_copy_of_stage(&layout->shape, stage->stage);
    if (!stage->has_head || !pen_layout_is_first(layout))
        return;
    out +=
        pen_layout_first_logical(layout, pen_layout_copy(layout, stage->stage));
    for (uint32_t r = 0; r < users * share; r++) {
        const double *losses =
            trainer->losses +
            (copy + r / share) * pen_layout_microbatches(layout) +
            step * trainer->num_per_step + r % share * (size_t)per_replica;
        out[r] = 0;
        for (uint32_t i = 0; i < per_replica; i++)
            out[r] += losses[i];
    }
}

static bool is_summed(void *context)
{
    struct pen_trainer *trainer = context;
    return pen_transport_test(trainer->options.transport, &trainer->request) ==
           PEN_OK;
}

/* After a loss nothing resumes: see pen_executor_wait(). */
pen_status pen__trainer_await_sum(struct pen_trainer *trainer,
                                  struct pen_executor *executor)
{
    const struct pen_executor_hooks *watch = &trainer->options.watch;
    if (executor != NULL)
        return pen_executor_wait(executor, is_summed, trainer, PEN_NO_RANK);
    if (watch->wait != NULL)
        watch->wait(watch->context, PEN_NO_RANK);
    pen_status status =
        pen_transport_wait(trainer->options.transport, &trainer->request);
    if (status == PEN_OK && watch->resume != NULL)
        watch->resume(watch->context);
    return status;
}

static void put_further(struct pen_trainer *trainer, double *further,
                        const struct pen_pass *pass, int64_t pass_ns)
{
    const struct pen_trainer_options *options = &trainer->options;
    if (options->vote != NULL)
        options->vote(options->voter);
    further[BUSY_NS] = (double)pass->busy_ns;
    further[PASS_NS] = trainer->executor == NULL ? 0 : (double)pass_ns;
    struct pen_routings routings = {.count = 0};
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++) {
        struct pen_network *network =
            pen_executor_stage(trainer->executor, s)->network;
        if (network != NULL)
            pen_network_take_routings(network, &routings);
    }
    further[IMBALANCE] = routings.imbalance;
    further[ROUTINGS] = routings.count;
    further[DROPPED] = routings.dropped;
    memcpy(further + VOTES, trainer->votes, sizeof trainer->votes);
    memset(trainer->votes, 0, sizeof trainer->votes);
}

pen_status pen__trainer_sum(struct pen_trainer *trainer, double *totals,
                            size_t count, const struct pen_pass *pass,
                            int64_t pass_ns)
{
    put_further(trainer, totals + count - PEN__FURTHER, pass, pass_ns);
    pen_transport_sum(trainer->options.transport, totals, count,
                      &trainer->request);
    return pen__trainer_await_sum(trainer, trainer->executor);
}

void pen__trainer_put_totals(struct pen_trainer *trainer,
                             const struct pen_pass *pass, int64_t pass_ns)
{
    memset(trainer->totals, 0, trainer->num_totals * sizeof *trainer->totals);
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++) {
        if (trainer->exchange != NULL)
            add_squares(trainer, s);
        pen__trainer_put_losses(trainer,
                                pen_executor_stage(trainer->executor, s), 0,
                                losses_of(trainer));
    }
    put_further(trainer, further_of(trainer), pass, pass_ns);
}

static pen_status sum_totals(struct pen_trainer *trainer,
                             const struct pen_pass *pass, int64_t pass_ns)
{
    pen__trainer_put_totals(trainer, pass, pass_ns);
    pen_transport_sum(trainer->options.transport, trainer->totals,
                      trainer->num_totals, &trainer->request);
    return pen__trainer_await_sum(trainer, trainer->executor);
}

/* ---- what all know then ---- */

double pen__trainer_join_losses(const struct pen_trainer *trainer,
                                double *losses)
{
    for (struct pen_tree at = {.size = trainer->layout.num_logical};
         pen_tree_next(&at);)
        losses[at.to] += losses[at.from];
    return losses[0];
}

double pen__trainer_total_norm(const struct pen_trainer *trainer)
{
    double sum = 0;
    for (size_t i = 0; i < pen__trainer_num_squares(trainer); i++)
        sum += trainer->totals[i];
    return sqrt(sum);
}

void pen__trainer_read_further(const double *further, struct pen_step *out)
{
    out->wait_share = 1 - further[BUSY_NS] / further[PASS_NS];
    out->expert_imbalance = further[ROUTINGS] > 0
                                ? further[IMBALANCE] / further[ROUTINGS]
                                : (double)NAN;
    out->dropped_tokens =
        further[ROUTINGS] > 0 ? further[DROPPED] : (double)NAN;
    memcpy(out->votes, further + VOTES, sizeof out->votes);
}

void pen__trainer_read_totals(const struct pen_trainer *trainer,
                              struct pen_step *out)
{
    out->loss = pen__trainer_join_losses(trainer, losses_of(trainer));
    out->gradient_norm = pen__trainer_total_norm(trainer);
    pen__trainer_read_further(further_of(trainer), out);
}

void pen__trainer_optimize(struct pen_trainer *trainer,
                           const struct pen_step *step)
{
    const struct pen_optimizer *optimizer = &trainer->options.optimizer;
    struct pen_update with = {.learning_rate = step->learning_rate,
                              .step = step->step,
                              .norm = step->gradient_norm};
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++) {
        struct pen_network *network = pen_trainer_network(trainer, s);
        for (size_t i = 0; i < pen_network_num_parameters(network); i++)
            if (pen_exchange_owns(trainer->exchange, s, i))
                pen_optimizer_step(optimizer, network, i, &with);
    }
}

pen_status pen__trainer_update(struct pen_trainer *trainer,
                               const struct pen_step *step)
{
    pen_status status = PEN_OK;
    if (trainer->replicas != NULL)
        status = pen__replicas_step(trainer->replicas, step);
    else
        pen__trainer_optimize(trainer, step);
    return status == PEN_OK ? pen_exchange_values(trainer->exchange) : status;
}

/* Stages that only sleep do so for their sums and for their steps, too. */
static void sleep_sums(struct pen_trainer *trainer)
{
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++)
        pen_executor_sleep(
            trainer->executor,
            trainer->options
                .sleeps[pen_executor_stage(trainer->executor, s)->part]
                .sync_sec);
}

static void sleep_steps(struct pen_trainer *trainer)
{
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++)
        pen_executor_sleep(
            trainer->executor,
            trainer->options
                .sleeps[pen_executor_stage(trainer->executor, s)->part]
                .step_sec);
}

/*
 * Reports the step op of this rank to the recorder: waited from, stepped from.
 */
static void tell_step(const struct pen_trainer *trainer, int64_t begin,
                      int64_t ready)
{
    const struct pen_executor_hooks *watch = &trainer->options.watch;
    const struct pen_row *row =
        &trainer->options.schedule->rows[trainer->layout.row];
    for (uint32_t i = row->count; i-- > 0 && watch->done != NULL;)
        if (row->ops[i].kind == PEN_OP_STEP) {
            watch->done(watch->context, trainer->num_passes, i, begin, ready,
                        pen_clock_ns());
            return;
        }
}

uint64_t pen__trainer_step_samples(const struct pen_trainer *trainer)
{
    const struct pen_trainer_options *options = &trainer->options;
    return trainer->replicas == NULL
               ? options->global_batch
               : options->global_batch *
                     pen_replicas_num_shares(trainer->replicas);
}

uint64_t pen__trainer_sample_offset(const struct pen_trainer *trainer)
{
    return trainer->replicas == NULL
               ? 0
               : trainer->options.global_batch *
                     pen_replicas_share(trainer->replicas);
}

/* ---- running statistics, of images ---- */

static void keep_statistics(struct pen_trainer *trainer)
{
    size_t bytes;
    const void *from = statistics_of(trainer, &bytes);
    if (from != NULL)
        memcpy(trainer->statistics, from, bytes);
}

static void restore_statistics(struct pen_trainer *trainer)
{
    size_t bytes;
    void *to = statistics_of(trainer, &bytes);
    if (to != NULL)
        memcpy(to, trainer->statistics, bytes);
}

/* ---- the step ---- */

/* When a step waited for its sums, and when it knew them. */
struct step_times {
    int64_t behind;
    int64_t ready;
};

static uint64_t first_sample(const struct pen_trainer *trainer)
{
    return trainer->progress.samples + pen__trainer_sample_offset(trainer);
}

static pen_status sum_up(struct pen_trainer *trainer,
                         const struct pen_pass *pass, struct pen_step *step,
                         int64_t begin)
{
    pen_status status = PEN_OK;
    if (trainer->exchange != NULL)
        status = pen_exchange_finish(trainer->exchange);
    else if (trainer->options.sleeps != NULL)
        sleep_sums(trainer);
    if (status == PEN_OK && trainer->replicas != NULL)
        status = pen__replicas_before_step(trainer->replicas, step);
    if (status == PEN_OK)
        status = sum_totals(trainer, pass, pen_clock_ns() - begin);
    return status;
}

/* Computes the next step up to its loss and norm; nothing is updated. */
static pen_status compute_step(struct pen_trainer *trainer,
                               struct pen_batches *batches,
                               struct pen_step *step, struct step_times *times,
                               struct pen_text *why)
{
    *step = (struct pen_step){
        .step = trainer->progress.steps + 1,
        .learning_rate = pen_lr_schedule_rate(&trainer->options.rates,
                                              trainer->progress.steps)};
    struct pen_pass pass = {.number = ++trainer->num_passes,
                            .first_sample = first_sample(trainer),
                            .batches = batches,
                            .losses = trainer->losses};
    pen__trainer_watch_outputs(trainer, &pass);
    pen__trainer_begin_probing(trainer, step, &pass);
    int64_t begin = pen_clock_ns();
    if (trainer->exchange != NULL)
        pen_exchange_begin(trainer->exchange, 1);
    pen_status status = PEN_OK;
    if (trainer->executor != NULL)
        status = pen_executor_run(trainer->executor, &pass, why);
    trainer->has_failed_alone = status != PEN_OK && status != PEN_LOST;
    if (status != PEN_OK)
        return status;
    times->behind = pen_clock_ns();
    status = sum_up(trainer, &pass, step, begin);
    if (status != PEN_OK)
        return status;
    times->ready = pen_clock_ns();
    pen__trainer_read_totals(trainer, step);
    pen__trainer_probe_parameters(trainer, PEN_PROBE_GRADIENTS);
    return PEN_OK;
}

/*
 * Whether a step can be computed again. A method that sends gradients has
 * already sent those that are not finite.
 */
static bool can_repeat(const struct pen_trainer *trainer)
{
    return trainer->options.sleeps == NULL &&
           (trainer->replicas == NULL ||
            pen_replicas_choice(trainer->replicas)->method->before_step ==
                NULL);
}

static void warn_of_suspect(const struct pen_trainer *trainer,
                            const struct pen_step *step,
                            const struct pen_text *suspect)
{
    if (pen_transport_rank(trainer->options.transport) == 0)
        pen_log(PEN_LOG_WARN,
                "step %" PRIu64 " was not finite when it was computed first, "
                "and is finite when computed again from the same weights and "
                "samples; the run resumes with that. The first time %s: "
                "suspect the hardware of that machine",
                step->step, pen_text_string(suspect));
}

/*
 * Computes the step again from the same weights and samples, and keeps the
 * votes of the first time.
 */
static pen_status compute_again(struct pen_trainer *trainer, uint64_t pass,
                                struct pen_batches *batches,
                                struct pen_step *step, struct step_times *times,
                                struct pen_text *why)
{
    struct pen_step before = *step;
    struct pen_text suspect = PEN_TEXT_EMPTY;
    restore_statistics(trainer);
    pen_status status = pen__trainer_name_suspect(trainer, pass, &suspect);
    if (status == PEN_OK)
        status = compute_step(trainer, batches, step, times, why);
    if (status == PEN_OK) {
        step->is_repeated = true;
        for (int i = 0; i < PEN_VOTES; i++)
            step->votes[i] = fmax(step->votes[i], before.votes[i]);
        if (pen__trainer_is_finite(step))
            warn_of_suspect(trainer, step, &suspect);
    }
    pen_text_release(&suspect);
    return status;
}

/* Ends a step by the numbers that all ranks know. */
static pen_status end_step(struct pen_trainer *trainer,
                           struct pen_batches *batches, struct pen_step *step,
                           const struct step_times *times, struct pen_text *why)
{
    pen_status status = pen__trainer_check_step(trainer, step, batches,
                                                first_sample(trainer), why);
    if (status != PEN_OK || step->is_skipped)
        restore_statistics(trainer);
    else if (trainer->exchange != NULL)
        status = pen__trainer_update(trainer, step);
    else if (trainer->options.sleeps != NULL)
        sleep_steps(trainer);
    if (status != PEN_OK)
        return status;
    if (trainer->executor != NULL)
        tell_step(trainer, times->behind, times->ready);
    trainer->progress.steps++;
    trainer->progress.samples += pen__trainer_step_samples(trainer);
    return trainer->replicas == NULL
               ? PEN_OK
               : pen__replicas_vote(trainer->replicas, step);
}

/* Takes a step with a sum over all ranks before the update. */
static pen_status take_step(struct pen_trainer *trainer,
                            struct pen_batches *batches, struct pen_step *out,
                            struct pen_text *why)
{
    struct pen_step step;
    struct step_times times;
    keep_statistics(trainer);
    pen_status status = compute_step(trainer, batches, &step, &times, why);
    if (status == PEN_OK && !pen__trainer_is_finite(&step) &&
        can_repeat(trainer))
        status = compute_again(trainer, trainer->num_passes, batches, &step,
                               &times, why);
    if (status == PEN_OK)
        status = end_step(trainer, batches, &step, &times, why);
    if (status == PEN_OK)
        status = pen__trainer_end_probing(trainer, &step);
    if (status == PEN_OK)
        *out = step;
    return status;
}

pen_status pen__trainer_step_again(struct pen_trainer *trainer, uint64_t pass,
                                   struct pen_batches *batches,
                                   struct pen_step *step, struct pen_text *why)
{
    struct step_times times;
    trainer->progress.steps--;
    trainer->progress.samples -= pen__trainer_step_samples(trainer);
    pen_status status =
        compute_again(trainer, pass, batches, step, &times, why);
    return status == PEN_OK ? end_step(trainer, batches, step, &times, why)
                            : status;
}

pen_status pen_trainer_pass(struct pen_trainer *trainer,
                            struct pen_batches *batches, struct pen_step *out,
                            uint32_t *count, struct pen_text *why)
{
    PEN_BUG_UNLESS(!trainer->options.is_forward_only);
    if (trainer->is_asynchronous)
        return pen__trainer_pass_async(trainer, batches, out, count, why);
    if (pen__trainer_goes_ahead(trainer))
        return pen__trainer_pass_ahead(trainer, batches, out, count, why);
    pen_status status = take_step(trainer, batches, out, why);
    if (status == PEN_OK)
        *count = 1;
    return status;
}

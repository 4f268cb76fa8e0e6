/*
 * Optimistic steps (rules.is_optimistic): the update goes ahead at its STEP and
 * is validated afterwards, as in section 4 of "Zero Bubble Pipeline
 * Parallelism" (arXiv 2401.10241). Ranks go from the end of a row into the next
 * one without waiting for each other:
 *
 *   row k      ... W  STEP            row k+1   F F F | gate  I W ...
 *                     | sum starts ........ sum known ^
 *
 * 1. STEP keeps values and moments, starts the sum over all ranks and updates
 *    as if nothing had to be clipped.
 * 2. Up to its gate (schedule.h) the next row has forwards alone: gradients of
 *    the last step are still there.
 * 3. At the gate every rank knows the same sum. Where the step was right the
 *    row continues. Where it was to be clipped, all ranks throw away what they
 *    did of the row, restore, update with the norm and begin the row again.
 *    Where it is not finite they restore, and compute it once more by itself
 *    (trainer_step.c).
 * 4. The step after one that was clipped waits for its norm, so that a run
 *    whose every step is clipped is not slower than with a sum before the
 *    update.
 */
#include "base/bug.h"
#include "base/clock.h"
#include "runtime/trainer_internal.h"
#include "runtime/transport_group.h"

bool pen__trainer_goes_ahead(const struct pen_trainer *trainer)
{
    return trainer->ahead.sum != NULL && trainer->replicas == NULL;
}

uint64_t pen_trainer_num_redone(const struct pen_trainer *trainer)
{
    return trainer->ahead.num_redone;
}

/* ---- making ---- */

/* The sum travels up and down the ranks: it does not wait while they enter
 * their next row, which pen_transport_sum() does under a simulated MPI. */
static pen_status make_sum(struct pen_trainer *trainer)
{
    struct pen__ahead *ahead = &trainer->ahead;
    const struct pen_transport_group_options all = {
        .transport = trainer->options.transport,
        .executor = trainer->executor,
        .first = {PEN_TAG_TOTAL, 0},
        .num_kinds = 1,
        .epoch = trainer->layout.mesh.epoch};
    pen_status status = pen_transport_group_all(&all, &ahead->all);
    if (status != PEN_OK)
        return status;
    const struct pen_sum_options options = {.group = ahead->all,
                                            .route = PEN_SUM_HOPS,
                                            .is_double = true,
                                            .most = trainer->num_totals};
    return pen_sum_create(&options, &ahead->sum);
}

pen_status pen__trainer_make_ahead(struct pen_trainer *trainer,
                                   struct pen_text *why)
{
    struct pen__ahead *ahead = &trainer->ahead;
    uint32_t num_ranks = trainer->options.num_ranks;
    bool has_idle = num_ranks != 0 &&
                    num_ranks < pen_transport_size(trainer->options.transport);
    if (trainer->options.is_forward_only || has_idle ||
        trainer->options.probe != NULL ||
        !trainer->options.schedule->rules.is_optimistic)
        return PEN_OK;
    pen_status status = make_sum(trainer);
    if (status == PEN_OK && trainer->exchange != NULL &&
        trainer->options.phantom == NULL)
        status = pen_saved_state_create(trainer->executor, trainer->exchange,
                                        &ahead->saved);
    if (status == PEN_NOMEM)
        pen_why(why, "no memory for a copy of the weights and moments");
    return status;
}

void pen__trainer_free_ahead(struct pen_trainer *trainer)
{
    struct pen__ahead *ahead = &trainer->ahead;
    pen_saved_state_free(ahead->saved);
    pen_sum_free(ahead->sum);
    pen_transport_group_free(ahead->all);
    *ahead = (struct pen__ahead){.num_redone = ahead->num_redone};
}

/* ---- validation ---- */

static bool is_clipped(const struct pen_trainer *trainer)
{
    return pen_optimizer_clip(&trainer->options.optimizer,
                              trainer->ahead.step.gradient_norm) < 1;
}

/* Whether the parameters are what they must be. */
static bool is_right(const struct pen_trainer *trainer)
{
    const struct pen__ahead *ahead = &trainer->ahead;
    return pen__trainer_is_finite(&ahead->step) &&
           (ahead->is_exact || !is_clipped(trainer));
}

void pen__trainer_poll_ahead(struct pen_trainer *trainer)
{
    struct pen__ahead *ahead = &trainer->ahead;
    if (ahead->state == PEN__AHEAD_SUMMING &&
        pen_sum_poll(ahead->sum) == PEN_OK) {
        pen__trainer_read_totals(trainer, &ahead->step);
        ahead->state = PEN__AHEAD_KNOWN;
    }
    if (ahead->state == PEN__AHEAD_KNOWN && ahead->pass != NULL &&
        ahead->pass->is_gated && is_right(trainer))
        pen_executor_open(trainer->executor);
}

static bool is_known(void *context)
{
    struct pen_trainer *trainer = context;
    pen__trainer_poll_ahead(trainer);
    return trainer->ahead.state == PEN__AHEAD_KNOWN;
}

static bool is_quiet(void *context)
{
    const struct pen_trainer *trainer = context;
    return pen_sum_is_quiet(trainer->ahead.sum);
}

/* Back to the parameters before the step, where it changed them. */
static pen_status undo(struct pen_trainer *trainer)
{
    struct pen__ahead *ahead = &trainer->ahead;
    if (ahead->saved == NULL || ahead->is_exact)
        return PEN_OK;
    pen_saved_state_restore(ahead->saved);
    return pen_exchange_values(trainer->exchange);
}

/* The sum is known: validates the step; *is_again: it was wrong, and was
 * undone. INVALID where it was undone because it is not finite. */
static pen_status settle(struct pen_trainer *trainer, bool *is_again,
                         struct pen_text *why)
{
    struct pen__ahead *ahead = &trainer->ahead;
    ahead->state = PEN__AHEAD_IDLE;
    ahead->is_wary = is_clipped(trainer);
    *is_again = !is_right(trainer);
    pen_status status = *is_again ? undo(trainer) : PEN_OK;
    if (status != PEN_OK)
        return status;
    ahead->is_refused = !pen__trainer_is_finite(&ahead->step);
    if (ahead->is_refused)
        return PEN_INVALID;
    status = pen__trainer_check_step(trainer, &ahead->step, ahead->batches,
                                     ahead->first_sample, why);
    if (status != PEN_OK || !*is_again)
        return status;
    ahead->num_redone++;
    return trainer->exchange == NULL
               ? PEN_OK
               : pen__trainer_update(trainer, &ahead->step);
}

/* Hook of the executor, at the gate. */
static pen_status on_validate(void *context, bool *is_again,
                              struct pen_text *why)
{
    struct pen_trainer *trainer = context;
    struct pen__ahead *ahead = &trainer->ahead;
    pen_status status =
        pen_executor_wait(trainer->executor, is_known, trainer, PEN_NO_RANK);
    if (status == PEN_OK && !is_right(trainer))
        status = pen_executor_rewind(trainer->executor);
    if (status != PEN_OK)
        return status;
    status = settle(trainer, is_again, why);
    ahead->valid = ahead->step;
    if (status == PEN_OK && trainer->exchange != NULL)
        pen_exchange_begin(trainer->exchange, 1);
    return status;
}

/* The refused step, by itself, as in a schedule that is not optimistic. */
static pen_status step_again(struct pen_trainer *trainer, struct pen_text *why)
{
    struct pen__ahead *ahead = &trainer->ahead;
    ahead->is_refused = false;
    return pen__trainer_step_again(trainer, ahead->number, ahead->batches,
                                   &ahead->step, why);
}

pen_status pen_trainer_settle(struct pen_trainer *trainer, struct pen_step *out,
                              uint32_t *count, struct pen_text *why)
{
    struct pen__ahead *ahead = &trainer->ahead;
    bool is_again;
    *count = 0;
    if (ahead->state == PEN__AHEAD_IDLE)
        return PEN_OK;
    pen_status status = pen_executor_finish(trainer->executor);
    if (status == PEN_OK)
        status = pen_executor_wait(trainer->executor, is_known, trainer,
                                   PEN_NO_RANK);
    if (status == PEN_OK)
        status = pen_executor_wait(trainer->executor, is_quiet, trainer,
                                   PEN_NO_RANK);
    if (status == PEN_OK)
        status = settle(trainer, &is_again, why);
    if (ahead->is_refused)
        status = step_again(trainer, why);
    if (status == PEN_OK) {
        *out = ahead->step;
        *count = 1;
    }
    return status;
}

/* ---- the step ---- */

/* The gradients of all stages of this rank are summed over members. */
static pen_status start_sum(struct pen_trainer *trainer)
{
    struct pen__ahead *ahead = &trainer->ahead;
    PEN_BUG_UNLESS(ahead->state == PEN__AHEAD_IDLE);
    pen_status status =
        pen_executor_wait(trainer->executor, is_quiet, trainer, PEN_NO_RANK);
    if (status != PEN_OK)
        return status;
    pen__trainer_put_totals(trainer, ahead->pass,
                            pen_clock_ns() - ahead->begin_ns);
    ahead->step = (struct pen_step){
        .step = trainer->progress.steps + 1,
        .learning_rate = pen_lr_schedule_rate(&trainer->options.rates,
                                              trainer->progress.steps)};
    ahead->batches = ahead->pass->batches;
    ahead->first_sample = ahead->pass->first_sample;
    ahead->number = ahead->pass->number;
    ahead->is_exact = false;
    ahead->state = PEN__AHEAD_SUMMING;
    const struct pen_sum_job job = {.way = PEN_SUM_BOTH,
                                    .values = trainer->totals,
                                    .count = trainer->num_totals};
    pen_sum_begin(ahead->sum, &job);
    pen_executor_poll(trainer->executor);
    return PEN_OK;
}

static pen_status take_step(struct pen_trainer *trainer)
{
    struct pen__ahead *ahead = &trainer->ahead;
    pen_status status = pen_exchange_finish(trainer->exchange);
    if (status == PEN_OK)
        status = start_sum(trainer);
    if (status == PEN_OK && ahead->is_wary)
        status = pen_executor_wait(trainer->executor, is_known, trainer,
                                   PEN_NO_RANK);
    if (status != PEN_OK)
        return status;
    if (ahead->is_wary) {
        ahead->is_exact = true;
        if (!pen__trainer_is_finite(&ahead->step))
            return PEN_OK;
    } else if (ahead->saved != NULL) {
        pen_saved_state_keep(ahead->saved);
    }
    struct pen_step step = ahead->step;
    if (!ahead->is_exact)
        step.gradient_norm = 0; /* nothing is clipped */
    return pen__trainer_update(trainer, &step);
}

/* Hook of the executor. The last STEP of a row steps all stages of the rank. */
static pen_status on_step(void *context, struct pen_stage *stage,
                          uint32_t version)
{
    struct pen_trainer *trainer = context;
    const struct pen_cost *sleeps = trainer->options.sleeps;
    (void)version;
    bool is_last =
        ++trainer->ahead.num_stepped == pen_trainer_num_stages(trainer);
    if (sleeps != NULL)
        pen_executor_sleep(trainer->executor, sleeps[stage->part].sync_sec);
    pen_status status = PEN_OK;
    if (is_last)
        status =
            trainer->exchange != NULL ? take_step(trainer) : start_sum(trainer);
    if (status == PEN_OK && sleeps != NULL)
        pen_executor_sleep(trainer->executor, sleeps[stage->part].step_sec);
    return status;
}

void pen__trainer_hook_ahead(struct pen_executor_hooks *hooks)
{
    hooks->step = on_step;
    hooks->validate = on_validate;
}

/* The pass was thrown away at its gate: the step before it, and the pass. */
static pen_status repeat(struct pen_trainer *trainer,
                         struct pen_batches *batches, struct pen_step *out,
                         uint32_t *count, struct pen_text *why)
{
    pen_status status = step_again(trainer, why);
    struct pen_step step = trainer->ahead.step;
    if (status == PEN_OK)
        status = pen__trainer_pass_ahead(trainer, batches, out, count, why);
    if (status != PEN_OK)
        return status;
    *out = step;
    *count = 1;
    return PEN_OK;
}

pen_status pen__trainer_pass_ahead(struct pen_trainer *trainer,
                                   struct pen_batches *batches,
                                   struct pen_step *out, uint32_t *count,
                                   struct pen_text *why)
{
    struct pen__ahead *ahead = &trainer->ahead;
    bool is_pending = ahead->state != PEN__AHEAD_IDLE;
    struct pen_pass pass = {.number = ++trainer->num_passes,
                            .first_sample = trainer->progress.samples,
                            .batches = batches,
                            .losses = trainer->losses,
                            .takes_steps = true,
                            .is_gated = is_pending,
                            .is_chained = true};
    ahead->pass = &pass;
    ahead->begin_ns = pen_clock_ns();
    ahead->num_stepped = 0;
    pen__trainer_watch_outputs(trainer, &pass);
    if (!is_pending && trainer->exchange != NULL)
        pen_exchange_begin(trainer->exchange, 1);
    pen_status status = pen_executor_run(trainer->executor, &pass, why);
    ahead->pass = NULL;
    if (ahead->is_refused)
        return repeat(trainer, batches, out, count, why);
    if (status != PEN_OK && status != PEN_LOST)
        trainer->has_failed_alone = true;
    if (status != PEN_OK)
        return status;
    trainer->progress.steps++;
    trainer->progress.samples += pen__trainer_step_samples(trainer);
    *count = is_pending;
    if (is_pending)
        *out = ahead->valid;
    return PEN_OK;
}

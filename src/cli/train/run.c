#include "cli/train/training.h"

#include "base/log.h"
#include "runtime/agree.h"
#include "sync/islands.h"

#include <math.h>

void pen__training_predict_memory(struct pen__training *training,
                                  struct pen_trainer_memory *memory)
{
    const struct pen_checkpointer *checkpointer = training->checkpointer;
    size_t kept = 0, passing = 0;
    if (checkpointer != NULL) {
        kept = pen_checkpointer_bytes(checkpointer);
        passing = pen_checkpointer_passing_bytes(checkpointer);
    }
    if (training->commits != NULL)
        kept += pen_commits_bytes(training->commits);
    pen_trainer_predict_memory(training->trainer, kept, passing, memory);
    training->predicted_bytes = memory->total;
}

/* Evaluates samples of the validation part, each at most once. */
static pen_status evaluate(struct pen__training *training,
                           struct pen_evaluation *out, struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    uint64_t count = pen_batches_epoch(training->validation);
    uint64_t wanted = args->eval_iters * args->global_batch_size;
    pen__train_watch_note(&training->watch, PEN_BOARD_COMPUTING);
    return pen_trainer_evaluate(training->trainer, training->validation,
                                wanted < count ? wanted : count, out, why);
}

static bool is_due(uint64_t step, uint64_t interval)
{
    return interval > 0 && step % interval == 0;
}

static void note_checkpoint(struct pen__training *training)
{
    uint64_t step = 0;
    if (training->checkpointer != NULL)
        step = pen_checkpointer_durable_step(training->checkpointer);
    if (step > 0)
        pen__train_metrics_set(&training->metrics, PEN_METRIC_CHECKPOINT_STEP,
                               (double)step);
}

static pen_status report_step(struct pen__training *training,
                              const struct pen_step *step, double sec,
                              struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    struct pen_evaluation validation = {(double)NAN, (double)NAN};
    pen_status status = PEN_OK;
    if (training->validation != NULL &&
        (is_due(step->step, args->eval_interval) ||
         step->step == args->train_iters))
        status = evaluate(training, &validation, why);
    note_checkpoint(training);
    if (training->replicas.island != NULL &&
        is_due(step->step, pen_islands_steps(&training->replicas.choice)))
        pen__train_report_round(
            &training->report,
            pen_replicas_turn(pen_trainer_replicas(training->trainer)));
    if (status == PEN_OK)
        pen__train_report_step(&training->report, step, sec, &validation);
    return status;
}

static pen_status set_pass(struct pen__training *training, uint64_t done,
                           struct pen_text *why)
{
    const struct pen_schedule *schedule;
    pen_status status = pen__train_layout_set_pass(
        &training->layout, &training->args, done, &schedule, why);
    if (status != PEN_OK || schedule == NULL)
        return status;
    pen__train_watch_set_schedule(&training->watch, schedule);
    return pen_trainer_set_schedule(training->trainer, schedule, why);
}

/* Whether something needs the parameters of a step, or this one ends it all. */
static bool is_pause(const struct pen__training *training, uint64_t step)
{
    const struct pen__train_args *args = &training->args;
    return step >= args->train_iters ||
           (training->validation != NULL &&
            is_due(step, args->eval_interval)) ||
           (training->checkpointer != NULL &&
            is_due(step, args->save_interval)) ||
           (training->verifier != NULL &&
            is_due(step, args->verify_interval)) ||
           pen__train_moves_are_due(&training->moves, step);
}

/* Whether ranks want to stop or to save, or have saved. */
static bool has_wishes(const struct pen__training *training,
                       const struct pen_step *step)
{
    return step->votes[PEN_VOTE_STOP] > 0 || step->votes[PEN_VOTE_SAVE] > 0 ||
           (training->checkpointer != NULL &&
            pen_checkpointer_is_busy(training->checkpointer) &&
            step->votes[PEN_VOTE_SAVED] ==
                pen_transport_size(training->transport));
}

/*
 * Waits until the last step is validated, where something needs that. Wishes of
 * the step before are then those of the last one.
 */
static pen_status settle_step(struct pen__training *training, uint32_t *count,
                              struct pen_text *why)
{
    uint64_t done = pen_trainer_progress(training->trainer).steps;
    const struct pen_step *before = &training->steps[0];
    struct pen_step *last = &training->steps[*count];
    uint32_t more = 0;
    bool is_wished = *count > 0 && has_wishes(training, before);
    if (!is_wished && !is_pause(training, done))
        return PEN_OK;
    pen_status status = pen_trainer_settle(training->trainer, last, &more, why);
    for (int i = 0; i < PEN_VOTES && more > 0 && is_wished; i++)
        last->votes[i] = fmax(last->votes[i], before->votes[i]);
    *count += more;
    return status;
}

/*
 * Reports the `count` steps of a pass, which took `sec` each, after `done`
 * earlier steps.
 */
static pen_status report_steps(struct pen__training *training, uint32_t count,
                               uint64_t done, double sec, struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < count && status == PEN_OK; i++) {
        const struct pen_step *step = &training->steps[i];
        status = report_step(training, step,
                             step->step > done ? sec : training->last_sec, why);
    }
    training->last_sec = sec;
    return status;
}

/*
 * Takes one step, or as many as overlap before the pipeline has to be empty;
 * those that are known then are in training->steps.
 */
static pen_status train_pass(struct pen__training *training, uint32_t *count,
                             struct pen_text *why)
{
    struct pen__train_report *report = &training->report;
    uint64_t done = pen_trainer_progress(training->trainer).steps;
    pen_status status = set_pass(training, done, why);
    double begin = pen__train_report_clock(report);
    if (status != PEN_OK)
        return status;
    pen__train_watch_begin(&training->watch, done + 1);
    status = pen_trainer_pass(training->trainer, training->batches,
                              training->steps, count, why);
    if (status == PEN_OK)
        status = settle_step(training, count, why);
    if (pen_trainer_has_failed_alone(training->trainer) &&
        pen_transport_size(training->transport) > 1)
        pen_agree_alone(training->transport, status, "training", why);
    if (status != PEN_OK)
        return status;
    /* The ring may have led an island elsewhere; it took one step. */
    uint64_t taken = training->replicas.island != NULL
                         ? 1
                         : pen_trainer_progress(training->trainer).steps - done;
    double sec = (pen__train_report_clock(report) - begin) / (double)taken;
    pen__train_watch_end(&training->watch,
                         sec * training->layout.overlapping_steps);
    return report_steps(training, *count, done, sec, why);
}

/*
 * Compares replicas before a checkpoint, so that none is written of damaged
 * numbers.
 */
static pen_status verify(struct pen__training *training, uint64_t done,
                         uint64_t step, struct pen_text *why)
{
    uint64_t interval = training->args.verify_interval;
    if (training->verifier == NULL || done / interval == step / interval)
        return PEN_OK;
    pen__train_watch_note(&training->watch, PEN_BOARD_COMPUTING);
    return pen_verifier_check(training->verifier, step, why);
}

/*
 * Begins and collects checkpoints. All ranks do the same here: they know the
 * same votes.
 */
static pen_status look_after_checkpoints(struct pen__training *training,
                                         const struct pen_step *step,
                                         bool is_last)
{
    struct pen_checkpointer *checkpointer = training->checkpointer;
    double size = pen_transport_size(training->transport);
    pen_status status = PEN_OK;
    if (checkpointer == NULL)
        return PEN_OK;
    bool is_wanted = is_last || step->votes[PEN_VOTE_SAVE] > 0 ||
                     is_due(step->step, training->args.save_interval);
    pen__train_watch_note(&training->watch, PEN_BOARD_SAVING);
    if (pen_checkpointer_is_busy(checkpointer) &&
        step->votes[PEN_VOTE_SAVED] == size &&
        step->step - step->vote_delay > pen_checkpointer_step(checkpointer))
        status = pen_checkpointer_collect(checkpointer);
    if (status == PEN_OK && is_wanted &&
        pen_checkpointer_is_busy(checkpointer)) {
        struct pen_text why = PEN_TEXT_EMPTY;
        status =
            pen_checkpointer_settle(checkpointer, &why); /* which prints it */
        pen_text_release(&why);
    }
    if (is_wanted && status != PEN_LOST)
        status = pen_checkpointer_begin(checkpointer);
    if (status == PEN_LOST)
        return status;
    pen__train_watch_note(&training->watch, PEN_BOARD_COMPUTING);
    return PEN_OK;
}

/* Called after every step whose numbers have been found right. */
static pen_status keep_step(struct pen__training *training,
                            struct pen_text *why)
{
    if (training->commits == NULL)
        return PEN_OK;
    pen__train_watch_note(&training->watch, PEN_BOARD_SAVING);
    pen_status status = pen_commits_take(training->commits, why);
    if (status == PEN_LOST && !pen_transport_has_lost(training->transport)) {
        pen_commits_free(training->commits);
        training->commits = NULL;
        status = pen__train_held_missed(&training->held, why);
    }
    pen__train_watch_note(&training->watch, PEN_BOARD_COMPUTING);
    return status;
}

pen_status pen__training_settle(struct pen__training *training,
                                struct pen_text *why)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    if (training->checkpointer == NULL)
        return PEN_OK;
    pen__train_watch_note(&training->watch, PEN_BOARD_SAVING);
    pen_status status =
        pen_checkpointer_settle(training->checkpointer, &reason);
    if (status != PEN_OK && status != PEN_LOST)
        pen_why(why, "the last checkpoint was not written: %s",
                reason.length > 0 ? pen_text_string(&reason)
                                  : pen_status_text(status));
    pen_text_release(&reason);
    return status;
}

void pen__training_set_predictions(struct pen__training *training)
{
    struct pen__train_metrics *metrics = &training->metrics;
    const struct pen__train_report *report = &training->report;
    pen__train_metrics_set(metrics, PEN_METRIC_RANKS,
                           pen_transport_size(training->transport));
    pen__train_metrics_set(metrics, PEN_METRIC_MEMORY_PREDICTED,
                           (double)training->predicted_bytes);
    pen__train_metrics_set(metrics, PEN_METRIC_BUBBLE_PREDICTED,
                           report->has_bubble ? report->predicted_bubble
                                              : (double)NAN);
    if (training->held.settings.epoch == 0)
        return;
    pen__train_metrics_set(metrics, PEN_METRIC_EPOCH,
                           (double)training->held.settings.epoch);
    pen__train_metrics_set(metrics, PEN_METRIC_RESTARTS,
                           (double)training->held.settings.epoch - 1);
}

pen_status pen__training_save_kept(struct pen__training *training)
{
    const struct pen__train_args *args = &training->args;
    uint64_t done = pen_trainer_progress(training->trainer).steps;
    if (!training->held.is_unsaved || training->checkpointer == NULL ||
        (done < args->train_iters && !is_due(done, args->save_interval)))
        return PEN_OK;
    pen__train_watch_note(&training->watch, PEN_BOARD_SAVING);
    pen_status status = pen_checkpointer_begin(training->checkpointer);
    /* pen__training_settle() reports other failures to all ranks. */
    return status == PEN_LOST ? status : PEN_OK;
}

/* Makes all that depends on the layout, on this rank alone. */
static pen_status follow_move(struct pen__training *training,
                              const struct pen__train_move *move,
                              struct pen_text *why)
{
    pen_status status = pen__training_make_verifier(training, why);
    if (status == PEN_OK && training->checkpointer != NULL)
        status = pen_checkpointer_reload(training->checkpointer, why);
    if (status == PEN_OK && training->checkpointer != NULL)
        status = pen__training_join_folder(training, why);
    pen__train_watch_move(&training->watch, &move->layout,
                          pen_transport_rank(training->transport));
    return status;
}

static void report_move(struct pen__training *training,
                        const struct pen__train_move *move,
                        const struct pen_move_cost *cost)
{
    struct pen__train_report *report = &training->report;
    struct pen_trainer_memory memory;
    pen__training_predict_memory(training, &memory);
    report->predicted_bubble = move->layout.predicted_bubble;
    report->peak_flops = training->peak_flops * move->layout.num_ranks;
    pen__training_set_predictions(training);
    pen__train_report_move(report, cost);
    if (!training->is_first)
        return;
    pen__train_report_clear(report);
    pen__train_move_tell(move, cost);
}

/* Moves to the next layout. All ranks come here after the same step. */
static pen_status move_on(struct pen__training *training, uint64_t done,
                          struct pen_text *why)
{
    struct pen__train_move *move =
        pen__train_moves_take(&training->moves, done);
    struct pen_text reason = PEN_TEXT_EMPTY;
    struct pen_move_cost cost;
    if (move == NULL)
        return PEN_OK;
    pen__train_watch_note(&training->watch, PEN_BOARD_SAVING);
    pen_status settled = PEN_OK;
    if (training->checkpointer != NULL)
        settled = pen_checkpointer_settle(training->checkpointer, &reason);
    pen_text_release(&reason); /* settling has printed it */
    if (settled == PEN_LOST)
        return settled;
    if (training->checkpointer != NULL)
        pen_checkpointer_unload(training->checkpointer);
    pen_verifier_free(training->verifier);
    training->verifier = NULL;
    pen__train_watch_note(&training->watch, PEN_BOARD_PREPARING);
    struct pen_trainer_options to =
        pen__training_options(training, &move->layout, &move->args);
    pen_status status = pen_trainer_move(training->trainer, &to, &cost, why);
    if (status == PEN_OK)
        status = pen__training_agree(training, follow_move(training, move, why),
                                     "following a move", why);
    if (status == PEN_OK)
        report_move(training, move, &cost);
    return status;
}

pen_status pen__training_run(struct pen__training *training,
                             struct pen_text *why)
{
    uint64_t last = training->args.train_iters;
    bool is_saved = false;
    pen_status status = PEN_OK;
    while (pen_trainer_progress(training->trainer).steps < last &&
           status == PEN_OK && !training->is_stopped) {
        uint32_t count = 0;
        uint64_t done = pen_trainer_progress(training->trainer).steps;
        status = train_pass(training, &count, why);
        const struct pen_step *step =
            &training->steps[count > 0 ? count - 1 : 0];
        bool is_settled =
            count > 0 &&
            step->step == pen_trainer_progress(training->trainer).steps;
        if (status == PEN_OK && is_settled)
            status = verify(training, done, step->step, why);
        if (status == PEN_OK && is_settled)
            status = keep_step(training, why);
        pen__train_ring_explain(&training->ring, why);
        if (status != PEN_OK)
            return status;
        if (!is_settled)
            continue;
        training->is_stopped =
            step->votes[PEN_VOTE_STOP] > 0 && step->step < last;
        is_saved = training->is_stopped || step->step == last;
        status = look_after_checkpoints(training, step, is_saved);
        if (status == PEN_OK && !training->is_stopped)
            status = move_on(training, step->step, why);
    }
    /* The last round of an island may have been one that others made. */
    if (status == PEN_OK && !is_saved && training->checkpointer != NULL &&
        pen_trainer_replicas(training->trainer) != NULL &&
        pen_replicas_are_over(pen_trainer_replicas(training->trainer)) &&
        pen_checkpointer_begin(training->checkpointer) == PEN_LOST)
        status = PEN_LOST;
    pen__training_finish_commit(training);
    if (status == PEN_OK && pen_trainer_replicas(training->trainer) != NULL)
        status = pen_replicas_leave(pen_trainer_replicas(training->trainer));
    return status;
}

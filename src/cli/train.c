/*
 * penstock train: trains a network on text or images, in one process or as one
 * rank of many.
 */
#include "cli/cli.h"

#include "base/log.h"
#include "cli/train_checkpoint.h"
#include "cli/train_data.h"
#include "cli/train_replicas.h"
#include "cli/train_report.h"
#include "cli/train_signals.h"
#include "cli/train_start.h"
#include "cli/train_watch.h"
#include "runtime/peak.h"
#include "runtime/replicas_checkpoint.h"
#include "runtime/threads.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* What a training holds; all may be NULL. */
struct training {
    struct pen__train_args args;
    struct pen_launch launch;
    struct pen_transport *transport; /* of all ranks */
    struct pen__train_replicas replicas;
    bool is_first; /* of the ranks: this one talks */
    struct pen_pretrained pretrained;
    struct pen_checkpoint *resumed; /* of --load beside --model */
    struct pen_batches *batches;
    struct pen_batches *validation;
    struct pen__train_layout layout;
    struct pen__train_watch watch;
    struct pen_trainer *trainer;
    struct pen_checkpointer *checkpointer;
    struct pen_step *steps; /* of a pass */
    int threads;
    double peak_flops; /* of all ranks; NaN: not measured */
    struct pen__train_metrics metrics;
    struct pen__train_report report;
    struct pen__train_signals signals;
    bool is_stopped; /* before the last step */
};

/* ---- making ready ---- */

static pen_status open_data(struct training *training, struct pen_text *why)
{
    struct pen__train_args *args = &training->args;
    const struct pen_any_model *model = &training->pretrained.model;
    struct pen__data_wish wish = {.data_path = &args->data_path,
                                  .token_ids = args->token_ids,
                                  .split = args->split,
                                  .seq_length = args->seq_length,
                                  .seed = args->seed};
    pen_status status = pen__data_open(model, &wish, &training->batches, why);
    /* What was not given is a setting of the run, too. */
    if (status == PEN_OK && model->decoder != NULL && args->token_ids == NULL)
        args->seq_length = pen_batches_shape(training->batches).num_ids;
    if (status != PEN_OK || args->eval_interval == 0)
        return status;
    wish.is_evaluation = true;
    return pen__data_open(model, &wish, &training->validation, why);
}

static const struct pen_checkpoint *
checkpoint_of(const struct training *training)
{
    if (training->args.load == NULL)
        return NULL;
    return training->resumed != NULL ? training->resumed
                                     : training->pretrained.checkpoint;
}

/* The number of logical replicas is part of a run. */
static pen_status take_replicas(struct training *training, struct pen_text *why)
{
    struct pen__train_args *args = &training->args;
    const struct pen_checkpoint *checkpoint = checkpoint_of(training);
    if (checkpoint == NULL)
        return PEN_OK;
    uint64_t kept = checkpoint->manifest.num_replicas;
    if (args->logical_replicas != 0 && args->logical_replicas != kept) {
        pen_why(why,
                "%s is of a run with %" PRIu64
                " logical replicas: leave out --logical-replicas, or give it "
                "as --model to start anew from its weights",
                pen_text_string(&checkpoint->path), kept);
        return PEN_INVALID;
    }
    args->logical_replicas = kept;
    return PEN_OK;
}

/* Those of this replica. */
static struct pen_transport *own_ranks(const struct training *training)
{
    return pen__train_replicas_transport(&training->replicas,
                                         training->transport);
}

static pen_status make_layout(struct training *training, struct pen_text *why)
{
    pen_status status = take_replicas(training, why);
    if (status == PEN_OK)
        status = pen__train_replicas_init(&training->replicas, &training->args,
                                          &training->pretrained.model,
                                          training->transport, why);
    if (status == PEN_OK)
        status = pen__train_layout_init(
            &training->layout, &training->args, &training->pretrained.model,
            pen_batches_shape(training->batches).num_ids,
            pen_transport_size(own_ranks(training)), why);
    if (status == PEN_OK)
        status = pen__train_check_ranks(&training->args, &training->layout,
                                        &training->pretrained.model,
                                        training->transport, why);
    return status;
}

/* What this rank wants after the step, or after those that overlap. */
static void vote(void *context)
{
    struct training *training = context;
    struct pen_trainer *trainer = training->trainer;
    double limit_sec = 60 * training->args.exit_minutes;
    if (pen__train_signal_to_stop() != 0)
        pen_trainer_vote(trainer, PEN_VOTE_STOP);
    if (training->is_first &&
        pen__train_report_clock(&training->report) >= limit_sec)
        pen_trainer_vote(trainer, PEN_VOTE_STOP);
    if (pen__train_signal_to_save())
        pen_trainer_vote(trainer, PEN_VOTE_SAVE);
    if (training->checkpointer != NULL &&
        pen_checkpointer_is_busy(training->checkpointer) &&
        pen_checkpointer_is_over(training->checkpointer))
        pen_trainer_vote(trainer, PEN_VOTE_SAVED);
}

static pen_status make_trainer(struct training *training, struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    struct pen_trainer_options options = {
        .model = &training->pretrained.model,
        .sample = pen_batches_shape(training->batches),
        .engine = (enum pen_trainer_engine)args->engine,
        .is_bf16 = args->is_bf16,
        .threads = training->threads,
        .micro_batch = args->micro_batch_size,
        .global_batch = args->replica_batch,
        .recompute = (enum pen_recompute)args->recompute,
        .transport = own_ranks(training),
        .world = training->replicas.has_method ? training->transport : NULL,
        .schedule = training->layout.schedule,
        .parts = training->layout.parts,
        .correction = training->layout.correction,
        .logical_replicas = (uint32_t)args->logical_replicas,
        .is_sharded = args->is_sharded,
        .has_fast_sums = args->has_fast_sums,
        .has_sparse_sums = args->has_sparse_sums,
        .stage_code = args->stage_code,
        .sleeps = args->is_sleeping ? training->layout.costs.items : NULL,
        .watch = pen__train_watch_hooks(&training->watch),
        .vote = vote,
        .voter = training,
        .optimizer = args->numbers,
        .rates = args->schedule};
    pen_status status = pen_trainer_create(&options, &training->trainer, why);
    if (status != PEN_OK)
        return status;
    training->steps = calloc(pen_trainer_pass_steps(training->trainer),
                             sizeof *training->steps);
    return training->steps == NULL ? PEN_NOMEM : PEN_OK;
}

static pen_status set_weights(struct training *training, struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    const struct pen_weights *weights = training->pretrained.weights;
    if (args->load != NULL)
        return pen__train_resume(args, checkpoint_of(training),
                                 training->trainer, training->is_first, why);
    if (weights == NULL || args->has_random_weights)
        return pen_trainer_initialize(training->trainer, args->seed);
    return pen_trainer_load_weights(training->trainer, weights, why);
}

/* The model of --model, or else the one that the checkpoint has. */
static pen_status open_model(struct training *training, struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    if (args->load != NULL &&
        pen_checkpoint_kind_of(args->load) == PEN_CHECKPOINT_NONE) {
        pen_why(why,
                "--load: there is no checkpoint in %s; leave it out to start "
                "a run",
                args->load);
        return PEN_INVALID;
    }
    const char *source = args->model != NULL ? args->model : args->load;
    pen_status status = pen_pretrained_open(&training->pretrained, source, why);
    if (status == PEN_OK && args->load != NULL && args->model != NULL)
        status = pen_checkpoint_open(args->load, NULL, &training->resumed, why);
    return status;
}

/*
 * First of all, since this may start the program again to bind its threads.
 * The peak is measured before there is anything in memory beside it.
 */
static pen_status start_engine(struct training *training, struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    training->peak_flops = (double)NAN;
    if (args->engine != PEN_TRAINER_ONEDNN)
        return PEN_OK;
    struct pen_threads_options options =
        pen__train_threads(args, &training->launch);
    struct pen_threads threads;
    pen_status status = pen_threads_start(&options, &threads, why);
    if (status != PEN_OK)
        return status;
    training->threads = threads.count;
    return pen_peak_flops(args->is_bf16 ? PEN_PRECISION_BF16
                                        : PEN_PRECISION_F32,
                          threads.count, why, &training->peak_flops);
}

static pen_status make_checkpointer(struct training *training,
                                    struct pen_text *why)
{
    if (training->args.save == NULL)
        return PEN_OK;
    return pen__train_saver_create(&training->args, &training->pretrained,
                                   training->trainer, &training->checkpointer,
                                   why);
}

static pen_status make_ready(struct training *training, struct pen_text *why)
{
    pen_status status =
        pen__train_make_run(&training->args, training->is_first, why);
    if (status == PEN_OK)
        status = open_model(training, why);
    if (status == PEN_OK)
        status = open_data(training, why);
    if (status == PEN_OK)
        status = make_layout(training, why);
    if (status == PEN_OK)
        status = pen__train_watch_init(&training->watch, &training->args,
                                       &training->layout, &training->launch,
                                       training->transport, why);
    if (status == PEN_OK)
        status = make_trainer(training, why);
    if (status == PEN_OK)
        status = set_weights(training, why);
    if (status == PEN_OK)
        status = pen__train_replicas_join(&training->replicas, &training->args,
                                          pen_batches_epoch(training->batches),
                                          training->trainer, why);
    if (status == PEN_OK && training->replicas.has_method &&
        checkpoint_of(training) != NULL)
        status =
            pen_replicas_load(training->trainer, checkpoint_of(training), why);
    if (status == PEN_OK)
        status = make_checkpointer(training, why);
    pen_pretrained_close_weights(&training->pretrained);
    pen_checkpoint_close(training->resumed);
    training->resumed = NULL;
    return status;
}

static void release(struct training *training)
{
    pen__train_metrics_close(&training->metrics);
    pen_checkpointer_free(training->checkpointer);
    pen_trainer_free(training->trainer);
    pen__train_watch_release(&training->watch);
    free(training->steps);
    pen__train_layout_release(&training->layout);
    pen_batches_free(training->batches);
    pen_batches_free(training->validation);
    pen_pretrained_release(&training->pretrained);
    pen__train_args_release(&training->args);
    pen__train_signals_release(&training->signals);
    pen__train_replicas_release(&training->replicas);
    pen_transport_close(training->transport);
}

/* ---- memory ---- */

static size_t predict_memory(const struct training *training,
                             struct pen_trainer_memory *memory)
{
    const struct pen_checkpointer *checkpointer = training->checkpointer;
    size_t kept = 0, passing = 0;
    if (checkpointer != NULL) {
        kept = pen_checkpointer_bytes(checkpointer);
        passing = pen_checkpointer_passing_bytes(checkpointer);
    }
    pen_trainer_predict_memory(training->trainer, kept, passing, memory);
    return memory->total;
}

static void tell_memory(const struct training *training,
                        const struct pen_trainer_memory *memory)
{
    if (!training->is_first)
        return;
    pen_log(PEN_LOG_INFO,
            "%.1f M parameters; memory will be %.1f MB: parameters, gradients "
            "and moments %.1f, activations %.1f (logits %.1f), sums %.1f, "
            "snapshot %.1f, program %.1f, for a while %.1f",
            1e-6 * (double)pen_any_model_num_parameters(
                       &training->pretrained.model),
            PEN__MB(memory->total), PEN__MB(memory->parameters),
            PEN__MB(memory->activations), PEN__MB(memory->logits),
            PEN__MB(memory->exchange), PEN__MB(memory->snapshot),
            PEN__MB(memory->program), PEN__MB(memory->passing));
    if (memory->loading > memory->total)
        pen_log(PEN_LOG_INFO, "getting ready has taken %.1f MB",
                PEN__MB(memory->loading));
}

static void warn_of_bf16(const struct training *training)
{
    if (training->is_first && training->args.is_bf16 &&
        training->args.engine == PEN_TRAINER_ONEDNN &&
        !pen_engine_onednn_has_bf16())
        pen_log(PEN_LOG_WARN,
                "this processor has no bf16, and pretending is "
                "many times slower than f32: leave --bf16 out, or "
                "see penstock doctor");
}

/* ---- training ---- */

/* Each sample of the validation part once at most. */
static pen_status evaluate(struct training *training,
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

static void note_checkpoint(struct training *training)
{
    uint64_t step = 0;
    if (training->checkpointer != NULL)
        step = pen_checkpointer_durable_step(training->checkpointer);
    if (step > 0)
        pen__train_metrics_set(&training->metrics, PEN_METRIC_CHECKPOINT_STEP,
                               (double)step);
}

static pen_status report_step(struct training *training,
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
    if (status == PEN_OK)
        status = pen__train_report_step(&training->report, step, sec,
                                        &validation, why);
    return status;
}

static pen_status set_pass(struct training *training, uint64_t done,
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

/*
 * One step, or as many as overlap before the pipeline has to be empty; *last
 * is the last of them.
 */
static pen_status train_pass(struct training *training, struct pen_step *last,
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
                              training->steps, why);
    uint32_t count = pen_trainer_pass_steps(training->trainer);
    double sec = (pen__train_report_clock(report) - begin) / count;
    if (status == PEN_OK)
        status = pen__train_watch_end(
            &training->watch, sec * training->layout.overlapping_steps, why);
    for (uint32_t i = 0; i < count && status == PEN_OK; i++)
        status = report_step(training, &training->steps[i], sec, why);
    *last = training->steps[count - 1];
    return status;
}

/* All ranks do the same here: they know the same votes. */
static void look_after_checkpoints(struct training *training,
                                   const struct pen_step *step, bool is_last)
{
    struct pen_checkpointer *checkpointer = training->checkpointer;
    double size = pen_transport_size(training->transport);
    if (checkpointer == NULL)
        return;
    bool is_wanted = is_last || step->votes[PEN_VOTE_SAVE] > 0 ||
                     is_due(step->step, training->args.save_interval);
    pen__train_watch_note(&training->watch, PEN_BOARD_SAVING);
    if (pen_checkpointer_is_busy(checkpointer) &&
        step->votes[PEN_VOTE_SAVED] == size &&
        step->step - step->vote_delay > pen_checkpointer_step(checkpointer))
        pen_checkpointer_collect(checkpointer);
    if (is_wanted && pen_checkpointer_is_busy(checkpointer)) {
        struct pen_text why = PEN_TEXT_EMPTY;
        (void)pen_checkpointer_settle(checkpointer, &why); /* it was told */
        pen_text_release(&why);
    }
    if (is_wanted)
        pen_checkpointer_begin(checkpointer);
    pen__train_watch_note(&training->watch, PEN_BOARD_COMPUTING);
}

static pen_status settle(struct training *training, struct pen_text *why)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    if (training->checkpointer == NULL)
        return PEN_OK;
    pen__train_watch_note(&training->watch, PEN_BOARD_SAVING);
    pen_status status =
        pen_checkpointer_settle(training->checkpointer, &reason);
    if (status != PEN_OK)
        pen_why(why, "the last checkpoint was not written: %s",
                pen_text_string(&reason));
    pen_text_release(&reason);
    return status;
}

/* Steps until the end or a signal, with checkpoints between and behind. */
static pen_status run_steps(struct training *training, struct pen_text *why)
{
    uint64_t last = training->args.train_iters;
    pen_status status = PEN_OK;
    while (pen_trainer_progress(training->trainer).steps < last &&
           status == PEN_OK && !training->is_stopped) {
        struct pen_step step;
        status = train_pass(training, &step, why);
        if (status != PEN_OK)
            return status;
        training->is_stopped =
            step.votes[PEN_VOTE_STOP] > 0 && step.step < last;
        look_after_checkpoints(training, &step,
                               training->is_stopped || step.step == last);
    }
    if (pen_trainer_replicas(training->trainer) != NULL)
        pen_replicas_leave(pen_trainer_replicas(training->trainer));
    return settle(training, why);
}

static pen_status tell_end(struct training *training, size_t predicted,
                           struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    uint64_t done = pen_trainer_progress(training->trainer).steps;
    pen_status status =
        pen__train_tell_peaks(args, training->transport, predicted, why);
    if (training->is_first)
        pen__train_replicas_tell(training->trainer,
                                 done - training->report.first_step);
    pen__train_tell_sent(training->transport);
    if (!training->is_stopped || !training->is_first)
        return status;
    if (args->save != NULL)
        pen_log(PEN_LOG_INFO,
                "stopped after step %" PRIu64
                "; to go on, give the same options and --load %s",
                done, args->save);
    else
        pen_log(PEN_LOG_WARN,
                "stopped after step %" PRIu64
                "; nothing is kept, for there is no --save",
                done);
    return status;
}

static pen_status open_report(struct training *training, uint64_t done,
                              struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    struct pen__train_report *report = &training->report;
    pen_status status = pen__train_report_open(report, args, done, why);
    if (status != PEN_OK)
        return status;
    report->is_quiet = !training->is_first;
    report->unit = pen_batches_unit(training->batches);
    report->step_tokens = args->global_batch_size *
                          pen_batches_shape(training->batches).num_targets;
    uint64_t num_replicas = args->global_batch_size / args->replica_batch;
    report->step_flops =
        pen_trainer_step_flops(training->trainer) * (double)num_replicas;
    report->peak_flops =
        training->peak_flops * pen_transport_size(training->transport);
    report->has_bubble = pen_transport_size(training->transport) > 1;
    report->predicted_bubble = training->layout.predicted_bubble;
    report->metrics = &training->metrics;
    return PEN_OK;
}

static void set_predictions(struct training *training, size_t memory_bytes)
{
    struct pen__train_metrics *metrics = &training->metrics;
    const struct pen__train_report *report = &training->report;
    pen__train_metrics_set(metrics, PEN_METRIC_RANKS,
                           pen_transport_size(training->transport));
    pen__train_metrics_set(metrics, PEN_METRIC_MEMORY_PREDICTED,
                           (double)memory_bytes);
    pen__train_metrics_set(metrics, PEN_METRIC_BUBBLE_PREDICTED,
                           report->has_bubble ? report->predicted_bubble
                                              : (double)NAN);
}

static pen_status train(struct training *training, struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    struct pen_trainer_memory memory;
    uint64_t done = pen_trainer_progress(training->trainer).steps;
    if (done >= args->train_iters) {
        if (training->is_first)
            pen_log(PEN_LOG_INFO,
                    "nothing to do: the checkpoint has all %" PRIu64
                    " steps of --train-iters",
                    args->train_iters);
        return PEN_OK;
    }
    pen_status status = pen__train_agree(training->transport,
                                         open_report(training, done, why), why);
    if (status != PEN_OK) {
        pen__train_report_close(&training->report);
        return status;
    }
    size_t predicted = predict_memory(training, &memory);
    tell_memory(training, &memory);
    warn_of_bf16(training);
    set_predictions(training, predicted);
    training->signals.is_quiet = !training->is_first;
    status = pen__train_signals_watch(&training->signals);
    if (status == PEN_OK)
        status = run_steps(training, why);
    pen__train_report_close(&training->report);
    if (status == PEN_OK)
        status = tell_end(training, predicted, why);
    return status;
}

/* ---- the command ---- */

static pen_status start(struct training *training, struct pen_text *why)
{
    pen_status status = start_engine(training, why);
    if (status == PEN_OK)
        status =
            pen_transport_open(&training->launch, &training->transport, why);
    if (status != PEN_OK)
        return status;
    training->is_first = pen_transport_rank(training->transport) == 0;
    if (!training->is_first)
        training->args.log = training->args.tensorboard_dir =
            training->args.metrics_port = NULL;
    status = pen__train_agree(
        training->transport,
        pen__train_metrics_open(&training->metrics, &training->args, why), why);
    if (status != PEN_OK)
        return status;
    return pen__train_agree(training->transport, make_ready(training, why),
                            why);
}

/* Other ranks wait forever for one that stopped alone. */
static int fail(struct training *training, const struct pen_text *why)
{
    bool is_alone = training->trainer != NULL &&
                    pen_trainer_has_failed_alone(training->trainer);
    bool is_quiet = training->transport != NULL && !training->is_first &&
                    training->trainer != NULL && !is_alone;
    int code = PEN__EXIT_NO;
    if (!is_quiet && why->length > 0)
        code = pen__refuse(why);
    if (is_alone && pen_transport_size(training->transport) > 1)
        pen_transport_abort(training->transport, code);
    return code;
}

static int run(int argc, char **argv)
{
    struct training training = {.launch = pen_launch_read_own()};
    struct pen_text why = PEN_TEXT_EMPTY;
    int code = pen__train_args_parse(&training.args, argc, argv);
    if (code != PEN__EXIT_OK)
        return code;
    pen_status status = start(&training, &why);
    if (status == PEN_OK)
        status = train(&training, &why);
    if (status != PEN_OK)
        code = fail(&training, &why);
    else if (training.is_stopped && pen__train_signal_to_stop() == SIGINT)
        code = PEN__EXIT_STOPPED;
    release(&training);
    pen_text_release(&why);
    return code;
}

static int help(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    pen__train_help();
    return PEN__EXIT_OK;
}

const struct pen__command pen__train = {
    "train", "trains a network on text or images", run, help};

/*
 * penstock train: trains a network on text or images, in one process or as one
 * rank of many.
 */
#include "cli/program/cli.h"

#include "base/log.h"
#include "cli/train/check.h"
#include "cli/train/lost.h"
#include "cli/train/memory.h"
#include "cli/train/start.h"
#include "cli/train/training.h"
#include "host/peak.h"
#include "host/threads.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>

static void tell_memory(const struct pen__training *training,
                        const struct pen_trainer_memory *memory)
{
    if (!training->is_first)
        return;
    pen_log(PEN_LOG_INFO,
            "%.1f M parameters; memory will be %.1f MB: parameters, "
            "gradients and moments %.1f, activations %.1f (logits %.1f), "
            "sums %.1f, snapshot %.1f, program %.1f, temporary %.1f",
            1e-6 * (double)pen_any_model_num_parameters(
                       &training->pretrained.model),
            PEN__MB(memory->total), PEN__MB(memory->parameters),
            PEN__MB(memory->activations), PEN__MB(memory->logits),
            PEN__MB(memory->exchange), PEN__MB(memory->snapshot),
            PEN__MB(memory->program), PEN__MB(memory->passing));
    if (memory->loading > memory->total)
        pen_log(PEN_LOG_INFO, "the setup used up to %.1f MB",
                PEN__MB(memory->loading));
}

static void warn_of_engine(const struct pen__training *training)
{
    if (training->is_first && training->args.engine->is_for_tests)
        pen_log(PEN_LOG_WARN,
                "--engine %s is for tests of this program; use onednn or "
                "reference to train",
                training->args.engine_name);
}

/*
 * Says that gradients are kept: partial sums of several micro-batches stay on
 * the member that has them.
 */
static void tell_kept_gradients(const struct pen__training *training)
{
    if (training->is_first && training->args.sharding >= PEN_SHARDING_ZERO2 &&
        !pen_trainer_layout(training->trainer)->drops_gradients)
        pen_log(PEN_LOG_INFO,
                "every rank keeps whole gradients, as with --sharding zero1: "
                "%s shares them out among several replicas with one "
                "micro-batch and one logical replica each. Give a larger "
                "--micro-batch-size",
                pen_sharding_names[training->args.sharding]);
}

static void warn_of_bf16(const struct pen__training *training)
{
    if (training->is_first && training->args.is_bf16 &&
        training->args.engine->uses_threads && !pen_engine_onednn_has_bf16())
        pen_log(PEN_LOG_WARN,
                "this processor has no bf16 and emulates it, many times slower "
                "than f32; leave out --bf16, or see penstock doctor");
}

/*
 * Starts threads, first of all, since this may start the program again to bind
 * them.
 */
static pen_status start_threads(struct pen__training *training,
                                struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    struct pen_threads_options options =
        pen__train_threads(args, &training->launch);
    struct pen_threads threads = {.count = 0};
    if (!args->engine->uses_threads)
        return PEN_OK;
    pen_status status = pen_threads_start(&options, &threads, why);
    training->threads = threads.count;
    return status;
}

/* The peak is measured before anything else is in memory. */
static pen_status measure_peak(struct pen__training *training,
                               struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    training->peak_flops = 1e12 * args->peak_tflops;
    if (!args->engine->uses_threads || args->is_check ||
        isfinite(training->peak_flops))
        return PEN_OK;
    return pen_peak_flops(args->is_bf16 ? PEN_PRECISION_BF16
                                        : PEN_PRECISION_F32,
                          training->threads, why, &training->peak_flops);
}

static pen_status tell_end(struct pen__training *training)
{
    const struct pen__train_args *args = &training->args;
    uint64_t done = pen_trainer_progress(training->trainer).steps;
    pen_status status = pen__train_tell_peaks(args, training->transport,
                                              training->predicted_bytes);
    if (status == PEN_OK && training->is_first)
        pen__train_replicas_tell(training->trainer,
                                 done - training->report.first_step);
    if (status == PEN_OK)
        status = pen__train_tell_sent(training->transport);
    if (status != PEN_OK)
        return status;
    if (training->is_first && training->commits != NULL)
        pen_log(PEN_LOG_INFO,
                "each step was kept in memory, for which the next one waited "
                "%.1f ms",
                1e3 * pen_commits_seconds(training->commits));
    uint64_t redone = pen_trainer_num_redone(training->trainer);
    if (training->is_first && redone > 0)
        pen_log(PEN_LOG_INFO,
                "%" PRIu64 " steps were undone and done again, because their "
                "gradients had to be clipped",
                redone);
    if (training->is_first && args->texts.count > 0)
        pen_log(PEN_LOG_INFO,
                "to write with it: penstock generate --model %s --prompt A",
                args->save);
    if (!training->is_stopped || !training->is_first)
        return PEN_OK;
    if (args->save != NULL)
        pen_log(PEN_LOG_INFO,
                "stopped after step %" PRIu64
                "; to resume: penstock train --load %s",
                done, args->save);
    else
        pen_log(PEN_LOG_WARN,
                "stopped after step %" PRIu64
                "; no checkpoint was written, because --save is not given",
                done);
    return PEN_OK;
}

static pen_status open_report(struct pen__training *training, uint64_t done,
                              struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    struct pen__train_report *report = &training->report;
    pen_status status = pen__train_report_open(report, args, done, why);
    if (status == PEN_OK && args->probe != NULL && training->is_first)
        status = pen__train_probe_open(&training->probe, args->probe, why);
    if (status != PEN_OK)
        return status;
    report->is_quiet = !training->is_first;
    report->unit = pen_batches_unit(training->batches);
    bool is_island = training->replicas.island != NULL;
    uint64_t batch = is_island ? args->replica_batch : args->global_batch_size;
    report->step_tokens =
        batch * pen_batches_shape(training->batches).num_targets;
    uint64_t num_replicas = batch / args->replica_batch;
    report->step_flops =
        pen_trainer_step_flops(training->trainer) * (double)num_replicas;
    report->peak_flops =
        training->peak_flops * (training->replicas.has_method
                                    ? pen_transport_size(training->transport)
                                    : training->layout.num_ranks);
    report->has_bubble = pen_transport_size(training->transport) > 1;
    report->predicted_bubble = training->layout.predicted_bubble;
    report->metrics = &training->metrics;
    return PEN_OK;
}

/* Ends a run whose steps were all done before. */
static pen_status finish(struct pen__training *training, struct pen_text *why)
{
    if (training->is_first)
        pen_log(PEN_LOG_INFO,
                "nothing to do: the %s has all %" PRIu64
                " steps of --train-iters; give more to train further",
                training->args.ring != NULL ? "ring" : "checkpoint",
                training->args.train_iters);
    pen_status status = pen__training_save_kept(training);
    if (status == PEN_OK)
        status = pen__training_settle(training, why);
    return pen__training_agree(training, status, "writing the last checkpoint",
                               why);
}

static pen_status train(struct pen__training *training, struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    struct pen_trainer_memory memory;
    uint64_t done = pen_trainer_progress(training->trainer).steps;
    if (done >= args->train_iters)
        return finish(training, why);
    pen_status status = pen__training_agree(
        training, open_report(training, done, why), "opening the log", why);
    if (status != PEN_OK) {
        pen__train_report_close(&training->report);
        return status;
    }
    pen__training_predict_memory(training, &memory);
    tell_memory(training, &memory);
    warn_of_engine(training);
    tell_kept_gradients(training);
    warn_of_bf16(training);
    pen__training_set_predictions(training);
    training->signals.is_quiet = !training->is_first;
    status = pen__training_agree(training,
                                 pen__train_signals_watch(&training->signals),
                                 "making ready for signals", why);
    pen__train_watch_expect(&training->watch, training->report.step_flops,
                            training->report.peak_flops);
    if (status == PEN_OK)
        status = pen__training_save_kept(training);
    if (status == PEN_OK)
        status = pen__training_agree(training, pen__training_run(training, why),
                                     "training", why);
    if (status == PEN_OK)
        status =
            pen__training_agree(training, pen__training_settle(training, why),
                                "writing the last checkpoint", why);
    pen__train_report_close(&training->report);
    return status == PEN_OK ? tell_end(training) : status;
}

static int tell_check(const struct pen__training *training)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    uint32_t size = pen_transport_size(training->transport);
    if (!training->is_first)
        return PEN__EXIT_OK;
    pen__train_check_print(&training->args, &training->layout,
                           pen__training_stands_alone(training)
                               ? training->layout.num_ranks
                               : size,
                           &text);
    return pen__print(&text);
}

/*
 * Fails before ranks can agree: the launcher then ends all of them, and knows
 * no reason.
 */
static pen_status fail_early(const struct pen__training *training,
                             pen_status status, struct pen_text *why)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    uint32_t rank = training->launch.rank;
    /* One rank reports a wrong launcher; a late rank has been named. */
    if (status == PEN_INVALID || status == PEN_LATE)
        return status;
    if (rank != PEN_LAUNCH_UNKNOWN)
        pen_text_add(&reason, "rank %" PRIu32 ": ", rank);
    pen_text_add(&reason, "%s",
                 why->length > 0 ? pen_text_string(why)
                                 : pen_status_text(status));
    pen_text_release(why);
    *why = reason;
    return status;
}

/*
 * All ranks of the node meet at the board before MPI_Init. A failure to start
 * the engine is reported to the other ranks after that.
 */
static pen_status start(struct pen__training *training, struct pen_text *why)
{
    pen_status started = start_threads(training, why);
    pen_status status = pen__train_watch_start(
        &training->watch, &training->args, &training->launch, why);
    if (status != PEN_OK)
        return fail_early(training, status, why);
    if (started == PEN_OK)
        started = measure_peak(training, why);
    pen__train_watch_note(&training->watch, PEN_BOARD_JOINING);
    status = pen_transport_open(&training->launch, &training->transport, why);
    if (status != PEN_OK)
        return fail_early(training, status, why);
    if (started == PEN_OK)
        started =
            pen__train_watch_join(&training->watch, &training->args,
                                  &training->launch, training->transport, why);
    training->is_first = pen_transport_rank(training->transport) == 0;
    training->args.num_ranks = pen_transport_size(training->transport);
    if (!training->is_first)
        training->args.log = training->args.tensorboard_dir =
            training->args.metrics_port = NULL;
    status = pen__training_agree(training, started, "starting the engine", why);
    return status == PEN_OK ? pen__training_prepare(training, why) : status;
}

/* Refuses the run; the first rank has the reason. */
static int refuse(pen_status status, const struct pen_text *why)
{
    int code = pen__refuse(why);
    return status == PEN_DAMAGED ? PEN_EXIT_DAMAGED : code;
}

static int run(int argc, char **argv)
{
    struct pen__training training = {.launch = pen_launch_read_own(),
                                     .folder = PEN_RUN_FOLDER_NONE,
                                     .held = PEN__TRAIN_HELD_NONE};
    struct pen_text why = PEN_TEXT_EMPTY;
    uint32_t num_ranks = training.launch.launcher == PEN_LAUNCHER_NONE ? 1
                         : training.launch.size == PEN_LAUNCH_UNKNOWN
                             ? 0
                             : training.launch.size;
    int code = pen__train_args_parse(&training.args, num_ranks, argc, argv);
    if (code != PEN__EXIT_OK)
        return code;
    pen_status status = start(&training, &why);
    if (status == PEN_OK && training.args.is_check)
        code = tell_check(&training);
    else if (status == PEN_OK)
        status = train(&training, &why);
    if (status == PEN_OK && !training.is_stopped)
        pen__train_ring_leave(&training.ring);
    if (status == PEN_LOST)
        pen__end_lost(training.transport, training.watch.board,
                      training.watch.watchdog);
    if (status != PEN_OK)
        code = refuse(status, &why);
    if (status == PEN_LATE)
        code = PEN_EXIT_HANG;
    else if (status == PEN_OK && training.is_stopped &&
             pen__train_signal_to_stop() == SIGINT)
        code = PEN__EXIT_STOPPED;
    pen__training_release(&training,
                          status == PEN_OK && !training.args.is_check);
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

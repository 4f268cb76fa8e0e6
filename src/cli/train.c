/*
 * penstock train: one process that trains a network on text or images.
 */
#include "cli/cli.h"

#include "base/log.h"
#include "cli/train_checkpoint.h"
#include "cli/train_data.h"
#include "cli/train_layout.h"
#include "cli/train_options.h"
#include "cli/train_report.h"
#include "network/weights.h"
#include "runtime/peak.h"
#include "runtime/threads.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a training holds; all may be NULL. */
struct training {
    struct pen__train_args args;
    struct pen_pretrained pretrained;
    struct pen_checkpoint *resumed; /* of --load beside --model */
    struct pen_batches *batches;
    struct pen_batches *validation;
    struct pen_transport *transport;
    bool is_first; /* of the ranks: this one talks */
    struct pen__train_layout layout;
    struct pen_trainer *trainer;
    int threads;
    double peak_flops; /* NaN: not measured */
    struct pen__train_report report;
    void *signal_stack;
};

/* All registers, tiles included, are 12 kB. */
#define SIGNAL_STACK_BYTES ((size_t)64 << 10)

/* ---- signals ---- */

/*
 * A signal reaches the process, not an object, so this is at file scope. The
 * second signal of a kind ends the program as it always did.
 */
static volatile sig_atomic_t signal_seen;

static void note_signal(int number)
{
    static const char words[] =
        "\npenstock: finishing the step; once more to stop at once\n";
    signal_seen = number;
    ssize_t written = write(STDERR_FILENO, words, sizeof words - 1);
    (void)written;
}

/*
 * The handler has a stack of its own: while oneDNN multiplies, the stack
 * pointer may be in the heap, and a signal's frame there would overwrite what
 * lies below. Linux gives signals of the process to this thread, not to those
 * of the engine.
 */
static pen_status watch_signals(struct training *training)
{
    struct sigaction action = {.sa_handler = note_signal,
                               .sa_flags = (int)SA_RESETHAND | SA_ONSTACK};
    training->signal_stack = malloc(SIGNAL_STACK_BYTES);
    if (training->signal_stack == NULL)
        return PEN_NOMEM;
    const stack_t stack = {.ss_sp = training->signal_stack,
                           .ss_size = SIGNAL_STACK_BYTES};
    sigaltstack(&stack, NULL);
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return PEN_OK;
}

static void release_signal_stack(struct training *training)
{
    const stack_t none = {.ss_flags = SS_DISABLE};
    if (training->signal_stack != NULL)
        sigaltstack(&none, NULL);
    free(training->signal_stack);
}

/* ---- making ready ---- */

static pen_status open_data(struct training *training, struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    const struct pen_any_model *model = &training->pretrained.model;
    struct pen__data_wish wish = {.data_path = &args->data_path,
                                  .token_ids = args->token_ids,
                                  .split = args->split,
                                  .seq_length = args->seq_length,
                                  .seed = args->seed};
    pen_status status = pen__data_open(model, &wish, &training->batches, why);
    if (status != PEN_OK || args->eval_interval == 0)
        return status;
    wish.is_evaluation = true;
    return pen__data_open(model, &wish, &training->validation, why);
}

static pen_status make_layout(struct training *training, struct pen_text *why)
{
    return pen__train_layout_init(&training->layout, &training->args,
                                  &training->pretrained.model,
                                  pen_batches_shape(training->batches).num_ids,
                                  pen_transport_size(training->transport), why);
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
        .global_batch = args->global_batch_size,
        .recompute = (enum pen_recompute)args->recompute,
        .transport = training->transport,
        .schedule = training->layout.schedule,
        .parts = training->layout.parts,
        .logical_replicas = (uint32_t)args->logical_replicas,
        .is_sharded = args->is_sharded,
        .sleep_ns = args->sleep_ns,
        .optimizer = args->numbers,
        .rates = args->schedule};
    return pen_trainer_create(&options, &training->trainer, why);
}

static pen_status set_weights(struct training *training, struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    const struct pen_weights *weights = training->pretrained.weights;
    if (args->load != NULL)
        return pen__train_resume(args,
                                 training->resumed != NULL
                                     ? training->resumed
                                     : training->pretrained.checkpoint,
                                 training->trainer, why);
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
    struct pen_threads_options options = {.count = (int)args->threads};
    struct pen_threads threads;
    pen_status status = pen_threads_start(&options, &threads, why);
    if (status != PEN_OK)
        return status;
    training->threads = threads.count;
    return pen_peak_flops(args->is_bf16 ? PEN_PRECISION_BF16
                                        : PEN_PRECISION_F32,
                          threads.count, why, &training->peak_flops);
}

static pen_status make_ready(struct training *training, struct pen_text *why)
{
    pen_status status = start_engine(training, why);
    if (status == PEN_OK)
        status = pen_transport_open(&training->transport, why);
    training->is_first = training->transport != NULL &&
                         pen_transport_rank(training->transport) == 0;
    if (!training->is_first)
        training->args.log = training->args.tensorboard_dir = NULL;
    if (status == PEN_OK)
        status = open_model(training, why);
    if (status == PEN_OK)
        status = open_data(training, why);
    if (status == PEN_OK)
        status = make_layout(training, why);
    if (status == PEN_OK)
        status = make_trainer(training, why);
    if (status == PEN_OK)
        status = set_weights(training, why);
    pen_pretrained_close_weights(&training->pretrained);
    pen_checkpoint_close(training->resumed);
    training->resumed = NULL;
    return status;
}

static void release(struct training *training)
{
    pen_trainer_free(training->trainer);
    pen__train_layout_release(&training->layout);
    pen_batches_free(training->batches);
    pen_batches_free(training->validation);
    pen_pretrained_release(&training->pretrained);
    pen__train_args_release(&training->args);
    release_signal_stack(training);
    pen_transport_close(training->transport);
}

/* ---- training ---- */

#define MB(bytes) (1e-6 * (double)(bytes))

static size_t tell_memory(const struct training *training)
{
    const struct pen__train_args *args = &training->args;
    struct pen_trainer_memory memory;
    pen_trainer_predict_memory(training->trainer, args->save != NULL, &memory);
    if (!training->is_first)
        return memory.total;
    pen_log(PEN_LOG_INFO,
            "%.1f M parameters; memory will be %.1f MB: parameters, gradients "
            "and moments %.1f, activations %.1f (logits %.1f), program %.1f, "
            "for a while %.1f",
            1e-6 * (double)pen_any_model_num_parameters(
                       &training->pretrained.model),
            MB(memory.total), MB(memory.parameters), MB(memory.activations),
            MB(memory.logits), MB(memory.program), MB(memory.passing));
    return memory.total;
}

static void tell_peak(const struct training *training, size_t predicted)
{
    size_t peak = pen_memory_peak();
    if (peak > 0 && training->is_first)
        pen_log(PEN_LOG_INFO,
                "memory was %.1f MB at its peak, %+.1f %%; %.1f MB at the end",
                MB(peak), 100 * ((double)peak / (double)predicted - 1),
                MB(pen_memory_resident()));
}

/* Each sample of the validation part once at most. */
static pen_status evaluate(struct training *training,
                           struct pen_evaluation *out, struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    uint64_t count = pen_batches_epoch(training->validation);
    uint64_t wanted = args->eval_iters * args->global_batch_size;
    return pen_trainer_evaluate(training->trainer, training->validation,
                                wanted < count ? wanted : count, out, why);
}

static bool is_due(uint64_t step, uint64_t interval)
{
    return interval > 0 && step % interval == 0;
}

static pen_status train_step(struct training *training, struct pen_text *why)
{
    struct pen__train_report *report = &training->report;
    const struct pen__train_args *args = &training->args;
    struct pen_step step;
    struct pen_evaluation validation = {(double)NAN, (double)NAN};
    double begin = pen__train_report_clock(report);
    pen_status status =
        pen_trainer_step(training->trainer, training->batches, &step, why);
    double sec = pen__train_report_clock(report) - begin;
    if (status != PEN_OK)
        return status;
    if (training->validation != NULL &&
        (is_due(step.step, args->eval_interval) ||
         step.step == args->train_iters))
        status = evaluate(training, &validation, why);
    if (status == PEN_OK)
        status = pen__train_report_step(report, &step, sec, &validation, why);
    return status;
}

static pen_status save(struct training *training, struct pen_text *why)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = pen__train_save(&training->args, &training->pretrained,
                                        training->trainer, &reason);
    if (status != PEN_OK)
        pen_why(why, "no checkpoint was written: %s", pen_text_string(&reason));
    pen_text_release(&reason);
    return status;
}

/* Steps until the end or a signal, with checkpoints between and behind. */
static pen_status run_steps(struct training *training, struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    uint64_t done = pen_trainer_progress(training->trainer).steps;
    uint64_t saved = done;
    pen_status status = PEN_OK;
    while (done < args->train_iters && status == PEN_OK && signal_seen == 0) {
        status = train_step(training, why);
        done += status == PEN_OK;
        if (status == PEN_OK && is_due(done, args->save_interval)) {
            status = save(training, why);
            saved = done;
        }
    }
    if (status == PEN_OK && args->save != NULL && saved < done)
        status = save(training, why);
    return status;
}

static void tell_end(struct training *training, size_t predicted)
{
    const struct pen__train_args *args = &training->args;
    uint64_t done = pen_trainer_progress(training->trainer).steps;
    tell_peak(training, predicted);
    if (signal_seen == 0 || !training->is_first)
        return;
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
}

static pen_status train(struct training *training, struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    struct pen__train_report *report = &training->report;
    uint64_t done = pen_trainer_progress(training->trainer).steps;
    if (done >= args->train_iters) {
        pen_log(PEN_LOG_INFO,
                "nothing to do: the checkpoint has all %" PRIu64
                " steps of --train-iters",
                args->train_iters);
        return PEN_OK;
    }
    pen_status status = pen__train_report_open(report, args, done, why);
    if (status != PEN_OK)
        return status;
    report->is_quiet = !training->is_first;
    report->unit = pen_batches_unit(training->batches);
    report->step_tokens = args->global_batch_size *
                          pen_batches_shape(training->batches).num_targets;
    report->step_flops = pen_trainer_step_flops(training->trainer);
    report->peak_flops = training->peak_flops;
    size_t predicted = tell_memory(training);
    status = watch_signals(training);
    if (status == PEN_OK)
        status = run_steps(training, why);
    pen__train_report_close(report);
    if (status == PEN_OK)
        tell_end(training, predicted);
    return status;
}

static int run(int argc, char **argv)
{
    struct training training = {0};
    struct pen_text why = PEN_TEXT_EMPTY;
    int code = pen__train_args_parse(&training.args, argc, argv);
    if (code != PEN__EXIT_OK)
        return code;
    pen_status status = make_ready(&training, &why);
    if (status == PEN_OK)
        status = train(&training, &why);
    if (status != PEN_OK)
        code = pen__refuse(&why);
    else if (signal_seen != 0)
        code = 128 + (int)signal_seen;
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
